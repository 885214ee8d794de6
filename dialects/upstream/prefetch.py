"""The op `memref.prefetch`, which xDSL 0.74 lacks, with upstream's name, text and meaning (patch 13).

`MemRefWithPrefetch` is the dialect to load in place of xDSL's `MemRef` wherever loop-stage text is parsed.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects import memref
from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, MemRefType, i32
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

LOCALITIES = 4


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """A hint that an element, which may lie outside of the memref, is accessed soon.

    `localityHint` is 0 for no reuse up to 3 for data to be kept in the nearest cache.
    """

    name = "memref.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    is_write = prop_def(BoolAttr, prop_name="isWrite")
    locality = prop_def(IntegerAttr, prop_name="localityHint")
    is_data = prop_def(BoolAttr, prop_name="isDataCache")

    @classmethod
    def of_data(cls, source: SSAValue, indices: tuple[SSAValue, ...], locality: int, *, is_write: bool = False) -> Self:
        """The hint that data are read, or, with `is_write`, written."""
        properties = {
            "isWrite": BoolAttr.from_bool(is_write),
            "localityHint": IntegerAttr(locality, i32),
            "isDataCache": BoolAttr.from_bool(True),
        }
        return cls.create(operands=(source, *indices), properties=properties)

    def verify_(self) -> None:
        assert isinstance(self.memref.type, MemRefType)
        rank, locality = self.memref.type.get_num_dims(), self.locality.value.data
        if rank != len(self.indices):
            raise VerifyException(f"{len(self.indices)} indices for a memref of {rank} dimensions")
        if not 0 <= locality < LOCALITIES:
            raise VerifyException(f"locality is {locality}, expected 0 to {LOCALITIES - 1}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        indices = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        parser.parse_punctuation(",")
        is_write = _one_of(parser, "read", "write")
        parser.parse_punctuation(",")
        parser.parse_keyword("locality")
        with parser.in_angle_brackets():
            locality = parser.parse_integer()
        parser.parse_punctuation(",")
        is_data = _one_of(parser, "instr", "data")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operands = (
            parser.resolve_operand(source, parser.parse_type()),
            *(parser.resolve_operand(index, IndexType()) for index in indices),
        )
        properties = {
            "isWrite": BoolAttr.from_bool(is_write),
            "localityHint": IntegerAttr(locality, i32),
            "isDataCache": BoolAttr.from_bool(is_data),
        }
        return cls.create(operands=operands, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.memref)
        with printer.in_square_brackets():
            printer.print_list(self.indices, printer.print_operand)
        access = "write" if self.is_write.value.data else "read"
        cache = "data" if self.is_data.value.data else "instr"
        printer.print_string(f", {access}, locality<{self.locality.value.data}>, {cache}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)


def _one_of(parser: Parser, no: str, yes: str) -> bool:
    """Whether the next keyword is `yes`; it must be one of the two."""
    if parser.parse_optional_keyword(yes) is not None:
        return True
    parser.parse_keyword(no)
    return False


MemRefWithPrefetch = Dialect(
    memref.MemRef.name,
    [*memref.MemRef.operations, PrefetchOp],
    list(memref.MemRef.attributes),
    list(memref.MemRef._interfaces),  # pyright: ignore[reportPrivateUsage]
)
