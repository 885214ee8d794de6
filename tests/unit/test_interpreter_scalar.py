"""The interpreter's `arith` and `math` against plain Python, on scalars and over the points of a generic."""

from __future__ import annotations

import math
import struct
from itertools import product
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest
from interpreting import DTYPES, apply_to_tensors, run, run_op
from random_numbers import generator

from tenon.dialects.interpreter.interpreter import InterpreterError

RANDOM = generator()


def wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def as_unsigned(value: int, bits: int) -> int:
    return value % (1 << bits)


def truncate_division(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


# Oracles on Python integers; the first group takes signed values, the second unsigned ones.
SIGNED = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": lambda a, b: truncate_division(a, b) if b else 0,
    "floordivsi": lambda a, b: a // b if b else 0,
    "ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "remsi": lambda a, b: a - truncate_division(a, b) * b if b else 0,
    "maxsi": max,
    "minsi": min,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}
UNSIGNED = {
    "divui": lambda a, b: a // b if b else 0,
    "ceildivui": lambda a, b: -(-a // b) if b else 0,
    "remui": lambda a, b: a % b if b else 0,
    "maxui": max,
    "minui": min,
}
SIGNED_PREDICATES = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}
UNSIGNED_PREDICATES = {
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
}


def integers(bits: int) -> list[int]:
    if bits == 1:
        return [0, -1]
    return sorted({-(1 << (bits - 1)), (1 << (bits - 1)) - 1, -7, -2, -1, 0, 1, 2, 3, 7})


def integer_pairs(bits: int) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    pairs = list(product(integers(bits), integers(bits)))
    dtype = np.dtype(DTYPES[f"i{bits}"])
    first, second = (np.array([pair[i] for pair in pairs], object).astype(dtype) for i in range(2))
    return first, second, pairs


class TestArith:
    @pytest.mark.parametrize("bits", [1, 8, 32, 64])
    @pytest.mark.parametrize("name", [*SIGNED, *UNSIGNED])
    def test_integer_operations_wrap_and_define_division_by_zero(self, name, bits):
        first, second, pairs = integer_pairs(bits)
        if name in SIGNED:
            expected = [wrap(SIGNED[name](a, b), bits) for a, b in pairs]
        else:
            expected = [wrap(UNSIGNED[name](as_unsigned(a, bits), as_unsigned(b, bits)), bits) for a, b in pairs]
        operation = f"arith.{name} %0, %1 : i{bits}"
        result = apply_to_tensors(operation, f"i{bits}", f"i{bits}", first, second)
        np.testing.assert_array_equal(result, np.array(expected, object).astype(result.dtype))
        for position in range(0, len(pairs), 13):
            scalar = run_op(operation, [f"i{bits}"] * 2, f"i{bits}", first[position], second[position])
            assert scalar == result[position]

    @pytest.mark.parametrize("bits", [8, 64])
    @pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
    def test_shifts(self, name, bits):
        for value, amount in product(integers(bits), (0, 1, bits - 1)):
            expected = {
                "shli": value << amount,
                "shrsi": value >> amount,
                "shrui": as_unsigned(value, bits) >> amount,
            }[name]
            assert run_op(f"arith.{name} %0, %1 : i{bits}", [f"i{bits}"] * 2, f"i{bits}", value, amount) == wrap(
                expected, bits
            )

    @pytest.mark.parametrize("bits", [1, 8, 64])
    @pytest.mark.parametrize("predicate", [*SIGNED_PREDICATES, *UNSIGNED_PREDICATES])
    def test_cmpi(self, predicate, bits):
        first, second, pairs = integer_pairs(bits)
        if predicate in SIGNED_PREDICATES:
            expected = [SIGNED_PREDICATES[predicate](a, b) for a, b in pairs]
        else:
            expected = [UNSIGNED_PREDICATES[predicate](as_unsigned(a, bits), as_unsigned(b, bits)) for a, b in pairs]
        result = apply_to_tensors(f"arith.cmpi {predicate}, %0, %1 : i{bits}", f"i{bits}", "i1", first, second)
        np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("element", ["f32", "bf16"])
    @pytest.mark.parametrize(
        ("predicate", "less", "equal", "greater", "unordered"),
        [
            ("false", 0, 0, 0, 0),
            ("oeq", 0, 1, 0, 0),
            ("ogt", 0, 0, 1, 0),
            ("oge", 0, 1, 1, 0),
            ("olt", 1, 0, 0, 0),
            ("ole", 1, 1, 0, 0),
            ("one", 1, 0, 1, 0),
            ("ord", 1, 1, 1, 0),
            ("ueq", 0, 1, 0, 1),
            ("ugt", 0, 0, 1, 1),
            ("uge", 0, 1, 1, 1),
            ("ult", 1, 0, 0, 1),
            ("ule", 1, 1, 0, 1),
            ("une", 1, 0, 1, 1),
            ("uno", 0, 0, 0, 1),
            ("true", 1, 1, 1, 1),
        ],
    )
    def test_cmpf(self, predicate, less, equal, greater, unordered, element):
        first = np.array([1, 2, 3, np.nan, 2, np.nan], DTYPES[element])
        second = np.array([2, 2, 2, 2, np.nan, np.nan], DTYPES[element])
        result = apply_to_tensors(f"arith.cmpf {predicate}, %0, %1 : {element}", element, "i1", first, second)
        np.testing.assert_array_equal(result, [less, equal, greater, unordered, unordered, unordered])

    @pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("addf", [4, math.nan, math.nan, math.inf]),
            ("subf", [-2, math.nan, math.nan, math.inf]),
            ("mulf", [3, math.nan, math.nan, math.nan]),
            ("divf", [1 / 3, math.nan, math.nan, math.inf]),
            ("maximumf", [3, math.nan, math.nan, math.inf]),
            ("minimumf", [1, math.nan, math.nan, 0]),
            ("maxnumf", [3, 5, 5, math.inf]),
            ("minnumf", [1, 5, 5, 0]),
        ],
    )
    def test_float_operations(self, name, expected, element):
        dtype = DTYPES[element]
        first, second = (np.array(v, dtype) for v in ([1, 5, math.nan, math.inf], [3, math.nan, 5, 0]))
        result = apply_to_tensors(f"arith.{name} %0, %1 : {element}", element, element, first, second)
        np.testing.assert_array_equal(result.astype(np.float64), np.array(expected, dtype).astype(np.float64))

    @pytest.mark.parametrize("result_type", ["i1", "i8", "i32", "i64"])
    @pytest.mark.parametrize("name", ["fptosi", "fptoui"])
    def test_float_to_integer_saturates(self, name, result_type):
        bits = int(result_type[1:])
        least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name == "fptosi" else (0, (1 << bits) - 1)
        for value in (0.0, 0.9, -0.9, 1.5, -1.5, 100.7, -100.7, 1e30, -1e30, math.inf, -math.inf, math.nan):
            whole = 0 if math.isnan(value) else int(min(max(value, -1e30), 1e30))
            expected = wrap(min(max(whole, least), greatest), bits)
            result = run_op(f"arith.{name} %0 : f64 to {result_type}", ["f64"], result_type, value)
            assert result == np.array(expected, object).astype(DTYPES[result_type]), value

    def test_integer_to_float(self):
        assert run_op("arith.sitofp %0 : i8 to f32", ["i8"], "f32", -5) == -5
        assert run_op("arith.uitofp %0 : i8 to f32", ["i8"], "f32", -5) == 251
        assert run_op("arith.sitofp %0 : i1 to f32", ["i1"], "f32", True) == -1
        assert run_op("arith.uitofp %0 : i1 to f32", ["i1"], "f32", True) == 1
        assert run_op("arith.sitofp %0 : i32 to bf16", ["i32"], "bf16", 0x01010001) == 2.0**24 * (1 + 2**-7)

    def test_integer_widths(self):
        assert run_op("arith.extsi %0 : i8 to i32", ["i8"], "i32", -5) == -5
        assert run_op("arith.extui %0 : i8 to i32", ["i8"], "i32", -5) == 251
        assert run_op("arith.extsi %0 : i1 to i32", ["i1"], "i32", True) == -1
        assert run_op("arith.extui %0 : i1 to i64", ["i1"], "i64", True) == 1
        assert run_op("arith.trunci %0 : i32 to i8", ["i32"], "i8", 0x1F5) == -11
        assert run_op("arith.trunci %0 : i32 to i1", ["i32"], "i1", 2) == np.False_
        assert run_op("arith.index_cast %0 : i32 to index", ["i32"], "index", -3) == -3
        assert run_op("arith.index_cast %0 : index to i8", ["index"], "i8", 258) == 2

    def test_float_widths_round_to_nearest_even_once(self):
        assert run_op("arith.truncf %0 : f32 to f16", ["f32"], "f16", 1 + 2**-11) == 1
        assert run_op("arith.truncf %0 : f32 to bf16", ["f32"], "bf16", 1 + 3 * 2**-8) == 1 + 2**-6
        # Going through f32 would round 1 + 2**-8 + 2**-40 to a tie, and the tie to 1.
        assert run_op("arith.truncf %0 : f64 to bf16", ["f64"], "bf16", 1 + 2**-8 + 2**-40) == 1 + 2**-7
        assert run_op("arith.truncf %0 : f64 to bf16", ["f64"], "bf16", 1e300) == math.inf
        assert np.isnan(run_op("arith.truncf %0 : f64 to bf16", ["f64"], "bf16", math.nan))
        assert run_op("arith.extf %0 : bf16 to f32", ["bf16"], "f32", 1.5) == 1.5

    def test_truncf_to_bf16_agrees_with_exact_rounding(self):
        values = np.concatenate([RANDOM.standard_normal(400) * 10.0 ** RANDOM.integers(-42, 38, 400), [0.0, -0.0]])
        result = apply_to_tensors("arith.truncf %0 : f64 to bf16", "f64", "bf16", values).astype(np.float64)
        for value, rounded in zip(values, result, strict=True):
            exponent = max(math.frexp(value)[1] - 8, -133)
            assert rounded == math.ldexp(round(math.ldexp(value, -exponent)), exponent)

    def test_bitcast_select_and_negf(self):
        expected = struct.unpack("<i", struct.pack("<f", 1.5))[0]
        assert run_op("arith.bitcast %0 : f32 to i32", ["f32"], "i32", 1.5) == expected
        assert run_op("arith.select %0, %1, %2 : f32", ["i1", "f32", "f32"], "f32", True, 1, 2) == 1
        assert run_op("arith.select %0, %1, %2 : f32", ["i1", "f32", "f32"], "f32", False, 1, 2) == 2
        assert run_op("arith.negf %0 : f32", ["f32"], "f32", 1.5) == -1.5

    @pytest.mark.parametrize("bits", [8, 64])
    def test_extended_results(self, bits):
        for a, b in product(integers(bits), repeat=2):
            results = run(
                f"""func.func @main(%a: i{bits}, %b: i{bits}) -> (i{bits}, i1, i{bits}, i{bits}, i{bits}, i{bits}) {{
                  %sum, %carry = arith.addui_extended %a, %b : i{bits}, i1
                  %ul, %uh = arith.mului_extended %a, %b : i{bits}
                  %sl, %sh = arith.mulsi_extended %a, %b : i{bits}
                  func.return %sum, %carry, %ul, %uh, %sl, %sh : i{bits}, i1, i{bits}, i{bits}, i{bits}, i{bits}
                }}""",
                a,
                b,
            )
            unsigned_a, unsigned_b = as_unsigned(a, bits), as_unsigned(b, bits)
            assert results == (
                wrap(a + b, bits),
                unsigned_a + unsigned_b >= 1 << bits,
                wrap(a * b, bits),
                wrap(unsigned_a * unsigned_b >> bits, bits),
                wrap(a * b, bits),
                wrap(a * b >> bits, bits),
            )

    def test_constants(self):
        results = run("""func.func @main() -> (f32, i8, i1, index, tensor<2x2xi32>, tensor<3xbf16>, tensor<2xi1>) {
          %0 = arith.constant 1.5 : f32
          %1 = arith.constant -3 : i8
          %2 = arith.constant true
          %3 = arith.constant 7 : index
          %4 = arith.constant dense<[[1, 2], [3, -4]]> : tensor<2x2xi32>
          %5 = arith.constant dense<2.5> : tensor<3xbf16>
          %6 = arith.constant dense<[true, false]> : tensor<2xi1>
          func.return %0, %1, %2, %3, %4, %5, %6
            : f32, i8, i1, index, tensor<2x2xi32>, tensor<3xbf16>, tensor<2xi1>
        }""")
        assert results[:4] == (1.5, -3, True, 7)
        np.testing.assert_array_equal(results[4], np.array([[1, 2], [3, -4]], np.int32))
        np.testing.assert_array_equal(results[5], np.full(3, 2.5, ml_dtypes.bfloat16))
        np.testing.assert_array_equal(results[6], [True, False])
        assert [result.dtype for result in results[4:]] == [np.int32, ml_dtypes.bfloat16, np.bool_]

    def test_dense_resource(self):
        (result,) = run(
            """func.func @main() -> tensor<2xf32> {
              %0 = arith.constant dense_resource<interpreter_test> : tensor<2xf32>
              func.return %0 : tensor<2xf32>
            }
            {-# dialect_resources: { builtin: { interpreter_test: "0x040000000000803F00000040" } } #-}"""
        )
        np.testing.assert_array_equal(result, np.array([1, 2], np.float32))


class TestMath:
    UNARY: ClassVar = {
        "absf": abs,
        "acos": math.acos,
        "asin": math.asin,
        "asinh": math.asinh,
        "atan": math.atan,
        "atanh": math.atanh,
        "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
        "ceil": math.ceil,
        "cos": math.cos,
        "cosh": math.cosh,
        "erf": math.erf,
        "exp": math.exp,
        "exp2": lambda x: 2.0**x,
        "expm1": math.expm1,
        "floor": math.floor,
        "log1p": math.log1p,
        "sin": math.sin,
        "sinh": math.sinh,
        "tan": math.tan,
        "tanh": math.tanh,
        "trunc": math.trunc,
    }
    POSITIVE: ClassVar = {
        "log": math.log,
        "log2": math.log2,
        "log10": math.log10,
        "sqrt": math.sqrt,
        "rsqrt": lambda x: 1 / math.sqrt(x),
    }

    @pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
    @pytest.mark.parametrize("name", [*UNARY, *POSITIVE, "acosh"])
    def test_unary(self, name, element):
        inputs = np.array([-0.75, -0.25, 0.0, 0.5, 0.875])
        function = self.UNARY.get(name)
        if function is None:
            inputs, function = (
                (abs(inputs) + 1, math.acosh) if name == "acosh" else (abs(inputs) + 0.5, self.POSITIVE[name])
            )
        result = apply_to_tensors(f"math.{name} %0 : {element}", element, element, inputs.astype(DTYPES[element]))
        expected = np.array([function(x) for x in inputs]).astype(DTYPES[element]).astype(np.float64)
        tolerance = float(ml_dtypes.finfo(DTYPES[element]).eps)
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=tolerance / 4)

    def test_rounding_modes_differ_at_halves(self):
        inputs = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0], np.float32)
        even = apply_to_tensors("math.roundeven %0 : f32", "f32", "f32", inputs)
        away = apply_to_tensors("math.round %0 : f32", "f32", "f32", inputs)
        np.testing.assert_array_equal(even, [-2, -2, -0.0, 0, 2, 2, 0, 8388609])
        np.testing.assert_array_equal(away, [-3, -2, -1, 1, 2, 3, 0, 8388609])

    def test_edges_raise_no_warning(self):
        assert run_op("math.exp %0 : f32", ["f32"], "f32", 1000) == math.inf
        assert np.isnan(run_op("math.log %0 : f32", ["f32"], "f32", -1))
        assert run_op("math.rsqrt %0 : f32", ["f32"], "f32", 0) == math.inf
        assert run_op("math.erf %0 : f64", ["f64"], "f64", math.inf) == 1
        assert np.isnan(run_op("math.erf %0 : f32", ["f32"], "f32", math.nan))

    def test_binary_and_fused(self):
        assert run_op("math.atan2 %0, %1 : f64", ["f64"] * 2, "f64", 1.0, -2.0) == math.atan2(1, -2)
        assert run_op("math.copysign %0, %1 : f32", ["f32"] * 2, "f32", 3, -0.0) == -3
        assert run_op("math.powf %0, %1 : f64", ["f64"] * 2, "f64", 2.5, 3.0) == 2.5**3
        assert run_op("math.fpowi %0, %1 : f64, i32", ["f64", "i32"], "f64", 2.0, -3) == 0.125
        # 1 - (1 - e)(1 + e) = e * e is lost when the product is rounded first.
        e = 2.0**-20
        assert run_op("math.fma %0, %1, %2 : f32", ["f32"] * 3, "f32", 1 - e, 1 + e, -1) == -e * e

    def test_scaling_rounds_once(self):
        def scale(kind: str, mask: int) -> list[float]:
            x, n, others = (np.array(v, np.float32) for v in ([1.5] * 4, [3, -149, -151, 128], [7] * 4))
            text = f"""func.func @main(%x: V, %n: V, %o: V, %m: i8, %r: i32) -> V {{
              %y = llvm.call_intrinsic "llvm.x86.{kind}"(%x, %n, %o, %m, %r) : (V, V, V, i8, i32) -> V
              func.return %y : V
            }}"""
            return run(text.replace("V", "vector<4xf32>"), x, n, others, mask, 4)[0].tolist()

        assert scale("avx512.mask.scalef.ps.128", -1) == [12.0, 2.0**-148, 0.0, math.inf]
        assert scale("avx512.mask.scalef.ps.128", 5) == [12.0, 7.0, 0.0, 7.0]
        assert scale("avx512.mask.scalef.ss", -1) == [12.0, 1.5, 1.5, 1.5]
        with pytest.raises(InterpreterError, match=r"the interpreter does not know the instruction llvm\.x86\.other"):
            scale("other", -1)

    @pytest.mark.parametrize("bits", [1, 8, 32, 64])
    def test_bit_counts_and_absolute_value(self, bits):
        values = integers(bits)
        array = np.array(values, object).astype(DTYPES[f"i{bits}"])
        digits = [format(as_unsigned(value, bits), f"0{bits}b") for value in values]
        expected = {
            "ctpop": [text.count("1") for text in digits],
            "ctlz": [len(text) - len(text.lstrip("0")) for text in digits],
            "cttz": [len(text) - len(text.rstrip("0")) for text in digits],
            "absi": [wrap(abs(value), bits) for value in values],
        }
        for name, counts in expected.items():
            result = apply_to_tensors(f"math.{name} %0 : i{bits}", f"i{bits}", f"i{bits}", array)
            np.testing.assert_array_equal(result, np.array(counts, object).astype(array.dtype), err_msg=name)

    def test_ipowi(self):
        for base, exponent in product([-3, -1, 0, 1, 2, 7], [-3, -2, -1, 0, 1, 2, 5, 70]):
            if exponent >= 0:
                expected = wrap(base**exponent, 32)
            else:
                expected = truncate_division(1, base**-exponent) if base else 0
            assert run_op("math.ipowi %0, %1 : i32", ["i32"] * 2, "i32", base, exponent) == expected
