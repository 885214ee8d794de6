"""Losses as optimizers minimize them. f16 and bf16 are computed in f32.

`reduction` says what becomes of the losses of the elements (or samples): their "mean", their "sum", or "none": they are
the result. Operands broadcast. Definitions are PyTorch's, unless an op says otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import e, pi
from typing import Any, ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.keywords import Meaning
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.batching import aligned_operands
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, broadcast
from tenon.dialects.types.types import FLOAT_TENSOR, element_of, promote, shape_of, tensor_type

REDUCTIONS = ("mean", "sum", "none")


def reduced_loss(losses: Value, reduction: str) -> Value:
    """The losses of all elements, as `reduction` says."""
    match reduction:
        case "mean":
            return ops.mean(losses)
        case "sum":
            return ops.sum(losses)
        case _:
            return losses


class ElementLossOp(CompositeOp):
    """A loss for each element of operands that broadcast; subclasses have the setting `reduction`."""

    AUTOCAST = "full"

    @staticmethod
    @abstractmethod
    def losses(*operands: Any, **settings: Any) -> Value:
        """The losses of all elements, from operands in the type that is computed in."""

    @classmethod
    def loss_shape(cls, named: Sequence[tuple[str, Shape]], settings: dict[str, Any]) -> Shape:
        """The shape of `losses` for operands of these shapes."""
        return broadcast(named)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        given = [(o.name, t) for o, t in zip(cls.SIGNATURE.operands, operands, strict=True) if t is not None]
        shape = cls.loss_shape([(name, shape_of(t)) for name, t in given], settings)
        return tensor_type(shape if settings["reduction"] == "none" else (), promote(element_of(t) for _, t in given))

    @classmethod
    def decompose(cls, *operands: Any, reduction: str, **settings: Any) -> Value:
        values = [None if v is None else in_compute_type(v) for v in operands]
        return reduced_loss(cls.losses(*values, **settings), reduction).astype(operands[0].element_type)


class DistanceLossOp(ElementLossOp):
    """A loss of the difference of `x` and `target`."""

    x = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)


@tensor_op
class MseLossOp(DistanceLossOp):
    """The squared difference of `x` and `target`: by default, its mean.

    >>> tenon.mse_loss(np.array([1.0, 2.0]), np.array([0.0, 5.0]))
    >>> tenon.mse_loss(np.array([1.0, 2.0]), np.array([0.0, 5.0]), reduction="none")
    """

    name = "tenon.mse_loss"
    losses = staticmethod(lambda x, target: ops.square(x - target))


@tensor_op
class L1LossOp(DistanceLossOp):
    """The magnitude of the difference of `x` and `target`: by default, its mean. The gradient at 0 is 0.

    >>> tenon.l1_loss(np.array([1.0, 2.0]), np.array([0.0, 5.0]))
    >>> tenon.l1_loss(np.array([1.0, 2.0]), np.array([0.0, 5.0]), reduction="sum")
    """

    name = "tenon.l1_loss"
    losses = staticmethod(lambda x, target: abs(x - target))


@tensor_op
class SmoothL1LossOp(DistanceLossOp):
    """`d`^2 / (2 `beta`) for a difference `d` of `x` and `target` below `beta`, |d| - `beta` / 2 from there.

    By default, the mean (Girshick, arXiv:1504.08083).

    >>> tenon.smooth_l1_loss(np.array([0.5, 3.0]), np.array([0.0, 0.0]), reduction="none")
    """

    name = "tenon.smooth_l1_loss"
    beta = setting(float, default=1.0)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["beta"] < 0.0:
            raise InferenceError(f"beta is {settings['beta']} where 0 or more is needed")

    @staticmethod
    def losses(x: Value, target: Value, *, beta: float) -> Value:
        distance = abs(x - target)
        if beta == 0.0:
            return distance
        return ops.select(distance < beta, 0.5 / beta * distance * distance, distance - 0.5 * beta)


@tensor_op
class HuberLossOp(DistanceLossOp):
    """`d`^2 / 2 for a difference `d` of `x` and `target` up to `delta`, `delta` (|d| - `delta` / 2) above.

    By default, the mean (Huber, Annals of Mathematical Statistics 35, 1964).

    >>> tenon.huber_loss(np.array([0.5, 3.0]), np.array([0.0, 0.0]), delta=2.0, reduction="none")
    """

    name = "tenon.huber_loss"
    delta = setting(float, default=1.0)

    @staticmethod
    def losses(x: Value, target: Value, *, delta: float) -> Value:
        distance = abs(x - target)
        return ops.select(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))


@tensor_op
class SoftMarginLossOp(DistanceLossOp):
    """log(1 + exp(-`target` `x`)) for a `target` of 1 or -1, without overflow: by default, its mean.

    >>> tenon.soft_margin_loss(np.array([2.0, 2.0]), np.array([1.0, -1.0]), reduction="none")
    """

    name = "tenon.soft_margin_loss"
    losses = staticmethod(lambda x, target: ops.softplus(-target * x))


@tensor_op
class HingeEmbeddingLossOp(DistanceLossOp):
    """`x` where `target` is 1, max(0, `margin` - `x`) where it is -1: by default, the mean.

    As in PyTorch, another target has both losses.

    >>> tenon.hinge_embedding_loss(np.array([0.2, 0.2]), np.array([1.0, -1.0]), reduction="none")
    """

    name = "tenon.hinge_embedding_loss"
    margin = setting(float, default=1.0)

    @staticmethod
    def losses(x: Value, target: Value, *, margin: float) -> Value:
        apart = ops.select(target == 1.0, 0.0, ops.clip(margin - x, low=0.0))
        return apart + ops.select(target == -1.0, 0.0, x)


@tensor_op
class HingeLossOp(DistanceLossOp):
    """max(0, 1 - `target` `x`) for a `target` of 1 or -1: by default, its mean.

    >>> tenon.hinge_loss(np.array([2.0, 0.3, 0.3]), np.array([1.0, 1.0, -1.0]), reduction="none")
    """

    name = "tenon.hinge_loss"
    losses = staticmethod(lambda x, target: ops.clip(1.0 - target * x, low=0.0))


@tensor_op
class PoissonNllLossOp(ElementLossOp):
    """exp(`x`) - `target` `x`, the negative log likelihood of a Poisson variable whose rate has the logarithm `x`.

    Without `log_input`, `x` is the rate, and the loss is `x` - `target` log(`x` + `eps`). With `full`, Stirling's
    approximation of log(`target`!) is added where `target` is above 1.

    >>> tenon.poisson_nll_loss(np.array([0.0, 1.0]), np.array([1.0, 3.0]), reduction="none")
    """

    name = "tenon.poisson_nll_loss"
    x = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    log_input = setting(bool, default=True)
    full = setting(bool, default=False)
    eps = setting(float, default=1e-8)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def losses(x: Value, target: Value, *, log_input: bool, full: bool, eps: float) -> Value:
        loss = ops.exp(x) - target * x if log_input else x - target * ops.log(x + eps)
        if not full:
            return loss
        above = ops.select(target > 1.0, target, 1.0)
        stirling = above * ops.log(above / e) + 0.5 * ops.log(2.0 * pi * above)
        return loss + ops.select(target > 1.0, stirling, 0.0)


@tensor_op
class KlDivLossOp(ElementLossOp):
    """The divergence of Kullback and Leibler: `target` (log(`target`) - `x`) for logarithms `x` of probabilities.

    With `log_target`, `target` is given as its logarithm, too. The reduction "batchmean" divides the sum by the size of
    the first dimension, which is the definition; "mean" divides by the number of elements.

    >>> p, q = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    >>> tenon.kl_div(np.log(q), p, reduction="batchmean")
    """

    name = "tenon.kl_div"
    x = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    log_target = setting(bool, default=False)
    reduction = setting(str, default="mean", choices=(*REDUCTIONS, "batchmean"))
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def losses(x: Value, target: Value, *, log_target: bool) -> Value:
        if log_target:
            return ops.exp(target) * (target - x)
        return ops.xlogy(target, target) - target * x

    @classmethod
    def decompose(cls, *operands: Any, reduction: str, **settings: Any) -> Value:
        if reduction != "batchmean":
            return super().decompose(*operands, reduction=reduction, **settings)
        total = super().decompose(*operands, reduction="sum", **settings)
        shape = operands[0].shape
        return total / float(shape[0]) if shape else total


@tensor_op
class BinaryCrossEntropyOp(ElementLossOp):
    """-(`target` log `x` + (1 - `target`) log(1 - `x`)) times `weight`, for a probability `x`: by default, its mean.

    The logarithms are at least -100.

    >>> p, target = np.array([0.9, 0.9, 0.0]), np.array([1.0, 0.0, 1.0])
    >>> tenon.binary_cross_entropy(p, target, reduction="none")
    """

    name = "tenon.binary_cross_entropy"
    x = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def losses(x: Value, target: Value, weight: Value | None) -> Value:
        hit, miss = ops.clip(ops.log(x), low=-100.0), ops.clip(ops.log1p(-x), low=-100.0)
        loss = (target - 1.0) * miss - target * hit
        return loss if weight is None else loss * weight

    @classmethod
    def vjp(
        cls, g: Value, out: Value, x: Value, target: Value, weight: Value | None, *, reduction: str
    ) -> tuple[Any, ...]:
        """As PyTorch's: x (1 - x), by which is divided, is at least 1e-12."""
        losses = cls.losses(x, target, None)
        share = g / float(losses.size) if reduction == "mean" else g
        scaled = share if weight is None else share * weight
        to_x = scaled * (x - target) / ops.maximum(x * (1.0 - x), 1e-12)
        hit, miss = ops.clip(ops.log(x), low=-100.0), ops.clip(ops.log1p(-x), low=-100.0)
        spread = ops.zeros_like(losses)
        return to_x + spread, scaled * (miss - hit) + spread, None if weight is None else share * losses

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        values = [None if v is None else in_compute_type(v) for v in aligned_operands(batched, operands)]
        losses = cls.apply(*values, reduction="none")
        over = tuple(range(1, losses.ndim))
        match settings["reduction"]:
            case "mean":
                losses = ops.mean(losses, axis=over)
            case "sum":
                losses = ops.sum(losses, axis=over)
            case _:
                pass
        return losses.astype(operands[0].element_type)


@tensor_op
class BinaryCrossEntropyWithLogitsOp(ElementLossOp):
    """The mean of -(`target` log sigmoid(`logits`) + (1 - `target`) log sigmoid(-`logits`)), without overflow.

    `weight` multiplies the loss, `positive_weight` its first part.

    >>> x, target = np.array([2.0, 2.0, 1000.0]), np.array([1.0, 0.0, 0.0])
    >>> tenon.binary_cross_entropy_with_logits(x, target, reduction="none")
    """

    name = "tenon.binary_cross_entropy_with_logits"
    logits = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    weight = opt_operand_def(FLOAT_TENSOR)
    positive_weight = opt_operand_def(FLOAT_TENSOR)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def losses(logits: Value, target: Value, weight: Value | None, positive_weight: Value | None) -> Value:
        if positive_weight is None:
            loss = ops.softplus(logits) - logits * target
        else:
            loss = target * positive_weight * ops.softplus(-logits) + (1.0 - target) * ops.softplus(logits)
        return loss if weight is None else loss * weight


class EmbeddingLossOp(ElementLossOp):
    """A loss of pairs `x`, `y` that `target` calls alike (1) or not (-1)."""

    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"input1": "x", "input2": "y"}

    x = operand_def(FLOAT_TENSOR)
    y = operand_def(FLOAT_TENSOR)
    target = operand_def(FLOAT_TENSOR)
    margin = setting(float, default=0.0)
    reduction = setting(str, default="mean", choices=REDUCTIONS)
    result = result_def(FLOAT_TENSOR)


@tensor_op
class MarginRankingLossOp(EmbeddingLossOp):
    """max(0, `margin` - `target` (`x` - `y`)): `x` is to be above `y` where `target` is 1, below it where it is -1.

    >>> x, y = np.array([1.0, 1.0]), np.array([0.5, 0.5])
    >>> tenon.margin_ranking_loss(x, y, np.array([1.0, -1.0]), margin=0.2, reduction="none")
    """

    name = "tenon.margin_ranking_loss"
    losses = staticmethod(lambda x, y, target, *, margin: ops.clip(margin - target * (x - y), low=0.0))


@tensor_op
class CosineEmbeddingLossOp(EmbeddingLossOp):
    """1 - cos(`x`, `y`) where `target` is 1, max(0, cos(`x`, `y`) - `margin`) where it is -1.

    The cosine is that of the vectors along the last axis of `x` and `y`, which `target` lacks.

    >>> x, y = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[3.0, 4.0], [3.0, 4.0]])
    >>> tenon.cosine_embedding_loss(x, y, np.array([1.0, -1.0]), reduction="none")
    """

    name = "tenon.cosine_embedding_loss"
    EPSILON: ClassVar[float] = 1e-12

    @classmethod
    def loss_shape(cls, named: Sequence[tuple[str, Shape]], settings: dict[str, Any]) -> Shape:
        vectors = broadcast(named[:2])
        if vectors is None:
            return None
        if not vectors:
            raise InferenceError("x and y have rank 0 where vectors are needed")
        return broadcast([("the cosine", vectors[:-1]), named[2]])

    @classmethod
    def losses(cls, x: Value, y: Value, target: Value, *, margin: float) -> Value:
        lengths = (ops.sum(x * x, axis=-1) + cls.EPSILON) * (ops.sum(y * y, axis=-1) + cls.EPSILON)
        cosine = ops.sum(x * y, axis=-1) / ops.sqrt(lengths)
        apart = ops.clip(cosine - margin, low=0.0)
        return ops.select(target == 1.0, 1.0 - cosine, ops.select(target == -1.0, apart, 0.0))
