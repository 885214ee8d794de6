"""`vector`, memory of narrow types, and the C library's functions on the CPU give what NumPy gives."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from loop_programs import (
    aligned_arena,
    bfloat16,
    check_with_upstream,
    elementwise,
    elementwise_module,
    parse,
    run,
)
from random_numbers import generator

from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.lowering.llvm.types import byte_string
from tenon.runtime.cpu.compile import host_target, native_assembly

LANES = [None, 16]
RANDOM = generator()


def both_lanes(body: str, inputs: list[np.ndarray], dtype: object, **options) -> np.ndarray:
    """The result on vectors, after a check that scalars give the same bytes."""
    padded = [np.resize(array, -(-array.size // 16) * 16) for array in inputs]
    scalar = elementwise(body, padded, dtype, None, **options)
    vector = elementwise(body, padded, dtype, 16, **options)
    assert scalar.tobytes() == vector.tobytes()
    return vector[: inputs[0].size]


# -- arith ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divisor", [-3, 1, 5])
def test_division_by_a_constant(divisor):
    x = np.array([-(2**31), -7, -2, -1, 0, 1, 2, 7, 2**31 - 1], np.int32)
    body = f"%d = arith.constant {divisor} : i32\n%y = arith.floordivsi %x0, %d : i32"
    np.testing.assert_array_equal(elementwise(body, [x], np.int32), x // divisor)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3.5]


def test_comparison_and_selection_with_booleans_in_memory():
    x, y = (side.ravel().astype(np.float32) for side in np.meshgrid(SPECIAL, SPECIAL))
    less = both_lanes("%y = arith.cmpf olt, %x0, %x1 : T(f32)", [x, y], bool)
    np.testing.assert_array_equal(less, x < y)
    unordered = both_lanes("%y = arith.cmpf uno, %x0, %x1 : T(f32)", [x, y], bool)
    np.testing.assert_array_equal(unordered, np.isnan(x) | np.isnan(y))
    assert set(less.view(np.uint8)) <= {0, 1}
    flags = RANDOM.random(64) < 0.5
    a, b = RANDOM.random(64, np.float32), RANDOM.random(64, np.float32)
    vector = elementwise("%y = arith.select %x0, %x1, %x2 : T(i1), T(f32)", [flags, a, b], np.float32, 16)
    np.testing.assert_array_equal(vector, np.where(flags, a, b))
    both = both_lanes("%y = arith.xori %x0, %x1 : T(i1)", [flags, ~flags], bool)
    assert both.all()


# -- 16-bit floats ----------------------------------------------------------------------------------------------------


def all_bit_patterns(dtype: Any) -> np.ndarray:
    return np.arange(2**16, dtype=np.uint16).view(dtype)


def float32_around_16_bit_floats() -> np.ndarray:
    """Values at, between and next to the numbers that 16-bit floats have, ties included."""
    with np.errstate(all="ignore"):
        grid = np.concatenate([all_bit_patterns(t).astype(np.float32) for t in (np.float16, bfloat16)])
    bits = grid.view(np.uint32)
    around = [bits + offset for offset in (0, 1, -1 % 2**32, 0x8000, 0x7FFF, 0x8001, 0x1000, 0xFFF, 0x1001)]
    return np.concatenate(around).astype(np.uint32).view(np.float32)


def assert_same_float16(result: np.ndarray, expected: np.ndarray) -> None:
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), nan)
    np.testing.assert_array_equal(result[~nan].view(np.uint16), expected[~nan].view(np.uint16))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("element", "dtype", "native"), [("f16", "f2", True), ("f16", "f2", False), ("bf16", bfloat16, True)]
)
def test_16_bit_floats_round_to_nearest_even(element, dtype, native, lanes):
    if native and element == "f16" and not host_target().native_f16:
        pytest.skip("this CPU has no f16 conversions")
    numbers = all_bit_patterns(dtype)
    with np.errstate(all="ignore"):
        extended = elementwise(
            f"%y = arith.extf %x0 : T({element}) to T(f32)", [numbers], "f4", lanes, native_f16=native
        )
        np.testing.assert_array_equal(extended, numbers.astype(np.float32))
        assert np.array_equal(np.signbit(extended), np.signbit(numbers))
        values = float32_around_16_bit_floats()
        body = f"%y = arith.truncf %x0 : T(f32) to T({element})"
        assert_same_float16(elementwise(body, [values], dtype, lanes, native_f16=native), values.astype(dtype))


def test_no_calls_for_16_bit_floats_without_hardware():
    body = "%y = arith.truncf %x0 : T(f32) to T(f16)"
    x = np.zeros(16, np.float32)
    module = parse(elementwise_module(body, [x], np.zeros(16, np.float16), None))
    plain = host_target().__class__("x86_64-unknown-linux-gnu", "x86-64", "", 128)
    assert not plain.native_f16
    if host_target().triple.startswith("x86_64"):
        assert "__truncsfhf2" not in native_assembly(emit_llvm(module, native_f16=False), plain)


# -- vector -----------------------------------------------------------------------------------------------------------

VECTOR_OPS = """
module {
  func.func @main(%x: memref<8xELT>, %n: memref<1xi64>, %out: memref<8x8xELT>, %sums: memref<8xELT>,
                  %arena: memref<0xi8>) {
    func.call @kernel_0(%x, %n, %out, %sums) : (memref<8xELT>, memref<1xi64>, memref<8x8xELT>, memref<8xELT>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<8xELT>, %n: memref<1xi64>, %out: memref<8x8xELT>, %sums: memref<8xELT>)
      attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c6 = arith.constant 6 : index
    %pad = arith.constant 9.0 : ELT
    %pads = vector.broadcast %pad : ELT to vector<8xELT>
    %limit = memref.load %n[%c0] : memref<1xi64>
    %count = arith.index_cast %limit : i64 to index
    %v = vector.load %x[%c0] : memref<8xELT>, vector<8xELT>
    %mask = vector.create_mask %count : vector<8xi1>
    %masked = vector.maskedload %x[%c0], %mask, %pads
      : memref<8xELT>, vector<8xi1>, vector<8xELT> into vector<8xELT>
    vector.store %masked, %out[%c0, %c0] : memref<8x8xELT>, vector<8xELT>
    vector.maskedstore %out[%c1, %c0], %mask, %v : memref<8x8xELT>, vector<8xi1>, vector<8xELT>
    %three = vector.create_mask %c3 : vector<8xi1>
    vector.maskedstore %out[%c2, %c0], %three, %v : memref<8x8xELT>, vector<8xi1>, vector<8xELT>
    %last = vector.extract %v[7] : ELT from vector<8xELT>
    %some = vector.extract %v[%c5] : ELT from vector<8xELT>
    %put = vector.insert %last, %v[0] : ELT into vector<8xELT>
    %put2 = vector.insert %some, %put[%c1] : ELT into vector<8xELT>
    vector.store %put2, %out[%c3, %c0] : memref<8x8xELT>, vector<8xELT>
    %low = vector.shuffle %v, %v [0, 1, 2] : vector<8xELT>, vector<8xELT>
    %mixed = vector.shuffle %low, %put2 [10, 9, 8, 7, 2, 1, 0, 3] : vector<3xELT>, vector<8xELT>
    vector.store %mixed, %out[%c4, %c0] : memref<8x8xELT>, vector<8xELT>
    %read = "vector.transfer_read"(%x, %c6, %pad) <{permutation_map = affine_map<(d0) -> (d0)>, in_bounds = [false],
      operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (memref<8xELT>, index, ELT) -> vector<8xELT>
    "vector.transfer_write"(%read, %out, %c5, %c0) <{permutation_map = affine_map<(d0, d1) -> (d1)>,
      in_bounds = [true], operandSegmentSizes = array<i32: 1, 1, 2, 0>}>
      : (vector<8xELT>, memref<8x8xELT>, index, index) -> ()
    %fma = vector.fma %v, %v, %pads : vector<8xELT>
    vector.store %fma, %out[%c6, %c0] : memref<8x8xELT>, vector<8xELT>
    %sum = vector.reduction <add>, %v : vector<8xELT> into ELT
    %sum_acc = vector.reduction <add>, %v, %pad fastmath<reassoc> : vector<8xELT> into ELT
    %product = vector.reduction <mul>, %v : vector<8xELT> into ELT
    %greatest = vector.reduction <maximumf>, %v : vector<8xELT> into ELT
    %least = vector.reduction <minnumf>, %v, %pad : vector<8xELT> into ELT
    memref.store %sum, %sums[%c0] : memref<8xELT>
    memref.store %sum_acc, %sums[%c1] : memref<8xELT>
    memref.store %product, %sums[%c2] : memref<8xELT>
    memref.store %greatest, %sums[%c3] : memref<8xELT>
    memref.store %least, %sums[%c4] : memref<8xELT>
    func.return
  }
}
"""


@pytest.mark.parametrize(
    ("element", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", bfloat16)]
)
@pytest.mark.parametrize("count", [-1, 0, 3, 8, 2**40])
def test_vector_operations(element, dtype, count):
    x = RANDOM.normal(size=8).astype(dtype)
    out, sums = np.zeros((8, 8), dtype), np.zeros(8, dtype)
    run(VECTOR_OPS.replace("ELT", element), x, np.array([count]), out, sums, aligned_arena(0))
    chosen = np.arange(8) < count
    wide = x.astype(np.float64)
    put = np.concatenate([x[[7, 5]], x[2:]])
    rows = [
        np.where(chosen, x, dtype(9)),
        np.where(chosen, x, dtype(0)),
        np.where(np.arange(8) < 3, x, dtype(0)),
        put,
        np.concatenate([x[:3], put])[[10, 9, 8, 7, 2, 1, 0, 3]],
        np.concatenate([x[6:], np.full(6, 9, dtype)]),
    ]
    for row, expected in enumerate(rows):
        np.testing.assert_array_equal(out[row], expected)
    tolerance = 4 * float(np.finfo(dtype).eps if dtype is not bfloat16 else 2**-7)
    np.testing.assert_allclose(out[6].astype(np.float64), wide * wide + 9, rtol=tolerance)
    expected = [wide.sum(), wide.sum() + 9, wide.prod(), wide.max(), wide.min()]
    np.testing.assert_allclose(sums[:5].astype(np.float64), expected, rtol=tolerance, atol=4 * tolerance)


@pytest.mark.parametrize(("kind", "oracle"), [("maximumf", np.max), ("minimumf", np.min)])
@pytest.mark.parametrize(("element", "dtype", "lanes"), [("f32", np.float32, 16), ("f64", np.float64, 2)])
def test_extrema_of_lanes(kind, oracle, element, dtype, lanes):
    """The extremum, infinite or not, and a NaN are found in every lane."""
    x = np.arange(lanes) - lanes / 2
    inputs = [x, *([np.roll(x, shift) for shift in range(1, lanes)]), np.full(lanes, -np.inf), np.full(lanes, np.inf)]
    for lane in range(lanes):
        for value in (np.nan, np.inf, -np.inf):
            inputs.append(np.where(np.arange(lanes) == lane, value, x))
    body = f"""%r = vector.reduction <{kind}>, %x0 : vector<{lanes}x{element}> into {element}
      %y = vector.broadcast %r : {element} to vector<{lanes}x{element}>"""
    rows = np.concatenate(inputs).astype(dtype)
    result = elementwise(body, [rows], dtype, lanes).reshape(-1, lanes)
    expected = oracle(rows.reshape(-1, lanes), axis=1, keepdims=True)
    np.testing.assert_array_equal(result, np.broadcast_to(expected, result.shape))


@pytest.mark.parametrize(
    ("kind", "oracle"),
    [("add", np.sum), ("mul", np.prod), ("maxsi", np.max), ("minsi", np.min), ("and", np.bitwise_and.reduce)],
)
def test_integer_reductions(kind, oracle):
    x = RANDOM.integers(-100, 100, 16).astype(np.int64)
    start = 5
    body = f"""%start = arith.constant {start} : i64
      %r = vector.reduction <{kind}>, %x0, %start : vector<16xi64> into i64
      %y = vector.broadcast %r : i64 to vector<16xi64>"""
    expected = oracle(np.append(x, start))
    assert elementwise(body, [x], np.int64, 16).tolist() == [expected] * 16


# -- math -------------------------------------------------------------------------------------------------------------

UNARY_F64 = {
    "absf": np.abs,
    "acos": np.arccos,
    "acosh": lambda x: np.arccosh(x + 2),
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": lambda x: np.log(x + 2),
    "log10": lambda x: np.log10(x + 2),
    "log1p": np.log1p,
    "log2": lambda x: np.log2(x + 2),
    "roundeven": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x + 2),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": lambda x: np.sqrt(x + 2),
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", list(UNARY_F64))
@pytest.mark.parametrize(("element", "dtype", "tolerance"), [("f64", np.float64, 4e-16), ("f32", np.float32, 3e-7)])
def test_math_without_expansion(name, element, dtype, tolerance):
    # steps of 1/1024, to which 2 is added without rounding: acosh would multiply the rounding error
    x = (RANDOM.integers(-1013, 1014, 64) / 1024).astype(dtype)
    shifted = name in ("acosh", "log", "log10", "log2", "rsqrt", "sqrt")
    body = f"%two = arith.constant 2.0 : {element}\n"
    if shifted:
        scalar = body + f"%s = arith.addf %x0, %two : {element}\n%y = math.{name} %s : {element}"
        vector = (
            body
            + f"%twos = vector.broadcast %two : {element} to T({element})\n"
            + f"%s = arith.addf %x0, %twos : T({element})\n%y = math.{name} %s : T({element})"
        )
    else:
        scalar = vector = f"%y = math.{name} %x0 : T({element})"
    expected = UNARY_F64[name](x.astype(np.float64))
    results = [elementwise(scalar, [x], dtype), elementwise(vector, [x], dtype, 16)]
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_rounding_away_and_copysign_and_atan2():
    x = np.array([-2.5, -1.5, -0.5, -0.4, 0.4, 0.5, 1.5, 2.5] * 2, np.float32)
    away = np.copysign(np.floor(np.abs(x) + 0.5), x)
    np.testing.assert_array_equal(both_lanes("%y = math.round %x0 : T(f32)", [x], np.float32), away)
    y = RANDOM.normal(size=16).astype(np.float32)
    np.testing.assert_array_equal(
        both_lanes("%y = math.copysign %x0, %x1 : T(f32)", [x, y], np.float32), np.copysign(x, y)
    )
    np.testing.assert_allclose(
        both_lanes("%y = math.atan2 %x0, %x1 : T(f32)", [x, y], np.float32), np.arctan2(x, y), rtol=3e-7
    )


def test_upstream_accepts_the_vector_operations():
    check_with_upstream(parse(VECTOR_OPS.replace("ELT", "f32")))


@pytest.mark.parametrize(
    ("wide", "narrow", "lanes"),
    [
        *[("i32", "i16", 4), ("i32", "i16", 16), ("i32", "i8", 16), ("i16", "i8", 32)],
        *[("i64", "i8", 8), ("i64", "i16", 2), ("i64", "i32", 8)],
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_masked_stores_of_truncated_lanes_leave_their_neighbours_alone(
    wide: str, narrow: str, lanes: int, count: int
) -> None:
    """For a constant mask, and for one that LLVM finds to be constant: a loop of few iterations."""
    vector = f"vector<{lanes}x{narrow}>"
    text = f"""
func.func @main(%x: memref<{lanes}x{wide}>, %out0: memref<{4 * lanes}x{narrow}>, %arena: memref<0xi8>)
    attributes {{num_inputs = 1 : i64, num_outputs = 1 : i64}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = arith.constant {count} : index
  %lanes = arith.constant {lanes} : index
  %all = arith.constant {4 * lanes} : index
  %seven = arith.constant dense<7> : vector<{lanes}x{narrow}>
  scf.for %i = %zero to %all step %lanes {{
    vector.store %seven, %out0[%i] : memref<{4 * lanes}x{narrow}>, vector<{lanes}x{narrow}>
  }}
  %v = vector.load %x[%zero] : memref<{lanes}x{wide}>, vector<{lanes}x{wide}>
  %t = arith.trunci %v : vector<{lanes}x{wide}> to {vector}
  %mask = vector.create_mask %count : vector<{lanes}xi1>
  vector.maskedstore %out0[%zero], %mask, %t : memref<{4 * lanes}x{narrow}>, vector<{lanes}xi1>, {vector}
  scf.for %i = %one to %count step %one {{
    %left = arith.subi %count, %i : index
    %first = vector.create_mask %left : vector<{lanes}xi1>
    %at = arith.muli %i, %lanes : index
    vector.maskedstore %out0[%at], %first, %t : memref<{4 * lanes}x{narrow}>, vector<{lanes}xi1>, {vector}
  }}
  func.return
}}"""
    x = np.arange(1, lanes + 1, dtype=f"i{int(wide[1:]) // 8}")
    out = np.empty(4 * lanes, f"i{int(narrow[1:]) // 8}")
    run(text, x, out, np.empty(0, np.int8))
    wanted = np.full_like(out, 7)
    wanted[: min(count, lanes)] = x[:count]
    for i in range(1, count):
        wanted[i * lanes : i * lanes + min(count - i, lanes)] = x[: count - i]
    np.testing.assert_array_equal(out, wanted)


class _Unread(bytes):
    """Bytes that are not read one by one, which takes a second for some MB."""

    def __iter__(self):
        raise AssertionError("read byte by byte")


def test_constants_have_all_bytes():
    data = bytes([byte for byte in range(256) if chr(byte) != "\\"])
    text = f"@table = constant [{len(data)} x i8] {byte_string(_Unread(data))}"
    given = llvm.parse_assembly(text).get_global_variable("table")
    parsed = str(given).split('c"', 1)[1].rsplit('"', 1)[0]
    assert re.sub(rb"\\(..)", lambda found: bytes.fromhex(found[1].decode()), parsed.encode()) == data
