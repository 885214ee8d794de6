"""What it costs to compute an element again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation

from tenon.dialects.definition.value import InsertionPoint, inserting
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.types.types import element_of

MOST_CHEAP_OPS = 4
"""Of a body that may be computed several times."""

_CASTS = (
    arith.BitcastOp,
    arith.ExtFOp,
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.IndexCastOp,
    arith.SIToFPOp,
    arith.TruncFOp,
    arith.TruncIOp,
    arith.UIToFPOp,
)
_DIVISIONS = (
    arith.CeilDivSIOp,
    arith.CeilDivUIOp,
    arith.DivfOp,
    arith.DivSIOp,
    arith.DivUIOp,
    arith.FloorDivSIOp,
    arith.RemSIOp,
    arith.RemUIOp,
)
_FREE = (arith.ConstantOp, linalg.ops.IndexOp, linalg.ops.YieldOp, *_CASTS)


def counted(body: Iterable[Operation]) -> list[Operation]:
    """The ops of a body that cost something."""
    return [op for op in body if not isinstance(op, _FREE)]


def is_cheap(body: Iterable[Operation]) -> bool:
    """Whether a body is a few ops of arithmetic, none of them a division."""
    ops = counted(body)
    return len(ops) <= MOST_CHEAP_OPS and all(
        op.name.startswith("arith.") and not isinstance(op, _DIVISIONS) for op in ops
    )


_CHEAP: dict[Hashable, bool] = {}


def is_cheap_op(op: ElementwiseOp) -> bool:
    """Whether the body of `op` is cheap; it is written out once for each kind of op."""
    elements = [element_of(value.type) for value in (*op.operands, *op.results)]
    key = (type(op), tuple(elements), frozenset(op.properties.items()))
    known = _CHEAP.get(key)
    if known is None:
        scalars = [TensorType(element, []) for element in elements]
        block = Block(arg_types=scalars[: len(op.operands)])
        alike = type(op).create(
            operands=block.args, result_types=scalars[len(op.operands) :], properties=dict(op.properties)
        )
        block.add_op(alike)
        with inserting(InsertionPoint(block)):
            alike.structured(alike.grouped_operands())
        body = [inner for outer in block.ops for inner in outer.walk() if inner is not outer]
        known = _CHEAP[key] = is_cheap(body)
    return known
