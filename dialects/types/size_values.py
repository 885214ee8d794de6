"""Sizes in IR: the attribute that lists them, and the values that they have once a function runs.

From the structured stage on, a function takes an argument of type `index` for each name that sizes in it are made of;
its attribute `sizes` has the names. What a size is, as a value, is computed from these at the start of the function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IndexType, IntegerAttr, MemRefType, StringAttr, TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Data, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tenon.dialects.types.size import Size, UndecidedSizeError, least, names_of

_INDEX = IndexType()

NAMES = "sizes"
"""The attribute of a function that names its arguments for sizes."""
POSITIVE = "positive_sizes"
"""The attribute of `main` with the sizes that must not be 0 when the program is launched."""


@irdl_attr_definition
class SizesAttr(Data[tuple[Any, ...]]):
    """Numbers, of which at least one is known at launch only: `#tenon.sizes<["n", 768]>`."""

    name = "tenon.sizes"

    def get_values(self) -> tuple[Any, ...]:
        """The numbers and sizes."""
        return self.data

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"[{', '.join(map(shown_size, self.data))}]")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Any, ...]:
        with parser.in_angle_brackets():
            return tuple(parsed_sizes(parser))


def shown_size(size: Any) -> str:
    """A number or size as IR has it."""
    return f'"{size}"' if isinstance(size, Size) else str(size)


def parsed_sizes(parser: AttrParser) -> list[Any]:
    """A list of numbers and, in quotes, sizes."""

    def parse_one() -> Any:
        text = parser.parse_optional_str_literal()
        return parser.parse_integer() if text is None else Size.parse(text)

    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_one)


def sizes_in(attribute: Attribute) -> Iterator[Size]:
    """The sizes in a type or in a list of numbers."""
    if isinstance(attribute, TensorType | MemRefType):
        yield from [size for size in attribute.get_shape() if isinstance(size, Size)]
    elif isinstance(attribute, SizesAttr):
        yield from [size for size in attribute.data if isinstance(size, Size)]


def names_in(root: Operation) -> list[str]:
    """The names of the sizes in the types and properties inside of `root`, each once, in order of appearance."""
    found: dict[str, None] = {}

    def note(attributes: Sequence[Attribute]) -> None:
        for attribute in attributes:
            found.update(dict.fromkeys(names_of(sizes_in(attribute))))

    for op in root.walk():
        for region in op.regions:
            for block in region.blocks:
                note(block.arg_types)
        note([result.type for result in op.results])
        note(list(op.properties.values()))
    return list(found)


def size_arguments(function: func.FuncOp) -> dict[str, SSAValue]:
    """The arguments of `function` that say what sizes are, by name."""
    names = function.attributes.get(NAMES)
    if not isinstance(names, ArrayAttr):
        return {}
    arguments = [argument for argument in function.body.block.args if isinstance(argument.type, IndexType)]
    return {name.data: arg for name, arg in zip(names, arguments, strict=True) if isinstance(name, StringAttr)}


class SizeValues:
    """The values of sizes in one function, each computed once, by ops that `insert` puts where they precede all uses.

    `required` collects the sizes that must not be 0.
    """

    def __init__(
        self,
        arguments: Mapping[str, SSAValue],
        insert: Callable[[Operation], object],
        required: dict[Size, None] | None = None,
    ) -> None:
        self._arguments = arguments
        self._insert = insert
        self._values: dict[Any, SSAValue] = {}
        self._required = {} if required is None else required

    @staticmethod
    def at_start(function: func.FuncOp, required: dict[Size, None] | None = None) -> SizeValues:
        """The values of sizes, computed at the start of `function`."""
        block: Block = function.body.block
        last: list[Operation] = []

        def insert(op: Operation) -> None:
            if last:
                block.insert_op_after(op, last.pop())
            elif block.first_op is not None:
                block.insert_op_before(op, block.first_op)
            else:
                block.add_op(op)
            last.append(op)

        return SizeValues(size_arguments(function), insert, required)

    def value(self, size: Any) -> SSAValue:
        """The value, of type `index`, of a size or number."""
        known = self._values.get(size)
        if known is None:
            known = self._values[size] = self._computed(size)
        return known

    def _computed(self, size: Any) -> SSAValue:
        if not isinstance(size, Size):
            return self._add(arith.ConstantOp(IntegerAttr(size, _INDEX)))
        return size.evaluate(lambda name: _Term(self, self._argument(name))).ssa

    def _argument(self, name: str) -> SSAValue:
        found = self._arguments.get(name)
        if found is None:
            raise UndecidedSizeError(f"no argument tells what the size {name} is")
        return found

    def _add(self, op: Operation) -> SSAValue:
        self._insert(op)
        return op.results[0]

    def combine(self, op_type: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        """The result of a binary op on values, computed once."""
        key = (op_type, left, right)
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = self._add(op_type.create(operands=[left, right], result_types=[_INDEX]))
        return known

    def require_positive(self, size: Any) -> None:
        """Note that the program may only be launched if `size` is not 0."""
        if isinstance(size, Size) and least(size) <= 0:
            self._required[size] = None


class _Term:
    """A value that Python's operators compute with."""

    def __init__(self, values: SizeValues, ssa: SSAValue) -> None:
        self.values = values
        self.ssa = ssa

    def _with(self, op_type: type[Operation], other: Any) -> _Term:
        right = other.ssa if isinstance(other, _Term) else self.values.value(other)
        return _Term(self.values, self.values.combine(op_type, self.ssa, right))

    def __add__(self, other: Any) -> _Term:
        return self if isinstance(other, int) and other == 0 else self._with(arith.AddiOp, other)

    def __mul__(self, other: Any) -> _Term:
        return self if isinstance(other, int) and other == 1 else self._with(arith.MuliOp, other)

    __radd__ = __add__
    __rmul__ = __mul__

    # What is divided is never below 0: all other quotients are rewritten, or refused.
    def __floordiv__(self, other: Any) -> _Term:
        return self._with(arith.DivUIOp, other)

    def __mod__(self, other: Any) -> _Term:
        return self._with(arith.RemUIOp, other)


def _static_shapes(self: GenericOp) -> list[int]:
    return [DYNAMIC_INDEX if isinstance(size, Size) else size for size in _get_static_shapes(self)]


# Where a shape is known at launch only, xDSL's verifier has nothing to check.
_get_static_shapes = GenericOp.get_static_shapes
GenericOp.get_static_shapes = _static_shapes


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[SizeValues] = []


_STATE = _State()


@contextmanager
def sizes_from(values: SizeValues) -> Generator[SizeValues, None, None]:
    """Take the values of sizes from `values` for the duration of the block."""
    _STATE.stack.append(values)
    try:
        yield values
    finally:
        _STATE.stack.pop()


def current_sizes() -> SizeValues:
    """The values of sizes in the function that is being built."""
    if not _STATE.stack:
        raise UndecidedSizeError("a size that is known at launch only has no value outside of a function")
    return _STATE.stack[-1]


def size_operands(shape: Sequence[int]) -> list[SSAValue]:
    """The values of the sizes in `shape` that are no numbers."""
    return [current_sizes().value(size) for size in shape if isinstance(size, Size)]
