"""What the bodies of statements compute where a thread is: from registers, tiles and memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from xdsl.dialects import arith, linalg, memref
from xdsl.dialects import vector as vector_dialect
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tenon.dialects.families.monoid import combining_op
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.buffers.alignments import known_alignment
from tenon.lowering.buffers.memref_facts import element_bytes, row_major_strides
from tenon.lowering.grids.copies import vector_of
from tenon.lowering.grids.exchanged_stores import are_exchanged
from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.statement import DIVISIONS, buffer_shape, element_type
from tenon.lowering.loop_ir.builder import Position, vector_type
from tenon.lowering.steps.nest import Loop, Nest, NestAccess, NestStatement, Space
from tenon.lowering.steps.validity import is_scanned

_CASTS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp, arith.TruncFOp)
MANY = 32
"""Results of a thread up to which all may be in registers at once."""
Held = dict[tuple[object, ...], Registers]
"""What registers hold, by the place of the access that reads or writes it."""


class BodyCode:
    """Writes bodies by `code`."""

    def __init__(self, nest: Nest, code: ThreadCode) -> None:
        self.nest = nest
        self.code = code
        self.held: Held = {}
        self.tiles: dict[tuple[object, ...], SharedTile] = {}
        """By the place whose elements they are of."""
        self.lanes: dict[Operation, Registers] = {}
        """What reads at computed places have for all lanes of a vector, where that was one access."""

    @property
    def whole_tiles(self) -> set[tuple[object, ...]]:
        """The places of tiles that have all that a block needs."""
        return {place for place, tile in self.tiles.items() if not tile.part}

    def _producer(self, access: NestAccess) -> NestStatement:
        return self.nest.statements[self.nest.writers(access.buffer)[0]]

    def _reads(self, statement: NestStatement) -> list[NestAccess]:
        """What a statement reads, in place of intermediates that are kept nowhere what these are computed of."""
        reads: list[NestAccess] = []
        for access in statement.inputs:
            if not access.access.is_used:
                continue
            if self.nest.space(access.buffer) is Space.INLINE:
                reads += self._reads(self._producer(access))
            else:
                reads.append(access)
        return reads

    def _goes_on(self, statement: NestStatement, number: int) -> bool:
        """Whether a statement reads an output in memory."""
        generic = statement.statement
        is_kept = statement.outputs[number].place in self.held
        return generic.initial[number] is None and generic.reads_output(number) and not is_kept

    def _before(self, output: NestAccess, number: int, statement: NestStatement) -> SSAValue:
        """What an output holds before the statement, where that matters."""
        initial = statement.statement.initial[number]
        if initial is not None:
            return initial
        if not statement.statement.reads_output(number):
            return self.code.zero(element_type(output.access.buffer))
        array = self.held.get(output.place)
        if array is not None:
            return self.code.load(array.memref, self.code.register(array))
        return self.code.load(output.access.buffer, self.code.place(output))

    def _read(self, access: NestAccess) -> SSAValue:
        """The element of an input that the thread is at."""
        if self.nest.space(access.buffer) is Space.INLINE:
            producer = self._producer(access)
            number = [output.buffer for output in producer.outputs].index(access.buffer)
            yielded = producer.statement.body.last_op
            assert yielded is not None
            return self._elements(producer, [yielded.operands[number]])[0]
        array = self.held.get(access.place)
        if array is not None:
            return self.code.load(array.memref, self.code.register(array))
        tile = self.tiles.get(access.place)
        if tile is not None and not tile.part:
            return self.code.load(tile.memref, tile.place())
        return self.code.load(access.access.buffer, self.code.place(access))

    def _needs_guard(self, statement: NestStatement) -> bool:
        """Whether the body may not be run beyond extents."""
        if any(op.regions or isinstance(op, (memref.LoadOp, *DIVISIONS)) for op in statement.statement.body.ops):
            return True
        for access in statement.inputs:
            if access.access.is_used and self.nest.space(access.buffer) is Space.INLINE:
                if self._needs_guard(self._producer(access)):
                    return True
            elif access.access.is_used and access.place not in self.held and access.place not in self.whole_tiles:
                return True
        return not statement.reduced and any(self._goes_on(statement, n) for n in range(len(statement.outputs)))

    def _value_at(self, statement: NestStatement, value: SSAValue) -> SSAValue:
        """A value of a body that depends on no operand, where the thread is."""
        known: dict[SSAValue, SSAValue] = {}
        self._compute(statement, known, only=slice_of([value]))
        return known[value]

    def _elements(self, statement: NestStatement, wanted: Sequence[SSAValue]) -> list[SSAValue]:
        """Values of a body that depend on inputs alone, where the thread is."""
        known = self._operands(statement)
        self._compute(statement, known, only=slice_of(wanted))
        return [known.get(value, value) for value in wanted]

    def _operands(self, statement: NestStatement) -> dict[SSAValue, SSAValue]:
        inputs = zip(statement.statement.body.args, statement.inputs, strict=False)
        return {argument: self._read(access) for argument, access in inputs if access.access.is_used}

    def _body(self, statement: NestStatement, before: Sequence[SSAValue]) -> list[SSAValue]:
        """What the body yields where the thread is, `before` being what its outputs hold."""
        generic = statement.statement
        known: dict[SSAValue, SSAValue] = dict(zip(generic.accumulators, before, strict=True))
        known |= self._operands(statement)
        self._compute(statement, known)
        assert generic.body.last_op is not None
        return [known.get(value, value) for value in generic.body.last_op.operands]

    def _compute(
        self,
        statement: NestStatement,
        known: dict[SSAValue, SSAValue],
        only: set[Operation] | None = None,
    ) -> None:
        """Append the ops of a body, or `only` some, with `known` for operands; results become known."""
        for op in list(statement.statement.body.ops):
            if isinstance(op, linalg.ops.YieldOp) or (only is not None and op not in only):
                continue
            if isinstance(op, linalg.ops.IndexOp):
                known[op.result] = self._index(statement, op)
                continue
            if (lanes := self.lanes.get(op)) is not None:
                known[op.results[0]] = self.code.load(lanes.memref, self.code.register(lanes))
                continue
            copy = op.clone(known)
            for inner in all_ops(copy)[1:]:
                if isinstance(inner, linalg.ops.IndexOp):
                    inner.result.replace_all_uses_with(self._index(statement, inner))
                    assert isinstance(inner.parent, Block)
                    inner.parent.erase_op(inner)
            self.code.builder.add(copy)
            known.update(zip(op.results, copy.results, strict=True))

    def _index(self, statement: NestStatement, op: linalg.ops.IndexOp) -> SSAValue:
        return self.code.builder.index(self.code.axis(statement.axes[op.dim.value.data]))

    # What the thread has

    def _open(self, axes: Sequence[str]) -> list[Loop]:
        """The loops along axes that the thread is not inside of."""
        return [loop for loop in self.nest.loops_of(axes) if loop.name not in self.code.positions]

    def _stored_by_vectors(self, statement: NestStatement) -> list[Loop]:
        """The loops in which a thread that has many results stores each vector of them when it is computed: of all
        together, the assembler computes many at a time, and keeps in memory what there are no registers for."""
        nest, loops = self.nest, self._open(statement.axes)
        written_out = [loop for loop in loops if loop.written_out]
        if statement.reduced or is_scanned(statement) or prod(loop.extent for loop in written_out) <= MANY:
            return []
        vector = vector_of(nest, statement.outputs[0])
        if vector not in written_out or self._lane_loads(statement, vector):
            return []
        read = {access.buffer for other in nest.statements for access in other.inputs if access.access.is_used}
        for other in nest.statements:
            read |= {o.buffer for n, o in enumerate(other.outputs) if other.statement.reads_output(n)}
        for output in statement.outputs:
            is_stored = nest.space(output.buffer) is Space.REGISTERS and output.buffer not in read
            if not is_stored or output.buffer not in nest.kernel.function.body.block.args:
                return []
            if vector_of(nest, output) is not vector or are_exchanged(nest, output):
                return []
        return [loop for loop in written_out if loop is not vector]

    def _array(self, output: NestAccess) -> Registers | None:
        """Registers for what the thread has of an output inside of the loops that it is in."""
        if self.nest.space(output.buffer) is not Space.REGISTERS:
            return None
        return self.code.registers(element_type(output.access.buffer), self._open(output.axes))

    # Neighbours at computed places

    def _load_lanes(self, statement: NestStatement, vector: Loop) -> None:
        """Load at once what the lanes of a vector read at computed places that are neighbours: rows of a gather."""
        for op in self._lane_loads(statement, vector):
            array = self.code.array(element_type(op.memref), [vector])
            with self.code.at({vector.name: Position()}):
                known = self._operands(statement)
                self._compute(statement, known, only=slice_of(op.indices))
                places = [known.get(index, index) for index in op.indices]
                type_ = vector_type(element_type(op.memref), vector.extent)
                load = vector_dialect.LoadOp.create(operands=(op.memref, *places), result_types=(type_,))
                value = self.code.value(load)
                self.code.builder.add(
                    vector_dialect.StoreOp.create(operands=(value, array.memref, *self.code.register(array)))
                )
            self.lanes[op] = array

    def _lane_loads(self, statement: NestStatement, vector: Loop) -> list[memref.LoadOp]:
        """The reads of a body whose last index is that along a vector's axis, and the others do not depend on it."""
        nest, axis = self.nest, vector.axis
        if nest.extents[axis] % vector.extent:
            return []
        if any(loop is not vector and loop.stride % vector.extent for loop in nest.loops_of([axis])):
            return []
        written = [output.buffer for known in nest.statements for output in known.outputs]
        found: list[memref.LoadOp] = []
        for op in statement.statement.body.ops:
            if not isinstance(op, memref.LoadOp) or not self._are_neighbours(statement, op, vector):
                continue
            inside = slice_of(op.indices[:-1])
            read = [other.memref for other in (op, *inside) if isinstance(other, memref.LoadOp)]
            if not any(other.regions for other in inside) and not any(buffer in written for buffer in read):
                found.append(op)
        return found

    def _are_neighbours(self, statement: NestStatement, op: memref.LoadOp, vector: Loop) -> bool:
        buffer, size = op.memref, vector.extent * element_bytes(element_type(op.memref))
        machine = self.nest.machine
        if not isinstance(buffer, BlockArgument) or size > machine.access:
            return False
        if known_alignment(buffer, machine.access) % size or not op.indices:
            return False
        if any(stride % vector.extent for stride in row_major_strides(buffer_shape(buffer))[:-1]):
            return False
        last, others = op.indices[-1], slice_of(op.indices[:-1])
        along = [dim for dim, axis in enumerate(statement.axes) if axis == vector.axis]
        indices = [known.dim.value.data for known in others if isinstance(known, linalg.ops.IndexOp)]
        arguments = {v for known in others for v in known.operands if isinstance(v, BlockArgument)} | {
            v for v in op.indices[:-1] if isinstance(v, BlockArgument)
        }
        inputs = dict(zip(statement.statement.body.args, statement.inputs, strict=False))
        moves = any(v in inputs and vector.axis in inputs[v].axes for v in arguments)
        is_along = isinstance(last.owner, linalg.ops.IndexOp) and last.owner.dim.value.data in along
        return is_along and not moves and not any(dim in along for dim in indices)


def vanishes(statement: NestStatement, axis: str, zero_filled: Collection[tuple[object, ...]]) -> bool:
    """Whether iterations beyond the extent of `axis` add nothing: a statement adds up elements, or products of them,
    that are 0 there, since they come from places that are `zero_filled`."""
    generic = statement.statement

    def is_zero(value: SSAValue) -> bool:
        while isinstance(value.owner, _CASTS):
            value = value.owner.operands[0]
        if not isinstance(value, BlockArgument) or value.index >= len(statement.inputs):
            return False
        access = statement.inputs[value.index]
        return axis in access.axes and access.place in zero_filled

    for accumulator in generic.accumulators:
        total = combining_op(generic.body, accumulator)
        if not isinstance(total, arith.AddfOp | arith.AddiOp):
            return False
        (term,) = (operand for operand in total.operands if operand is not accumulator)
        factors = term.owner.operands if isinstance(term.owner, arith.MulfOp | arith.MuliOp) else (term,)
        if not all(map(is_zero, factors)):
            return False
    return True
