"""Kernels whose results each come from few elements: windows of pooling and of convolutions of single channels,
gradients of these, short sums of any kind.

A thread does whole results, as in `elementwise`: neighbours have neighbouring results, and each combines its own
elements in order. What lies between statements along the reduced axes is computed again where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenon.lowering.grid_schedules.elementwise import LOADS, axes_in_memory, pack_all, spread, vector_width
from tenon.lowering.grid_schedules.rows import inlined
from tenon.lowering.kernels.statement import LoopKind
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.vectorize import Unroll, Vectorize

MOST = 128
"""Elements of a result, beyond which several threads share it."""
WRITTEN_OUT = 16
"""Elements of a result that are loaded at a time."""


_GOES_ON = "a statement goes on from what it wrote"


def decide_windows(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reduces windows, or what is at computed places: what is read has its neighbours along an
    axis of the result as well."""
    if _goes_on(nest):
        return _GOES_ON
    reduced = {axis for statement in nest.statements for axis in statement.reduced}
    moving = [a for s in nest.statements for a in s.inputs if a.access.is_used and reduced & set(a.axes)]
    along = [{axis for axis, _ in access.factors[-1] if nest.extents[axis] > 1} for access in moving]
    for access, axes in zip(moving, along, strict=True):
        if axes and axes <= reduced:
            return f"neighbours of {nest.name_of(access.buffer)} are reduced, and no window of them"
    if moving and not any(axes & reduced for axes in along):
        return "what is reduced are not neighbours"
    return decide_whole_reductions(nest)


def decide_whole_reductions(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reduces a few elements at a time."""
    if _goes_on(nest):
        return _GOES_ON
    reduced = [axis for axis in nest.extents if any(axis in s.reduced for s in nest.statements)]
    kept = [axis for axis in nest.extents if axis not in reduced]
    terms = prod(nest.extents[axis] for axis in reduced)
    if terms > MOST:
        return f"{terms} elements are reduced at a time, more than {MOST}"
    if not terms:
        return "nothing is reduced"
    if not reduced or not kept:
        return "no statement reduces" if not reduced else "there is one result"
    if any(not set(kept) <= set(statement.axes) for statement in nest.statements):
        return "statements have different loops"
    order = axes_in_memory(nest, kept)
    steps: list[Step] = [Reorder((*order, *reduced))] if [*order, *reduced] != list(nest.extents) else []
    steps += spread(nest, order, vector_width(nest, order[-1]), max(1, LOADS // terms))
    if terms <= WRITTEN_OUT:
        whole = {axis: nest.extents[axis] == vector_width(nest, axis) > 1 for axis in reduced}
        steps += [Vectorize(axis) if whole[axis] else Unroll(axis) for axis in reduced]
    for axis in reduced:
        steps += [step for step in inlined(nest, axis) if step not in steps]
    return [*steps, *pack_all(nest)]


def _goes_on(nest: Nest) -> bool:
    return any(LoopKind.SEQUENTIAL in statement.statement.kinds for statement in nest.statements)
