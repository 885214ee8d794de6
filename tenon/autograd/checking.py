"""Whether gradients of functions of tensors are those of central differences, by PyTorch's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenon.eager.modes import no_grad
from tenon.eager.tensor import Tensor, tensor

Array = np.ndarray[Any, Any]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradients of a function of tensors are those of central differences, with respect to each of
    `inputs` (a tensor, or its arguments) that requires a gradient, which should be f64.

    Raises `RuntimeError` where they are not, or gives `False` unless `raise_exception`; `ValueError` where none of the
    inputs requires a gradient.
    """
    given: list[Any] = [inputs] if isinstance(inputs, Tensor) else [*inputs]
    wanted = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck: none of the inputs requires a gradient")
    for number in range(len(_results(func, given))):
        for position in wanted:
            slopes = _slopes(func, given, number, position)
            differences = _differences(func, given, number, position, eps)
            if np.allclose(slopes, differences, rtol, atol):
                continue
            if not raise_exception:
                return False
            worst = np.unravel_index(np.argmax(np.abs(slopes - differences)), slopes.shape)
            raise RuntimeError(
                f"gradcheck: the gradient of result {number} with respect to input {position} has an element "
                f"{slopes[worst]} where differences give {differences[worst]}"
            )
    return True


def _results(func: Callable[..., Any], values: Sequence[Any]) -> list[Tensor]:
    """What there may be gradients of."""
    found = func(*values)
    every = [found] if isinstance(found, Tensor) else [*found]
    return [result for result in every if result.is_floating_point()]


def _slopes(func: Callable[..., Any], given: Sequence[Any], number: int, position: int) -> Array:
    """The gradients (m, n) of the m elements of one result with respect to the n of one input, as they are recorded."""
    x = given[position].detach().requires_grad_()
    result = _results(func, [*given[:position], x, *given[position + 1 :]])[number]
    slopes = np.zeros((result.size, x.size))
    for place in range(result.size if result.requires_grad else 0):
        seed = np.zeros(result.size)
        seed[place] = 1
        x.grad = None
        result.backward(tensor(seed.reshape(result.shape), dtype=result.dtype), retain_graph=True, inputs=x)
        if x.grad is not None:
            slopes[place] = x.grad.numpy().ravel()
    return slopes


def _differences(func: Callable[..., Any], given: Sequence[Any], number: int, position: int, eps: float) -> Array:
    """The same by central differences."""
    start = given[position].detach().numpy()
    columns: list[Array] = []
    for place in np.ndindex(start.shape):
        ends: list[Array] = []
        for step in (eps, -eps):
            moved = start.copy()
            moved[place] += step
            with no_grad():
                found = _results(func, [*given[:position], tensor(moved), *given[position + 1 :]])[number]
            ends.append(found.detach().numpy().astype(np.float64).ravel())
        columns.append((ends[0] - ends[1]) / (2 * eps))
    return np.stack(columns, axis=1)


__all__ = ["gradcheck"]
