"""Arguments that lie across the rows that a kernel adds up and writes: numbers for lengths that fill no tile, dtypes
and widths of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.cpu.compile import host_target

Array = np.ndarray[Any, Any]


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _normalized(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "softmax": (lambda x, y: tenon.softmax(x.mT), lambda x, y: _softmax(x.swapaxes(-1, -2))),
    "two": (lambda x, y: tenon.softmax(x.mT + y), lambda x, y: _softmax(x.swapaxes(-1, -2) + y)),
    "norm": (lambda x, y: tenon.layer_norm(x.mT), lambda x, y: _normalized(x.swapaxes(-1, -2))),
    "part": (
        lambda x, y: (x[..., 1:, ::2].mT * y[..., : (x.shape[-1] + 1) // 2, 1:]).sum(axis=-1),
        lambda x, y: (x[..., 1:, ::2].swapaxes(-1, -2) * y[..., : (x.shape[-1] + 1) // 2, 1:]).sum(-1),
    ),
    "steps": (lambda x, y: x[..., ::3].mT * 2, lambda x, y: x[..., ::3].swapaxes(-1, -2) * 2),
    "products": (lambda x, y: (x.mT * y).sum(axis=-1), lambda x, y: (x.swapaxes(-1, -2) * y).sum(-1)),
}
CASES = [
    ((64, 48), "float32"),
    ((137, 29), "float64"),
    ((8, 9), "float32"),
    ((3, 257, 35), "float32"),
    ((2, 70, 33), "float16"),
    ((2000, 18), "float64"),
]
TOLERANCES = {"float16": 6e-3, "float32": 4e-6, "float64": 1e-13}


@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_across(name: str, shape: tuple[int, ...], dtype: str, bits: int) -> None:
    random = np.random.default_rng(shape[-1])
    x = random.standard_normal(shape).astype(dtype)
    y = random.standard_normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype)
    function, oracle = FUNCTIONS[name]
    with tenon.knobs.override(vector_bits=min(bits, host_target().vector_bits)):
        compiled = tenon.jit(function)
        found = compiled(x, y)
        with tenon.num_threads(2):
            np.testing.assert_array_equal(compiled(x, y), found)
    wanted = oracle(x.astype(np.float64), y.astype(np.float64))
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * scale)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows", [7, 67, 200])
def test_products_with_a_vector_beside_what_is_made_of_them(rows: int, dtype: str) -> None:
    random = np.random.default_rng(0)
    a, x, b = (random.standard_normal(shape).astype(dtype) for shape in ((rows, 131), 131, rows))
    sums, found = tenon.jit(lambda a, x, b: (y := a @ x, tenon.tanh(y + b)))(a, x, b)
    np.testing.assert_allclose(sums, a @ x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, np.tanh(a @ x + b), rtol=1e-5, atol=1e-5)
