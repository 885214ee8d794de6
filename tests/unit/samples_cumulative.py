"""Samples of running sums, products and extremes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, distinct, integers, numbers, truths

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def running(function: Callable[..., Any], start: float) -> Callable[..., Array]:
    """A NumPy accumulation with `exclusive` and `reverse`."""

    def accumulated(x: Array, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Array:
        ordered = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
        result = np.asarray(function(ordered, axis=0)).astype(x.dtype)
        if exclusive and len(result):
            result = np.concatenate([np.full_like(result[:1], start), result[:-1]])
        return np.moveaxis(result[:: -1 if reverse else 1], 0, axis)

    return accumulated


def running_logsumexp(x: Array, axis: int) -> Array:
    return np.logaddexp.accumulate(x, axis)


for _name, _function in {
    "cumsum": running(np.cumsum, 0),
    "cumprod": running(np.cumprod, 1),
    "logcumsumexp": running(running_logsumexp, -INF),
}.items():
    for _axis, _exclusive, _reverse in product((0, -1), (False, True), (False, True)):
        _settings: dict[str, Any] = {"axis": _axis} | {
            k: True for k, v in (("exclusive", _exclusive), ("reverse", _reverse)) if v
        }
        add(
            _name,
            [numbers(_name, (4, 3, 5))],
            lambda x, f=_function, s=_settings: f(x, **s),
            differentiable=not (_exclusive and _name == "logcumsumexp"),
            **_settings,
        )
    for _dtype in (F16, BF16, F64):
        add(_name, [numbers(_name, (9,), _dtype)], _function)
    add(_name, [np.zeros((0, 3), F32)], _function)
    add(_name, [np.zeros((2, 0, 3), F32)], _function)
    add(
        _name,
        [np.array([[1.0, INF, -INF, 2.0], [NAN, 1.0, 2.0, 3.0]], F32)],
        lambda x, f=_function: f(x, 1),
        "special",
        axis=1,
    )
    if _name != "logcumsumexp":
        for _dtype in INTEGERS:
            add(_name, [integers(_name, (7, 2), np.int64, 0, 9).astype(_dtype)], _function)
add("cumsum", [np.full(3001, 0.1, F16)], running(np.cumsum, 0), "long")
add("cumsum", [truths("cumsum", (5,))], np.cumsum)
add("logcumsumexp", [np.array([-INF, -INF, 0.0, 1000.0, 999.0, -1000.0])], running(running_logsumexp, -INF), "special")
add(
    "logcumsumexp",
    [np.array([700.0, 2.0, -700.0, 701.0])],
    running(running_logsumexp, -INF),
    "far",
    differentiable=True,
)
for _zeros_at in ([1], [0, 2], [3], [0, 1, 2, 3, 4]):
    _with_zeros = numbers("zeros", (5,), F64)
    _with_zeros[_zeros_at] = 0
    for _exclusive, _reverse in product((False, True), (False, True)):
        add(
            "cumprod",
            [_with_zeros],
            lambda x, e=_exclusive, r=_reverse: running(np.cumprod, 1)(x, 0, e, r),
            f"zeros at {_zeros_at}",
            exclusive=_exclusive,
            reverse=_reverse,
            differentiable=True,
        )


def running_extreme(
    x: Array, axis: int, is_better: Callable[[Any, Any], Any], reverse: bool = False
) -> tuple[Array, Array]:
    """The best elements so far and their places, the later of equal ones, and NaN above all."""
    values, places = np.array(x), np.zeros(x.shape, np.int64)
    for row in np.ndindex(*x.shape[:axis], *x.shape[axis + 1 :]):
        at = (*row[:axis], slice(None), *row[axis:])
        best = None
        for place in reversed(range(x.shape[axis])) if reverse else range(x.shape[axis]):
            element = x[at][place]
            if best is None or element != element or (x[at][best] == x[at][best] and is_better(element, x[at][best])):
                best = place
            values[at][place], places[at][place] = x[at][best], best
    return values, places


for _name, _better in {"cummax": np.greater_equal, "cummin": np.less_equal}.items():
    for _axis, _reverse in product((0, 1), (False, True)):
        add(
            _name,
            [distinct(_name, (5, 4), F32)],
            lambda x, a=_axis, b=_better, r=_reverse: running_extreme(x, a, b, r),
            axis=_axis,
            reverse=_reverse,
            differentiable=True,
        )
    for _dtype in (*INTEGERS, F16, BF16, F64):
        add(
            _name,
            [integers(_name, (9,), np.int64, 0, 20).astype(_dtype)],
            lambda x, b=_better: running_extreme(x, 0, b),
        )
    add(
        _name,
        [np.array([1.0, 1.0, INF, -INF, NAN, 3.0, NAN, 0.0, -0.0], F32)],
        lambda x, b=_better: running_extreme(x, 0, b),
        "special",
    )
    add(_name, [np.array([-INF, -INF, INF, INF], F32)], lambda x, b=_better: running_extreme(x, 0, b), "infinite")
    add(_name, [np.zeros((2, 0), F32)], lambda x: (x, x.astype(np.int64)), "empty")
