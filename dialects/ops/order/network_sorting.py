"""Rows sorted side by side by a bitonic network (Knuth, volume 3, section 5.3.4).

Which elements are compared does not depend on the numbers, so that neighbouring rows are sorted at once, a lane of a
vector for each. They are turned into columns of keys: unsigned integers that stand in order as the elements do
(`ordering`), so that two are put in order by their minimum and their maximum. Sorted runs of keys are merged in pairs:
first each key of one run is compared with its mirror image in the other, then with the one half a run away, a quarter,
and so on. A step reads eight keys of a column, compares along three such distances, and writes them. What lies behind
the end of a column is larger than all of its keys, and would stay there: one key stands for all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import result_def

from tenon.dialects.definition.scalar import convert, emit_scalar, index_constant, scalar_constant
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.linalg_builders import (
    CountedIndex,
    LoopIndex,
    Reader,
    conditional,
    counted_loop,
    empty,
    filled,
    generic,
    inserted,
    static_shape,
)
from tenon.dialects.ops.order.ordered_rows import OrderedRowsOp
from tenon.dialects.ops.order.ordering import bits_type, from_bits, invertible_bits, ordered_bits
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    bit_width,
    element_of,
    i64,
)

_LEVELS = 3
"""How many distances a step compares along. With one, each vector is stored for every key it is compared with, and
sorting takes twice to three times as long; with four it takes as long."""

_KEYS = 1 << _LEVELS
"""How many keys of a column a step reads."""

KEY_BITS = 32
"""The upper bits of a key hold the element, and as many below its index, where indices are sorted."""

_GROUP, _PLACE, _ROW = [AffineExpr.dimension(i) for i in range(3)]
_ROWS = AffineMap(3, 0, (_GROUP, _ROW, _PLACE))
_COLUMNS = AffineMap(3, 0, (_GROUP, _PLACE + 1, _ROW))
"""Where the keys are, behind the one that stands for what is behind the end."""

_Comparisons = Callable[[list[Value]], list[Value]]
"""From keys to the same keys in another order."""


class GroupSortOp(OrderedRowsOp):
    """The rows of `x` (groups, rows, n) sorted by a network, those of a group side by side."""

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("groups", "rows", "n")

    def key(self, x: Value, place: Value) -> Value:
        """The unsigned integer, in a signless type, that `x` at `place` in its row is ordered by."""
        raise NotImplementedError

    def element(self, key: Value) -> Value:
        """The result's element for the element with this `key`."""
        raise NotImplementedError

    @classmethod
    def key_type(cls, element: Attribute) -> IntegerType:
        """The type of the keys of elements of type `element`."""
        return bits_type(element)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        shape, result = static_shape(x), element_of(self.results[0].type)
        if 0 in shape:
            return [filled(shape, result, 0)]
        groups, rows, size = shape
        kind = self.key_type(element_of(x.type))

        def key(values: list[Value], _: list[Value]) -> Sequence[Value]:
            return [self.key(values[0], LoopIndex(1, size))]

        def element(values: list[Value], _: list[Value]) -> Sequence[Value]:
            return [self.element(values[0])]

        def sort(group: CountedIndex, keys: list[SSAValue]) -> Sequence[SSAValue]:
            def end(row: CountedIndex, keys: list[SSAValue]) -> Sequence[SSAValue]:
                return [inserted(keys[0], scalar_constant(-1, kind), (group, 0, row))]

            return [_Network(group, rows, size).sorted(counted_loop(rows, keys, end)[0])]

        parallel = [False] * 3
        keys = generic([(x, _ROWS)], [(empty((groups, size + 1, rows), kind), _COLUMNS)], parallel, key)
        keys = counted_loop(groups, keys, sort)
        return generic([(keys[0], _COLUMNS)], [(empty(shape, result), _ROWS)], parallel, element)


@tensor_op
class SortGroupsOp(GroupSortOp):
    """The rows of `x` (groups, rows, n) each sorted, in the order of `sort_rows`.

    >>> tenon.sort_groups(np.array([[[3.0, 1.0, 2.0], [9.0, np.nan, 8.0]]]))
    """

    name = "tenon.sort_groups"
    result = result_def(ANY_TENSOR)

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        return element_of(x)

    def key(self, x: Value, place: Value) -> Value:
        return invertible_bits(x, self.settings["descending"])

    def element(self, key: Value) -> Value:
        return from_bits(key, element_of(self.results[0].type), self.settings["descending"])


@tensor_op
class ArgsortGroupsOp(GroupSortOp):
    """The indices (i64) that sort each row of `x` (groups, rows, n). Equal elements keep their order. Elements have at
    most 32 bits.

    >>> tenon.argsort_groups(np.array([[[3, 1, 2, 1], [9, 7, 8, 9]]], np.int32))
    """

    name = "tenon.argsort_groups"
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        bits = bit_width(element_of(operands[0]))
        if bits > KEY_BITS:
            raise InferenceError(f"x has elements of {bits} bits, and a key holds {KEY_BITS} beside an index")
        return super().infer(*operands, **settings)

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        return i64

    @classmethod
    def key_type(cls, element: Attribute) -> IntegerType:
        return i64

    def key(self, x: Value, place: Value) -> Value:
        bits = emit_scalar(lambda v: arith.ExtUIOp(v, i64), ordered_bits(x, self.settings["descending"]))
        high = emit_scalar(arith.ShLIOp, bits, scalar_constant(KEY_BITS, i64))
        return emit_scalar(arith.OrIOp, high, convert(place, i64))

    def element(self, key: Value) -> Value:
        return emit_scalar(arith.AndIOp, key, scalar_constant((1 << KEY_BITS) - 1, i64))


class _Network:
    """The comparisons that sort the columns of a `group` of keys (groups, size + 1, rows)."""

    def __init__(self, group: Value, rows: int, size: int) -> None:
        self.group, self.rows, self.size = group, rows, size
        self.levels = max((size - 1).bit_length(), _LEVELS)

    def sorted(self, keys: SSAValue) -> SSAValue:
        """Runs of a step's keys are sorted, then pairs of neighbouring runs are merged until one is left."""
        one = index_constant(1)
        runs = self.compared(keys, one, _sorted)

        def merge(_: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
            stride = Value(carried[1]) * 2
            keys = self.compared(carried[0], stride, _merged, is_mirrored=True)

            def clean(_: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
                keys, before = carried[0], Value(carried[1])
                # Where fewer distances are left than a step compares along, it starts with some of those before.
                stride = ops.maximum(emit_scalar(arith.ShRUIOp, before, index_constant(_LEVELS)), one)
                return [*conditional(before > 1, [keys], lambda: [self.compared(keys, stride, _cleaned)]), stride.ssa]

            merged = counted_loop(-(-self.levels // _LEVELS) - 1, [keys, stride.ssa], clean)[0]
            return [merged, stride.ssa]

        return counted_loop(self.levels - _LEVELS, [runs, one.ssa], merge)[0]

    def compared(
        self, keys: SSAValue, stride: Value, comparisons: _Comparisons, *, is_mirrored: bool = False
    ) -> SSAValue:
        """`keys` after `comparisons` of all keys, those of a step a `stride` apart. Two runs are merged by steps that
        are mirror images of themselves."""

        def step(number: CountedIndex, keys: list[SSAValue]) -> Sequence[SSAValue]:
            offset = emit_scalar(arith.AndIOp, number, stride - 1)
            start = (number - offset) * _KEYS
            offsets = [stride * i + offset for i in range(_KEYS)]
            if is_mirrored:
                offsets[_KEYS // 2 :] = [stride * _KEYS - 1 - other for other in reversed(offsets[: _KEYS // 2])]
            places = [start + other for other in offsets]
            places = [ops.select(place < self.size, place + 1, index_constant(0)) for place in places]

            def compare(row: CountedIndex, keys: list[SSAValue]) -> Sequence[SSAValue]:
                (updated,) = keys
                source = Reader(updated)
                compared = comparisons([source.read_inside(self.group, place, row) for place in places])
                for place, key in zip(places, compared, strict=True):
                    updated = inserted(updated, key, (self.group, place, row))
                return [updated]

            return conditional(start < self.size, keys, lambda: counted_loop(self.rows, keys, compare))

        return counted_loop((1 << self.levels) // _KEYS, [keys], step)[0]


def _sorted(keys: list[Value]) -> list[Value]:
    """`keys` in order."""
    half = len(keys) // 2
    return _merged(_sorted(keys[:half]) + _sorted(keys[half:])) if half else keys


def _merged(keys: list[Value]) -> list[Value]:
    """`keys`, both halves of which are in order, after all distances."""
    half = len(keys) // 2
    smaller, larger = _exchanged(keys[:half], keys[: half - 1 : -1])
    return _cleaned(smaller) + _cleaned(larger[::-1])


def _cleaned(keys: list[Value]) -> list[Value]:
    """`keys` after all distances but the mirror image."""
    half = len(keys) // 2
    if not half:
        return keys
    smaller, larger = _exchanged(keys[:half], keys[half:])
    return _cleaned(smaller) + _cleaned(larger)


def _exchanged(first: list[Value], second: list[Value]) -> tuple[list[Value], list[Value]]:
    """The smaller and the larger ones of pairs."""
    pairs = list(zip(first, second, strict=True))
    return [emit_scalar(arith.MinUIOp, x, y) for x, y in pairs], [emit_scalar(arith.MaxUIOp, x, y) for x, y in pairs]
