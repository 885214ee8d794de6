"""A schedule: how the loops of one `linalg.generic` become vectors and register tiles.

It is the attribute `schedule` of the op, a dictionary of integers:

| key         | meaning                                                                          | without it |
|-------------|----------------------------------------------------------------------------------|------------|
| `vector`    | the loop whose iterations are the lanes of vectors                               | no vectors |
| `width`     | lanes of a vector, a power of two                                                | 1          |
| `unroll`    | vectors along the `vector` loop that are computed together                       | 1          |
| `jam`       | a parallel loop of which several iterations are computed together                | none       |
| `jam_count` | how many                                                                         | 1          |

Inputs may have their unit stride along `jam` in place of `vector` if `jam_count` is `width`: square tiles of them are
transposed in registers (`transposed_tiles`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64

from tenon.lowering.kernel_statements import LoopKind, Statement, lies_across, vector_obstacle

LARGEST_WIDTH = 128
LARGEST_TILE = 64
"""Vectors in a tile; beyond this the code only grows."""

_KEYS = ("vector", "width", "unroll", "jam", "jam_count")


@dataclass(frozen=True)
class Schedule:
    """See the module docstring. `vector` and `jam` are positions of loops."""

    vector: int | None = None
    width: int = 1
    unroll: int = 1
    jam: int | None = None
    jam_count: int = 1

    def attribute(self) -> DictionaryAttr:
        """The attribute `schedule` that says this."""
        entries: dict[str, int] = {}
        if self.vector is not None:
            entries |= {"vector": self.vector, "width": self.width, "unroll": self.unroll}
        if self.jam is not None:
            entries |= {"jam": self.jam, "jam_count": self.jam_count}
        return DictionaryAttr({key: IntegerAttr(number, i64) for key, number in entries.items()})


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
    if schedule.vector is not None:
        _check_vector(statement, schedule, schedule.vector)


def _check_vector(statement: Statement, schedule: Schedule, loop: int) -> None:
    width = schedule.width
    obstacle = vector_obstacle(statement, loop, schedule.jam)
    if obstacle is not None:
        raise ValueError(f"schedule: loop {loop} cannot be vectorized: {obstacle}")
    transposed = [a for a in statement.inputs if lies_across(a, loop, schedule.jam)]
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
