"""Blocks of the rows that a kernel's statements share and add up, each of which a thread can take.

A loop that adds up rows in memory runs in order. The attribute `sum_block` of the kernel, `64 : i64`, cuts it into
blocks of as many rows, with partial sums of their own (`lowering.nests.partial_sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, i64

from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.types.size import Size
from tenon.lowering.kernels.shared_loops import SharedLoop, is_accumulated
from tenon.lowering.kernels.statement import LoopKind, Statement

MOST_BLOCKS = 64
"""As many chunks as `parallelize` makes at most: enough to keep threads equally busy."""
FEWEST_ROWS = 16
"""Of a block: combining its sums with those of others costs about as much as a row does."""
LEAST_ELEMENTS = 1 << 14
"""Of all rows of a block: less is not worth a thread."""


def decide_block(statements: Sequence[Statement], shared: Sequence[SharedLoop]) -> int | None:
    """How many rows a block has; None where all rows are one, or other loops keep threads busy."""
    rows = _blocked(statements, shared)
    if rows is None:
        return None
    extent = statements[0].extents[rows[0]]
    summing = next(s for s, loop in zip(statements, rows, strict=True) if s.kinds[loop] is LoopKind.REDUCTION)
    row = prod(summing.extents) // max(extent, 1)
    block = max(-(-extent // MOST_BLOCKS), FEWEST_ROWS, -(-LEAST_ELEMENTS // max(row, 1)))
    return block if 2 * block <= extent else None


def _blocked(statements: Sequence[Statement], shared: Sequence[SharedLoop]) -> SharedLoop | None:
    """The outermost shared loop, if none of them is parallel and partial sums can be combined."""
    if not shared or not all(is_accumulated(statements, loop) for loop in shared):
        return None
    rows = shared[0]
    if isinstance(statements[0].extents[rows[0]], Size):
        return None
    adding = [s for s, loop in zip(statements, rows, strict=True) if s.kinds[loop] is LoopKind.REDUCTION]
    return rows if all(combining_monoid(s.body, a) for s in adding for a in s.accumulators) else None


def write_block(function: func.FuncOp, block: int) -> None:
    """Set the attribute `sum_block`."""
    function.attributes["sum_block"] = IntegerAttr(block, i64)


def read_block(function: func.FuncOp, statements: Sequence[Statement], shared: Sequence[SharedLoop]) -> int | None:
    """The rows of a block; None for all of them. Raises `ValueError` where the attribute is no such number."""
    attribute = function.attributes.get("sum_block")
    if attribute is None:
        return None
    if not isinstance(attribute, IntegerAttr) or attribute.value.data < 1:
        raise ValueError(f"sum_block: {attribute} is not a positive integer")
    rows = _blocked(statements, shared)
    if rows is None:
        raise ValueError("sum_block: there is no shared loop, or a parallel one, or one of unknown length")
    block = attribute.value.data
    return block if block < statements[0].extents[rows[0]] else None
