"""The text form of ops with regions.

    %r = tenon.cond %p -> (tensor<4xf32>) {
      tenon.yield %x : tensor<4xf32>
    } else {
      tenon.yield %y : tensor<4xf32>
    }
    %n = tenon.while_loop init(%n0 : tensor<i64>) {
    ^bb0(%i: tensor<i64>):
      ... tenon.yield %go_on : tensor<i1>
    } do {
    ^bb0(%i: tensor<i64>):
      ... tenon.yield %next : tensor<i64>
    }
    %c1 = tenon.scan init(%c0 : tensor<f32>) slices(%xs : tensor<5xi8>) length 5 reverse -> (tensor<f32>) {
    ^bb0(%c: tensor<f32>, %x: tensor<i8>):
      ... tenon.yield %next : tensor<f32>
    }

`init` and `slices` are left out where there are none; other attributes follow as `attributes {...}`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer


def print_values(printer: Printer, keyword: str, values: Sequence[SSAValue]) -> None:
    """`keyword(%a, %b : type, type)`, nothing for no values."""
    if not values:
        return
    printer.print_string(f" {keyword}")
    with printer.in_parens():
        printer.print_list(values, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list([v.type for v in values], printer.print_attribute)


def parse_values(parser: Parser, keyword: str) -> list[SSAValue]:
    """What `print_values` prints."""
    if parser.parse_optional_keyword(keyword) is None:
        return []
    parser.parse_punctuation("(")
    position = parser.pos
    given = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return list(parser.resolve_operands(given, types, position))


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """`-> (type, type)`."""
    printer.print_string(" -> ")
    with printer.in_parens():
        printer.print_list(types, printer.print_attribute)


def parse_types(parser: Parser) -> list[Attribute]:
    """What `print_types` prints."""
    parser.parse_punctuation("->")
    return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type))


def print_regions(printer: Printer, op: IRDLOperation, regions: Sequence[Region], between: str = "") -> None:
    """The attributes, where there are any, and the regions, with a keyword between them."""
    if op.attributes:
        printer.print_string(" attributes")
        printer.print_op_attributes(op.attributes)
    for position, region in enumerate(regions):
        printer.print_string(f" {between} " if position else " ")
        printer.print_region(region)


def parse_regions(parser: Parser, between: Sequence[str]) -> tuple[dict[str, Attribute], list[Region]]:
    """The attributes, and one region more than there are keywords between them."""
    attributes: dict[str, Attribute] = {}
    if parser.parse_optional_keyword("attributes") is not None:
        attributes = dict(parser.parse_optional_attr_dict())
    regions = [_parse_region(parser)]
    for keyword in between:
        parser.parse_keyword(keyword)
        regions.append(_parse_region(parser))
    return attributes, regions


def _parse_region(parser: Parser) -> Region:
    region = parser.parse_region()
    if region.first_block is None:
        region.add_block(Block())
    return region
