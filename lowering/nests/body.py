"""The body of a statement at one point of its loops, for one lane or for the lanes of a vector.

A value of the body stays a scalar as long as nothing that varies along the lanes enters it, and is broadcast where
it meets a vector. Within one `Reads`, equal loads and computations are done once, by which register tiles pay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, linalg, math, memref, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.lowering.kernels.dot_products import product_of_sum
from tenon.lowering.kernels.lane_bits import is_only_cast
from tenon.lowering.kernels.statement import Access, Statement, Stride, element_type, is_index_of
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, Position, vector_op, vector_type
from tenon.lowering.loop_ir.padded_loads import load_padded
from tenon.lowering.nests.transposed_tiles import gathered_lanes, lanes_apart, transposed, vector_starts

_NO_FASTMATH: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}

SECOND_LEVEL = 2
"""Of upstream's localities. Fetching to the nearest cache takes places that loads need: half the rate from memory."""

Reads = dict[object, SSAValue]
"""What has been loaded and computed since something was stored."""


@dataclass(frozen=True)
class Lanes:
    """`count` iterations of `loop` done at once, of which the first `active` count; None means all."""

    loop: int | None = None
    count: int = 1
    active: int | None = None


ONE_LANE = Lanes()


@dataclass
class Buffer:
    """Where the elements of a memref of the kernel live: in `memref`, or in `scalar` if one is all there is.

    `dims` are the dimensions that `memref` still has; `shrunken` ones count from the start of a strip. With `row`, one
    precedes them in `memref`, of which that is the index. What is `then` done with a scalar, or with lanes of them, is
    done as soon as they are stored.
    """

    memref: SSAValue | None
    dims: tuple[int, ...]
    shrunken: bool = False
    scalar: SSAValue | None = None
    row: Position | None = None
    then: Callable[[Point, Lanes], None] | None = None


@dataclass(frozen=True)
class Panel:
    """A copy of what a block of iterations reads of an input: `memref` is indexed by how far each of `loops` is from
    its entry in `origins`; the last of them is padded to whole vectors.

    It holds the `value` of the body that the input is widened to, if there is one. With `groups`, (loop, depth), an
    index is that of a group along that loop, and a last one counts inside of it. The elements may be `flipped`, and
    there may be the `corrections` of the accumulators along the last of `loops` (see `dot_products`).
    """

    memref: SSAValue
    loops: tuple[int, ...]
    origins: tuple[Position, ...]
    groups: tuple[int, int] | None = None
    flipped: bool = False
    corrections: SSAValue | None = None
    value: SSAValue | None = None

    def place(self, builder: LoopBuilder, point: Point) -> list[SSAValue]:
        """The index of each of `loops` at `point`, in the memref."""
        distances = [
            point.indices[loop] + origin.scaled(-1) for loop, origin in zip(self.loops, self.origins, strict=True)
        ]
        if self.groups is not None:
            grouped, depth = self.groups
            distances = [
                distance.divided(depth) if loop == grouped else distance
                for loop, distance in zip(self.loops, distances, strict=True)
            ]
        return [builder.index(distance) for distance in distances]


@dataclass(frozen=True)
class Point:
    """One iteration of each loop: its index, and its index in shrunken buffers."""

    indices: tuple[Position, ...]
    local: tuple[Position, ...]

    def moved(self, loop: int | None, distance: int) -> Point:
        """The point `distance` further along `loop`."""
        return (
            self
            if loop is None or not distance
            else self.at(loop, self.indices[loop] + distance, self.local[loop] + distance)
        )

    def at(self, loop: int, index: Position, local: Position) -> Point:
        """The point with another iteration of `loop`."""
        return Point(_replaced(self.indices, loop, index), _replaced(self.local, loop, local))


def _replaced(positions: tuple[Position, ...], loop: int, position: Position) -> tuple[Position, ...]:
    return (*positions[:loop], position, *positions[loop + 1 :])


class BodyEmitter:
    """Emits loads, computation and stores of one statement."""

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        buffers: dict[SSAValue, Buffer],
        *,
        fuse_products: bool,
        panels: Mapping[int, Panel] | None = None,
    ) -> None:
        self._builder = builder
        self._statement = statement
        self._buffers = buffers
        self._panels = panels or {}
        self._ops = [op for op in statement.body.ops if not isinstance(op, linalg.ops.YieldOp)]
        self._fused: dict[Operation, Operation] = {}
        if fuse_products:
            self._fused = dict(pair for a in statement.accumulators if (pair := product_of_sum(statement.body, a)))
            products = set(self._fused.values())
            self._ops = [op for op in self._ops if op not in products]

    def load(self, access: Access, point: Point, lanes: Lanes, reads: Reads) -> SSAValue:
        """The element at `point`: a vector if it varies along the lanes, otherwise a scalar."""
        buffer = self._buffers.get(access.buffer)
        if buffer is not None and buffer.scalar is not None:
            return buffer.scalar
        stride = access.stride(lanes.loop or 0) if lanes.count > 1 else Stride.INVARIANT
        if stride is Stride.STEPPED:
            return self._load_stepped(access, point, lanes, reads)
        if stride is Stride.OTHER:
            return reads["across", *self.address(access, point), lanes]  # by `load_transposed`
        lanes = ONE_LANE if stride is Stride.INVARIANT else lanes
        return self._load_at(access, *self.place(access, point), lanes, reads)

    def _load_at(
        self, access: Access, source: SSAValue, place: Sequence[Position], lanes: Lanes, reads: Reads
    ) -> SSAValue:
        """The elements of `lanes` from `place` on, or the padding of `access` there."""
        indices = tuple(map(self._builder.index, place))
        if access.padding is None:
            return self.load_from(source, indices, lanes, reads)
        key = (source, indices, lanes, access.padding)
        if key not in reads:
            reads[key] = load_padded(self._builder, source, place, lanes.count, lanes.active, access.padding)
        return reads[key]

    def load_transposed(self, access: Access, point: Point, lanes: Lanes, across: Lanes, reads: Reads) -> None:
        """Make known the vectors along `lanes` at all iterations of `across` from `point` on.

        The access goes by elements, or a few, along the latter only: a tile is loaded in vectors along it and
        transposed."""
        count = lanes.count if lanes.active is None else lanes.active
        rows = [self.load(access, point.moved(lanes.loop, number), across, reads) for number in range(count)]
        rows += rows[-1:] * (lanes.count - count)  # lanes that nobody looks at
        for number, row in enumerate(transposed(self._builder, rows)[: across.active or across.count]):
            reads[("across", *self.address(access, point.moved(across.loop, number)), lanes)] = row

    def _load_packed(self, panel: Panel, point: Point, lanes: Lanes, reads: Reads) -> SSAValue:
        """The element at `point`, or the elements of all lanes, active or not, from a panel."""
        indices = tuple(panel.place(self._builder, point))
        wide = lanes.count > 1 and lanes.loop == panel.loops[-1]
        return self.load_from(panel.memref, indices, Lanes(lanes.loop, lanes.count) if wide else ONE_LANE, reads)

    def _load_stepped(self, access: Access, point: Point, lanes: Lanes, reads: Reads) -> SSAValue:
        """Lanes that are a few elements apart, or in reverse: the vectors that hold them, without the other lanes."""
        signed, width, count = access.step(lanes.loop or 0), lanes.count, lanes.active or lanes.count
        step = abs(signed)
        source, (*outer, first) = self.place(access, point)
        if signed < 0:
            first = first + signed * (count - 1)
        vectors: list[SSAValue] = []
        starts = vector_starts(step, width, lanes.active)
        for start in starts:
            active = None if lanes.active is None else (lanes.active - 1) * step + 1 - start
            part = Lanes(lanes.loop, width, None if active is None or active >= width else active)
            vectors.append(self._load_at(access, source, (*outer, first + start), part, reads))
        key = ("stepped", signed, *vectors)
        known = reads.get(key)
        if known is None:
            known = reads[key] = lanes_apart(self._builder, vectors, starts, signed, count)
        return known

    def load_from(self, source: SSAValue, indices: tuple[SSAValue, ...], lanes: Lanes, reads: Reads) -> SSAValue:
        """The elements of `lanes` from `indices` on."""
        key = (source, indices, lanes)
        known = reads.get(key)
        if known is not None:
            return known
        builder, element = self._builder, element_type(source)
        if lanes.count == 1:
            op = memref.LoadOp.create(operands=(source, *indices), result_types=(element,))
        elif lanes.active is None:
            op = vector.LoadOp.create(operands=(source, *indices), result_types=(vector_type(element, lanes.count),))
        else:
            wide: Any = vector_type(element, lanes.count)
            zero = builder.constant(DenseIntOrFPElementsAttr.from_list(wide, [0]), wide)
            mask = builder.mask(lanes.active, lanes.count)
            op = vector.MaskedLoadOp.create(operands=(source, *indices, mask, zero), result_types=(wide,))
        known = reads[key] = builder.value(op)
        return known

    def prefetch(self, access: Access, points: Sequence[Point], lanes: Lanes, *, writes: bool = False) -> None:
        """Fetch the vectors at `points`, which are neighbours, to the second level of the caches, or to write them, if
        they are contiguous in memory that outlives the kernel."""
        if access.buffer in self._buffers or access.stride(lanes.loop or 0) is not Stride.UNIT:
            return
        element = element_type(access.buffer)
        per_line = max(self._builder.machine.line_bits // (lanes.count * getattr(element, "bitwidth", 64)), 1)
        for point in points[::per_line]:
            self._builder.add(PrefetchOp.of_data(*self.address(access, point), SECOND_LEVEL, is_write=writes))

    def store(self, value: SSAValue, access: Access, point: Point, lanes: Lanes) -> None:
        """Write `value` to the element, or elements, at `point`."""
        buffer = self._buffers.get(access.buffer)
        if buffer is not None and buffer.memref is None:
            buffer.scalar = value
            if buffer.then is not None:
                buffer.then(point, lanes)
            return
        self.store_to(self._builder.broadcast(value, lanes.count), *self.address(access, point), lanes)

    def store_to(self, value: SSAValue, target: SSAValue, indices: tuple[SSAValue, ...], lanes: Lanes) -> None:
        """Write the elements of `lanes` from `indices` on."""
        if lanes.count == 1:
            op = memref.StoreOp.create(operands=(value, target, *indices))
        elif lanes.active is None:
            op = vector.StoreOp.create(operands=(value, target, *indices))
        else:
            mask = self._builder.mask(lanes.active, lanes.count)
            op = vector.MaskedStoreOp.create(operands=(target, *indices, mask, value))
        self._builder.add(op)

    def address(self, access: Access, point: Point) -> tuple[SSAValue, tuple[SSAValue, ...]]:
        source, place = self.place(access, point)
        return source, tuple(map(self._builder.index, place))

    def place(self, access: Access, point: Point) -> tuple[SSAValue, list[Position]]:
        """The memref that holds the element at `point`, and its indices there."""
        buffer = self._buffers.get(access.buffer)
        dims: Sequence[int] = range(len(access.subscripts))
        source, positions = access.buffer, point.indices
        if buffer is not None:
            assert buffer.memref is not None, f"{access.buffer.type} is read before it is written"
            source, dims = buffer.memref, buffer.dims
            positions = point.local if buffer.shrunken else point.indices
        place: list[Position] = [] if buffer is None or buffer.row is None else [buffer.row]
        for dim in dims:
            subscript = access.subscripts[dim]
            total = Position((), subscript.constant)
            for loop, factor in subscript.factors.items():
                total = total + positions[loop].scaled(factor)
            place.append(total)
        return source, place

    def evaluate(
        self, point: Point, accumulators: Sequence[SSAValue | None], lanes: Lanes, reads: Reads
    ) -> list[SSAValue]:
        """The values that the body yields at `point`; an accumulator that it does not read may be None."""
        statement = self._statement
        values: dict[SSAValue, SSAValue] = {}
        for number, (argument, access) in enumerate(zip(statement.body.args, statement.inputs, strict=False)):
            if argument.first_use is None:
                continue
            panel = self._panels.get(number)
            if panel is None:
                values[argument] = self.load(access, point, lanes, reads)
            else:
                values[panel.value or argument] = self._load_packed(panel, point, lanes, reads)
        for argument, accumulator in zip(statement.accumulators, accumulators, strict=True):
            if accumulator is not None:
                values[argument] = accumulator
        for op in self._ops:
            if values.keys().isdisjoint(op.results):
                self._emit(op, values, point, lanes, reads)
        assert statement.body.last_op is not None
        yielded: Sequence[SSAValue] = statement.body.last_op.operands
        return [values.get(operand, operand) for operand in yielded]

    def compute(
        self, ops: Collection[Operation], values: dict[SSAValue, SSAValue], point: Point, lanes: Lanes, reads: Reads
    ) -> None:
        """Add to `values` what those ops of the body give that are in `ops`; their other operands are there already."""
        for op in self._ops:
            if op in ops:
                self._emit(op, values, point, lanes, reads)

    def _emit(self, op: Operation, values: dict[SSAValue, SSAValue], point: Point, lanes: Lanes, reads: Reads) -> None:
        match op:
            case linalg.ops.IndexOp() if is_only_cast(op):
                pass
            case linalg.ops.IndexOp():
                values[op.result] = self._loop_index(op.dim.value.data, point, lanes)
            case arith.IndexCastOp() if isinstance(op.input.owner, linalg.ops.IndexOp):
                values[op.result] = self._loop_index(op.input.owner.dim.value.data, point, lanes, op.result.type)
            case arith.ConstantOp():
                values[op.result] = self._builder.constant(op.value, op.result.type)
            case memref.LoadOp():
                values[op.res] = self._read(op, values, point, lanes, reads)
            case _ if op.regions:
                self._clone(op, values, point)
            case _:
                self._compute(op, values, lanes, reads)

    def _loop_index(self, loop: int, point: Point, lanes: Lanes, element: Attribute = INDEX) -> SSAValue:
        return self._builder.counted(point.indices[loop], lanes.count if loop == lanes.loop else 1, element)

    def _read(
        self, op: memref.LoadOp, values: dict[SSAValue, SSAValue], point: Point, lanes: Lanes, reads: Reads
    ) -> SSAValue:
        indices = [values.get(index, index) for index in op.indices]
        wide = [isinstance(index.type, VectorType) for index in indices]
        contiguous = any(wide) and not any(wide[:-1]) and is_index_of(op.indices[-1], lanes.loop)
        if contiguous:
            assert lanes.loop is not None
            indices[-1] = self._builder.index(point.indices[lanes.loop])
        source, buffer = op.memref, self._buffers.get(op.memref)
        if buffer is not None:
            assert buffer.memref is not None, f"{op.memref.type} is read before it is written"
            source, indices = buffer.memref, [indices[dim] for dim in buffer.dims]
        if any(wide) and not contiguous:
            return gathered_lanes(self._builder, source, indices, lanes.active)
        return self.load_from(source, tuple(indices), lanes if contiguous else ONE_LANE, reads)

    def _compute(self, op: Operation, values: dict[SSAValue, SSAValue], lanes: Lanes, reads: Reads) -> None:
        operands = [values.get(operand, operand) for operand in op.operands]
        op_type: type[Operation] = type(op)
        properties, attributes = op.properties, op.attributes
        product = self._fused.get(op)
        if product is not None:
            addend = next(o for o in op.operands if o is not product.results[0])
            operands = [values.get(operand, operand) for operand in (*product.operands, addend)]
        wide = any(isinstance(operand.type, VectorType) for operand in operands)
        if product is not None:
            op_type = vector.FMAOp if wide else math.FmaOp
            properties = {} if wide else _NO_FASTMATH
            attributes = {}
        result_types: Sequence[Attribute] = op.result_types
        if wide:
            operands = [self._builder.broadcast(operand, lanes.count) for operand in operands]
            result_types = [vector_type(t, lanes.count) for t in result_types]
            op_type = vector_op(op_type)
        key = (op, *operands)
        known = reads.get(key)
        if known is None:
            known = reads[key] = self._builder.value(
                op_type.create(
                    operands=operands,
                    result_types=result_types,
                    properties=properties.copy(),
                    attributes=attributes.copy(),
                    location=op.location,
                )
            )
        values[op.results[0]] = known

    def _clone(self, op: Operation, values: dict[SSAValue, SSAValue], point: Point) -> None:
        mapping = dict(values)
        copy = op.clone(mapping)
        for inner in list(copy.walk()):
            if isinstance(inner, linalg.ops.IndexOp):
                inner.result.replace_all_uses_with(self._builder.index(point.indices[inner.dim.value.data]))
                assert isinstance(inner.parent, Block)
                inner.parent.erase_op(inner)
            elif isinstance(inner, memref.LoadOp) and (buffer := self._buffers.get(inner.memref)) is not None:
                indices = list(inner.indices)
                inner.operands = [buffer.memref, *(indices[dim] for dim in buffer.dims)]  # pyright: ignore
        self._builder.add(copy)
        values.update(zip(op.results, copy.results, strict=True))
