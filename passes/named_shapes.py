"""The names that arguments of a function give their dimensions, and numbers in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.settings import setting_sizes
from tenon.dialects.types.size import Size, names_of, replaced
from tenon.dialects.types.size_values import SizesAttr
from tenon.dialects.types.types import element_of, shape_of, tensor_type

SHAPE = "tenon.shape"
"""The attribute of an argument that names its dimensions: an array of numbers and, as strings, sizes."""


def declared_shapes(function: func.FuncOp) -> list[list[Any] | None]:
    """The sizes that the attributes of arguments name, `None` for arguments without."""
    types = function.body.block.arg_types
    attributes = function.arg_attrs.data if function.arg_attrs is not None else [DictionaryAttr({})] * len(types)
    shapes: list[list[Any] | None] = []
    for position, (type_, entries) in enumerate(zip(types, attributes, strict=True)):
        entry = entries.data.get(SHAPE)
        if not isinstance(entry, ArrayAttr):
            shapes.append(None)
            continue
        sizes = [_size_of(part) for part in entry]
        if len(sizes) != len(shape_of(type_) or sizes):
            raise ValueError(f"@{function.sym_name.data}: {SHAPE} of argument {position} is {entry} for {type_}")
        shapes.append(sizes)
    return shapes


def _size_of(attribute: Attribute) -> Any:
    match attribute:
        case StringAttr():
            return Size.parse(attribute.data)
        case IntegerAttr():
            return attribute.value.data
        case _:
            raise ValueError(f"{SHAPE}: {attribute} is neither a number nor the name of a size")


def record_shapes(function: func.FuncOp) -> None:
    """Note the names in the types of arguments as attributes of these, which the text form of types leaves out.

    Raises `ValueError` for a name that no dimension is by itself, so that nothing tells what it stands for.
    """
    types = function.body.block.arg_types
    sizes = [size for type_ in types for size in shape_of(type_) or () if isinstance(size, Size)]
    if not sizes:
        return
    told = {size.name for size in sizes}
    if missing := [name for name in names_of(sizes) if name not in told]:
        shown = ", ".join(str(size) for size in sizes if missing[0] in size.names())
        raise ValueError(f"@{function.sym_name.data}: no dimension of an argument is {missing[0]}, only {shown}")
    old = function.arg_attrs.data if function.arg_attrs is not None else [DictionaryAttr({})] * len(types)
    function.arg_attrs = ArrayAttr([_with_shape(a, type_) for a, type_ in zip(old, types, strict=True)])


def _with_shape(attributes: DictionaryAttr, type_: Attribute) -> DictionaryAttr:
    shape = shape_of(type_) or ()
    kept = {name: value for name, value in attributes.data.items() if name != SHAPE}
    if any(isinstance(size, Size) for size in shape):
        kept[SHAPE] = ArrayAttr(map(_as_attribute, shape))
    return DictionaryAttr(kept)


def bind_sizes(module: ModuleOp, values: Mapping[str, int]) -> ModuleOp:
    """A copy of a module of tensor ops with numbers in the place of all sizes."""
    copy = module.clone()
    replace_in_settings(copy, values)
    _replace_in_types(copy, values)
    for op in copy.ops:
        if isinstance(op, func.FuncOp) and op.body.blocks:
            op.update_function_type()
            op.properties.pop("arg_attrs", None)
    return copy


def bind_numbers(function: func.FuncOp) -> None:
    """Put numbers in the places of the names of dimensions that are numbers in the types of arguments, in place.

    Raises `ValueError` where two dimensions of one name differ.
    """
    if function.arg_attrs is None:
        return
    values: dict[str, int] = {}
    declared = zip(declared_shapes(function), function.body.block.arg_types, strict=True)
    for position, (sizes, type_) in enumerate(declared):
        for axis, (size, number) in enumerate(zip(sizes or (), shape_of(type_) or (), strict=False)):
            if type(number) is not int or number < 0 or not isinstance(size, Size) or size.name is None:
                continue
            if values.setdefault(size.name, number) != number:
                where = f"@{function.sym_name.data}: dimension {axis} of argument {position}"
                raise ValueError(f"{where} is {number}, and {size.name} is {values[size.name]} in another")
    if not values:
        return
    replace_in_settings(function, values)
    _replace_in_types(function, values)
    attributes = [_bound(entries, values) for entries in function.arg_attrs]
    function.arg_attrs = ArrayAttr(attributes) if any(entries.data for entries in attributes) else None


def _bound(attributes: DictionaryAttr, values: Mapping[str, int]) -> DictionaryAttr:
    entry = attributes.data.get(SHAPE)
    if not isinstance(entry, ArrayAttr):
        return attributes
    sizes = [replaced(_size_of(part), values) for part in entry]
    kept = {name: value for name, value in attributes.data.items() if name != SHAPE}
    if any(isinstance(size, Size) for size in sizes):
        kept[SHAPE] = ArrayAttr([_as_attribute(size) for size in sizes])
    return DictionaryAttr(kept)


def _as_attribute(size: Any) -> Attribute:
    return StringAttr(str(size)) if isinstance(size, Size) else IntegerAttr(size, i64)


def _replace_in_types(root: Operation, values: Mapping[str, int]) -> None:
    for op in root.walk():
        for block in (block for region in op.regions for block in region.blocks):
            for argument in block.args:
                _replace_type(argument, values)
        for result in op.results:
            _replace_type(result, values)


def _replace_type(value: Any, values: Mapping[str, Any]) -> None:
    shape = shape_of(value.type) if isinstance(value.type, TensorType) else None
    if shape is not None and any(isinstance(size, Size) for size in shape):
        sizes = tuple([replaced(size, values) for size in shape])
        Rewriter.replace_value_with_new_type(value, tensor_type(sizes, element_of(value.type)))


def replace_in_settings(root: Operation, values: Mapping[str, Any]) -> None:
    """Put what `values` gives in the places of names, in the settings of all ops in `root`, in place."""
    for op in root.walk():
        for name, attribute in op.properties.items():
            if isinstance(attribute, SizesAttr):
                op.properties[name] = setting_sizes([replaced(size, values) for size in attribute.data])
