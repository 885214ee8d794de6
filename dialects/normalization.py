"""Softmax and normalization. Integers are taken as f32; f16 and bf16 are computed in f32."""

from __future__ import annotations

from typing import Any

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.base import tensor_op
from tenon.dialects.families import CompositeOp
from tenon.dialects.inference import InferenceError, normalize_axes, normalize_axis, show
from tenon.dialects.reduction import in_compute_type
from tenon.dialects.settings import setting
from tenon.dialects.types import FLOAT_TENSOR, element_of, shape_of, tensor_type
from tenon.dialects.value import Value, ops


class SameShapeOp(CompositeOp):
    """A composite whose result has the shape of its first operand."""

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x = operands[0]
        shape, axis = shape_of(x), settings["axis"]
        if shape is not None:
            normalize_axes((axis,) if isinstance(axis, int) else axis, len(shape))
        return x


@tensor_op
class SoftmaxOp(SameShapeOp):
    """`x` scaled along `axis` to positive entries that add up to one: exp(x) over its sum."""

    name = "tenon.softmax"
    x = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, *, axis: int) -> Value:
        exponent = in_compute_type(x)
        weights = ops.exp(exponent - _largest(exponent, axis))  # exp(x) alone overflows
        return (weights / ops.sum(weights, axis=axis, keepdims=True)).astype(x.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: int) -> tuple[Any, ...]:
        weighted = g * out
        return (weighted - out * ops.sum(weighted, axis=axis, keepdims=True),)


@tensor_op
class LogSoftmaxOp(SameShapeOp):
    """The logarithm of `softmax(x)`, without underflow."""

    name = "tenon.log_softmax"
    x = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, *, axis: int) -> Value:
        exponent = in_compute_type(x)
        shifted = exponent - _largest(exponent, axis)
        return (shifted - ops.log(ops.sum(ops.exp(shifted), axis=axis, keepdims=True))).astype(x.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: int) -> tuple[Any, ...]:
        return (g - ops.exp(out) * ops.sum(g, axis=axis, keepdims=True),)


def _largest(x: Value, axis: int) -> Value:
    if x.shape[axis] == 0:
        return ops.zeros_like(x)  # there is nothing to shift
    return ops.max(x, axis=axis, keepdims=True)


def _standardized(x: Value, mean: Value, variance: Value, eps: float) -> Value:
    return (x - mean) * ops.rsqrt(variance + eps)


def _affine(x: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


@tensor_op
class LayerNormOp(SameShapeOp):
    """`x` shifted and scaled to mean 0 and variance 1 along `axis`, times `weight`, plus `bias`, which broadcast
    against `x`.

    `eps` is added to the variance (Ba et al., arXiv:1607.06450).
    """

    name = "tenon.layer_norm"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    axis = setting(tuple, default=(-1,))
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        for name, operand in zip(("weight", "bias"), operands[1:], strict=True):
            own = None if operand is None else shape_of(operand)
            if shape is None or own is None:
                continue
            fits = len(own) <= len(shape) and all(
                size in (1, -1) or whole in (size, -1)
                for size, whole in zip(reversed(own), reversed(shape), strict=False)
            )
            if not fits:
                raise InferenceError(f"{name} has shape {show(own)}, which does not broadcast to x, {show(shape)}")
        return super().infer(*operands, **settings)

    @staticmethod
    def decompose(x: Value, weight: Value | None, bias: Value | None, *, axis: tuple[int, ...], eps: float) -> Value:
        values = in_compute_type(x)
        mean = ops.mean(values, axis=axis, keepdims=True)
        deviation = values - mean
        variance = ops.mean(deviation * deviation, axis=axis, keepdims=True)
        return _affine(deviation * ops.rsqrt(variance + eps), weight, bias).astype(x.element_type)


def _check_channels(operands: tuple[Any, ...], names: tuple[str, ...], axis: int) -> int | None:
    """The number of channels that x and the per-channel operands agree on, `None` where it is not known."""
    shape = shape_of(operands[0])
    count = None if shape is None else shape[normalize_axis(axis, len(shape))]
    for name, operand in zip(names, operands[1:], strict=True):
        own = None if operand is None else shape_of(operand)
        if own is None:
            continue
        if len(own) != 1:
            raise InferenceError(f"rank of {name} is {len(own)} where 1 is needed")
        if count is not None and min(count, own[0]) >= 0 and count != own[0]:
            raise InferenceError(f"x has {count} channels along axis {axis} and {name} has {own[0]}")
    return count


def _along(axis: int, x: Value, vector: Value | None) -> Value | None:
    """A vector over the channels in a shape that broadcasts against `x`."""
    if vector is None:
        return None
    behind = x.ndim - 1 - normalize_axis(axis, x.ndim)
    return ops.reshape(vector, shape=(vector.shape[0], *(1,) * behind))


@tensor_op
class BatchNormOp(CompositeOp):
    """`x` normalized per channel by known statistics: (x - `mean`) / sqrt(`variance` + eps) * `weight` + `bias`.

    All of these are vectors over the channels, which are the dimension `axis` of `x` (Ioffe and Szegedy,
    arXiv:1502.03167).
    """

    name = "tenon.batch_norm"
    x = operand_def(FLOAT_TENSOR)
    mean = operand_def(FLOAT_TENSOR)
    variance = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    axis = setting(int, default=1)
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        _check_channels(operands, ("mean", "variance", "weight", "bias"), settings["axis"])
        return operands[0]

    @staticmethod
    def decompose(
        x: Value, mean: Value, variance: Value, weight: Value | None, bias: Value | None, *, axis: int, eps: float
    ) -> Value:
        values = in_compute_type(x)
        shift, scale = _along(axis, x, mean), _along(axis, x, variance)
        assert shift is not None
        assert scale is not None
        normal = _standardized(values, shift, in_compute_type(scale), eps)
        return _affine(normal, _along(axis, x, weight), _along(axis, x, bias)).astype(x.element_type)


@tensor_op
class BatchNormTrainingOp(CompositeOp):
    """`x` normalized per channel by its own statistics; returns the result, the mean and the variance of each channel.

    The channels are the dimension `axis` of `x`. The variance has divisor count, so for the running estimate that
    PyTorch keeps it is to be multiplied by count / (count - 1).
    """

    name = "tenon.batch_norm_training"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    axis = setting(int, default=1)
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)
    mean = result_def(FLOAT_TENSOR)
    variance = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        count = _check_channels(operands, ("weight", "bias"), settings["axis"])
        x = operands[0]
        vector = tensor_type((-1 if count is None else count,), element_of(x))
        return x, vector, vector

    @staticmethod
    def decompose(
        x: Value, weight: Value | None, bias: Value | None, *, axis: int, eps: float
    ) -> tuple[Value, Value, Value]:
        values = in_compute_type(x)
        channels = normalize_axis(axis, x.ndim)
        others = tuple([i for i in range(x.ndim) if i != channels])
        mean = ops.mean(values, axis=others, keepdims=True)
        deviation = values - mean
        variance = ops.mean(deviation * deviation, axis=others, keepdims=True)
        normal = deviation * ops.rsqrt(variance + eps)
        result = _affine(normal, _along(axis, x, weight), _along(axis, x, bias)).astype(x.element_type)
        vectors = [ops.reshape(v, shape=(x.shape[channels],)).astype(x.element_type) for v in (mean, variance)]
        return result, vectors[0], vectors[1]
