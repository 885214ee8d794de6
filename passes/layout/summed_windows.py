"""Sums of windows as contractions of one operand, which share their loops with what is done to each of their elements:
a mean is divided where its sum is, and is in memory once."""

from __future__ import annotations

from xdsl.ir import Block
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.ops.contract.sliding import WindowSumOp
from tenon.dialects.types.types import element_of, is_float, is_static, shape_of


def contract_sums(block: Block) -> None:
    """Put contractions into the place of the sums of windows of floats in `block`."""
    for op in [op for op in block.ops if isinstance(op, WindowSumOp)]:
        (x,) = op.operands
        if not is_static(x.type) or not is_float(element_of(x.type)):
            continue
        loops = op.loops([shape_of(x.type)], op.settings)
        with inserting(InsertionPoint(block, op)):
            maps = (*loops.operands, loops.result_map)
            summed = ops.contract((Value(x),), maps=maps, extents=loops.extents, shape=loops.result_shape)
        Rewriter.replace_op(op, [], [summed.ssa])
