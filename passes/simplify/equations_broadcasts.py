"""The equations of what is repeated several times."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.ops.move.shape import BroadcastToOp, ReshapeOp
from tenon.dialects.types.types import is_known, is_static, shape_of
from tenon.passes.simplify.equation import defined_by, replace_same_type


class BroadcastOfBroadcast(RewritePattern):
    """broadcast_to(broadcast_to(x)) -> broadcast_to(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastToOp, rewriter: PatternRewriter, /) -> None:
        if (inner := defined_by(op.x, BroadcastToOp)) and is_known(op.result.type):
            replace_same_type(op, rewriter, BroadcastToOp.build_from([inner.x], {"shape": shape_of(op.result.type)}))


class BroadcastOfReshaped(RewritePattern):
    """reshape(broadcast_to(reshape(broadcast_to(x)))) -> reshape(broadcast_to(reshape(x))), as where rows and columns
    are repeated

    Then what was repeated first is in memory for nobody. Other users may not need what they repeat in memory at all.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastToOp, rewriter: PatternRewriter, /) -> None:
        reshape = defined_by(op.x, ReshapeOp)
        inner = defined_by(reshape.x, BroadcastToOp) if reshape else None
        if inner is None or not all(is_static(value.type) for value in (inner.x, op.x, op.result)):
            return
        if not op.x.has_one_use() or not reshape.x.has_one_use():
            return
        if not all(isinstance(use.operation, ReshapeOp) for use in op.result.uses):
            return
        given, middle, seen, outer = (shape_of(value.type) or () for value in (inner.x, inner.result, op.x, op.result))
        parts = _common_parts(middle, seen)
        if parts is None or 0 in outer:
            return
        given = (1,) * (len(middle) - len(given)) + given
        seen = (1,) * (len(outer) - len(seen)) + seen
        missing = len(seen) - len(shape_of(op.x.type) or ())
        source: list[int] = []
        result: list[int] = []
        for axis, (size, all_of_it) in enumerate(zip(seen, outer, strict=True)):
            own = [(part, whole) for part, whole, other in parts if other + missing == axis]
            for part, whole in own if size != 1 else [(1, None)]:
                is_repeated = whole is None or given[whole] == 1
                source.append(1 if is_repeated else part)
                result.append(all_of_it if whole is None else part)
        small = ReshapeOp.build_from([inner.x], {"shape": tuple(source)})
        large = BroadcastToOp.build_from([small.result], {"shape": tuple(result)})
        replace_same_type(op, rewriter, small, large, ReshapeOp.build_from([large.result], {"shape": outer}))


def _common_parts(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """The sizes of which the dimensions of both shapes are made, outermost first, each with its dimension on either
    side; `None` where there are none. Those of size 1 do not count."""
    pending = [[(size, axis) for axis, size in reversed([*enumerate(shape)]) if size != 1] for shape in (left, right)]
    found: list[tuple[int, int, int]] = []
    while all(pending):
        (a, i), (b, j) = (side.pop() for side in pending)
        part = min(a, b)
        if max(a, b) % part:
            return None
        found.append((part, i, j))
        if a > part:
            pending[0].append((a // part, i))
        if b > part:
            pending[1].append((b // part, j))
    return None if any(pending) else found
