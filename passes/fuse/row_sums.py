"""Reductions down the columns of rows.

The sums of a matrix's columns, as in the gradient of what is added to each row, combine rows that are contiguous. So
loops over rows that compute something else as well can add up each row where they have it, in a row of accumulators
that stays near:

    for each row:  statistics, results, ...;  sums += row
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from tenon.dialects.families import ReductionOp
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import compute_type, element_of
from tenon.passes.iteration import Iteration

FEWEST_COLUMNS = 64
"""Elements of a row below which its vectors leave too much to the loop around."""
COMBINED = ("add", "multiply")
"""How rows are combined so: extremes were no faster with the rows that something else computes than by themselves."""


@dataclass(frozen=True)
class RowSum:
    """The loops around a row that is added up, and those of them along which that is done."""

    shared: frozenset[int]
    reduced: frozenset[int]


def sum_of_rows(op: Operation, iteration: Iteration, loops: Sequence[int | None]) -> RowSum | None:
    """How `op`, whose loops are called `loops`, adds up rows; None if it does not, or not in the type of its result."""
    if not isinstance(op, ReductionOp) or op.COMBINE not in COMBINED:
        return None
    element = element_of(op.results[0].type)
    if not isinstance(element, AnyFloat) or element != compute_type(element):
        return None
    reduced = [number for number, loop in enumerate(loops) if loop is not None and not iteration.space.parallel[number]]
    if not reduced or any(isinstance(extent, Size) for extent in iteration.space.extents):
        return None
    columns = iteration.space.extents[reduced[-1] + 1 :]
    if prod(columns) < FEWEST_COLUMNS:
        return None
    around = [loop for loop in loops[: reduced[-1] + 1] if loop is not None]
    return RowSum(frozenset(around), frozenset(loop for n in reduced if (loop := loops[n]) is not None))
