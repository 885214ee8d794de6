"""Kernels that reduce along an axis whose elements are not neighbours, while those of another axis are: sums of
columns.

Lanes have columns, by vectors, so that a warp reads whole lines; the warps of a block have rows, several of which each
thread loads before it adds them. Where that leaves multiprocessors without a block, a warp has more rows and fewer
columns: vectors stay as long, as it takes many bytes under way to keep memory busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenon.lowering.grid_schedules.elementwise import pack_all, vector_width
from tenon.lowering.grid_schedules.rows import inlined, reduced_axes
from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.nest import Nest, NestAccess
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.validity import is_scanned
from tenon.lowering.steps.vectorize import Unroll, Vectorize, allows_vectors
from tenon.passes.machine import Gpu

WARPS = 16
"""Of a block."""
ROWS = 4
"""That a thread loads at a time."""
SPAN = 64
"""Bytes of each row that a warp reads, at least: memory gives that much at a time."""


def decide_columns(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reduces across neighbours."""
    axes = reduced_axes(nest)
    if isinstance(axes, str):
        return axes
    largest = _largest(nest, axes)
    column = None if largest is None else _column(largest, axes)
    if largest is None or column is None:
        return "no axis that is kept has neighbours"
    row = max(axes, key=lambda axis: nest.extents[axis])
    others = [axis for axis in nest.extents if axis not in axes and axis != column]
    between = [axis for axis in axes if axis != row]
    order = (*others, *between, row, column)
    steps: list[Step] = [Reorder(order)] if order != tuple(nest.extents) else []
    steps += [BindLoop(axis, "grid") for axis in others]
    width = vector_width(nest, column)
    while width > 1 and not allows_vectors(nest, largest, column, width):
        width //= 2
    warp, extent = nest.machine.warp, nest.extents[column]
    blocks = prod(nest.extents[axis] for axis in others)
    is_scan = any(is_scanned(statement) for statement in nest.statements)
    lanes = warp
    if is_scan:
        while width > 1 and blocks * (extent // (warp * width)) < nest.machine.multiprocessors:
            width //= 2
    else:
        lanes = _lanes(
            nest.machine, width * largest.access.element_bytes, blocks, -(-extent // width), nest.extents[row]
        )
    inner = column
    if width > 1:
        steps += [Split(column, width, (f"{column}_", f"{column}v")), Vectorize(f"{column}v")]
        inner = f"{column}_"
    steps += [Split(inner, lanes, (f"{column}g", f"{column}l")), BindLoop(f"{column}g", "grid")]
    warps = min(WARPS, 1 << (-(-nest.extents[row] * lanes // warp) - 1).bit_length())
    if is_scan:
        warps = _warps_of_scan(nest, warps, nest.extents[row], blocks * -(-extent // (warp * width)))
    together = warps * warp // lanes
    rows = max(1, min(ROWS, nest.extents[row] // together))
    steps += [
        Split(row, together, (f"{row}p", f"{row}w")),
        Split(f"{row}p", rows, (f"{row}o", f"{row}u")),
        Unroll(f"{row}u"),
    ]
    if lanes < warp:
        steps += [Split(f"{row}w", warp // lanes, (f"{row}b", f"{row}l")), BindLoop(f"{row}b", "warp")]
        steps.append(BindLoop(f"{row}l", "lane"))
    else:
        steps.append(BindLoop(f"{row}w", "warp"))
    return [*steps, BindLoop(f"{column}l", "lane"), *inlined(nest, row), *pack_all(nest)]


def _lanes(machine: Gpu, bytes_: int, blocks: int, vectors: int, rows: int) -> int:
    """Lanes of a warp that have vectors, of so many bytes, of one row: all, unless multiprocessors were left without a
    block, or lanes without vectors, and there are rows for the others."""
    lanes = machine.warp
    while lanes * bytes_ > SPAN and rows >= 2 * machine.warp // lanes:
        if 2 * vectors > lanes and blocks * -(-vectors // lanes) >= machine.multiprocessors:
            break
        lanes //= 2
    return lanes


def _warps_of_scan(nest: Nest, most: int, rows: int, blocks: int) -> int:
    """Warps of a block that scan rows: for each piece they exchange what they have, so only as many as the machine
    needs to be busy."""
    warps = most
    while warps > 1 and (rows < 2 * ROWS * warps or blocks * warps > nest.machine.multiprocessors * WARPS):
        warps //= 2
    return warps


def _largest(nest: Nest, reduced: Sequence[str]) -> NestAccess | None:
    """The largest input that depends on what is reduced."""
    inputs = [a for s in nest.statements for a in s.inputs if a.access.is_used and set(a.axes) & set(reduced)]
    return max(inputs, key=lambda access: prod(access.access.shape), default=None)


def _column(access: NestAccess, reduced: Sequence[str]) -> str | None:
    """The axis that is not reduced along which an input has its neighbours."""
    return next((axis for axis, factor in reversed(access.factors[-1]) if factor == 1 and axis not in reduced), None)
