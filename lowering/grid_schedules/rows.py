"""Kernels that reduce rows: softmax, norms, sums, the index of the largest; forwards and backwards.

A row gets as many threads as leave a few vectors to each: lanes of a warp, of which several rows may share one, then
warps of a block. What a thread loads of its row it keeps in registers, so that all statements together read memory
once. Rows that are too long for that are gone through in pieces, once for each statement; what lies between statements
is computed again then, not stored. What several of them read of such a row a block keeps in shared memory, or as much
of it as there is room for; the rest was read so short a time before that the cache has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.grid_schedules.elementwise import pack_all, vector_width
from tenon.lowering.kernels.statement import LoopKind, element_type
from tenon.lowering.steps.bind import BindLoop, Resident
from tenon.lowering.steps.inline import Inline
from tenon.lowering.steps.nest import Nest, NestAccess, NestStatement, Space
from tenon.lowering.steps.pack import ASYNC, SHARED, Pack
from tenon.lowering.steps.pieces import PiecesStep
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.validity import is_scanned
from tenon.lowering.steps.vectorize import Unroll, Vectorize

VECTORS = 4
"""Of a row, to each thread: enough loads under way, and few enough exchanges between threads for each."""
MOST_THREADS = 512
"""Of a row."""
BETWEEN, BESIDE = 2, 24
"""Rows that threads make of those of arguments, about, and numbers that they have beside rows."""
LARGEST = 8
"""Bytes of an element."""
WARPS = 4
"""Of a block whose rows take a warp or less."""


def decide_rows(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reduces along an axis whose elements are neighbours."""
    rows = _rows_of(nest)
    return rows if isinstance(rows, str) else rows.steps()


def decide_shared_rows(nest: Nest) -> Sequence[Step] | str:
    """The same, of which several statements read rows that registers do not hold: shared memory has them, or their
    beginnings."""
    rows = _rows_of(nest)
    if isinstance(rows, str):
        return rows
    held = [] if rows.is_kept else rows.held()
    return rows.steps(held) if held else "no row is read again that registers do not hold"


def _rows_of(nest: Nest) -> _Rows | str:
    axes = reduced_axes(nest)
    if isinstance(axes, str):
        return axes
    row = innermost(nest, axes)
    if row is None:
        return "what is reduced are not neighbours"
    rows = [axis for axis in nest.extents if axis not in axes]
    return _Rows(nest, rows, [axis for axis in axes if axis != row], row)


def decide_rows_and_columns(nest: Nest) -> Sequence[Step] | str:
    """Steps for a kernel that reduces rows, and adds up columns of a group of them: a block has groups, whose rows it
    goes through one after the other, and keeps sums of columns, as it does rows, in registers."""
    rows = _rows_and_columns_of(nest)
    return rows if isinstance(rows, str) else [*rows.steps(), PiecesStep(*rows.inside)]


def decide_rows_and_columns_ahead(nest: Nest) -> Sequence[Step] | str:
    """The same where registers let a multiprocessor have one block at a time, and no other one to go on with while
    threads wait for a row: the next one is copied to shared memory meanwhile."""
    rows = _rows_and_columns_of(nest)
    if isinstance(rows, str):
        return rows
    if rows.blocks_at_a_time > 1:
        return f"{rows.blocks_at_a_time} blocks take turns on a multiprocessor"
    (inside,) = rows.inside
    return [*rows.steps(rows.ahead()), PiecesStep(inside), Pipeline(inside, 2)]


def _rows_and_columns_of(nest: Nest) -> _Rows | str:
    sums = [s.reduced for s in nest.statements if s.reduced]
    kept = [axis for axis in nest.extents if not any(axis in axes for axes in sums)]
    if len(kept) != 1 or any(len(axes) != 1 for axes in sums) or len({*sums}) != 2:
        return "not both rows and columns of groups of rows are reduced"
    (row,) = next(axes for axes in sums)
    (inside,) = next(axes for axes in sums if row not in axes)
    if innermost(nest, [row]) != row:
        return "what is reduced first are no neighbours"
    rows = _Rows(nest, kept, [], row, [inside])
    return rows if rows.is_kept else "registers do not hold a row"


def held_threads(nest: Nest) -> int | None:
    """How many threads have a row, where they hold it in registers."""
    axes = reduced_axes(nest)
    row = None if isinstance(axes, str) or len(axes) != 1 else innermost(nest, axes)
    kept = [axis for axis in nest.extents if axis != row]
    if row is None or len(kept) != 1:
        return None
    rows = _Rows(nest, kept, [], row)
    return rows.threads if rows.is_kept else None


def reduced_axes(nest: Nest) -> list[str] | str:
    """The axes that all statements which reduce do reduce, or why there are none such. Those of one element do not
    tell statements apart."""
    reducing = [statement.reduced for statement in nest.statements if statement.reduced]
    reduced = {frozenset(axis for axis in axes if nest.extents[axis] > 1) for axes in reducing}
    if len(reduced) != 1:
        return "no statement reduces" if not reduced else "statements reduce along different axes"
    for statement in nest.statements:
        if LoopKind.SEQUENTIAL in statement.statement.kinds and not is_scanned(statement):
            return "a statement goes on from what it wrote"
    return [axis for axis in nest.extents if any(axis in axes for axes in reducing)]


def innermost(nest: Nest, axes: Sequence[str]) -> str | None:
    """The one of `axes` along which the largest input that depends on them has its neighbours, if it has any there."""
    inputs = [a for s in nest.statements for a in s.inputs if a.access.is_used and set(a.axes) & set(axes)]
    if not inputs:
        return axes[-1] if axes else None
    largest = max(inputs, key=lambda access: prod(access.access.shape))
    last = dict(largest.factors[-1])
    return next((axis for axis in axes if abs(last.get(axis, 0)) == 1), None)


@dataclass(frozen=True)
class _Rows:
    """The decision for one kernel: `row` is the axis along rows, `between` other reduced ones, `rows` all others."""

    nest: Nest
    rows: Sequence[str]
    between: Sequence[str]
    row: str
    inside: Sequence[str] = ()
    """Rows that a block has one after the other."""

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return vector_width(self.nest, self.row)

    @property
    def pieces(self) -> int:
        """Vectors of a thread."""
        return -(-self.vectors // self.threads)

    @property
    def is_kept(self) -> bool:
        """Whether registers hold what a thread has of a row: what is computed of that takes the others."""
        registers = self.nest.machine.registers // MOST_THREADS
        return self.pieces * self.width <= registers // 4 and not self.between

    def steps(self, copies: Sequence[Step] = ()) -> list[Step]:
        """All steps; with those, rows are copied to shared memory before registers have them."""
        nest, row, width = self.nest, self.row, self.width
        threads, pieces, kept = self.threads, self.pieces, self.is_kept
        order = [*self.rows, *self.inside, *self.between, row]
        steps: list[Step] = [Reorder(tuple(order))] if order != list(nest.extents) else []
        inner = row
        if width > 1:
            steps += [Split(row, width, (f"{row}_", f"{row}v")), Vectorize(f"{row}v")]
            inner = f"{row}_"
        steps.append(Split(inner, threads, (f"{row}p", f"{row}t")))
        steps += self.written_out(pieces, kept=kept)
        steps += self.bind_threads(threads)
        if not kept:
            steps += inlined(self.nest, self.row)
        return [*steps, *copies, *pack_all(nest)]

    def ahead(self) -> list[Step]:
        """Steps that copy each row of the arguments."""
        return [Pack(name, SHARED, at=self.inside[0], copy=ASYNC) for name in self.arguments]

    @property
    def arguments(self) -> list[str]:
        """The inputs that have rows, in order."""
        names = {self.nest.name_of(access.buffer) for s in self.nest.statements for access in self.inputs(s)}
        return [name for name in self.nest.buffers if name in names]

    @property
    def blocks_at_a_time(self) -> int:
        """On a multiprocessor, by the registers of threads that keep rows of arguments, of what is made of these, and
        sums of columns."""
        machine = self.nest.machine
        sums = sum(len(s.outputs) for s in self.nest.statements if s.reduced and self.row not in s.reduced)
        kept = (len(self.arguments) + BETWEEN + sums) * self.pieces * self.width
        return max(machine.resident(self.threads, min(kept + BESIDE, machine.thread_registers), 0), 1)

    def held(self) -> list[Step]:
        """Steps that keep in shared memory what several statements read of a row."""
        nest, loop, threads = self.nest, f"{self.row}o", self.threads
        steps: list[Step] = []
        if self.between or threads <= nest.machine.warp or self.pieces <= VECTORS:
            return steps
        piece = VECTORS * threads * self.width  # elements
        used = len(nest.statements) * threads // nest.machine.warp * LARGEST  # by sums of warps
        for name in self.read_again():
            size = element_bytes(element_type(nest.buffers[name]))
            whole, first = -(-self.pieces // VECTORS), (nest.machine.largest_shared - used) // (piece * size)
            if first >= whole:
                steps.append(Pack(name, SHARED, copy=ASYNC))
            elif first:
                steps.append(Pack(name, SHARED, copy=ASYNC, part=loop, first=first))
            used += min(first, whole) * piece * size
        # the assembler does not know how few blocks there is room for
        return [*steps, Resident(max(nest.machine.resident(threads, 0, used), 1))] if steps else []

    def read_again(self) -> list[str]:
        """The inputs of rows that more than one statement goes through, in order."""
        nest, readers = self.nest, Counter[str]()
        for statement in nest.statements:
            inside = (nest.space(output.buffer) is Space.REGISTERS for output in statement.outputs)
            if statement.reduced or not all(inside):  # what only others read is computed where they are
                readers.update({nest.name_of(access.buffer) for access in self.inputs(statement)})
        return [name for name in nest.buffers if readers[name] > 1]

    def inputs(self, statement: NestStatement) -> Iterator[NestAccess]:
        """The arguments that a statement reads along rows, itself or by way of what is computed for it."""
        for access in statement.inputs:
            if not access.access.is_used or self.row not in access.axes:
                continue
            writers = self.nest.writers(access.buffer)
            if not writers and any(axis in access.axes for axis in self.rows):
                yield access
            for writer in writers:
                yield from self.inputs(self.nest.statements[writer])

    @property
    def vectors(self) -> int:
        """Of a row."""
        return -(-self.nest.extents[self.row] // self.width)

    @property
    def threads(self) -> int:
        """Threads for each row, a power of two."""
        warp, vectors = self.nest.machine.warp, self.vectors
        wanted = -(-vectors // VECTORS)
        threads = min(1 << max(wanted - 1, 0).bit_length(), MOST_THREADS)
        rows = prod(self.nest.extents[axis] for axis in (*self.rows, *self.inside))
        most = min(1 << max(vectors - 1, 0).bit_length(), MOST_THREADS)
        while threads < most and rows * threads < self.nest.machine.multiprocessors * MOST_THREADS:
            threads *= 2
        return threads if self.rows else max(threads, warp)

    def written_out(self, count: int, *, kept: bool) -> list[Step]:
        """Steps for what one thread has of a row."""
        loop = f"{self.row}p"
        if kept or count <= VECTORS:
            return [Unroll(loop)]
        return [Split(loop, VECTORS, (f"{self.row}o", f"{self.row}u")), Unroll(f"{self.row}u")]

    def bind_threads(self, threads: int) -> list[Step]:
        """Steps that bind threads to a row, and rows to blocks."""
        warp, row = self.nest.machine.warp, self.row
        outer = [BindLoop(axis, "grid") for axis in self.rows[:-1]]
        if threads >= warp:
            steps: list[Step] = [*outer, *[BindLoop(axis, "grid") for axis in self.rows[-1:]]]
            if threads > warp:
                steps += [Split(f"{row}t", warp, (f"{row}w", f"{row}l")), BindLoop(f"{row}w", "warp")]
                return [*steps, BindLoop(f"{row}l", "lane")]
            if self.rows:
                steps = [*outer, *self.share_block(self.rows[-1], 1)]
            return [*steps, BindLoop(f"{row}t", "lane")]
        return [*outer, *self.share_block(self.rows[-1], warp // threads), BindLoop(f"{row}t", "lane")]

    def share_block(self, axis: str, in_warp: int) -> list[Step]:
        """Steps by which a block has several rows, `in_warp` in each of its warps."""
        blocks = prod(self.nest.extents[axis] for axis in self.rows)
        warps = WARPS
        while warps > 1 and blocks < self.nest.machine.multiprocessors * warps * in_warp:
            warps //= 2
        steps: list[Step] = [
            Split(axis, warps * in_warp, (f"{axis}g", f"{axis}b")),
            BindLoop(f"{axis}g", "grid"),
            Split(f"{axis}b", in_warp, (f"{axis}w", f"{axis}l")),
            BindLoop(f"{axis}w", "warp"),
        ]
        return [*steps, BindLoop(f"{axis}l", "lane")]


def inlined(nest: Nest, axis: str) -> list[Step]:
    """Steps that keep nothing along an axis."""
    names: list[Step] = []
    for name, buffer in nest.buffers.items():
        writers = [nest.statements[n] for n in nest.writers(buffer)]
        along = any(axis in output.axes for w in writers for output in w.outputs if output.buffer is buffer)
        if along and nest.space(buffer) is Space.REGISTERS:
            names.append(Inline(name))
    return names
