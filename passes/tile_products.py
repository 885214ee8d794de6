"""The products of matrices that tiles pay for, on processors that have them (`Machine.tiles`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenon.dialects.types.size import Size, estimate
from tenon.dialects.upstream.amx import MOST_ROW_BYTES, MOST_ROWS

FEWEST = 8
"""Products of tiles that pay for what has to be done before the first one."""


def tiles_pay(extents: Sequence[int], loops: tuple[int, int, int], sharing: int, element_bytes: int) -> bool:
    """Whether tiles pay for sums over loops of these extents: of rows, columns and terms along three of the `loops`,
    where so many rows are `sharing` each column. Columns and terms have to be known."""
    rows, columns, terms = loops
    steps = {rows: MOST_ROWS, columns: MOST_ROWS, terms: MOST_ROW_BYTES // element_bytes}
    if any(isinstance(extents[loop], Size) for loop in (columns, terms)):
        return False
    if sharing < MOST_ROWS or extents[terms] < steps[terms]:
        return False
    return prod([-(-estimate(extent) // steps.get(loop, 1)) for loop, extent in enumerate(extents)]) >= FEWEST
