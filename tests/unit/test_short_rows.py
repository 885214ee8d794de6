"""Rows so short that lanes take a row each: numbers for lengths, dtypes, widths of vectors, and rows left over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loop_kernels import interpret, parse, to_loops

import tenon
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.schedules.short_rows import short_rows
from tenon.passes.machine import GENERIC
from tenon.runtime.cpu.compile import host_target

Array = np.ndarray[Any, Any]


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "softmax": (tenon.softmax, _softmax),
    "logsumexp": (lambda x: tenon.logsumexp(x, axis=-1), lambda x: np.log(np.exp(x).sum(-1))),
    "argmax": (lambda x: tenon.argmax(x, axis=-1), lambda x: x.argmax(-1)),
}
CASES = [
    ((2003, 2), "float32"),
    ((8, 137, 3), "float64"),
    ((1257, 4), "float16"),
    ((1050, 10), "float32"),
    ((1113, 12), "float64"),
    ((1030, 11), "float32"),
    ((29, 3), "float32"),
    ((187, 10), "float64"),
]
TOLERANCES = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-13}


@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_short_rows(name: str, shape: tuple[int, ...], dtype: str, bits: int) -> None:
    x = np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)
    function, oracle = FUNCTIONS[name]
    with tenon.knobs.override(vector_bits=min(bits, host_target().vector_bits)):
        compiled = tenon.jit(function)
        found = compiled(x)
        with tenon.num_threads(2):
            np.testing.assert_array_equal(compiled(x), found)
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(found, oracle(x.astype(np.float64)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(1103, 3), (1133, 10)])
def test_nothing_is_touched_behind_the_last_row(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with tenon.knobs.override(check_memory=True):
        np.testing.assert_allclose(tenon.jit(tenon.softmax)(x), _softmax(x), rtol=2e-6)


def test_columns_have_the_means_and_the_weights_of_rows() -> None:
    x, weight, bias = (np.random.default_rng(i).standard_normal(s) for i, s in enumerate(((1100, 6), (6,), (6,))))
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(tenon.jit(tenon.layer_norm)(x, weight, bias), expected, rtol=1e-11)


COPY = """
func.func private @k(%x: memref<{0}x{1}xf32>, %o: memref<{1}x{0}xf32>) attributes {{kernel}} {{
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>],
                  iterator_types = ["parallel", "parallel"]}}
      ins(%x : memref<{0}x{1}xf32>) outs(%o : memref<{1}x{0}xf32>)
      attrs = {{schedule = {{vector = {2}, width = 8, unroll = 2, jam = {3}, jam_count = {4}}}}} {{
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }}
  func.return
}}
"""


@pytest.mark.parametrize("length", [2, 3, 5, 6, 7, 12, 15])
@pytest.mark.parametrize("to_columns", [True, False])
def test_rows_become_columns_and_columns_rows(length: int, to_columns: bool) -> None:
    """Of 37 rows: two vectors at once, two of them, and five rows that are left."""
    shape = (37, length) if to_columns else (length, 37)
    text = COPY.format(*shape, *((0, 1) if to_columns else (1, 0)), length)
    x = np.arange(37 * length, dtype=np.float32).reshape(shape)
    (found,) = interpret(to_loops(parse(text), None), "k", [x], [np.zeros(shape[::-1], np.float32)])
    np.testing.assert_array_equal(found, x.T)


def test_a_tile_of_some_of_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loop 1 cannot be vectorized: .* no unit stride"):
        to_loops(parse(COPY.format(6, 37, 1, 0, 3)), None)


ROWS = """
func.func private @k(%x: memref<4096x{0}xf32>, %o: memref<4096xf32>) attributes {{kernel}} {{
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}}
      ins(%x : memref<4096x{0}xf32>) outs(%o : memref<4096xf32>) {{
  ^bb0(%a: f32, %acc: f32):
    %e = {1} %a : f32
    %r = arith.addf %acc, %e : f32
    linalg.yield %r : f32
  }}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("length", "op", "is_turned"),
    [
        (3, "arith.negf", False),
        (3, "math.exp", True),
        (10, "arith.negf", True),
        (32, "arith.negf", False),
        (41, "math.exp", False),
    ],
)
def test_what_a_row_costs_decides(length: int, op: str, is_turned: bool) -> None:
    (function,) = kernels_of(parse(ROWS.format(length, op)))
    assert bool(short_rows(read_kernel(function), GENERIC)) == is_turned


def test_rows_of_one_element_of_a_slice() -> None:
    """What is read across the rows of the result, beside rows of it, is no row itself."""
    x = np.random.default_rng(0).standard_normal((16, 8, 3)).astype(np.float32)
    function = tenon.jit(lambda x: tenon.cast(x[3:5, 0:2, 2:3], dtype="bf16") + 0)
    np.testing.assert_allclose(function(x).astype(np.float32), x[3:5, 0:2, 2:3], rtol=1e-2)
