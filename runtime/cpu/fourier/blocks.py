"""Discrete Fourier transforms side by side as native code: of as many columns, or short rows, as a vector has lanes.

    i1 tenon_dft_columns(arrays, rows, n, columns, factors, factor_roots, mode)

has the arrays of `x` (rows, n, columns, parts), or (rows, n, parts) where `columns` is 0, of the roots that a
`ColumnPlan` says (`dialects/ops/contract/fourier_plan.py`), and of the result. It says whether it is done: it is not
where there is no memory to work in. Rows are turned where they are read and written, so that all arithmetic is that of
whole vectors. Inverse transforms are those with real and imaginary parts exchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from tenon.dialects.ops.contract.fourier_plan import HALF, INVERSE, INVERSE_HALF, REAL
from tenon.runtime.cpu.fourier.butterflies import Complex
from tenon.runtime.cpu.fourier.columns import Columns
from tenon.runtime.cpu.ir_types import I1, I64, PTR, VOID, Struct, pointer
from tenon.runtime.cpu.ir_values import Function, Operand, Value, transposed
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR

TASKS = 64
"""Parts of the work, one for a thread at a time."""
LONG = 1 << 14
"""Of how many numbers on threads share it."""


class Blocks(Columns):
    """The function for floats of so many bits."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        arrays = dict.fromkeys(("x", "roots", "halves", "y"), self.elements)
        numbers = ("rows", "n", "columns", "factors", "mode", "given", "found", "failed")
        self._task = Struct(**arrays, **dict.fromkeys(numbers, I64))
        self._before_lanes, self._after_lanes = self._unhalve_lanes(), self._halve_lanes()
        self._lanes = self._transform_lanes()
        self._all_blocks()

    # --- numbers in lanes

    def _mirrored_lanes(self, context: Value, x: Value, k: Value) -> tuple[Complex, Complex, Complex]:
        """The numbers at `k`, the conjugates of those at n - `k`, and the root at `k`."""
        n, halves = context.n, context.halves
        back = x[(n - k) * 2], self.times(x[(n - k) * 2 + 1], -1.0)
        return (x[k * 2], x[k * 2 + 1]), back, (self.filled(halves[k]), self.filled(halves[n + 1 + k]))

    def _halve_lanes(self) -> Function:
        """From the transform `z` of pairs of real numbers, which are those at even and at odd places, to theirs."""

        @self.function(VOID, "noinline", context=pointer(self._task), z=self.vectors, y=self.vectors)
        def after_lanes(context: Value, z: Value, y: Value) -> None:
            n, zero = context.n, self.number(self.lanes, 0.0)
            self._put(y, self.number(I64, 0), (self.plus(z[0], z[1]), zero))
            self._put(y, n, (self.minus(z[0], z[1]), zero))
            with self.each(n, 1) as k:
                one, other, root = self._mirrored_lanes(context, z, k)
                self._put(y, k, self.after(one, other, root))

        return after_lanes

    def _unhalve_lanes(self) -> Function:
        """The way back, to the `z` whose inverse transform are the real numbers, with exchanged parts."""

        @self.function(VOID, "noinline", context=pointer(self._task), x=self.vectors, z=self.vectors)
        def before_lanes(context: Value, x: Value, z: Value) -> None:
            n = context.n
            real, imaginary = self.plus(x[0], x[n * 2]), self.minus(x[0], x[n * 2])
            self._put(z, self.number(I64, 0), (self.times(imaginary, 0.5), self.times(real, 0.5)))
            with self.each(n, 1) as k:
                real, imaginary = self.before(*self._mirrored_lanes(context, x, k))
                self._put(z, k, (imaginary, real))

        return before_lanes

    def _transform_lanes(self) -> Function:
        """Transform the numbers in `room`; where the result is."""

        @self.function(self.vectors, context=pointer(self._task), room=self.vectors)
        def lanes(context: Value, room: Value) -> Operand:
            n, mode, behind = context.n, context.mode, room.at((context.n + 1) * 2)
            is_back = mode == INVERSE_HALF
            with self.if_(is_back):
                self._before_lanes(context, room, behind)
            one, other = self.select(is_back, behind, room), self.select(is_back, room, behind)
            done = self._columns(one, other, n, context.factors, context.roots)
            with self.if_(mode == HALF):
                free = self.select(done == room, behind, room)
                self._after_lanes(context, done, free)
                self.return_(free)
            return done

        return lanes

    def _results(self, context: Value, done: Value) -> Callable[[Value], Complex]:
        """What gives the number at a place of the result."""
        is_back = (context.mode == INVERSE) | (context.mode == INVERSE_HALF)
        first = is_back.to(I64)
        one = self.number(self.element, 1.0)
        scale = self.filled(self.select(is_back, one / context.n.to(self.element), one))
        return lambda k: (self.times(done[k * 2 + first], scale), self.times(done[k * 2 + 1 - first], scale))

    # --- columns

    def _transform_columns_of(self) -> Function:
        """Transform a block of columns; blocks are counted in one matrix after the other."""

        @self.function(VOID, "noinline", context=pointer(self._task), number=I64, room=self.vectors)
        def block_of_columns(context: Value, number: Value, room: Value) -> None:
            columns, mode, x, y = context.columns, context.mode, context.x, context.y
            blocks, first = self._blocks(columns), (mode == INVERSE).to(I64)
            row, column = number // blocks, self._start(number % blocks, columns)
            zero = self.number(self.lanes, 0.0)

            def put(j: Value, given: Complex) -> None:
                room[j * 2 + first], room[j * 2 + 1 - first] = given

            with self.each(context.given) as j:
                place = (row * context.given + j) * columns
                with self.if_(mode == REAL):
                    put(j, (self.load(x.at(place + column)), zero))
                with self.else_():
                    with self.if_(mode == HALF):
                        even = x.at(place * 2 + column)
                        put(j, (self.load(even), self.load(even.at(columns))))
                    with self.else_():
                        put(j, self.pairs(x.at((place + column) * 2)))
            result = self._results(context, self._lanes(context, room))
            with self.each(context.found) as k:
                place, found = (row * context.found + k) * columns, result(k)
                with self.if_(mode == INVERSE_HALF):
                    even = y.at(place * 2 + column)
                    even.store_vector(found[0])
                    even.at(columns).store_vector(found[1])
                with self.else_():
                    self.store_pairs(y.at((place + column) * 2), found)

        return block_of_columns

    # --- rows

    def _transform_rows_of(self) -> Function:
        """Transform a block of rows."""

        @self.function(VOID, "noinline", context=pointer(self._task), number=I64, room=self.vectors)
        def block_of_rows(context: Value, number: Value, room: Value) -> None:
            mode, given, found, x, y = context.mode, context.given, context.found, context.x, context.y
            row, first, lanes = self._start(number, context.rows), (mode == INVERSE).to(I64), range(self.count)
            with self.each(self._blocks(given)) as block:
                start = self._start(block, given)
                with self.if_(mode == REAL):
                    rows = [self.load(x.at((row + i) * given + start)) for i in lanes]
                    for i, turned in enumerate(transposed(rows)):
                        self._put(room, start + i, (turned, self.number(self.lanes, 0.0)))
                with self.else_():
                    pairs = [self.pairs(x.at(((row + i) * given + start) * 2)) for i in lanes]
                    for part, place in enumerate((first, self.number(I64, 1) - first)):
                        for i, turned in enumerate(transposed([pair[part] for pair in pairs])):
                            room[(start + i) * 2 + place] = turned
            result = self._results(context, self._lanes(context, room))
            with self.each(self._blocks(found)) as block:
                start = self._start(block, found)
                numbers = [result(start + i) for i in lanes]
                real, imaginary = (transposed([number[part] for number in numbers]) for part in range(2))
                for i, pair in enumerate(zip(real, imaginary, strict=True)):
                    self.store_pairs(y.at(((row + i) * found + start) * 2), pair)

        return block_of_rows

    # --- all of them

    def _all_blocks(self) -> None:
        some_blocks, context_of = self._some_blocks(), pointer(self._task)
        parallel_for = self.external(PARALLEL_FOR, VOID, PTR, PTR, I64)

        def count_of(context: Value) -> Value:
            columns = context.rows * self._blocks(context.columns)
            return self.select(context.columns == 0, self._blocks(context.rows), columns)

        @self.function(VOID, context=context_of, number=I64)
        def part_of_blocks(context: Value, number: Value) -> None:
            count = count_of(context)
            some_blocks(context, count * number // TASKS, count * (number + 1) // TASKS)

        names = ("rows", "n", "columns", "factors", "factor_roots", "mode")

        @self.function(I1, arrays=pointer(PTR), **dict.fromkeys(names, I64))
        def tenon_dft_columns(arrays: Value, factor_roots: Value, **numbers: Value) -> Operand:
            context = self.record(self._task)
            x, roots, y = [arrays[i].to(self.elements) for i in range(3)]
            n, mode, columns = numbers["n"], numbers["mode"], numbers["columns"]
            given, found = (self.select(mode == kind, n + 1, n) for kind in (INVERSE_HALF, HALF))
            halves = roots.at(factor_roots)
            context.put(x=x, roots=roots, halves=halves, y=y, given=given, found=found, failed=0, **numbers)
            count, side_by_side = count_of(context), self.select(columns == 0, self.number(I64, 1), columns)
            with self.if_((count > 1) & (numbers["rows"] * n * side_by_side >= LONG)):
                parallel_for(part_of_blocks.address, context, TASKS)
            with self.else_():
                some_blocks(context, 0, count)
            return context.failed == 0

    def _some_blocks(self) -> Function:
        of_columns, of_rows = self._transform_columns_of(), self._transform_rows_of()

        @self.function(VOID, context=pointer(self._task), start=I64, end=I64)
        def some_blocks(context: Value, start: Value, end: Value) -> None:
            self.return_if(start == end)
            memory = self.room((context.n + 1) * (4 * self.lanes.size))
            with self.if_(memory.is_null):
                context.put(failed=1)
                self.return_()
            room = self.aligned(memory)
            with self.each(end, start) as i:
                with self.if_(context.columns == 0):
                    of_rows(context, i, room)
                with self.else_():
                    of_columns(context, i, room)
            self.release(memory)

        return some_blocks
