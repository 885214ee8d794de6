"""What a function makes of each window of an array, as in JAX."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import show

_REDUCTIONS = {"add": "sum", "multiply": "prod", "mul": "prod", "maximum": "max", "minimum": "min"}
"""The reductions of elements that these functions of two give."""
_NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
"""The numbers that change nothing in them; of integers, infinities stand for the ends of their range."""
_BY_WINDOWS = {"sum": "window_sum", "max": "window_max"}


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """What `computation(a, b)`, an associative function of arrays, makes of `init_value` and the elements of each
    window of `operand`, which has as many axes as there are `window_dimensions`: `jax.lax.reduce_window`.

    `padding` is `"VALID"`, `"SAME"`, or by how many places windows reach beyond both ends of each axis, negative where
    elements are left out; `base_dilation` is how far elements are apart, and `window_dilation` those of a window.
    Places without an element count for nothing. Raises `ValueError` for settings of another number than axes.
    """
    x = shaped(operand, "reduce_window: operand")
    window = _each("window_dimensions", window_dimensions, x.ndim)
    strides = _each("window_strides", window_strides, x.ndim)
    apart = _each("base_dilation", base_dilation, x.ndim)
    dilation = _each("window_dilation", window_dilation, x.ndim)
    initial = ops.cast(shaped(init_value, "reduce_window: init_value"), dtype=x.dtype)
    if initial.ndim:
        raise ValueError(f"reduce_window: init_value has shape {show(initial.shape)} where a number is needed")
    name = None if x.dtype == np.bool_ else _reduction_of(computation)
    neutral = 0.0 if name is None else _NEUTRAL[name]
    is_there = [np.ones(size, np.bool_) for size in x.shape]
    for axis, step in enumerate(apart):
        x = _spread(x, axis, step, neutral)
        is_there[axis] = (np.arange(x.shape[axis]) % step == 0) & bool(x.shape[axis])
    spans = [(size - 1) * step + 1 for size, step in zip(window, dilation, strict=True)]
    pairs = _padding(padding, x.shape, spans, strides)
    x = _padded(x, pairs, neutral)
    for axis, (low, high) in enumerate(pairs):
        is_there[axis] = np.pad(is_there[axis], (max(0, low), max(0, high)))[max(0, -low) :][: x.shape[axis]]
    counts = [max(0, (n - span) // step + 1) for n, span, step in zip(x.shape, spans, strides, strict=True)]
    found = ops.broadcast_to(initial, shape=tuple(counts))
    if 0 in counts:
        return found
    if name is not None and x.ndim:
        reduced = _reduced(name, x, {"window": window, "stride": strides, "dilation": dilation})
        return computation(found, ops.cast(reduced, dtype=x.dtype))
    for tap in itertools.product(*map(range, window)):
        first = [place * step for place, step in zip(tap, dilation, strict=True)]
        cut = tuple([slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(first, counts, strides, strict=True)])
        known = functools.reduce(np.logical_and.outer, [there[c] for there, c in zip(is_there, cut, strict=True)], True)
        if np.any(known):
            more = computation(found, x[cut])
            found = more if np.all(known) else ops.select(known, more, found)
    return found


def _reduced(name: str, x: Any, settings: dict[str, Any]) -> Any:
    """The reduction of that name of the elements of each window."""
    if name in _BY_WINDOWS:
        return getattr(ops, _BY_WINDOWS[name])(x, **settings)
    return getattr(ops, name)(ops.sliding_windows(x, **settings), axis=tuple(range(x.ndim, 2 * x.ndim)))


def _each(name: str, given: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    found = (1,) * rank if given is None else tuple(given)
    if len(found) != rank or any(size < 1 for size in found):
        raise ValueError(f"reduce_window: {name} is {given!r} where {rank} sizes of 1 or more are needed")
    return found


def _reduction_of(computation: Any) -> str | None:
    """The reduction of elements that a function of Tenon's or NumPy's gives, if that is known."""
    is_known = isinstance(computation, np.ufunc) or hasattr(computation, "op")
    return _REDUCTIONS.get(computation.__name__) if is_known else None


def _padding(padding: Any, shape: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    if isinstance(padding, str):
        if padding.upper() not in ("VALID", "SAME"):
            raise ValueError(f"reduce_window: padding is {padding!r} where VALID, SAME or pairs of sizes are needed")
        if padding.upper() == "VALID":
            return [(0, 0)] * len(shape)
        needed = [
            max(0, (math.ceil(n / step) - 1) * step + span - n)
            for n, span, step in zip(shape, spans, strides, strict=True)
        ]
        return [(more // 2, more - more // 2) for more in needed]
    pairs = [tuple(pair) for pair in padding]
    if len(pairs) != len(shape) or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"reduce_window: padding is {padding!r} where {len(shape)} pairs are needed")
    return [(low, high) for low, high in pairs]


def _padded(x: Any, pairs: Sequence[tuple[int, int]], value: float) -> Any:
    """`x` with so many elements more, and then, of negative ones, fewer, at both ends of each axis."""
    more = [[max(0, pair[end]) for pair in pairs] for end in (0, 1)]
    x = ops.pad(x, low=tuple(more[0]), high=tuple(more[1]), value=value)
    kept = [slice(max(0, -low), max(0, n + min(0, high))) for n, (low, high) in zip(x.shape, pairs, strict=True)]
    return x[tuple(kept)] if min(map(min, pairs), default=0) < 0 else x


def _spread(x: Any, axis: int, step: int, value: float) -> Any:
    """`x` with a number between its elements along an axis, so that they are `step` apart."""
    size = x.shape[axis]
    if step == 1 or not size:
        return x
    behind = [(0, step - 1 if i == axis + 1 else 0) for i in range(x.ndim + 1)]
    apart = _padded(ops.expand_dims(x, axis=axis + 1), behind, value)
    sizes = tuple([size * step if i == axis else n for i, n in enumerate(x.shape)])
    return ops.narrow(ops.reshape(apart, shape=sizes), axis, 0, (size - 1) * step + 1)
