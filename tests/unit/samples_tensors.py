"""Samples of reductions, of ops that move elements, and of indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, distinct, generator, integers, numbers, truths

# --- reductions -------------------------------------------------------------------------------------------------------

REDUCED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((3, 7), {}),
    ((3, 7), {"axis": 0}),
    ((2, 3, 5), {"axis": (-1, 0)}),
    ((2, 3, 5), {"axis": (1,), "keepdims": True}),
    ((2, 3, 5), {"axis": (0, 1, 2), "keepdims": True}),
    ((11,), {"axis": -1}),
    ((), {}),
    ((4, 1), {"axis": 1}),
]


def reduction(name: str, function: Callable[..., Any], arrays: Callable[..., Array], **options: Any) -> None:
    """Floats along all sorts of axes."""
    smooth = options.pop("smooth", True)
    for shape, settings in REDUCED:
        if name in ("argmax", "argmin") and isinstance(settings.get("axis"), tuple):
            settings = {"axis": settings["axis"][0]} | ({"keepdims": True} if settings.get("keepdims") else {})
        oracle = _reducing(function, settings)
        add(name, [arrays(name, shape, F32)], oracle, differentiable=smooth, **settings, **options)
    for dtype in (F16, BF16, F64):
        add(name, [arrays(name, (5, 13), dtype)], _reducing(function, {"axis": 1}), axis=1, **options)


def _reducing(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    return lambda x: function(x, **settings)


def _same_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, **settings: np.asarray(function(x, dtype=x.dtype, **settings))


reduction("sum", np.sum, numbers)
reduction("mean", np.mean, numbers)
reduction("prod", np.prod, numbers)
reduction("max", np.max, distinct)
reduction("min", np.min, distinct)
reduction("var", np.var, numbers)
add("std", [numbers("std", (3, 7))], lambda x: np.std(x, axis=1), axis=1, differentiable=True)
add(
    "std",
    [numbers("std", (3, 7), F64)],
    lambda x: np.std(x, axis=(0,), keepdims=True),
    axis=0,
    keepdims=True,
    differentiable=True,
)
add("std", [numbers("std", (2, 3, 5), BF16)], np.std)
reduction("logsumexp", lambda x, **s: scipy.special.logsumexp(x, **s), numbers)
reduction("argmax", np.argmax, distinct, smooth=False)
reduction("argmin", np.argmin, distinct, smooth=False)
reduction("any", np.any, lambda seed, shape, dtype: (numbers(seed, shape, F32) > 1.2).astype(dtype), smooth=False)
reduction("all", np.all, lambda seed, shape, dtype: (numbers(seed, shape, F32) > -1.2).astype(dtype), smooth=False)
add("var", [numbers("ddof", (3, 7), F64)], lambda x: np.var(x, axis=1, ddof=1), axis=1, ddof=1, differentiable=True)
add("var", [(1000 + numbers("shift", (7, 11))).astype(F32)], lambda x: np.var(x, axis=0), "shifted", axis=0, rtol=1e-3)
for _name, _function in {"sum": np.sum, "prod": np.prod}.items():
    for _dtype in (np.int8, np.int16, np.int32, np.int64):
        add(_name, [integers(_name, (3, 5), _dtype)], _reducing(_same_dtype(_function), {"axis": 0}), axis=0)
for _name, _function in {"max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}.items():
    for _dtype in (np.int8, np.int16, np.int32, np.int64):
        add(_name, [integers(_name, (3, 11), _dtype)], _reducing(_function, {"axis": 1}), axis=1)
    _ties = np.array(
        [[1, 3, 3, 0, 0], [2, 2, 2, 2, 2], [NAN, 1, NAN, 0, 5], [-INF, -INF, -INF, -INF, -INF], [INF, 0, INF, 1, 2]],
        F32,
    )
    add(_name, [_ties], _reducing(_function, {"axis": 1}), "ties", axis=1)
    add(_name, [_ties], _function, "ties")
    add(_name, [_ties[:2].astype(F16)], _reducing(_function, {"keepdims": True}), "ties", keepdims=True)
add("sum", [truths("sum", (3, 5))], lambda x: np.sum(x, axis=1), axis=1)
add("any", [truths("any", (3, 5))], lambda x: np.any(x, axis=1), axis=1)
add("all", [truths("all", (3, 5))], np.all)
add("any", [np.array([[0, 0], [0, -2]], np.int32)], lambda x: np.any(x, axis=-1), axis=-1)
add("all", [np.array([[NAN, 1.0], [0.0, 1.0]])], lambda x: np.all(x, axis=-1), axis=-1)
add("sum", [np.zeros((3, 0, 2), F32)], lambda x: np.sum(x, axis=1), "empty", axis=1)
add("prod", [np.zeros((3, 0, 2), F32)], lambda x: np.prod(x, axis=1), "empty", axis=1)
add("sum", [np.zeros((0, 3), F32)], lambda x: np.sum(x, axis=1), "empty", axis=1)
add("mean", [np.zeros((2, 0), F32)], lambda x: np.full(2, NAN), "empty", axis=1)
add("any", [np.zeros((3, 0), F32)], lambda x: np.any(x, axis=1), "empty", axis=1)
add("all", [np.zeros((3, 0), F32)], lambda x: np.all(x, axis=1), "empty", axis=1)
add("sum", [np.ones((3, 5), F32)], lambda x: x, "no axis", axis=())
add("sum", [np.full(4099, 0.1, F16)], np.sum, "long")
add("mean", [np.full(8209, 60000.0, F16)], np.mean, "overflows when summed")
add(
    "prod",
    [np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]])],
    lambda x: np.prod(x, axis=1),
    "zeros",
    axis=1,
    differentiable=True,
)
add("mean", [integers("mean", (3, 5), np.int64)], lambda x: np.mean(x, axis=0), axis=0)
add(
    "logsumexp",
    [np.array([[1000.0, 1000.0], [-INF, -INF], [-1000.0, 0.0], [INF, 0.0], [NAN, 0.0]], F32)],
    lambda x: np.array([1000 + np.log(2), -INF, 0.0, INF, NAN]),
    "special",
    axis=1,
)

# --- shape ------------------------------------------------------------------------------------------------------------


def moving(name: str, shape: tuple[int, ...], oracle: Callable[[Array], Any], /, **settings: Any) -> None:
    """An op that moves elements, on a float and on a dtype without gradient."""
    add(name, [numbers(name, shape)], oracle, differentiable=True, **settings)
    dtype = (np.int8, np.int64, BF16, np.bool_)[len(str(settings)) % 4]
    add(name, [integers(name, shape, dtype, 0, 100)], oracle, **settings)


moving("reshape", (3, 4), lambda x: x.reshape(2, 6), shape=(2, 6))
moving("reshape", (2, 3, 5), lambda x: x.reshape(5, -1), shape=(5, -1))
moving("reshape", (1, 1), lambda x: x.reshape(()), shape=())
moving("reshape", (), lambda x: x.reshape(1, 1, 1), shape=(1, 1, 1))
moving("reshape", (0, 3), lambda x: x.reshape(-1, 3), shape=(-1, 3))
moving("transpose", (3, 7), np.transpose)
moving("transpose", (2, 3, 5), lambda x: x.transpose(2, 0, 1), permutation=(2, 0, 1))
moving("transpose", (2, 3, 5), lambda x: x.transpose(0, 2, 1), permutation=(0, -1, 1))
moving("transpose", (), np.transpose)
moving("broadcast_to", (3, 1), lambda x: np.broadcast_to(x, (2, 3, 5)), shape=(2, 3, 5))
moving("broadcast_to", (), lambda x: np.broadcast_to(x, (7,)), shape=(7,))
moving("broadcast_to", (1, 3), lambda x: np.broadcast_to(x, (4, 3)), shape=(4, -1))
moving("broadcast_to", (1, 3), lambda x: np.broadcast_to(x, (0, 3)), shape=(0, 3))
moving("broadcast_to", (1, 3), lambda x: x, shape=(1, 3))
moving("expand_dims", (3, 5), lambda x: np.expand_dims(x, (0, -1)), axis=(0, -1))
moving("expand_dims", (), lambda x: np.expand_dims(x, 0), axis=0)
moving("squeeze", (1, 3, 1, 5), np.squeeze)
moving("squeeze", (1, 3, 1, 5), lambda x: np.squeeze(x, -2), axis=-2)
moving("slice", (7, 5), lambda x: x[2:6, 0:5], starts=(2, 0), limits=(6, 5))
moving("slice", (11, 7), lambda x: x[1:10:3, 6::-2], starts=(1, 6), limits=(10, -1), strides=(3, -2))
moving("slice", (5,), lambda x: x[3:3], starts=(3,), limits=(3,))
moving("slice", (), lambda x: x, starts=(), limits=())
moving("flip", (3, 5), np.flip)
moving("flip", (2, 3, 5), lambda x: np.flip(x, (0, -1)), axis=(0, -1))
moving("pad", (3, 2), lambda x: np.pad(x, ((1, 0), (2, 3))), low=(1, 2), high=(0, 3))
moving("pad", (2, 3), lambda x: np.pad(x, ((0, 0), (1, 1)), constant_values=1), low=(0, 1), high=(0, 1), value=1.0)
moving("pad", (0, 2), lambda x: np.pad(x, ((2, 1), (0, 1)), constant_values=1), low=(2, 0), high=(1, 1), value=1.0)
moving("pad", (), lambda x: x, low=(), high=())
add("pad", [numbers("pad", (3,))], lambda x: np.pad(x, (1, 2), constant_values=-INF), low=(1,), high=(2,), value=-INF)
for _shapes, _axis in [
    (((3, 5), (2, 5), (4, 5)), 0),
    (((3, 5), (3, 1), (3, 0), (3, 2)), -1),
    (((7,),), 0),
    (((0, 2), (0, 2)), 1),
    (((0,), (0,)), 0),
]:
    _parts = tuple([numbers(f"concat{i}", s) for i, s in enumerate(_shapes)])
    add("concatenate", [_parts], lambda x, axis=_axis: np.concatenate(x, axis), axis=_axis, differentiable=True)
add("concatenate", [(integers("a", (2, 3)), integers("b", (1, 3)))], lambda x: np.concatenate(x))
add("concatenate", [(truths("a", (2, 3)), truths("b", (2, 3)))], lambda x: np.concatenate(x, 1), axis=1)
for _axis in (0, 1, -1):
    _parts = tuple([numbers(f"stack{i}", (3, 5)) for i in range(3)])
    add("stack", [_parts], lambda x, axis=_axis: np.stack(x, axis), axis=_axis, differentiable=True)
add("stack", [(numbers("a", (), BF16), numbers("b", (), BF16))], np.stack)
add("split", [numbers("split", (3, 10))], lambda x: tuple(np.split(x, 5, 1)), sections=5, axis=1, differentiable=True)
add("split", [numbers("split", (6,), F16)], lambda x: tuple(np.split(x, 2)), sections=2)
add("split", [integers("split", (2, 3))], lambda x: (x,), sections=1, axis=-1)

# --- indexing ---------------------------------------------------------------------------------------------------------

add("iota", [], lambda: np.arange(7), shape=(7,))
add("iota", [], lambda: np.indices((3, 5))[1].astype(float), shape=(3, 5), axis=-1, dtype=F32)
add("iota", [], lambda: np.indices((3, 5))[0].astype(np.int32), shape=(3, 5), dtype=np.int32)
add("iota", [], lambda: np.arange(11.0), shape=(11,), dtype=BF16)
add("iota", [], lambda: np.zeros((0,), np.int64), shape=(0,))

add("band", [], lambda: np.tri(5, 7, dtype=bool), shape=(5, 7), upper=0)
add("band", [], lambda: ~np.tri(7, 5, -3, dtype=bool), shape=(7, 5), lower=-2)
add(
    "band",
    [],
    lambda: np.tri(31, 37, 2, dtype=bool) & ~np.tri(31, 37, -5, dtype=bool),
    shape=(31, 37),
    lower=-4,
    upper=2,
)
add("band", [], lambda: np.broadcast_to(np.tri(3, 3, dtype=bool), (2, 1, 3, 3)), shape=(2, 1, 3, 3), upper=0)
add("band", [], lambda: np.zeros((0, 4), bool), shape=(0, 4), upper=0)

_ROWS = np.array([[1, -1, 0], [4, 1, 1]])
for _axis in (0, 1, -1):
    _wide = (5, 5, 5)
    add(
        "gather",
        [numbers("gather", _wide), _ROWS],
        lambda x, i, axis=_axis: np.take(x, i, axis),
        axis=_axis,
        differentiable=True,
    )
add("gather", [numbers("gather", (5, 2), F64), np.array(3, np.int32)], lambda x, i: x[3], differentiable=True)
add(
    "gather",
    [integers("gather", (5,), np.int8), np.array([0, 9, -9, 4], np.int8)],
    lambda x, i: x[[0, 4, 0, 4]],
    "outside",
)
add("gather", [truths("gather", (5, 3)), np.array([2, 2])], lambda x, i: x[:, [2, 2]], axis=1)
add("gather", [numbers("gather", (3, 2), BF16), np.zeros((0,), np.int32)], lambda x, i: x[:0])


def _added(x: Array, i: Array, updates: Array, axis: int = 0) -> Array:
    result = np.moveaxis(x, axis, 0).copy()
    inside = (i >= -len(result)) & (i < len(result))
    axes = range(axis, axis + i.ndim)
    np.add.at(result, i[inside], np.moveaxis(updates, axes, range(i.ndim))[inside])
    return np.moveaxis(result, 0, axis)


add(
    "scatter_add",
    [numbers("base", (5, 3)), np.array([1, -1, 1, 0]), numbers("updates", (4, 3))],
    _added,
    differentiable=True,
)
add(
    "scatter_add",
    [numbers("base", (2, 5, 3)), np.array([[1, 7], [-6, 4]], np.int32), numbers("updates", (2, 2, 2, 3))],
    lambda x, i, u: _added(x, i, u, 1),
    axis=-2,
    differentiable=True,
)
add("scatter_add", [integers("base", (5,)), np.array(2), np.int32(10)], _added)
add(
    "scatter_add",
    [numbers("base", (5,), F16), integers("at", (31,), low=0, high=5), numbers("updates", (31,), F16)],
    _added,
)
add("scatter_add", [numbers("base", (3, 2)), np.zeros((0,), np.int64), np.zeros((0, 2), F32)], _added)
add("scatter_add", [np.zeros((0, 2), F32), np.array([0, 1]), numbers("updates", (2, 2))], lambda x, i, u: x)

add(
    "embedding",
    [numbers("weight", (7, 3)), np.array([[0, 6], [2, 2], [-1, 1]])],
    lambda w, i: w[i],
    differentiable=True,
)
add("embedding", [numbers("weight", (7, 3), F16), np.array(5, np.int32)], lambda w, i: w[5])
add("one_hot", [np.array([[0, 4], [2, 7]])], lambda i: (i[..., None] == np.arange(5)).astype(float), num_classes=5)
add("one_hot", [np.array(1, np.int32)], lambda i: np.array([0, 1, 0], np.int64), num_classes=3, dtype=np.int64)
add(
    "one_hot",
    [np.array([-1, 2], np.int8)],
    lambda i: np.eye(3, dtype=bool)[[2, 2]],
    num_classes=3,
    dtype=np.bool_,
)
for _size, _dtype in ((11, np.int64), (7, np.int32), (0, np.int64)):
    _permutation = generator("permutation").permutation(_size).astype(_dtype)
    add("invert_permutation", [_permutation], lambda x: np.argsort(x).astype(x.dtype))

add("size", [], lambda: np.int64(12), "product", value=(3, 4))
add("size", [], lambda: np.int64(1), "none", value=())
