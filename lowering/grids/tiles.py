"""Parts of arguments in shared memory, which the threads of a block copy together and read each in its own order.

A copy by way of registers has two halves, so that loops can compute between them: all loads from memory to registers,
by vectors of neighbours, neighbouring vectors to neighbouring threads; then all stores to shared memory. One that is
asynchronous is begun, and waited for by those who use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.dialects import arith, vector
from xdsl.ir import SSAValue

from tenon.dialects.upstream.nvgpu import DeviceAsyncCopyOp
from tenon.dialects.upstream.warpgroup import REPEAT, SPAN
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.grids.copies import copy_to
from tenon.lowering.grids.thread_code import REGISTERS, SHARED, Registers, ThreadCode
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import INDEX, Position, Steps, vector_type
from tenon.lowering.steps.nest import THREADS, Loop, NestAccess, Tile
from tenon.lowering.steps.tile_copies import RUN, SWIZZLES, copy_width, tile_order, tile_sizes

NOWHERE: Mapping[str, Position] = {}
MOST = max(SWIZZLES)
"""Runs of 16 bytes that are all banks, and rows of a matrix of `ldmatrix`."""


@dataclass(frozen=True)
class _Dimension:
    """A dimension of the buffer: `size` iterations of `axis` in the tile, by `loops`; one element without an axis."""

    axis: str | None
    loops: tuple[Loop, ...]
    size: int


class SharedTile:
    """The tile of one access, in `stages` places."""

    def __init__(self, code: ThreadCode, access: NestAccess, tile: Tile, stages: int) -> None:
        self.code, self.access = code, access
        self.buffer, self.element = access.access.buffer, element_type(access.access.buffer)
        self.dimensions = [self._dimension(tile, axis) for axis in access.leading]
        self.layout = tile_order(access, tile)
        self.at, self.pad, self.swizzle, self.panel = tile.at, tile.pad, tile.swizzle, tile.panel
        self.asynchronous, self.in_boxes = tile.asynchronous, tile.boxes
        self.part, self.first = tile.part, tile.first
        self.threads = code.nest.count(*THREADS)
        self.width = copy_width(code.nest, access, tile)
        groups = [known for known in code.nest.contractions if known.by_warpgroup]
        alignment = SPAN * REPEAT if groups else None
        self.memref = code.allocate(self.element, [stages, *tile_sizes(code.nest, access, tile)], SHARED, alignment)
        self.stage = Position()
        self.is_for_warpgroups = any(access.buffer in (known.left.buffer, known.right.buffer) for known in groups)
        """Whether instructions of warpgroups read it, beside threads."""

    def _dimension(self, tile: Tile, axis: str | None) -> _Dimension:
        loops = self.code.nest.tile_loops(tile, axis) if axis is not None else []
        return _Dimension(axis, tuple(loops), 1 + sum((loop.extent - 1) * loop.stride for loop in loops))

    # The copy

    @property
    def chunks(self) -> int:
        """How many vectors each thread copies."""
        return -(-prod(d.size for d in self.dimensions) // (self.width * self.threads))

    def loaded(self) -> SSAValue:
        """Registers for what a thread copies."""
        return self.code.allocate(self.element, [self.chunks, self.width], REGISTERS)

    def load(self, registers: SSAValue) -> None:
        """Load the thread's share of the tile where the loops around are."""
        code = self.code

        def chunk(at: Position, places: list[Position]) -> None:
            indices, inside = self._source(places)
            target = [code.builder.index(at), code.builder.index_constant(0)]
            if inside is not None:
                self._store(code.builder.broadcast(code.zero(self.element), self.width), registers, target)
            code.when(inside, lambda: self._store(self._load(self.buffer, indices), registers, target))

        self._each_chunk(chunk)

    def begin(self) -> None:
        """Begin to copy the thread's share of the tile, which the thread does not wait for."""
        code = self.code

        def chunk(_: Position, places: list[Position]) -> None:
            indices, inside = self._source(places)
            width = code.builder.index_constant(self.width)
            valid = None
            if inside is not None:
                valid = code.value(arith.SelectOp(inside, width, code.builder.index_constant(0)))
            target = self._target(places)
            code.value(DeviceAsyncCopyOp(self.memref, target, self.buffer, indices, self.width, valid))

        self._each_chunk(chunk)

    @property
    def box(self) -> list[int]:
        """The elements along each dimension of the argument that one bulk copy takes."""
        sizes = [dimension.size for dimension in self.dimensions]
        return [*sizes[:-1], self.panel or sizes[-1]]

    @property
    def boxes(self) -> int:
        """How many of these the tile is: one for each panel."""
        return self.dimensions[-1].size // self.box[-1]

    def coordinates(self, number: int) -> list[SSAValue]:
        """Where box `number` begins in the argument, the innermost dimension first."""
        starts = [self._base(dimension) for dimension in self.dimensions]
        starts[-1] += number * self.box[-1]
        return [self._index(n, at) for n, at in reversed(list(enumerate(starts)))]

    def _source(self, places: list[Position]) -> tuple[list[SSAValue], SSAValue | None]:
        """Where a chunk is in the argument, and whether it is within its extents; None where it always is."""
        code = self.code
        indices: list[SSAValue] = []
        conditions: list[SSAValue | None] = []
        for number, (dimension, place) in enumerate(zip(self.dimensions, places, strict=True)):
            at = self._base(dimension) + place
            indices.append(self._index(number, at))
            if dimension.axis is not None and code.nest.covered(dimension.axis) > code.nest.extents[dimension.axis]:
                conditions.append(code.less(code.builder.index(at), code.extent(dimension.axis)))
        return indices, code.all_of(conditions)

    def _target(self, places: list[Position]) -> list[SSAValue]:
        """Where what is at `places` of the argument's part lies in shared memory."""
        *outer, inner = [places[n] for n in self.layout]
        return self._indices(outer, inner, self._swizzled)

    def _indices(
        self, outer: list[Position], inner: Position, moved: Callable[[list[Position], Position], Position]
    ) -> list[SSAValue]:
        """The indices of an element by where it is along the dimensions; `moved` is where in its row, or panel."""
        panels: list[Position] = []
        if self.panel:
            panels, inner = [self.code.quotient(inner, self.panel)], self.code.remainder(inner, self.panel)
        return [self.code.builder.index(at) for at in (self.stage, *panels, *outer, moved(outer, inner))]

    def _swizzled(self, outer: list[Position], inner: Position) -> Position:
        """Where the element `inner` of a row is in it: runs of 16 bytes have traded places."""
        if self.swizzle == 1:
            return inner
        builder, run = self.code.builder, RUN // element_bytes(self.element)
        row = Position()
        for n, at in zip(self.layout, outer, strict=False):
            row = row.scaled(self.dimensions[n].size) + at
        number = self.code.quotient(inner, run)
        moved = self._exchanged(number, row)
        return Position(((builder.index(moved), 1),)).scaled(run) + self.code.remainder(inner, run)

    def _exchanged(self, number: Position, row: Position) -> Position:
        """With which run of a row another one has traded places."""
        code, builder = self.code, self.code.builder
        distance = code.remainder(code.quotient(row, MOST // self.swizzle), self.swizzle)
        return Position(((builder.pure(arith.XOrIOp, (builder.index(number), builder.index(distance)), INDEX), 1),))

    def store(self, registers: SSAValue) -> None:
        """Store the thread's share to shared memory."""
        code = self.code
        vectors = self.layout[-1] == len(self.layout) - 1 and self.pad % self.width == 0

        def chunk(at: Position, places: list[Position]) -> None:
            source = [code.builder.index(at), code.builder.index_constant(0)]
            if vectors:
                self._store(self._load(registers, source), self.memref, self._target(places))
                return
            for lane in range(self.width):
                moved = [*places[:-1], places[-1] + lane]
                value = code.load(registers, [source[0], code.builder.index_constant(lane)])
                code.store(value, self.memref, self._target(moved))

        self._each_chunk(chunk)

    def _each_chunk(self, body) -> None:  # pyright: ignore
        code = self.code
        sizes = [dimension.size for dimension in self.dimensions]
        sizes[-1] //= self.width
        total = prod(sizes)
        run = self._run(sizes[-1])
        cut = sizes if run == sizes[-1] else [sizes[-1] // run, *sizes[:-1], run]
        outer = next((n for n, size in enumerate(cut) if size > 1), 0)
        row = prod(cut[outer + 1 :])
        # Threads that have whole rows of the outermost dimension have the same places in the others each time.
        apart = self.threads // row if self.threads % row == 0 else 0

        def places_of(at: Position) -> list[Position]:
            number = code.thread if apart else at.scaled(self.threads) + code.thread
            found = [Position(((place, 1),)) for place in code.digits(code.builder.index(number), cut)]
            if apart:
                found[outer] += at.scaled(apart)
            first, *others = found
            return found if cut is sizes else [*others[:-1], first.scaled(run) + others[-1]]

        def step(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            number = code.builder.index(at.scaled(self.threads) + code.thread)
            places = places_of(at)
            places[-1] = places[-1].scaled(self.width)
            inside = code.less(number, total) if total % self.threads else None
            code.when(inside, lambda: body(at, places))
            return ()

        code.builder.sequential(Steps(0, self.chunks), (), step)
        code.mark_unrolled(self.chunks)

    def _run(self, vectors: int) -> int:
        """How many of the vectors of a row lanes copy one after the other, before they go on to the next row: all, or,
        where rows become columns, a sector of memory, so that what they store is in different banks."""
        run = max(self.code.nest.machine.sector // (self.width * element_bytes(self.element)), 1)
        is_row = self.layout[-1] == len(self.layout) - 1
        return vectors if is_row or vectors % run else run

    def _index(self, number: int, at: Position) -> SSAValue:
        """The index of an element that is at a place along the axis of a dimension: of a window, where this is now."""
        index = Position((), self.access.constants[number])
        for axis, factor in self.access.factors[number]:
            index += (at if axis == self.dimensions[number].axis else self.code.axis(axis)).scaled(factor)
        return self.code.builder.index(index)

    def _base(self, dimension: _Dimension) -> Position:
        """Where the tile begins."""
        at = Position()
        if dimension.axis is not None:
            copied = {loop.name for loop in dimension.loops}
            for loop in self.code.nest.loops_of([dimension.axis]):
                if loop.name not in copied:
                    at += self.code.positions[loop.name].scaled(loop.stride)
        return at

    def _load(self, source: SSAValue, indices: list[SSAValue]) -> SSAValue:
        if self.width == 1:
            return self.code.load(source, indices)
        type_ = vector_type(self.element, self.width)
        return self.code.value(vector.LoadOp.create(operands=(source, *indices), result_types=(type_,)))

    def _store(self, value: SSAValue, target: SSAValue, indices: list[SSAValue]) -> None:
        if self.width == 1:
            self.code.store(value, target, indices)
        else:
            self.code.builder.add(vector.StoreOp.create(operands=(value, target, *indices)))

    # Its use

    def place(self) -> list[SSAValue]:
        """The indices of the element that the thread is at."""
        return [self.code.builder.index(at) for at in (self.stage, *self._positions())]

    def beside(self, moved: Mapping[str, Position]) -> list[SSAValue]:
        """The indices of the element that is so far along axes from where the thread is, wherever its run is."""
        *outer, inner = self._positions(moved)
        return self._indices(outer, inner, self._swizzled)

    def corner(self) -> list[SSAValue]:
        """The indices of where the matrix begins that the thread is at, in rows whose runs have traded places."""
        *outer, inner = self._positions()
        return self._indices(outer, inner, lambda _, place: place)

    def row_of_matrix(self, down: tuple[int, ...], along: tuple[int, ...]) -> list[SSAValue]:
        """The indices of the row that a lane gives to `ldmatrix`, of matrices of eight rows of 16 bytes: the first one
        is where the thread is, matrix `n` lies `down[n]` rows and `along[n]` runs from it."""
        code, builder, run = self.code, self.code.builder, RUN // element_bytes(self.element)
        *outer, inner = self._positions()
        eighth, row = (
            Position(((value, 1),))
            for value in code.digits(builder.index(code.lane()), [code.nest.machine.warp // MOST, MOST])
        )
        outer[self._rows] += self._chosen(eighth, down) + row
        number = inner.divided(run) + self._chosen(eighth, along)
        if self.swizzle > 1:  # matrices begin at multiples of eight rows
            number = self._exchanged(number, row)
        return [builder.index(at) for at in (self.stage, *outer, number.scaled(run))]

    @property
    def _rows(self) -> int:
        """Which of the outer dimensions has the rows: the last one of several elements."""
        sizes = [self.dimensions[n].size for n in self.layout[:-1]]
        return max((n for n, size in enumerate(sizes) if size > 1), default=len(sizes) - 1)

    def _chosen(self, eighth: Position, distances: tuple[int, ...]) -> Position:
        """What `distances` has for the eight lanes that the thread is one of: of two or four, a sum of what each bit of
        their number adds."""
        total, at = Position(), eighth
        for bit in range(len(distances).bit_length() - 1):
            step = distances[1 << bit]
            if step:
                total += self.code.remainder(at, 2).scaled(step)
            at = self.code.quotient(at, 2)
        return total

    def _positions(self, moved: Mapping[str, Position] = NOWHERE) -> list[Position]:
        """Where the thread is along the dimensions of the tile, or so far from there along axes."""
        positions: list[Position] = []
        for n in self.layout:
            at = moved.get(self.dimensions[n].axis or "", Position())
            for loop in self.dimensions[n].loops:
                at += self.code.positions[loop.name].scaled(loop.stride)
            positions.append(at)
        return positions

    def fragment(self) -> Registers:
        """What the thread needs of the tile, in registers."""
        code, inner = self.code, self.dimensions[self.layout[-1]]
        loop = next((loop for loop in inner.loops if loop.vector), None)
        if loop is not None and (self.pad % loop.extent or inner.size % loop.extent):
            loop = None
        if loop is not None and any(other is not loop and other.stride % loop.extent for other in inner.loops):
            loop = None
        array = code.registers(self.element, code.nest.loops_of(self.access.axes), loop)

        def vectors(lanes: Loop) -> None:
            with code.at({lanes.name: Position()}):
                type_ = vector_type(self.element, lanes.extent)
                loaded = vector.LoadOp.create(operands=(self.memref, *self.place()), result_types=(type_,))
                operands = (code.value(loaded), array.memref, *code.register(array))
                code.builder.add(vector.StoreOp.create(operands=operands))

        def element() -> None:
            code.store(code.load(self.memref, self.place()), array.memref, code.register(array))

        def load() -> None:
            if loop is None or element_bytes(self.element) * loop.extent > code.nest.machine.access:
                code.over(array.loops, element)
            else:
                code.over([other for other in array.loops if other is not loop], partial(vectors, loop))

        if self.part:
            inside = code.less(code.builder.index(code.positions[self.part]), self.first)
            code.builder.conditional(inside, load, lambda: copy_to(code, self.access, array))
        else:
            load()
        return array
