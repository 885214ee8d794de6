"""The end of unsigned types: upstream dialects take signless integers, and say by their ops which are signed.

Tensor IR has `ui8` to `ui64`, and ops, bodies and constants made of it carry them on while they are built. `erase` then
turns every `uiN` of a module into `iN`. What is lost with it is kept in the attribute `dtypes` of each function that is
called from outside, a function type of element types: `dtypes = (ui8, f32) -> ui8`. A function without it has the
dtypes that its types name. Other element types that a module is not to have are replaced by the same means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.rewriter import Rewriter

from tenon.dialects.types.types import dimensions, is_unsigned, signless
from tenon.dialects.upstream.walking import all_ops

DTYPES = "dtypes"


def erase(module: ModuleOp) -> None:
    """Make every unsigned type of `module` signless, in place; a module without any stays as it is."""
    erasure = _Signs()
    if erasure.is_needed(module):
        erasure.apply(module)


def external_elements(function: func.FuncOp) -> tuple[Sequence[Attribute], Sequence[Attribute]] | None:
    """The element types of inputs and results as the caller sees them, where types do not name them."""
    dtypes = function.attributes.get(DTYPES)
    return (dtypes.inputs.data, dtypes.outputs.data) if isinstance(dtypes, FunctionType) else None


def _keep_dtypes(function: func.FuncOp, erasure: Erasure) -> None:
    is_private = function.sym_visibility == StringAttr("private")
    if is_private or not erasure.changes(function.function_type) or DTYPES in function.attributes:
        return
    inputs, outputs = (
        [getattr(type_, "element_type", type_) for type_ in types.data]
        for types in (function.function_type.inputs, function.function_type.outputs)
    )
    function.attributes[DTYPES] = FunctionType.from_lists(inputs, outputs)


def _values(op: Operation) -> Iterable[SSAValue]:
    if not op.regions:
        return op.results
    return [*op.results, *[argument for region in op.regions for block in region.blocks for argument in block.args]]


class Erasure(ABC):
    """Element types replaced by others. What attributes become is computed once for each."""

    def __init__(self) -> None:
        self._known: dict[Attribute, Attribute | None] = {}
        """What attributes become; `None` for those that stay, each of which stays the object that it is."""
        self._met: dict[int, tuple[Attribute, Attribute]] = {}
        """By identity, which tells the few types of many values sooner than what they are: each with its new one."""

    @abstractmethod
    def element(self, element: Attribute) -> Attribute:
        """What an element type becomes: itself, unless it is one to replace."""

    @abstractmethod
    def number(self, number: IntegerAttr | FloatAttr[Any]) -> Attribute:
        """What a number of a type that is replaced becomes."""

    @abstractmethod
    def array(self, array: DenseIntOrFPElementsAttr[Any], kind: Any) -> Attribute:
        """What an array of a type that is replaced becomes in its new type `kind`."""

    def is_needed(self, module: ModuleOp) -> bool:
        """Whether `module` has a type to replace."""
        ops = all_ops(module)
        declared = [op.function_type for op in ops if isinstance(op, func.FuncOp)]
        types = {id(type_): type_ for type_ in [value.type for op in ops for value in _values(op)]}
        return any(map(self.changes, [*declared, *types.values()]))

    def apply(self, module: ModuleOp) -> None:
        """Replace types in `module`, in place; public functions keep the dtypes that callers see."""
        for op in all_ops(module):
            if isinstance(op, func.FuncOp):
                _keep_dtypes(op, self)
            for value in _values(op):
                if self.changes(value.type):
                    Rewriter.replace_value_with_new_type(value, self.of(value.type))
            for attributes in (op.properties, op.attributes):
                for name, attribute in attributes.items():
                    if _may_hold_types(type(attribute)) and name != DTYPES:
                        attributes[name] = self.of(attribute)
            if isinstance(op, arith.BitcastOp) and op.input.type == op.result.type:
                op.result.replace_all_uses_with(op.input)
                op.detach()
                op.erase()

    def changes(self, attribute: Attribute) -> bool:
        """Whether `attribute` holds a type to replace."""
        return self.of(attribute) is not attribute

    def of(self, attribute: Attribute) -> Attribute:
        """`attribute` with its types replaced; itself where there is nothing to replace."""
        met = self._met.get(id(attribute))
        if met is None:
            met = self._met[id(attribute)] = (attribute, self._replaced(attribute))
        return met[1]

    def _replaced(self, attribute: Attribute) -> Attribute:
        if not isinstance(attribute, _REPLACED) and self.element(attribute) is attribute:
            return attribute
        if attribute not in self._known:
            erased = self._erased(attribute)
            self._known[attribute] = None if erased is attribute else erased
        known = self._known[attribute]
        return attribute if known is None else known

    def _erased(self, attribute: Attribute) -> Attribute:
        match attribute:
            case TensorType(element_type=element) if (new := self.element(element)) is not element:
                return TensorType(new, dimensions(attribute.get_shape()), attribute.encoding)
            case MemRefType(element_type=element) if (new := self.element(element)) is not element:
                return MemRefType(new, attribute.get_shape(), attribute.layout, attribute.memory_space)
            case FunctionType() if any(map(self.changes, (*attribute.inputs.data, *attribute.outputs.data))):
                inputs, outputs = [
                    [self.of(type_) for type_ in types.data] for types in (attribute.inputs, attribute.outputs)
                ]
                return FunctionType.from_lists(inputs, outputs)
            case IntegerAttr() | FloatAttr() if self.element(attribute.type) is not attribute.type:
                return self.number(attribute)
            case DenseIntOrFPElementsAttr() if self.changes(attribute.type):
                return self.array(attribute, self.of(attribute.type))
            case _:
                return self.element(attribute)


_REPLACED = (TensorType, MemRefType, FunctionType, IntegerAttr, FloatAttr, DenseIntOrFPElementsAttr)


@cache
def _may_hold_types(kind: type[Attribute]) -> bool:
    return issubclass(kind, (*_REPLACED, TypeAttribute))


class _Signs(Erasure):
    """Unsigned integers made signless."""

    def element(self, element: Attribute) -> Attribute:
        return signless(element) if isinstance(element, IntegerType) and is_unsigned(element) else element

    def number(self, number: IntegerAttr | FloatAttr[Any]) -> Attribute:
        assert isinstance(number, IntegerAttr)
        element = number.type
        assert isinstance(element, IntegerType)
        width, value = element.width.data, number.value.data
        return IntegerAttr(value - (1 << width) if value >> (width - 1) else value, signless(element))

    def array(self, array: DenseIntOrFPElementsAttr[Any], kind: Any) -> Attribute:
        return DenseIntOrFPElementsAttr(kind, array.data)
