"""The statements of a nest as code of one thread, in order.

Each has its loops in order, those along axes that it reduces inside of the others, around those that are written out.
What it computes is kept in registers where the nest says so, and stored when all of it is there. Reductions along bound
loops are combined across threads (`across_threads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, gpu, linalg, memref
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.grids.across_threads import combine_threads
from tenon.lowering.grids.copies import copy_in, copy_out
from tenon.lowering.grids.matrix_products import MatrixProducts
from tenon.lowering.grids.selection_code import SelectionCode
from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.grids.tile_copies import TileCopies
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.grids.vanishing import vanishes
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.statement import DIVISIONS, element_type
from tenon.lowering.steps.nest import THREADS, Loop, Nest, NestAccess, NestStatement, Space
from tenon.lowering.steps.validity import bound_reductions, chosen_by, in_place, tiled

Held = dict[tuple[object, ...], Registers]
"""What registers hold, by the place of the access that reads or writes it."""


class StatementCode:
    """Writes statements by `code`."""

    def __init__(self, nest: Nest, code: ThreadCode) -> None:
        self.nest = nest
        self.code = code
        self.held: Held = {}
        self.copied: set[tuple[object, ...]] = set()
        """The places whose elements are 0 beyond extents, when they are held."""
        self.tiles: dict[tuple[object, ...], SharedTile] = {}
        for access in tiled(nest):
            tile = nest.tiles[access.buffer]
            stages = nest.loop(tile.at).stages if tile.at is not None else 1
            self.tiles[access.place] = SharedTile(code, access, tile, stages)
        self.copies = TileCopies(code, list(self.tiles.values()))
        self.products: MatrixProducts | None = None
        if nest.contraction is not None:
            left, right = (self.tiles[a.place] for a in (nest.contraction.left, nest.contraction.right))
            self.products = MatrixProducts(code, nest.contraction, left, right)

    def emit_all(self) -> None:
        """All statements, inside of the loops in order that they share."""

        def inside() -> None:
            self.held = {}
            self.copies.copy(self.copies.at(None))
            if not any(tile.at for tile in self.copies.tiles):  # else each loads its own, lest registers are held long
                for statement in self.nest.statements:
                    self._hold_inputs(statement)
            if in_place(self.nest) and self.nest.count(*THREADS) > 1:
                self.code.builder.add(gpu.BarrierOp())  # before threads write what others read
            for statement in self.nest.statements:
                if not all(self.nest.space(output.buffer) is Space.INLINE for output in statement.outputs):
                    self._emit(statement)

        self.code.over(self.nest.shared_in_order(), inside)

    def _open(self, axes: Sequence[str]) -> list[Loop]:
        """The loops along axes that the thread is not inside of."""
        return [loop for loop in self.nest.loops_of(axes) if loop.name not in self.code.positions]

    def _hold_inputs(self, statement: NestStatement) -> None:
        """Load the packed inputs that the loops around the code determine."""
        for access in self._reads(statement):
            if self.nest.space(access.buffer) is not Space.REGISTERS or access.place in self.held:
                continue
            if self.nest.writers(access.buffer) or any(loop.in_order for loop in self._open(access.axes)):
                continue
            tile = self.tiles.get(access.place)
            self.copied.add(access.place)
            if tile is None:
                self.held[access.place] = copy_in(self.code, access)
            elif (at := tile.at) is None or at in self.code.positions:
                self.held[access.place] = tile.fragment()

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

    def _producer(self, access: NestAccess) -> NestStatement:
        return self.nest.statements[self.nest.writers(access.buffer)[0]]

    def _emit(self, statement: NestStatement) -> None:
        loops = self._open(statement.axes)
        outer = [loop for loop in loops if loop.in_order and loop.axis not in statement.reduced]
        inner = [loop for loop in loops if loop.in_order and loop.axis in statement.reduced]
        written_out = [loop for loop in loops if loop.written_out]
        before = self.held
        lasting: Held = {}

        def row() -> None:
            self.held = dict(before)
            self._hold_inputs(statement)
            if statement.reduced:
                self._reduce(statement, inner, written_out, lasting)
            else:
                self._map(statement, written_out, lasting)

        self.copies.over(outer, row)
        self.held = before if outer else before | lasting

    def _map(self, statement: NestStatement, written_out: Sequence[Loop], lasting: Held) -> None:
        """A statement whose iterations all do elements of their own."""
        arrays = [self._array(output) for output in statement.outputs]

        def element() -> None:
            guard = self.code.inside(statement.axes) if self._needs_guard(statement) else None

            def compute() -> None:
                before = [self._before(output, n, statement) for n, output in enumerate(statement.outputs)]
                values = self._body(statement, before)
                for output, array, value in zip(statement.outputs, arrays, values, strict=True):
                    if array is not None:
                        self.code.store(value, array.memref, self.code.register(array))
                    else:
                        self._store(statement, output, value)

            self.code.when(guard, compute)

        self.code.over(written_out, element)
        self._finish(statement, arrays, lasting)

    def _array(self, output: NestAccess) -> Registers | None:
        if self.nest.space(output.buffer) is not Space.REGISTERS:
            return None
        return self.code.registers(element_type(output.access.buffer), self.nest.loops_of(output.axes))

    def _reduce(
        self, statement: NestStatement, inner: Sequence[Loop], written_out: Sequence[Loop], lasting: Held
    ) -> None:
        """A statement that combines: accumulators in registers, from their initial values to what all threads have."""
        generic, across = statement.statement, bound_reductions(self.nest, statement)
        products = self._products_of(statement)
        arrays = [
            self.code.registers(element_type(output.access.buffer), self.nest.loops_of(output.axes))
            if products is None
            else products.sums(element_type(output.access.buffer))
            for output in statement.outputs
        ]
        selection = None
        if across and (chosen := chosen_by(statement)) is not None:
            selection = SelectionCode(self.code, statement, chosen, arrays)
        for number, array in enumerate(arrays):
            monoid = combining_monoid(generic.body, generic.accumulators[number]) if across else None
            start = partial(self._start, statement, number, array, monoid)
            self.code.over(array.loops, start)
        if selection is not None:
            selection.start()

        def step() -> None:
            if products is not None:
                products.add(arrays[0])
                return
            self._hold_inputs(statement)
            self.code.over(written_out, lambda: self._accumulate(statement, arrays, selection))

        outside = self.held
        self.copies.over(inner, step)
        self.held = outside
        if selection is not None:
            selection.finish(across, lambda value: self._value_at(statement, value))
        elif across:
            combine_threads(self.code, statement, arrays, across)
        self._finish(statement, arrays, lasting)

    def _products_of(self, statement: NestStatement) -> MatrixProducts | None:
        contraction = self.nest.contraction
        return self.products if contraction is not None and contraction.statement is statement else None

    def _start(self, statement: NestStatement, number: int, array: Registers, monoid: Monoid | None) -> None:
        """Give an accumulator its first value: what changes nothing, where it is to be combined by `monoid`."""
        output = statement.outputs[number]
        element = element_type(output.access.buffer)

        def put(value: SSAValue) -> None:
            self.code.store(value, array.memref, self.code.register(array))

        if monoid is not None:
            put(self.code.constant(monoid.identity(element), element))
        elif self._goes_on(statement, number):
            put(self.code.zero(element))
            self.code.when(self.code.inside(output.axes), lambda: put(self._before(output, number, statement)))
        else:
            put(self._before(output, number, statement))

    def _goes_on(self, statement: NestStatement, number: int) -> bool:
        """Whether a statement reads an output in memory."""
        generic = statement.statement
        is_kept = statement.outputs[number].place in self.held
        return generic.initial[number] is None and generic.reads_output(number) and not is_kept

    def _accumulate(
        self, statement: NestStatement, arrays: Sequence[Registers], selection: SelectionCode | None
    ) -> None:
        """One iteration of a reduction, which changes nothing beyond extents."""
        guarded = self._needs_guard(statement)
        filled = {place for place in self.held if place in self.copied} | self.tiles.keys()
        # What is beyond extents of other axes is computed in vain, and never stored.
        beyond = [axis for axis in statement.reduced if not vanishes(statement, axis, filled)]
        inside = self.code.inside(statement.axes if guarded else beyond)

        def compute() -> None:
            old = [self.code.load(array.memref, self.code.register(array)) for array in arrays]
            values = self._body(statement, old)
            if selection is not None:
                selection.take(values, None if guarded else inside)
                return
            for array, before, value in zip(arrays, old, values, strict=True):
                if inside is not None and not guarded:
                    value = self.code.value(arith.SelectOp(inside, value, before))
                self.code.store(value, array.memref, self.code.register(array))

        self.code.when(inside if guarded else None, compute)

    def _finish(self, statement: NestStatement, arrays: Sequence[Registers | None], lasting: Held) -> None:
        """Store what is in registers, and keep it for statements that follow."""
        for output, array in zip(statement.outputs, arrays, strict=True):
            if array is None:
                continue
            self.held[output.place] = lasting[output.place] = array
            if output.buffer in self.nest.kernel.function.body.block.args:
                copy_out(self.code, output, array, self._is_owner(output))

    def _is_owner(self, output: NestAccess) -> SSAValue | None:
        """Whether this is the one of the threads that have the same element of an output which stores it."""
        shared = [loop for loop in self.nest.loops if loop.bind is not None and loop.axis not in output.axes]
        return self.code.is_first(shared)

    def _store(self, statement: NestStatement, output: NestAccess, value: SSAValue) -> None:
        """Store an element at once."""
        condition = self.code.all_of((self._is_owner(output), self.code.inside(statement.axes)))
        self.code.when(condition, lambda: self.code.store(value, output.access.buffer, self.code.place(output)))

    # What a body computes

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
            zero = self.code.zero(element_type(access.buffer))
            return self._body(producer, [zero])[0]
        array = self.held.get(access.place)
        if array is not None:
            return self.code.load(array.memref, self.code.register(array))
        tile = self.tiles.get(access.place)
        if tile is not None:
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
            elif access.access.is_used and access.place not in self.held and access.place not in self.tiles:
                return True
        return not statement.reduced and any(self._goes_on(statement, n) for n in range(len(statement.outputs)))

    def _value_at(self, statement: NestStatement, value: SSAValue) -> SSAValue:
        """A value of a body that depends on no operand, where the thread is."""
        known: dict[SSAValue, SSAValue] = {}
        self._compute(statement, known, only=slice_of([value]))
        return known[value]

    def _body(self, statement: NestStatement, before: Sequence[SSAValue]) -> list[SSAValue]:
        """What the body yields where the thread is, `before` being what its outputs hold."""
        generic = statement.statement
        known: dict[SSAValue, SSAValue] = dict(zip(generic.accumulators, before, strict=True))
        for argument, access in zip(generic.body.args, statement.inputs, strict=False):
            if access.access.is_used:
                known[argument] = self._read(access)
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
