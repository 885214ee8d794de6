"""Short runs sorted by counting, for each element, those that go before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import as_index, convert
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import StructuredOp
from tenon.dialects.families.batching import along_first_axis
from tenon.dialects.families.linalg_builders import (
    LoopIndex,
    Reader,
    elementwise,
    filled,
    generic,
    static_shape,
)
from tenon.dialects.ops.order.ordering import goes_before
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    element_of,
    i32,
    shape_of,
    tensor_type,
)

RUN = 32
"""Up to this length runs are sorted so, where one thread sorts a row."""

LONGEST_RUN = 64
"""As `RUN`, where a row is work for many threads."""


@tensor_op
class SortRunsOp(StructuredOp):
    """The runs of `x` (rows, runs, length) each sorted, and for each element the place in its row where it was.

    The number of comparisons is the square of the length.

    >>> tenon.sort_runs(np.array([[[3, 1, 2], [9, 7, 8]]]))
    """

    name = "tenon.sort_runs"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    descending = setting(bool, default=False)
    values = result_def(ANY_TENSOR)
    places = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None and len(shape) != 3:
            raise InferenceError(f"x has shape {show(shape)} where (rows, runs, length) is needed")
        return x, tensor_type(shape, i32)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_first_axis(partial(cls.apply, **settings), size, operands)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        shape, descending = static_shape(x), self.settings["descending"]
        element = element_of(x.type)
        if 0 in shape:
            return [filled(shape, element, 0), filled(shape, i32, 0)]
        row, run, here, other = [AffineExpr.dimension(i) for i in range(4)]
        at_here, at_other = AffineMap(4, 0, (row, run, here)), AffineMap(4, 0, (row, run, other))
        length = shape[2]

        def count(values: list[Value], counts: list[Value]) -> Sequence[Value]:
            x_here, x_other = values
            is_earlier = LoopIndex(3, length) < LoopIndex(2, length)
            # Of equal elements the earlier one goes first.
            tie = is_earlier & ops.logical_not(goes_before(x_here, x_other, descending))
            return [counts[0] + convert(goes_before(x_other, x_here, descending) | tie, i32)]

        def search(values: list[Value], found: list[Value]) -> Sequence[Value]:
            place = convert(LoopIndex(3, length), i32)
            return [found[0] + ops.select(values[0] == convert(LoopIndex(2, length), i32), place, 0)]

        def take(values: list[Value]) -> Sequence[Value]:
            run_place = LoopIndex(1, shape[1])
            place = as_index(values[0])
            value = Reader(x).read_inside(LoopIndex(0, shape[0]), run_place, place)
            return [value, convert(place + run_place * length, i32)]

        reductions = (False, False, False, True)
        inputs = [(x, at_here), (x, at_other)]
        (ranks,) = generic(inputs, [(filled(shape, i32, 0), at_here)], reductions, count)
        (inverse,) = generic([(ranks, at_other)], [(filled(shape, i32, 0), at_here)], reductions, search)
        return elementwise([(inverse, AffineMap.identity(3))], shape, [element, i32], take)
