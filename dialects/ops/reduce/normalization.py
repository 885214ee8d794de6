"""Softmax and normalization. Integers are taken as f32; f16 and bf16 are computed in f32."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.keywords import Meaning, cast_first
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import AlongAxis, KeepsType
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, normalize_axes, normalize_axis, show
from tenon.dialects.types.types import FLOAT_TENSOR, compute_type, element_of, is_float, shape_of, tensor_type


@tensor_op
class SoftmaxOp(KeepsType, AlongAxis, CompositeOp):
    """`x` scaled along `axis` to positive entries that add up to one: exp(x) over its sum.

    >>> tenon.softmax(np.array([[1.0, 2.0, 3.0], [1000.0, 1000.0, -np.inf]]))
    """

    name = "tenon.softmax"
    AUTOCAST = "full"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
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
class LogSoftmaxOp(KeepsType, AlongAxis, CompositeOp):
    """The logarithm of `softmax(x)`, without underflow.

    >>> tenon.log_softmax(np.array([0.0, 0.0, 1000.0]))
    """

    name = "tenon.log_softmax"
    AUTOCAST = "full"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
    x = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, *, axis: int) -> Value:
        exponent = in_compute_type(x)
        shifted = exponent - _largest(exponent, axis)
        return (shifted - ops.log(ops.sum(ops.exp(shifted), axis=axis, keepdims=True))).astype(x.element_type)

    vjp = staticmethod(lambda g, out, x, *, axis: g - ops.exp(out) * ops.sum(g, axis=axis, keepdims=True))


def _largest(x: Value, axis: int) -> Value:
    if x.shape[axis] == 0:
        return ops.zeros_like(x)  # there is nothing to shift
    return ops.max(x, axis=axis, keepdims=True)


def standardized(x: Value, mean: Value, variance: Value, eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps)."""
    return (x - mean) * ops.rsqrt(variance + eps)


def _centred(x: Value, axis: tuple[int, ...], eps: float) -> tuple[Value, Value, Value]:
    """`x` with mean 0 and variance 1 along `axis`, the mean, and the reciprocal of the standard deviation."""
    mean = ops.mean(x, axis=axis, keepdims=True)
    deviation = x - mean
    inverse = ops.rsqrt(ops.mean(deviation * deviation, axis=axis, keepdims=True) + eps)
    return deviation * inverse, mean, inverse


def affine(x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * weight + bias, where they are given."""
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


def _check_broadcasts(operands: tuple[Any, ...], names: tuple[str, ...]) -> None:
    """Raise unless the operands behind x broadcast against it."""
    shape = shape_of(operands[0])
    for name, operand in zip(names, operands[1:], strict=True):
        own = None if operand is None else shape_of(operand)
        if shape is None or own is None:
            continue
        fits = len(own) <= len(shape) and all(
            size in (1, -1) or whole in (size, -1) for size, whole in zip(reversed(own), reversed(shape), strict=False)
        )
        if not fits:
            raise InferenceError(f"{name} has shape {show(own)}, which does not broadcast to x, {show(shape)}")


@tensor_op
class LayerNormOp(KeepsType, CompositeOp):
    """`x` shifted and scaled to mean 0 and variance 1 along `axis`, times `weight`, plus `bias`, which broadcast
    against `x`.

    `eps` is added to the variance (Ba et al., arXiv:1607.06450).

    >>> tenon.layer_norm(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]))
    """

    name = "tenon.layer_norm"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    axis = setting(tuple, default=(-1,))
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        _check_broadcasts(operands, ("weight", "bias"))
        return super().infer(*operands, **settings)

    @staticmethod
    def decompose(x: Value, weight: Value | None, bias: Value | None, *, axis: tuple[int, ...], eps: float) -> Value:
        normal, _, _ = _centred(in_compute_type(x), axis, eps)
        return affine(normal, weight, bias).astype(x.element_type)


@tensor_op
class LayerNormStatisticsOp(CompositeOp):
    """`layer_norm`, and its mean and reciprocal standard deviation 1 / sqrt(variance + `eps`) along `axis`.

    These keep the axes with size 1, in the dtype `stash_dtype`, in which they are also computed: by default f32 for f16
    and bf16, else that of `x`.

    >>> tenon.layer_norm_statistics(np.array([[1.0, 2.0, 3.0]]))
    """

    name = "tenon.layer_norm_statistics"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    axis = setting(tuple, default=(-1,))
    eps = setting(float, default=1e-5)
    stash_dtype = setting("dtype", default=None)
    result = result_def(FLOAT_TENSOR)
    mean = result_def(FLOAT_TENSOR)
    inverse_deviation = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        _check_broadcasts(operands, ("weight", "bias"))
        x, shape = operands[0], shape_of(operands[0])
        element = settings["stash_dtype"] or compute_type(element_of(x))
        if not is_float(element):
            raise InferenceError(f"stash_dtype is {element} where a float is needed")
        if shape is not None:
            axes = normalize_axes(settings["axis"], len(shape))
            shape = tuple([1 if i in axes else size for i, size in enumerate(shape)])
        statistic = tensor_type(shape, element)
        return x, statistic, statistic

    @staticmethod
    def decompose(
        x: Value, weight: Value | None, bias: Value | None, *, axis: tuple[int, ...], eps: float, stash_dtype: Any
    ) -> tuple[Value, Value, Value]:
        stash = stash_dtype or compute_type(x.element_type)
        values = in_compute_type(x.astype(stash))
        normal, mean, inverse = _centred(values, axis, eps)
        result = affine(normal.astype(compute_type(x.element_type)), weight, bias)
        return result.astype(x.element_type), mean.astype(stash), inverse.astype(stash)


@tensor_op
class RmsNormOp(KeepsType, CompositeOp):
    """`x` over its root mean square along `axis`, sqrt(mean(x^2) + `eps`), times `weight`.

    `weight` broadcasts against `x` (Zhang and Sennrich, arXiv:1910.07467).

    >>> tenon.rms_norm(np.array([[3.0, 4.0], [1.0, 0.0]]))
    """

    name = "tenon.rms_norm"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    axis = setting(tuple, default=(-1,))
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        _check_broadcasts(operands, ("weight",))
        return super().infer(*operands, **settings)

    @staticmethod
    def decompose(x: Value, weight: Value | None, *, axis: tuple[int, ...], eps: float) -> Value:
        values = in_compute_type(x)
        normal = values * ops.rsqrt(ops.mean(values * values, axis=axis, keepdims=True) + eps)
        return affine(normal, weight, None).astype(x.element_type)


@tensor_op
class MeanVarianceNormalizationOp(KeepsType, CompositeOp):
    """`x` less its mean along `axis`, over its standard deviation plus `eps`.

    By default there is one mean per channel of images (n, channels, height, width).

    >>> tenon.mean_variance_normalization(np.array([[1.0, 2.0], [3.0, 10.0]]), axis=(0,))
    """

    name = "tenon.mean_variance_normalization"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    axis = setting(tuple, default=(0, 2, 3))
    eps = setting(float, default=1e-9)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, *, axis: tuple[int, ...], eps: float) -> Value:
        values = in_compute_type(x)
        deviation = values - ops.mean(values, axis=axis, keepdims=True)
        spread = ops.sqrt(ops.mean(deviation * deviation, axis=axis, keepdims=True))
        return (deviation / (spread + eps)).astype(x.element_type)


def check_channels(operands: tuple[Any, ...], names: tuple[str, ...], axis: int) -> int | None:
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


def along(axis: int, x: Value, vector: Value | None) -> Value | None:
    """A vector over the channels in a shape that broadcasts against `x`."""
    if vector is None:
        return None
    behind = x.ndim - 1 - normalize_axis(axis, x.ndim)
    return ops.reshape(vector, shape=(vector.shape[0], *(1,) * behind))


class GroupedNormOp(CompositeOp):
    """Channels in groups, each brought to mean 0 and variance 1 per sample; `x` is (n, channels, ...)."""

    AUTOCAST = "full"

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        if shape is not None and len(shape) < 2:
            raise InferenceError(f"x has shape {show(shape)} where (n, channels, ...) is needed")
        count = check_channels(operands, ("weight", "bias"), 1)
        groups = settings.get("groups", 1)
        if groups < 1 or (count is not None and count >= 0 and count % groups):
            raise InferenceError(f"x has {count} channels, which {groups} groups do not divide")
        return operands[0]


def _normalized_in_groups(
    x: Value, weight: Value | None, bias: Value | None, groups: int, channels: int, eps: float
) -> Value:
    """`x` normalized in `groups` groups of so many `channels` of each sample.

    All is computed on (n, groups, channels of a group, places), so that there is no reshape between what could share
    loops, nor between that and its gradient.
    """
    grouped = ops.reshape(in_compute_type(x), shape=(x.shape[0], groups, channels, prod(x.shape[2:])))
    factors = [v if v is None else ops.reshape(v, shape=(groups, channels, 1)) for v in (weight, bias)]
    return ops.reshape(affine(_centred(grouped, (2, 3), eps)[0], *factors), shape=x.shape).astype(x.element_type)


@tensor_op
class GroupNormOp(GroupedNormOp):
    """`x` (n, channels, ...) brought to mean 0 and variance 1 in each of `groups` groups of channels of each sample.

    Then times `weight`, plus `bias`, which are vectors over the channels (Wu and He, arXiv:1803.08494).

    >>> tenon.group_norm(np.array([[1.0, 3.0, 10.0, 30.0]]), groups=2)
    """

    name = "tenon.group_norm"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    groups = setting(int)
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, weight: Value | None, bias: Value | None, *, groups: int, eps: float) -> Value:
        return _normalized_in_groups(x, weight, bias, groups, x.shape[1] // groups, eps)


@tensor_op
class InstanceNormOp(GroupedNormOp):
    """`x` (n, channels, ...) brought to mean 0 and variance 1 in each channel of each sample.

    Then times `weight`, plus `bias`, which are vectors over the channels (Ulyanov et al., arXiv:1607.08022).

    >>> tenon.instance_norm(np.array([[[1.0, 3.0], [10.0, 30.0]]]))
    """

    name = "tenon.instance_norm"
    x = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    eps = setting(float, default=1e-5)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, weight: Value | None, bias: Value | None, *, eps: float) -> Value:
        return _normalized_in_groups(x, weight, bias, x.shape[1], 1, eps)
