"""Rows sorted by partition in vectors, where an instruction packs the lanes that a mask selects.

The code is that of the runtime (`runtime/cpu/sorting`), which serves all programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import SerialRowsOp
from tenon.dialects.families.opaque import Kernel, OpaqueOp
from tenon.dialects.ops.order.ordered_rows import OrderedRowsOp
from tenon.dialects.ops.order.ordering import Order, bits_type
from tenon.dialects.ops.order.tie_code import tie_code
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    bit_width,
    element_of,
    i64,
    is_float,
    is_unsigned,
    shape_of,
    tensor_type,
    ui64,
)

PARTITIONED_BITS = (16, 32, 64)
"""Of elements that are sorted so."""

PLACE_BITS = 32
"""The upper bits of a key hold the element, these its index."""

_WORD_BITS = 64
"""Of such a key."""


def _llvm(symbol: str, types: Sequence[Any], results: Sequence[Any], settings: dict[str, Any]) -> str:
    element = element_of(types[0])
    rows, size = shape_of(types[0]) or (0, 0)
    order = Order.of(element, settings["descending"])
    bits, numbers = (
        order.bits,
        ", ".join(f"i{order.bits} {n}" for n in (order.magnitude, order.infinity, order.inverted)),
    )
    return f"""
declare void @tenon_sort_{bits}(ptr, ptr, i64, i64, i{bits}, i{bits}, i{bits})
define void @{symbol}(ptr %source, ptr %target) {{
  call void @tenon_sort_{bits}(ptr %source, ptr %target, i64 {rows}, i64 {size}, {numbers})
  ret void
}}
"""


@tensor_op
class PartitionSortOp(OrderedRowsOp, SerialRowsOp, OpaqueOp):
    """The rows of `x` (rows, n) each sorted, on a CPU that packs lanes; elements have 16, 32 or 64 bits there. On a GPU
    it is `sort`.

    >>> tenon.partition_sort(np.array([[3.0, 1.0, 2.0], [9.0, np.nan, 8.0]]))
    """

    name = "tenon.partition_sort"
    x = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)
    DIMENSIONS = ("rows", "n")
    KERNELS = (
        Kernel(
            "partition",
            "llvm",
            _llvm,
            lambda types, settings: bit_width(element_of(types[0])) in PARTITIONED_BITS,
            "elements of 16, 32 or 64 bits",
        ),
    )

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        return element_of(x)

    @staticmethod
    def decompose_in_pieces(x: Value, *, descending: bool) -> Value:
        return ops.sort(x, axis=1, descending=descending)

    @staticmethod
    def reference(*operands: np.ndarray[Any, Any], **settings: Any) -> Any:
        (x,) = operands
        in_order = np.sort(x, axis=-1)
        return in_order[:, ::-1] if settings["descending"] else in_order


def sorted_places(x: Value, descending: bool) -> Value:
    """The indices (i64) that sort each row of `x` (rows, n), where equal elements keep their order. Elements have more
    than 8 and at most 64 bits."""
    in_order = _ordered(x, descending)
    if bit_width(x.element_type) <= PLACE_BITS:
        keys = ops.bitwise_or(ops.shift_left(in_order, PLACE_BITS), ops.iota(shape=x.shape, axis=1, dtype=i64))
        return ops.bitwise_and(ops.partition_sort(keys), (1 << PLACE_BITS) - 1)
    # Beside the index there is room for the upper bits of how far an element is from the smallest one of its row.
    place_bits = max((x.shape[1] - 1).bit_length(), 1)
    least = ops.min(in_order, axis=1, keepdims=True)
    largest = ops.bitcast(ops.max(in_order, axis=1, keepdims=True) - least, dtype=ui64)
    keys = ops.bitcast(in_order - least, dtype=ui64)
    # As many bits are left out as the largest one has beyond those that there is room for.
    beyond = ops.shift_right(largest, _WORD_BITS - place_bits)
    for distance in (1, 2, 4, 8, 16):
        beyond = ops.bitwise_or(beyond, ops.shift_right(beyond, distance))
    shifts = ops.cast(ops.population_count(beyond), dtype=ui64)
    upper = ops.shift_left(ops.shift_right(keys, shifts), place_bits)
    packed = ops.partition_sort(ops.bitwise_or(upper, ops.iota(shape=x.shape, axis=1, dtype=ui64)))
    return BreakTiesOp.apply(packed, keys, ops.reshape(shifts, shape=(x.shape[0],)), place_bits=place_bits)


def _ordered(x: Value, descending: bool) -> Value:
    """Integers (i64) that stand in the order of the elements of `x`."""
    lowest = 1 << (bit_width(x.element_type) - 1)
    bits = ops.bitcast(x, dtype=bits_type(x.element_type))
    if is_unsigned(x.element_type):
        bits = ops.bitwise_xor(bits, -lowest)
    in_order = ops.cast(bits, dtype=i64)
    if is_float(x.element_type):
        # A sign and a magnitude; a zero has no sign, and a NaN is the largest.
        magnitude = ops.bitwise_and(in_order, lowest - 1)
        in_order = ops.select(in_order < 0, -magnitude, magnitude)
        in_order = ops.select(x == x, in_order, lowest - 1)
    return ops.bitwise_not(in_order) if descending else in_order


def _break_ties(symbol: str, types: Sequence[Any], results: Sequence[Any], settings: dict[str, Any]) -> str:
    rows, size = shape_of(types[0]) or (0, 0)
    return tie_code(symbol, rows, size, settings["place_bits"])


@tensor_op
class BreakTiesOp(OpaqueOp):
    """The indices (i64) that sort rows by `keys` (rows, n), where `x` (rows, n) has them sorted by all but the lowest
    `shifts` (rows,) bits of a key: what is left of it stands above an index of `place_bits` bits. All are ui64. Where
    keys are tied so far, their lowest bits are sorted as well; that takes no longer than to sort the rows did."""

    name = "partition.break_ties"
    HAS_FUNCTION: ClassVar[bool] = False
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(INTEGER_TENSOR)
    keys = operand_def(INTEGER_TENSOR)
    shifts = operand_def(INTEGER_TENSOR)
    place_bits = setting(int)
    result = result_def(INTEGER_TENSOR)
    KERNELS = (Kernel("ties", "llvm", _break_ties),)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape, keys, shifts = map(shape_of, operands)
        if shape is None or keys != shape or shifts != shape[:1] or len(shape) != 2:
            raise InferenceError(
                f"x, keys and shifts have shapes {show(shape)}, {show(keys)} and {show(shifts)} where (rows, n), "
                "(rows, n) and (rows,) are needed"
            )
        return tensor_type(shape, i64)

    @staticmethod
    def reference(*operands: np.ndarray[Any, Any], **settings: Any) -> Any:
        x, keys, _ = operands
        places = (x & x.dtype.type((1 << settings["place_bits"]) - 1)).astype(np.int64)
        return np.take_along_axis(places, np.lexsort((places, np.take_along_axis(keys, places, 1))), 1)
