"""Inline elementary functions against float64: units in the last place, special values, scalars like vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.special
from loop_programs import (
    ELEMENT_NAMES,
    aligned_arena,
    bfloat16,
    call,
    check_with_upstream,
    elementwise,
    elementwise_module,
    load,
    parse,
)
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.transforms.canonicalize import CanonicalizePass

import tenon
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.lowering.math.builder import ArithmeticBuilder, Constants
from tenon.lowering.math.expand_math import ExpandMathPass
from tenon.runtime.cpu.compile import host_target, native_assembly
from tenon.runtime.knobs import knobs

SPECIAL = np.array(
    [
        *[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 3.4e38, -3.4e38, 1, -1, 0.5, -0.5, 2],
        *[
            88.72,
            88.73,
            -87.3,
            -103.9,
            -104.1,
            127.999,
            128,
            -126,
            -149,
            -150,
            2**30,
            1e9,
            2**23,
            np.pi,
            -7,
            1 - 2**-24,
        ],
    ],
    np.float32,
)

FUNCTIONS = {
    "acos": (np.arccos, 1.5),
    "acosh": (np.arccosh, 2.2),
    "asin": (np.arcsin, 1.5),
    "asinh": (np.arcsinh, 2.0),
    "atan": (np.arctan, 1.5),
    "atanh": (np.arctanh, 2.0),
    "cbrt": (np.cbrt, 1.0),
    "cosh": (np.cosh, 2.0),
    "sinh": (np.sinh, 2.0),
    "tan": (np.tan, 2.3),
    "cos": (np.cos, 2.0),
    "erf": (scipy.special.erf, 2.3),
    "exp": (np.exp, 1.5),
    "exp2": (np.exp2, 1.5),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.5),
    "log10": (np.log10, 1.5),
    "log1p": (np.log1p, 2.0),
    "log2": (np.log2, 1.5),
    "sin": (np.sin, 2.0),
    "tanh": (np.tanh, 2.5),
}


def sweep() -> np.ndarray:
    """Floats spread over all exponents, dense where functions bend, and the special values."""
    random = np.random.default_rng(0)
    ordered = np.linspace(0, 0x7F7FFFFF, 2**16).astype(np.uint32)
    magnitudes = ordered.view(np.float32)
    parts = [
        magnitudes,
        -magnitudes,
        random.normal(size=2**15),
        random.uniform(-110, 110, 2**15),
        random.uniform(-20, 20, 2**15),
        1 + random.normal(size=2**14) * 1e-3,
        SPECIAL,
    ]
    values = np.concatenate(parts).astype(np.float32)
    return np.ascontiguousarray(values[-(values.size // 16 * 16) :])


def errors_in_ulp(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance to the exact result, of a wider type, in units of the last place; special values must match."""
    kind = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        _, exponent = np.frexp(exact)
        ulp = np.ldexp(np.ones_like(exact), np.maximum(exponent - 1, kind.minexp) - kind.nmant)
        distance = np.abs(result.astype(exact.dtype) - exact) / ulp
    finite = np.isfinite(rounded) & np.isfinite(result)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    return np.where(finite, distance, np.where(same, 0, np.inf))


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    bits = np.dtype(f"u{first.itemsize}")
    return bool(((first.view(bits) == second.view(bits)) | (np.isnan(first) & np.isnan(second))).all())


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_error_bound(name):
    function, bound = FUNCTIONS[name]
    x = sweep()
    assert x.size >= 100_000
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
    body = f"%y = math.{name} %x0 : T(f32)"
    result = elementwise(body, [x], np.float32, 16, expand=True)
    errors = errors_in_ulp(result, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound, (x[worst], result[worst], exact[worst])
    zeros = (x == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))
    assert same_bits(result, elementwise(body, [x], np.float32, None, expand=True))


F64_BOUNDS = {
    **{name: bound for name, (_, bound) in FUNCTIONS.items() if name != "erf"},
    "expm1": 2.2,
    "log10": 1.0,
    "log2": 1.0,
}
SPECIAL_F64 = [
    *[np.nan, np.inf, -np.inf, 0, -0.0, 5e-324, -5e-324, 1e-310, 2.0**-1022, 1.7e308, -1.7e308, 1, -1, 0.5, -0.5, 2, 3],
    *[
        709.78,
        709.79,
        710.47,
        710.48,
        -708.4,
        -745.13,
        -745.14,
        1023.99,
        1024,
        -1074,
        -1075,
        2.0**30,
        -(2.0**31),
        np.pi,
    ],
    *[1 - 2.0**-53, 8, 1e300, 2.0**54, 2.0**53],
]
needs_extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="needs numbers wider than f64")


def sweep_f64() -> np.ndarray:
    """Doubles of all exponents, dense where functions bend and at multiples of pi/2, and the special values."""
    random = np.random.default_rng(0)
    parts = [
        np.linspace(0, 0x7FEFFFFFFFFFFFFF, 2**11).astype(np.uint64).view(np.float64),
        random.normal(size=2**12) * 3,
        random.uniform(-1, 1, 2**12),
        random.uniform(-760, 760, 2**12),
        1 + random.normal(size=2**11) * 1e-3,
        np.pi / 2 * random.integers(-(2**20), 2**20, 2**11),
        SPECIAL_F64,
    ]
    values = np.concatenate(parts)
    return np.ascontiguousarray(values[-(values.size // 8 * 8) :])


@needs_extended
@pytest.mark.parametrize("name", list(F64_BOUNDS))
def test_error_bound_in_f64(name):
    x = sweep_f64()
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name][0](x.astype(np.longdouble))
    body = f"%y = math.{name} %x0 : T(f64)"
    result = elementwise(body, [x], np.float64, 8, expand=True)
    errors = errors_in_ulp(result, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= F64_BOUNDS[name], (x[worst], result[worst], exact[worst])
    zeros = (x == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))
    assert same_bits(result, elementwise(body, [x], np.float64, None, expand=True))


def test_error_function_in_f64():
    mpmath = pytest.importorskip("mpmath")
    x = np.concatenate([np.linspace(-6.5, 6.5, 252), [np.inf, -np.inf, 0, 5e-324]])
    with mpmath.workprec(120):
        exact = [mpmath.erf(mpmath.mpf(v)) for v in x.tolist()]
        result = elementwise("%y = math.erf %x0 : T(f64)", [x], np.float64, 8, expand=True)
        far = [float(abs(mpmath.mpf(y) - e)) for y, e in zip(result.tolist(), exact, strict=True)]
    assert (far / np.spacing(np.maximum(np.abs([float(e) for e in exact]), 2.0**-1022)) <= 2).all()


@needs_extended
@pytest.mark.parametrize(("element", "dtype", "lanes"), [("f32", np.float32, 16), ("f64", np.float64, 8)])
def test_angle_of_a_point(element, dtype, lanes):
    edges = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, np.finfo(dtype).smallest_subnormal, -np.finfo(dtype).max]
    y, x = (side.ravel().astype(dtype) for side in np.meshgrid(edges, edges))
    random = np.random.default_rng(3)
    near = np.exp(random.normal(size=(2, 4015))) * random.choice([-1, 1], (2, 4015))
    y, x = np.concatenate([y, near[0].astype(dtype)]), np.concatenate([x, near[1].astype(dtype)])
    body = f"%y = math.atan2 %x0, %x1 : T({element})"
    result = elementwise(body, [y, x], dtype, lanes, expand=True)
    exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    assert errors_in_ulp(result, exact).max() <= 1.7
    zeros = result == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))
    assert same_bits(result, elementwise(body, [y, x], dtype, None, expand=True))


@needs_extended
def test_power_in_f64():
    random = np.random.default_rng(1)
    edges = [*SPECIAL_F64[:20], 2.5, -2.5, -3, 1 + 2.0**-52, 2.0**53 + 2, 1 - 2.0**53]
    bases, exponents = (side.ravel() for side in np.meshgrid(edges, edges))
    usual = np.exp(random.normal(size=8192) * np.repeat([0.1, 1, 10, 200], 2048))
    x = np.concatenate([bases, usual, -random.integers(1, 50, 1020).astype(float)])
    y = np.concatenate([exponents, random.uniform(-750, 720, 8192) / np.log(usual), random.integers(-20, 20, 1020)])
    assert x.size % 8 == 0
    body = "%y = math.powf %x0, %x1 : T(f64)"
    result = elementwise(body, [x, y], np.float64, 8, expand=True)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert errors_in_ulp(result, exact).max() <= 1.5
    zeros = (result == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))
    assert same_bits(result, elementwise(body, [x, y], np.float64, None, expand=True))


def powers() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    edges = np.concatenate([SPECIAL, np.array([2.5, -2.5, 3, -3, 16777217, -16777215, 1 + 2**-23], np.float32)])
    bases, exponents = (np.array(side) for side in zip(*itertools.product(edges, edges), strict=True))
    x = np.concatenate([np.exp(random.normal(size=2**16) * 20), np.exp(random.normal(size=2**15))])
    y = np.concatenate([random.normal(size=2**16) * 3, random.normal(size=2**15) * 50])
    whole = random.integers(-20, 20, 2**14)
    x = np.concatenate([x, -random.integers(1, 50, 2**14), bases]).astype(np.float32)
    y = np.concatenate([y, whole, exponents]).astype(np.float32)
    start = x.size % 16
    return x[start:].copy(), y[start:].copy()


@pytest.mark.parametrize(("exact_names", "bound"), [((), 2.5), (("powf",), 0.51)])
def test_power(exact_names, bound):
    x, y = powers()
    assert x.size >= 100_000
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    body = "%y = math.powf %x0, %x1 : T(f32)"
    result = elementwise(body, [x, y], np.float32, 16, expand=True, exact=exact_names)
    errors = errors_in_ulp(result, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound, (x[worst], y[worst], result[worst], exact[worst])
    zeros = (result == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))
    assert same_bits(result, elementwise(body, [x, y], np.float32, None, expand=True, exact=exact_names))


def test_exact_functions_are_rounded_once():
    x = np.linspace(-5, 5, 4096, dtype=np.float32)
    for name, function in (("exp", np.exp), ("sin", np.sin), ("tanh", np.tanh)):
        body = f"%y = math.{name} %x0 : T(f32)"
        exact = function(x.astype(np.float64))
        result = elementwise(body, [x], np.float32, 16, expand=True, exact=(name,))
        assert errors_in_ulp(result, exact).max() <= 0.5001
        assert errors_in_ulp(elementwise(body, [x], np.float32, 16, expand=True), exact).max() > 0.51
    with pytest.raises(ValueError, match="expand-math: exact names cosine, none of acos, "):
        ExpandMathPass(("cosine",)).apply(Context(), parse("builtin.module {}"))


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, -1, -2, 0, 5, -7])
@pytest.mark.parametrize("name", ["powf", "fpowi"])
def test_power_with_a_constant_exponent(name, exponent):
    x = np.random.default_rng(2).normal(size=64).astype(np.float32)
    if name == "powf":
        body = f"%e = arith.constant {float(exponent)} : f32\n%y = math.powf %x0, %e : f32"
    else:
        body = f"%e = arith.constant {exponent} : i32\n%y = math.fpowi %x0, %e : f32, i32"
    exact = x.astype(np.float64) ** exponent
    assert errors_in_ulp(elementwise(body, [x], np.float32, expand=True), exact).max() <= 2


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("lanes", [None, 16])
def test_integer_exponent(element, dtype, lanes):
    x, n = (side.ravel() for side in np.meshgrid([-2.5, -1.0, 0.5, 1.0, 3.0, 0.0, -0.0, np.inf], np.arange(-5, 5)))
    x, n = x.astype(dtype), n.astype(np.int32)
    body = f"%y = math.fpowi %x0, %x1 : T({element}), T(i32)"
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64) ** n
    np.testing.assert_allclose(elementwise(body, [x, n], dtype, lanes, expand=True), exact, rtol=2e-7)


@pytest.mark.parametrize("lanes", [None, 16])
def test_integer_power_wraps(lanes):
    bases, exponents = [-3, -2, -1, 0, 1, 2, 3, 10, 12345], [-2, -1, 0, 1, 2, 3, 7, 31, 40]
    x, n = (side.ravel().astype(np.int32) for side in np.meshgrid(bases, exponents))
    x, n = np.resize(x, 96), np.resize(n, 96)

    def power(base: int, exponent: int) -> int:
        if exponent < 0:
            return base**-exponent if abs(base) == 1 else 0
        return base**exponent

    expected = [(power(int(a), int(b)) + 2**31) % 2**32 - 2**31 for a, b in zip(x, n, strict=True)]
    result = elementwise("%y = math.ipowi %x0, %x1 : T(i32)", [x, n], np.int32, lanes, expand=True)
    assert result.tolist() == expected


def test_integer_power_with_a_constant_exponent():
    x = np.arange(-8, 8)
    for exponent in (0, 1, 2, 3, 7, 10):
        body = f"%e = arith.constant {exponent} : i64\n%y = math.ipowi %x0, %e : i64"
        np.testing.assert_array_equal(elementwise(body, [x], np.int64, expand=True), x**exponent)


@pytest.mark.parametrize(("element", "dtype", "bits"), [("f16", np.float16, 11), ("bf16", bfloat16, 8)])
def test_16_bit_floats_are_computed_in_f32(element, dtype, bits):
    x = np.linspace(-3, 3, 64).astype(dtype)
    exact = np.tanh(x.astype(np.float64))
    result = elementwise(f"%y = math.tanh %x0 : T({element})", [x], dtype, 16, expand=True)
    np.testing.assert_allclose(result.astype(np.float64), exact, rtol=2.0**-bits)


@pytest.mark.parametrize("features", ["-avx512f", "-avx512f,-avx2"])
def test_narrower_machines_give_the_same_bits(features):
    x = sweep()[-16384:]
    body = """%a = math.exp %x0 : T(f32)
      %b = math.sin %x0 : T(f32)
      %c = math.log1p %a : T(f32)
      %y = arith.addf %b, %c : T(f32)"""
    here = elementwise(body, [x], np.float32, 16, expand=True)
    with knobs.override(target_features=features):
        there = elementwise(body, [x], np.float32, 16, expand=True)
    assert same_bits(here, there)
    x = sweep_f64()[-1024:]
    here = elementwise(body.replace("f32", "f64"), [x], np.float64, 8, expand=True)
    with knobs.override(target_features=features):
        there = elementwise(body.replace("f32", "f64"), [x], np.float64, 8, expand=True)
    assert same_bits(here, there)


EVERYTHING = "\n".join(
    [f"%{name} = math.{name} %x0 : T(f32)" for name in FUNCTIONS]
    + ["%angle = math.atan2 %x0, %x0 : T(f32)", "%wide = arith.extf %x0 : T(f32) to T(f64)"]
    + [f"%wide_{name} = math.{name} %wide : T(f64)" for name in FUNCTIONS]
    + ["%wide_power = math.powf %wide, %wide : T(f64)", "%left = arith.remf %x0, %angle : T(f32)"]
    + ["%n = arith.fptosi %x0 : T(f32) to T(i32)", "%power = math.powf %x0, %x0 : T(f32)"]
    + ["%whole = math.fpowi %x0, %n : T(f32), T(i32)", "%ip = math.ipowi %n, %n : T(i32)"]
    + ["%y = arith.addf %power, %whole : T(f32)"]
)


@pytest.mark.parametrize(("lanes", "scaling"), [(None, False), (None, True), (16, False), (16, True), (8, True)])
def test_upstream_accepts_the_result(lanes, scaling):
    x = np.zeros(16, np.float32)
    module = parse(elementwise_module(EVERYTHING, [x], x, lanes))
    ExpandMathPass(scaling=scaling).apply(Context(), module)
    module.verify()
    text = str(module)
    remaining = {line.split("math.")[1].split()[0] for line in text.splitlines() if "math." in line}
    # integer powers end in `legalize-arith`
    assert remaining <= {"fma", "absf", "copysign", "trunc", "sqrt", "ipowi"}
    assert str(parse(text)) == text
    check_with_upstream(module)


def scaled(x, n, lanes, *, native):
    """`ArithmeticBuilder.scale` of arrays"""
    result, element = np.zeros_like(x), ELEMENT_NAMES[x.dtype.name]
    module = parse(elementwise_module(f"%y = arith.mulf %x0, %x1 : T({element})", [x, n], result, lanes))
    (product,) = [op for op in module.walk() if isinstance(op, arith.MulfOp)]
    (function,) = [op for op in module.walk() if isinstance(op, FuncOp) and product in set(op.walk())]
    b = ArithmeticBuilder(product, Constants(function.body.block), product.lhs.type, scaling=native)
    product.result.replace_all_uses_with(b.scale(product.lhs, product.rhs))
    module.verify()
    call(load(module), [x, n, result, aligned_arena(0)])
    return result


@pytest.mark.parametrize("lanes", [None, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("native", [False, True])
def test_scaling_rounds_once(native, lanes):
    if native and not host_target().native_scaling:
        pytest.skip("this CPU has no instruction that scales")
    random = np.random.default_rng(2)
    x = np.concatenate([random.uniform(0.5, 2, 4000), -(2.0 ** random.uniform(-32, 32, 4000)), [0, -0.0, np.nan] * 64])
    x, n = x.astype(np.float32), random.integers(-190, 129, x.size).astype(np.float32)
    result = scaled(x, n, lanes, native=native)
    with np.errstate(all="ignore"):
        assert same_bits(result, np.ldexp(x.astype(np.float64), n.astype(int)).astype(np.float32))


@pytest.mark.parametrize("lanes", [None, 2, 8, 16])
@pytest.mark.parametrize("native", [False, True])
def test_scaling_of_f64_rounds_once(native, lanes):
    if native and not host_target().native_scaling:
        pytest.skip("this CPU has no instruction that scales")
    random = np.random.default_rng(2)
    x = np.concatenate([random.uniform(0.5, 2, 900), -(2.0 ** random.uniform(-32, 32, 900)), [0, -0.0, np.nan] * 8])
    n = random.integers(-1150, 1025, x.size).astype(float)
    result = scaled(x, n, lanes, native=native)
    with np.errstate(all="ignore"):
        assert same_bits(result, np.ldexp(x, n.astype(int)))


def test_scaling_is_one_instruction_where_there_is_one():
    target = host_target()
    if not target.native_scaling:
        pytest.skip("this CPU has no instruction that scales")
    x = np.zeros(16, np.float32)
    for scaling in (True, False):
        module = parse(elementwise_module("%y = math.exp %x0 : T(f32)", [x], x, 16))
        ExpandMathPass(scaling=scaling).apply(Context(), module)
        assert ("scalef" in native_assembly(emit_llvm(module), target)) == scaling


def test_loops_of_this_processor_scale_vectors():
    target = host_target()
    if not target.native_scaling:
        pytest.skip("this CPU has no instruction that scales")
    text = str(tenon.jit(tenon.exp).lower(np.zeros(1600, np.float32)).module)
    assert f"scalef.ps.{target.vector_bits}" in text


def test_expansion_is_idempotent():
    x = np.zeros(16, np.float32)
    module = parse(elementwise_module(EVERYTHING, [x], x, 16))
    ExpandMathPass().apply(Context(), module)
    once = str(module)
    ExpandMathPass().apply(Context(), module)
    assert str(module) == once


def test_what_is_left_alone():
    body = "%a = math.exp %x0 : f64\n%b = math.sqrt %a : f64\n%y = math.tan %b : f64"
    x = np.zeros(16)
    module = parse(elementwise_module(body, [x], x, None))
    before = str(module)
    ExpandMathPass(("exp", "tan")).apply(Context(), module)
    assert str(module) == before


def test_comparison_of_equal_vectors_survives_canonicalization():
    x = np.arange(16, dtype=np.int32)
    module = parse(elementwise_module("%y = arith.cmpi eq, %x0, %x0 : T(i32)", [x], np.zeros(16, bool), 16))
    CanonicalizePass().apply(Context(), module)
    module.verify()
    assert "arith.cmpi eq" in str(module)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rare_numbers_in_any_lane(dtype):
    """Vectors that are computed in turns have one branch to their rare numbers: each keeps its own."""
    x = np.linspace(0.5, 1.5, 64, dtype=dtype)
    y = np.linspace(-2, 2, 64, dtype=dtype)
    power = tenon.jit(lambda x, y: tenon.power(x, y))
    usual = power(x, y)
    rare = [0.0, np.inf, np.nan, -1.25, np.finfo(dtype).smallest_subnormal]
    for lane, number in itertools.product(range(64), rare):
        base, exponent = x.copy(), y.copy()
        base[lane], exponent[lane] = number, 3.0
        found = power(base, exponent)
        np.testing.assert_allclose(found[lane], np.power(base[lane], exponent[lane]), rtol=1e-6)
        np.testing.assert_array_equal(np.delete(found, lane), np.delete(usual, lane))


@pytest.mark.parametrize("bits", [None, 128, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_far_below_the_least_number_powers_are_zero(name: str, dtype: type[np.floating], bits: int | None):
    """Where zero is scaled, and around it; whether one instruction scales or several."""
    least = {"exp": (-103.98, -745.2), "exp2": (-150.1, -1075.1)}[name][dtype is np.float64]
    far = np.array([least - 1, least - 5, -1e9, np.finfo(dtype).min, -np.inf], dtype)
    near = np.array([least + 1, least + 2, np.inf, np.nan, 0, -1], dtype)
    with tenon.knobs.override(vector_bits=bits):
        function = tenon.jit(getattr(tenon, name))
        assert not function(np.tile(far, 13)).any()
        result = function(np.tile(near, 13))
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(np.tile(near, 13).astype(np.longdouble))
    smallest = float(np.finfo(dtype).smallest_subnormal)
    np.testing.assert_allclose(result, exact.astype(dtype), rtol=1e-6 if dtype is np.float32 else 1e-14, atol=smallest)
