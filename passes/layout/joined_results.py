"""Concatenations of what contractions give: each result is written where it goes, and none is copied.

    z = concatenate(contract(a), contract(b))
    -> z0 = empty;  z1 = insert contract(a) into z0 at 0;  z = insert contract(b) into z1 at its place

It is done where each part is one piece of memory of the whole: there is nothing but axes of size 1 in front of the one
along which parts are joined. What bufferizes insertions has a part in the memory of the whole
(`lowering/buffers/storage_assignment.py`).
"""

from __future__ import annotations

from itertools import accumulate

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tenon.dialects.families import ContractionOp
from tenon.dialects.ops.move.joining import ConcatenateOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import is_static, shape_of


def join_in_place(block: Block) -> None:
    """Insert the results of contractions into what a concatenation in `block` makes of them."""
    for op in [op for op in block.ops if isinstance(op, ConcatenateOp)]:
        if _joins_results(op):
            _insert_each(block, op)


def _joins_results(op: ConcatenateOp) -> bool:
    """Whether `op` joins results of contractions of its block, that nothing else uses, as pieces of memory."""
    if not all(is_static(value.type) for value in (*op.operands, *op.results)) or len(op.operands) < 2:
        return False
    shape = shape_of(op.results[0].type) or ()
    axis = normalize_axis(op.settings["axis"], len(shape))
    return set(shape[:axis]) <= {1} and 0 not in shape and all(_is_result(value, op.parent) for value in op.operands)


def _is_result(value: SSAValue, block: Block | None) -> bool:
    if not value.has_one_use():
        return False
    op = value.owner
    if isinstance(op, ReshapeOp):
        return _is_result(op.x, block)
    return isinstance(op, ContractionOp) and op.parent is block


def _insert_each(block: Block, op: ConcatenateOp) -> None:
    """Replace `op` by insertions, each right behind what is inserted."""
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    axis = normalize_axis(op.settings["axis"], len(type_.get_shape()))
    sizes = [(shape_of(value.type) or ())[axis] for value in op.operands]
    places = dict(zip(op.operands, accumulate(sizes, initial=0), strict=False))
    for part in op.operands:
        _put_behind_result(_owner(part))
    order = {other: number for number, other in enumerate(block.ops)}
    parts = sorted(op.operands, key=lambda value: order[_owner(value)])
    whole: Operation = tensor.EmptyOp((), type_)
    block.insert_op_before(whole, _result_of(_owner(parts[0])))
    for part in parts:
        offsets = [places[part] if i == axis else 0 for i in range(len(type_.get_shape()))]
        inserted = tensor.InsertSliceOp.build(
            operands=[part, whole.results[0], [], [], []],
            result_types=[type_],
            properties={
                "static_offsets": DenseArrayBase.from_list(i64, offsets),
                "static_sizes": DenseArrayBase.from_list(i64, list(shape_of(part.type) or ())),
                "static_strides": DenseArrayBase.from_list(i64, [1] * len(offsets)),
            },
        )
        inserted.location = op.location
        block.insert_op_after(inserted, _owner(part))
        whole = inserted
    op.results[0].replace_all_uses_with(whole.results[0])
    Rewriter.erase_op(op)


def _result_of(op: Operation) -> Operation:
    """The contraction whose result `op` is, or reshapes."""
    return _result_of(_owner(op.x)) if isinstance(op, ReshapeOp) else op


def _put_behind_result(op: Operation) -> None:
    """Put reshapes of a result right behind the contraction that gives it, in front of the next one."""
    if isinstance(op, ReshapeOp):
        inner = _owner(op.x)
        _put_behind_result(inner)
        op.detach()
        assert inner.parent is not None
        inner.parent.insert_op_after(op, inner)


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner
