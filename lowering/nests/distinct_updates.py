"""Loops over updates of different elements as parallel loops.

scf.for %i = (0) to (m) {                      scf.parallel (%i, %j) = (0, 0) to (m, n) {
  scf.for %j = (0) to (n) {                      %u = memref.load %updates[%i, %j]
    %u = memref.load %updates[%i, %j]            memref.store %u, %x[%p + %i, %q + %j]
    memref.store %u, %x[%p + %i, %q + %j]      } {distinct}
  } {distinct}
} {distinct}
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.ir import Block, Operation, Region

from tenon.dialects.families.linalg_builders import DISTINCT
from tenon.lowering.loop_ir.builder import INDEX, is_pure


def in_parallel(op: Operation) -> list[Operation]:
    """What takes the place of `op`, which is in no block: a parallel loop if it is a loop marked `distinct`, or several
    such loops around each other."""
    nest = list(_nest(op))
    if not nest:
        return [op]
    bounds = [
        bound for bounds in zip(*((loop.lb, loop.ub, loop.step) for loop in nest), strict=True) for bound in bounds
    ]
    outside = [inner for loop in nest[:-1] for inner in _around_next(loop)[:-1]]
    for inner in outside:
        inner.detach()
    body = Block(arg_types=[INDEX] * len(nest))
    for loop, index in zip(nest, body.args, strict=True):
        index.name_hint = loop.body.block.args[0].name_hint
        loop.body.block.args[0].replace_all_uses_with(index)
    for inner in list(nest[-1].body.block.ops)[:-1]:
        inner.detach()
        body.add_op(inner)
    body.add_op(scf.ReduceOp.create())
    parallel = scf.ParallelOp.create(
        operands=bounds,
        properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(nest)] * 3 + [0])},
        attributes={DISTINCT: UnitAttr()},
        regions=[Region(body)],
    )
    op.erase()
    return [*outside, parallel]


def _nest(op: Operation | None) -> Iterator[scf.ForOp]:
    """The loops marked `distinct` from `op` inwards, each of which holds nothing else but pure ops that the bounds of
    the next need."""
    while isinstance(op, scf.ForOp) and DISTINCT in op.attributes:
        yield op
        index, inner = op.body.block.args[0], _around_next(op)
        if not all(is_pure(before) and index not in before.operands for before in inner[:-1]):
            return
        op = inner[-1] if inner else None


def _around_next(loop: scf.ForOp) -> list[Operation]:
    """The ops of a loop without its terminator."""
    return list(loop.body.block.ops)[:-1]
