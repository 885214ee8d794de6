"""Kernels that reduce along an axis whose elements are not neighbours, while those of another axis are: sums of
columns.

Lanes have columns, by vectors, so that a warp reads whole lines; the warps of a block have rows, several of which each
thread loads before it adds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenon.lowering.grid_schedules.elementwise import pack_all, vector_width
from tenon.lowering.grid_schedules.rows import inlined, reduced_axes
from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.unroll import Unroll
from tenon.lowering.steps.validity import is_scanned
from tenon.lowering.steps.vectorize import Vectorize

WARPS = 16
"""Of a block."""
ROWS = 4
"""That a thread loads at a time."""


def decide_columns(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reduces across neighbours."""
    axes = reduced_axes(nest)
    if isinstance(axes, str):
        return axes
    column = _column(nest, axes)
    if column is None:
        return "no axis that is kept has neighbours"
    row = max(axes, key=lambda axis: nest.extents[axis])
    others = [axis for axis in nest.extents if axis not in axes and axis != column]
    between = [axis for axis in axes if axis != row]
    order = (*others, *between, row, column)
    steps: list[Step] = [Reorder(order)] if order != tuple(nest.extents) else []
    steps += [BindLoop(axis, "grid") for axis in others]
    width = vector_width(nest, column)
    warp, extent = nest.machine.warp, nest.extents[column]
    blocks = prod(nest.extents[axis] for axis in others)
    while width > 1 and blocks * (extent // (warp * width)) < nest.machine.multiprocessors:
        width //= 2
    inner = column
    if width > 1:
        steps += [Split(column, width, (f"{column}_", f"{column}v")), Vectorize(f"{column}v")]
        inner = f"{column}_"
    steps += [Split(inner, warp, (f"{column}g", f"{column}l")), BindLoop(f"{column}g", "grid")]
    warps = min(WARPS, 1 << (nest.extents[row] - 1).bit_length())
    if any(is_scanned(statement) for statement in nest.statements):
        warps = _warps_of_scan(nest, warps, nest.extents[row], blocks * -(-extent // (warp * width)))
    rows = max(1, min(ROWS, nest.extents[row] // warps))
    steps += [
        Split(row, warps, (f"{row}p", f"{row}w")),
        Split(f"{row}p", rows, (f"{row}o", f"{row}u")),
        Unroll(f"{row}u"),
        BindLoop(f"{row}w", "warp"),
        BindLoop(f"{column}l", "lane"),
    ]
    return [*steps, *inlined(nest, row), *pack_all(nest)]


def _warps_of_scan(nest: Nest, most: int, rows: int, blocks: int) -> int:
    """Warps of a block that scan rows: for each piece they exchange what they have, so only as many as the machine
    needs to be busy."""
    warps = most
    while warps > 1 and (rows < 2 * ROWS * warps or blocks * warps > nest.machine.multiprocessors * WARPS):
        warps //= 2
    return warps


def _column(nest: Nest, reduced: Sequence[str]) -> str | None:
    """The axis that is not reduced along which the largest input that is has its neighbours."""
    inputs = [a for s in nest.statements for a in s.inputs if a.access.is_used and set(a.axes) & set(reduced)]
    if not inputs:
        return None
    largest = max(inputs, key=lambda access: prod(access.access.shape))
    return next((axis for axis, factor in reversed(largest.factors[-1]) if factor == 1 and axis not in reduced), None)
