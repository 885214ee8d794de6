"""`arith` and `math` mean one thing: the interpreter, LLVM on scalars and on vectors, and CUDA text give what tables
say, at the ends of the ranges of each type. Each op that emission knows is in a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from arithmetic_tables import (
    CONVERSIONS,
    DTYPES,
    EITHER_ZERO,
    FLOAT_COMPARISONS,
    FLOAT_OPS,
    FLOATS,
    FUNCTIONS,
    INTEGER_OPS,
    INTEGERS,
    TOLERANCE,
    UNARY_ON_INTEGERS,
    Array,
    bits_of,
    converts,
)
from cuda_programs import program
from cuda_shim import COMPILER, ShimExecutable, load_on_shim
from loop_kernels import parse as parse_loops
from loop_programs import aligned_arena, call, load, parse
from xdsl.context import Context

from tenon.dialects.interpreter import interpreter
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.lowering.cuda import emit_cuda, kernel_writer
from tenon.lowering.llvm.emit_llvm import HANDLERS
from tenon.lowering.math.legalize_arith import ENDED, IN_F32, LegalizeArithPass

LANES = 16


@dataclass(frozen=True)
class Use:
    """One op on `%x` and `%y`, whose type is `T` in the text, and what it gives, of type `D`."""

    text: str
    results: tuple[str, ...]
    expected: tuple[Array, ...]
    tolerance: float = 0.0

    @property
    def ops(self) -> set[str]:
        return set(re.findall(r"\b(?:arith|math)\.\w+", self.text))

    def lines(self, number: int, element: str, lanes: int | None) -> str:
        """The ops that define `%v{number}_0` and so on."""

        def kind(of: str) -> str:
            return f"vector<{lanes}x{of}>" if lanes else of

        kinds = {"T": kind(element), "B": kind("i1"), "D": kind(self.results[0]), "I": kind("index")}
        results = ", ".join(f"%v{number}_{place}" for place in range(len(self.results)))
        text = self.text if "R = " in self.text else f"R = {self.text}"
        text = re.sub(r"\b([TBDI])\b", lambda found: kinds[found[1]], text.replace("R = ", f"{results} = "))
        text = re.sub(r"K\((.*?)\)", r"dense<\1>" if lanes else r"\1", text)
        return re.sub(r"%([ken])\b", rf"%\g<1>{number}", text)


def edges(element: str) -> Array:
    """The numbers at the ends of a type's range, and between."""
    dtype = DTYPES[element]
    if element == "i1":
        return np.array([False, True])
    if element in INTEGERS:
        width = bits_of(element)
        low, high = -(1 << width - 1), (1 << width - 1) - 1
        places = [1 << place for place in (11, 24, 53) if place < width - 1]
        near = [sign * (place + step) for place in places for step in (-1, 1) for sign in (1, -1)]
        return np.array(sorted({low, low + 1, -7, -2, -1, 0, 1, 2, 3, width - 1, width, high, *near}), dtype)
    kind = ml_dtypes.finfo(dtype)
    ends = [float(kind.max), float(kind.smallest_normal), float(kind.smallest_subnormal), 1 + float(kind.eps)]
    numbers = [0.5, 1.0, 1.5, 2.5, 3.25, 127.5, 128.0, 255.5, *ends]
    if element in ("f32", "f64"):
        # Ends of integers, and ties of narrower types with something below.
        numbers += [2.0**31, 2.0**63, 2.0**64, 1 + 2.0**-11, 1 + 2.0**-8 + 2.0**-20, 65520.0, 3e-8]
    if element == "f64":
        numbers += [2.0**31 - 0.5, 2.0**32 - 1, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 - 2.0**-50, 2.0**-134, 1e300]
    return np.array([*[sign * number for number in [0.0, *numbers, math.inf] for sign in (1, -1)], math.nan], dtype)


@cache
def operands(element: str) -> tuple[Array, Array]:
    """All pairs of edges, as many as fill vectors."""
    values = edges(element)
    size = -(-(len(values) ** 2) // LANES) * LANES
    return np.resize(values, size), np.resize(values.repeat(len(values)), size)


def wrapped(values: Sequence[Any], element: str) -> Array:
    """Integers as numbers of a type, without the bits above; floats as they are."""
    if element in FLOATS:
        return np.array(values, np.float64).astype(DTYPES[element])
    width = bits_of(element)
    return np.array([int(value) % (1 << width) for value in values], f"u{max(width // 8, 1)}").view(DTYPES[element])


def integer_uses(element: str) -> list[Use]:
    width = bits_of(element)
    x, y = ([-int(v) if element == "i1" else int(v) for v in side] for side in operands(element))
    found = []
    for name, function in INTEGER_OPS.items():
        values = [function(a, b, a % (1 << width), b % (1 << width), width) for a, b in zip(x, y, strict=True)]
        results = ("i1",) if "cmpi" in name else (element, "i1") if "addui" in name else (element,) * 2
        columns = list(zip(*values, strict=True)) if isinstance(values[0], tuple) else [values]
        expected = tuple(wrapped(column, kind) for column, kind in zip(columns, results, strict=False))
        arguments = "%x" if name in UNARY_ON_INTEGERS else "%x, %y"
        suffix = ", B" if "addui" in name else ""
        found.append(Use(f"{name} {arguments} : T{suffix}", results[: len(expected)], expected))
    low, (left, right) = edges(element)[0], operands(element)
    choice = (
        f"%k = arith.constant K({int(low)}) : T\n%e = arith.cmpi eq, %x, %y : T\nR = arith.select %e, %x, %k : B, T"
    )
    found.append(Use(choice, (element,), (np.where(left == right, left, low),)))
    return [*found, *conversions(element), *bitcasts(element)]


def float_uses(element: str) -> list[Use]:
    x, y = operands(element)
    wide = [side.astype(np.float32) if x.itemsize == 2 else side for side in (x, y)]
    found = []
    for table in (FLOAT_OPS, FUNCTIONS):
        for name, function in table.items():
            arity = function.__code__.co_argcount
            expected = np.asarray(function(*[*wide, wide[0]][:arity])).astype(x.dtype)
            arguments = ", ".join(["%x", "%y", "%x"][:arity])
            found.append(
                Use(f"{name} {arguments} : T", (element,), (expected,), (table is FUNCTIONS) * TOLERANCE[element])
            )
    order = [x < y, x == y, x > y, np.isnan(x) | np.isnan(y)]
    for predicate, holds in FLOAT_COMPARISONS.items():
        expected = np.any([which for which, held in zip(order, holds, strict=True) if held] or [x != x], axis=0)
        expected &= any(holds)
        found.append(Use(f"arith.cmpf {predicate}, %x, %y : T", ("i1",), (expected,)))
    return [*found, *conversions(element), *bitcasts(element)]


def conversions(element: str) -> list[Use]:
    size, width = len(operands(element)[0]), bits_of(element)
    numbers = [float(v) if element in FLOATS else -int(v) if element == "i1" else int(v) for v in edges(element)]
    found = []
    for name, (_, _, convert) in CONVERSIONS.items():
        for target in DTYPES:
            if converts(name, element, target):
                values = [convert(a, int(a) % (1 << width) if element in INTEGERS else 0, target) for a in numbers]
                found.append(Use(f"{name} %x : T to D", (target,), (np.resize(wrapped(values, target), size),)))
    return found


def bitcasts(element: str) -> list[Use]:
    x = operands(element)[0]
    uses = [
        Use("arith.bitcast %x : T to D", (target,), (x.view(dtype),))
        for target, dtype in DTYPES.items()
        if dtype.itemsize == x.itemsize and (target in FLOATS) != (element in FLOATS) and element != "i1" != target
    ]
    if element in INTEGERS[1:]:
        there = "%n = arith.index_cast %x : T to I\nR = arith.index_cast %n : I to D"
        uses.append(Use(there, ("i64",), (x.astype(np.int64),)))
    return uses


@cache
def uses(element: str) -> list[Use]:
    with np.errstate(all="ignore"):
        return integer_uses(element) if element in INTEGERS else float_uses(element)


def text_of(element: str, lanes: int | None) -> str:
    """A program that does with all pairs of edges what can be done."""
    size, step = len(operands(element)[0]), lanes or 1
    vector = f", vector<{lanes}x{{}}>" if lanes else ""
    load, store = ("vector.load", "vector.store") if lanes else ("memref.load", "memref.store")
    body = [
        f"%{name} = {load} %a{place}[%i] : memref<{size}x{element}>{vector.format(element)}"
        for place, name in enumerate("xy")
    ]
    outputs: list[str] = []
    for number, use in enumerate(uses(element)):
        body.append(use.lines(number, element, lanes))
        for place, kind in enumerate(use.results):
            target = f"%r{len(outputs)}[%i] : memref<{size}x{kind}>{vector.format(kind)}"
            body.append(f"{store} %v{number}_{place}, {target}")
            outputs.append(f"{size}x{kind}")
    loop = "\n".join([f"scf.for %i = %c0 to %c{size} step %c{step} {{", *body, "}"])
    return program([f"{size}x{element}"] * 2, outputs, loop)


def empty_outputs(element: str) -> list[Array]:
    size = len(operands(element)[0])
    return [np.zeros(size, DTYPES[kind]) for use in uses(element) for kind in use.results]


def by_interpreter(element: str, *, after: bool) -> list[Array]:
    module, outputs = parse(text_of(element, LANES)), empty_outputs(element)
    if after:
        LegalizeArithPass().apply(Context(), module)
        module.verify()
    Interpreter().run(module, "main", [*operands(element), *outputs, np.zeros(0, np.int8)])
    return outputs


def by_llvm(element: str, lanes: int | None) -> list[Array]:
    from tenon.lowering.math.expand_math import ExpandMathPass

    module, outputs = parse(text_of(element, lanes)), empty_outputs(element)
    ExpandMathPass().apply(Context(), module)
    call(load(module), [*operands(element), *outputs, aligned_arena(0)])
    return outputs


@cache
def executables() -> dict[str, ShimExecutable]:
    """All programs as CUDA text, compiled at once."""
    return dict(zip(DTYPES, load_on_shim([parse(text_of(element, None)) for element in DTYPES]), strict=True))


RUNNERS: dict[str, Callable[[str], list[Array]]] = {
    "interpreter": lambda element: by_interpreter(element, after=False),
    "interpreter-after-pass": lambda element: by_interpreter(element, after=True),
    "llvm": lambda element: by_llvm(element, None),
    "llvm-vectors": lambda element: by_llvm(element, LANES),
    "cuda": lambda element: executables()[element](operands(element)),
}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("element", DTYPES)
def test_ops_give_what_the_tables_say(element: str, runner: str) -> None:
    if runner == "cuda" and COMPILER is None:
        pytest.skip("the host shim needs g++")
    outputs = iter(RUNNERS[runner](element))
    wrong = []
    for use in uses(element):
        for expected, kind in zip(use.expected, use.results, strict=True):
            result = next(outputs)
            if (element, *use.ops) == ("f64", "math.fma") and "interpreter" in runner:
                continue  # NumPy has none: it is rounded twice there
            right = agrees(result, expected, use, kind)
            if not right.all():
                where = int(np.argmin(right))
                x, y = (side[where] for side in operands(element))
                wrong.append(f"{use.text} of {x}, {y}: {result[where]}, not {expected[where]} ({(~right).sum()} wrong)")
    assert not wrong, "\n".join(wrong)


def agrees(result: Array, expected: Array, use: Use, kind: str) -> Array:
    """Where a result is what it should be: the same number, to the sign of zeros, or NaN as well."""
    if kind not in FLOATS:
        return result == expected
    result, expected = result.astype(np.float64), expected.astype(np.float64)
    if use.tolerance:
        return np.isclose(result, expected, use.tolerance, use.tolerance, equal_nan=True)
    same = (result == expected) & (np.signbit(result) == np.signbit(expected))
    return (
        same | (np.isnan(result) & np.isnan(expected)) | ((result == 0) & (expected == 0) & bool(use.ops & EITHER_ZERO))
    )


EXPANDED = {"math.fpowi"}
"""What `expand-math` ends on the CPU."""


def test_powers_of_indices() -> None:
    text = """
func.func @main(%out0: memref<1xindex>, %arena: memref<0xi8>) attributes {num_inputs = 0 : i64, num_outputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %a = arith.constant 3 : index
  %b = arith.constant 5 : index
  %y = math.ipowi %a, %b : index
  memref.store %y, %out0[%zero] : memref<1xindex>
  func.return
}"""
    out = np.zeros(1, np.int64)
    call(load(parse(text)), (out, np.empty(0, np.int8)))
    assert out[0] == 243


def test_products_of_halves_in_groups_are_refused() -> None:
    text = """
func.func @main(%x: memref<4x2xf16>, %out0: memref<4xf16>, %arena: memref<0xi8>)
    attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %v = vector.load %x[%zero, %zero] : memref<4x2xf16>, vector<4x2xf16>
  %acc = vector.load %out0[%zero] : memref<4xf16>, vector<4xf16>
  %y = vector.contract {indexing_maps = [
    affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>
  ], iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>} %v, %v, %acc
    : vector<4x2xf16>, vector<4x2xf16> into vector<4xf16>
  vector.store %y, %out0[%zero] : memref<4xf16>, vector<4xf16>
  func.return
}"""
    with pytest.raises(ValueError, match=r"emit_llvm: vector\.contract in main: f16 has no arithmetic in LLVM"):
        load(parse_loops(text))


def test_tables_have_the_same_ops() -> None:
    """What the interpreter runs, the texts have, unless it is gone by then; and all of it is tried above."""
    for dialect in ("arith", "math"):
        import_module(f"tenon.dialects.interpreter.{dialect}")
    tried = {op for element in DTYPES for use in uses(element) for op in use.ops}
    known = {
        "interpreter": {getattr(op, "name", "") for op in interpreter._registered},
        "llvm": {*HANDLERS} | ENDED,
        "cuda": {*emit_cuda.STATEMENTS, *kernel_writer.FLOATS, *kernel_writer.INTEGERS, *kernel_writer.PAIRS} | ENDED,
    }
    for names in known.values():
        assert {name for name in names if name.startswith(("arith.", "math."))} - EXPANDED == tried


@pytest.mark.parametrize("element", DTYPES)
def test_what_the_pass_ends_is_gone(element: str) -> None:
    module = parse(text_of(element, LANES))
    LegalizeArithPass().apply(Context(), module)
    left = {op.name for op in module.walk()}
    assert not left & ENDED
    if element == "i1":
        assert {"arith.addi", "arith.divsi", "arith.maxsi", "math.absi"} & left <= {"arith.addi"}
    if element in ("f16", "bf16"):
        for op in module.walk():
            if op.name.startswith("math.") or op.name in IN_F32:
                assert all("16" not in str(operand.type).partition("x")[2] for operand in op.operands), op.name
