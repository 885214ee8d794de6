"""Losses as modules: those that are an op with its settings are derived from it, others composed of ops.

`reduction` is "mean", "sum" or "none". Definitions are PyTorch's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import tenon
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.support.user_traceback import user_stacklevel
from tenon.nn.derived import OpModule, derive
from tenon.nn.module import Array, Module
from tenon.nn.sequence_loss import ctc_losses


class _Distance(OpModule):
    """A loss of the difference of two of one shape; others broadcast, of which a warning tells."""

    def forward(self, *operands: Array) -> Array:
        x, target = [tuple(getattr(operand, "shape", ())) for operand in operands]
        if x != target and x and target:  # a number is meant to
            warnings.warn(
                f"{type(self).__name__}: the target has shape {target} and what was computed {x}; they broadcast, "
                "which is rarely meant: reshape one of them",
                stacklevel=user_stacklevel(),
            )
        return super().forward(*operands)


MSELoss = derive("MSELoss", tenon.mse_loss, shown="changed", base=_Distance)
L1Loss = derive("L1Loss", tenon.l1_loss, shown="changed", base=_Distance)
SmoothL1Loss = derive("SmoothL1Loss", tenon.smooth_l1_loss, shown="changed", base=_Distance)
HuberLoss = derive("HuberLoss", tenon.huber_loss, shown="changed", base=_Distance)
KLDivLoss = derive("KLDivLoss", tenon.kl_div, "reduction", "log_target", shown="changed")
SoftMarginLoss = derive("SoftMarginLoss", tenon.soft_margin_loss, shown="changed")
HingeEmbeddingLoss = derive("HingeEmbeddingLoss", tenon.hinge_embedding_loss, "margin", "reduction", shown="changed")
MarginRankingLoss = derive("MarginRankingLoss", tenon.margin_ranking_loss, shown="changed")
CosineEmbeddingLoss = derive("CosineEmbeddingLoss", tenon.cosine_embedding_loss, shown="changed")
PoissonNLLLoss = derive("PoissonNLLLoss", tenon.poisson_nll_loss, shown="changed")
CosineSimilarity = derive("CosineSimilarity", tenon.cosine_similarity, shown="changed", dim=1)


Reduction = Literal["mean", "sum", "none"]


class _Loss(Module):
    """A loss of elements or samples, of which `reduction` says what becomes; weights are buffers."""

    def __init__(self, reduction: Reduction, **weights: Any) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"{type(self).__name__}: reduction is {reduction!r}, and not 'mean', 'sum' or 'none'")
        self.reduction: Reduction = reduction
        self.weight: Array
        for name, weight in weights.items():
            if weight is None:
                setattr(self, name, None)
            else:
                self.register_buffer(name, weight)

    def reduced(self, losses: Array) -> Array:
        """The losses, as `reduction` says."""
        match self.reduction:
            case "mean":
                return tenon.mean(losses)
            case "sum":
                return tenon.sum(losses)
            case _:
                return losses

    def extra_repr(self) -> str:
        return "" if self.reduction == "mean" else f"reduction={self.reduction!r}"


class NLLLoss(_Loss):
    """`tenon.nll_loss` of log-probabilities (N, C, ...) or (C,) and labels (N, ...), with a weight for each class."""

    def __init__(self, weight: Any = None, *, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__(reduction, weight=weight)
        self.ignore_index = ignore_index

    def forward(self, x: Array, target: Array) -> Array:
        axis = min(1, len(x.shape) - 1)
        settings: Any = {"axis": axis, "ignore_index": self.ignore_index, "reduction": self.reduction}
        return tenon.nll_loss(x, target, self.weight, **settings)


class CrossEntropyLoss(NLLLoss):
    """`tenon.cross_entropy` of logits (N, C, ...) or (C,), and labels (N, ...) or probabilities like the logits."""

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction)
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"CrossEntropyLoss: label_smoothing is {label_smoothing}, outside of [0, 1]")
        self.label_smoothing = label_smoothing

    def forward(self, x: Array, target: Array) -> Array:
        axis = min(1, len(x.shape) - 1)
        if target.dtype.kind in "iu":
            settings: Any = {"axis": axis, "ignore_index": self.ignore_index, "reduction": self.reduction}
            return tenon.cross_entropy(x, target, self.weight, label_smoothing=self.label_smoothing, **settings)
        if tuple(target.shape) != tuple(x.shape):
            raise ValueError(
                f"CrossEntropyLoss: probabilities have shape {tuple(target.shape)} where that of the logits, "
                f"{tuple(x.shape)}, is needed"
            )
        return self._of_probabilities(x, target, axis)

    @one_program_of_large
    def _of_probabilities(self, x: Array, target: Array, axis: int) -> Array:
        smooth = target * (1 - self.label_smoothing) + self.label_smoothing / x.shape[axis]
        terms = -smooth * tenon.log_softmax(x, axis=axis)
        if self.weight is not None:
            terms = terms * tenon.reshape(self.weight, shape=(-1, *[1] * (len(x.shape) - axis - 1)))
        return self.reduced(tenon.sum(terms, axis=axis))


def _check_alike(loss: Module, x: Array, target: Array) -> None:
    """Raise `ValueError` unless there is a target for each element."""
    if isinstance(target, int | float):
        return
    if tuple(x.shape) != tuple(target.shape):
        raise ValueError(
            f"{type(loss).__name__}: the target has shape {tuple(target.shape)} where that of what was computed, "
            f"{tuple(x.shape)}, is needed"
        )


class BCELoss(_Loss):
    """`tenon.binary_cross_entropy` of probabilities and targets, with a weight if there is one."""

    def __init__(self, weight: Any = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction, weight=weight)

    def forward(self, x: Array, target: Array) -> Array:
        _check_alike(self, x, target)
        return tenon.binary_cross_entropy(x, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`tenon.binary_cross_entropy_with_logits`, with weights of elements and of positive ones if there are any."""

    def __init__(self, weight: Any = None, *, reduction: Reduction = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction, weight=weight, pos_weight=pos_weight)
        self.pos_weight: Array

    def forward(self, x: Array, target: Array) -> Array:
        _check_alike(self, x, target)
        return tenon.binary_cross_entropy_with_logits(x, target, self.weight, self.pos_weight, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """(log v + (x - target)² / v) / 2 for variances v, which are at least `eps`; with `full`, and log(2π) / 2."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    @one_program_of_large
    def forward(self, x: Array, target: Array, var: Any) -> Array:
        """The loss of `x` and `target`; `var` has their shape, may lack the last dimension, or is a number."""
        if hasattr(var, "shape") and len(var.shape) == len(x.shape) - 1:
            var = tenon.expand_dims(var, axis=-1)
        # The least variance bounds the value, and no gradient.
        var = var + tenon.stop_gradient(tenon.maximum(var, self.eps) - var)
        losses = 0.5 * (tenon.log(var) + tenon.square(x - target) / var)
        return self.reduced(losses + 0.5 * math.log(2 * math.pi) if self.full else losses)


class MultiMarginLoss(_Loss):
    """The mean over the classes i, but the right one y, of max(0, margin - x[y] + x[i])^p: Weston and Watkins, 1999."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Any = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction, weight=weight)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p is {p}, and neither 1 nor 2")
        self.p, self.margin = p, margin

    @one_program_of_large
    def forward(self, x: Array, target: Array) -> Array:
        """The loss of scores (N, C) or (C,) and labels (N,) or ()."""
        is_right = tenon.expand_dims(target, axis=-1) == tenon.iota(shape=(x.shape[-1],))
        right = tenon.sum(tenon.select(is_right, x, 0.0), axis=-1, keepdims=True)
        terms = tenon.relu(self.margin - right + x)
        terms = terms * terms if self.p == 2 else terms
        if self.weight is not None:
            terms = terms * tenon.sum(tenon.select(is_right, self.weight, 0.0), axis=-1, keepdims=True)
        return self.reduced(tenon.mean(tenon.select(is_right, 0.0, terms), axis=-1))


class MultiLabelMarginLoss(_Loss):
    """The sum of max(0, 1 - x[y] + x[i]) / C over the right classes y and the others i; the labels of a sample are
    those before the first that is negative.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    @one_program_of_large
    def forward(self, x: Array, target: Array) -> Array:
        """The loss of scores (N, C) or (C,) and labels of the same shape."""
        counts = tenon.cumprod(tenon.cast(target >= 0, dtype="i32"), axis=-1) == 1
        labels = tenon.select(counts, target, 0)
        chosen = tenon.expand_dims(labels, axis=-1) == tenon.iota(shape=(x.shape[-1],))
        chosen = tenon.logical_and(chosen, tenon.expand_dims(counts, axis=-1))
        is_right = tenon.any(chosen, axis=-2, keepdims=True)
        right = tenon.sum(tenon.select(chosen, tenon.expand_dims(x, axis=-2), 0.0), axis=-1, keepdims=True)
        terms = tenon.relu(1 - right + tenon.expand_dims(x, axis=-2))
        is_pair = tenon.logical_and(tenon.expand_dims(counts, axis=-1), tenon.logical_not(is_right))
        return self.reduced(tenon.sum(tenon.select(is_pair, terms, 0.0), axis=(-2, -1)) / x.shape[-1])


class MultiLabelSoftMarginLoss(_Loss):
    """The mean over the classes of `tenon.binary_cross_entropy_with_logits`, times the weight of the class."""

    def __init__(self, weight: Any = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction, weight=weight)

    @one_program_of_large
    def forward(self, x: Array, target: Array) -> Array:
        losses = tenon.binary_cross_entropy_with_logits(x, target, self.weight, reduction="none")
        return self.reduced(tenon.mean(losses, axis=-1))


class PairwiseDistance(Module):
    """The `p`-norm of x - y + `eps` along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = float(p), eps, keepdim

    @one_program_of_large
    def forward(self, x: Array, y: Array) -> Array:
        return tenon.norm(x - y + self.eps, p=self.norm, axis=-1, keepdims=self.keepdim)

    def extra_repr(self) -> str:
        return ""


class TripletMarginWithDistanceLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); with `swap`, the negative may be compared with the
    positive instead (Balntas et al., 2016). The distance is `PairwiseDistance()` unless a function of two is given.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Array, Array], Array] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function: Any = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    @one_program_of_large
    def forward(self, anchor: Array, positive: Array, negative: Array) -> Array:
        distance = self.distance_function
        near, far = distance(anchor, positive), distance(anchor, negative)
        if self.swap:
            far = tenon.minimum(far, distance(positive, negative))
        return self.reduced(tenon.relu(near - far + self.margin))


class TripletMarginLoss(TripletMarginWithDistanceLoss):
    """`TripletMarginWithDistanceLoss` of `PairwiseDistance(p, eps)`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        distance = PairwiseDistance(p, eps)
        super().__init__(distance_function=distance, margin=margin, swap=swap, reduction=reduction)


class CTCLoss(_Loss):
    """-log of the probability that a sequence of outputs reads as its labels: connectionist temporal classification
    (Graves et al., 2006).

    The mean is that of the losses over the lengths of their labels. As in PyTorch, the gradient is that for
    log-probabilities that a `log_softmax` gives, and so also counts that they add up to one.
    """

    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Array, targets: Array, input_lengths: Any, target_lengths: Any) -> Array:
        """The loss of log-probabilities (T, N, C) or (T, C) and labels (N, S), (S,), or those of all samples one behind
        the other; lengths are (N,) or numbers. A loss is infinite where no reading is possible, or 0 with
        `zero_infinity`.
        """
        is_single = len(log_probs.shape) == 2
        if is_single:
            log_probs = tenon.expand_dims(log_probs, axis=1)
        losses, lengths = ctc_losses(log_probs, targets, input_lengths, target_lengths, self.blank)
        if self.zero_infinity:
            losses = tenon.select(tenon.isinf(losses), 0.0, losses)
        if self.reduction == "mean":
            return tenon.mean(losses / tenon.maximum(tenon.cast(lengths, dtype=losses.dtype), 1))
        losses = self.reduced(losses)
        return tenon.reshape(losses, shape=()) if is_single and self.reduction == "none" else losses


__all__: Sequence[str] = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PairwiseDistance",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]
