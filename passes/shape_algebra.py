"""The equations of tensor algebra about shapes: reshapes, broadcasts, transposes and the reductions that they meet.

They only rearrange elements, so that all are exact. No equation changes the type of a result.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.constant import ConstantOp
from tenon.dialects.families import ElementwiseOp, ReductionOp
from tenon.dialects.inference import InferenceError, broadcast, normalize_axes
from tenon.dialects.reduction import AllOp, AnyOp, MaxOp, MinOp, ProdOp, SumOp
from tenon.dialects.shape import BroadcastToOp, ReshapeOp, SliceOp, TransposeOp
from tenon.dialects.types import element_of, is_known, shape_of, tensor_type
from tenon.passes.equations import by_class, defined_by, forward, replace_same_type
from tenon.passes.fold import splat, splat_constant


class SameShape(RewritePattern):
    """reshape(x) -> x, broadcast_to(x) -> x and slice(x) -> x, where they leave x as it is"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | BroadcastToOp | SliceOp, rewriter: PatternRewriter, /) -> None:
        if op.x.type != op.result.type or not is_known(op.x.type):
            return
        # Equal shapes leave a slice no choice but the direction.
        if not isinstance(op, SliceOp) or all(stride > 0 for stride in op.settings["strides"] or ()):
            forward(op, rewriter, op.x)


class ReshapeOfReshape(RewritePattern):
    """reshape(reshape(x)) -> reshape(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /) -> None:
        if inner := defined_by(op.x, ReshapeOp):
            replace_same_type(op, rewriter, ReshapeOp.build_from([inner.x], op.settings))


class BroadcastOfBroadcast(RewritePattern):
    """broadcast_to(broadcast_to(x)) -> broadcast_to(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastToOp, rewriter: PatternRewriter, /) -> None:
        if (inner := defined_by(op.x, BroadcastToOp)) and is_known(op.result.type):
            replace_same_type(op, rewriter, BroadcastToOp.build_from([inner.x], {"shape": shape_of(op.result.type)}))


class IdentityTranspose(RewritePattern):
    """transpose(x) -> x, where the order of the axes stays"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /) -> None:
        order = axis_order(op)
        if order is not None and order == tuple(range(len(order))):
            forward(op, rewriter, op.x)


class TransposeOfTranspose(RewritePattern):
    """transpose(transpose(x)) -> transpose(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, TransposeOp)
        if inner and (outer_order := axis_order(op)) is not None and (inner_order := axis_order(inner)) is not None:
            order = tuple([inner_order[axis] for axis in outer_order])
            replace_same_type(op, rewriter, TransposeOp.build_from([inner.x], {"permutation": order}))


def axis_order(op: TransposeOp) -> tuple[int, ...] | None:
    """The axis of the operand for each axis of the result, where the rank is known."""
    shape = shape_of(op.x.type)
    return None if shape is None else TransposeOp.order(len(shape), op.settings["permutation"])


class KeepReducedDimensions(RewritePattern):
    """reshape(sum(x)) -> sum(x, keepdims), and likewise for all reductions, where it puts back what was reduced"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, ReductionOp)
        if inner is None or not op.x.has_one_use() or inner.settings["keepdims"]:
            return
        settings = {**inner.settings, "keepdims": True}
        if inner.reduced_shape(shape_of(inner.operands[0].type), settings) == shape_of(op.result.type):
            replace_same_type(op, rewriter, type(inner).build_from(list(inner.operands), settings))


class ReshapeBeforeElementwise(RewritePattern):
    """reshape(f(x)) -> f(reshape(x)), where f has scalars beside x, x was reduced, and only sizes of 1 come or go

    The reshape then meets the reduction, and no kernel ends on its account.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, ElementwiseOp)
        if inner is None or not op.x.has_one_use() or not _only_adds_ones(op) or len(inner.results) > 1:
            return
        large = [i for i, operand in enumerate(inner.operands) if shape_of(operand.type) != ()]
        if len(large) != 1 or not _comes_from_reduction(inner.operands[large[0]]):
            return
        reshape = ReshapeOp.build_from([inner.operands[large[0]]], op.settings)
        operands = list(inner.operands)
        operands[large[0]] = reshape.results[0]
        moved = type(inner).build_from(inner.group(operands, inner.properties), inner.settings)
        replace_same_type(op, rewriter, reshape, moved)


def _only_adds_ones(op: ReshapeOp) -> bool:
    before, after = shape_of(op.x.type), shape_of(op.result.type)
    if before is None or after is None or -1 in before or len(after) < len(before):
        return False
    return [size for size in before if size != 1] == [size for size in after if size != 1]


def _comes_from_reduction(value: SSAValue) -> bool:
    """Whether a chain of elementwise ops, each used once, leads from a reduction to `value`."""
    while value.has_one_use() and isinstance(value.owner, Operation):
        if isinstance(value.owner, ReductionOp):
            return True
        large = [operand for operand in value.owner.operands if shape_of(operand.type) != ()]
        if not isinstance(value.owner, ElementwiseOp) or len(large) != 1:
            return False
        value = large[0]
    return False


class ReduceNothing(RewritePattern):
    """sum(x) -> reshape(x), and likewise for prod, max, min, any and all, where each element is alone"""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: SumOp | ProdOp | MaxOp | MinOp | AnyOp | AllOp, rewriter: PatternRewriter, /
    ) -> None:
        shape, target = shape_of(op.operands[0].type), shape_of(op.results[0].type)
        if shape is None or target is None or element_of(op.operands[0].type) != element_of(op.results[0].type):
            return
        if all(shape[axis] == 1 for axis in normalize_axes(op.settings["axis"], len(shape))):
            replace_same_type(op, rewriter, ReshapeOp.build_from([op.operands[0]], {"shape": target}))


class BroadcastIsImplied(RewritePattern):
    """f(broadcast_to(x), y) -> f(x, y), where y gives the shape; a repeated constant becomes a scalar"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        target = shape_of(op.results[0].type)
        if len(op.operands) < 2 or target is None or not is_known(op.results[0].type):
            return
        for index, operand in enumerate(op.operands):
            smaller = _before_broadcast(operand)
            if smaller is None:
                continue
            operands = [smaller if i == index else value for i, value in enumerate(op.operands)]
            try:
                shape = broadcast(("", shape_of(value.type)) for value in operands)
            except InferenceError:
                continue
            if shape == target:
                if isinstance(smaller.owner, ConstantOp) and smaller.owner.parent is None:
                    rewriter.insert(smaller.owner)
                op.operands = operands
                rewriter.notify_op_modified(op)
                # The broadcast may be dead now.
                assert isinstance(operand.owner, Operation)
                rewriter.notify_op_modified(operand.owner)
                return


def _before_broadcast(value: SSAValue) -> SSAValue | None:
    if isinstance(value.owner, BroadcastToOp):
        return value.owner.x
    if isinstance(value.owner, ConstantOp) and shape_of(value.type) != () and (number := splat(value)) is not None:
        return splat_constant(number, tensor_type((), element_of(value.type))).results[0]
    return None


SHAPE_EQUATIONS = by_class(
    [
        ((ReshapeOp, BroadcastToOp, SliceOp), SameShape()),
        ((ReshapeOp,), ReshapeOfReshape()),
        ((ReshapeOp,), KeepReducedDimensions()),
        ((ReshapeOp,), ReshapeBeforeElementwise()),
        ((BroadcastToOp,), BroadcastOfBroadcast()),
        ((TransposeOp,), IdentityTranspose()),
        ((TransposeOp,), TransposeOfTranspose()),
        ((SumOp, ProdOp, MaxOp, MinOp, AnyOp, AllOp), ReduceNothing()),
        ((ElementwiseOp,), BroadcastIsImplied()),
    ]
)
"""The equations by the class of the op that stands outermost on their left side."""
