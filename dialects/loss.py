"""Losses: means over a batch, as optimizers minimize them."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.base import tensor_op
from tenon.dialects.families import CompositeOp
from tenon.dialects.inference import InferenceError, broadcast, normalize_axis, refine, show
from tenon.dialects.reduction import in_compute_type
from tenon.dialects.settings import setting
from tenon.dialects.types import FLOAT_TENSOR, INTEGER_TENSOR, element_of, promote, shape_of, tensor_type
from tenon.dialects.value import Value, ops


@tensor_op
class CrossEntropyOp(CompositeOp):
    """The mean over all samples of -log softmax(`logits`) at the class in `labels`.

    `logits` has the classes along `axis`; `labels` (integers) has the shape of `logits` without that axis.
    `label_smoothing` is the part of each target that is spread evenly over all classes (Szegedy et al.,
    arXiv:1512.00567). A label that is no class has a target of zeros; it is not an error. PyTorch has the classes in
    axis 1, here they are in the last one unless said otherwise.
    """

    name = "tenon.cross_entropy"
    logits = operand_def(FLOAT_TENSOR)
    labels = operand_def(INTEGER_TENSOR)
    label_smoothing = setting(float, default=0.0)
    axis = setting(int, default=-1)
    result = result_def(FLOAT_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def check(**settings: Any) -> None:
        if not 0.0 <= settings["label_smoothing"] <= 1.0:
            raise InferenceError(
                f"label_smoothing is {settings['label_smoothing']} where a number from 0 to 1 is needed"
            )

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        logits, labels = operands
        shape = shape_of(logits)
        if shape is not None:
            axis = normalize_axis(settings["axis"], len(shape))
            samples = tuple([size for i, size in enumerate(shape) if i != axis])
            try:
                refine(samples, shape_of(labels))
            except InferenceError:
                raise InferenceError(
                    f"labels has shape {show(shape_of(labels))} where logits {show(shape)} needs {show(samples)}"
                ) from None
        return tensor_type((), element_of(logits))

    @staticmethod
    def decompose(logits: Value, labels: Value, *, label_smoothing: float, axis: int) -> Value:
        axis = normalize_axis(axis, logits.ndim)
        likelihood = ops.log_softmax(in_compute_type(logits), axis=axis)
        classes = ops.iota(shape=(logits.shape[axis], *(1,) * (logits.ndim - 1 - axis)))
        chosen = ops.expand_dims(labels, axis=axis) == classes
        loss = -ops.sum(ops.select(chosen, likelihood, 0.0), axis=axis)
        if label_smoothing:
            loss = (1.0 - label_smoothing) * loss - label_smoothing * ops.mean(likelihood, axis=axis)
        return ops.mean(loss).astype(logits.element_type)


@tensor_op
class MseLossOp(CompositeOp):
    """The mean of the squared difference of `x` and `target`, which broadcast."""

    name = "tenon.mse_loss"
    x = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        broadcast(zip(("x", "target"), map(shape_of, operands), strict=True))
        return tensor_type((), promote(map(element_of, operands)))

    @staticmethod
    def decompose(x: Value, target: Value) -> Value:
        difference = in_compute_type(x) - in_compute_type(target)
        return ops.mean(difference * difference).astype(x.element_type)


@tensor_op
class BinaryCrossEntropyWithLogitsOp(CompositeOp):
    """The mean of -(`target` log sigmoid(`logits`) + (1 - `target`) log sigmoid(-`logits`)), without overflow."""

    name = "tenon.binary_cross_entropy_with_logits"
    logits = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        broadcast(zip(("logits", "target"), map(shape_of, operands), strict=True))
        return tensor_type((), promote(map(element_of, operands)))

    @staticmethod
    def decompose(logits: Value, target: Value) -> Value:
        values = in_compute_type(logits)
        return ops.mean(ops.softplus(values) - values * in_compute_type(target)).astype(logits.element_type)
