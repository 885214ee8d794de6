"""Losses of the probabilities of classes, given the right ones as integers. f16 and bf16 are computed in f32.

The classes are along `axis` of the first operand, the last one unless said otherwise (PyTorch and ONNX: 1); `labels`
has its shape without that axis. A label that is no class gives the loss 0. Labels that are `ignore_index` do not count
in the mean either. `weight` (classes,) is a weight for each class; the mean is over the sum of the weights of the
labels.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.ops.reduce.loss import REDUCTIONS
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis, refine, show
from tenon.dialects.types.types import FLOAT_TENSOR, INTEGER_TENSOR, element_of, shape_of, tensor_type


class ClassLossOp(CompositeOp):
    """A loss of scores and labels; see the module."""

    AUTOCAST = "full"

    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def check(**settings: Any) -> None:
        smoothing = settings.get("label_smoothing", 0.0)
        if not 0.0 <= smoothing <= 1.0:
            raise InferenceError(f"label_smoothing is {smoothing} where a number from 0 to 1 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        scores, labels, weight = operands
        name, shape = cls.SIGNATURE.operands[0].name, shape_of(scores)
        samples = shape_of(labels)
        if shape is not None:
            axis = normalize_axis(settings["axis"], len(shape))
            samples = _agreed(name, shape, axis, samples)
            _check_weight(weight, shape[axis])
        return tensor_type(samples if settings["reduction"] == "none" else (), element_of(scores))


def _agreed(name: str, shape: tuple[int, ...], axis: int, labels: Shape) -> Shape:
    needed = tuple([size for i, size in enumerate(shape) if i != axis])
    try:
        return refine(needed, labels)
    except InferenceError:
        raise InferenceError(
            f"labels has shape {show(labels)} where {name} {show(shape)} needs {show(needed)}"
        ) from None


def _check_weight(weight: Any, classes: int) -> None:
    own = None if weight is None else shape_of(weight)
    if own is None:
        return
    if len(own) != 1:
        raise InferenceError(f"rank of weight is {len(own)} where 1 is needed")
    if min(own[0], classes) >= 0 and own[0] != classes:
        raise InferenceError(f"there are {classes} classes and weight has {own[0]}")


def _class_losses(
    likelihood: Value,
    labels: Value,
    weight: Value | None,
    *,
    axis: int,
    ignore_index: int | None,
    reduction: str,
    label_smoothing: float = 0.0,
) -> Value:
    """The loss for logarithms `likelihood` of probabilities, in the type that is computed in."""
    axis = normalize_axis(axis, likelihood.ndim)
    behind = (1,) * (likelihood.ndim - 1 - axis)
    classes = ops.iota(shape=(likelihood.shape[axis], *behind))
    chosen = ops.expand_dims(labels, axis=axis) == classes
    counts = None if ignore_index is None else labels != ignore_index
    if counts is not None:
        chosen = chosen & ops.expand_dims(counts, axis=axis)
    weighted, total = likelihood, None
    if weight is not None:
        scale = ops.reshape(in_compute_type(weight), shape=(likelihood.shape[axis], *behind))
        weighted = likelihood * scale
        total = ops.sum(ops.select(chosen, scale.astype(weighted.element_type), 0.0))
    elif counts is not None:
        total = ops.sum(counts.astype(likelihood.element_type))
    losses = -ops.sum(ops.select(chosen, weighted, 0.0), axis=axis)
    if label_smoothing:
        spread = -ops.sum(weighted, axis=axis) / float(likelihood.shape[axis])
        spread = spread if counts is None else ops.select(counts, spread, 0.0)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * spread
    if reduction == "none":
        return losses
    if reduction == "sum":
        return ops.sum(losses)
    return ops.mean(losses) if total is None else ops.sum(losses) / total


@tensor_op
class NllLossOp(ClassLossOp):
    """-`log_probabilities` at the class in `labels`, times its weight: by default, the mean over all samples.

    `weight` (classes,) weighs the classes, and the mean is over the sum of the weights. A label that is no class gives
    the loss 0; those that are `ignore_index` do not count in the mean either. PyTorch and ONNX have the classes in axis
    1, here they are in the last one unless said otherwise.

    >>> p = np.log(np.array([[0.5, 0.5], [0.9, 0.1]]))
    >>> tenon.nll_loss(p, np.array([0, 1]), reduction="none")
    >>> tenon.nll_loss(p, np.array([0, -100]), ignore_index=-100)
    """

    name = "tenon.nll_loss"
    log_probabilities = operand_def(FLOAT_TENSOR)
    labels = operand_def(INTEGER_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    ignore_index = setting(int, default=None)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(log_probabilities: Value, labels: Value, weight: Value | None, **settings: Any) -> Value:
        losses = _class_losses(in_compute_type(log_probabilities), labels, weight, **settings)
        return losses.astype(log_probabilities.element_type)


class LogitsLossOp(ClassLossOp):
    """A loss of logits, by the logarithm of their softmax."""

    logits = operand_def(FLOAT_TENSOR)
    labels = operand_def(INTEGER_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    label_smoothing = setting(float, default=0.0)
    axis = setting(int, default=-1)
    ignore_index = setting(int, default=None)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)


@tensor_op
class CrossEntropyOp(LogitsLossOp):
    """The mean over all samples of -log softmax(`logits`) at the class in `labels`, times its weight.

    `logits` has the classes along `axis`; `labels` (integers) has the shape of `logits` without that axis.
    `label_smoothing` is the part of each target that is spread evenly over all classes (Szegedy et al.,
    arXiv:1512.00567). `weight` (classes,) weighs the classes, and the mean is over the sum of the weights. A label that
    is no class has a target of zeros; it is not an error. Those that are `ignore_index` do not count in the mean
    either. PyTorch has the classes in axis 1, here they are in the last one unless said otherwise.

    >>> logits = np.array([[2.0, 0.0], [0.0, 0.0]])
    >>> tenon.cross_entropy(logits, np.array([0, 1]), reduction="none")
    >>> tenon.cross_entropy(logits, np.array([0, -100]), ignore_index=-100)
    """

    name = "tenon.cross_entropy"

    @staticmethod
    def decompose(logits: Value, labels: Value, weight: Value | None, *, axis: int, **settings: Any) -> Value:
        likelihood = ops.log_softmax(in_compute_type(logits), axis=axis)
        return _class_losses(likelihood, labels, weight, axis=axis, **settings).astype(logits.element_type)


@tensor_op
class SoftmaxCrossEntropyOp(LogitsLossOp):
    """`cross_entropy`, and log softmax(`logits`), from which it is computed; returns both.

    >>> tenon.softmax_cross_entropy(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
    """

    name = "tenon.softmax_cross_entropy"
    result = result_def(FLOAT_TENSOR)
    log_probabilities = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return super().infer(*operands, **settings), operands[0]

    @staticmethod
    def decompose(
        logits: Value, labels: Value, weight: Value | None, *, axis: int, **settings: Any
    ) -> tuple[Value, Value]:
        likelihood = ops.log_softmax(in_compute_type(logits), axis=axis)
        loss = _class_losses(likelihood, labels, weight, axis=axis, **settings)
        return loss.astype(logits.element_type), likelihood.astype(logits.element_type)
