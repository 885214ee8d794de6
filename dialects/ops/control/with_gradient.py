"""Functions that bring their gradients along: those that users give one, and, in files, those of ops whose definitions
are not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, opt_region_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tenon.dialects.definition.traits import GradientError
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
from tenon.dialects.support.location import at_line
from tenon.dialects.types.types import element_of, is_float


@irdl_op_definition
class WithGradientOp(ControlFlowOp):
    """The values of `body`, whose arguments are `inputs`; their gradient is that of `gradient` and not of what is in
    the body. It takes the inputs and the cotangents of those results that are floats, and gives the gradients of those
    inputs that are floats. Without one there is no gradient; the attribute `refused` says why, where its rule failed.
    """

    HAS_FUNCTION: ClassVar[bool] = False
    name = "tenon.with_gradient"
    inputs = var_operand_def(TensorType[Attribute])
    outputs = var_result_def(TensorType[Attribute])
    body = region_def("single_block")
    gradient = opt_region_def("single_block")
    traits = traits_def(Pure(), BodyTypes())

    @classmethod
    def of(
        cls,
        inputs: Sequence[SSAValue],
        body: Block,
        gradient: Block | None,
        types: Sequence[Attribute],
        refused: StringAttr | None = None,
    ) -> WithGradientOp:
        regions = [Region(body)] if gradient is None else [Region(body), Region(gradient)]
        attributes = {} if refused is None else {"refused": refused}
        return cls.create(operands=inputs, result_types=types, regions=regions, attributes=attributes)

    def refuse(self, function: str, error: Exception) -> None:
        """Let whoever asks for the gradient meet `error`, with which the rule of `function` failed; of copies of this
        op, and in text, its first line is known."""
        vars(self)["error"] = error
        line = f"{type(error).__name__}: {error}".partition("\n")[0]
        self.attributes["refused"] = StringAttr(f"{function}: its rule failed: {line}")

    @property
    def refused(self) -> StringAttr | None:
        """Why there is no gradient, where the rule for it failed."""
        said = self.attributes.get("refused")
        return said if isinstance(said, StringAttr) else None

    def print(self, printer: Printer) -> None:
        print_values(printer, "inputs", self.inputs)
        print_types(printer, [r.type for r in self.results])
        print_regions(printer, self, self.regions, "gradient")

    @classmethod
    def parse(cls, parser: Parser) -> WithGradientOp:
        inputs = parse_values(parser, "inputs")
        types = parse_types(parser)
        attributes, regions = parse_regions(parser, [])
        if parser.parse_optional_keyword("gradient") is not None:
            regions += parse_regions(parser, [])[1]
        return cls.create(operands=inputs, result_types=types, attributes=attributes, regions=regions)

    def verify_(self) -> None:
        inputs = [v.type for v in self.inputs]
        check_arguments(self, self.body, inputs, "body")
        check_yield(self, self.body, [r.type for r in self.results], "body")
        if self.gradient is None:
            return
        given = [r.type for r in float_values(list(self.results))]
        check_arguments(self, self.gradient, [*inputs, *given], "gradient")
        check_yield(self, self.gradient, [v.type for v in float_values(list(self.inputs))], "gradient")

    def reads_around(self) -> list[SSAValue]:
        """What the regions use that is neither their own nor an input."""
        return [
            value
            for region in self.regions
            for op in region.block.walk()
            for value in op.operands
            if not self.is_ancestor(value.owner)
        ]

    def without_rule(self) -> Sequence[SSAValue]:
        return [v for v in self.reads_around() if any(self.body.is_ancestor(use.operation) for use in v.uses)]

    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        if "error" in vars(self):
            raise vars(self)["error"]
        if self.gradient is None and self.refused is not None:
            raise GradientError(f"{self.refused.data}{at_line(self)}")
        if self.gradient is None:
            raise GradientError(f"{self.name}: this far, gradients of gradients have no rule{at_line(self)}")
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
