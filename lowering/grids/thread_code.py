"""The code of one thread, as it is written: where the thread is along each axis, and its registers.

Registers are a `memref.alloca` in memory space 5 with a dimension for each loop that is written out; since such loops
carry the attribute `unroll`, all its indices are constants when the text is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.upstream.gpu_shuffle import ShuffleOp
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, Position, Steps
from tenon.lowering.steps.nest import THREADS, Bind, Loop, Nest, NestAccess

REGISTERS = IntegerAttr(5, i64)
"""The memory space of what one thread has to itself."""
SHARED = IntegerAttr(3, i64)
"""The memory space of what the threads of a block share."""
FLUSH = "flush"
"""The attribute of an approximated function whose subnormal results may be 0."""
UNROLL = "unroll"
"""The attribute of an `scf.for` whose iterations are to be separate code; a number, if so many of them at a time."""
ROLLED = "rolled"
"""The attribute of one whose iterations are not to be."""

AT_LAUNCH = "at_launch"
"""The attribute of an index constant that the launch tells a kernel: code is the same for others."""

_EQUAL, _LESS = 0, 2  # predicates of arith.cmpi: eq, slt
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


@dataclass(frozen=True)
class Registers:
    """An array in registers, indexed by `loops`."""

    memref: SSAValue
    loops: tuple[Loop, ...]
    in_turns: bool = False
    """Whether at each iteration of a loop that takes turns the registers of the first one are meant."""


def kept_loops(loops: Sequence[Loop], last: Loop | None = None) -> list[Loop]:
    """Those of `loops` that are written out, vectors last, and of these the loop `last`, if it is given."""
    kept = [loop for loop in loops if loop.written_out]
    return sorted(kept, key=lambda loop: 2 if loop is last else int(loop.vector))


class ThreadCode:
    """Writes what a thread does to `entry`, a block that may have been begun."""

    def __init__(self, nest: Nest, entry: Block) -> None:
        self.nest = nest
        self.builder = LoopBuilder(entry)
        self.positions: dict[str, Position] = {}
        self._extents: dict[str, SSAValue] = {}
        self.thread = Position()
        """The number of the thread in its block."""
        self.warp: SSAValue | None = None
        """That of its warp, where all lanes know it to be the same."""
        for binds, id_op in (((Bind.GRID,), gpu.BlockIdOp), (THREADS, gpu.ThreadIdOp)):
            loops = nest.bound(*binds)
            if nest.lasting and THREADS is not binds:
                self._block = self.builder.value(id_op(_X))
            elif any(loop.extent > 1 for loop in loops):
                number = self.builder.value(id_op(_X))
                self._take(loops, number)
                if binds is THREADS:
                    self.thread = Position(((number, 1),))
            else:
                self.positions |= {loop.name: Position() for loop in loops}
        # Statements that do not have an axis of one place may read what others that have it compute.
        around_tiles = {tile.at for tile in nest.tiles.values()}
        for loop in nest.loops:
            if nest.extents[loop.axis] == 1 and loop.in_order and loop.name not in around_tiles:
                self.positions[loop.name] = Position()
        self.positions |= {loop.name: self.positions[loop.like] for loop in nest.loops if loop.like}

    def each_tile(self, body: Callable[[Position], None]) -> None:
        """`body` for each tile of the block, with how many it did before."""
        nest = self.nest
        if not nest.lasting:
            body(Position())
            return
        count = nest.count(Bind.GRID)

        def inside(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            number = self.builder.index(at.scaled(nest.blocks) + Position(((self._block, 1),)))

            def tile() -> None:
                with self.at({}):
                    self._take(nest.bound(Bind.GRID), number)
                    body(at)

            self.when(self.less(number, count) if count % nest.blocks else None, tile)
            return ()

        self.builder.sequential(Steps(0, -(-count // nest.blocks)), (), inside)
        self.mark(ROLLED)

    def _take(self, loops: Sequence[Loop], number: SSAValue) -> None:
        """Say where a thread is along `loops`, whose iterations are numbered together."""
        if loops[0].bind is not Bind.GRID and any(known.by_warpgroup for known in self.nest.contractions):
            places = self._whole_warps(number, loops)
        else:
            places = self.digits(number, [loop.extent for loop in loops])
        for loop, place in zip(loops, places, strict=True):
            if loop.descending:
                last = self.builder.index_constant(loop.extent - 1)
                place = self.builder.pure(arith.SubiOp, (last, place), INDEX)
            self.positions[loop.name] = Position(((place, 1),)) if loop.extent > 1 else Position()

    def _whole_warps(self, number: SSAValue, loops: Sequence[Loop]) -> list[SSAValue]:
        """The places of a thread, by the number of its warp as the first lane has it. So the assembler knows that all
        lanes have the same one, and keeps what follows from it, such as descriptions of operands, once for a warp."""
        builder, warp = self.builder, self.nest.machine.warp
        split = [[loop.extent for loop in loops if (loop.bind is Bind.LANE) is lanes] for lanes in (False, True)]
        at = Position(((number, 1),))
        own = builder.index(self.quotient(at, warp))
        zero, width = (builder.constant(IntegerAttr(n, i32), i32) for n in (0, warp))
        shuffle = ShuffleOp.of_lane(self.value(arith.IndexCastOp(own, i32)), zero, width)
        builder.add(shuffle)
        self.warp = self.value(arith.IndexCastOp(shuffle.shuffled, INDEX))
        lane = builder.index(self.remainder(at, warp))
        return [*self.digits(self.warp, split[0]), *self.digits(lane, split[1])]

    # Where the thread is

    def lane(self) -> Position:
        """The number of the thread in its warp."""
        return self.remainder(self.thread, self.nest.machine.warp)

    def quotient(self, at: Position, by: int) -> Position:
        """An index that is not negative, divided by a number and rounded down."""
        return at.divided(by) if _is_multiple(at, by) else self._divided(arith.DivUIOp, at, by)

    def remainder(self, at: Position, by: int) -> Position:
        """What is left of it."""
        return Position() if _is_multiple(at, by) else self._divided(arith.RemUIOp, at, by)

    def _divided(self, kind: type[arith.DivUIOp | arith.RemUIOp], at: Position, by: int) -> Position:
        if not at.terms:
            return Position((), at.constant // by if kind is arith.DivUIOp else at.constant % by)
        operands = (self.builder.index(at), self.builder.index_constant(by))
        return Position(((self.builder.pure(kind, operands, INDEX), 1),))

    def digits(self, number: SSAValue, extents: Sequence[int]) -> list[SSAValue]:
        """Where `number` is in a box of `extents`, row-major."""
        places: list[SSAValue] = []
        inner = prod(extents)
        for position, extent in enumerate(extents):
            inner //= extent
            value = number
            if extent == 1:
                places.append(self.builder.index_constant(0))
                continue
            if inner > 1:
                value = self.builder.pure(arith.DivUIOp, (value, self.builder.index_constant(inner)), INDEX)
            if any(outer > 1 for outer in extents[:position]):
                value = self.builder.pure(arith.RemUIOp, (value, self.builder.index_constant(extent)), INDEX)
            places.append(value)
        return places

    def axis(self, name: str, *, without: Loop | None = None) -> Position:
        """The index along an axis; of the iteration 0 of a loop `without`."""
        at = Position()
        for loop in self.nest.loops_of([name]):
            if loop is not without:
                at += self.positions[loop.name].scaled(loop.stride)
        return at

    def place(self, access: NestAccess, *, without: Loop | None = None) -> list[SSAValue]:
        """The indices of an access."""
        indices: list[SSAValue] = []
        for factors, constant in zip(access.factors, access.constants, strict=True):
            at = Position((), constant)
            for axis, factor in factors:
                at += self.axis(axis, without=without).scaled(factor)
            indices.append(self.builder.index(at))
        return indices

    def inside(self, axes: Iterable[str]) -> SSAValue | None:
        """Whether the thread is within the extents of all `axes`; None where it always is."""
        conditions: list[SSAValue] = []
        for axis in axes:
            if self.nest.covered(axis) > self.nest.extents[axis]:
                at = self.builder.index(self.axis(axis, without=_whole_vectors(self.nest, axis)))
                conditions.append(self.less(at, self.extent(axis)))
        return self.all_of(conditions)

    def extent(self, axis: str) -> SSAValue:
        """The extent of an axis, to compare indices with. What blocks share the launch tells, so that code is the same
        for all extents that the same steps are for."""
        extent = self.nest.extents[axis]
        if not any(loop.bind is Bind.GRID and loop.extent > 1 for loop in self.nest.loops_of([axis])):
            return self.builder.index_constant(extent)
        if axis not in self._extents:
            told = arith.ConstantOp(IntegerAttr(extent, INDEX))
            told.attributes[AT_LAUNCH] = UnitAttr()
            self.builder.add_constant(told)
            self._extents[axis] = told.result
        return self._extents[axis]

    def is_first(self, loops: Iterable[Loop]) -> SSAValue | None:
        """Whether the thread is at iteration 0 of all `loops`; None where it always is."""
        places = [self.positions[loop.name] for loop in loops if loop.extent > 1]
        return self.all_of([self._compare(_EQUAL, self.builder.index(place), 0) for place in places])

    def less(self, value: SSAValue, number: SSAValue | int) -> SSAValue:
        """Whether an index is below another one."""
        return self._compare(_LESS, value, number)

    def equal(self, value: SSAValue, other: SSAValue | int) -> SSAValue:
        """Whether two indices are the same."""
        return self._compare(_EQUAL, value, other)

    def _compare(self, predicate: int, value: SSAValue, other: SSAValue | int) -> SSAValue:
        operands = (value, other if isinstance(other, SSAValue) else self.builder.index_constant(other))
        return self.builder.pure(arith.CmpiOp, operands, i1, {"predicate": IntegerAttr(predicate, i64)})

    def all_of(self, conditions: Iterable[SSAValue | None]) -> SSAValue | None:
        """Whether all `conditions` hold, of which None always does."""
        total: SSAValue | None = None
        for condition in conditions:
            if condition is not None:
                total = condition if total is None else self.builder.pure(arith.AndIOp, (total, condition), i1)
        return total

    # Loops

    def over(self, loops: Sequence[Loop], body: Callable[[], None]) -> None:
        """`body` for each iteration of `loops`, none of which is bound."""
        if not loops:
            body()
            return
        first, *others = loops

        def inside(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            with self.at({first.name: at}):
                self.over(others, body)
            return ()

        self.builder.sequential(Steps(0, first.extent), (), inside)
        if first.written_out or first.rotated:
            self.mark_unrolled(first.extent)

    def mark_unrolled(self, extent: int, at_a_time: int | None = None) -> None:
        """Have the iterations of the loop that was just written be separate code, or so many at a time, lest registers
        have what all of them load; one iteration is no loop."""
        if extent > 1:
            self.mark(UNROLL, UnitAttr() if at_a_time is None else IntegerAttr(at_a_time, i64))

    def mark(self, attribute: str, value: Attribute | None = None) -> None:
        """Give the loop that was just written an attribute; one iteration is no loop."""
        loop = self.builder.block.last_op
        if isinstance(loop, scf.ForOp):
            loop.attributes[attribute] = value or UnitAttr()

    @contextmanager
    def at(self, positions: dict[str, Position]) -> Generator[None]:
        """Inside, the thread is at these iterations of loops."""
        before = self.positions
        self.positions = before | positions
        yield
        self.positions = before

    def when(self, condition: SSAValue | None, body: Callable[[], None]) -> None:
        """`body` where the condition holds, or always."""
        if condition is None:
            body()
        else:
            self.builder.conditional(condition, body)

    # Memory

    def registers(self, element: Attribute, loops: Sequence[Loop], last: Loop | None = None) -> Registers:
        """An array of registers for each iteration of those of `loops` that are written out, vectors last, and of these
        the loop `last`, if it is given."""
        return self.array(element, kept_loops(loops, last))

    def array(self, element: Attribute, loops: Sequence[Loop]) -> Registers:
        """An array of registers for each iteration of loops, in this order."""
        return Registers(self.allocate(element, [loop.extent for loop in loops], REGISTERS), tuple(loops))

    def allocate(
        self, element: Attribute, shape: Sequence[int], space: IntegerAttr, alignment: int | None = None
    ) -> SSAValue:
        """Memory of a thread or a block, at a multiple of so many bytes."""
        type_ = MemRefType(element, list(shape), NoneAttr(), space)
        properties = {} if alignment is None else {"alignment": IntegerAttr(alignment, i64)}
        return self.builder.value(memref.AllocaOp.build(operands=[[], []], result_types=[type_], properties=properties))

    def register(self, array: Registers) -> list[SSAValue]:
        """The indices of the element of an array that the thread is at."""
        places = [Position() if array.in_turns and loop.rotated else self.positions[loop.name] for loop in array.loops]
        return [self.builder.index(place) for place in places]

    def load(self, source: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """An element."""
        return self.builder.value(memref.LoadOp.get(source, indices))

    def store(self, value: SSAValue, target: SSAValue, indices: Sequence[SSAValue]) -> None:
        """Store an element."""
        self.builder.add(memref.StoreOp.get(value, target, indices))

    def constant(self, value: Attribute, element: Attribute) -> SSAValue:
        """A constant."""
        return self.builder.constant(value, element)

    def zero(self, element: Attribute) -> SSAValue:
        """The number 0 of a type."""
        return self.builder.constant(_zero(element), element)

    def value(self, op: Operation) -> SSAValue:
        """Append `op` and return its only result."""
        return self.builder.value(op)


def _is_multiple(at: Position, of: int) -> bool:
    return at.constant % of == 0 and all(factor % of == 0 for _, factor in at.terms)


def _zero(element: Attribute) -> Attribute:
    if isinstance(element, IntegerType | IndexType):
        return IntegerAttr(0, element)
    assert isinstance(element, AnyFloat)
    return FloatAttr(0.0, element)


def _whole_vectors(nest: Nest, axis: str) -> Loop | None:
    """The vector loop of an axis whose extent is a multiple of it: its iterations are all within it, or none is."""
    loops = nest.loops_of([axis])
    vector = next((loop for loop in loops if loop.vector), None)
    if vector is None or nest.extents[axis] % vector.extent:
        return None
    return vector if all(loop is vector or loop.stride % vector.extent == 0 for loop in loops) else None
