"""Short rows sorted by counting, for each element, those that go before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import result_def

from tenon.dialects.definition.scalar import convert
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.linalg_builders import LoopIndex, filled, generic, static_shape
from tenon.dialects.ops.order.ordered_rows import OrderedRowsOp
from tenon.dialects.ops.order.ordering import goes_before
from tenon.dialects.types.types import INTEGER_TENSOR, i32

SHORT = 32
"""Up to this length rows are sorted so, where one thread sorts a row."""

LONGEST_SHORT = 64
"""As `SHORT`, where a row is work for many threads."""


@tensor_op
class ArgsortShortRowsOp(OrderedRowsOp):
    """The indices (i32) that sort each row of `x` (rows, n), as in `argsort`. Equal elements keep their order.

    The number of comparisons is the square of the length.

    >>> tenon.argsort_short_rows(np.array([[3, 1, 2, 1], [9, 7, 8, 9]]))
    """

    name = "tenon.argsort_short_rows"
    DIMENSIONS: ClassVar[tuple[str, ...]] = ("rows", "n")
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        return i32

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        shape, descending = static_shape(x), self.settings["descending"]
        row, here, other = [AffineExpr.dimension(i) for i in range(3)]
        at_here, at_other = AffineMap(3, 0, (row, here)), AffineMap(3, 0, (row, other))

        def places() -> list[LoopIndex]:
            return [LoopIndex(loop, shape[1]) for loop in (1, 2)]

        def count(values: list[Value], counts: list[Value]) -> Sequence[Value]:
            (x_here, x_other), (place_here, place_other) = values, places()
            # Of equal elements the earlier one goes first.
            tie = (place_other < place_here) & ops.logical_not(goes_before(x_here, x_other, descending))
            return [counts[0] + convert(goes_before(x_other, x_here, descending) | tie, i32)]

        def search(values: list[Value], found: list[Value]) -> Sequence[Value]:
            place_here, place_other = [convert(place, i32) for place in places()]
            return [found[0] + ops.select(values[0] == place_here, place_other, 0)]

        reductions = (False, False, True)
        (ranks,) = generic([(x, at_here), (x, at_other)], [(filled(shape, i32, 0), at_here)], reductions, count)
        return generic([(ranks, at_other)], [(filled(shape, i32, 0), at_here)], reductions, search)
