"""Gradients of tensors without `backward`: `tenon.autograd.grad`; and functions whose gradients are Python."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenon.autograd import functional
from tenon.autograd.checking import gradcheck
from tenon.dialects.definition.value import ops
from tenon.dialects.support.suggestion import attribute_hints
from tenon.eager.custom import Function
from tenon.eager.differentiation import differentiate
from tenon.eager.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tenon.eager.tensor import Tensor, backward_of


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` (numbers, unless `grad_outputs` has theirs) with respect to each of `inputs`.

    `grad` of no tensor changes. With `create_graph`, the gradients can be differentiated. Raises `RuntimeError` for an
    input that the outputs do not depend on, unless `allow_unused`, which gives `None` for it, or `materialize_grads`,
    which gives zeros.

    Hooks of `inputs` are called, and what they return is the gradient, unless that goes on from there to others of
    `inputs`: then these get what the hooks return, and the gradient is the one before, as PyTorch has it.
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs=False would change grad of others as well; call backward()")
    results = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    wanted = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    seeds = (grad_outputs,) if grad_outputs is not None and isinstance(outputs, Tensor) else grad_outputs
    sources = [None if x._source is None else x._source.first for x in wanted]
    for position, source in enumerate(sources):
        if source is None:
            raise RuntimeError(f"grad: input {position} requires no gradient")
    found = differentiate(
        results,
        seeds,
        frozenset([source for source in sources if source is not None]),
        retain=retain_graph,
        recorded=create_graph,
        captured=True,
    )
    gradients = tuple([found.get(source) for source in sources if source is not None])
    for position, gradient in enumerate(gradients):
        if gradient is None and not (allow_unused or materialize_grads):
            raise RuntimeError(f"grad: input {position} was not used in what is differentiated; see allow_unused")
    if materialize_grads:
        return tuple(
            [ops.zeros_like(x) if found is None else found for x, found in zip(wanted, gradients, strict=True)]
        )
    return gradients


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of the sum of `tensors` (numbers, unless `grad_tensors` has their gradients) to `grad` of the
    leaves, or of `inputs`: `Tensor.backward` of several."""
    results = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    seeds = (grad_tensors,) if isinstance(tensors, Tensor) or grad_tensors is None else tuple(grad_tensors)
    if not results:
        raise RuntimeError("backward: there are no tensors")
    if grad_tensors is not None and len(seeds) != len(results):
        raise RuntimeError(f"backward: there are {len(results)} tensors and {len(seeds)} gradients of them")
    given = [None] * len(results) if grad_tensors is None else seeds
    backward_of(results, given, retain_graph, create_graph, inputs)


__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(
        __name__,
        {
            **dict.fromkeys(("detect_anomaly", "set_detect_anomaly"), "write tenon.debug.detect_anomaly"),
            "Variable": "write tenon.tensor(data, requires_grad=True)",
        },
    )
