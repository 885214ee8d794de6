"""Limits on the size of gradients of tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tenon
from tenon.eager.backward import is_differentiable
from tenon.eager.changes import replace
from tenon.eager.modes import no_grad
from tenon.eager.parameters import adopt
from tenon.eager.tensor import Tensor


def tensors_in(parameters: Any) -> list[Tensor]:
    """Parameters as a list: those of a module, or what is given one after the other.

    Raises `TypeError` for what is no tensor, `ValueError` where there is none, and for a tensor that is there twice.
    """
    given = parameters.parameters() if hasattr(parameters, "parameters") else parameters
    found: list[Any] = [adopt(tensor) for tensor in ([given] if isinstance(given, Tensor) else given)]
    for position, tensor in enumerate(found):
        if isinstance(tensor, np.ndarray) and not is_differentiable(tensor.dtype):
            raise TypeError(
                f"parameter {position} is an array of {tensor.dtype}, which cannot be trained; make it a buffer: "
                "module.register_buffer(name, array)"
            )
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"parameter {position} is a {type(tensor).__name__} where a tensor is needed; list parameters by "
                "module.parameters(), which makes tensors of the arrays of a module"
            )
        if not is_differentiable(tensor.dtype):
            raise TypeError(f"parameter {position} is {tensor.dtype}{list(tensor.shape)}, which cannot be trained")
    if not found:
        raise ValueError("there are no parameters")
    if len({*map(id, found)}) < len(found):
        raise ValueError("a parameter is given twice")
    return found


def norm_of(arrays: Any, norm_type: float = 2.0) -> Any:
    """The norm of all elements of several arrays together."""
    total: Any = None
    for array in arrays:
        if norm_type == 2:
            part = tenon.sum(array * array)
        elif math.isinf(norm_type):
            part = tenon.max(tenon.abs(array))
        else:
            part = tenon.sum(tenon.abs(array) ** norm_type)
        total = part if total is None else tenon.maximum(total, part) if math.isinf(norm_type) else total + part
    if math.isinf(norm_type):
        return total
    return tenon.sqrt(total) if norm_type == 2 else total ** (1 / norm_type)


def scaled_to(arrays: dict[str, Any], max_norm: Any, norm_type: float = 2.0) -> tuple[dict[str, Any], Any]:
    """Arrays scaled so that their norm, all together, is at most `max_norm`, and the norm before."""
    norm = norm_of(arrays.values(), norm_type)
    scale = tenon.minimum(max_norm / (norm + 1e-6), 1.0)
    return {name: array * scale for name, array in arrays.items()}, norm


_SCALED = tenon.jit(scaled_to, static=("norm_type",))


def get_total_norm(tensors: Any, norm_type: float = 2.0) -> Any:
    """The norm of all elements of several tensors together."""
    with no_grad():
        return norm_of(tensors, float(norm_type))


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Scale the gradients of tensors so that their norm, all together, is at most `max_norm`; the norm before.

    Raises `RuntimeError`, if `error_if_nonfinite`, changing nothing, where that norm is infinite or NaN.
    """
    tensors = [tensor for tensor in tensors_in(parameters) if tensor.grad is not None]
    with no_grad():
        if not tensors:
            return tenon.tensor(0.0)
        clipped, norm = _SCALED(
            {str(number): tensor.grad for number, tensor in enumerate(tensors)}, max_norm, norm_type=float(norm_type)
        )
        if error_if_nonfinite and not math.isfinite(norm.item()):
            raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {norm.item()}")
        for tensor, made in zip(tensors, clipped.values(), strict=True):
            assert tensor.grad is not None
            replace(tensor.grad, made, "clip_grad_norm_")
    return norm


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Limit the elements of the gradients of tensors to [-clip_value, clip_value]."""
    with no_grad():
        for tensor in tensors_in(parameters):
            if tensor.grad is not None:
                limited = tenon.minimum(tenon.maximum(tensor.grad, -float(clip_value)), float(clip_value))
                replace(tensor.grad, limited, "clip_grad_value_")
