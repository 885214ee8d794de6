"""Operands that are widened for a contraction alone: Y = cast(A, i32) @ cast(B, i32), where A and B hold i8.

Processors multiply such numbers as they are and add the products up in wider ones, if they find them side by side. So
the kernel of a contraction has the casts of both operands inside, whatever else uses them, and reads what is narrow,
which takes less memory, too.

While groups are formed, the contraction has the narrow values as operands; `restored` puts casts back.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.types.types import element_of

Widened = dict[Operation, Attribute]
"""By contraction the element that its operands are cast to."""


def take_narrow_operands(block: Block, *, halves: bool = False) -> Widened:
    """Let the contractions of `block` read what was widened for them, and erase casts that nothing needs then. With
    `halves`, the processor multiplies f16 as well, and what was reshaped in between may be, too."""
    found: Widened = {}
    replaced: dict[Operation, None] = {}
    for op in block.ops:
        if not isinstance(op, ContractionOp) or len(op.operands) != 2:
            continue
        if halves:
            op.operands = [_cast_last(operand, op, replaced) for operand in op.operands]
        owners = [
            owner for operand in op.operands if isinstance(owner := operand.owner, CastOp) and _widens(owner, halves)
        ]
        if len(owners) == 2:
            found[op] = element_of(owners[0].result.type)
            op.operands = [cast.x for cast in owners]
            replaced.update(dict.fromkeys(owners))
    for old in replaced:
        if old.results[0].first_use is None:
            Rewriter.erase_op(old)
    return found


def _cast_last(operand: SSAValue, user: Operation, replaced: dict[Operation, None]) -> SSAValue:
    """A reshape of a cast that widens as a cast of a reshape; what this takes the place of is `replaced`, users
    first."""
    reshape = operand.owner
    if not isinstance(reshape, ReshapeOp) or not isinstance(cast := reshape.operands[0].owner, CastOp):
        return operand
    if not _widens(cast, True):
        return operand
    assert user.parent is not None
    replaced.update({reshape: None, cast: None})
    moved = ReshapeOp.build_from([cast.x], dict(reshape.settings))
    last = CastOp.build_from([moved.results[0]], {"dtype": element_of(operand.type)})
    for new in (moved, last):
        new.location = reshape.location
        user.parent.insert_op_before(new, user)
    return last.results[0]


def _widens(cast: CastOp, halves: bool) -> bool:
    narrow, wide = element_of(cast.x.type), element_of(cast.result.type)
    if isinstance(narrow, BFloat16Type) or (halves and isinstance(narrow, Float16Type)):
        return isinstance(wide, Float32Type)
    return isinstance(narrow, IntegerType) and narrow.width.data == 8 and wide == i32


def restored(op: Operation, widened: Widened) -> list[Operation]:
    """`op`, behind casts of its own if its operands are narrow."""
    wide = widened.get(op)
    if wide is None:
        return [op]
    assert op.parent is not None
    own: dict[SSAValue, TensorOp] = {}
    for narrow in dict.fromkeys(op.operands):
        cast = own[narrow] = CastOp.build_from([narrow], {"dtype": wide})
        cast.location = op.location
        op.parent.insert_op_before(cast, op)
    op.operands = [own[narrow].results[0] for narrow in op.operands]
    return [*own.values(), op]
