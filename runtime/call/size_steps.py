"""Steps that compute sizes: what native calls do with the dimensions that arguments may have of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenon.dialects.types.size import Size
from tenon.runtime.call.layout import STEP, Step


class UnboundSizeError(LookupError):
    """A size is asked for that no dimension of an argument tells."""


class SizeSteps:
    """Slots of sizes, and the steps that fill and compare them."""

    def __init__(self, emit: Callable[[list[Any]], None]) -> None:
        self._emit = emit
        self.count = 0
        self._slots: dict[Any, int] = {}
        self._given: list[tuple[int, Any]] = []

    def dimension(self, size: Any) -> int:
        """The word of a dimension of an argument, whose slot is filled by the step of the array."""
        if not isinstance(size, Size):
            return size
        slot = self._new_slot()
        self._given.append((slot, size))
        return ~slot

    def compare(self) -> None:
        """Compare the dimensions that were given since the last time: a name is told by the first that is it alone."""
        given, self._given = self._given, []
        rest = [(slot, size) for slot, size in given if size.name is None or self._slots.setdefault(size, slot) != slot]
        for slot, size in rest:
            self._step(Step.equal, left=slot, right=self.slot(size))

    def require_positive(self, size: Any) -> None:
        """Let no call fit where `size` is not at least 1."""
        self._step(Step.positive, left=self.slot(size))

    def word(self, size: Any) -> int:
        """The word of a dimension of a result."""
        return ~self.slot(size) if isinstance(size, Size) else size

    def slot(self, size: Any) -> int:
        """The slot that a size, or a number, is in."""
        slot = self._slots.get(size)
        if slot is None:
            slot = self._slots[size] = self._computed(size)
        return slot

    def _computed(self, size: Any) -> int:
        if not isinstance(size, Size):
            return self._into_new_slot(Step.constant, left=size)
        if size.name is not None:
            raise UnboundSizeError(f"no argument tells {size}")
        return size.evaluate(lambda name: _InSlot(self, self.slot(Size.named(name)))).slot

    def operation(self, step: Step, left: Any, right: Any) -> _InSlot:
        """What a step computes of two operands."""
        slots = [operand.slot if isinstance(operand, _InSlot) else self.slot(operand) for operand in (left, right)]
        return _InSlot(self, self._into_new_slot(step, left=slots[0], right=slots[1]))

    def _into_new_slot(self, operation: Step, **words: int) -> int:
        slot = self._new_slot()
        self._step(operation, slot=slot, **words)
        return slot

    def _new_slot(self) -> int:
        self.count += 1
        return self.count - 1

    def _step(self, operation: Step, slot: int = 0, left: int = 0, right: int = 0) -> None:
        words = {"operation": int(operation), "register": 0, "slot": slot, "left": left, "right": right}
        self._emit(STEP.words_of("size", words))


class _InSlot:
    """A number that a call computes: arithmetic with it becomes steps."""

    def __init__(self, steps: SizeSteps, slot: int) -> None:
        self._steps, self.slot = steps, slot

    def __add__(self, other: Any) -> _InSlot:
        return self._steps.operation(Step.add, self, other)

    def __mul__(self, other: Any) -> _InSlot:
        return self._steps.operation(Step.multiply, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Any) -> _InSlot:
        return self._steps.operation(Step.divide, self, other)

    def __mod__(self, other: Any) -> _InSlot:
        return self._steps.operation(Step.remainder, self, other)

    def __rfloordiv__(self, other: Any) -> _InSlot:
        return self._steps.operation(Step.divide, other, self)

    def __rmod__(self, other: Any) -> _InSlot:
        return self._steps.operation(Step.remainder, other, self)
