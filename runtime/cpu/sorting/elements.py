"""Elements as keys, unsigned integers in the same order, and back, in vectors.

`dialects/ops/order/ordering.py` has what this means. The three numbers of an `Order` say which elements they are.
"""

from __future__ import annotations

from collections.abc import Callable

from tenon.runtime.cpu.ir_types import I64, VOID, Struct, Type, pointer
from tenon.runtime.cpu.ir_values import Function, Value
from tenon.runtime.cpu.sorting.lanes import Lanes


def order_type(element: Type) -> Struct:
    """`magnitude` are the bits that are inverted where the highest one is set: all others in floats, none in integers.
    Above `infinity`, bits without the highest one are those of NaN. `inverted` are the bits of a key that are
    inverted."""
    return Struct(magnitude=element, infinity=element, inverted=element)


def as_keys(order: Value) -> Value:
    """The order of keys as they are, which lies behind the one that is given in memory."""
    return order.at(1)


class Elements:
    """Writes what makes keys of elements, and elements of keys."""

    def __init__(self, lanes: Lanes) -> None:
        self.code, self.lanes = lanes.code, lanes
        self.order = pointer(order_type(lanes.element))
        self.encode = self._encode()
        self.decode = self._decode()

    def keys(self, order: Value) -> Callable[[Value], Value]:
        """Gives the keys of a vector of elements."""
        lanes = self.lanes
        magnitude, infinity, inverted = [lanes.filled(v) for v in (order.magnitude, order.infinity, order.inverted)]
        unsigned = lanes.filled_with((1 << (lanes.bits - 1)) - 1)

        def keys(elements: Value) -> Value:
            size = elements & unsigned
            in_order = elements ^ (lanes.signs(elements) & magnitude)
            return lanes.chosen(lanes.below(infinity, size), size, in_order) ^ inverted

        return keys

    def of_keys(self, order: Value) -> Callable[[Value], Value]:
        """Gives the elements of a vector of keys."""
        lanes = self.lanes
        magnitude, inverted = lanes.filled(order.magnitude), lanes.filled(order.inverted)

        def elements(keys: Value) -> Value:
            bits = keys ^ inverted
            return bits ^ (lanes.signs(bits) & magnitude)

        return elements

    def _encode(self) -> Function:
        code, lanes = self.code, self.lanes

        @code.function(VOID, source=lanes.pointer, target=lanes.pointer, count=I64, order=self.order)
        def encode(source: Value, target: Value, count: Value, order: Value) -> None:
            keys = self.keys(order)

            def use(place: Value, inside: Value | None) -> None:
                lanes.store_inside(keys(lanes.load_inside(source.at(place), inside)), target.at(place), inside)

            lanes.for_each(code.number(I64, 0), count, use)

        return encode

    def _decode(self) -> Function:
        code, lanes = self.code, self.lanes

        @code.function(VOID, keys=lanes.pointer, count=I64, order=self.order)
        def decode(keys: Value, count: Value, order: Value) -> None:
            elements = self.of_keys(order)

            def use(place: Value, inside: Value | None) -> None:
                lanes.store_inside(elements(lanes.load_inside(keys.at(place), inside)), keys.at(place), inside)

            lanes.for_each(code.number(I64, 0), count, use)

        return decode
