"""Operators that combine elements along axes: sums, extremes, norms, places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axes
from tenon.onnx.node import Node, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import in_single, is_float, of_dtype

Axes = tuple[int, ...]
Combine = Callable[[Any, Axes, bool], Any]


def _reduction(name: str, combine: Combine) -> None:
    @operator(name)
    def along(node: Node, x: Operand, axes: Operand | None = None) -> Any:
        """Along all axes where none is named, or along none with `noop_with_empty_axes`."""
        chosen = node.listed(axes, "axes") or (() if node.attribute("noop_with_empty_axes", 0) else range(x.ndim))
        return combine(x, normalize_axes(tuple(chosen), x.ndim), bool(node.attribute("keepdims", 1)))


def _sum(x: Any, axis: Axes, keepdims: bool) -> Any:
    return of_dtype(ops.sum(x, axis=axis, keepdims=keepdims), x.dtype)


def _mean(x: Any, axis: Axes, keepdims: bool) -> Any:
    """Integers are divided toward zero."""
    if is_float(x):
        return ops.mean(x, axis=axis, keepdims=keepdims)
    count = int(np.prod([x.shape[i] for i in axis], dtype=np.int64))
    total = ops.sum(ops.cast(x, dtype="i64"), axis=axis, keepdims=keepdims)
    return of_dtype(ops.truncate_divide(total, max(count, 1)), x.dtype)


def _extreme(name: str) -> Combine:
    def combine(x: Any, axis: Axes, keepdims: bool) -> Any:
        """The largest or smallest element; of no elements, the least or greatest number of the dtype."""
        if x.dtype == np.bool_:
            return ops.find("any" if name == "max" else "all")(x, axis=axis, keepdims=keepdims)
        if any(x.shape[i] == 0 for i in axis):
            shape = [1 if i in axis else size for i, size in enumerate(x.shape) if keepdims or i not in axis]
            return ops.full(shape, _bound(x.dtype, lowest=name == "max"), x.dtype)
        return ops.find(name)(x, axis=axis, keepdims=keepdims)

    return combine


def _bound(dtype: np.dtype[Any], *, lowest: bool) -> float:
    if dtype.kind not in "iu":
        return -np.inf if lowest else np.inf
    return int(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)


def _in_floats(function: Callable[[Any, Axes, bool], Any]) -> Combine:
    """A reduction of floats: half precision and integers are computed in wider floats and rounded once."""

    def combine(x: Any, axis: Axes, keepdims: bool) -> Any:
        values = in_single(x) if is_float(x) else ops.cast(x, dtype="f64")
        return of_dtype(function(values, axis, keepdims), x.dtype)

    return combine


_reduction("ReduceSum", _sum)
_reduction("ReduceMean", _mean)
_reduction("ReduceMax", _extreme("max"))
_reduction("ReduceMin", _extreme("min"))
_reduction("ReduceProd", lambda x, axis, keepdims: of_dtype(ops.prod(x, axis=axis, keepdims=keepdims), x.dtype))
_reduction("ReduceL1", lambda x, axis, keepdims: _sum(ops.abs(x), axis, keepdims))
_reduction("ReduceSumSquare", lambda x, axis, keepdims: ops.sum_square(x, axis=axis, keepdims=keepdims))
_reduction("ReduceL2", _in_floats(lambda x, axis, keepdims: ops.norm(x, p=2.0, axis=axis, keepdims=keepdims)))
_reduction("ReduceLogSum", _in_floats(lambda x, axis, keepdims: ops.log_sum(x, axis=axis, keepdims=keepdims)))
_reduction("ReduceLogSumExp", _in_floats(lambda x, axis, keepdims: ops.logsumexp(x, axis=axis, keepdims=keepdims)))


def _place(name: str, function: str) -> None:
    @operator(name)
    def place(node: Node, x: Operand) -> Any:
        """The index of the extreme element: the first one, or with `select_last_index` the last."""
        axis, keepdims = node.attribute("axis", 0), bool(node.attribute("keepdims", 1))
        if not node.attribute("select_last_index", 0):
            return ops.find(function)(x, axis=axis, keepdims=keepdims)
        from_behind = ops.find(function)(ops.flip(x, axis=axis), axis=axis, keepdims=keepdims)
        return ops.subtract(x.shape[axis] - 1, from_behind)


_place("ArgMax", "argmax")
_place("ArgMin", "argmin")
