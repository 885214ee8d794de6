"""The op `gpu.shuffle`, which xDSL 0.74 lacks, with upstream's name, text and meaning.

`GpuWithShuffle` is the dialect to load in place of xDSL's `GPU` wherever kernels are parsed.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects import gpu
from xdsl.dialects.builtin import StringAttr, i1, i32
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import AnyAttr, IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

MODES = ("xor", "up", "down", "idx")


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """What another lane of the warp has as `value`: the one whose number is this one's, combined with `offset` as
    `mode` says, among `width` of them. `valid` says whether there is one."""

    name = "gpu.shuffle"

    value = operand_def(AnyAttr())
    offset = operand_def(i32)
    width = operand_def(i32)
    mode = prop_def(StringAttr)
    shuffled = result_def(AnyAttr())
    valid = result_def(i1)

    @classmethod
    def xor(cls, value: SSAValue, offset: SSAValue, width: SSAValue) -> Self:
        """The exchange between lanes whose numbers differ in the bits of `offset`."""
        return cls.create(
            operands=(value, offset, width), result_types=(value.type, i1), properties={"mode": StringAttr("xor")}
        )

    @classmethod
    def of_lane(cls, value: SSAValue, lane: SSAValue, width: SSAValue) -> Self:
        """What the lane of that number has."""
        return cls.create(
            operands=(value, lane, width), result_types=(value.type, i1), properties={"mode": StringAttr("idx")}
        )

    def verify_(self) -> None:
        if self.mode.data not in MODES:
            raise VerifyException(f"mode is {self.mode.data}, expected one of {', '.join(MODES)}")
        if self.value.type != self.shuffled.type:
            raise VerifyException(f"the value has type {self.value.type}, the result {self.shuffled.type}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        mode = next((mode for mode in MODES if parser.parse_optional_keyword(mode) is not None), None)
        if mode is None:
            parser.raise_error(f"expected one of {', '.join(MODES)}")
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        if len(operands) != 3:
            parser.raise_error("expected a value, an offset and a width")
        resolved = [parser.resolve_operand(o, t) for o, t in zip(operands, (type_, i32, i32), strict=True)]
        return cls.create(
            operands=resolved, result_types=(type_, i1), properties={"mode": StringAttr(mode)}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.mode.data} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)


GpuWithShuffle = Dialect(gpu.GPU.name, [*gpu.GPU.operations, ShuffleOp], list(gpu.GPU.attributes))
