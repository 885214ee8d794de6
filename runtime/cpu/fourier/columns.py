"""Discrete Fourier transforms of columns of vectors as native code, one in each lane.

A transform takes a factor at a time (T. Stockham, "High-speed convolution and correlation", 1966).
"""

from __future__ import annotations

from tenon.dialects.ops.contract.fourier_plan import RADICES, side_by_side
from tenon.runtime.cpu.fourier.butterflies import Butterflies, Complex
from tenon.runtime.cpu.ir_types import I64, PTR, VOID
from tenon.runtime.cpu.ir_values import Function, Operand, Value


class Columns(Butterflies):
    """What transforms columns of vectors of floats of so many bits, and where these lie."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits, side_by_side(bits // 8))
        self._allocate, self.release = self.external("malloc", PTR, I64), self.external("free", VOID, PTR)
        self._stages = {(r, is_last): self._stage(r, is_last) for r in RADICES for is_last in (False, True)}
        self._columns = self._transform_columns()

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
