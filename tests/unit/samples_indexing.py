"""Samples of ops that read, write, repeat and pick out elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, distinct, generator, integers, numbers

DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_, F16, BF16, F64)


def filled(seed: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Small numbers of any dtype."""
    return integers(seed, shape, np.int64, 0, 20).astype(dtype)


def moving(name: str, shape: tuple[int, ...], oracle: Callable[..., Any], /, **settings: Any) -> None:
    """An op that moves elements, on a float and on a dtype without gradient."""
    add(name, [numbers(name, shape)], oracle, differentiable=True, **settings)
    dtype = (np.int8, np.uint16, BF16, np.bool_)[len(str(settings)) % 4]
    add(name, [filled(name, shape, dtype)], oracle, **settings)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_elements(x: Array, indices: Array, axis: int) -> Array:
    result = np.empty(indices.shape, x.dtype)
    for place in np.ndindex(*indices.shape):
        source = list(place)
        source[axis] = int(indices[place])
        result[place] = x[tuple(source)]
    return result


for _axis in (0, 1, -1):
    _places = integers("elements", (3, 4, 2), np.int64, -3, 3)
    add(
        "gather_elements",
        [numbers("elements", (3, 5, 3)), _places],
        lambda x, i, axis=_axis: read_elements(x, i, axis),
        axis=_axis,
        differentiable=True,
    )
    add(
        "take_along_axis",
        [numbers("along", (3, 4, 3)), integers("along", (3, 1, 3) if _axis == 1 else (3, 4, 3), np.int32, -3, 3)],
        lambda x, i, axis=_axis: np.take_along_axis(x, i.astype(np.int64), axis),
        axis=_axis,
        differentiable=True,
    )
for _dtype in DTYPES:
    add(
        "gather_elements",
        [filled("any", (3, 4), _dtype), np.array([[1, 0, 2]])],
        lambda x, i: x[[1, 0, 2], [0, 1, 2]][None],
    )
add(
    "gather_elements",
    [numbers("far", (3,)), np.array([-9, 9, -3], np.int8)],
    lambda x, i: x[[0, 2, 0]],
    differentiable=True,
)
add("gather_elements", [numbers("none", (3, 2)), np.zeros((0, 2), np.int64)], lambda x, i: x[:0], differentiable=True)
add("gather_elements", [numbers("none", (3, 0)), np.zeros((2, 0), np.uint8)], lambda x, i: x[:2])
add(
    "take_along_axis", [numbers("wide", (1, 5)), np.array([[0, 4], [1, -1]])], lambda x, i: x[0][i], differentiable=True
)
add("take_along_axis", [numbers("wide", (5,), BF16), np.array([4, 4, 0], np.uint8)], lambda x, i: x[i])


def read_parts(x: Array, indices: Array, batch_dims: int = 0) -> Array:
    if batch_dims:
        return np.stack([read_parts(a, i, batch_dims - 1) for a, i in zip(x, indices, strict=True)])
    parts = [x[tuple(indices[place])] for place in np.ndindex(*indices.shape[:-1])]
    return np.array(parts, x.dtype).reshape((*indices.shape[:-1], *x.shape[indices.shape[-1] :]))


for _shape, _depth, _batch_dims, _leading in [
    ((4, 3, 5), 1, 0, (2,)),
    ((4, 3, 5), 2, 0, (2, 3)),
    ((4, 3, 5), 3, 0, ()),
    ((2, 3, 4), 1, 1, (2, 5)),
    ((2, 3, 4), 2, 1, (2,)),
    ((2, 3, 4, 2), 1, 2, (2, 3)),
    ((4, 3), 0, 0, (2,)),
    ((4, 3), 2, 0, (0,)),
]:
    _sizes = np.array(_shape[_batch_dims : _batch_dims + _depth])
    _inside = (generator("parts").random((*_leading, _depth)) * 2 * _sizes - _sizes).astype(np.int64)
    _settings: dict[str, Any] = {"batch_dims": _batch_dims} if _batch_dims else {}
    add(
        "gather_nd",
        [numbers("parts", _shape), _inside],
        lambda x, i, b=_batch_dims: read_parts(x, i, b),
        differentiable=True,
        **_settings,
    )
for _dtype in DTYPES:
    add(
        "gather_nd",
        [filled("any", (3, 4), _dtype), np.array([[1, 0], [-1, 3]], np.int8)],
        lambda x, i: x[[1, 2], [0, 3]],
    )
add("gather_nd", [numbers("far", (3, 4)), np.array([[9, -9]])], lambda x, i: x[[2], [0]], differentiable=True)

# --- writing ----------------------------------------------------------------------------------------------------------

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def written(x: Array, updates: Any, places: Any, reduction: str) -> Array:
    """`x` after each of `updates` at its place; places outside are passed over."""
    result = np.array(x)
    for update, place in zip(updates, places, strict=True):
        if all(-size <= i < size for i, size in zip(place, x.shape, strict=False)):
            result[place] = COMBINE[reduction](result[place], update)
    return result


def write_elements(x: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "none") -> Array:
    places: list[tuple[int, ...]] = []
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = int(indices[place])
        places.append(tuple(target))
    return written(x, [updates[place] for place in np.ndindex(*indices.shape)], places, reduction)


def write_parts(x: Array, indices: Array, updates: Array, batch_dims: int = 0, reduction: str = "none") -> Array:
    if batch_dims:
        rows = zip(x, indices, updates, strict=True)
        return np.stack([write_parts(a, i, u, batch_dims - 1, reduction) for a, i, u in rows])
    leading = list(np.ndindex(*indices.shape[:-1]))
    places = [tuple(map(int, indices[at])) for at in leading]
    return written(x, [updates[at] for at in leading], places, reduction)


for _reduction in COMBINE:
    _settings = {} if _reduction == "none" else {"reduction": _reduction}
    add(
        "scatter_elements",
        [
            distinct("base", (5, 3), F32),
            integers("at", (7, 2), np.int64, -5, 7),
            distinct("updates", (7, 2), F32) + 0.0625,
        ],
        lambda x, i, u, r=_reduction: write_elements(x, i, u, 0, r),
        differentiable=True,
        **_settings,
    )
    add(
        "scatter_elements",
        [
            distinct("base", (2, 5, 3), F64),
            integers("at", (2, 4, 3), np.int32, -5, 5),
            numbers("updates", (2, 4, 3), F64),
        ],
        lambda x, i, u, r=_reduction: write_elements(x, i, u, 1, r),
        differentiable=True,
        axis=-2,
        **_settings,
    )
    add(
        "scatter_nd",
        [
            distinct("base", (4, 3, 2), F32),
            integers("at", (5, 2), np.int64, -3, 3),
            distinct("new", (5, 2), F32) + 0.0625,
        ],
        lambda x, i, u, r=_reduction: write_parts(x, i, u, 0, r),
        differentiable=True,
        **_settings,
    )
    add(
        "scatter_nd",
        [
            distinct("base", (2, 3, 2), F32),
            integers("at", (2, 4, 1), np.int8, -4, 5),
            distinct("new", (2, 4, 2), F32) + 0.0625,
        ],
        lambda x, i, u, r=_reduction: write_parts(x, i, u, 1, r),
        differentiable=True,
        batch_dims=1,
        **_settings,
    )
    for _dtype in (np.int8, np.int64, np.uint8, np.uint32, F64):
        add(
            "scatter_elements",
            [filled("base", (5,), _dtype), np.array([0, -1, 0, 9, 2]), filled("new", (5,), _dtype)],
            lambda x, i, u, r=_reduction: write_elements(x, i, u, 0, r),
            **_settings,
        )
        add(
            "scatter_nd",
            [filled("base", (5,), _dtype), np.array([[0], [-1], [0], [9], [2]]), filled("new", (5,), _dtype)],
            lambda x, i, u, r=_reduction: write_parts(x, i, u, 0, r),
            **_settings,
        )
    add(
        "put_along_axis",
        [numbers("base", (3, 5)), np.array([[0, 3, -1]]), numbers("new", (3, 1))],
        lambda x, i, u, r=_reduction: write_elements(x, np.repeat(i, 3, 0), np.repeat(u, 3, 1), 1, r),
        differentiable=True,
        **_settings,
    )
for _dtype in (F16, BF16, np.bool_):
    _new = filled("new", (4,), _dtype)
    add("scatter_elements", [filled("base", (3,), _dtype), np.array([0, 2, 0, 1]), _new], write_elements)
_zeros = np.array([2.0, 0.0, 3.0, 0.0, 0.0])
add(
    "scatter_elements",
    [_zeros, np.array([0, 0, 1, 2, 3, 3, 4]), np.array([0.0, 5.0, 7.0, 2.0, 0.0, 2.0, 4.0])],
    lambda x, i, u: write_elements(x, i, u, 0, "mul"),
    "zeros",
    reduction="mul",
    differentiable=True,
)
add(
    "scatter_elements",
    [np.array([NAN, 1.0, INF], F32), np.array([0, 1, 2, 2]), np.array([1.0, NAN, -INF, NAN], F32)],
    lambda x, i, u: write_elements(x, i, u, 0, "max"),
    "special",
    reduction="max",
)
add(
    "scatter_elements",
    [numbers("base", (3,)), np.zeros((0,), np.int64), np.zeros((0,), F32)],
    write_elements,
    differentiable=True,
)
add(
    "scatter_elements",
    [np.zeros((0, 2), F32), np.array([[0, 1]]), numbers("new", (1, 2))],
    lambda x, i, u: x,
    differentiable=True,
)
add(
    "scatter_nd",
    [numbers("base", (3, 2)), np.zeros((2, 0), np.int64), numbers("new", (2, 3, 2))],
    write_parts,
)
add(
    "scatter_nd",
    [numbers("base", (3, 2)), np.zeros((0, 1), np.int64), np.zeros((0, 2), F32)],
    write_parts,
    differentiable=True,
)


def first_place(starts: Array, shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """Where a slice of `sizes` lies in a tensor of `shape`."""
    counted = [int(start) + (whole if start < 0 else 0) for start, whole in zip(starts, shape, strict=True)]
    inside = [min(max(start, 0), whole - size) for start, whole, size in zip(counted, shape, sizes, strict=True)]
    return tuple([slice(start, start + size) for start, size in zip(inside, sizes, strict=True)])


def replaced_slice(x: Array, update: Array, starts: Array) -> Array:
    result = np.array(x)
    result[first_place(starts, x.shape, update.shape)] = update
    return result


for _starts in ((1, 2), (-2, -9), (9, 0)):
    _at = np.array(_starts, np.int32)
    add(
        "dynamic_slice",
        [numbers("slice", (5, 7)), _at],
        lambda x, s: x[first_place(s, x.shape, (2, 3))],
        str(_starts),
        sizes=(2, 3),
        differentiable=True,
    )
    add(
        "dynamic_update_slice",
        [numbers("slice", (5, 7)), numbers("update", (2, 3)), _at],
        replaced_slice,
        str(_starts),
        differentiable=True,
    )
for _dtype in DTYPES:
    add("dynamic_slice", [filled("slice", (7,), _dtype), np.array([3])], lambda x, s: x[3:5], sizes=2)
    add(
        "dynamic_update_slice",
        [filled("slice", (7,), _dtype), filled("new", (2,), _dtype), np.array([6])],
        replaced_slice,
    )
add("dynamic_slice", [numbers("slice", ()), np.zeros((0,), np.int64)], lambda x, s: x, sizes=(), differentiable=True)
add("dynamic_slice", [numbers("slice", (3, 2)), np.array([1, 0])], lambda x, s: x[:0], sizes=(0, 2))
add(
    "dynamic_update_slice",
    [numbers("base", (3,)), np.zeros((0,), F32), np.array([1])],
    lambda x, u, s: x,
    differentiable=True,
)


def scattered_slice(x: Array, update: Array, **settings: Any) -> Array:
    result = x.copy()
    result[tuple(map(slice, settings["starts"], settings["limits"], settings["strides"] or (None,) * x.ndim))] = update
    return result


for _settings in (
    {"starts": (1, 2), "limits": (3, 7), "strides": None},
    {"starts": (0, 1), "limits": (5, 7), "strides": (2, 3)},
    {"starts": (4, 6), "limits": (0, 1), "strides": (-2, -1)},
):
    _size = numbers("slice", (5, 7))[
        tuple(map(slice, _settings["starts"], _settings["limits"], _settings["strides"] or (None, None)))
    ].shape
    add(
        "slice_scatter",
        [numbers("slice", (5, 7)), numbers("update", _size)],
        partial(scattered_slice, **_settings),
        differentiable=True,
        **_settings,
    )
for _dtype in DTYPES:
    add(
        "slice_scatter",
        [filled("slice", (70,), _dtype), filled("new", (66,), _dtype)],
        partial(scattered_slice, starts=(3,), limits=(69,), strides=None),
        starts=(3,),
        limits=(69,),
    )

# --- repeating, rotating, picking out ---------------------------------------------------------------------------------

moving("tile", (2, 3), lambda x: np.tile(x, (2, 1, 3)), repeats=(2, 1, 3))
moving("tile", (2, 3, 2), lambda x: np.tile(x, 2), repeats=2)
moving("tile", (), lambda x: np.tile(x, (3,)), repeats=(3,))
moving("tile", (2, 3), lambda x: np.tile(x, (0, 1)), repeats=(0, 1))
moving("tile", (2, 0), lambda x: np.tile(x, (2, 2)), repeats=(2, 2))
moving("tile", (2,), lambda x: x, repeats=())
moving("repeat", (2, 3), lambda x: np.repeat(x, 3), repeats=3)
moving("repeat", (2, 3), lambda x: np.repeat(x, 2, -1), repeats=2, axis=-1)
moving("repeat", (2, 3), lambda x: np.repeat(x, 0, 0), repeats=0, axis=0)
moving("repeat", (), lambda x: np.repeat(x, 2), repeats=2)
moving("roll", (2, 5), lambda x: np.roll(x, 3), shift=3)
moving("roll", (2, 5), lambda x: np.roll(x, -2, 1), shift=-2, axis=1)
moving("roll", (3, 5), lambda x: np.roll(x, (1, 12), (0, -1)), shift=(1, 12), axis=(0, -1))
moving("roll", (3, 5), lambda x: np.roll(x, 1, (0, 1)), shift=1, axis=(0, 1))
moving("roll", (), lambda x: np.roll(x, 1), shift=1)
moving("roll", (0, 2), lambda x: np.roll(x, 1, 0), shift=1, axis=0)
for _offset, _shape in product((0, 1, -2, 7, -7), ((3, 5), (5, 3))):
    _settings = {"offset": _offset} if _offset else {}
    moving("diagonal", _shape, lambda x, o=_offset: np.diagonal(x, o), **_settings)
    moving("trace", _shape, lambda x, o=_offset: np.trace(x, o, dtype=x.dtype), **_settings) if abs(
        _offset
    ) < 3 else None
moving("diagonal", (2, 3, 5), lambda x: np.diagonal(x, 1, -1, 0), offset=1, axis1=-1, axis2=0)
moving("diagonal", (0, 3), np.diagonal)
add("trace", [numbers("trace", (3, 2, 4), F16)], lambda x: np.trace(x, 1, 0, 2), offset=1, axis1=0, axis2=2)
for _k in (0, 2, -1):
    moving("diag", (3,), lambda x, k=_k: np.diag(x, k), k=_k)
    moving("diag", (3, 4), lambda x, k=_k: np.diag(x, k), k=_k)
    for _name, _function in {"tril": np.tril, "triu": np.triu}.items():
        moving(_name, (2, 3, 4), lambda x, f=_function, k=_k: f(x, k), k=_k)
        moving(_name, (4, 3), lambda x, f=_function, k=_k: f(x, k - 2), k=_k - 2)
for _dtype in DTYPES:
    for _name, _function in {"tril": np.tril, "triu": np.triu, "diag": np.diag}.items():
        add(_name, [filled(_name, (3, 3), _dtype)], lambda x, f=_function: f(x))
add("diag", [numbers("diag", (0,))], np.diag)
add("tril", [np.zeros((0, 3), F32)], np.tril)
add("triu", [np.array([[NAN, INF], [NAN, -INF]], F32)], np.triu, "special")


def to_space(x: Array, block: int, crd: bool = False) -> Array:
    depth = x.shape[-3] // block**2
    result = np.empty((*x.shape[:-3], depth, x.shape[-2] * block, x.shape[-1] * block), x.dtype)
    for c, i, j in product(range(depth), range(block), range(block)):
        channel = c * block**2 + i * block + j if crd else (i * block + j) * depth + c
        result[..., c, i::block, j::block] = x[..., channel, :, :]
    return result


def to_depth(x: Array, block: int, crd: bool = False) -> Array:
    depth = x.shape[-3]
    result = np.empty((*x.shape[:-3], depth * block**2, x.shape[-2] // block, x.shape[-1] // block), x.dtype)
    for c, i, j in product(range(depth), range(block), range(block)):
        channel = c * block**2 + i * block + j if crd else (i * block + j) * depth + c
        result[..., channel, :, :] = x[..., c, i::block, j::block]
    return result


for _mode in ("DCR", "CRD"):
    _crd = _mode == "CRD"
    moving("depth_to_space", (2, 8, 2, 3), lambda x, crd=_crd: to_space(x, 2, crd), block=2, mode=_mode)
    moving("space_to_depth", (2, 2, 6, 3), lambda x, crd=_crd: to_depth(x, 3, crd), block=3, mode=_mode)
add("depth_to_space", [numbers("depth", (4, 1, 2))], lambda x: to_space(x, 2), block=2)
add("space_to_depth", [np.zeros((0, 1, 2, 2), F32)], lambda x: to_depth(x, 2), block=2)

for _sizes, _axis in [((1, 3, 0), 0), ((2,), 1), ((1, 1), -1)]:
    _shape = (sum(_sizes), 3) if _axis == 0 else (3, sum(_sizes))
    _cuts = np.cumsum(_sizes)[:-1]
    add(
        "split",
        [numbers("split", _shape)],
        lambda x, cuts=_cuts, axis=_axis: tuple(np.split(x, cuts, axis)),
        sizes=_sizes,
        axis=_axis,
        differentiable=True,
    )

# --- padding ----------------------------------------------------------------------------------------------------------


def padded(x: Array, low: tuple[int, ...], high: tuple[int, ...], mode: Any) -> Array:
    kept = x[tuple([slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, x.shape, strict=True)])]
    return np.pad(kept, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], mode)


for _mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
    for _low, _high in [((1, 2), (0, 3)), ((-1, 7), (2, -1)), ((5, 0), (9, 0)), ((-1, -1), (-1, -1))]:
        moving(
            "pad",
            (3, 4),
            lambda x, low=_low, high=_high, mode=_mode: padded(x, low, high, mode),
            low=_low,
            high=_high,
            mode=_mode,
        )
    moving("pad", (1,), lambda x, mode=_mode: padded(x, (2,), (3,), mode), low=2, high=3, mode=_mode)
    if _mode != "constant":
        moving(
            "pad", (0, 2), lambda x, mode=_mode: padded(x, (0, 1), (0, 1), mode), low=(0, 1), high=(0, 1), mode=_mode
        )
for _dtype in (np.int32, np.uint32, np.int64, np.uint64):
    _large = np.iinfo(_dtype).max - np.arange(2).astype(_dtype)
    add("pad", [_large], lambda x: np.pad(x, (1, 2), constant_values=7), low=1, high=2, value=7.0)
    add("pad", [_large], lambda x: np.pad(x, (1, 0), constant_values=np.iinfo(x.dtype).min), low=1, high=0, value=-INF)
    add("pad", [_large[:0]], lambda x: np.full(2, np.iinfo(x.dtype).max, x.dtype), low=1, high=1, value=INF)
    add("diag", [_large], np.diag)
add("pad", [numbers("pad", (3,), F16)], lambda x: np.concatenate([[INF], x[:-1]]), low=1, high=-1, value=INF)

# --- one hot ----------------------------------------------------------------------------------------------------------

for _dtype in (np.int8, np.int64, np.uint8, np.uint64):
    add(
        "one_hot",
        [np.array([[0, 3, 2], [5, 9, 1]]).astype(_dtype)],
        lambda i: np.where(i[:, None].astype(int) == np.arange(5)[:, None], 2.5, -1.0),
        num_classes=5,
        axis=1,
        on_value=2.5,
        off_value=-1.0,
    )
add("one_hot", [np.array([-1, -5, -6])], lambda i: np.eye(5)[[4, 0, 0]] * [[1], [1], [0]], num_classes=5)
add("one_hot", [np.zeros((0,), np.int64)], lambda i: np.zeros((4, 0), np.int8), num_classes=4, axis=0, dtype=np.int8)
add(
    "one_hot",
    [np.array([-100], np.int8)],
    lambda i: (np.arange(200) == 100)[None].astype(float),
    num_classes=200,
    dtype=BF16,
)
