"""How bodies add up products, and which monoids a loop combines what it carries by."""

from __future__ import annotations

from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type, IntegerType
from xdsl.ir import Block, BlockArgument, Operation

from tenon.dialects.families.monoid import ADD_FLOATS, MONOIDS, Monoid, combining_op
from tenon.dialects.upstream.vector_arith import element_type_of


def product_of_sum(body: Block, accumulator: BlockArgument) -> tuple[Operation, Operation] | None:
    """The addition and the multiplication of an accumulation `accumulator + a * b` that one instruction can do."""
    op = combining_op(body, accumulator)
    if not isinstance(op, arith.AddfOp) or not isinstance(accumulator.type, Float32Type | Float64Type):
        return None
    product = next(operand.owner for operand in op.operands if operand is not accumulator)
    if isinstance(product, arith.MulfOp) and product.parent is body and product.result.has_one_use():
        return op, product
    return None


def combiners_of(loop: scf.ForOp) -> tuple[Monoid, ...] | None:
    """How each carried value is combined with one that depends on no carried value, or None if one is not."""
    body = loop.body.block
    found: list[Monoid] = []
    for carried in body.args[1:]:
        op = combining_op(body, carried)
        # A single use each rules out that one carried value reaches another's op.
        monoid = MONOIDS.get(op.name) if op is not None else None
        if isinstance(op, math.FmaOp | vector.FMAOp) and op.operands[2] is carried:
            monoid = ADD_FLOATS
        if monoid is None or not isinstance(element_type_of(carried.type), IntegerType | AnyFloat):
            return None
        found.append(monoid)
    return tuple(found)
