"""The statements of a nest as code of one thread, in order.

Each has its loops in order, those along axes that it reduces inside of the others, around those that are written out.
What it computes is kept in registers where the nest says so, and stored when all of it is there. Reductions along bound
loops are combined across threads (`across_threads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from math import prod

from xdsl.dialects import arith, gpu
from xdsl.ir import Operation, SSAValue

from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.lowering.grids.across_threads import combine_threads
from tenon.lowering.grids.body_code import MANY, BodyCode, Held, vanishes
from tenon.lowering.grids.copies import copy_in
from tenon.lowering.grids.exchanged_stores import store_out
from tenon.lowering.grids.matrix_products import MatrixProducts
from tenon.lowering.grids.scan_code import ScanCode
from tenon.lowering.grids.selection_code import SelectionCode
from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.grids.tile_copies import TileCopies
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.grids.warpgroup_products import WarpgroupProducts
from tenon.lowering.kernels.scans import Scan
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, Steps
from tenon.lowering.steps.nest import THREADS, Contraction, Loop, Nest, NestAccess, NestStatement, Space
from tenon.lowering.steps.pieces import is_zero
from tenon.lowering.steps.products import factor_of
from tenon.lowering.steps.scan_loops import ScanLoops, scanned_by
from tenon.lowering.steps.validity import bound_reductions, chosen_by, in_place, is_scanned, tiled


class StatementCode(BodyCode):
    """Writes statements by `code`."""

    def __init__(self, nest: Nest, code: ThreadCode) -> None:
        super().__init__(nest, code)
        self.copied: set[tuple[object, ...]] = set()
        """The places whose elements are 0 beyond extents, when they are held."""
        for access in tiled(nest):
            tile = nest.tiles[access.buffer]
            stages = nest.loop(tile.at).stages if tile.at is not None else 1
            self.tiles[access.place] = SharedTile(code, access, tile, stages)
        self.products = [self._product(contraction) for contraction in nest.contractions]
        groups = [products for products in self.products if isinstance(products, WarpgroupProducts)]
        in_flight = [products for products in groups if not products.is_waited_for]
        self.copies = TileCopies(code, list(self.tiles.values()), next(iter(in_flight), None))

    def _product(self, contraction: Contraction) -> MatrixProducts | WarpgroupProducts:
        left, right = self.tiles.get(contraction.left.place), self.tiles[contraction.right.place]
        kind = WarpgroupProducts if contraction.by_warpgroup else MatrixProducts
        return kind(self.code, contraction, left or partial(self._factor, contraction), right)

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
            self._emit_statements()

        self.copies.divided(lambda: self.code.over(self.nest.shared_in_order(), inside))

    def _emit_statements(self) -> None:
        """All statements where the loops around all of them are."""
        self._emit_each(self.nest.statements)

    def _emit_each(self, statements: Sequence[NestStatement]) -> None:
        """Statements in order, but for those that are computed where they are read; those of the same axes whose
        results are stored by vectors in the same loops share these."""
        emitted = [s for s in statements if not all(self.nest.space(o.buffer) is Space.INLINE for o in s.outputs)]
        around = [self._stored_by_vectors(statement) for statement in emitted]
        kinds = [(s.axes if loops else n, loops) for n, (s, loops) in enumerate(zip(emitted, around, strict=True))]
        for (_, loops), group in groupby(zip(kinds, emitted, strict=True), lambda pair: pair[0]):
            self._emit([statement for _, statement in group], loops)

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

    def _emit(self, statements: Sequence[NestStatement], around: Sequence[Loop] = ()) -> None:
        """A statement, or several of the same axes whose results are stored by vectors in the loops `around` these."""
        statement = statements[0]
        loops = self._open(statement.axes)
        outer = [loop for loop in loops if loop.in_order and loop.axis not in statement.reduced]
        turns = [loop for loop in loops if loop.rotated and not statement.reduced]
        inner = [loop for loop in loops if loop.in_order and loop.axis in statement.reduced]
        written_out = [loop for loop in loops if loop.written_out]
        before = self.held
        lasting: Held = {}

        def row() -> None:
            self.held = dict(before)
            if not around:
                self._hold_inputs(statement)
            if any(map(self._overwrites, statements)):
                self.code.builder.add(gpu.BarrierOp())
            if is_scanned(statement):
                self._scan(statement, inner, lasting)
            elif statement.reduced:
                self._reduce(statement, inner, written_out, lasting)
            elif around:
                self._map_by_vectors(statements, around, written_out)
            else:
                self._map(statement, written_out, lasting)

        self.copies.over(outer, lambda: self._in_turns(turns, row))
        self.held = before if outer else before | lasting

    def _overwrites(self, statement: NestStatement) -> bool:
        """Whether a thread may write what others that have the same elements, as those that reduce together, have just
        read: it is loaded here, behind the barrier in front of all statements, where operands are copied in pieces."""
        if not any(tile.at for tile in self.copies.tiles):
            return False
        shared = {buffer for pair in in_place(self.nest) for buffer in pair}
        written = [output for output in statement.outputs if output.buffer in shared]
        return any(loop.extent > 1 for output in written for loop in self.nest.others(output.axes))

    def _in_turns(self, turns: Sequence[Loop], row: Callable[[], None]) -> None:
        """`row` for each iteration of a loop that takes turns: it finds its sums where those of the first one are."""
        if not turns:
            row()
            return
        sums = next(array for array in self.held.values() if any(loop.rotated for loop in array.loops))

        def turn(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            with self.code.at({turns[0].name: at}):
                row()
            self.code.over([loop for loop in sums.loops if not loop.rotated], lambda: self._move_down(sums))
            return ()

        self.code.builder.sequential(Steps(0, turns[0].extent), (), turn)

    def _move_down(self, sums: Registers) -> None:
        """Move the sums of the loop that takes turns down by one iteration, where the thread is along the others."""
        places = self.code.register(sums)
        (number,) = [n for n, loop in enumerate(sums.loops) if loop.rotated]
        for to in range(sums.loops[number].extent - 1):
            of, at = (
                [*places[:number], self.code.builder.index_constant(to + n), *places[number + 1 :]] for n in (1, 0)
            )
            self.code.store(self.code.load(sums.memref, of), sums.memref, at)

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
                    elif self.nest.space(output.buffer) is not Space.INLINE:
                        self._store(statement, output, value)

            self.code.when(guard, compute)

        def lanes() -> None:
            with self.code.at({vectors[0].name: Position()}):
                guard = self.code.inside(statement.axes)
            self.code.when(guard, vector)

        def vector() -> None:
            self._load_lanes(statement, vectors[0])
            self.code.over(vectors[:1], element)
            self.lanes = {}

        vectors = [loop for loop in written_out if loop.vector and loop.axis in statement.axes]
        if not vectors or not self._lane_loads(statement, vectors[0]):
            self.code.over(written_out, element)
        else:
            self.code.over([loop for loop in written_out if loop is not vectors[0]], lanes)
        self._finish(statement.outputs, arrays, lasting)

    def _map_by_vectors(
        self, statements: Sequence[NestStatement], around: Sequence[Loop], written_out: Sequence[Loop]
    ) -> None:
        """Statements whose results are stored by vectors: operands are loaded for so many of them as registers hold, so
        that loads are under way together."""
        vector = [loop for loop in written_out if loop not in around]
        first = next(n for n in range(len(around) + 1) if prod(loop.extent for loop in (*around[n:], *vector)) <= MANY)

        def some() -> None:
            held = dict(self.held)
            for statement in statements:
                self._hold_inputs(statement)
            self.code.over(around[first:], each)
            self.held = held

        def each() -> None:
            for statement in statements:
                self._map(statement, vector, {})

        self.code.over(around[:first], some)

    def accumulators(self, statement: NestStatement, output: NestAccess) -> Registers:
        """Registers in which a statement that combines has its results: those of a product as its instruction wants."""
        element, products = element_type(output.access.buffer), self.products_of(statement)
        if products is not None:
            return products.sums(element)
        return self.code.registers(element, self.nest.loops_of(output.axes))

    def _reduce(
        self, statement: NestStatement, inner: Sequence[Loop], written_out: Sequence[Loop], lasting: Held
    ) -> None:
        """A statement that combines: accumulators in registers, from their initial values to what all threads have."""
        generic, across = statement.statement, bound_reductions(self.nest, statement)
        products = self.products_of(statement)
        if isinstance(products, WarpgroupProducts) and products.is_waited_for:
            self._multiply([statement], lasting)
            return
        arrays = [self.accumulators(statement, output) for output in statement.outputs]
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
        self._finish(statement.outputs, [replace(array, in_turns=True) for array in arrays], lasting)

    def _multiply(self, statements: Sequence[NestStatement], lasting: Held) -> None:
        """Products of warpgroups that are waited for here, as one group."""
        arrays = [self.accumulators(statement, statement.outputs[0]) for statement in statements]
        groups = [p for p in map(self.products_of, statements) if isinstance(p, WarpgroupProducts)]
        anew = [
            p.is_of_memory and len(s.reduced) == 1 and is_zero(s.statement.initial[0])
            for p, s in zip(groups, statements, strict=True)
        ]
        for statement, array, is_new in zip(statements, arrays, anew, strict=True):
            if not is_new:
                self.code.over(array.loops, partial(self._start, statement, 0, array, None))

        def begin() -> None:
            for statement, products, array, is_new in zip(statements, groups, arrays, anew, strict=True):
                inner = [loop for loop in self._open(statement.reduced) if loop.in_order]
                self.copies.over(inner, partial(products.add, array, anew=is_new))

        groups[0].in_turn(begin)
        for statement, array in zip(statements, arrays, strict=True):
            self._finish(statement.outputs, [replace(array, in_turns=True)], lasting)

    def _scan(self, statement: NestStatement, inner: Sequence[Loop], lasting: Held) -> None:
        """A statement that keeps every step of what it combines: states in registers, and results as they come."""
        scan, loops = scanned_by(statement), ScanLoops.of(self.nest, statement.reduced[0])
        assert scan is not None
        assert isinstance(loops, ScanLoops)
        states = [statement.outputs[n] for n in scan.states]
        carried = [self.code.registers(element_type(s.access.buffer), self.nest.loops_of(s.axes)) for s in states]
        for number, array in zip(scan.states, carried, strict=True):
            self.code.over(array.loops, partial(self._start, statement, number, array, None))
        outputs = [statement.outputs[n] for n in scan.results]

        def chunk() -> None:
            self._hold_inputs(statement)
            arrays = [self._array(output) for output in outputs]

            def store(values: Sequence[SSAValue]) -> None:
                for number, output, array in zip(scan.results, outputs, arrays, strict=True):
                    if array is not None:
                        self.code.store(values[number], array.memref, self.code.register(array))
                    else:
                        self._store(statement, output, values[number])

            writer.chunk(store)
            self._finish(outputs, arrays, {} if inner else lasting)

        read = {a.buffer for s in self.nest.statements if s is not statement for a in s.inputs if a.access.is_used}
        arguments = self.nest.kernel.function.body.block.args
        ends = any(state.buffer in read or state.buffer in arguments for state in states)
        values, step = partial(self._elements, statement, scan.elements), partial(self._step, statement, scan)
        writer = ScanCode(self.code, statement, scan, loops, carried, values, step, self._needs_guard(statement), ends)
        outside = self.held
        self.copies.over(inner, chunk)
        self.held = outside
        self._finish(states, carried, lasting)

    def _step(self, statement: NestStatement, scan: Scan, states: Sequence[SSAValue]) -> list[SSAValue]:
        before = dict(zip(scan.states, states, strict=True))
        outputs = enumerate(statement.outputs)
        zeros = [before.get(n) or self.code.zero(element_type(output.access.buffer)) for n, output in outputs]
        return self._body(statement, zeros)

    def products_of(self, statement: NestStatement) -> MatrixProducts | WarpgroupProducts | None:
        return next((known for known in self.products if known.contraction.statement is statement), None)

    def _factor(self, contraction: Contraction) -> SSAValue:
        """What a product multiplies of its left operand where the thread is; 0 beyond extents."""
        statement = contraction.statement
        factor = factor_of(statement, contraction.left)
        value = self._read(contraction.left)
        if isinstance(factor.owner, Operation):
            value = self.code.builder.add(factor.owner.clone({factor.owner.operands[0]: value})).results[0]
        inside = self.code.inside([contraction.depth.axis])
        return value if inside is None else self.code.value(arith.SelectOp(inside, value, self.code.zero(value.type)))

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

    def _accumulate(
        self, statement: NestStatement, arrays: Sequence[Registers], selection: SelectionCode | None
    ) -> None:
        """One iteration of a reduction, which changes nothing beyond extents."""
        guarded = self._needs_guard(statement)
        filled = {place for place in self.held if place in self.copied} | self.whole_tiles
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

    def _finish(self, outputs: Sequence[NestAccess], arrays: Sequence[Registers | None], lasting: Held) -> None:
        """Store what is in registers, and keep it for statements that follow."""
        for output, array in zip(outputs, arrays, strict=True):
            if array is None:
                continue
            self.held[output.place] = lasting[output.place] = array
            if output.buffer in self.nest.kernel.function.body.block.args:
                store_out(self.code, output, array, self._is_owner(output))

    def _is_owner(self, output: NestAccess) -> SSAValue | None:
        """Whether this is the one of the threads that have the same element of an output which stores it."""
        return self.code.is_first(self.nest.others(output.axes))

    def _store(self, statement: NestStatement, output: NestAccess, value: SSAValue) -> None:
        """Store an element at once."""
        condition = self.code.all_of((self._is_owner(output), self.code.inside(statement.axes)))
        self.code.when(condition, lambda: self.code.store(value, output.access.buffer, self.code.place(output)))
