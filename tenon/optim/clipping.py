"""Limits on the size of gradients."""

from __future__ import annotations

from typing import Any

import tenon
from tenon.eager.changes import replace
from tenon.eager.modes import no_grad
from tenon.optim.base import trainable, with_values
from tenon.optim.stepping import tensors_in


def _norm(arrays: Any) -> Any:
    """The root of the sum of the squares of all elements."""
    total: Any = None
    for array in arrays:
        square = tenon.sum(array * array)
        total = square if total is None else total + square
    return tenon.sqrt(total)


def clip_by_global_norm(gradients: Any, max_norm: float) -> tuple[Any, Any]:
    """A tree of gradients scaled so that the norm of all of them together is at most `max_norm`, and that norm before.

    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", ICML 2013.
    """
    values = trainable(gradients)
    norm = _norm(values.values())
    scale = tenon.minimum(max_norm / (norm + 1e-6), 1.0)
    return with_values(gradients, {path: value * scale for path, value in values.items()}), norm


def clip_grad_norm_(parameters: Any, max_norm: float) -> Any:
    """Scale the gradients of tensors so that their norm, all together, is at most `max_norm`; the norm before."""
    tensors = [tensor for tensor in tensors_in(parameters) if tensor.grad is not None]
    with no_grad():
        if not tensors:
            return tenon.tensor(0.0)
        names = {str(number): tensor.grad for number, tensor in enumerate(tensors)}
        clipped, norm = _CLIPPED(names, max_norm)
        for tensor, made in zip(tensors, clipped.values(), strict=True):
            assert tensor.grad is not None
            replace(tensor.grad, made, "clip_grad_norm_")
    return norm


_CLIPPED = tenon.jit(clip_by_global_norm)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Limit the elements of the gradients of tensors to [-clip_value, clip_value]."""
    with no_grad():
        for tensor in tensors_in(parameters):
            if tensor.grad is not None:
                limited = tenon.minimum(tenon.maximum(tensor.grad, -float(clip_value)), float(clip_value))
                replace(tensor.grad, limited, "clip_grad_value_")


__all__ = ["clip_by_global_norm", "clip_grad_norm_", "clip_grad_value_"]
