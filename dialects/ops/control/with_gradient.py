"""Functions that bring their gradients along, as files have them: those of ops whose definitions are not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tenon.dialects.definition.value import Value, emit
from tenon.dialects.families.control_flow import (
    Contributions,
    ControlFlowOp,
    Gradients,
    YieldOp,
    check_arguments,
    check_yield,
    float_values,
    move_before,
    or_zeros,
    yielded,
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
from tenon.dialects.types.types import element_of, is_float


@irdl_op_definition
class WithGradientOp(ControlFlowOp):
    """The values of `body`, whose arguments are `inputs`; their gradient is that of `gradient` and not of what is in
    the body. It takes the inputs and the cotangents of those results that are floats, and gives the gradients of those
    inputs that are floats.
    """

    HAS_FUNCTION: ClassVar[bool] = False
    name = "tenon.with_gradient"
    inputs = var_operand_def(TensorType[Attribute])
    outputs = var_result_def(TensorType[Attribute])
    body = region_def("single_block")
    gradient = region_def("single_block")
    traits = traits_def(Pure(), BodyTypes())

    @classmethod
    def of(cls, inputs: Sequence[SSAValue], body: Block, gradient: Block, types: Sequence[Attribute]) -> WithGradientOp:
        return cls.create(operands=inputs, result_types=types, regions=[Region(body), Region(gradient)])

    def print(self, printer: Printer) -> None:
        print_values(printer, "inputs", self.inputs)
        print_types(printer, [r.type for r in self.results])
        print_regions(printer, self, [self.body, self.gradient], "gradient")

    @classmethod
    def parse(cls, parser: Parser) -> WithGradientOp:
        inputs = parse_values(parser, "inputs")
        types = parse_types(parser)
        attributes, regions = parse_regions(parser, ["gradient"])
        return cls.create(operands=inputs, result_types=types, attributes=attributes, regions=regions)

    def verify_(self) -> None:
        inputs = [v.type for v in self.inputs]
        check_arguments(self, self.body, inputs, "body")
        check_yield(self, self.body, [r.type for r in self.results], "body")
        given = [r.type for r in float_values(list(self.results))]
        check_arguments(self, self.gradient, [*inputs, *given], "gradient")
        check_yield(self, self.gradient, [v.type for v in float_values(list(self.inputs))], "gradient")

    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        floats = float_values(list(self.results))
        given = [c for c, r in zip(cotangents, self.results, strict=True) if r in floats]
        seeds = or_zeros(given, [Value(r) for r in floats])
        arguments = [*self.inputs, *[seed.ssa for seed in seeds]]
        known: dict[SSAValue, SSAValue] = dict(zip(self.gradient.block.args, arguments, strict=True))
        for op in self.gradient.block.ops:
            if not isinstance(op, YieldOp):
                emit(op.clone(known))
        found = [Value(known[v]) for v in yielded(self.gradient)]
        return list(zip([v for v in self.inputs if is_float(element_of(v.type))], found, strict=True))

    def structured(self) -> Sequence[SSAValue]:
        return self.inlined()

    def inlined(self) -> list[SSAValue]:
        """Move the ops of the body in front of this op; the values that stand for its results."""
        return move_before(self.body, self, self.inputs)
