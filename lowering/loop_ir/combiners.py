"""The associative ops that vectors can be reduced with, and where a body uses one to combine an output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type, FloatAttr, IntegerAttr, IntegerType
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Block, BlockArgument, Operation

REASSOCIATE = arith.FastMathFlagsAttr([arith.FastMathFlag.REASSOC])


@dataclass(frozen=True)
class CombiningKind:
    """An associative op: its class, its name in `vector.reduction` and the value that changes nothing."""

    op_type: type[Operation]
    attribute: CombiningKindAttr
    neutral: Callable[[int], float]
    """From the width of an integer type; ignored by floats."""

    def neutral_attribute(self, element: Attribute) -> Attribute:
        """The neutral value as a constant of type `element`."""
        if isinstance(element, IntegerType):
            return IntegerAttr(int(self.neutral(element.width.data)), element)
        assert isinstance(element, AnyFloat)
        return FloatAttr(self.neutral(0), element)

    def fastmath(self) -> dict[str, Attribute]:
        """The flags of an op that combines in another order than the loops did."""
        return {"fastmath": REASSOCIATE} if self.op_type in (arith.AddfOp, arith.MulfOp) else {}


def _all_ones(width: int) -> int:
    return 1 if width == 1 else -1


_KINDS: dict[type[Operation], tuple[CombiningKindFlag, Callable[[int], float]]] = {
    arith.AddfOp: (CombiningKindFlag.ADD, lambda _: -0.0),
    arith.MulfOp: (CombiningKindFlag.MUL, lambda _: 1.0),
    arith.MaximumfOp: (CombiningKindFlag.MAXIMUMF, lambda _: -inf),
    arith.MinimumfOp: (CombiningKindFlag.MINIMUMF, lambda _: inf),
    arith.MaxnumfOp: (CombiningKindFlag.MAXNUMF, lambda _: -inf),
    arith.MinnumfOp: (CombiningKindFlag.MINNUMF, lambda _: inf),
    arith.AddiOp: (CombiningKindFlag.ADD, lambda _: 0),
    arith.MuliOp: (CombiningKindFlag.MUL, lambda _: 1),
    arith.MaxSIOp: (CombiningKindFlag.MAXSI, lambda width: -(1 << (width - 1))),
    arith.MinSIOp: (CombiningKindFlag.MINSI, lambda width: (1 << (width - 1)) - 1),
    arith.MaxUIOp: (CombiningKindFlag.MAXUI, lambda _: 0),
    arith.MinUIOp: (CombiningKindFlag.MINUI, _all_ones),
    arith.AndIOp: (CombiningKindFlag.AND, _all_ones),
    arith.OrIOp: (CombiningKindFlag.OR, lambda _: 0),
    arith.XOrIOp: (CombiningKindFlag.XOR, lambda _: 0),
}
COMBINING_KINDS = {
    op_type: CombiningKind(op_type, CombiningKindAttr(flag), neutral) for op_type, (flag, neutral) in _KINDS.items()
}


def combining_op(body: Block, accumulator: BlockArgument) -> Operation | None:
    """The op that makes an output's next value from `accumulator`, if it is the accumulator's only use."""
    assert body.last_op is not None
    first = body.args[len(body.args) - len(body.last_op.operands)]
    op = body.last_op.operands[accumulator.index - first.index].owner
    uses = list(accumulator.uses)
    if not isinstance(op, Operation) or op.parent is not body or len(uses) != 1 or uses[0].operation is not op:
        return None
    return op if op.results[0].has_one_use() else None


def combining_kind(body: Block, accumulator: BlockArgument) -> CombiningKind | None:
    """The associative op by which `body` combines an output, or None."""
    op = combining_op(body, accumulator)
    if op is None:
        return None
    kind = next((k for op_type, k in COMBINING_KINDS.items() if isinstance(op, op_type)), None)
    if kind is None or not isinstance(accumulator.type, IntegerType | AnyFloat):
        return None
    return kind


def product_of_sum(body: Block, accumulator: BlockArgument) -> tuple[Operation, Operation] | None:
    """The addition and the multiplication of an accumulation `accumulator + a * b` that one instruction can do."""
    op = combining_op(body, accumulator)
    if not isinstance(op, arith.AddfOp) or not isinstance(accumulator.type, Float32Type | Float64Type):
        return None
    product = next(operand.owner for operand in op.operands if operand is not accumulator)
    if isinstance(product, arith.MulfOp) and product.parent is body and product.result.has_one_use():
        return op, product
    return None
