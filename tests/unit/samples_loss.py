"""Samples of losses, as PyTorch defines them, with every reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from sample import BF16, F16, F32, F64, NAN, Array, add, integers, numbers

REDUCE: dict[str, Callable[[Any], Any]] = {"mean": np.mean, "sum": np.sum, "none": lambda losses: losses}


def loss(name: str, losses: Callable[..., Any], *args: Array, smooth: bool = True, **settings: Any) -> None:
    """All reductions in f32, the mean in every dtype, operands that broadcast, and no elements."""
    for reduction, reduce in REDUCE.items():
        for dtype in (F32, F64, F16, BF16) if reduction == "mean" else (F32,):
            add(
                name,
                [a.astype(dtype) for a in args],
                lambda *a, f=losses, r=reduce: r(f(*a)),
                reduction=reduction,
                differentiable=smooth and dtype == F32,
                **settings,
            )
    shorter = [a[:1] if i else a for i, a in enumerate(args)]
    add(name, shorter, lambda *a: np.mean(losses(*a)), "broadcast", **settings)
    add(name, [a[:0] for a in args], lambda *a: np.sum(losses(*a)), "empty", reduction="sum", **settings)


def _smooth_l1(x: Array, t: Array, beta: float) -> Array:
    d = np.abs(x - t)
    return np.where(d < beta, d * d / (2 * beta), d - beta / 2)


def _huber(x: Array, t: Array, delta: float) -> Array:
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


_X, _T = numbers("x", (3, 5)), numbers("target", (3, 5))
_PROBABLE, _WANTED = numbers("p", (3, 5), low=0.05, high=0.95), numbers("q", (3, 5), low=0.05, high=0.95)
_SIGNS = (2 * integers("signs", (3, 5), np.int32, 0, 2) - 1).astype(F32)

loss("mse_loss", lambda x, t: (x - t) ** 2, _X, _T)
loss("l1_loss", lambda x, t: np.abs(x - t), _X, _T)
loss("smooth_l1_loss", lambda x, t: _smooth_l1(x, t, 1.0), _X, _T)
loss("smooth_l1_loss", lambda x, t: _smooth_l1(x, t, 0.3), _X, _T, beta=0.3)
loss("smooth_l1_loss", lambda x, t: np.abs(x - t), _X, _T, beta=0.0)
loss("huber_loss", lambda x, t: _huber(x, t, 1.0), _X, _T)
loss("huber_loss", lambda x, t: _huber(x, t, 0.3), _X, _T, delta=0.3)
loss("soft_margin_loss", lambda x, t: np.logaddexp(0, -t * x), _X, _SIGNS)
loss(
    "hinge_embedding_loss",
    lambda x, t: np.where(t == 1, x, np.maximum(0.7 - x, 0)),
    _X,
    _SIGNS,
    smooth=False,
    margin=0.7,
)
loss("hinge_loss", lambda x, t: np.maximum(1 - t * x, 0), _X, _SIGNS)
loss("poisson_nll_loss", lambda x, t: np.exp(x) - t * x, _X, _WANTED)


def _stirling(t: Array) -> Array:
    above = np.maximum(t, 1)
    return np.where(t > 1, above * np.log(above) - above + 0.5 * np.log(2 * np.pi * above), 0)


loss(
    "poisson_nll_loss",
    lambda x, t: x - t * np.log(x + 1e-8) + _stirling(t),
    _PROBABLE,
    5 * _WANTED,
    log_input=False,
    full=True,
)
loss("kl_div", lambda x, t: t * (np.log(t) - x), _X, _WANTED)
loss("kl_div", lambda x, t: np.exp(t) * (t - x), _X, _T, log_target=True)
add("kl_div", [_X, _WANTED], lambda x, t: (t * (np.log(t) - x)).sum() / 3, reduction="batchmean", differentiable=True)
add("kl_div", [np.array([-2.0, -1.0], F32), np.zeros(2, F32)], lambda x, t: np.zeros(2), "zero", reduction="none")


def _binary(x: Array, t: Array, w: Any = 1.0) -> Array:
    return -w * (t * np.log(x) + (1 - t) * np.log(1 - x))


loss("binary_cross_entropy", _binary, _PROBABLE, _WANTED)
loss("binary_cross_entropy", _binary, _PROBABLE, _WANTED, numbers("w", (3, 5), low=0.5))
add(
    "binary_cross_entropy",
    [np.array([0.0, 1.0, 0.0, 1.0], F32), np.array([0.0, 1.0, 1.0, 0.0], F32)],
    lambda x, t: np.array([0.0, 0.0, 100.0, 100.0]),
    "certain",
    reduction="none",
)


def _logits(x: Array, t: Array, w: Any = None, p: Any = None) -> Array:
    one = 1.0 if p is None else p
    result = t * one * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
    return result if w is None else w * result


loss("binary_cross_entropy_with_logits", _logits, _X, _WANTED)
loss("binary_cross_entropy_with_logits", _logits, _X, _WANTED, numbers("w", (3, 5), low=0.5))
loss("binary_cross_entropy_with_logits", _logits, _X, _WANTED, *[numbers(k, (3, 5), low=0.5) for k in "wp"])
loss("margin_ranking_loss", lambda x, y, t: np.maximum(0.3 - t * (x - y), 0), _X, _T, _SIGNS, margin=0.3)


def _cosine(x: Array, y: Array, t: Array) -> Array:
    cosine = (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.where(t == 1, 1 - cosine, np.maximum(cosine - 0.1, 0))


for _reduction, _reduce in REDUCE.items():
    for _dtype in (F32, F64, F16):
        add(
            "cosine_embedding_loss",
            [a.astype(_dtype) for a in (_X, _T, _SIGNS[:, 0])],
            lambda *a, r=_reduce: r(_cosine(*a)),
            margin=0.1,
            reduction=_reduction,
        )

# --- classes ----------------------------------------------------------------------------------------------------------


def _classes(
    likelihood: Array,
    labels: Array,
    weight: Any = None,
    ignore: int | None = None,
    smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """The definition, sample by sample; the classes are in the last axis."""
    count = likelihood.shape[-1]
    scale = np.ones(count) if weight is None else weight
    losses, total = np.zeros(labels.shape), 0.0
    for index in np.ndindex(*labels.shape):
        label = labels[index]
        if label == ignore:
            continue
        total += scale[label]
        target = (1 - smoothing) * np.eye(count)[label] + smoothing / count
        losses[index] = -(scale * target * likelihood[index]).sum()
    return losses if reduction == "none" else losses.sum() / (total if reduction == "mean" else 1.0)


_SCORES, _LABELS = numbers("scores", (4, 5)), np.array([4, 0, 2, 0])
_WEIGHT = numbers("weight", (5,), low=0.5)
_IMAGES, _PLACES = numbers("images", (2, 5, 3, 2)), integers("places", (2, 3, 2), np.int64, 0, 5)
for _reduction in REDUCE:
    for _weight in (None, _WEIGHT):
        for _ignore in (None, 0):
            _settings: dict[str, Any] = {"reduction": _reduction, "ignore_index": _ignore, "differentiable": True}
            add(
                "nll_loss",
                [_SCORES, _LABELS, _weight],
                lambda x, i, w, g=_ignore, r=_reduction: _classes(x, i, w, g, reduction=r),
                **_settings,
            )
            add(
                "cross_entropy",
                [_IMAGES, _PLACES, _weight],
                lambda x, i, w, g=_ignore, r=_reduction: _classes(
                    scipy.special.log_softmax(np.moveaxis(x, 1, -1), -1), i, w, g, 0.1, r
                ),
                axis=1,
                label_smoothing=0.1,
                **_settings,
            )
add("nll_loss", [np.moveaxis(_SCORES, 1, 0), _LABELS.astype(np.int32), None], lambda x, i, w: _classes(x.T, i), axis=0)
add("nll_loss", [_SCORES[0], np.array(3), None], lambda x, i, w: -x[3])
add("nll_loss", [_SCORES.astype(F16), _LABELS, _WEIGHT.astype(F16)], _classes)
add("nll_loss", [np.zeros((0, 3), F32), np.zeros((0,), np.int64), None], lambda *_: np.array(NAN), "empty")
add("nll_loss", [_SCORES, np.full(4, -100), None], lambda *_: np.array(NAN), "all ignored", ignore_index=-100)
for _dtype in (F32, F64, BF16):
    add(
        "softmax_cross_entropy",
        [_SCORES.astype(_dtype), _LABELS, _WEIGHT.astype(_dtype)],
        lambda x, i, w: (_classes(scipy.special.log_softmax(x, -1), i, w, 2), scipy.special.log_softmax(x, -1)),
        ignore_index=2,
        differentiable=_dtype != BF16,
    )
add(
    "softmax_cross_entropy",
    [_IMAGES, _PLACES, None],
    lambda x, i, w: (
        _classes(scipy.special.log_softmax(np.moveaxis(x, 1, -1), -1), i, reduction="none"),
        scipy.special.log_softmax(x, 1),
    ),
    axis=1,
    reduction="none",
    differentiable=True,
)
