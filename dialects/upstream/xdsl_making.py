"""How ops and attributes of xDSL 0.74 are made, in fewer steps of Python; what is made is the same.

- An op is made without generators, without successors where it has none; its defaults are found once for each class.
  Its results and uses are given what tells them apart; all else they have of their class.
- An op is built from operands and types as they are given, where no length of a list has to be told from the others;
  in xDSL all four kinds are sorted into lists, and their lengths counted, for every op.
- That an attribute is of a kind that may be is asked once for each class.
- Integer attributes of one type and number are one, which is checked once.
- Arrays of the same integers are one, which is checked and packed once.
- The shape of a memref is made an array unless it is one; in xDSL a constraint is made each time to ask that.
- A name that is given to a value is checked once.
- How an op is written is read when the first one is parsed or printed, not when its dialect is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
)
from xdsl.ir import Attribute, Block, Data, Operation, OpResult, ParametrizedAttribute, Region, SSAValue, Use
from xdsl.ir.core import IRWithName, SSAValues
from xdsl.irdl import IRDLOperation, OpDef, OptionalDef, VariadicDef
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer

from tenon.dialects.support.bounded_cache import BoundedCache

_NOTHING = NoneAttr()
_NO_VALUES: SSAValues[Any] = SSAValues()
_array_in_xdsl: Any = DenseArrayBase.from_list
_make_parametrized: Any = ParametrizedAttribute.__init__
_make_integer_in_xdsl: Any = IntegerAttr.__init__
_build_in_xdsl: Any = IRDLOperation.__init__
_valid_name_in_xdsl: Any = vars(IRWithName)["extract_valid_name"].__func__
_read_format = FormatProgram.from_str

# ----------------------------------------------------------------------------------------------------------------------
# Ops
# ----------------------------------------------------------------------------------------------------------------------


def _make_operation(
    op: Any,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = {},
    attributes: Mapping[str, Attribute] = {},
    location: Any = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> None:
    op._operands = SSAValues(operands) if operands else _NO_VALUES
    op._operand_uses = _uses(op) if operands else ()
    op.results = _results(op, result_types) if result_types else _NO_VALUES
    op.properties = dict(properties)
    op.attributes = dict(attributes)
    op.location = UNKNOWN_LOC if location is None else location
    if successors:
        op.successors = list(successors)
    op.regions = ()
    for region in regions:
        op.add_region(region)
    op.__post_init__()


def _create(kind: type[Operation], **given: Any) -> Operation:
    op = object.__new__(kind)
    _make_operation(op, **given)
    return op


def _uses(op: Any) -> tuple[Use, ...]:
    """A use of each operand, which comes to be the first one of its value."""
    uses: list[Use] = []
    for value in op._operands:
        use: Any = object.__new__(Use)
        use._operation = op
        use._index = len(uses)
        use._prev_use = None
        use._next_use = first = value.first_use
        if first is not None:
            first._prev_use = use
        value.first_use = use
        uses.append(use)
    return tuple(uses)


def _results(op: Any, types: Sequence[Attribute]) -> SSAValues[Any]:
    results: list[OpResult[Any]] = []
    for type_ in types:
        result: Any = object.__new__(OpResult)
        result._type = type_
        result.op = op
        result.index = len(results)
        results.append(result)
    return SSAValues(results)


@cache
def _defaults(kind: type[IRDLOperation]) -> tuple[list[tuple[str, Attribute]], list[tuple[str, Attribute]]]:
    """The properties and attributes that ops of a class have where they are not given."""
    definition = kind.get_irdl_definition()
    both = (definition.properties, definition.attributes)
    properties, attributes = (
        [
            (name, given.default_value)
            for name, given in defined.items()
            if not isinstance(given, OptionalDef) and given.default_value is not None
        ]
        for defined in both
    )
    return properties, attributes


def _fill_in(op: IRDLOperation) -> None:
    properties, attributes = _defaults(type(op))
    for name, default in properties:
        op.properties.setdefault(name, default)
    for name, default in attributes:
        op.attributes.setdefault(name, default)
    super(IRDLOperation, op).__post_init__()


@cache
def _lists(kind: type[IRDLOperation]) -> tuple[tuple[bool, ...], int, int] | None:
    """Which operands of a class are lists, and how many results and regions it has; `None` where results or regions are
    lists, or the op says how long its lists are."""
    definition = kind.get_irdl_definition()
    plain = (*definition.results, *definition.regions, *definition.successors)
    if definition.options or any(isinstance(given, VariadicDef) for _, given in plain):
        return None
    operands = tuple([isinstance(given, VariadicDef) for _, given in definition.operands])
    if any(isinstance(given, OptionalDef) for _, given in definition.operands) or definition.successors:
        return None
    return operands, len(definition.results), len(definition.regions)


def _flat(given: Sequence[Any], lists: tuple[bool, ...]) -> list[SSAValue] | None:
    """The operands in a row; `None` where one is not a value, or a list of values where its definition has a list."""
    values: list[SSAValue] = []
    for operand, is_list in zip(given, lists, strict=True):
        if isinstance(operand, SSAValue):
            values.append(operand)
        elif is_list and isinstance(operand, list | tuple) and all(isinstance(x, SSAValue) for x in operand):
            values += operand
        else:
            return None
    return values


def _build(
    op: IRDLOperation,
    *,
    operands: Sequence[Any] | None = None,
    result_types: Sequence[Any] | None = None,
    properties: Mapping[str, Attribute | None] | None = None,
    attributes: Mapping[str, Attribute | None] | None = None,
    successors: Sequence[Any] | None = None,
    regions: Sequence[Any] | None = None,
) -> None:
    operands, result_types, regions = operands or (), result_types or (), regions or ()
    lists = _lists(type(op))
    if (
        lists is not None
        and not successors
        and (len(lists[0]), lists[1], lists[2])
        == (
            len(operands),
            len(result_types),
            len(regions),
        )
    ):
        values = _flat(operands, lists[0])
        is_plain = all(isinstance(type_, Attribute) for type_ in result_types)
        if values is not None and is_plain and all(isinstance(region, Region) for region in regions):
            _make_operation(
                op,
                operands=values,
                result_types=result_types,
                properties={name: given for name, given in (properties or {}).items() if given is not None},
                attributes={name: given for name, given in (attributes or {}).items() if given is not None},
                regions=regions,
            )
            return
    _build_in_xdsl(
        op,
        operands=operands,
        result_types=result_types,
        properties=properties,
        attributes=attributes,
        successors=successors,
        regions=regions,
    )


class _Format:
    """How ops of a class are written, read from `text` when it is needed."""

    def __init__(self, text: str, definition: OpDef) -> None:
        self._text, self._definition = text, definition
        self._program: FormatProgram | None = None

    def _read(self) -> FormatProgram:
        if self._program is None:
            self._program = _read_format(self._text, self._definition)
        return self._program

    def parse(self, parser: Parser, kind: type[IRDLOperation]) -> IRDLOperation:
        return self._read().parse(parser, kind)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        self._read().print(printer, op)


# ----------------------------------------------------------------------------------------------------------------------
# Attributes and names
# ----------------------------------------------------------------------------------------------------------------------


@cache
def _may_be(kind: type[Attribute]) -> bool:
    return issubclass(kind, Data | ParametrizedAttribute)


def _check_attribute(attribute: Attribute) -> None:
    attribute._verify()  # pyright: ignore[reportPrivateUsage]
    if not _may_be(type(attribute)):
        raise TypeError("Attributes should only be Data or ParametrizedAttribute")


@lru_cache(4096)
def _array_of_integers(element: IntegerType, data: tuple[int, ...]) -> Any:
    return _array_in_xdsl(element, data)


def _array(element: Any, data: Sequence[Any]) -> Any:
    # 1.0 and `True` are equal to 1, and -0.0 is to 0.0
    if isinstance(element, IntegerType) and set(map(type, data)) == {int}:
        return _array_of_integers(element, tuple(data))
    return _array_in_xdsl(element, data)


_integers: BoundedCache[IntegerAttr[Any]] = BoundedCache(4096)


def _integer(kind: Any, value: Any = None, value_type: Any = None, *, truncate_bits: bool = False) -> Any:
    # A type that is given is kept by the integer of that key, so that no other one has its identity.
    key = (kind, value, type(value), id(value_type))
    known = _integers.get(key) if value_type is not None and not truncate_bits else None
    if known is None:
        known = object.__new__(kind)
        if type(value) is int and isinstance(value_type, IndexType | IntegerType) and not truncate_bits:
            _make_integer_in_xdsl(known, value, value_type)
            _integers[key] = known
    return known


def _make_integer(integer: Any, value: Any, value_type: Any, *, truncate_bits: bool = False) -> None:
    if not vars(integer):
        _make_integer_in_xdsl(integer, value, value_type, truncate_bits=truncate_bits)


def _make_memref(
    type_: Any, element_type: Any, shape: Any, layout: Any = _NOTHING, memory_space: Any = _NOTHING
) -> None:
    if not isinstance(shape, ArrayAttr):
        shape = ArrayAttr([IntAttr(size) if isinstance(size, int) else size for size in shape])
    _make_parametrized(type_, shape, element_type, layout, memory_space)


@lru_cache(4096)
def _checked_name(kind: type[IRWithName], name: str) -> str:
    return _valid_name_in_xdsl(kind, name)


def _valid_name(kind: type[IRWithName], name: str | None) -> str | None:
    return None if name is None else _checked_name(kind, name)


MAKING: tuple[tuple[type, dict[str, Any]], ...] = (
    (Operation, {"__init__": _make_operation, "create": classmethod(_create)}),
    (IRDLOperation, {"__post_init__": _fill_in, "__init__": _build}),
    (FormatProgram, {"from_str": staticmethod(_Format)}),
    (Attribute, {"__post_init__": _check_attribute}),
    (IntegerAttr, {"__new__": _integer, "__init__": _make_integer}),
    (DenseArrayBase, {"from_list": staticmethod(_array)}),
    (MemRefType, {"__init__": _make_memref}),
    (IRWithName, {"extract_valid_name": classmethod(_valid_name)}),
)
"""What is replaced, by class."""
