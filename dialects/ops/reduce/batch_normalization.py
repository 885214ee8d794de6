"""Normalization over the examples of a batch, channel by channel."""

from __future__ import annotations

from typing import Any

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.ops.reduce.normalization import affine, along, check_channels, standardized
from tenon.dialects.ops.reduce.reduction import in_compute_type, reduced_count
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import FLOAT_TENSOR, element_of, tensor_type


@tensor_op
class BatchNormOp(CompositeOp):
    """`x` normalized per channel by known statistics: (x - `mean`) / sqrt(`variance` + eps) * `weight` + `bias`.

    All of these are vectors over the channels, which are the dimension `axis` of `x` (Ioffe and Szegedy,
    arXiv:1502.03167).

    >>> x = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> tenon.batch_norm(x, np.array([2.0, 20.0]), np.array([4.0, 100.0]))
    """

    name = "tenon.batch_norm"
    AUTOCAST = "full"
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
        check_channels(operands, ("mean", "variance", "weight", "bias"), settings["axis"])
        return operands[0]

    @staticmethod
    def decompose(
        x: Value, mean: Value, variance: Value, weight: Value | None, bias: Value | None, *, axis: int, eps: float
    ) -> Value:
        values = in_compute_type(x)
        shift, scale = along(axis, x, mean), along(axis, x, variance)
        assert shift is not None
        assert scale is not None
        normal = standardized(values, shift, in_compute_type(scale), eps)
        return affine(normal, along(axis, x, weight), along(axis, x, bias)).astype(x.element_type)


@tensor_op
class BatchNormTrainingOp(CompositeOp):
    """`x` normalized per channel by its own statistics; returns the result, the mean and the variance of each channel.

    The channels are the dimension `axis` of `x`. The variance has divisor count, so for the running estimate that
    PyTorch keeps it is to be multiplied by count / (count - 1).

    >>> tenon.batch_norm_training(np.array([[1.0, 10.0], [3.0, 30.0]]))
    """

    name = "tenon.batch_norm_training"
    AUTOCAST = "full"
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
        count = check_channels(operands, ("weight", "bias"), settings["axis"])
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
        result = affine(normal, along(axis, x, weight), along(axis, x, bias)).astype(x.element_type)
        vectors = [ops.reshape(v, shape=(x.shape[channels],)).astype(x.element_type) for v in (mean, variance)]
        return result, vectors[0], vectors[1]


@tensor_op
class BatchNormUpdateOp(CompositeOp):
    """`batch_norm_training` with running statistics, which follow those of the batch; returns the result and both.

    Each new one is (1 - `momentum`) times the running one plus `momentum` times the batch's, whose variance has divisor
    count - `ddof`. The defaults are PyTorch's; ONNX has `ddof` 0 and calls 1 - `momentum` the momentum.

    >>> x = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> tenon.batch_norm_update(x, np.zeros(2), np.ones(2))
    """

    name = "tenon.batch_norm_update"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    running_mean = operand_def(FLOAT_TENSOR)
    running_variance = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    axis = setting(int, default=1)
    eps = setting(float, default=1e-5)
    momentum = setting(float, default=0.1)
    ddof = setting(int, default=1)
    result = result_def(FLOAT_TENSOR)
    mean = result_def(FLOAT_TENSOR)
    variance = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        check_channels(operands, ("running_mean", "running_variance", "weight", "bias"), settings["axis"])
        return operands[:3]

    @staticmethod
    def decompose(
        x: Value,
        running_mean: Value,
        running_variance: Value,
        weight: Value | None,
        bias: Value | None,
        *,
        axis: int,
        eps: float,
        momentum: float,
        ddof: int,
    ) -> tuple[Value, Value, Value]:
        values = in_compute_type(x)
        result, mean, variance = ops.batch_norm_training(values, weight, bias, axis=axis, eps=eps)
        channels = normalize_axis(axis, x.ndim)
        count = reduced_count(x, tuple([i for i in range(x.ndim) if i != channels]))
        left = ops.maximum(count - ddof, 1) if isinstance(count, Value) else max(count - ddof, 1)
        variance = variance * (count / left)
        followed = [
            ((1.0 - momentum) * in_compute_type(running) + momentum * batch).astype(x.element_type)
            for running, batch in ((running_mean, mean), (running_variance, variance))
        ]
        return result.astype(x.element_type), followed[0], followed[1]
