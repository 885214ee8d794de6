"""Indices given axis by axis (`x[i, j]`), which become places in one row of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample import generator

import tenon
from tenon.runtime.knobs import knobs

RANDOM = generator("joined places")
COMBINE = {"set": lambda old, new: new, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def places(size: int, dtype: str) -> np.ndarray:
    """Indices of `size` elements, outside of them at either end as well, as far as the dtype goes."""
    low, high = max(-size - 3, int(np.iinfo(dtype).min)), min(size + 3, int(np.iinfo(dtype).max))
    return RANDOM.integers(low, high, 40).astype(dtype)


def nearest(i: np.ndarray, size: int) -> np.ndarray:
    i = i.astype(np.int64)
    return np.clip(np.where(i < 0, i + size, i), 0, size - 1)


@pytest.mark.parametrize("behind", [(), (3,)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_elements_are_read_and_written_as_numpy_does(dtype: str, behind: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=(300, 5, *behind))
    i, j, y = places(300, dtype), places(5, dtype), RANDOM.normal(size=(40, *behind))
    with knobs.override(check_memory=True):
        np.testing.assert_array_equal(tenon.jit(lambda x, i, j: x[i, j])(x, i, j), x[nearest(i, 300), nearest(j, 5)])
    for name, combine in COMBINE.items():
        wanted = x.copy()
        for a, b, value in zip(i.astype(int), j.astype(int), y, strict=True):
            if -300 <= a < 300 and -5 <= b < 5:
                wanted[a, b] = combine(wanted[a, b], value)
        written = tenon.jit(lambda x, i, j, y, name=name: getattr(x.at[i, j], name)(y))(x, i, j, y)
        np.testing.assert_allclose(written, wanted, rtol=1e-12)


@pytest.mark.parametrize("behind", [(), (3,)])
@pytest.mark.parametrize("counts", [(4,), (2, 3)])
def test_examples_read_their_own_elements(counts: tuple[int, ...], behind: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=(*counts, 30, 5, *behind))
    i, j = (np.stack([places(size, "int64") for _ in range(np.prod(counts))]) for size in (30, 5))
    i, j = (part.reshape(*counts, -1) for part in (i, j))

    def read(x: Any, i: Any, j: Any) -> Any:
        return x[i, j]

    wanted = np.stack([x[e][nearest(i[e], 30), nearest(j[e], 5)] for e in np.ndindex(counts)])
    for _ in counts:
        read = tenon.vmap(read)
    with knobs.override(check_memory=True):
        found = tenon.jit(read)(x, i, j)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))
    slopes = tenon.jit(tenon.grad(lambda x, i, j: (read(x, i, j) ** 2).sum()))(x, i, j)
    wanted = np.zeros_like(x)
    for e in np.ndindex(counts):
        np.add.at(wanted[e], (nearest(i[e], 30), nearest(j[e], 5)), 2 * x[e][nearest(i[e], 30), nearest(j[e], 5)])
    np.testing.assert_allclose(slopes, wanted, rtol=1e-12)


def test_gradients_go_to_the_elements_that_were_read() -> None:
    x, (i, j) = RANDOM.normal(size=(6, 5)), (places(6, "int64"), places(5, "int64"))
    wanted = np.zeros_like(x)
    np.add.at(wanted, (nearest(i, 6), nearest(j, 5)), 2 * x[nearest(i, 6), nearest(j, 5)])
    found: Any = tenon.jit(tenon.grad(lambda x, i, j: (x[i, j] ** 2).sum()))(x, i, j)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
