"""Control flow on tensors: `cond` and `while_loop`.

Regions may use values of the enclosing block. `tenon.yield` ends each region. `cond` has a reverse-mode gradient:
branches are computed again in the backward pass.

The text form is described in `control_flow_assembly`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import (
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.definition.traits import GradientError
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
    or_zeros,
)
from tenon.dialects.families.control_flow_assembly import (
    parse_regions,
    parse_types,
    parse_values,
    print_regions,
    print_types,
    print_values,
)
from tenon.dialects.families.control_flow_types import BranchTypes, LoopTypes
from tenon.dialects.families.regions import captured_values
from tenon.dialects.support.location import at_line
from tenon.dialects.types.types import AnyTensor, tensor_type


def _moved(region: Region, end: Callable[[Sequence[SSAValue]], Operation]) -> Region:
    """The one-block region taken from its op, ended by `end` of what it yielded."""
    block = region.block
    terminator = block.last_op
    assert isinstance(terminator, YieldOp)
    values = list(terminator.operands)
    terminator.detach()
    terminator.erase()
    with inserting(InsertionPoint(block)):
        emit(end(values))
    region.detach_block(block)
    return Region(block)


@irdl_op_definition
class CondOp(ControlFlowOp):
    """The values of region `then` where `predicate` (tensor<i1>) is true, else those of region `otherwise`.

    >>> tenon.cond(np.array(False), lambda x: x + 1, lambda x: x * 10, np.array([1.0, 2.0]))
    """

    name = "tenon.cond"
    predicate = operand_def(TensorType[Attribute])
    outputs = var_result_def(TensorType[Attribute])
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(Pure(), BranchTypes())

    @classmethod
    def of(cls, predicate: SSAValue, then: Block, otherwise: Block, types: Sequence[AnyTensor]) -> CondOp:
        return cls.create(operands=[predicate], result_types=types, regions=[Region(then), Region(otherwise)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.predicate)
        print_types(printer, [r.type for r in self.results])
        print_regions(printer, self, [self.then, self.otherwise], "else")

    @classmethod
    def parse(cls, parser: Parser) -> CondOp:
        predicate = parser.parse_unresolved_operand()
        types = parse_types(parser)
        attributes, regions = parse_regions(parser, ["else"])
        operand = parser.resolve_operand(predicate, tensor_type((), i1))
        return cls.create(operands=[operand], result_types=types, attributes=attributes, regions=regions)

    def verify_(self) -> None:
        if self.predicate.type != tensor_type((), i1):
            raise VerifyException(f"tenon.cond: predicate is {self.predicate.type} where tensor<i1> is needed")
        types = [r.type for r in self.results]
        for region, what in ((self.then, "then"), (self.otherwise, "otherwise")):
            check_arguments(self, region, [], what)
            check_yield(self, region, types, what)

    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        wanted = float_values(captured_values(self.then, self.otherwise))
        blocks: list[Block] = []
        for region in (self.then, self.otherwise):
            block = Block()
            with inserting(InsertionPoint(block)):
                outputs = clone_into(region, block, [])
                sources = [Value(v) for v in wanted]
                found = or_zeros(gradients(outputs, cotangents, sources), sources)
                emit(YieldOp(*[g.ssa for g in found]))
            blocks.append(block)
        types: Any = [v.type for v in wanted]
        op = emit(CondOp.of(self.predicate, blocks[0], blocks[1], types))
        return [(v, Value(r)) for v, r in zip(wanted, op.results, strict=True)]

    def structured(self) -> Sequence[SSAValue]:
        predicate = emit(tensor.ExtractOp(self.predicate, [], i1)).results[0]
        branches = [_moved(region, lambda values: scf.YieldOp(*values)) for region in (self.then, self.otherwise)]
        return emit(scf.IfOp(predicate, [r.type for r in self.results], branches[0], branches[1])).results


@irdl_op_definition
class WhileLoopOp(ControlFlowOp):
    """The carried values after `body` has been applied for as long as `condition` gives true.

    >>> tenon.while_loop(lambda x: tenon.sum(x) < 100, lambda x: x * 2, np.array([1.0, 2.0]))
    """

    name = "tenon.while_loop"
    initial = var_operand_def(TensorType[Attribute])
    outputs = var_result_def(TensorType[Attribute])
    condition = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(Pure(), LoopTypes())

    @classmethod
    def of(cls, initial: Sequence[SSAValue], condition: Block, body: Block) -> WhileLoopOp:
        types = [v.type for v in initial]
        return cls.create(operands=initial, result_types=types, regions=[Region(condition), Region(body)])

    @property
    def runs(self) -> tuple[int, int | None]:
        return 0, None

    def print(self, printer: Printer) -> None:
        print_values(printer, "init", self.initial)
        print_regions(printer, self, [self.condition, self.body], "do")

    @classmethod
    def parse(cls, parser: Parser) -> WhileLoopOp:
        initial = parse_values(parser, "init")
        attributes, regions = parse_regions(parser, ["do"])
        return cls.create(
            operands=initial, result_types=[v.type for v in initial], attributes=attributes, regions=regions
        )

    def verify_(self) -> None:
        types = [v.type for v in self.initial]
        for region, what in ((self.condition, "condition"), (self.body, "body")):
            check_arguments(self, region, types, what)
        check_yield(self, self.condition, [tensor_type((), i1)], "condition")
        check_yield(self, self.body, types, "body")
        if [r.type for r in self.results] != types:
            raise VerifyException("tenon.while_loop: results and carried values differ in type")

    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        raise GradientError(
            "tenon.while_loop: has no reverse-mode gradient, nor a jvp, since its number of steps is not known; "
            f"use tenon.scan{at_line(self)}"
        )

    def structured(self) -> Sequence[SSAValue]:
        arguments = list(self.condition.block.args)

        def condition(values: Sequence[SSAValue]) -> Operation:
            return scf.ConditionOp(emit(tensor.ExtractOp(values[0], [], i1)).results[0], *arguments)

        before = _moved(self.condition, condition)
        after = _moved(self.body, lambda values: scf.YieldOp(*values))
        return emit(scf.WhileOp(list(self.initial), [r.type for r in self.results], before, after)).results
