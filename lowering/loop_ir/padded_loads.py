"""Loads at places some of which lie outside of a buffer, where a number stands in for what is not there: the padding
around an image is in no memory.

What the loops tell to lie inside is loaded as it is, what they tell to lie outside is that number. A vector has a mask
of its lanes that lie inside otherwise; what a mask leaves out is not touched. A scalar is loaded from a place inside,
and left out afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, MemRefType, VectorType, i1, i32, i64
from xdsl.ir import Attribute, SSAValue, TypedAttribute

from tenon.dialects.types.size import Size
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, Position, vector_op, vector_type

_BELOW: dict[str, Attribute] = {"predicate": IntegerAttr(6, i64)}
"""Of numbers without a sign, so that one comparison with a size tells what lies inside."""


def load_padded(
    builder: LoopBuilder,
    source: SSAValue,
    place: Sequence[Position],
    lanes: int,
    active: int | None,
    padding: TypedAttribute,
) -> SSAValue:
    """The first `active` of `lanes` elements of the memref `source` from `place` on, or one element; `padding` for
    those outside of it. Along dimensions that only the launch tells there are none."""
    assert isinstance(source.type, MemRefType)
    element, shape = source.type.element_type, source.type.get_shape()
    kind = element if lanes == 1 else vector_type(element, lanes)
    used = lanes if active is None else active
    inside: list[SSAValue] = []
    mask = None if used == lanes else builder.mask(used, lanes)
    indices = list(map(builder.index, place))
    for dim, (position, size) in enumerate(zip(place, shape, strict=True)):
        if isinstance(size, Size):
            continue
        count = used if dim == len(shape) - 1 else 1
        known = builder.range_of(position)
        if known is not None and known[0] >= 0 and known[1] + count <= size:
            continue
        if known is not None and (known[1] + count <= 0 or known[0] >= size):
            return builder.broadcast(builder.constant(padding, element), lanes)
        if dim == len(shape) - 1 and lanes > 1:
            mask = _lanes_inside(builder, position, used, lanes, size)
        else:
            inside.append(builder.pure(arith.CmpiOp, (indices[dim], builder.index_constant(size)), i1, _BELOW))
            if lanes == 1:
                zero = builder.index_constant(0)
                indices[dim] = builder.pure(arith.SelectOp, (inside[-1], indices[dim], zero), INDEX)
    if lanes == 1:
        loaded = builder.value(memref.LoadOp.create(operands=(source, *indices), result_types=(element,)))
        number = builder.constant(padding, element)
        for condition in inside:
            chosen = arith.SelectOp.create(operands=(condition, loaded, number), result_types=(element,))
            loaded = builder.value(chosen)
        return loaded
    if mask is None and inside:
        mask = builder.constant(DenseIntOrFPElementsAttr.from_list(_mask_type(lanes), [-1] * lanes), _mask_type(lanes))
    for condition in inside:
        assert mask is not None
        mask = builder.pure(vector_op(arith.AndIOp), (mask, builder.broadcast(condition, lanes)), _mask_type(lanes))
    if mask is None:
        return builder.value(vector.LoadOp.create(operands=(source, *indices), result_types=(kind,)))
    numbers = builder.broadcast(builder.constant(padding, element), lanes)
    return builder.value(vector.MaskedLoadOp.create(operands=(source, *indices, mask, numbers), result_types=(kind,)))


def _mask_type(lanes: int) -> Any:
    return vector_type(i1, lanes)


def _lanes_inside(builder: LoopBuilder, first: Position, used: int, lanes: int, size: int) -> SSAValue:
    """The mask of those of the first `used` lanes that lie in a dimension of `size`, where the first is at `first`."""
    kind = _mask_type(lanes)
    if not first.terms:
        chosen = [lane < used and 0 <= first.constant + lane < size for lane in range(lanes)]
        return builder.constant(DenseIntOrFPElementsAttr.from_list(kind, [-int(known) for known in chosen]), kind)
    wide: VectorType[Any] = vector_type(i32, lanes)
    places = builder.counted(first, lanes, i32)
    sizes = builder.constant(DenseIntOrFPElementsAttr.from_list(wide, [size] * lanes), wide)
    mask = builder.pure(vector_op(arith.CmpiOp), (places, sizes), kind, _BELOW)
    if used == lanes:
        return mask
    return builder.pure(vector_op(arith.AndIOp), (mask, builder.mask(used, lanes)), kind)
