"""The end of unsigned types: upstream dialects take signless integers, and say by their ops which are signed.

Tensor IR has `ui8` to `ui64`, and ops, bodies and constants made of it carry them on while they are built. `erase` then
turns every `uiN` of a module into `iN`. What is lost with it is kept in the attribute `dtypes` of each function that is
called from outside, a function type of element types: `dtypes = (ui8, f32) -> ui8`. A function without it has the
dtypes that its types name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tenon.dialects.types import dimensions, is_unsigned, signless

DTYPES = "dtypes"


def erase(module: ModuleOp) -> None:
    """Make every unsigned type of `module` signless, in place; a module without any stays as it is."""
    ops = list(module.walk())
    erasure = _Erasure()
    declared = [op.function_type for op in ops if isinstance(op, func.FuncOp)]
    # Few types have many values: one is told by its identity sooner than by what it is.
    types = {id(type_): type_ for type_ in [value.type for op in ops for value in _values(op)]}
    if not any(map(erasure.changes, [*declared, *types.values()])):
        return
    for op in ops:
        if isinstance(op, func.FuncOp):
            _keep_dtypes(op, erasure)
        for value in _values(op):
            if erasure.changes(value.type):
                Rewriter.replace_value_with_new_type(value, erasure.of(value.type))
        for attributes in (op.properties, op.attributes):
            for name, attribute in attributes.items():
                if name != DTYPES:
                    attributes[name] = erasure.of(attribute)
        if isinstance(op, arith.BitcastOp) and op.input.type == op.result.type:
            op.result.replace_all_uses_with(op.input)
            op.detach()
            op.erase()


def external_elements(function: func.FuncOp) -> tuple[Sequence[Attribute], Sequence[Attribute]] | None:
    """The element types of inputs and results as the caller sees them, where types do not name them."""
    dtypes = function.attributes.get(DTYPES)
    return (dtypes.inputs.data, dtypes.outputs.data) if isinstance(dtypes, FunctionType) else None


def _keep_dtypes(function: func.FuncOp, erasure: _Erasure) -> None:
    is_private = function.sym_visibility == StringAttr("private")
    if is_private or not erasure.changes(function.function_type) or DTYPES in function.attributes:
        return
    inputs, outputs = (
        [getattr(type_, "element_type", type_) for type_ in types.data]
        for types in (function.function_type.inputs, function.function_type.outputs)
    )
    function.attributes[DTYPES] = FunctionType.from_lists(inputs, outputs)


def _values(op: Operation) -> Iterable[SSAValue]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            assert isinstance(block, Block)
            yield from block.args


class _Erasure:
    """What attributes become, each computed once."""

    def __init__(self) -> None:
        self._known: dict[Attribute, Attribute] = {}

    def changes(self, attribute: Attribute) -> bool:
        """Whether `attribute` holds an unsigned type."""
        return self.of(attribute) is not attribute

    def of(self, attribute: Attribute) -> Attribute:
        """`attribute` with its unsigned types signless; itself where it has none."""
        if not isinstance(
            attribute, IntegerType | TensorType | MemRefType | FunctionType | IntegerAttr | DenseIntOrFPElementsAttr
        ):
            return attribute
        known = self._known.get(attribute)
        if known is None:
            known = self._known[attribute] = self._erased(attribute)
        return known

    def _erased(self, attribute: Attribute) -> Attribute:
        match attribute:
            case IntegerType() if is_unsigned(attribute):
                return signless(attribute)
            case TensorType(element_type=IntegerType() as element) if is_unsigned(element):
                return TensorType(signless(element), dimensions(attribute.get_shape()), attribute.encoding)
            case MemRefType(element_type=IntegerType() as element) if is_unsigned(element):
                return MemRefType(signless(element), attribute.get_shape(), attribute.layout, attribute.memory_space)
            case FunctionType() if any(map(self.changes, (*attribute.inputs.data, *attribute.outputs.data))):
                inputs, outputs = [
                    [self.of(type_) for type_ in types.data] for types in (attribute.inputs, attribute.outputs)
                ]
                return FunctionType.from_lists(inputs, outputs)
            case IntegerAttr(value=value, type=IntegerType() as element) if is_unsigned(element):
                width = element.width.data
                number = value.data - (1 << width) if value.data >> (width - 1) else value.data
                return IntegerAttr(number, signless(element))
            case DenseIntOrFPElementsAttr() if self.changes(attribute.type):
                return DenseIntOrFPElementsAttr(self.of(attribute.type), attribute.data)  # pyright: ignore
            case _:
                return attribute
