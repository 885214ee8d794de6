"""Inputs that a body widens before it does anything else with them: f16 and bf16 that are multiplied as f32.

Whoever copies such an input copies what it is widened to: then it is widened once for each copy, and not for each use.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tenon.lowering.kernels.statement import Statement

_WIDENING = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp)


@dataclass(frozen=True)
class WidenedInput:
    """The `value` of a body that an input is widened to, and the op that does so; none if it is used as it is."""

    value: SSAValue
    op: Operation | None = None

    @property
    def element_bytes(self) -> int:
        """The size of an element of `value`."""
        return -(-getattr(self.value.type, "bitwidth", 64) // 8)


def widened_input(statement: Statement, number: int) -> WidenedInput:
    """What the input `number` is to the body of `statement`."""
    argument = statement.body.args[number]
    use = argument.first_use
    if use is None or not argument.has_one_use() or not isinstance(op := use.operation, _WIDENING):
        return WidenedInput(argument)
    return WidenedInput(op.results[0], op)
