"""Kernels whose statements do each element by itself.

A block takes elements that are neighbours in what is written: from the innermost axis outwards, until it has as many as
its threads move by vectors of 16 bytes. Each thread has several such vectors, so that enough loads are under way to
fill the memory's latency, unless multiprocessors would be left without a block then."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.nest import Nest, NestAccess
from tenon.lowering.steps.pack import Pack
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.vectorize import WIDTHS, Unroll, Vectorize, allows_vectors, lanes_at_once

THREADS = 256
"""Of a block: several of them share a multiprocessor, so that one computes while another waits."""
LOADS = 4
"""Vectors that a thread loads before it uses them: with the threads that a multiprocessor has, they cover the latency
of memory (Little's law: bytes under way are bandwidth times latency, some 16 KiB for each multiprocessor)."""


def decide_elementwise(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel without reductions."""
    if any(statement.reduced for statement in nest.statements):
        return "a statement reduces"
    axes = list(nest.extents)
    if any(set(statement.axes) != set(axes) for statement in nest.statements):
        return "statements have different loops"
    if not axes:
        return pack_all(nest)
    order = axes_in_memory(nest, axes)
    width = vector_width(nest, order[-1])
    reordered: list[Step] = [Reorder(tuple(order))] if order != axes else []
    return [*reordered, *spread(nest, order, width), *pack_all(nest)]


def axes_in_memory(nest: Nest, axes: Sequence[str]) -> list[str]:
    """Axes in the order in which the first output has them, outermost first."""
    output = nest.statements[-1].outputs[0]
    inside = [axis for axis in output.axes if axis in axes]
    return [axis for axis in axes if axis not in inside] + inside


def vector_width(nest: Nest, axis: str) -> int:
    """How many iterations of an axis are neighbours, in 16 bytes of the smallest elements that are accessed so, and in
    twice as many of the largest; 1 where all of what is written lies otherwise."""
    best = 1
    for width in WIDTHS:
        fitting = [a for a in accesses(nest) if allows_vectors(nest, a, axis, lanes_at_once(nest, a, width))]
        sizes = [width * access.access.element_bytes for access in fitting]
        most = nest.machine.access
        if sizes and min(sizes) <= most and max(sizes) <= 2 * most and width <= nest.extents[axis]:
            best = width
    return best


def accesses(nest: Nest) -> list[NestAccess]:
    """All accesses to arguments that are used."""
    arguments = nest.kernel.function.body.block.args
    return [
        access
        for statement in nest.statements
        for access in (*statement.inputs, *statement.outputs)
        if access.buffer in arguments and (access.access.is_used or access in statement.outputs)
    ]


def spread(nest: Nest, order: Sequence[str], width: int, most: int = LOADS) -> list[Step]:
    """Steps that give blocks, threads and vectors their parts of the axes `order`, the last of which has the vectors; a
    thread has at most so many of these."""
    vectors = {axis: nest.extents[axis] for axis in order}
    steps: list[Step] = []
    inner: dict[str, str] = {axis: axis for axis in order}
    last = order[-1]
    if width > 1:
        vectors[last] = -(-nest.extents[last] // width)
        steps += [Split(last, width, (f"{last}_", f"{last}v")), Vectorize(f"{last}v")]
        inner[last] = f"{last}_"
    total = prod(vectors.values())
    loads = max(1, most // max(1, len({access.place for access in accesses(nest)}) - 1))
    while loads > 1 and total < nest.machine.multiprocessors * THREADS * loads:
        loads //= 2
    threads = THREADS
    while threads > nest.machine.warp and total < nest.machine.multiprocessors * threads:
        threads //= 2
    left = threads
    for axis in reversed(order):
        loop, extent = inner[axis], vectors[axis]
        if left > 1 and extent > 1:
            part = -(-extent // -(-extent // left)) if axis != last or extent <= left else left
            steps.append(Split(loop, part, (f"{axis}g", f"{axis}t")))
            loop, extent, left = f"{axis}g", -(-extent // part), left // part
        if 1 < loads <= extent:
            steps += [Split(loop, loads, (f"{axis}b", f"{axis}u")), Unroll(f"{axis}u")]
            loop, loads = f"{axis}b", 1
        steps.append(BindLoop(loop, "grid"))
    bound = [step.results[1] for step in steps if isinstance(step, Split) and step.results[1].endswith("t")]
    return [*steps, *[BindLoop(loop, "block") for loop in bound]]


def pack_all(nest: Nest) -> list[Step]:
    """Steps that keep all arguments in registers that statements access."""
    names = dict.fromkeys(nest.name_of(access.buffer) for access in accesses(nest))
    return [Pack(name, "registers") for name in names]
