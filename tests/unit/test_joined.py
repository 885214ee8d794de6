"""Tensors joined along each axis: each has loops of its own where its runs are long enough, else elements ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon

SHAPES = [(5, 7, 9), (1, 100), (128, 16)]
SIZES = [(3, 4), (16, 0, 5), (33, 17, 64, 20), (1,) * 20]


def _parts(shape: tuple[int, ...], axis: int, sizes: tuple[int, ...], dtype: Any) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(len(sizes))
    shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    return [random.integers(0, 3, part).astype(dtype) for part in shapes]


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_along_each_axis(shape: tuple[int, ...], dtype: Any) -> None:
    for axis in range(len(shape)):
        joined = tenon.jit(lambda *parts, axis=axis: tenon.concatenate(parts, axis=axis))
        for sizes in SIZES:
            parts = _parts(shape, axis, sizes, dtype)
            np.testing.assert_array_equal(joined(*parts), np.concatenate(parts, axis))
        (part,) = _parts(shape, axis, (shape[axis],), dtype)
        np.testing.assert_array_equal(joined(part, part), np.concatenate([part, part], axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_with_work_around(axis: int) -> None:
    x, y = np.arange(640.0).reshape(20, 32), np.ones((20, 32))
    function = tenon.jit(lambda x, y: tenon.sum(tenon.concatenate((x * 2, y + 1), axis=axis) * 3, axis=1 - axis))
    np.testing.assert_array_equal(function(x, y), (np.concatenate((x * 2, y + 1), axis) * 3).sum(1 - axis))


def test_interpreter_agrees() -> None:
    parts = [np.arange(60.0).reshape(3, 20), np.ones((3, 17)), np.zeros((3, 16))]
    function = tenon.jit(lambda *parts: tenon.concatenate(parts, axis=1))
    with tenon.knobs.override(interpret=True):
        np.testing.assert_array_equal(function(*parts), np.concatenate(parts, 1))


def _turned(xp: Any, x: Any) -> Any:
    return xp.flip(x, axis=0)[300:]


TURNED_TWICE: dict[str, Any] = {
    "a function between": lambda xp, x: xp.flip(xp.tanh(_turned(xp, x)), axis=0),
    "joined between": lambda xp, x: xp.flip(xp.concatenate([x[:70] + 1, _turned(xp, x)], axis=0), axis=0),
    "a sum behind": lambda xp, x: xp.flip(xp.tanh(_turned(xp, x)), axis=0).sum(axis=1),
    "both axes": lambda xp, x: xp.flip(xp.tanh(_turned(xp, xp.flip(x, axis=1)[:, 7:])), axis=(0, 1)),
}


@pytest.mark.parametrize("function", TURNED_TWICE.values(), ids=TURNED_TWICE)
def test_reversals_of_a_part_meet(function: Any) -> None:
    x = np.random.default_rng(7).standard_normal((800, 37)).astype(np.float32)
    with tenon.knobs.override(check_memory=True):
        found = tenon.jit(lambda x: function(tenon, x))(x)
    np.testing.assert_allclose(found, function(np, x), rtol=1e-5, atol=1e-5)
