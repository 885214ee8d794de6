"""The interpreter's `linalg` against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from interpreting import DTYPES, parse, run
from random_numbers import generator

from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError

RANDOM = generator()


def generic(maps: str, iterators: str, ins: str, out: str, body: str) -> str:
    """A module of one generic; `ins` lists types, the last value of `body` is %y."""
    types = ins.split()
    parameters = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate([*types, out]))
    inputs = ", ".join(f"%x{i}" for i in range(len(types)))
    kinds = ", ".join(f'"{ {"p": "parallel", "r": "reduction"}[letter] }"' for letter in iterators)
    elements = [type_.removesuffix(">").split("<")[1].split("x")[-1] for type_ in [*types, out]]
    arguments = ", ".join(f"%s{i}: {element}" for i, element in enumerate(elements))
    inputs = f"ins({inputs} : {', '.join(types)})" if types else ""
    return f"""func.func @main({parameters}) -> {out} {{
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        {inputs} outs(%x{len(types)} : {out}) {{
      ^bb0({arguments}):
        {body}
        linalg.yield %y : {elements[-1]}
      }} -> {out}
      func.return %r : {out}
    }}"""


SUM_OF_PRODUCTS = "%p = arith.mulf %s0, %s1 : f32\n %y = arith.addf %s2, %p : f32"
# The same sum in a form whose accumulator is read twice, so that it has to be run point by point.
SUM_IN_ORDER = """%p = arith.mulf %s0, %s1 : f32
  %t = arith.addf %s2, %p : f32
  %u = arith.cmpf une, %s2, %s2 : f32
  %y = arith.select %u, %s2, %t : f32"""


class TestLinalg:
    def test_elementwise_with_broadcast_transpose_and_index(self):
        text = generic(
            """affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (0, j)>,
            affine_map<(i, j) -> (i, j)>""",
            "pp",
            "tensor<3x4xf32> tensor<3xf32> tensor<1x3xf32>",
            "tensor<4x3xf32>",
            """%i = linalg.index 0 : index
            %k = arith.index_cast %i : index to i32
            %f = arith.sitofp %k : i32 to f32
            %a = arith.addf %s0, %s1 : f32
            %b = arith.mulf %a, %s2 : f32
            %y = arith.subf %b, %f : f32""",
        )
        x, y, z = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 4), 3, (1, 3)))
        (result,) = run(text, x, y, z, np.zeros((4, 3), np.float32))
        np.testing.assert_array_equal(result, (x.T + y) * z - np.arange(4, dtype=np.float32)[:, None])

    def test_large_domains_are_evaluated_in_tiles(self):
        text = generic(
            "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>",
            "pp",
            "tensor<700x900xi32>",
            "tensor<700x900xi32>",
            """%i = linalg.index 0 : index
            %k = arith.index_cast %i : index to i32
            %y = arith.addi %s0, %k : i32""",
        )
        x = RANDOM.integers(0, 9, (700, 900), np.int32)
        (result,) = run(text, x, np.zeros_like(x))
        np.testing.assert_array_equal(result, x + np.arange(700, dtype=np.int32)[:, None])

    @pytest.mark.parametrize("body", [SUM_OF_PRODUCTS, SUM_IN_ORDER], ids=["combined", "in order"])
    def test_matmul(self, body):
        text = generic(
            "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>",
            "ppr",
            "tensor<5x7xf32> tensor<7x4xf32>",
            "tensor<5x4xf32>",
            body,
        )
        a, b, c = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (7, 4), (5, 4)))
        before = c.copy()
        (result,) = run(text, a, b, c)
        np.testing.assert_allclose(result, c + a @ b, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(c, before)

    @pytest.mark.parametrize(
        ("op", "element", "oracle"),
        [
            ("addf", "f32", np.add),
            ("mulf", "f32", np.multiply),
            ("maximumf", "f32", np.maximum),
            ("minnumf", "f32", np.fmin),
            ("addi", "i8", np.add),
            ("maxsi", "i32", np.maximum),
            ("xori", "i32", np.bitwise_xor),
            ("maxui", "i8", None),
            ("andi", "i1", np.logical_and),
            ("ori", "i1", np.logical_or),
            ("addi", "i1", np.logical_xor),
        ],
    )
    def test_reductions(self, op, element, oracle):
        text = generic(
            "affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (j)>",
            "rpr",
            f"tensor<3x4x5x{element}>",
            f"tensor<4x{element}>",
            f"%y = arith.{op} %s1, %s0 : {element}",
        )
        dtype = DTYPES[element]
        x, start = ((RANDOM.standard_normal(shape) * 50).astype(dtype) for shape in ((3, 4, 5), (4,)))
        if element == "i1":
            x, start = RANDOM.random((3, 4, 5)) < 0.5, RANDOM.random(4) < 0.5
        (result,) = run(text, x, start)
        if oracle is None:
            expected = np.maximum(x.view(np.uint8).max((0, 2)), start.view(np.uint8)).view(np.int8)
        else:
            expected: Any = start
            for i, k in product(range(3), range(5)):
                expected = oracle(expected, x[i, :, k])
        np.testing.assert_allclose(result, expected.astype(dtype), rtol=1e-5, atol=1e-4)

    def test_long_sum_to_a_scalar(self):
        text = generic(
            "affine_map<(i) -> (i)>, affine_map<(i) -> ()>",
            "r",
            "tensor<1000000xf32>",
            "tensor<f32>",
            "%y = arith.addf %s0, %s1 : f32",
        )
        x = RANDOM.random(1000000).astype(np.float32)
        (result,) = run(text, x, np.array(3, np.float32))
        assert result.shape == ()
        np.testing.assert_allclose(result, x.sum(dtype=np.float64) + 3, rtol=1e-5)

    def test_reduction_of_what_does_not_depend_on_the_loop(self):
        text = generic(
            "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>",
            "pr",
            "tensor<2x5xf32>",
            "tensor<2xf32>",
            "%one = arith.constant 1.0 : f32\n %y = arith.addf %s1, %one : f32",
        )
        (result,) = run(text, np.zeros((2, 5), np.float32), np.zeros(2, np.float32))
        np.testing.assert_array_equal(result, [5, 5])

    def test_argmax_has_two_outputs_and_takes_the_first(self):
        text = """func.func @main(%x: tensor<3x6xf32>, %v: tensor<3xf32>, %k: tensor<3xi64>)
            -> (tensor<3xf32>, tensor<3xi64>) {
          %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
              affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
            ins(%x : tensor<3x6xf32>) outs(%v, %k : tensor<3xf32>, tensor<3xi64>) {
          ^bb0(%e: f32, %best: f32, %where: i64):
            %j = linalg.index 1 : index
            %position = arith.index_cast %j : index to i64
            %better = arith.cmpf ogt, %e, %best : f32
            %nv = arith.select %better, %e, %best : f32
            %nk = arith.select %better, %position, %where : i64
            linalg.yield %nv, %nk : f32, i64
          } -> tensor<3xf32>, tensor<3xi64>
          func.return %r#0, %r#1 : tensor<3xf32>, tensor<3xi64>
        }"""
        x = RANDOM.integers(0, 4, (3, 6)).astype(np.float32)
        values, positions = run(text, x, np.full(3, -np.inf, np.float32), np.zeros(3, np.int64))
        np.testing.assert_array_equal(values, x.max(1))
        np.testing.assert_array_equal(positions, x.argmax(1))

    def test_an_accumulator_that_the_term_reads_is_taken_in_order(self):
        text = generic(
            "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>",
            "pr",
            "tensor<2x4xf64>",
            "tensor<2xf64>",
            "%t = arith.mulf %s1, %s0 : f64\n %y = arith.addf %s1, %t : f64",
        )
        x = RANDOM.random((2, 4))
        (result,) = run(text, x, np.ones(2))
        np.testing.assert_allclose(result, np.prod(1 + x, axis=1))

    def test_without_an_accumulator_the_last_point_stays(self):
        text = generic(
            "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>",
            "pr",
            "tensor<2x4xf32>",
            "tensor<2xf32>",
            "%y = arith.negf %s0 : f32",
        )
        x = RANDOM.random((2, 4)).astype(np.float32)
        (result,) = run(text, x, np.zeros(2, np.float32))
        np.testing.assert_array_equal(result, -x[:, -1])

    def test_running_sum(self):
        text = """func.func @main(%x: tensor<5xf32>, %y: tensor<5xf32>, %s: tensor<f32>)
            -> (tensor<5xf32>, tensor<f32>) {
          %r:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
              affine_map<(i) -> ()>], iterator_types = ["reduction"]}
            ins(%x : tensor<5xf32>) outs(%y, %s : tensor<5xf32>, tensor<f32>) {
          ^bb0(%e: f32, %o: f32, %total: f32):
            %t = arith.addf %total, %e : f32
            linalg.yield %t, %t : f32, f32
          } -> tensor<5xf32>, tensor<f32>
          func.return %r#0, %r#1 : tensor<5xf32>, tensor<f32>
        }"""
        x = np.arange(1, 6, dtype=np.float32)
        sums, total = run(text, x, np.zeros(5, np.float32), np.array(10, np.float32))
        np.testing.assert_array_equal(sums, 10 + np.cumsum(x))
        assert total == 25

    def test_outputs_do_not_see_each_other(self):
        text = """func.func @main(%a: memref<3xf32>, %b: memref<3xf32>) {
          linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
              iterator_types = ["parallel"]} outs(%a, %b : memref<3xf32>, memref<3xf32>) {
          ^bb0(%x: f32, %y: f32):
            linalg.yield %y, %x : f32, f32
          }
          func.return
        }"""
        a, b = np.arange(3, dtype=np.float32), np.arange(3, 6, dtype=np.float32)
        run(text, a, b)
        np.testing.assert_array_equal([a, b], [[3, 4, 5], [0, 1, 2]])

    def test_convolution_reads_through_windows(self):
        text = generic(
            """affine_map<(n, f, h, w, c, kh, kw) -> (n, c, h + kh, w + kw)>,
            affine_map<(n, f, h, w, c, kh, kw) -> (f, c, kh, kw)>,
            affine_map<(n, f, h, w, c, kh, kw) -> (n, f, h, w)>""",
            "pppprrr",
            "tensor<8x16x10x10xf32> tensor<16x16x3x3xf32>",
            "tensor<8x16x8x8xf32>",
            SUM_OF_PRODUCTS,
        )
        x = RANDOM.standard_normal((8, 16, 10, 10)).astype(np.float32)
        w = RANDOM.standard_normal((16, 16, 3, 3)).astype(np.float32)
        (result,) = run(text, x, w, np.zeros((8, 16, 8, 8), np.float32))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        np.testing.assert_allclose(result, np.einsum("nchwij,fcij->nfhw", windows, w), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("body", [SUM_OF_PRODUCTS, SUM_IN_ORDER], ids=["combined", "in order"])
    def test_gradient_of_a_strided_window_accumulates(self, body):
        text = generic(
            "affine_map<(n, o, k) -> (n, o)>, affine_map<(n, o, k) -> (k)>, affine_map<(n, o, k) -> (n, o * 2 + k)>",
            "prr",
            "tensor<2x4xf32> tensor<3xf32>",
            "tensor<2x9xf32>",
            body,
        )
        g, w = RANDOM.standard_normal((2, 4)).astype(np.float32), RANDOM.standard_normal(3).astype(np.float32)
        expected = np.zeros((2, 9), np.float32)
        for o, k in product(range(4), range(3)):
            expected[:, o * 2 + k] += g[:, o] * w[k]
        (result,) = run(text, g, w, np.zeros((2, 9), np.float32))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)

    def test_fill_and_named_ops(self):
        text = """func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>)
            -> (tensor<2x4xf32>, tensor<3x2xf32>, tensor<3xf32>) {
          %half = arith.constant 0.5 : f32
          %e = tensor.empty() : tensor<2x4xf32>
          %f = linalg.fill ins(%half : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
          %m = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x4xf32>)
            outs(%f : tensor<2x4xf32>) -> tensor<2x4xf32>
          %g = tensor.empty() : tensor<3x2xf32>
          %t = linalg.transpose ins(%a : tensor<2x3xf32>) outs(%g : tensor<3x2xf32>) permutation = [1, 0]
          %z = arith.constant dense<0.0> : tensor<3xf32>
          %r = linalg.reduce ins(%a : tensor<2x3xf32>) outs(%z : tensor<3xf32>) dimensions = [0]
            (%in: f32, %acc: f32) {
              %s = arith.addf %in, %acc : f32
              linalg.yield %s : f32
            }
          func.return %m, %t, %r : tensor<2x4xf32>, tensor<3x2xf32>, tensor<3xf32>
        }"""
        a, b = RANDOM.standard_normal((2, 3)).astype(np.float32), RANDOM.standard_normal((3, 4)).astype(np.float32)
        product_, transposed, reduced = run(text, a, b)
        np.testing.assert_allclose(product_, 0.5 + a @ b, rtol=1e-5)
        np.testing.assert_array_equal(transposed, a.T)
        np.testing.assert_allclose(reduced, a.sum(0), rtol=1e-6)

    def test_memrefs_are_written_in_place(self):
        text = """func.func @main(%x: memref<3xf32>, %y: memref<3xf32>, %s: memref<f32>) {
          %zero = arith.constant 0.0 : f32
          linalg.fill ins(%zero : f32) outs(%s : memref<f32>)
          linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
              iterator_types = ["parallel"]} ins(%x : memref<3xf32>) outs(%y : memref<3xf32>) {
          ^bb0(%a: f32, %o: f32):
            %b = arith.addf %a, %a : f32
            linalg.yield %b : f32
          }
          linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
              iterator_types = ["reduction"]} ins(%y : memref<3xf32>) outs(%s : memref<f32>) {
          ^bb0(%a: f32, %o: f32):
            %b = arith.addf %a, %o : f32
            linalg.yield %b : f32
          }
          func.return
        }"""
        x, y, s = np.array([1, 2, 3], np.float32), np.zeros(3, np.float32), np.array(np.nan, np.float32)
        run(text, x, y, s)
        np.testing.assert_array_equal(y, 2 * x)
        assert s == 12

    GATHER = """func.func @main(%x: tensor<5xf32>, %k: tensor<4xi64>) -> tensor<4xf32> {{
      %e = tensor.empty() : tensor<4xf32>
      %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]}} ins(%k : tensor<4xi64>) outs(%e : tensor<4xf32>) {{
      ^bb0(%j: i64, %o: f32):
        %p = arith.index_cast %j : i64 to index
        {body}
        linalg.yield %v : f32
      }} -> tensor<4xf32>
      func.return %r : tensor<4xf32>
    }}"""

    def test_extract_in_a_body_gathers(self):
        text = self.GATHER.format(body="%v = tensor.extract %x[%p] : tensor<5xf32>")
        x, k = RANDOM.standard_normal(5).astype(np.float32), np.array([4, 0, 2, 2])
        np.testing.assert_array_equal(run(text, x, k)[0], x[k])
        with pytest.raises(InterpreterError, match=r"tensor.extract: index \[-2\] is out of bounds for shape \(5,\)"):
            run(text, x, np.array([4, 0, -2, 9]))

    def test_if_in_a_body_selects_and_guards(self):
        text = self.GATHER.format(
            body="""%zero = arith.constant 0 : index
            %inside = arith.cmpi sge, %p, %zero : index
            %v = scf.if %inside -> (f32) {
              %five = arith.constant 5 : index
              %below = arith.cmpi slt, %p, %five : index
              %w = scf.if %below -> (f32) {
                %u = tensor.extract %x[%p] : tensor<5xf32>
                scf.yield %u : f32
              } else {
                %high = arith.constant 9.0 : f32
                scf.yield %high : f32
              }
              scf.yield %w : f32
            } else {
              %low = arith.constant -9.0 : f32
              scf.yield %low : f32
            }"""
        )
        x = np.arange(5, dtype=np.float32)
        np.testing.assert_array_equal(run(text, x, np.array([-1, 3, 5, 0]))[0], [-9, 3, 9, 0])
        np.testing.assert_array_equal(run(text, x, np.array([1, 2, 3, 4]))[0], [1, 2, 3, 4])
        np.testing.assert_array_equal(run(text, x, np.array([-1, -2, -3, -4]))[0], [-9] * 4)

    def test_the_other_branch_is_guarded_too(self):
        text = self.GATHER.format(
            body="""%five = arith.constant 5 : index
            %beyond = arith.cmpi sge, %p, %five : index
            %v = scf.if %beyond -> (f32) {
              %high = arith.constant 9.0 : f32
              scf.yield %high : f32
            } else {
              %u = tensor.extract %x[%p] : tensor<5xf32>
              scf.yield %u : f32
            }"""
        )
        np.testing.assert_array_equal(
            run(text, np.arange(5, dtype=np.float32), np.array([4, 5, 0, 7]))[0], [4, 9, 0, 9]
        )

    def test_an_unguarded_point_of_a_branch_still_fails(self):
        text = self.GATHER.format(
            body="""%one = arith.constant 1 : index
            %guard = arith.cmpi sge, %p, %one : index
            %v = scf.if %guard -> (f32) {
              %u = tensor.extract %x[%p] : tensor<5xf32>
              scf.yield %u : f32
            } else {
              %low = arith.constant -9.0 : f32
              scf.yield %low : f32
            }"""
        )
        with pytest.raises(InterpreterError, match=r"index \[7\] is out of bounds for shape \(5,\)"):
            run(text, np.zeros(5, np.float32), np.array([-3, 7, 0, 1]))

    def test_bodies_may_loop_with_the_same_bounds_at_every_point(self):
        body = """%zero = arith.constant 0 : index
            %one = arith.constant 1 : index
            %three = arith.constant 3 : index
            %start = arith.constant 0.0 : f32
            %v = scf.for %q = %zero to BOUND step %one iter_args(%s = %start) -> (f32) {
              %u = tensor.extract %x[%p] : tensor<5xf32>
              %t = arith.addf %s, %u : f32
              scf.yield %t : f32
            }"""
        x, k = np.arange(5, dtype=np.float32), np.array([4, 0, 1, 2])
        np.testing.assert_array_equal(run(self.GATHER.format(body=body.replace("BOUND", "%three")), x, k)[0], 3 * x[k])
        with pytest.raises(InterpreterError, match=r"scf\.for: bounds, condition or case differ between the points"):
            run(self.GATHER.format(body=body.replace("BOUND", "%p")), x, k)

    def test_effects_in_a_body_are_refused(self):
        text = """func.func @main(%x: memref<3xf32>) {
          %zero = arith.constant 0 : index
          linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
            outs(%x : memref<3xf32>) {
          ^bb0(%a: f32):
            memref.store %a, %x[%zero] : memref<3xf32>
            linalg.yield %a : f32
          }
          func.return
        }"""
        with pytest.raises(InterpreterError, match=r"memref\.store: effects in the body of a structured op"):
            run(text, np.zeros(3, np.float32))

    def test_maps_must_stay_in_bounds(self):
        text = generic(
            "affine_map<(i) -> (i + 1)>, affine_map<(i) -> (i)>",
            "p",
            "tensor<3xf32>",
            "tensor<3xf32>",
            "%y = arith.negf %s0 : f32",
        )
        x = np.zeros(3, np.float32)
        with pytest.raises(InterpreterError, match=r"linalg\.generic: indexing map .* reaches indices 1 to 3 of a dim"):
            Interpreter().run(parse(text), "main", (x, x))

    def test_nonlinear_maps_gather(self):
        text = generic(
            "affine_map<(i, j) -> (i mod 3, j floordiv 2)>, affine_map<(i, j) -> (i, j)>",
            "pp",
            "tensor<3x2xf32>",
            "tensor<5x4xf32>",
            "%y = arith.negf %s0 : f32",
        )
        x = RANDOM.standard_normal((3, 2)).astype(np.float32)
        (result,) = run(text, x, np.zeros((5, 4), np.float32))
        np.testing.assert_array_equal(result, -x[np.arange(5)[:, None] % 3, np.arange(4) // 2])

    def test_empty_domain_gives_the_init(self):
        text = generic(
            "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>",
            "pr",
            "tensor<2x0xf32>",
            "tensor<2xf32>",
            "%y = arith.maximumf %s0, %s1 : f32",
        )
        (result,) = run(text, np.zeros((2, 0), np.float32), np.array([7, 8], np.float32))
        np.testing.assert_array_equal(result, [7, 8])

    def test_bf16_accumulates_in_the_type_of_the_output(self):
        text = generic(
            "affine_map<(i) -> (i)>, affine_map<(i) -> ()>",
            "r",
            "tensor<600xbf16>",
            "tensor<f32>",
            "%w = arith.extf %s0 : bf16 to f32\n %y = arith.addf %s1, %w : f32",
        )
        (result,) = run(text, np.ones(600, ml_dtypes.bfloat16), np.array(0, np.float32))
        assert result == 600  # a bf16 accumulator would stop at 256
