"""The text form of tensor ops: `tenon.name %a, [%b, %c], none {setting = 1} : types of operands -> types of results`.

A variadic operand stands in brackets, an absent optional one is `none`, which may be left out at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from tenon.dialects.definition.operation import DeclaredOp
from tenon.dialects.definition.settings import REQUIRED, SettingConstraint
from tenon.dialects.definition.signature import Operand
from tenon.dialects.support.location import location_at

OpT = TypeVar("OpT", bound=DeclaredOp)


def print_op(op: DeclaredOp, printer: Printer) -> None:
    """Print what follows the op's name: operands, settings that differ from their defaults, types."""
    declared = op.SIGNATURE.operands
    if declared:
        printer.print_string(" ")
        grouped = op.grouped_operands()
        printer.print_list(
            list(zip(declared, grouped, strict=True)),
            lambda pair: _print_group(printer, pair[0], pair[1], printer.print_ssa_value),
        )
    _print_settings(op, printer)
    printer.print_string(" : ")
    if declared:
        printer.print_list(
            list(zip(declared, op.grouped_operands(), strict=True)),
            lambda pair: _print_group(printer, pair[0], pair[1], lambda v: printer.print_attribute(v.type)),
        )
        printer.print_string(" -> ")
    types = [r.type for r in op.results]
    if len(types) == 1:
        printer.print_attribute(types[0])
    else:
        printer.print_string("(")
        printer.print_list(types, printer.print_attribute)
        printer.print_string(")")


def _print_settings(op: DeclaredOp, printer: Printer) -> None:
    entries: list[tuple[str, SettingConstraint | None, Attribute]] = []
    for name, constraint in op.SIGNATURE.settings.items():
        attribute = op.properties.get(name)
        if attribute is None:
            continue
        default = constraint.default
        if default is not REQUIRED and default is not None and attribute == constraint.attribute(default):
            continue
        entries.append((name, constraint, attribute))
    entries += [(name, None, attribute) for name, attribute in op.attributes.items()]
    if not entries:
        return

    def print_entry(entry: tuple[str, SettingConstraint | None, Attribute]) -> None:
        name, constraint, attribute = entry
        printer.print_string(name)
        if constraint is not None:
            printer.print_string(" = ")
            constraint.kind.print(printer, attribute)
        elif not isinstance(attribute, UnitAttr):
            printer.print_string(" = ")
            printer.print_attribute(attribute)

    printer.print_string(" {")
    printer.print_list(entries, print_entry)
    printer.print_string("}")


def parse_op(cls: type[OpT], parser: Parser) -> OpT:
    """Parse what `print_op` printed."""
    declared = cls.SIGNATURE.operands
    start = parser.pos
    groups = _parse_groups(cls, parser, parser.parse_unresolved_operand, "operand")
    properties, attributes = _parse_settings(cls, parser)
    parser.parse_punctuation(":")
    types: list[Attribute] = []
    typed = _parse_groups(cls, parser, parser.parse_type, "type of operand")
    for operand, values, parsed in zip(declared, groups, typed, strict=True):
        if len(parsed) != len(values):
            parser.raise_error(f"{cls.name}: {operand.name} has {len(values)} values and {len(parsed)} types")
        types.extend(parsed)
    if declared:
        parser.parse_punctuation("->")
    results = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if results is None:
        results = [_parse_result(cls, parser)]
    operands = parser.resolve_operands([v for group in groups for v in group], types, parser.pos)
    if cls.SIGNATURE.has_segments:
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(g) for g in groups])
    op = cls.create(operands=operands, result_types=results, properties=properties, attributes=attributes)
    op.location = location_at(parser, start)
    return op


def _parse_result(cls: type[DeclaredOp], parser: Parser) -> Attribute:
    """The type of the one result of an op."""
    start = parser.pos
    result, names = parser.parse_type(), cls.SIGNATURE.results
    if len(names) > 1 and not cls.SIGNATURE.variadic_results:
        parser.raise_error(f"{cls.name}: the types of results {', '.join(names)} stand in parentheses", start)
    return result


def _parse_settings(cls: type[DeclaredOp], parser: Parser) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}

    def parse_entry() -> None:
        position = parser.pos
        name = parser.parse_identifier()
        if name in properties or name in attributes:
            parser.raise_error(f"{cls.name}: {name!r} is given twice", position)
        constraint = cls.SIGNATURE.settings.get(name)
        if constraint is None:
            # Attributes of others carry their dialect's name, so that a misspelled setting is no silent attribute.
            if "." not in name:
                parser.raise_error(cls.SIGNATURE.unknown_setting(cls.name, name), position)
            has_value = parser.parse_optional_punctuation("=") is not None
            attributes[name] = parser.parse_attribute() if has_value else UnitAttr()
            return
        parser.parse_punctuation("=")
        try:
            properties[name] = constraint.kind.parse(parser)
        except ParseError as error:
            raise ParseError(error.span, f"{cls.name}: setting {name!r}: {error.msg}") from None

    position = parser.pos
    parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, parse_entry)
    for name, constraint in cls.SIGNATURE.settings.items():
        if name in properties or constraint.default is None:
            continue
        if constraint.default is REQUIRED:
            parser.raise_error(f"{cls.name}: setting {name!r} is missing", position)
        properties[name] = constraint.attribute(constraint.default)
    return properties, attributes


def _print_group(printer: Printer, operand: Operand, group: Any, print_one: Callable[[Any], object]) -> None:
    if operand.arity == "variadic":
        printer.print_string("[")
        printer.print_list(group, print_one)
        printer.print_string("]")
    elif group is None:
        printer.print_string("none")
    else:
        print_one(group)


def _parse_groups(cls: type[DeclaredOp], parser: Parser, parse_one: Callable[[], Any], what: str) -> list[list[Any]]:
    """What stands for each declared operand; optional ones at the end may be left out."""
    declared = cls.SIGNATURE.operands
    names = ", ".join([operand.name for operand in declared])
    groups: list[list[Any]] = []
    for position, operand in enumerate(declared):
        if position and parser.parse_optional_punctuation(",") is None:
            if any(left.arity != "optional" for left in declared[position:]):
                parser.raise_error(f"{cls.name}: {what} {operand.name} is missing (operands: {names})")
            return groups + [[] for _ in declared[position:]]
        groups.append(_parse_group(cls, parser, operand, parse_one, what))
    if declared and parser.parse_optional_punctuation(",") is not None:
        parser.raise_error(f"{cls.name}: {what} behind the last one (operands: {names})")
    return groups


def _parse_group(
    cls: type[DeclaredOp], parser: Parser, operand: Operand, parse_one: Callable[[], Any], what: str
) -> list[Any]:
    if operand.arity == "variadic":
        parsed = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parse_one)
        if parsed is None:
            parser.raise_error(f"{cls.name}: {what} {operand.name} stands in brackets, as a list")
        return parsed
    # `none` is also the name of a builtin type, so it is looked for first.
    if operand.arity == "optional" and parser.parse_optional_keyword("none") is not None:
        return []
    return [parse_one()]
