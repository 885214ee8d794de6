"""Limits on the size of gradients, as trees of arrays and as those of tensors."""

from __future__ import annotations

from typing import Any

from tenon.nn.utils.gradients import clip_grad_norm_, clip_grad_value_, scaled_to
from tenon.optim.base import trainable, with_values


def clip_by_global_norm(gradients: Any, max_norm: float) -> tuple[Any, Any]:
    """A tree of gradients scaled so that the norm of all of them together is at most `max_norm`, and that norm before.

    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", ICML 2013.
    """
    scaled, norm = scaled_to(trainable(gradients), max_norm)
    return with_values(gradients, scaled), norm


__all__ = ["clip_by_global_norm", "clip_grad_norm_", "clip_grad_value_"]
