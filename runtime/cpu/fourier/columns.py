"""Discrete Fourier transforms of columns of numbers as native code: of as many side by side as a vector has lanes.

A transform takes a factor at a time (T. Stockham, "High-speed convolution and correlation", 1966).

    i1 tenon_dft_columns(arrays, rows, n, columns, factors, mode)

has the arrays of `x` (rows, n, columns, parts), of the roots of the factors, four bits each (`column_plan_of` in
`dialects/ops/contract/fourier_plan.py`), and of the result. It says whether it is done: it is not where there is no
memory to work in.
"""

from __future__ import annotations

from tenon.dialects.ops.contract.fourier_plan import INVERSE, RADICES, REAL, side_by_side
from tenon.runtime.cpu.fourier.butterflies import Butterflies, Complex
from tenon.runtime.cpu.ir_types import I1, I64, PTR, VOID, Struct, pointer
from tenon.runtime.cpu.ir_values import Function, Operand, Value
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR

TASKS = 64
"""Parts of the work, one for a thread at a time."""
LONG = 1 << 14
"""Of how many numbers on threads share it."""


class Columns(Butterflies):
    """The function for floats of so many bits."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits, side_by_side(bits // 8))
        self._allocate, self.release = self.external("malloc", PTR, I64), self.external("free", VOID, PTR)
        self._stages = {(r, is_last): self._stage(r, is_last) for r in RADICES for is_last in (False, True)}
        self._columns = self._transform_columns()
        self._all_columns()

    # --- memory

    def room(self, size: Value) -> Value:
        """Memory of so many bytes behind where it is `aligned`; null where there is none."""
        return self._allocate(size + self.lanes.size)

    def aligned(self, memory: Value) -> Value:
        """The first place in it for vectors."""
        return ((memory.to(I64) + (self.lanes.size - 1)) & -self.lanes.size).to(self.vectors)

    def _blocks(self, size: Value) -> Value:
        return (size + (self.count - 1)) // self.count

    def _start(self, block: Value, end: Value) -> Value:
        """Where a block of as many as lanes begins; the last one ends at the end, and may begin inside of the one
        before."""
        start, last = block * self.count, end - self.count
        return self.select(start < last, start, last)

    # --- columns side by side

    def _stage(self, r: int, is_last: bool) -> Function:
        """Transform along the first axis of (r, m, s), and turn what follows by `roots` (m, r - 1); to (m, r, s)."""

        def stage(source: Value, target: Value, m: Value, s: Value, roots: Value) -> None:
            with self.each(m) as j:
                factors: list[Complex] = []
                for k in range(0 if is_last else r - 1):
                    place = (j * (r - 1) + k) * 2
                    factors.append((self.filled(roots[place]), self.filled(roots[place + 1])))
                with self.each(s) as q:
                    given: list[Complex] = []
                    for k in range(r):
                        place = ((m * k + j) * s + q) * 2
                        given.append((source[place], source[place + 1]))
                    for k, value in enumerate(self.transformed(given)):
                        turned = self.product(value, factors[k - 1]) if k and factors else value
                        self._put(target, (j * r + k) * s + q, turned)

        stage.__name__ = f"stage_{r}{'_last' * is_last}"
        kinds = {"source": self.vectors, "target": self.vectors, "m": I64, "s": I64, "roots": self.elements}
        return self.function(VOID, "noinline", **kinds)(stage)

    def _put(self, target: Value, place: Value, x: Complex) -> None:
        """Put complex numbers side by side at a place among such."""
        target[place * 2] = x[0]
        target[place * 2 + 1] = x[1]

    def _transform_columns(self) -> Function:
        """Transform n numbers, between two places; at which of them the result is."""

        @self.function(self.vectors, one=self.vectors, other=self.vectors, n=I64, factors=I64, roots=self.elements)
        def columns(one: Value, other: Value, n: Value, factors: Value, roots: Value) -> Operand:
            source, target = self.local(self.vectors, one), self.local(self.vectors, other)
            left, rest, s, at = (self.local(I64, number) for number in (factors, n, 1, 0))
            with self.loop():
                self.break_if(left == 0)
                r = left & 15
                m = rest // r
                given, taken = source.address.load(), target.address.load()
                passed = given, taken, m, s.address.load(), roots.at(at)
                with self.switch(r) as case:
                    for radix in RADICES:
                        with case(radix):
                            with self.if_(m == 1):
                                self._stages[radix, True](*passed)
                            with self.else_():
                                self._stages[radix, False](*passed)
                at.set(at + m * (r - 1) * 2)
                rest.set(m)
                s.set(s * r)
                left.set(left >> 4)
                source.set(taken)
                target.set(given)
            return source.address.load()

        return columns

    # --- all columns

    def _all_columns(self) -> None:
        names = ("rows", "n", "columns", "factors", "mode")
        task = Struct(x=self.elements, roots=self.elements, y=self.elements, failed=I64, **dict.fromkeys(names, I64))
        block_of = self._transform_block(task)
        parallel_for = self.external(PARALLEL_FOR, VOID, PTR, PTR, I64)

        @self.function(VOID, context=pointer(task), start=I64, end=I64)
        def some_blocks(context: Value, start: Value, end: Value) -> None:
            self.return_if(start == end)
            memory = self.room(context.n * (4 * self.lanes.size))
            with self.if_(memory.is_null):
                context.put(failed=1)
                self.return_()
            blocks = self._blocks(context.columns)
            with self.each(end, start) as i:
                block_of(context, i // blocks, self._start(i % blocks, context.columns), self.aligned(memory))
            self.release(memory)

        @self.function(VOID, context=pointer(task), number=I64)
        def part_of_blocks(context: Value, number: Value) -> None:
            count = context.rows * self._blocks(context.columns)
            some_blocks(context, count * number // TASKS, count * (number + 1) // TASKS)

        @self.function(I1, arrays=pointer(PTR), **dict.fromkeys(names, I64))
        def tenon_dft_columns(arrays: Value, **given: Value) -> Operand:
            context = self.record(task)
            x, roots, y = [arrays[i].to(self.elements) for i in range(3)]
            context.put(x=x, roots=roots, y=y, failed=0, **given)
            count = given["rows"] * self._blocks(given["columns"])
            with self.if_((count > 1) & (given["rows"] * given["n"] * given["columns"] >= LONG)):
                parallel_for(part_of_blocks.address, context, TASKS)
            with self.else_():
                some_blocks(context, 0, count)
            return context.failed == 0

    def _transform_block(self, task: Struct) -> Function:
        """Transform as many columns as lanes, from `column` of a row on."""

        @self.function(VOID, "noinline", context=pointer(task), row=I64, column=I64, room=self.vectors)
        def block_of(context: Value, row: Value, column: Value, room: Value) -> None:
            n, columns, mode = context.n, context.columns, context.mode
            place = row * n * columns + column
            with self.each(n) as j:
                with self.if_(mode == REAL):
                    real = self.load(context.x.at(place + j * columns))
                    self._put(room, j, (real, self.number(self.lanes, 0.0)))
                with self.else_():
                    self._put(room, j, self.pairs(context.x.at((place + j * columns) * 2)))
            with self.if_(mode == INVERSE), self.each(n) as j:
                self._put(room, j, (room[j * 2 + 1], room[j * 2]))
            done = self._columns(room, room.at(n * 2), n, context.factors, context.roots)
            with self.if_(mode == INVERSE):
                scale = self.filled(self.number(self.element, 1.0) / n.to(self.element))
                with self.each(n) as j:
                    self._put(done, j, (self.times(done[j * 2 + 1], scale), self.times(done[j * 2], scale)))
            with self.each(n) as j:
                self.store_pairs(context.y.at((place + j * columns) * 2), (done[j * 2], done[j * 2 + 1]))

        return block_of
