"""Rows sorted by partition in vectors, where an instruction packs the lanes that a mask selects.

The code is that of the runtime (`runtime/cpu/sorting`), which serves all programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.opaque import Kernel, OpaqueOp
from tenon.dialects.ops.order.ordered_rows import OrderedRowsOp
from tenon.dialects.ops.order.ordering import Order, bits_type
from tenon.dialects.types.types import (
    ANY_TENSOR,
    bit_width,
    element_of,
    i64,
    is_float,
    is_unsigned,
    shape_of,
)

PARTITIONED_BITS = (16, 32, 64)
"""Of elements that are sorted so."""

PLACE_BITS = 32
"""The upper bits of a key hold the element, these its index."""


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
class PartitionSortOp(OrderedRowsOp, OpaqueOp):
    """The rows of `x` (rows, n) each sorted, in the order of `sort_rows`, on a CPU that packs lanes. Elements have 16,
    32 or 64 bits.

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
    def reference(*operands: np.ndarray[Any, Any], **settings: Any) -> Any:
        (x,) = operands
        in_order = np.sort(x, axis=-1)
        return in_order[:, ::-1] if settings["descending"] else in_order


def place_keys(x: Value, descending: bool) -> Value:
    """Integers (i64) that stand in the order of the elements of each row of `x` (rows, n), and of equal elements in
    that of their indices, which are their lower 32 bits. Elements have at most 32 bits."""
    lowest = 1 << (bit_width(x.element_type) - 1)
    if is_float(x.element_type):
        # A sign and a magnitude; a zero has no sign, and a NaN is the largest.
        bits = ops.cast(ops.bitcast(x, dtype=bits_type(x.element_type)), dtype=i64)
        magnitude = ops.bitwise_and(bits, lowest - 1)
        in_order = ops.select(bits < 0, -magnitude, magnitude)
        in_order = ops.select(x == x, in_order, lowest - 1)
    else:
        in_order = ops.cast(x, dtype=i64) - (lowest if is_unsigned(x.element_type) else 0)
    if descending:
        in_order = ops.bitwise_not(in_order)
    places = ops.iota(shape=x.shape, axis=1, dtype=i64)
    return ops.bitwise_or(ops.shift_left(in_order, PLACE_BITS), places)
