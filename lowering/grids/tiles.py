"""Parts of arguments in shared memory, which the threads of a block copy together and read each in its own order.

A copy has two halves, so that loops can compute between them: all loads from memory to registers, by vectors of
neighbours, neighbouring vectors to neighbouring threads; then all stores to shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import vector
from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import SSAValue

from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.grids.thread_code import REGISTERS, SHARED, Registers, ThreadCode
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, Steps, vector_type
from tenon.lowering.steps.nest import THREADS, Loop, NestAccess, Tile
from tenon.lowering.steps.vectorize import WIDTHS, allows_vectors


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
        self.dimensions = [self._dimension(tile, axis) for axis in access.plain_axes()]
        numbers = list(range(len(self.dimensions)))
        inner = next((n for n in numbers if self.dimensions[n].axis == tile.inner and tile.inner), numbers[-1])
        self.layout = [n for n in numbers if n != inner] + [inner]
        self.pad = tile.pad
        self.threads = code.nest.count(*THREADS)
        self.width = self._width()
        shape = [self.dimensions[n].size for n in self.layout]
        shape[-1] += tile.pad
        self.memref = code.allocate(self.element, [stages, *shape], SHARED)
        self.stage = Position()

    def _dimension(self, tile: Tile, axis: str | None) -> _Dimension:
        loops = self.code.nest.tile_loops(tile, axis) if axis is not None else []
        return _Dimension(axis, tuple(loops), 1 + sum((loop.extent - 1) * loop.stride for loop in loops))

    def _width(self) -> int:
        """How many neighbours one load takes."""
        last = self.dimensions[-1]
        type_ = self.buffer.type
        assert isinstance(type_, MemRefType)
        if last.axis is None or type_.layout != NoneAttr():
            return 1
        best, nest = 1, self.code.nest
        around = [loop for loop in nest.loops_of([last.axis]) if loop not in last.loops]
        for width in WIDTHS:
            fits = width * element_bytes(self.element) <= nest.machine.access and last.size % width == 0
            fits &= all(loop.stride % width == 0 for loop in around) and nest.extents[last.axis] % width == 0
            if fits and allows_vectors(self.access, last.axis, width):
                best = width
        return best

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
            indices: list[SSAValue] = []
            conditions: list[SSAValue | None] = []
            for dimension, place in zip(self.dimensions, places, strict=True):
                index = code.builder.index(self._base(dimension) + place)
                indices.append(index)
                if dimension.axis is not None and code.nest.covered(dimension.axis) > code.nest.extents[dimension.axis]:
                    conditions.append(code.less(index, code.nest.extents[dimension.axis]))
            inside = code.all_of(conditions)
            target = [code.builder.index(at), code.builder.index_constant(0)]
            if inside is not None:
                self._store(code.builder.broadcast(code.zero(self.element), self.width), registers, target)
            code.when(inside, lambda: self._store(self._load(self.buffer, indices), registers, target))

        self._each_chunk(chunk)

    def store(self, registers: SSAValue) -> None:
        """Store the thread's share to shared memory."""
        code = self.code
        vectors = self.layout[-1] == len(self.layout) - 1 and self.pad % self.width == 0

        def chunk(at: Position, places: list[Position]) -> None:
            stage = code.builder.index(self.stage)
            source = [code.builder.index(at), code.builder.index_constant(0)]
            if vectors:
                target = [stage, *[code.builder.index(places[n]) for n in self.layout]]
                self._store(self._load(registers, source), self.memref, target)
                return
            for lane in range(self.width):
                moved = [*places[:-1], places[-1] + lane]
                value = code.load(registers, [source[0], code.builder.index_constant(lane)])
                code.store(value, self.memref, [stage, *[code.builder.index(moved[n]) for n in self.layout]])

        self._each_chunk(chunk)

    def _each_chunk(self, body) -> None:  # pyright: ignore
        code = self.code
        sizes = [dimension.size for dimension in self.dimensions]
        sizes[-1] //= self.width
        total = prod(sizes)

        def step(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            number = code.builder.index(at.scaled(self.threads) + code.thread)
            places = [Position(((place, 1),)) for place in code.digits(number, sizes)]
            places[-1] = places[-1].scaled(self.width)
            inside = code.less(number, total) if total % self.threads else None
            code.when(inside, lambda: body(at, places))
            return ()

        code.builder.sequential(Steps(0, self.chunks), (), step)
        code.mark_unrolled(self.chunks)

    def _base(self, dimension: _Dimension) -> Position:
        """Where the tile begins."""
        at = Position()
        if dimension.axis is not None:
            for loop in self.code.nest.loops_of([dimension.axis]):
                if loop not in dimension.loops:
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
        positions: list[Position] = []
        for n in self.layout:
            at = Position()
            for loop in self.dimensions[n].loops:
                at += self.code.positions[loop.name].scaled(loop.stride)
            positions.append(at)
        return [self.code.builder.index(at) for at in (self.stage, *positions)]

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

        if loop is None or element_bytes(self.element) * loop.extent > code.nest.machine.access:
            code.over(array.loops, element)
        else:
            code.over([other for other in array.loops if other is not loop], lambda: vectors(loop))
        return array
