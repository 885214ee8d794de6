"""Parameters as one vector, and back."""

from __future__ import annotations

from typing import Any

import tenon
from tenon.eager.modes import no_grad
from tenon.eager.tensor import Tensor


def parameters_to_vector(parameters: Any) -> Any:
    """All elements of parameters, one after the other, as a vector; gradients go through it."""
    return tenon.concatenate([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Any, parameters: Any) -> None:
    """Set parameters, tensors or arrays, to the parts of a vector in their order, in place.

    Raises `ValueError`, changing nothing, where the vector has another number of elements.
    """
    given = [*parameters]
    sizes = [int(parameter.size) for parameter in given]
    if vec.shape != (sum(sizes),):
        raise ValueError(f"vector_to_parameters: vec has shape {tuple(vec.shape)} where ({sum(sizes)},) is needed")
    plain = vec.detach() if isinstance(vec, Tensor) else vec
    at = 0
    with no_grad():
        for parameter, size in zip(given, sizes, strict=True):
            parameter[...] = plain[at : at + size].reshape(tuple(parameter.shape))
            at += size
