"""Tiles whose lanes are not neighbours in memory, read and written in whole vectors with shuffles between
(`transposed_tiles`).

Tiles of whole rows: lanes take a row each, of an access whose rows follow each other in memory (`holds_rows`). Tiles of
sums that lie across (`stored_across`): vectors hold columns of what is in memory row by row, and become pieces of these
rows, as long as the tile is high."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue

from tenon.lowering.buffers.memref_facts import collapsed_type
from tenon.lowering.kernels.statement import Access, buffer_shape
from tenon.lowering.loop_ir.builder import LoopBuilder, Position
from tenon.lowering.nests.body import BodyEmitter, Lanes, Point, Reads
from tenon.lowering.nests.transposed_tiles import columns_of, rows_of, runs_across


def load_rows(
    builder: LoopBuilder, body: BodyEmitter, access: Access, point: Point, lanes: Lanes, across: Lanes, reads: Reads
) -> None:
    """Make known the vectors along `lanes` at all iterations of `across`, which are the elements of rows."""
    parts = _parts(builder, body, access, point, lanes, across.count)
    rows = [body.load_from(source, indices, part, reads) for source, indices, part in parts]
    rows += rows[-1:] * (across.count - len(rows))  # lanes that nobody looks at
    for number, column in enumerate(columns_of(builder, rows)):
        reads[("across", *body.address(access, point.moved(across.loop, number)), lanes)] = column


def store_rows(
    builder: LoopBuilder, body: BodyEmitter, columns: Sequence[SSAValue], access: Access, point: Point, lanes: Lanes
) -> None:
    """Write the rows of which the lanes of `columns` are the elements."""
    parts = _parts(builder, body, access, point, lanes, len(columns))
    for value, (target, indices, part) in zip(rows_of(builder, columns), parts, strict=False):
        body.store_to(value, target, indices, part)


def load_across(body: BodyEmitter, access: Access, point: Point, lanes: Lanes, across: Lanes, reads: Reads) -> None:
    """Make known the vectors along `lanes` at all iterations of `across`, the pieces of the rows of a tile."""
    for first, left in _pieces(lanes, across.count):
        piece = Lanes(across.loop, lanes.count, None if left == lanes.count else left)
        body.load_transposed(access, point.moved(across.loop, first), lanes, piece, reads)


def store_across(
    builder: LoopBuilder,
    body: BodyEmitter,
    columns: Sequence[SSAValue],
    access: Access,
    point: Point,
    lanes: Lanes,
    loop: int | None,
) -> None:
    """Write the vectors along `lanes` at as many iterations of `loop` from `point` on."""
    for first, left in _pieces(lanes, len(columns)):
        count, taken = 1 << (left - 1).bit_length(), list(columns[first : first + left])
        runs = runs_across(builder, taken + taken[-1:] * (count - left))  # what nobody stores
        for number, run in enumerate(runs[: lanes.active or lanes.count]):
            place = body.address(access, point.moved(loop, first).moved(lanes.loop, number))
            body.store_to(run, *place, Lanes(loop, count, None if left == count else left))


def _pieces(lanes: Lanes, count: int) -> Iterator[tuple[int, int]]:
    """Where the pieces of rows of `count` elements begin that squares of a tile are transposed to, and how many each
    has."""
    return ((first, min(count - first, lanes.count)) for first in range(0, count, lanes.count))


def _parts(
    builder: LoopBuilder, body: BodyEmitter, access: Access, point: Point, lanes: Lanes, length: int
) -> Iterator[tuple[SSAValue, tuple[SSAValue, ...], Lanes]]:
    """The vectors that hold the rows of all active lanes, in memory seen as if rows were no dimension of it."""
    source, (*outer, _) = body.place(access, point)
    row = Position((), 0)
    if outer:  # an intermediate that has shrunk to one row may have no dimension of rows
        row, shape, last = outer.pop(), buffer_shape(source), len(outer)
        groups = [*([dim] for dim in range(last)), [last, last + 1]]
        reassociation = ArrayAttr([ArrayAttr([IntegerAttr(dim, i64) for dim in group]) for group in groups])
        assert isinstance(source.type, MemRefType)
        flat = collapsed_type(source.type, [*shape[:last], shape[last] * length])
        source = builder.pure(memref.CollapseShapeOp, (source,), flat, {"reassociation": reassociation})
    indices = tuple(map(builder.index, outer))
    elements = (lanes.active or lanes.count) * length
    for start in range(0, elements, lanes.count):
        left = elements - start
        part = Lanes(lanes.loop, lanes.count, None if left >= lanes.count else left)
        yield source, (*indices, builder.index(row.scaled(length) + start)), part
