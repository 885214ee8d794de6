"""Every row of the CUDA tables: ops at the ends of their ranges, against NumPy and Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from cuda_programs import parallel, parse, program
from cuda_shim import COMPILER, run_on_shim
from xdsl.dialects import arith, math

from tenon.lowering.cuda.tables import FLOAT_EXPRESSIONS

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")

FLOATING_ORACLES: dict[str, Callable[..., Any]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "negf": np.negative,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "absf": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "erf": scipy.special.erf,
    "exp": np.exp,
    "exp2": np.exp2,
    "fma": lambda x, y, z: x * y + z,
    "log": np.log,
    "powf": np.power,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "roundeven": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
EXTREMES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1.0, -1.0, 3.25, -7.75, np.inf, -np.inf, np.nan]


@needs_compiler
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floating_point_ops(kind: str) -> None:
    """Every op of the table, at all pairs of notable values."""
    values = np.array(EXTREMES, np.float32 if kind == "f32" else np.float64)
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    size = len(x)
    lines = [f"%x = memref.load %a0[%i] : memref<{size}x{kind}>", f"%y = memref.load %a1[%i] : memref<{size}x{kind}>"]
    names = [op.name for op in FLOAT_EXPRESSIONS if op is not math.FPowIOp]
    for number, name in enumerate(names):
        arity = 3 if name == "math.fma" else 2 if issubclass(op_named(name), BINARY) else 1
        lines += [
            f"%v{number} = {name} {', '.join(['%x', '%y', '%x'][:arity])} : {kind}",
            f"memref.store %v{number}, %r{number}[%i] : memref<{size}x{kind}>",
        ]
    kernel = parallel({"i": size}, "\n".join(lines))
    outputs = run_on_shim(parse(program([f"{size}x{kind}"] * 2, [f"{size}x{kind}"] * len(names), kernel)), [x, y])
    with np.errstate(all="ignore"):
        for name, result in zip(names, outputs, strict=True):
            short = name.split(".")[1]
            oracle = FLOATING_ORACLES.get(short) or getattr(np, short)
            arguments = [x, y, x][: oracle.nin if isinstance(oracle, np.ufunc) else oracle.__code__.co_argcount]
            tolerance = 2e-6 if kind == "f32" else 1e-14
            np.testing.assert_allclose(result, oracle(*arguments), rtol=tolerance, atol=tolerance, err_msg=name)


BINARY = (
    arith.FloatingPointLikeBinaryOperation,
    math.FloatingPointLikeBinaryMathOperation,
)


def op_named(name: str) -> type:
    return next(op for op in FLOAT_EXPRESSIONS if op.name == name)


COMPARISONS = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")


@needs_compiler
def test_floating_point_comparisons() -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(np.array([1, 2, np.nan], np.float32), np.array([1, 2, np.nan], "f4")))
    lines = ["%x = memref.load %a0[%i] : memref<9xf32>", "%y = memref.load %a1[%i] : memref<9xf32>"]
    for number, name in enumerate(COMPARISONS):
        lines += [
            f"%v{number} = arith.cmpf {name}, %x, %y : f32",
            f"memref.store %v{number}, %r{number}[%i] : memref<9xi1>",
        ]
    text = program(["9xf32"] * 2, ["9xi1"] * len(COMPARISONS), parallel({"i": 9}, "\n".join(lines)))
    either_nan = np.isnan(x) | np.isnan(y)
    ordered = {"eq": x == y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y, "ne": (x != y) & ~either_nan}
    for name, result in zip(COMPARISONS, run_on_shim(parse(text), [x, y]), strict=True):
        if name in ("ord", "uno"):
            expected = either_nan ^ (name == "ord")
        else:
            expected = ordered[name[1:]] | (either_nan & (name[0] == "u"))
        np.testing.assert_array_equal(result, expected, err_msg=name)


def signed(value: int, width: int) -> int:
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# On Python's integers: signed operands, then the same two as unsigned numbers, then the width.
INTEGER_ORACLES: dict[str, Callable[[int, int, int, int, int], int]] = {
    "arith.addi": lambda a, b, u, v, w: a + b,
    "arith.subi": lambda a, b, u, v, w: a - b,
    "arith.muli": lambda a, b, u, v, w: a * b,
    "arith.divsi": lambda a, b, u, v, w: truncated(a, b) if b else 0,
    "arith.remsi": lambda a, b, u, v, w: a - b * truncated(a, b) if b else 0,
    "arith.floordivsi": lambda a, b, u, v, w: a // b if b else 0,
    "arith.ceildivsi": lambda a, b, u, v, w: -(-a // b) if b else 0,
    "arith.divui": lambda a, b, u, v, w: u // v if v else 0,
    "arith.remui": lambda a, b, u, v, w: u % v if v else 0,
    "arith.ceildivui": lambda a, b, u, v, w: -(-u // v) if v else 0,
    "arith.andi": lambda a, b, u, v, w: a & b,
    "arith.ori": lambda a, b, u, v, w: a | b,
    "arith.xori": lambda a, b, u, v, w: a ^ b,
    "arith.shli": lambda a, b, u, v, w: a << v if v < w else 0,
    "arith.shrui": lambda a, b, u, v, w: u >> v if v < w else 0,
    "arith.shrsi": lambda a, b, u, v, w: a >> min(v, w - 1),
    "arith.maxsi": lambda a, b, u, v, w: max(a, b),
    "arith.minsi": lambda a, b, u, v, w: min(a, b),
    "arith.maxui": lambda a, b, u, v, w: max(u, v),
    "arith.minui": lambda a, b, u, v, w: min(u, v),
    "math.ipowi": lambda a, b, u, v, w: pow(a, b, 1 << w) if b >= 0 else {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0),
    "math.absi": lambda a, b, u, v, w: abs(a),
    "math.ctpop": lambda a, b, u, v, w: u.bit_count(),
    "math.ctlz": lambda a, b, u, v, w: w - u.bit_length(),
    "math.cttz": lambda a, b, u, v, w: (u & -u).bit_length() - 1 if u else w,
    "arith.cmpi eq,": lambda a, b, u, v, w: a == b,
    "arith.cmpi ne,": lambda a, b, u, v, w: a != b,
    "arith.cmpi slt,": lambda a, b, u, v, w: a < b,
    "arith.cmpi sle,": lambda a, b, u, v, w: a <= b,
    "arith.cmpi sgt,": lambda a, b, u, v, w: a > b,
    "arith.cmpi sge,": lambda a, b, u, v, w: a >= b,
    "arith.cmpi ult,": lambda a, b, u, v, w: u < v,
    "arith.cmpi ule,": lambda a, b, u, v, w: u <= v,
    "arith.cmpi ugt,": lambda a, b, u, v, w: u > v,
    "arith.cmpi uge,": lambda a, b, u, v, w: u >= v,
}
NOT_ON_BITS = ("shli", "shrui", "shrsi", "floordivsi", "ceildivsi", "ceildivui", "ipowi", "ctpop", "ctlz", "cttz")
UNARY = ("math.absi", "math.ctpop", "math.ctlz", "math.cttz")


@needs_compiler
@pytest.mark.parametrize("width", [1, 8, 16, 32, 64])
def test_integer_ops(width: int) -> None:
    """Every op of the table at the ends of the range: nothing traps, everything wraps around."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    values = sorted({low, -1, 0} if width == 1 else {low, low + 1, -7, -2, -1, 0, 1, 2, 3, width - 1, width, high})
    pairs = [(a, b) for a in values for b in values]
    names = [name for name in INTEGER_ORACLES if width > 1 or not name.endswith(NOT_ON_BITS)]
    size, kind = len(pairs), f"i{width}"
    lines = [f"%x = memref.load %a0[%i] : memref<{size}x{kind}>", f"%y = memref.load %a1[%i] : memref<{size}x{kind}>"]
    results = ["i1" if "cmpi" in name else kind for name in names]
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        lines += [
            f"%v{number} = {name} {'%x' if name in UNARY else '%x, %y'} : {kind}",
            f"memref.store %v{number}, %r{number}[%i] : memref<{size}x{result}>",
        ]
    text = program(
        [f"{size}x{kind}"] * 2, [f"{size}x{result}" for result in results], parallel({"i": size}, "\n".join(lines))
    )
    dtype = np.dtype(bool if width == 1 else f"int{width}")
    inputs = [np.array([pair[side] for pair in pairs]).astype(dtype) for side in (0, 1)]
    for name, result, output in zip(names, results, run_on_shim(parse(text), inputs), strict=True):
        bits = 1 if result == "i1" else width
        for (a, b), value in zip(pairs, output.tolist(), strict=True):
            expected = signed(int(INTEGER_ORACLES[name](a, b, a % (1 << width), b % (1 << width), width)), bits)
            assert int(value) == (abs(expected) if bits == 1 else expected), f"{name} {a}, {b}"


@needs_compiler
def test_conversions() -> None:
    """Floats to integers saturate, NaN becomes zero; true extends to -1 or 1."""
    x = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, 200.9, -200.9, -0.9, 2147483520.0], np.float32)
    integers = ["i8", "i16", "i32", "i64"]
    lines = ["%x = memref.load %a0[%i] : memref<9xf32>", "%t = arith.cmpf ogt, %x, %c : f32"]
    for number, kind in enumerate(integers):
        lines += [
            f"%s{number} = arith.fptosi %x : f32 to {kind}",
            f"%u{number} = arith.fptoui %x : f32 to {kind}",
            f"memref.store %s{number}, %r{2 * number}[%i] : memref<9x{kind}>",
            f"memref.store %u{number}, %r{2 * number + 1}[%i] : memref<9x{kind}>",
        ]
    casts = [
        ("arith.extsi %t : i1 to i32", "i32"),
        ("arith.extui %t : i1 to i32", "i32"),
        ("arith.sitofp %t : i1 to f32", "f32"),
        ("arith.uitofp %s0 : i8 to f64", "f64"),
        ("arith.trunci %s2 : i32 to i8", "i8"),
        ("arith.trunci %s2 : i32 to i1", "i1"),
        ("arith.bitcast %x : f32 to i32", "i32"),
        ("arith.truncf %x : f32 to bf16", "bf16"),
    ]
    for number, (cast, kind) in enumerate(casts):
        lines += [f"%k{number} = {cast}", f"memref.store %k{number}, %r{8 + number}[%i] : memref<9x{kind}>"]
    outputs = [f"9x{kind}" for kind in integers for _ in range(2)] + [f"9x{kind}" for _, kind in casts]
    kernel = "%c = arith.constant 0.0 : f32\n" + parallel({"i": 9}, "\n".join(lines))
    results = run_on_shim(parse(program(["9xf32"], outputs, kernel)), [x])
    exact = [0.0 if np.isnan(v) else float(np.trunc(np.float64(v))) for v in x]
    saturated = lambda low, high: [int(min(max(v, low), high)) for v in exact]  # noqa: E731
    for number, width in enumerate((8, 16, 32, 64)):
        assert results[2 * number].tolist() == saturated(-(1 << (width - 1)), (1 << (width - 1)) - 1)
        unsigned = saturated(0, (1 << width) - 1)
        assert results[2 * number + 1].tolist() == [signed(value, width) for value in unsigned]
    positive = x > 0
    assert results[8].tolist() == (-positive.astype(int)).tolist()
    assert results[9].tolist() == positive.astype(int).tolist()
    assert results[10].tolist() == (-positive.astype(float)).tolist()
    assert results[11].tolist() == results[0].view(np.uint8).astype(float).tolist()
    assert results[12].tolist() == results[4].astype(np.int8).tolist()
    assert results[13].tolist() == (results[4] & 1 != 0).tolist()
    np.testing.assert_array_equal(results[14], x.view(np.int32))
    np.testing.assert_array_equal(results[15].astype(np.float32), x.astype(ml_dtypes.bfloat16).astype(np.float32))
