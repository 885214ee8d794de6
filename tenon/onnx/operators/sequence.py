"""Sequences and optionals. Both are decided while importing: a sequence is a list of tensors, whose length is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import NOTHING, Content, Node, Nothing, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.shape import sliced

_LONGEST_SEQUENCE = 10_000
"""Longer ones are refused: every element is a tensor of its own in what is compiled."""


def _sequence(node: Node, tensors: Sequence[Operand]) -> list[Operand]:
    """A sequence of these tensors, which are of one dtype."""
    if len(dtypes := {tensor.dtype: None for tensor in tensors}) > 1:
        raise OnnxError(
            f"{node.where}: tensors of a sequence are of one dtype, and these are {', '.join(map(str, dtypes))}"
        )
    if len(tensors) > _LONGEST_SEQUENCE:
        raise OnnxError(f"{node.where}: makes a sequence of {len(tensors)} tensors, more than {_LONGEST_SEQUENCE}")
    return list(tensors)


def _position(node: Node, position: Operand, length: int, *, is_end_included: bool = False) -> int:
    """A known position in a sequence; negative ones count from its end."""
    given = int(node.number(position, "position"))
    if not -length <= given < length + is_end_included:
        raise OnnxError(f"{node.where}: position {given} is outside of a sequence of {length}")
    return given + length if given < 0 else given


@operator("SequenceConstruct", since=11)
def sequence_construct(node: Node, *tensors: Operand) -> list[Operand]:
    return _sequence(node, tensors)


@operator("SequenceEmpty", since=11)
def sequence_empty(node: Node) -> list[Operand]:
    return []


@operator("SequenceAt", since=11)
def sequence_at(node: Node, sequence: list[Operand], position: Operand) -> Operand:
    return sequence[_position(node, position, len(sequence))]


@operator("SequenceInsert", since=11)
def sequence_insert(node: Node, sequence: list[Operand], tensor: Operand, position: Operand | None = None) -> Any:
    """With the tensor before the one at `position`, or behind all of them."""
    length = len(sequence)
    place = length if position is None else _position(node, position, length, is_end_included=True)
    return _sequence(node, [*sequence[:place], tensor, *sequence[place:]])


@operator("SequenceErase", since=11)
def sequence_erase(node: Node, sequence: list[Operand], position: Operand | None = None) -> list[Operand]:
    """Without the tensor at `position`, or without the last one."""
    place = len(sequence) - 1 if position is None else _position(node, position, len(sequence))
    if not sequence:
        raise OnnxError(f"{node.where}: the sequence is empty")
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("SequenceLength", since=11)
def sequence_length(node: Node, sequence: list[Operand]) -> np.ndarray[Any, Any]:
    return np.asarray(len(sequence), np.int64)


@operator("SplitToSequence", since=11)
def split_to_sequence(node: Node, x: Operand, split: Operand | None = None) -> list[Operand]:
    """`split` has the sizes along the axis, or, of rank 0, the one of all but the last part; without it, they are 1."""
    axis = normalize_axis(node.attribute("axis", 0), x.ndim)
    whole = node.shape(x)[axis]
    if split is not None and split.ndim:
        sizes = node.integers(split, "split") or []
        if sum(sizes) != whole or min(sizes, default=0) < 0:
            raise OnnxError(f"{node.where}: parts of sizes {sizes} do not make up dimension {axis}, which is {whole}")
    else:
        each = 1 if split is None else int(node.number(split, "split"))
        if each < 1:
            raise OnnxError(f"{node.where}: parts of size {each}")
        count = -(-whole // each)
        sizes = [min(each, whole - part * each) for part in range(min(count, _LONGEST_SEQUENCE + 1))]
    # Refused, where it is too long, before anything is computed.
    _sequence(node, [x] * len(sizes))
    ends = [int(end) for end in np.cumsum(sizes, dtype=np.int64)]
    parts: list[Any] = [sliced(x, {axis: slice(end - size, end)}) for end, size in zip(ends, sizes, strict=True)]
    is_squeezed = split is None and not node.attribute("keepdims", 1)
    return [ops.squeeze(part, axis=axis) for part in parts] if is_squeezed else parts


@operator("ConcatFromSequence", since=11)
def concat_from_sequence(node: Node, sequence: list[Operand]) -> Any:
    """The tensors one behind the other, along an axis of theirs or along a new one."""
    if not sequence:
        raise OnnxError(f"{node.where}: the sequence is empty, so that the shape of the result is not known")
    joined = ops.stack if node.attribute("new_axis", 0) else ops.concatenate
    return joined(tuple(sequence), axis=node.required("axis"))


@operator("Optional", since=15)
def optional(node: Node, value: Content | None = None) -> Content:
    return NOTHING if value is None else value


@operator("OptionalHasElement", since=15)
def optional_has_element(node: Node, value: Content | None = None) -> np.ndarray[Any, Any]:
    return np.asarray(value is not None and value is not NOTHING)


@operator("OptionalGetElement", since=15)
def optional_get_element(node: Node, value: Content) -> Content:
    if isinstance(value, Nothing):
        raise OnnxError(f"{node.where}: the optional is empty")
    return value
