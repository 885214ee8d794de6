"""Operators that normalize: softmax and its kin, batch, layer, group, instance and response normalization."""

from __future__ import annotations

from math import prod
from typing import Any

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axes, normalize_axis
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import in_single, of_dtype

_LEAST_NORM = 1e-38
"""Norms below are taken as this, which makes 0 of vectors of zeros."""


def _along_axis(name: str, function: Any) -> None:
    """Register `name`: before opset 13 the axis and all behind it are flattened into one."""

    @operator(name, until=12)
    def flattened(node: Node, x: Operand) -> Any:
        axis = normalize_axis(node.attribute("axis", 1), x.ndim) if x.ndim else 0
        shape = node.shape(x)
        matrix = ops.reshape(x, shape=(prod(shape[:axis]), prod(shape[axis:])))
        return ops.reshape(function(matrix, axis=1), shape=shape)

    @operator(name, since=13)
    def along_axis(node: Node, x: Operand) -> Any:
        return function(x, axis=node.attribute("axis", -1))


_along_axis("Softmax", lambda x, axis: ops.softmax(x, axis=axis))
_along_axis("LogSoftmax", lambda x, axis: ops.log_softmax(x, axis=axis))
_along_axis("Hardmax", lambda x, axis: ops.hardmax(x, axis=axis))


@operator("BatchNormalization", since=7)
def batch_normalization(node: Node, x: Operand, scale: Operand, bias: Operand, mean: Operand, variance: Operand) -> Any:
    """With known statistics. Those of each feature (`spatial=0`, before opset 9) are flattened into channels."""
    eps = node.attribute("epsilon", 1e-5)
    if node.opset < 9 and not node.attribute("spatial", 1):
        shape = node.shape(x)
        vectors = [ops.reshape(v, shape=(prod(shape[1:]),)) for v in (mean, variance, scale, bias)]
        return ops.reshape(
            ops.batch_norm(ops.reshape(x, shape=(shape[0], prod(shape[1:]))), *vectors, eps=eps), shape=shape
        )
    if node.opset < 14:
        if node.wants(1):
            raise OnnxError(f"{node.where}: training mode is supported from opset 14 on")
        return _normalized_by(x, mean, variance, scale, bias, eps)
    if not node.attribute("training_mode", 0):
        return _normalized_by(x, mean, variance, scale, bias, eps)
    momentum = node.attribute("momentum", 0.9)
    result, own_mean, own_variance = ops.batch_norm_training(in_single(x), in_single(scale), in_single(bias), eps=eps)
    updated = [
        of_dtype(in_single(old) * momentum + in_single(new) * (1.0 - momentum), old.dtype)
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return of_dtype(result, x.dtype), *updated


def _normalized_by(x: Any, mean: Any, variance: Any, scale: Any, bias: Any, eps: float) -> Any:
    """Statistics may be of a wider dtype than `x`; a vector `x` has one channel."""
    axis = 1
    if x.ndim == 1:
        return ops.reshape(
            _normalized_by(ops.expand_dims(x, axis=1), mean, variance, scale, bias, eps), shape=tuple(x.shape)
        )
    return of_dtype(ops.batch_norm(x, mean, variance, scale, bias, axis=axis, eps=eps), x.dtype)


@operator("LayerNormalization", since=17)
def layer_normalization(node: Node, x: Operand, scale: Operand, bias: Operand | None = None) -> Any:
    """Normalized in f32 or wider; the mean and one over the standard deviation are further results."""
    eps = node.attribute("epsilon", 1e-5)
    axes = tuple(range(normalize_axis(node.attribute("axis", -1), x.ndim), x.ndim))
    result = of_dtype(ops.layer_norm(x, scale, bias, axis=axes, eps=eps), x.dtype)
    if not (node.wants(1) or node.wants(2)):
        return result
    values = in_single(x)
    mean = ops.mean(values, axis=axes, keepdims=True)
    return result, mean, ops.rsqrt(ops.var(values, axis=axes, keepdims=True) + eps)


@operator("RMSNormalization", since=23)
def rms_normalization(node: Node, x: Operand, scale: Operand) -> Any:
    axes = tuple(range(normalize_axis(node.attribute("axis", -1), x.ndim), x.ndim))
    return of_dtype(ops.rms_norm(x, scale, axis=axes, eps=node.attribute("epsilon", 1e-5)), x.dtype)


@operator("GroupNormalization", since=18)
def group_normalization(node: Node, x: Operand, scale: Operand, bias: Operand) -> Any:
    """Scale and bias are per group before opset 21, per channel from then on."""
    groups = node.required("num_groups")
    if node.opset < 21:
        size = x.shape[1] // groups
        scale, bias = (
            ops.reshape(ops.broadcast_to(ops.expand_dims(v, axis=1), shape=(groups, size)), shape=(groups * size,))
            for v in (scale, bias)
        )
    return ops.group_norm(x, scale, bias, groups=groups, eps=node.attribute("epsilon", 1e-5))


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: Node, x: Operand) -> Any:
    """The standard deviation is not kept from 0 by `epsilon`, but by adding 1e-9 to it."""
    axes = normalize_axes(tuple(node.attribute("axes", (0, 2, 3))), x.ndim)
    values = in_single(x)
    deviation = values - ops.mean(values, axis=axes, keepdims=True)
    return of_dtype(deviation / (ops.std(values, axis=axes, keepdims=True) + 1e-9), x.dtype)


@operator("LpNormalization")
def lp_normalization(node: Node, x: Operand) -> Any:
    """`x` over its norm along the axis; 0 where that is 0."""
    axis, order = node.attribute("axis", -1), node.attribute("p", 2)
    if order not in (1, 2):
        raise OnnxError(f"{node.where}: p is {order} where 1 or 2 is needed")
    return ops.lp_normalize(x, p=float(order), axis=axis, eps=_LEAST_NORM)
