"""A schedule: how the loops of one `linalg.generic` become vectors and register tiles.

It is the attribute `schedule` of the op, a dictionary of integers:

| key         | meaning                                                                          | without it |
|-------------|----------------------------------------------------------------------------------|------------|
| `vector`    | the loop whose iterations are the lanes of vectors                               | no vectors |
| `width`     | lanes of a vector, a power of two                                                | 1          |
| `unroll`    | vectors along the `vector` loop that are computed together                       | 1          |
| `jam`       | a parallel loop of which several iterations are computed together                | none       |
| `jam_count` | how many                                                                         | 1          |
| `pack`      | an input that is copied, tile by tile of the `vector` loop, to a panel           | none       |
| `pack_jam`  | an input that is copied, block by block of the `jam` loop, to a panel            | none       |
| `jam_block` | iterations of the `jam` loop in a block, which share the panels                  | all        |
| `block`     | iterations of the outermost reduction loop whose partial sums are stored between | all        |
| `rows`      | iterations of the outermost reduction loop in a block, outside of the tiles      | all inside |
| `strip`     | iterations of the vector loop in a strip, outside of the blocks of `rows`        | all        |
| `split`     | iterations of the outermost reduction loop that have sums of their own, with `rows` | all     |
| `ahead`     | iterations by which vectors are fetched ahead, see below                         | none       |
| `fetch_jam` | an input of which a tile fetches what the next one along the `jam` loop reads    | none       |
| `taps`      | a reduction loop that is written out inside of all others                        | none       |
| `rest`      | a reduction loop along which lanes are combined for what does not fill a vector  | none       |
| `dot`       | a reduction loop of which each lane takes several iterations at once             | none       |
| `depth`     | how many (`dot_products`)                                                        | 1          |
| `tile`      | groups of the `dot` loop, and rows of `jam`, that a tile of the processor has    | no tiles   |
| `vector_block` | iterations of the `vector` loop in a block of tiles                           | all        |
| `pack_block`   | iterations of the `vector` loop that are copied before all blocks of `jam`    | all        |

A panel is scratch memory `[reduction loops][iterations of the tile]`, of rows `[iterations of the block][reduction
loops]`: what the register tile reads from it is contiguous, whatever it was in the input. Blocks of `jam` are
outermost, then tiles of `vector`, then blocks of the reduction, then the copies, and inside of those the register
tiles.

What is fetched `ahead` are the vectors of later iterations of the outermost reduction loop. Where nothing is reduced it
is what later rows read in pieces (`footprint.in_pieces`): iterations of the last parallel loop around the vectors.

With `tile`, instructions multiply matrices (`matrix_tiles`): parts of `pack_block` columns are outermost, then the
copy, then blocks of `vector_block` columns and `jam_block` rows.

Iterations of `taps` that read the same elements as the next iteration of `jam` share a load: elements of windows that
overlap.

Inputs may have their unit stride along `jam` in place of `vector` if `jam_count` is `width`: square tiles of them are
transposed in registers (`transposed_tiles`). If `jam_count` is all iterations of `jam`, inputs and outputs may have a
row of them for each iteration of `vector`. Sums may have their unit stride along `jam` whatever `jam_count` is: tiles
of them are transposed on their way to memory, in pieces of as many rows as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i1, i64

from tenon.dialects.types.size import Size
from tenon.lowering.kernels.dot_products import TILE, groups_obstacle
from tenon.lowering.kernels.footprint import in_pieces
from tenon.lowering.kernels.obstacles import (
    lies_across,
    next_rows_obstacle,
    parts_obstacle,
    row_accesses,
    vector_obstacle,
)
from tenon.lowering.kernels.statement import (
    Access,
    LoopKind,
    Statement,
    Stride,
    element_type,
    root_of,
)

LARGEST_WIDTH = 128
LARGEST_TILE = 64
"""Vectors in a tile; beyond this the code only grows."""
MOST_TAPS = 16
"""Iterations of a loop that is written out."""

_TILE_KEYS = ("vector", "width", "unroll", "jam", "jam_count")
_BLOCK_KEYS = ("pack", "pack_jam", "jam_block", "block", "rows", "strip", "split", "ahead", "fetch_jam", "taps", "rest")
_MATRIX_KEYS = ("tile", "vector_block", "pack_block")
_KEYS = (*_TILE_KEYS, *_BLOCK_KEYS, "dot", "depth", *_MATRIX_KEYS)


@dataclass(frozen=True)
class Schedule:
    """See the module docstring. `vector` and `jam` are positions of loops, `pack` and `pack_jam` of inputs."""

    vector: int | None = None
    width: int = 1
    unroll: int = 1
    jam: int | None = None
    jam_count: int = 1
    pack: int | None = None
    pack_jam: int | None = None
    jam_block: int | None = None
    block: int | None = None
    rows: int | None = None
    strip: int | None = None
    split: int | None = None
    ahead: int | None = None
    fetch_jam: int | None = None
    taps: int | None = None
    rest: int | None = None
    dot: int | None = None
    depth: int = 1
    tile: int | None = None
    vector_block: int | None = None
    pack_block: int | None = None

    @property
    def blocked(self) -> bool:
        """Whether there is more to the nest than register tiles."""
        return any(part is not None for part in (self.pack, self.pack_jam, self.jam_block, self.block))

    @property
    def packed(self) -> dict[int, int]:
        """The inputs that are copied to panels, each with the loop whose iterations are contiguous there."""
        pairs = ((self.pack, self.vector), (self.pack_jam, self.jam))
        return {number: loop for number, loop in pairs if number is not None and loop is not None}

    def takes_rows(self, statement: Statement) -> bool:
        """Whether a tile has all iterations of `jam`."""
        return self.jam is not None and self.jam_count == statement.extents[self.jam]

    def in_rows(self, statement: Statement) -> list[Access]:
        """What is read and written in whole rows, of which columns are shuffled."""
        if self.vector is None or not self.takes_rows(statement):
            return []
        return row_accesses(statement, self.vector, self.jam)

    def attribute(self) -> DictionaryAttr:
        """The attribute `schedule` that says this."""
        entries: dict[str, int] = {}
        if self.vector is not None:
            entries |= {"vector": self.vector, "width": self.width, "unroll": self.unroll}
        if self.jam is not None:
            entries |= {"jam": self.jam, "jam_count": self.jam_count}
        entries |= self._given(_BLOCK_KEYS)
        if self.dot is not None:
            entries |= {"dot": self.dot, "depth": self.depth, **self._given(_MATRIX_KEYS)}
        return DictionaryAttr({key: IntegerAttr(number, i64) for key, number in entries.items()})

    def _given(self, keys: Sequence[str]) -> dict[str, int]:
        return {key: number for key in keys if (number := getattr(self, key)) is not None}


def read_schedule(statement: Statement) -> Schedule | None:
    """The schedule of a statement, or None. Raises `ValueError` for one that cannot be obeyed."""
    attribute = statement.op.attributes.get("schedule")
    if attribute is None:
        return None
    if not isinstance(attribute, DictionaryAttr):
        raise ValueError(f"schedule: {attribute} is not a dictionary of integers")
    entries: dict[str, int] = {}
    for key, entry in attribute.data.items():
        if key not in _KEYS:
            raise ValueError(f"schedule: key {key!r} is not one of {', '.join(_KEYS)}")
        if not isinstance(entry, IntegerAttr):
            raise ValueError(f"schedule: {key} is {entry}, not an integer")
        entries[key] = entry.value.data
    schedule = Schedule(**entries)
    check_schedule(statement, schedule)
    return schedule


def check_schedule(statement: Statement, schedule: Schedule) -> None:
    """Raise `ValueError` if `schedule` cannot be obeyed."""
    count = len(statement.extents)
    for key, loop in (("vector", schedule.vector), ("jam", schedule.jam)):
        if loop is not None and not 0 <= loop < count:
            raise ValueError(f"schedule: {key} is loop {loop}, but the op has {count} loops")
    width, tile = schedule.width, schedule.unroll * schedule.jam_count
    if not 1 <= width <= LARGEST_WIDTH or width & (width - 1):
        raise ValueError(f"schedule: width is {width}, not a power of two up to {LARGEST_WIDTH}")
    if schedule.unroll < 1 or schedule.jam_count < 1 or tile > LARGEST_TILE:
        raise ValueError(
            f"schedule: unroll is {schedule.unroll} and jam_count {schedule.jam_count}; "
            f"both must be at least 1 and their product at most {LARGEST_TILE}"
        )
    if schedule.vector is None and (width > 1 or schedule.unroll > 1):
        raise ValueError("schedule: width and unroll need a vector loop")
    if schedule.jam is None and schedule.jam_count > 1:
        raise ValueError("schedule: jam_count needs a jam loop")
    if schedule.jam is not None:
        if schedule.jam == schedule.vector:
            raise ValueError(f"schedule: vector and jam are both loop {schedule.jam}")
        if statement.kinds[schedule.jam] is not LoopKind.PARALLEL:
            raise ValueError(f"schedule: jam is loop {schedule.jam}, which is not parallel")
    if schedule.blocked:
        _check_blocks(statement, schedule)
    if any(part is not None for part in (schedule.rows, schedule.strip, schedule.split)):
        _check_rows(statement, schedule)
    if schedule.ahead is not None:
        _check_ahead(statement, schedule, schedule.ahead)
    if schedule.fetch_jam is not None:
        obstacle = next_rows_obstacle(statement, schedule.fetch_jam, schedule.jam, schedule.vector)
        if obstacle is not None:
            raise ValueError(f"schedule: fetch_jam is {schedule.fetch_jam}, but {obstacle}")
    if schedule.taps is not None:
        _check_taps(statement, schedule, schedule.taps)
    if schedule.rest is not None:
        _check_rest(statement, schedule, schedule.rest)
    if schedule.dot is not None or schedule.depth != 1:
        _check_dot(statement, schedule)
    if any(part is not None for part in (schedule.tile, schedule.vector_block, schedule.pack_block)):
        _check_matrix(schedule)
    if schedule.vector is not None:
        _check_vector(statement, schedule, schedule.vector)


def _check_taps(statement: Statement, schedule: Schedule, loop: int) -> None:
    if loop not in statement.loops(LoopKind.REDUCTION) or loop == schedule.vector:
        raise ValueError(f"schedule: taps is loop {loop}, which is no reduction loop beside the vectors")
    extent = statement.extents[loop]
    if isinstance(extent, Size) or extent > MOST_TAPS:
        raise ValueError(
            f"schedule: taps is loop {loop} of {extent} iterations, and at most {MOST_TAPS} are written out"
        )
    combined = schedule.vector is not None and statement.kinds[schedule.vector] is LoopKind.REDUCTION
    if schedule.blocked or schedule.rows is not None or combined:
        raise ValueError("schedule: taps goes with lanes along a parallel loop, and not with blocks")


def last_reduction(statement: Statement, number: int) -> int | None:
    """The last reduction loop of input `number`, of several iterations if one is: panels of rows end in it."""
    used = statement.inputs[number].loops()
    summed = [loop for loop in statement.loops(LoopKind.REDUCTION) if loop in used]
    return max(summed, key=lambda loop: (statement.extents[loop] != 1, loop), default=None)


def _check_rest(statement: Statement, schedule: Schedule, loop: int) -> None:
    if schedule.pack is None or schedule.jam is None or schedule.pack_jam is not None or schedule.dot is not None:
        raise ValueError("schedule: rest goes with jam and pack, and not with pack_jam and dot")
    if loop != last_reduction(statement, schedule.pack):
        raise ValueError(f"schedule: rest is loop {loop}, not the last reduction of what is packed")
    if statement.divides_integers():
        raise ValueError("schedule: rest has masked lanes, in which integers cannot be divided")
    obstacle = vector_obstacle(statement, loop, packed=(schedule.pack,), gathers=True)
    if obstacle is not None:
        raise ValueError(f"schedule: rest is loop {loop}, which cannot be vectorized: {obstacle}")


def _check_blocks(statement: Statement, schedule: Schedule) -> None:
    reductions = statement.loops(LoopKind.REDUCTION)
    jammed = None if schedule.jam is None else statement.extents[schedule.jam]
    if not reductions or statement.loops(LoopKind.SEQUENTIAL) or schedule.vector in reductions:
        raise ValueError("schedule: blocks need lanes along a parallel loop, a reduction, and no sequential loop")
    if schedule.pack is not None and schedule.vector is None:
        raise ValueError("schedule: pack needs a vector loop")
    if schedule.jam is None and (schedule.pack_jam is not None or schedule.jam_block is not None):
        raise ValueError("schedule: pack_jam and jam_block need a jam loop")
    if schedule.jam_block is not None and (schedule.jam_block < 1 or schedule.jam_block % schedule.jam_count):
        raise ValueError(f"schedule: jam_block is {schedule.jam_block}, no multiple of jam_count {schedule.jam_count}")
    if schedule.block is not None and schedule.block < 1:
        raise ValueError(f"schedule: block is {schedule.block}, not at least 1")
    inner = set(reductions if schedule.packed and schedule.block is None else reductions[1:])
    if schedule.dot is not None or schedule.rest is not None:
        inner |= {*reductions, *schedule.packed.values()}
    for loop in sorted(inner):
        if isinstance(statement.extents[loop], Size):
            raise ValueError(
                f"schedule: loop {loop} has {statement.extents[loop]} iterations, and panels of groups, of what fills "
                "no vector, or that are not cut along it need a number"
            )
    if isinstance(jammed, Size) and schedule.pack_jam is not None and schedule.jam_block is None:
        raise ValueError(f"schedule: pack_jam needs jam_block, as loop {schedule.jam} has {jammed} iterations")
    for number, loop in (schedule.packed).items():
        _check_packed(statement, number, loop, schedule.jam if loop == schedule.vector else schedule.vector)


def _check_packed(statement: Statement, number: int, loop: int, other: int | None) -> None:
    if not 0 <= number < len(statement.inputs):
        raise ValueError(f"schedule: input {number} cannot be packed, the op has {len(statement.inputs)} inputs")
    access = statement.inputs[number]
    if access.stride(loop) is Stride.INVARIANT or (other is not None and other in access.loops()):
        raise ValueError(f"schedule: input {number} cannot be packed along loop {loop}: others could not share a panel")
    if element_type(access.buffer) == i1 or root_of(access.buffer) in {root_of(o.buffer) for o in statement.outputs}:
        raise ValueError(f"schedule: input {number} cannot be packed: it holds i1, or is written")
    if access.padding is not None:
        raise ValueError(f"schedule: input {number} cannot be packed: it has padding that is in no memory")


def _check_rows(statement: Statement, schedule: Schedule) -> None:
    reductions = statement.loops(LoopKind.REDUCTION)
    if schedule.rows is None or schedule.vector is None or not reductions or statement.loops(LoopKind.SEQUENTIAL):
        raise ValueError("schedule: rows, strip and split need a vector loop, a reduction loop and no sequential loop")
    if statement.kinds[schedule.vector] is not LoopKind.PARALLEL:
        raise ValueError(f"schedule: rows needs vectors along a parallel loop, and loop {schedule.vector} is none")
    if schedule.blocked:
        raise ValueError("schedule: rows and strip do not go with panels and blocks")
    if schedule.rows < 1 or (schedule.strip is not None and schedule.strip < 1):
        raise ValueError(f"schedule: rows is {schedule.rows} and strip {schedule.strip}; both must be at least 1")
    if schedule.split is not None and schedule.split < 1:
        raise ValueError(f"schedule: split is {schedule.split}, not at least 1")
    if schedule.split is not None and (obstacle := parts_obstacle(statement)):
        raise ValueError(f"schedule: split is {schedule.split}, but {obstacle}")
    for loop in (reductions[0], schedule.vector):
        if isinstance(statement.extents[loop], Size) or statement.extents[loop] == 0:
            raise ValueError(f"schedule: loop {loop} has {statement.extents[loop]} iterations, which makes no blocks")


def _check_ahead(statement: Statement, schedule: Schedule, ahead: int) -> None:
    if schedule.vector is None or statement.kinds[schedule.vector] is LoopKind.REDUCTION or ahead < 1:
        raise ValueError(f"schedule: ahead is {ahead}; it needs lanes along a loop that is not reduced, and at least 1")
    if not statement.loops(LoopKind.REDUCTION) and not in_pieces(statement, schedule.vector):
        raise ValueError("schedule: ahead needs a reduction loop, or inputs that are read in pieces")


def _check_dot(statement: Statement, schedule: Schedule) -> None:
    if schedule.dot is None or schedule.vector is None or schedule.width == 1:
        raise ValueError("schedule: depth needs a dot loop, and dot needs vectors")
    tile = schedule.tile
    obstacle = groups_obstacle(statement, schedule.dot, schedule.depth, schedule.vector, schedule.packed, tile)
    if obstacle:
        raise ValueError(f"schedule: depth is {schedule.depth} and dot loop {schedule.dot}, but {obstacle}")
    (first, *_) = statement.loops(LoopKind.REDUCTION)
    if schedule.block is not None and schedule.dot == first and schedule.block % schedule.depth:
        raise ValueError(f"schedule: block is {schedule.block}, no multiple of depth {schedule.depth}")


def _check_matrix(schedule: Schedule) -> None:
    if schedule.tile is None or schedule.dot is None or schedule.jam is None or schedule.pack is None:
        raise ValueError("schedule: tile needs dot, jam and pack, and vector_block and pack_block need tile")
    if (schedule.tile, schedule.width) != (TILE, TILE):
        raise ValueError(f"schedule: tile is {schedule.tile} and width {schedule.width}, but tiles have {TILE} of both")
    if schedule.jam_count > 2 * TILE or schedule.unroll > 2:
        raise ValueError(
            f"schedule: jam_count is {schedule.jam_count} and unroll {schedule.unroll}, but there are registers for "
            f"{2 * TILE} rows and 2 vectors"
        )
    if schedule.block is not None:
        raise ValueError("schedule: block does not go with tile")
    for key, size in (("vector_block", schedule.vector_block), ("pack_block", schedule.pack_block)):
        if size is not None and size < 1:
            raise ValueError(f"schedule: {key} is {size}, not at least 1")


def _check_vector(statement: Statement, schedule: Schedule, loop: int) -> None:
    width = schedule.width
    packed = tuple([n for n, along in schedule.packed.items() if along == loop])
    # Tiles of matrices are stored as they are.
    across = schedule.jam if schedule.tile is None else None
    obstacle = vector_obstacle(statement, loop, across, packed, whole_rows=schedule.takes_rows(statement), gathers=True)
    if obstacle is not None:
        raise ValueError(f"schedule: loop {loop} cannot be vectorized: {obstacle}")
    in_rows = schedule.in_rows(statement)
    transposed = [a for a in statement.inputs if lies_across(a, loop, schedule.jam) and a not in in_rows]
    if transposed and schedule.jam_count != width:
        raise ValueError(
            f"schedule: jam_count is {schedule.jam_count} and width {width}, but tiles of {transposed[0].buffer.type} "
            "are transposed, which takes both to be equal"
        )
    reduction = statement.kinds[loop] is LoopKind.REDUCTION
    if reduction and statement.divides_integers() and statement.extents[loop] % width != 0:
        raise ValueError(
            f"schedule: loop {loop} has {statement.extents[loop]} iterations, no multiple of width {width}, "
            "and lanes of an integer division cannot be masked"
        )


def along_last(fill: Statement, schedule: Schedule | None) -> Schedule | None:
    """Vectors as wide as those of `schedule` along the last dimension of what is filled."""
    last = len(fill.extents) - 1
    if schedule is None or schedule.vector is None or fill.extents[last] < schedule.width:
        return None
    return Schedule(last, schedule.width)
