"""Kernels without reductions that read along another axis than they write: transposes, alone or with arithmetic.

A tile of what is read otherwise goes through shared memory: it is loaded along its own neighbours and used along those
of the result, each by whole lines of 128 bytes. An unused word behind each row puts neighbours of a column in different
banks: a warp has four rows of eight vectors of a square when it writes it, and four columns of eight when it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.lowering.grid_schedules.elementwise import accesses, axes_in_memory, pack_all, vector_width
from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.nest import Nest, NestAccess
from tenon.lowering.steps.pack import Pack
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.vectorize import Unroll, Vectorize

BANKS = 32
"""Of shared memory, with a word of 4 bytes each: a side of a square is as long, and one word separates its rows."""
SQUARES = 4
"""That a block does side by side, along what is written, at most."""
THREADS = 256
LEAST = 8
"""Elements along both axes below which squares are mostly empty."""


def decide_transpose(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reads something along another axis than the last of its result."""
    if any(statement.reduced for statement in nest.statements):
        return "a statement reduces"
    axes = list(nest.extents)
    if len(axes) < 2 or any(set(statement.axes) != set(axes) for statement in nest.statements):
        return "statements have different loops, or one alone"
    written = axes_in_memory(nest, axes)[-1]
    crossing = {access.place: access for access in accesses(nest) if _last_axis(access) not in (None, written)}
    crossing = {place: access for place, access in crossing.items() if written in access.axes}
    across = {_last_axis(access) for access in crossing.values()}
    if len(across) != 1:
        return "nothing is read along another axis than what is written" if not across else "there are several orders"
    read = across.pop()
    assert read is not None
    if min(nest.extents[read], nest.extents[written]) < LEAST:
        return f"there are less than {LEAST} elements along axis {read} or {written}"
    word = 4
    size = max(access.access.element_bytes for access in crossing.values())
    side = BANKS * word // size
    names = dict.fromkeys(nest.name_of(access.buffer) for access in crossing.values())
    packed = [Pack(name, "shared", pad=max(1, word // size)) for name in names]
    squares = min(SQUARES, -(-nest.extents[written] // side), nest.machine.shared // (2 * side * side * size))
    return [*_tiled(nest, read, written, side, max(squares, 1)), *packed, *pack_all(nest)]


def _last_axis(access: NestAccess) -> str | None:
    """The axis along which an access has its neighbours."""
    axes = access.plain_axes()
    return axes[-1] if axes else None


def _tiled(nest: Nest, read: str, written: str, side: int, squares: int) -> list[Step]:
    others = [axis for axis in nest.extents if axis not in (read, written)]
    order = (*others, read, written)
    steps: list[Step] = [Reorder(order)] if order != tuple(nest.extents) else []
    steps += [BindLoop(axis, "grid") for axis in others]
    width = min(vector_width(nest, written), side)
    rows = min(side, THREADS * width // side)
    steps += [
        Split(read, side, (f"{read}g", f"{read}b")),
        Split(f"{read}b", rows, (f"{read}u", f"{read}t")),
        Split(written, side * squares, (f"{written}g", f"{written}b")),
        Split(f"{written}b", side, (f"{written}u", f"{written}s")),
        Split(f"{written}s", width, (f"{written}t", f"{written}v")),
    ]
    steps += [BindLoop(f"{axis}g", "grid") for axis in (read, written)]
    steps += [Unroll(f"{axis}u") for axis in (read, written)]
    steps += [BindLoop(f"{axis}t", "block") for axis in (read, written)]
    return [*steps, Vectorize(f"{written}v") if width > 1 else Unroll(f"{written}v")]
