"""Samples of sorting and searching."""

from __future__ import annotations

from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, distinct, generator, integers, numbers, truths

DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_, F16, BF16, F64)
SPECIAL = np.array([[3.0, NAN, -INF, 0.0, -0.0, INF, -NAN, 3.0, -1.0, INF]], F32)


def order(x: Array, axis: int = -1, descending: bool = False) -> Array:
    """The indices that sort `x` and keep the order of equal elements; NaN is larger than every number."""
    _, ranks = np.unique(x, return_inverse=True)  # NaNs are one number, the largest
    ranks = ranks.reshape(x.shape).astype(np.int64)
    return np.argsort(-ranks if descending else ranks, axis=axis, kind="stable")


def in_order(x: Array, axis: int = -1, descending: bool = False) -> Array:
    return np.take_along_axis(x, order(x, axis, descending), axis)


for _shape, _axis in [
    ((7,), -1),
    ((3, 5), 0),
    ((3, 5), 1),
    ((2, 3, 4), 1),
    ((64,), 0),
    ((2, 65), 1),
    ((70, 2), 0),
    ((1, 1), 0),
]:
    for _descending in (False, True):
        _settings: dict[str, Any] = {"axis": _axis, "descending": _descending}
        _x = distinct("sort", _shape, F32)
        add("sort", [_x], lambda x, s=_settings: in_order(x, **s), differentiable=True, **_settings)
        if _x.size < 64:
            add("argsort", [_x], lambda x, s=_settings: order(x, **s), **_settings)
add("sort", [numbers("sort", (1000,))], np.sort)
for _dtype in DTYPES:
    for _descending in (False, True):
        # Few rows, and so many that they are sorted side by side.
        _ties = integers("ties", (33, 11) if _descending else (2, 20), np.int64, 0, 7).astype(_dtype)
        add("argsort", [_ties], lambda x, d=_descending: order(x, -1, d), descending=_descending)
        add("sort", [_ties[:, :9]], lambda x, d=_descending: in_order(x, -1, d), descending=_descending)
add("argsort", [integers("ties", (2, 70), np.int8, 0, 7)], order)
for _dtype in (np.int8, np.uint64):
    _limits = np.array([np.iinfo(_dtype).max, 0, np.iinfo(_dtype).min, 1, np.iinfo(_dtype).max] * 15, _dtype)
    add("argsort", [_limits], order, "extremes")
    add("argsort", [_limits], lambda x: order(x, -1, True), "extremes", descending=True)
for _descending in (False, True):
    add("sort", [SPECIAL], lambda x, d=_descending: in_order(x, -1, d), "special", descending=_descending)
    for _x in (SPECIAL, np.tile(SPECIAL, 8)):
        add("argsort", [_x], lambda x, d=_descending: order(x, -1, d), "special", descending=_descending)
add("sort", [np.zeros((0,), F32)], lambda x: x, "empty")
add("argsort", [np.zeros((3, 0), F32)], lambda x: np.zeros((3, 0), np.int64), "empty")
add("argsort", [np.zeros((0, 3), np.int8)], lambda x: np.zeros((0, 3), np.int64), "empty", axis=0)
add("sort", [numbers("stable", (9,), F64)], np.sort, stable=False)


def best(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    places = np.take(order(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, places, axis), places


for _shape, _k, _axis in [
    ((7,), 3, -1),
    ((3, 5), 5, 1),
    ((3, 5), 1, 0),
    ((2, 107), 4, 1),
    ((5, 2), 1, 0),
    ((3, 5), 0, 1),
]:
    for _largest in (True, False):
        add(
            "top_k",
            [distinct("best", _shape, F32)],
            lambda x, k=_k, axis=_axis, largest=_largest: best(x, k, axis, largest),
            k=_k,
            axis=_axis,
            largest=_largest,
            differentiable=True,
        )
for _dtype in DTYPES:
    add("top_k", [integers("best", (2, 9), np.int64, 0, 4).astype(_dtype)], lambda x: best(x, 4), k=4)
for _largest in (True, False):
    add("top_k", [SPECIAL], lambda x, largest=_largest: best(x, 6, -1, largest), "special", k=6, largest=_largest)
add("top_k", [numbers("best", (5,))], lambda x: best(x, 2), k=2, sorted=False)


def order_of_short(x: Array, descending: bool = False) -> Array:
    return order(x, -1, descending).astype(np.int32)


for _descending in (False, True):
    _rows = integers("rows", (3, 7), np.int64, -4, 4).astype(F32)
    add("argsort_short_rows", [_rows], lambda x, d=_descending: order_of_short(x, d), descending=_descending)
add("argsort_short_rows", [np.zeros((0, 5), F32)], order_of_short)

for _dtype in (F32, np.uint8, np.int64):  # digits of 8, 32 and 64 bits
    for _descending in (False, True):
        _rows = integers("rows", (2, 11), np.int64, -4, 4).astype(_dtype)
        add("sort_rows", [_rows], lambda x, d=_descending: in_order(x, -1, d), descending=_descending)
        add("argsort_rows", [_rows], lambda x, d=_descending: order(x, -1, d), descending=_descending)
        add("leading_places", [_rows], lambda x, d=_descending: best(x, 3, -1, d)[1], k=3, descending=_descending)
for _x in (SPECIAL, SPECIAL.astype(F16), SPECIAL.astype(F64)):
    add("sort_rows", [_x], in_order, "special")
    add("argsort_rows", [_x], order, "special")
add("leading_places", [np.tile(SPECIAL, 2)], lambda x: best(x, 20, -1, False)[1], "special", k=20)
for _descending in (False, True):  # blocks, and what is left
    _x = np.tile(SPECIAL[:, ::-1], 4)
    add("leading_places", [_x], lambda x, d=_descending: best(x, 3, -1, d)[1], "blocks", k=3, descending=_descending)
add("leading_places", [np.zeros((0, 3), F32)], lambda x: np.zeros((0, 2), np.int64), k=2)
for _name in ("sort_rows", "argsort_rows"):
    add(_name, [np.zeros((2, 0), np.int64)], lambda x: x)

for _dtype in (F32, F16, BF16, F64, np.int32, np.uint16, np.int64, np.uint64):
    for _descending in (False, True):
        _rows = integers("partition", (3, 40), np.int64, 0, 60).astype(_dtype)
        add("partition_sort", [_rows], lambda x, d=_descending: in_order(x, -1, d), descending=_descending)
for _x in (SPECIAL, SPECIAL.astype(F16), SPECIAL.astype(F64)):
    add("partition_sort", [_x], in_order, "special")

for _size, _dtype, _descending in [  # part of a step, one step, three runs, distances that take several steps
    (5, np.int16, True),
    (8, np.int32, False),
    (21, F32, True),
    (21, np.uint64, False),
    (70, np.int32, True),
]:
    _groups = integers("groups", (2, 3, _size), np.int64, 0, 2 * _size).astype(_dtype)
    add("sort_groups", [_groups], lambda x, d=_descending: in_order(x, -1, d), descending=_descending)
    if _groups.itemsize <= 4:
        add("argsort_groups", [_groups], lambda x, d=_descending: order(x, -1, d), descending=_descending)
for _dtype in (F32, BF16, F64):
    _x = np.tile(SPECIAL, (2, 2, 1)).astype(_dtype)
    add("sort_groups", [_x], in_order, "special")
    if _x.itemsize <= 4:
        add("argsort_groups", [_x], lambda x: order(x, -1, True), "special", descending=True)
add("sort_groups", [np.zeros((2, 0, 3), np.int32)], lambda x: x)
add("argsort_groups", [np.zeros((2, 3, 0), np.int32)], lambda x: x.astype(np.int64))
for _shape, _axis in [((18, 33), 1), ((3, 11, 7), 1), ((12, 9), 0)]:  # groups that rows do not fill
    _settings = {"axis": _axis}
    _x = distinct("many", _shape, F32)
    add("sort", [_x], lambda x, s=_settings: in_order(x, **s), "many", differentiable=_axis == 0, **_settings)
    add("argsort", [_x], lambda x, s=_settings: order(x, **s, descending=True), "many", descending=True, **_settings)

# --- searching --------------------------------------------------------------------------------------------------------

_SIDES: tuple[Any, ...] = ("left", "right")
for _side in _SIDES:
    for _dtype in DTYPES:
        _sorted = np.sort(integers("sequence", (33,), np.int64, 0, 20).astype(_dtype))
        add(
            "searchsorted",
            [_sorted, integers("wanted", (2, 5), np.int64, 0, 25).astype(_dtype)],
            lambda x, v, side=_side: np.searchsorted(x, v, side),
            side=_side,
        )
    _sorted = np.array([-INF, -1.0, -0.0, 0.0, 2.0, 2.0, INF, NAN, NAN], F32)
    add(
        "searchsorted",
        [_sorted, np.append(_sorted, F32.type(1.5))],
        lambda x, v, side=_side: np.searchsorted(x, v, side),
        "special",
        side=_side,
    )
    add(
        "searchsorted",
        [np.sort(numbers("rows", (3, 6))), numbers("wanted", (3, 4))],
        lambda x, v, side=_side: np.stack([np.searchsorted(a, b, side) for a, b in zip(x, v, strict=True)]),
        side=_side,
    )
add("searchsorted", [np.zeros((0,), F32), numbers("wanted", (3,))], lambda x, v: np.zeros(3, np.int64))
add("searchsorted", [np.arange(5.0, dtype=F32), F32.type(2.5)], np.searchsorted)
add("searchsorted", [np.arange(5), np.zeros((0,), np.int64)], np.searchsorted)


def places(x: Array, size: int, *fills: int) -> Array:
    """The first `size` rows of NumPy's answer, continued by `fills`."""
    found = np.argwhere(x)[:size]
    lacking = np.broadcast_to(np.array(fills, np.int64), (size - len(found), x.ndim))
    return np.concatenate([found, lacking])


for _dtype in (*DTYPES, F32):
    _x = (generator("zeros").integers(0, 2, (3, 4)) * 2).astype(_dtype)
    add("argwhere", [_x], lambda x: places(x, 4, 0), size=4)
    add("count_nonzero", [_x], lambda x: np.count_nonzero(x, axis=0), axis=0)
add("argwhere", [truths("zeros", (2, 3, 2))], lambda x: places(x, 12, -1), size=12, fill_value=-1)
add("argwhere", [np.zeros((2, 3), F32)], lambda x: places(x, 2, 7, 9), size=2, fill_value=(7, 9))
add("argwhere", [np.array([NAN, 0.0, -0.0, INF], F32)], lambda x: np.array([[0], [3]]), size=2)
add("argwhere", [np.zeros((0, 3), F32)], lambda x: places(x, 2, 5), size=2, fill_value=5)
add("argwhere", [np.ones((3,), F32)], lambda x: np.zeros((0, 1), np.int64), size=0)
add("argwhere", [np.array(3.0, F32)], lambda x: np.zeros((1, 0), np.int64), size=1)
add("argwhere", [np.array([0, 5, 0, 6])], lambda x: np.array([[1], [3], [-1]]), size=3, fill_value=-1)
add("count_nonzero", [numbers("count", ())], lambda x: np.asarray(1))
add("count_nonzero", [np.zeros((2, 0), F32)], lambda x: np.zeros((2, 1), np.int64), axis=1, keepdims=True)
add("count_nonzero", [truths("count", (3, 5))], lambda x: np.asarray(np.count_nonzero(x)))
