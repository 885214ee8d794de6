"""How wide the lanes of a statement's vectors must be."""

from __future__ import annotations

from xdsl.dialects import arith, linalg, memref
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.lowering.kernels.statement import Statement, Stride, is_index_of, once


@once
def compute_bits(statement: Statement, loop: int | None = None) -> int:
    """The width of the widest element that the statement loads, computes with or stores in lanes along `loop`; an
    i1 is a byte in memory."""
    selection = None if loop is None else statement.selection(loop)
    if selection is not None:
        return max(32, *(_bits(v.type) for v in (selection.new, *statement.body.args[: len(statement.inputs)])))
    places = set[SSAValue]() if loop is None else _scalars(statement, loop)
    values = [
        *statement.body.args,
        *(result for op in statement.body.ops if not is_only_cast(op) and not _is_place(op) for result in op.results),
    ]
    return max(max((_bits(value.type) for value in values if value not in places), default=32), 8)


def _scalars(statement: Statement, loop: int) -> set[SSAValue]:
    """The integers that are one for all lanes along `loop`, and the numbers of type `index` that only say where a
    vector begins."""
    pairs = zip(statement.body.args, statement.accesses, strict=True)
    varying: set[SSAValue] = {argument for argument, access in pairs if access.stride(loop) is not Stride.INVARIANT}
    varying.update(statement.body.args[len(statement.inputs) :])
    scalars: set[SSAValue] = {v for v in statement.body.args if v not in varying and _is_whole(v.type)}
    for op in statement.body.ops:
        for value in op.results:
            if is_index_of(value, loop):
                varying.add(value)
                is_scalar = all(
                    isinstance(use.operation, memref.LoadOp) and use.index == len(use.operation.operands) - 1
                    for use in value.uses
                )
            elif any(operand in varying for operand in op.operands):
                varying.add(value)
                is_scalar = False
            else:
                is_scalar = _is_whole(value.type)
            if is_scalar:
                scalars.add(value)
    return scalars


def _is_whole(value_type: Attribute) -> bool:
    return isinstance(value_type, IndexType | IntegerType)


def _is_place(op: Operation) -> bool:
    """Whether `op` makes of narrower lanes the places at which they read, and nothing else: what gathers takes such."""
    return isinstance(op, arith.IndexCastOp) and all(isinstance(u.operation, memref.LoadOp) for u in op.result.uses)


def is_only_cast(op: Operation) -> bool:
    """Whether `op` is an index of which lanes are only made in another type."""
    return isinstance(op, linalg.ops.IndexOp) and all(
        isinstance(u.operation, arith.IndexCastOp) for u in op.result.uses
    )


def _bits(value_type: Attribute) -> int:
    return 64 if isinstance(value_type, IndexType) else getattr(value_type, "bitwidth", 32)
