"""Discrete Fourier transforms of rows of numbers as native code.

A row of n = n1 n2 numbers is a matrix (n1, n2) whose columns are transformed, multiplied by roots of unity, and whose
rows are transformed then (the four steps of D. Bailey, "FFTs in external or hierarchical memory", 1990). As many
columns as a vector has lanes are transformed side by side, and so are as many rows, which are turned where they are
read: all arithmetic is that of whole vectors, in memory that stays in the caches. Columns take a factor at a time (T.
Stockham, "High-speed convolution and correlation", 1966).

    i1 tenon_dft(arrays, rows, n, n1, first, second, first_roots, second_roots, mode)

has the arrays of `x`, of the roots that a `Plan` says (`dialects/ops/contract/fourier_plan.py`, where the other sizes
are explained, too), and of the result. It says whether it is done: it is not where there is no memory to work in.
Inverse transforms are those with real and imaginary parts exchanged; the roots divide them by n.
"""

from __future__ import annotations

from tenon.dialects.ops.contract.fourier_plan import HALF, INVERSE, INVERSE_HALF, REAL
from tenon.runtime.cpu.fourier.blocks import LONG, TASKS, Blocks
from tenon.runtime.cpu.fourier.butterflies import Complex
from tenon.runtime.cpu.ir_types import I1, I64, PTR, VOID, Struct, Type, pointer
from tenon.runtime.cpu.ir_values import Function, Operand, Value, transposed
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR


class Transforms(Blocks):
    """The functions for floats of so many bits."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self._context = Struct(
            x=self.elements,
            roots=self.elements,
            y=self.elements,
            halves=self.elements,
            second_roots=self.elements,
            **dict.fromkeys(("rows", "n", "n1", "n2", "first", "second", "mode", "failed"), I64),
        )
        self._first_half, self._second_half = self._transform_first(), self._transform_second()
        self._to_halves, self._from_halves = self._halve(), self._unhalve()
        self._rows()

    # --- a row

    @property
    def _row_kinds(self) -> dict[str, Type]:
        context = pointer(self._context)
        return {"context": context, "x": self.elements, "room": self.vectors, "planes": self.elements}

    def _transform_first(self) -> Function:
        """Transform the columns of a row `x`, and turn them, to `planes` (2, n1, n2)."""

        def first(context: Value, x: Value, room: Value, planes: Value, exchanged: Value, is_real: Value) -> None:
            n, n1, n2, roots = context.n, context.n1, context.n2, context.roots
            with self.each(self._blocks(n2)) as block:
                column = self._start(block, n2)
                with self.each(n1) as j:
                    with self.if_(is_real):
                        self._put(room, j, (self.load(x.at(j * n2 + column)), self.number(self.lanes, 0.0)))
                    with self.else_():
                        self._put(room, j, self.pairs(x.at((j * n2 + column) * 2)))
                with self.if_(exchanged), self.each(n1) as j:
                    self._put(room, j, (room[j * 2 + 1], room[j * 2]))
                done = self._columns(room, room.at(self._most(n1, n2) * 2), n1, context.first, roots.at(n * 2))
                with self.each(n1) as k:
                    place = k * n2 + column
                    root = self.load(roots.at(place)), self.load(roots.at(place + n))
                    real, imaginary = self.product((done[k * 2], done[k * 2 + 1]), root)
                    planes.at(place).store_vector(real)
                    planes.at(place + n).store_vector(imaginary)

        kinds = {**self._row_kinds, "exchanged": I1, "is_real": I1}
        return self.function(VOID, "noinline", **kinds)(first)

    def _transform_second(self) -> Function:
        """Transform the rows of `planes` (2, n1, n2) to the row `y` of pairs."""

        def second(context: Value, y: Value, room: Value, planes: Value, exchanged: Value) -> None:
            n, n1, n2 = context.n, context.n1, context.n2
            with self.each(self._blocks(n1)) as block:
                row = self._start(block, n1)
                for part, plane in enumerate((planes, planes.at(n))):
                    with self.each(self._blocks(n2)) as inner:
                        column = self._start(inner, n2)
                        rows = [self.load(plane.at((row + i) * n2 + column)) for i in range(self.count)]
                        for i, turned in enumerate(transposed(rows)):
                            room[(column + i) * 2 + part] = turned
                other = room.at(self._most(n1, n2) * 2)
                done = self._columns(room, other, n2, context.second, context.second_roots)
                with self.if_(exchanged), self.each(n2) as j:
                    self._put(done, j, (done[j * 2 + 1], done[j * 2]))
                with self.each(n2) as j:
                    self.store_pairs(y.at((j * n1 + row) * 2), (done[j * 2], done[j * 2 + 1]))

        kinds = {**self._row_kinds, "exchanged": I1}
        kinds = {("y" if name == "x" else name): kind for name, kind in kinds.items()}
        return self.function(VOID, "noinline", **kinds)(second)

    def _most(self, one: Value, other: Value) -> Value:
        return self.select(one < other, other, one)

    # --- real numbers, which are pairs of a transform of half the length

    def _mirrored(self, x: Value, n: Value, k: Value) -> tuple[Complex, Complex]:
        """The numbers of `x`, which are pairs, from `k` on, and the conjugates of those from `n` - `k` on backwards."""
        there = self.pairs(x.at((n - k - (self.count - 1)) * 2))
        back = range(self.count - 1, -1, -1)
        real, imaginary = (part.shuffled(back) for part in there)
        return self.pairs(x.at(k * 2)), (real, self.times(imaginary, -1.0))

    def _roots_at(self, context: Value, k: Value) -> Complex:
        return self.load(context.halves.at(k)), self.load(context.halves.at(context.n + 1 + k))

    def _halve(self) -> Function:
        """From the transform `z` of pairs of real numbers, which are those at even and at odd places, to theirs."""

        @self.function(VOID, "noinline", context=pointer(self._context), z=self.elements, y=self.elements)
        def halve(context: Value, z: Value, y: Value) -> None:
            n = context.n
            y[0] = z[0] + z[1]
            y[1] = 0.0
            y[n * 2] = z[0] - z[1]
            y[n * 2 + 1] = 0.0
            with self.each(self._blocks(n - 1)) as block:
                k = self._start(block, n - 1) + 1
                self.store_pairs(y.at(k * 2), self.after(*self._mirrored(z, n, k), self._roots_at(context, k)))

        return halve

    def _unhalve(self) -> Function:
        """The way back, to the `z` whose inverse transform are the real numbers."""

        @self.function(VOID, "noinline", context=pointer(self._context), x=self.elements, z=self.elements)
        def unhalve(context: Value, x: Value, z: Value) -> None:
            n = context.n
            z[0] = (x[0] + x[n * 2]) * 0.5
            z[1] = (x[0] - x[n * 2]) * 0.5
            with self.each(self._blocks(n - 1)) as block:
                k = self._start(block, n - 1) + 1
                self.store_pairs(z.at(k * 2), self.before(*self._mirrored(x, n, k), self._roots_at(context, k)))

        return unhalve

    # --- all rows

    def _some_rows(self) -> Function:
        @self.function(VOID, context=pointer(self._context), start=I64, end=I64)
        def some(context: Value, start: Value, end: Value) -> None:
            self.return_if(start == end)
            n, mode = context.n, context.mode
            vectors = self._most(context.n1, context.n2) * 4
            memory = self.room(vectors * self.lanes.size + n * (4 * self.element.size))
            with self.if_(memory.is_null):
                context.put(failed=1)
                self.return_()
            room = self.aligned(memory)
            planes = room.at(vectors).to(self.elements)
            pairs = planes.at(n * 2)
            exchanged = (mode == INVERSE) | (mode == INVERSE_HALF)
            with self.each(end, start) as i:
                x = self.local(self.elements, context.x.at(i * n * self.select(mode == REAL, self.number(I64, 1), 2)))
                y = context.y.at(i * n * 2)
                with self.if_(mode == INVERSE_HALF):
                    self._from_halves(context, context.x.at(i * (n + 1) * 2), pairs)
                    x.set(pairs)
                self._first_half(context, x, room, planes, exchanged, mode == REAL)
                with self.if_(mode == HALF):
                    self._second_half(context, pairs, room, planes, exchanged)
                    self._to_halves(context, pairs, context.y.at(i * (n + 1) * 2))
                with self.else_():
                    self._second_half(context, y, room, planes, exchanged)
            self.release(memory)

        return some

    def _rows(self) -> None:
        some = self._some_rows()
        parallel_for = self.external(PARALLEL_FOR, VOID, PTR, PTR, I64)

        @self.function(VOID, context=pointer(self._context), number=I64)
        def part(context: Value, number: Value) -> None:
            some(context, context.rows * number // TASKS, context.rows * (number + 1) // TASKS)

        sizes = ("rows", "n", "n1", "first", "second", "first_roots", "second_roots", "mode")

        @self.function(I1, arrays=pointer(PTR), **dict.fromkeys(sizes, I64))
        def tenon_dft(arrays: Value, first_roots: Value, second_roots: Value, **given: Value) -> Operand:
            context = self.record(self._context)
            x, roots, y = [arrays[i].to(self.elements) for i in range(3)]
            rows, n, n1 = given["rows"], given["n"], given["n1"]
            second = roots.at(n * 2 + first_roots)
            context.put(x=x, roots=roots, y=y, second_roots=second, halves=second.at(second_roots), failed=0, **given)
            context.put(n2=n // n1)
            with self.if_((rows > 1) & (rows * n >= LONG)):
                parallel_for(part.address, context, TASKS)
            with self.else_():
                some(context, 0, rows)
            return context.failed == 0
