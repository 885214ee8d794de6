"""Checkpoints: values that the backward pass computes again instead of having them kept.

What is computed again is the region of an op, up to the structured stage: its inputs are cotangents, so that it comes
after them, ops in it are not merged with equal ones before, and no kernel reaches out of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting
from tenon.dialects.families.control_flow import (
    Contributions,
    ControlFlowOp,
    Gradients,
    YieldOp,
    check_arguments,
    check_yield,
    clone_into,
    float_values,
    move_before,
)
from tenon.dialects.families.control_flow_assembly import (
    parse_regions,
    parse_types,
    parse_values,
    print_regions,
    print_types,
    print_values,
)
from tenon.dialects.families.control_flow_types import BodyTypes
from tenon.dialects.families.regions import captured_values

RECOMPUTED = "recomputed"
"""The attribute of an op that computes again what was computed before, and must not be merged with it."""


@irdl_op_definition
class CheckpointOp(ControlFlowOp):
    """The values of `body`, whose arguments are `inputs`. Differentiation keeps what the body uses, not what is in it.

    Its pull-back is an op of this class with the attribute `recomputed`. The inputs of that one are cotangents; its
    body computes the values again, without regard to equal ones outside, and pulls the cotangents back:

        %y = tenon.checkpoint -> (T) {     %gx = tenon.checkpoint inputs(%gy : T) -> (T) attributes {recomputed} {
          %h = tenon.exp %x                ^bb0(%g: T):
          %r = tenon.tanh %h                 %h = tenon.exp %x
          tenon.yield %r                     %r = tenon.tanh %h ... tenon.yield %d
        }                                  }

    >>> tenon.grad(tenon.checkpoint(lambda x: tenon.sin(tenon.exp(x))))(0.0)
    """

    name = "tenon.checkpoint"
    inputs = var_operand_def(TensorType[Attribute])
    outputs = var_result_def(TensorType[Attribute])
    body = region_def("single_block")
    traits = traits_def(Pure(), BodyTypes())

    @classmethod
    def of(
        cls, inputs: Sequence[SSAValue], body: Block, types: Sequence[Attribute], *, recomputed: bool = False
    ) -> CheckpointOp:
        attributes = {RECOMPUTED: UnitAttr()} if recomputed else {}
        return cls.create(operands=inputs, result_types=types, regions=[Region(body)], attributes=attributes)

    @property
    def is_recomputed(self) -> bool:
        """Whether this is the backward part of a checkpoint."""
        return RECOMPUTED in self.attributes

    def print(self, printer: Printer) -> None:
        print_values(printer, "inputs", self.inputs)
        print_types(printer, [r.type for r in self.results])
        print_regions(printer, self, [self.body])

    @classmethod
    def parse(cls, parser: Parser) -> CheckpointOp:
        inputs = parse_values(parser, "inputs")
        types = parse_types(parser)
        attributes, regions = parse_regions(parser, [])
        return cls.create(operands=inputs, result_types=types, attributes=attributes, regions=regions)

    def verify_(self) -> None:
        check_arguments(self, self.body, [v.type for v in self.inputs], "body")
        check_yield(self, self.body, [r.type for r in self.results], "body")

    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        wanted = float_values(list(dict.fromkeys([*self.inputs, *captured_values(self.body)])))
        given = [c for c in cotangents if c is not None]
        block = Block(arg_types=[c.type for c in given])
        arguments = iter(block.args)
        with inserting(InsertionPoint(block)):
            outputs = clone_into(self.body, block, self.inputs)
            incoming = [None if c is None else Value(next(arguments)) for c in cotangents]
            found = gradients(outputs, incoming, [Value(v) for v in wanted])
            reached = [(v, g) for v, g in zip(wanted, found, strict=True) if g is not None]
            emit(YieldOp(*[g.ssa for _, g in reached]))
        op = emit(CheckpointOp.of([c.ssa for c in given], block, [g.type for _, g in reached], recomputed=True))
        return [(v, Value(r)) for (v, _), r in zip(reached, op.results, strict=True)]

    def structured(self) -> Sequence[SSAValue]:
        return self.inlined()

    def inlined(self) -> list[SSAValue]:
        """Move the ops of the body in front of this op; the values that stand for its results."""
        return move_before(self.body, self, self.inputs)
