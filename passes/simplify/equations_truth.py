"""The equations of truth values, and of what they choose, that `canonicalize` applies from left to right."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.control_flow import CondOp
from tenon.dialects.ops.elementwise.comparison import BitwiseAndOp, BitwiseNotOp, BitwiseOrOp, LogicalNotOp, SelectOp
from tenon.dialects.types.types import (
    element_of,
    is_bool,
)
from tenon.passes.simplify.equation import by_class, defined_by, forward, is_number, replace_same_type
from tenon.passes.simplify.fold import splat


class AndTruth(RewritePattern):
    """x & true -> x, x & false -> false, x | false -> x and x | true -> true, on truth values"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BitwiseAndOp | BitwiseOrOp, rewriter: PatternRewriter, /) -> None:
        known = splat(op.y)
        if known is not None and is_bool(element_of(op.y.type)):
            forward(op, rewriter, op.x if bool(known) == isinstance(op, BitwiseAndOp) else op.y)


class DoubleNot(RewritePattern):
    """not(not(x)) -> x, for truth values and bits"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BitwiseNotOp | LogicalNotOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, BitwiseNotOp, LogicalNotOp)
        if inner and (type(op) is type(inner) is BitwiseNotOp or is_bool(element_of(inner.x.type))):
            forward(op, rewriter, inner.x)


class SelectKnown(RewritePattern):
    """select(true, x, y) -> x, select(false, x, y) -> y and select(c, x, x) -> x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        known = splat(op.condition)
        if op.x is op.y or known is not None:
            forward(op, rewriter, op.x if op.x is op.y or bool(known) else op.y)


class SelectTruth(RewritePattern):
    """select(c, true, false) -> c"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        if is_bool(element_of(op.result.type)) and is_number(op.x, 1) and is_number(op.y, 0):
            forward(op, rewriter, op.condition)


class SelectByOpposite(RewritePattern):
    """select(not(c), x, y) -> select(c, y, x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        opposite = defined_by(op.condition, BitwiseNotOp, LogicalNotOp)
        if opposite and is_bool(element_of(opposite.x.type)):
            replace_same_type(op, rewriter, SelectOp.build_from([opposite.x, op.y, op.x], {}))


class CondKnown(RewritePattern):
    """cond(true, a, b) -> a and cond(false, a, b) -> b"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CondOp, rewriter: PatternRewriter, /) -> None:
        known = splat(op.predicate)
        if known is None:
            return
        block = (op.then if bool(known) else op.otherwise).block
        terminator = block.last_op
        assert isinstance(terminator, YieldOp)
        results = list(terminator.operands)
        if [value.type for value in results] == [result.type for result in op.results]:
            rewriter.erase(terminator)
            rewriter.inline_block(block, InsertPoint.before(op))
            rewriter.replace(op, (), results)


class CheckpointUnused(RewritePattern):
    """A checkpoint computes only what is used of it: not the gradients of what is not differentiated."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CheckpointOp, rewriter: PatternRewriter, /) -> None:
        used = [position for position, result in enumerate(op.results) if result.first_use is not None]
        if len(used) == len(op.results):
            return
        terminator = op.body.block.last_op
        assert isinstance(terminator, YieldOp)
        rewriter.replace(terminator, YieldOp(*[terminator.operands[position] for position in used]), [])
        block = op.body.detach_block(0)
        types = [op.results[position].type for position in used]
        new = CheckpointOp.of(list(op.inputs), block, types, recomputed=op.is_recomputed)
        results = iter(new.results)
        rewriter.replace(op, new, [next(results) if position in used else None for position in range(len(op.results))])


TRUTH_EQUATIONS = by_class(
    [
        ((BitwiseAndOp, BitwiseOrOp), AndTruth()),
        ((BitwiseNotOp, LogicalNotOp), DoubleNot()),
        ((SelectOp,), SelectKnown()),
        ((SelectOp,), SelectTruth()),
        ((SelectOp,), SelectByOpposite()),
        ((CondOp,), CondKnown()),
        ((CheckpointOp,), CheckpointUnused()),
    ]
)
