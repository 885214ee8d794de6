"""The equation that solves with a decomposition that is there anyway.

LAPACK's least squares do without singular vectors, which take most of the time of a decomposition. Their gradient
needs the decomposition, with which the equations are solved as well. The two differ in rounding.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.ops.factor.least_squares import LeastSquaresOp
from tenon.dialects.ops.factor.matrix_op import transposed
from tenon.dialects.ops.factor.singular import SvdOp, inverses
from tenon.dialects.ops.move.shape import TransposeOp
from tenon.dialects.types.types import is_static, shape_of
from tenon.passes.simplify.equation import by_class, defined_by


class SolveByVectors(RewritePattern):
    """least_squares(a, b) -> vh^T (u^T b / s) and s, where u, s, vh = svd(a) are there as well; with u^T and vh in turn
    where those of a^T are"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LeastSquaresOp, rewriter: PatternRewriter, /) -> None:
        if not all(is_static(value.type) for value in op.operands):
            return
        matrix, is_turned = op.a, False
        if not _is_decomposed(matrix):
            if (turn := defined_by(matrix, TransposeOp)) is None or not _exchanges_sides(turn):
                return
            matrix, is_turned = turn.operands[0], True
            if not _is_decomposed(matrix):
                return
        block = Block()
        with inserting(InsertionPoint(block)):
            u, s, vh = ops.svd(Value(matrix), full_matrices=False)
            left, right = (u, vh) if is_turned else (transposed(vh), transposed(u))
            weights = ops.reshape(inverses(s, Value(op.a).shape, op.settings["rtol"]), shape=(*s.shape, 1))
            x = ops.matmul(left, weights * ops.matmul(right, Value(op.b)))
        new = [*block.ops]
        for added in new:
            added.detach()
            added.location = op.location
        rewriter.replace(op, new, [x.ssa, s.ssa])


def _is_decomposed(matrix: SSAValue) -> bool:
    """Whether there are singular vectors of `matrix`."""
    users = [use.operation for use in matrix.uses]
    return any(isinstance(user, SvdOp) and not user.settings["full_matrices"] for user in users)


def _exchanges_sides(turn: TransposeOp) -> bool:
    """Whether rows become columns and nothing else moves."""
    rank, order = len(shape_of(turn.x.type) or ()), turn.settings["permutation"]
    axes = tuple(range(rank))
    return tuple(reversed(axes) if order is None else order) == (*axes[:-2], *reversed(axes[-2:]))


MATRIX_EQUATIONS = by_class([((LeastSquaresOp,), SolveByVectors())])
