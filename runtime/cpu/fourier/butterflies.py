"""Transforms of a few complex numbers, in each lane of vectors, in native code that `ir_writer` writes."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin, sqrt

import numpy as np

from tenon.runtime.cpu.ir_types import F32, F64, Type, pointer, vector
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module

Complex = tuple[Value, Value]


class Butterflies(Module):
    """A module with vectors of `count` floats of so many bits. What is multiplied and then added is rounded once where
    the processor does that."""

    def __init__(self, bits: int, count: int) -> None:
        super().__init__()
        self.element: Type = F64 if bits == 64 else F32
        self.count, self.lanes = count, vector(count, self.element)
        self.elements, self.vectors = pointer(self.element), pointer(self.lanes)

    # --- vectors

    def load(self, place: Value) -> Value:
        """The vector at any multiple of its elements' size."""
        return place.load_vector(self.lanes)

    def filled(self, number: Value) -> Value:
        """A vector of one number."""
        return number.filled(self.lanes, self.count)

    def pairs(self, place: Value) -> Complex:
        """Complex numbers that lie there as pairs."""
        one, other = self.load(place), self.load(place.at(self.count))
        even = range(0, 2 * self.count, 2)
        return one.shuffled(even, other), one.shuffled([i + 1 for i in even], other)

    def store_pairs(self, place: Value, x: Complex) -> None:
        """Put them there so."""
        low = [i // 2 + i % 2 * self.count for i in range(self.count)]
        place.store_vector(x[0].shuffled(low, x[1]))
        place.at(self.count).store_vector(x[0].shuffled([i + self.count // 2 for i in low], x[1]))

    # --- complex numbers

    def _contracted(self, operation: str, a: Value, b: Operand) -> Value:
        if isinstance(b, float) and self.element is F32:
            b = float(np.float32(b))
        return self.made(
            self.lanes, f"{operation} contract {self.lanes.text} {a.read()}, {self.operand(b, self.lanes)}"
        )

    def plus(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._contracted("fadd", a, b)

    def minus(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self._contracted("fsub", a, b)

    def times(self, a: Value, b: Operand) -> Value:
        """a b."""
        return self._contracted("fmul", a, b)

    def sum(self, a: Complex, b: Complex) -> Complex:
        """a + b."""
        return self.plus(a[0], b[0]), self.plus(a[1], b[1])

    def difference(self, a: Complex, b: Complex) -> Complex:
        """a - b."""
        return self.minus(a[0], b[0]), self.minus(a[1], b[1])

    def product(self, x: Complex, w: Complex) -> Complex:
        """x w."""
        real = self.minus(self.times(x[0], w[0]), self.times(x[1], w[1]))
        return real, self.plus(self.times(x[0], w[1]), self.times(x[1], w[0]))

    # --- real numbers, which are pairs of a transform of half the length

    def after(self, one: Complex, other: Complex, root: Complex) -> Complex:
        """A number of the transform of real ones, from that of their pairs, the conjugate of its mirror image there,
        and a root of unity."""
        even, odd = self.sum(one, other), self.difference(one, other)
        real, imaginary = self.sum(even, self.product((odd[1], self.times(odd[0], -1.0)), root))
        return self.times(real, 0.5), self.times(imaginary, 0.5)

    def before(self, one: Complex, other: Complex, root: Complex) -> Complex:
        """The way back."""
        odd = self.product(self.difference(one, other), (root[0], self.times(root[1], -1.0)))
        real, imaginary = self.sum(self.sum(one, other), (self.times(odd[1], -1.0), odd[0]))
        return self.times(real, 0.5), self.times(imaginary, 0.5)

    # --- transforms

    def transformed(self, x: Sequence[Complex]) -> list[Complex]:
        """The transform of a few numbers."""
        if len(x) == 1:
            return list(x)
        if len(x) % 2:
            return self._of_odd_length(x)
        even, odd = self.transformed(x[0::2]), self.transformed(x[1::2])
        pairs = list(zip(even, [self._by_root(value, k, len(x)) for k, value in enumerate(odd)], strict=True))
        return [self.sum(a, b) for a, b in pairs] + [self.difference(a, b) for a, b in pairs]

    def _by_root(self, x: Complex, k: int, r: int) -> Complex:
        """x exp(-2 pi i k / r), for an eighth of a turn or a multiple of it below a half."""
        real, imaginary = x
        if k == 0:
            return x
        if 4 * k == r:
            return imaginary, self.times(real, -1.0)
        total, difference = self.plus(real, imaginary), self.minus(imaginary, real)
        if 8 * k == r:
            return self.times(total, sqrt(0.5)), self.times(difference, sqrt(0.5))
        assert 8 * k == 3 * r, (k, r)
        return self.times(difference, sqrt(0.5)), self.times(total, -sqrt(0.5))

    def _of_odd_length(self, x: Sequence[Complex]) -> list[Complex]:
        """Of the numbers at j and r - j, sums are multiplied by cosines and differences by sines."""
        r = len(x)
        half = range(1, r // 2 + 1)
        sums = [self.sum(x[j], x[r - j]) for j in half]
        differences = [self.difference(x[j], x[r - j]) for j in half]
        first = x[0]
        for total in sums:
            first = self.sum(first, total)
        front, back = list[Complex](), list[Complex]()
        for k in half:
            angles = [2 * pi * (j * k % r) / r for j in half]
            inner, outer = x[0], None
            for angle, total, (real, imaginary) in zip(angles, sums, differences, strict=True):
                inner = self.sum(inner, (self.times(total[0], cos(angle)), self.times(total[1], cos(angle))))
                # -i (a + i b) is b - i a
                turned = self.times(imaginary, sin(angle)), self.times(real, -sin(angle))
                outer = turned if outer is None else self.sum(outer, turned)
            assert outer is not None
            front.append(self.sum(inner, outer))
            back.append(self.difference(inner, outer))
        return [first, *front, *reversed(back)]
