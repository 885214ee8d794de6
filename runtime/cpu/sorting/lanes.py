"""Vectors in the native code that `ir_writer` writes: arithmetic is that of `Value`, the rest is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.runtime.cpu.ir_types import I64, VOID, Type, pointer
from tenon.runtime.cpu.ir_values import Value
from tenon.runtime.cpu.ir_writer import Module


class Lanes:
    """Vectors of `vector_bits` in a module, each lane an unsigned integer of `bits`."""

    def __init__(self, code: Module, bits: int, vector_bits: int) -> None:
        self.code, self.bits, self.count = code, bits, vector_bits // bits
        self.element = Type(f"i{bits}", bits // 8, False)
        self.kind = self._of(self.element)
        self.truth = Type(f"<{self.count} x i1>", max(self.count // 8, 1), False)
        self.pointer = pointer(self.element)
        self._suffix = f"v{self.count}i{bits}"

    def _of(self, element: Type) -> Type:
        return Type(f"<{self.count} x {element.text}>", element.size * self.count, False)

    # --- making them

    def constant(self, numbers: Sequence[int]) -> Value:
        """A vector of these numbers."""
        text = ", ".join(f"{self.element.text} {number}" for number in numbers)
        return Value(self.code, self.kind, f"<{text}>")

    def truths(self, chosen: Sequence[bool]) -> Value:
        """Which lanes are chosen."""
        return Value(self.code, self.truth, f"<{', '.join(f'i1 {int(is_chosen)}' for is_chosen in chosen)}>")

    def filled_with(self, number: int) -> Value:
        """A vector of one constant."""
        return self.constant([number] * self.count)

    def filled(self, number: Value) -> Value:
        """A vector of one number."""
        return number.filled(self.kind, self.count)

    def first(self, count: Value) -> Value:
        """The first `count` lanes, of which there are so many at least."""
        # In 64 bits, as no shift is by as many: a vector of 64 lanes would have bytes, which are not sorted so.
        bits = (self.code.number(I64, 1) << count) - 1
        return bits.to(self._mask_bits).bits(self.truth)

    @property
    def _mask_bits(self) -> Type:
        return Type(f"i{self.count}", max(self.count // 8, 1), False)

    # --- memory

    def load(self, place: Value) -> Value:
        """The vector at any multiple of its elements' size."""
        return place.load_vector(self.kind)

    def load_some(self, place: Value, chosen: Value, others: Value) -> Value:
        """The vector there, of which only the lanes `chosen` are read; the rest is that of `others`."""
        name = f"llvm.masked.load.{self._suffix}.p0"
        return self.code.external(name, self.kind, place.kind, self.truth, self.kind)(place, chosen, others)

    def store_some(self, value: Value, place: Value, chosen: Value) -> None:
        """Put the lanes `chosen` there."""
        name = f"llvm.masked.store.{self._suffix}.p0"
        self.code.external(name, VOID, self.kind, place.kind, self.truth)(value, place, chosen)

    def for_each(self, start: Value, end: Value, use: Callable[[Value, Value | None], None]) -> None:
        """Write `use(place, inside)` for the vectors from place `start` to `end`: of the last one only the lanes
        `inside` may be in it."""
        code = self.code
        whole = (end - start) // self.count
        with code.each(whole) as i:
            use(start + i * self.count, None)
        done = start + whole * self.count
        with code.if_(done < end):
            use(done, self.first(end - done))

    def load_inside(self, place: Value, inside: Value | None) -> Value:
        """The vector there, zero where lanes are not inside."""
        return self.load(place) if inside is None else self.load_some(place, inside, self.filled_with(0))

    def store_inside(self, value: Value, place: Value, inside: Value | None) -> None:
        """Put those lanes there that are inside."""
        if inside is None:
            place.store_vector(value)
        else:
            self.store_some(value, place, inside)

    # --- among lanes

    def smaller(self, one: Value, other: Value) -> Value:
        """The smaller number in each lane."""
        return self.code.external(f"llvm.umin.{self._suffix}", self.kind, self.kind, self.kind)(one, other)

    def larger(self, one: Value, other: Value) -> Value:
        """The larger number in each lane."""
        return self.code.external(f"llvm.umax.{self._suffix}", self.kind, self.kind, self.kind)(one, other)

    def below(self, one: Value, other: Value) -> Value:
        """In which lanes `one` is smaller."""
        text = f"icmp ult {self.kind.text} {one.read()}, {other.read()}"
        return self.code.made(self.truth, text)

    def signs(self, value: Value) -> Value:
        """All bits where a lane's highest bit is set, and none elsewhere."""
        return self.code.made(
            self.kind, f"ashr {self.kind.text} {value.read()}, {self.filled_with(self.bits - 1).read()}"
        )

    def chosen(self, where: Value, one: Value, other: Value) -> Value:
        """The lanes of `one` in these places, and else those of `other`."""
        kind = self.kind.text
        text = f"select {self.truth.text} {where.read()}, {kind} {one.read()}, {kind} {other.read()}"
        return self.code.made(self.kind, text)

    def packed(self, value: Value, chosen: Value) -> Value:
        """The chosen lanes from the first one on; what follows them may be anything."""
        name = f"llvm.experimental.vector.compress.{self._suffix}"
        nothing = Value(self.code, self.kind, "poison")
        return self.code.external(name, self.kind, self.kind, self.truth, self.kind)(value, chosen, nothing)

    def counted(self, chosen: Value) -> Value:
        """How many lanes are chosen."""
        bits = chosen.bits(self._mask_bits)
        kind = self._mask_bits
        return self.code.external(f"llvm.ctpop.{kind.text}", kind, kind)(bits).to(I64)

    def both(self, one: Value, other: Value) -> Value:
        """The lanes that are in both."""
        return self.code.made(self.truth, f"and {self.truth.text} {one.read()}, {other.read()}")

    def inverse(self, chosen: Value) -> Value:
        """All other lanes."""
        ones = self.truths([True] * self.count).read()
        return self.code.made(self.truth, f"xor {self.truth.text} {chosen.read()}, {ones}")

    def without(self, one: Value, other: Value) -> Value:
        """The lanes of one that are not in the other."""
        return self.both(one, self.inverse(other))
