"""Fetching the rows of the next register tile: what `fetch_jam` of a schedule asks for.

The rows of a tile, which are read element by element, follow each other in memory, and so do those of the next tile. A
step of the reduction fetches an equal share of these: step 5 of a tile with 8 rows elements 40 to 47. The processor by
itself foresees little of it, since it waits for a few accesses to each row, and a row is short.
"""

from __future__ import annotations

from tenon.lowering.kernels.statement import LoopKind, Statement
from tenon.lowering.nests.body import BodyEmitter, Lanes, Point


def fetch_next_rows(body: BodyEmitter, statement: Statement, number: int, jam: int, rows: int, point: Point) -> None:
    """The share that the step of the reduction at `point` fetches of the `rows` of the next tile along `jam`."""
    later = point.moved(jam, rows)
    reductions = statement.loops(LoopKind.REDUCTION)
    for loop in reductions:
        later = later.at(loop, later.indices[loop].scaled(rows), later.local[loop].scaled(rows))
    body.prefetch(statement.inputs[number], [later], Lanes(reductions[-1]))
