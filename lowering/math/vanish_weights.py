"""`vanish-weights`: exponentials that are weights of sums alone vanish where they are too small to matter.

    m = max of x      w = exp(x - m)      s = sum of w      o = sum of w v      ->      w = exp(x - m) fastmath<afn>

Before: structured IR on tensors, an op a generic. After: the same, with the flag `afn` on exponentials of distances
from the largest element, all that becomes of which are sums along what the largest is of. One of each sum is 1, and
those that `expand-math` takes for 0 then, below the smallest normal number over the distance from 1 to the next, do not
show beside it. Subnormal numbers, and sums of products that are, take some processors a hundred times as long.

Exponentials that others find, such as the results of a softmax, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from tenon.dialects.families.iteration_space import IterationSpace
from tenon.dialects.upstream.walking import ops_of

_NOWHERE = AffineExpr.constant(-1)


class VanishWeightsPass(ModulePass):
    """The pass `vanish-weights`; see the module docstring."""

    name = "vanish-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for exp in ops_of(op, math.ExpOp):
            weights = exp.parent_op()
            if isinstance(weights, linalg.ops.GenericOp) and isinstance(exp.result.type, Float32Type | Float64Type):
                reduced = _distances_along(weights)
                if reduced and _are_summed_along(weights.results[0], reduced):
                    exp.fastmath = arith.FastMathFlagsAttr([*exp.fastmath.data, arith.FastMathFlag.APPROX_FUNC])


def _distances_along(weights: linalg.ops.GenericOp) -> set[int]:
    """The dimensions along which exponentials are of distances from the largest element; none if they are not."""
    if not _is_elementwise(weights, math.ExpOp):
        return set()
    distances = weights.inputs[0].owner
    if not isinstance(distances, linalg.ops.GenericOp) or not _is_elementwise(distances, arith.SubfOp):
        return set()
    values, largest = distances.inputs
    place = IterationSpace.of(distances).operands[1].results
    while isinstance(owner := largest.owner, linalg.ops.GenericOp) and _copies(owner):
        space = IterationSpace.of(owner)
        largest, place = owner.inputs[0], _at(space.operands[0], space.results[0], place)
    if not isinstance(owner, linalg.ops.GenericOp) or not _reduces(owner, arith.MaximumfOp):
        return set()
    space = IterationSpace.of(owner)
    kept = dict(zip(space.results[0].results, place, strict=True))
    dims = space.operands[0].results
    is_same = all(kept.get(dim, AffineExpr.dimension(n)) == AffineExpr.dimension(n) for n, dim in enumerate(dims))
    is_whole = owner.inputs[0] is values and len({*dims}) == len(dims) == space.operands[0].num_dims
    return {n for n, dim in enumerate(dims) if dim not in kept} if is_same and is_whole else set()


def _are_summed_along(weights: SSAValue, reduced: set[int]) -> bool:
    """Whether all that becomes of weights are sums along the dimensions `reduced`, of them or of their products with
    something else."""
    return all(
        isinstance(use.operation, linalg.ops.GenericOp) and _sums_along(use.operation, use.index, reduced)
        for use in weights.uses
    )


def _sums_along(op: linalg.ops.GenericOp, index: int, reduced: set[int]) -> bool:
    space, block = IterationSpace.of(op), op.body.block
    *factors, total, end = block.ops
    if index >= len(op.inputs) or len(op.results) != 1 or not isinstance(total, arith.AddfOp) or len(factors) > 1:
        return False
    if any(not isinstance(factor, arith.MulfOp) or block.args[-1] in factor.operands for factor in factors):
        return False
    element = block.args[index]
    is_once = len(list(element.uses)) == 1
    is_sum = block.args[-1] in total.operands and end.operands[0].owner is total
    places = space.operands[index].results
    kept = {*space.results[0].results}
    return is_once and is_sum and all(isinstance(places[n], AffineDimExpr) and places[n] not in kept for n in reduced)


def _at(source: AffineMap, target: AffineMap, place: Sequence[AffineExpr]) -> tuple[AffineExpr, ...]:
    """Where a copy reads what it writes at `place`."""
    loops = dict(zip(target.results, place, strict=True))
    return tuple([loops.get(index, _NOWHERE) for index in source.results])


def _computes(op: linalg.ops.GenericOp, kind: type[Operation]) -> bool:
    """Whether the body of `op` is one operation of a kind."""
    ops = list(op.body.block.ops)
    return len(op.results) == 1 and len(ops) == 2 and isinstance(ops[0], kind) and ops[1].operands[0].owner is ops[0]


def _operands(op: linalg.ops.GenericOp) -> list[SSAValue]:
    """What the first operation of the body of `op` is done to."""
    return list(next(iter(op.body.block.ops)).operands)


def _is_elementwise(op: linalg.ops.GenericOp, kind: type[Operation]) -> bool:
    """Whether `op` computes one operation of its inputs, of which it reads the first where it writes."""
    space, arguments = IterationSpace.of(op), op.body.block.args
    if not _computes(op, kind) or not all(space.parallel):
        return False
    is_same = space.operands[0] == space.results[0] == AffineMap.identity(space.results[0].num_dims)
    return is_same and _operands(op) == [*arguments[: len(op.inputs)]]


def _reduces(op: linalg.ops.GenericOp, kind: type[Operation]) -> bool:
    """Whether `op` combines the elements of its input by one operation."""
    arguments = op.body.block.args
    return _computes(op, kind) and len(op.inputs) == 1 and {*_operands(op)} == {*arguments}


def _copies(op: linalg.ops.GenericOp) -> bool:
    """Whether `op` has the elements of its input in another shape."""
    block, space = op.body.block, IterationSpace.of(op)
    is_copy = len(op.inputs) == 1 and len(block.ops) == 1 and _operands(op) == [block.args[0]]
    return is_copy and all(space.parallel) and space.results[0] == AffineMap.identity(space.results[0].num_dims)
