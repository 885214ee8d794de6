"""Ops of the dialect `nvvm`, which xDSL 0.74 lacks, with upstream's names, texts and meanings."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer


@irdl_op_definition
class BallotOp(IRDLOperation):
    """The lanes of the warp, among those in `mask`, for which `condition` holds: a bit for each, in all of them. Of the
    kinds of votes that upstream has this is `ballot`."""

    name = "nvvm.vote.sync"

    mask = operand_def(i32)
    condition = operand_def(i1)
    lanes = result_def(i32)

    @classmethod
    def of(cls, mask: SSAValue, condition: SSAValue) -> Self:
        """The vote on `condition`."""
        return cls.create(operands=(mask, condition), result_types=(i32,))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_keyword("ballot")
        mask = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        condition = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        operands = (parser.resolve_operand(mask, i32), parser.resolve_operand(condition, i1))
        return cls.create(operands=operands, result_types=(result,), attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ballot ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" -> ")
        printer.print_attribute(self.lanes.type)


NVVM = Dialect("nvvm", [BallotOp])
