"""The equations of tensor algebra about shapes: reshapes, broadcasts, transposes and the reductions that they meet.

They only rearrange elements, so that all are exact, but for the sign of zeros in `SumOfPads`. No equation changes the
type of a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.families import ContractionOp, ElementwiseOp, ReductionOp
from tenon.dialects.ops.elementwise.arithmetic import AddOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.joining import ConcatenateOp
from tenon.dialects.ops.move.padding import PadOp
from tenon.dialects.ops.move.shape import BroadcastToOp, ReshapeOp, TransposeOp
from tenon.dialects.ops.move.slicing import FlipOp, SliceOp
from tenon.dialects.ops.reduce.reduction import AllOp, AnyOp, MaxOp, MinOp, ProdOp, SumOp
from tenon.dialects.types.shapes import InferenceError, Shape, broadcast, normalize_axes
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import element_of, is_known, is_static, shape_of, tensor_type
from tenon.passes.simplify.equation import by_class, defined_by, forward, replace_same_type
from tenon.passes.simplify.equations_broadcasts import BroadcastOfBroadcast, BroadcastOfReshaped
from tenon.passes.simplify.fold import splat, splat_constant


class SameShape(RewritePattern):
    """reshape(x) -> x, broadcast_to(x) -> x, slice(x) -> x and flip(x) -> x, where they leave x as it is"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | BroadcastToOp | SliceOp | FlipOp, rewriter: PatternRewriter, /) -> None:
        if op.x.type != op.result.type or not is_known(op.x.type):
            return
        shape = shape_of(op.x.type) or ()
        if isinstance(op, FlipOp) and any(shape[axis] != 1 for axis in normalize_axes(op.settings["axis"], len(shape))):
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


class ConcatenateOne(RewritePattern):
    """concatenate([x]) -> x, as where one array is all indices of a subscript"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatenateOp, rewriter: PatternRewriter, /) -> None:
        if len(op.operands) == 1 and op.operands[0].type == op.results[0].type:
            forward(op, rewriter, op.operands[0])


class SliceOfPadded(RewritePattern):
    """slice(pad(x)) -> pad(x), by less, or slice(x), where elementwise ops use a range of what is padded with a number

    Then neighbours are read from x itself, and what is padded is in memory for nobody.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, PadOp)
        if inner is None or inner.settings["mode"] != "constant" or any(s != 1 for s in op.settings["strides"] or ()):
            return
        sizes, padded = shape_of(inner.x.type), shape_of(op.x.type)
        if not is_static(inner.x.type) or not all(isinstance(use.operation, ElementwiseOp) for use in op.result.uses):
            return
        assert sizes is not None
        assert padded is not None
        given = zip(inner.settings["low"], inner.settings["high"], strict=True)
        asked = zip(op.settings["starts"], op.settings["limits"], padded, strict=True)
        ends = [(a - start, b + limit - size) for (a, b), (start, limit, size) in zip(given, asked, strict=True)]
        if any(size + min(a, 0) + min(b, 0) <= 0 for (a, b), size in zip(ends, sizes, strict=True)):
            return
        low, high = zip(*ends, strict=True)
        if max(*low, *high) > 0:
            replace_same_type(op, rewriter, PadOp.build_from([inner.x], {**inner.settings, "low": low, "high": high}))
            return
        limits = tuple([size + b for size, b in zip(sizes, high, strict=True)])
        settings = {"starts": tuple([-a for a in low]), "limits": limits}
        replace_same_type(op, rewriter, SliceOp.build_from([inner.x], settings))


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


class ElementwiseBeforeReshape(RewritePattern):
    """f(reshape(c), y) -> reshape(f(c, reshape(y))), where c comes from a contraction

    What follows a contraction then runs over its loops, and in its kernel: the bias and the activation behind a
    convolution, which is a matrix product over all places of an image.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        if len(op.results) > 1 or not is_known(op.results[0].type):
            return
        target = shape_of(op.results[0].type)
        reshaped = [_behind_contraction(operand, target) for operand in op.operands]
        first = next(filter(None, reshaped), None)
        if first is None or target is None or 0 in target:
            return
        source = shape_of(first.x.type)
        assert source is not None
        shapes = [
            source if inner else _shape_before(operand, source, target)
            for operand, inner in zip(op.operands, reshaped, strict=True)
        ]
        if None in shapes or source == target:
            return
        given = [operand if inner is None else inner.x for operand, inner in zip(op.operands, reshaped, strict=True)]
        changed = [
            None if shape_of(operand.type) == shape else ReshapeOp.build_from([operand], {"shape": shape})
            for operand, shape in zip(given, shapes, strict=True)
        ]
        operands = [
            operand if change is None else change.results[0] for operand, change in zip(given, changed, strict=True)
        ]
        moved = type(op).build_from(op.group(operands, op.properties), op.settings)
        last = ReshapeOp.build_from([moved.results[0]], {"shape": target})
        replace_same_type(op, rewriter, *[change for change in changed if change is not None], moved, last)


def _behind_contraction(value: SSAValue, target: Shape) -> ReshapeOp | None:
    """The reshape that `value` is of what a contraction gave, each used once on the way, if its shape is `target`.

    A contraction that is repeated along the way does not count: `ReshapeBeforeElementwise` would move the reshape back.
    """
    op = defined_by(value, ReshapeOp)
    if op is None or shape_of(value.type) != target or not is_known(op.x.type) or not value.has_one_use():
        return None
    pending = [op.x]
    while pending:
        current = pending.pop()
        if not current.has_one_use() or not isinstance(current.owner, Operation):
            continue
        if isinstance(current.owner, ContractionOp):
            return op
        if isinstance(current.owner, ElementwiseOp):
            pending += [operand for operand in current.owner.operands if operand.type == op.x.type]
    return None


def _shape_before(value: SSAValue, source: tuple[int, ...], target: tuple[int, ...]) -> Shape:
    """The shape that makes of `value`, which is broadcast to `target`, what is broadcast to `source`; `None` where
    there is none, or where it would part `value` from what computes it."""
    shape = shape_of(value.type)
    if shape is None or shape == ():
        return shape
    is_large = shape == target
    if is_large:
        is_kept = isinstance(value.owner, Block | ConstantOp | ReshapeOp) or not value.has_one_use()
        return source if is_kept else None
    shape = (1,) * (len(target) - len(shape)) + shape
    found: list[int] = []
    for before, after in _groups(source, target):
        sizes, full = [shape[axis] for axis in after], [target[axis] for axis in after]
        if sizes == full:
            found += [source[axis] for axis in before]
        elif prod(sizes) == 1:
            found += [1] * len(before)
        else:
            return None
    return tuple(found)


def _groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The axes of two shapes of as many elements, in the smallest groups of neighbours that have as many elements."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        before, after = [], []
        left = right = 1
        while not (before or after) or left != right:
            if i < len(source) and (estimate(left) <= estimate(right) or j == len(target)):
                left *= source[i]
                before.append(i)
                i += 1
            else:
                right *= target[j]
                after.append(j)
                j += 1
        groups.append((before, after))
    return groups


class ReduceNothing(RewritePattern):
    """sum(x) -> reshape(x), and likewise for prod, max, min, any and all, where each element is alone

    -0.0 stays what it is then, where a sum that begins with 0.0 gives 0.0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: SumOp | ProdOp | MaxOp | MinOp | AnyOp | AllOp, rewriter: PatternRewriter, /
    ) -> None:
        shape, target = shape_of(op.operands[0].type), shape_of(op.results[0].type)
        if shape is None or target is None or element_of(op.operands[0].type) != element_of(op.results[0].type):
            return
        if target.count(-1) > 1:  # a reshape computes one size
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


class SumOfPads(RewritePattern):
    """pad(x) + pad(y) + ... -> concatenate(x, y, ...), where each adds its elements to zeros of all others

    Such is the gradient of what was split, by slices. A zero that was -0 + 0 is -0 then.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        pads, pending = list[PadOp](), list[SSAValue]([op.result])
        while pending:
            value = pending.pop()
            inner = value.owner
            if isinstance(inner, AddOp) and (inner is op or value.has_one_use()):
                pending += inner.operands
            elif isinstance(inner, PadOp) and value.type == op.result.type and is_static(value.type):
                pads.append(inner)
            else:
                return
        axes = {axis for pad in pads for axis in padded_axes(pad)}
        if len(axes) != 1:
            return
        (axis,) = axes
        pads.sort(key=lambda pad: pad.settings["low"][axis])
        end = 0
        for pad in pads:
            if pad.settings["low"][axis] != end:
                return
            end += (shape_of(pad.x.type) or ())[axis]
        if end == (shape_of(op.result.type) or ())[axis]:
            replace_same_type(op, rewriter, ConcatenateOp.build_from([tuple([pad.x for pad in pads])], {"axis": axis}))


def padded_axes(pad: PadOp) -> Sequence[int]:
    """The axes along which `pad` adds zeros; more than there are if it does otherwise."""
    low, high = pad.settings["low"], pad.settings["high"]
    rank = len(low)
    if pad.settings["mode"] != "constant" or pad.settings["value"] != 0 or min((*low, *high), default=0) < 0:
        return range(rank + 1)
    return [axis for axis in range(rank) if low[axis] or high[axis]]


SHAPE_EQUATIONS = by_class(
    [
        ((ReshapeOp, BroadcastToOp, SliceOp, FlipOp), SameShape()),
        ((ReshapeOp,), ReshapeOfReshape()),
        ((ReshapeOp,), KeepReducedDimensions()),
        ((ReshapeOp,), ReshapeBeforeElementwise()),
        ((BroadcastToOp,), BroadcastOfBroadcast()),
        ((BroadcastToOp,), BroadcastOfReshaped()),
        ((ConcatenateOp,), ConcatenateOne()),
        ((SliceOp,), SliceOfPadded()),
        ((TransposeOp,), IdentityTranspose()),
        ((TransposeOp,), TransposeOfTranspose()),
        ((SumOp, ProdOp, MaxOp, MinOp, AnyOp, AllOp), ReduceNothing()),
        ((ElementwiseOp,), BroadcastIsImplied()),
        ((ElementwiseOp,), ElementwiseBeforeReshape()),
        ((AddOp,), SumOfPads()),
    ]
)
"""The equations by the class of the op that stands outermost on their left side."""
