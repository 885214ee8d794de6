"""Gradients of tensors as tensors: `backward`, and `tenon.autograd.grad`."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.eager.backward import Graph
from tenon.eager.engine import Gradients, gradients_of
from tenon.eager.known_tapes import backward_of_known, ends_of_known, pulled_back
from tenon.eager.modes import enable_grad, no_grad
from tenon.eager.recording import Stored, call_of, check_together, hooked, record
from tenon.eager.tape import Operand, Saved, Source
from tenon.eager.tape_programs import reads_of


@dataclass(frozen=True)
class UsedGradient:
    """In the place of a gradient that a traced function has found, and that its optimizer has used there."""

    function: str

    def refuse(self) -> NoReturn:
        """Raise `RuntimeError`, saying what keeps gradients."""
        raise RuntimeError(
            f"the gradient was not kept by the traced function {self.function}, whose optimizer has used it; "
            f"tenon.trace({self.function}, keep_grad=True) keeps gradients"
        )


def differentiate(
    outputs: Sequence[Any],
    cotangents: Sequence[Any] | None,
    wanted: Set[Source] | None,
    *,
    retain: bool | None = None,
    recorded: bool = False,
    captured: bool = False,
) -> dict[Source, Any]:
    """The gradients of `outputs` with respect to leaves, or what is `wanted`, as tensors, by the `first` source of
    each; before or after hooks, if `captured`, as `gradients_of` says."""
    roots: list[Source] = []
    for output in outputs:
        if output._source is None:
            raise RuntimeError(
                "backward is asked of a tensor that was not computed of one that requires a gradient (parameters of a "
                "module do after module.requires_grad_(), or once an optimizer has them)"
            )
        roots.append(output._source)
    kind = type(outputs[0])
    given = [
        _cotangent(kind, output, gradient)
        for output, gradient in zip(outputs, cotangents or [None] * len(outputs), strict=True)
    ]
    root = roots[0] if len(roots) == 1 else None
    is_plain = not (recorded or outputs[0]._is_traced or given[0]._is_traced)
    if root is not None and is_plain and given[0]._source is None:
        known = backward_of_known(root, given[0], kind._new, wanted, retain=bool(retain))
        if known is not None:
            return dict(known)
    is_known = is_plain and wanted is None and all(seed._source is None for seed in given)
    known = ends_of_known if is_known else None
    how = Gradients(_pull_recorded if recorded else pulled_back, lambda a, b: a + b, hooked, known, recorded)
    with (enable_grad if recorded else no_grad)():
        is_retained = recorded if retain is None else retain
        return gradients_of(roots, given, how, wanted, retain=is_retained, captured=captured)


def _cotangent(kind: type[Any], output: Any, gradient: Any) -> Any:
    if gradient is None:
        if output.size != 1:
            raise RuntimeError(f"backward of a tensor of shape {output.shape} needs its gradient; only numbers do not")
        return kind._new(output._beside(np.ones(output.shape, output.dtype)))
    if isinstance(gradient, Stored):
        made = gradient
    else:
        is_array = isinstance(gradient, Value) or is_on_gpu(gradient)
        array = gradient if is_array else np.array(gradient, output.dtype)
        made = kind._new(output._beside(array))
    check_together("backward", (output, made))
    if is_on_gpu(output._array) and not is_on_gpu(made._array):
        made = made._on(output.device)  # a number, which may stand beside what is there
    if (made._array.shape, made._array.dtype) != (output.shape, output.dtype):
        raise ValueError(
            f"the gradient is {made._array.dtype}{list(made._array.shape)} where that of a tensor "
            f"{output.dtype}{list(output.shape)} is needed"
        )
    return made


def _pull_recorded(graph: Graph, cotangents: Sequence[Any]) -> list[Any]:
    """The same, as a call that is recorded: of what it reads, and of the cotangents."""
    found = pulled_back(graph, cotangents)
    reads = reads_of(graph, [(c.dtype, c.shape) for c in cotangents])
    call = call_of(
        "backward",
        ("backward", graph.key, tuple(reads)),
        lambda values: tuple([g for g in graph.pulled_back(reads, values) if g is not None]),
    )
    operands: list[Operand] = [(graph.source(slot), graph.slots[slot].elements) for slot in reads]
    operands += [(c._source, Saved(c._array, c._own_memory())) for c in cotangents]
    made = [gradient for gradient in found if gradient is not None]
    if any(source is not None for source, _ in operands) and made:
        record(call, operands, made)
    return found
