"""Gives the unknown dimensions of arguments names, so that one program can be compiled for all sizes.

Before: a verified module of tensor ops in which `@main` takes arguments with `?`. After: those dimensions are sizes
(`tenon.dialects.size`), every type that follows is inferred in terms of them, and the attribute `tenon.shape` of an
argument says what its dimensions are called. An argument may bring that attribute: equal names mean equal sizes. Two
dimensions that ops ask to be equal get one name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.inference import InferenceError
from tenon.dialects.settings import setting_sizes
from tenon.dialects.size import Size, names_of, replaced
from tenon.dialects.size_values import SizesAttr, names_in
from tenon.dialects.types import element_of, shape_of, tensor_type
from tenon.passes.dce import erase_unreachable_functions, functions_by_name
from tenon.passes.specialize import specialize

SHAPE = "tenon.shape"
"""The attribute of an argument that names its dimensions: an array of numbers and, as strings, sizes."""


@dataclass(frozen=True)
class NameSizesPass(ModulePass):
    """Name the unknown dimensions of the arguments of `function`."""

    name = "name-sizes"
    function: str = "main"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = functions_by_name(op).get(self.function)
        if function is None:
            raise PassFailedException(f"name-sizes: there is no function @{self.function}")
        name_sizes(op, self.function)
        erase_unreachable_functions(op)


def name_sizes(module: ModuleOp, function: str = "main") -> None:
    """Name the unknown dimensions of the arguments of a function, in place.

    Raises `InferenceError` where ops ask for sizes that cannot be told, `ValueError` where an argument has no rank.
    """
    named = functions_by_name(module)[function]
    given = set(names_of(size for shape in declared_shapes(named) for size in shape or ()))
    known = _named_arguments(named)
    merged: dict[str, Any] = {}
    while True:
        shapes = [tuple([replaced(size, merged) for size in shape]) for shape in known]
        attempt = module.clone()
        try:
            _give(attempt, function, shapes)
            break
        except InferenceError as error:
            equal = _merge(error.sizes, given)
            if equal is None:
                raise
            merged = {name: replaced(size, equal) for name, size in merged.items()} | equal
    if merged:
        _replace_in_settings(module, merged)
    _give(module, function, shapes)


def _give(module: ModuleOp, name: str, shapes: Sequence[Sequence[Any]]) -> None:
    function = functions_by_name(module)[name]
    arguments = function.body.block.args
    types = [tensor_type(tuple(s), element_of(a.type)) for s, a in zip(shapes, arguments, strict=True)]
    specialize(function, types)
    record_shapes(function)


def _merge(sizes: tuple[Any, Any] | None, given: Collection[str]) -> dict[str, Any] | None:
    """Which name gives way to what, so that two sizes are one; `None` where neither is just a name.

    Names that the program gives are kept if there is a choice.
    """
    if sizes is None:
        return None
    candidates = [sizes[::-1], sizes]
    if isinstance(sizes[1], Size) and sizes[1].name in given:
        candidates.reverse()
    for name, other in candidates:
        if isinstance(name, Size) and name.name is not None and name.name not in names_of([other]):
            return {name.name: other}
    return None


def _named_arguments(function: func.FuncOp) -> list[list[Any]]:
    """The shapes of the arguments, with a name for each unknown dimension."""
    shapes: list[list[Any]] = []
    given_shapes = declared_shapes(function)
    taken = {*names_in(function), *names_of(size for shape in given_shapes for size in shape or ())}
    for position, argument in enumerate(function.body.block.args):
        shape = shape_of(argument.type)
        if shape is None:
            raise ValueError(f"@{function.sym_name.data}: the rank of argument {position} is not known")
        given = given_shapes[position]
        sizes: list[Any] = []
        for axis, size in enumerate(shape):
            if given is not None and (isinstance(given[axis], Size) or size >= 0):
                sizes.append(given[axis])
            elif size < 0:
                name = f"{argument.name_hint or f'arg{position}'}_d{axis}"
                while name in taken:
                    name = f"{name}_"
                taken.add(name)
                sizes.append(Size.named(name))
            else:
                sizes.append(size)
        shapes.append(sizes)
    return shapes


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
        sizes = [StringAttr(str(s)) if isinstance(s, Size) else IntegerAttr(s, i64) for s in shape]
        kept[SHAPE] = ArrayAttr(sizes)
    return DictionaryAttr(kept)


def bind_sizes(module: ModuleOp, values: Mapping[str, int]) -> ModuleOp:
    """A copy of a module of tensor ops with numbers in the place of all sizes."""
    copy = module.clone()
    _replace_in_settings(copy, values)
    for op in copy.walk():
        for block in (block for region in op.regions for block in region.blocks):
            for argument in block.args:
                _replace_type(argument, values)
        for result in op.results:
            _replace_type(result, values)
    for op in copy.ops:
        if isinstance(op, func.FuncOp) and op.body.blocks:
            op.update_function_type()
            op.properties.pop("arg_attrs", None)
    return copy


def _replace_type(value: Any, values: Mapping[str, Any]) -> None:
    shape = shape_of(value.type) if isinstance(value.type, TensorType) else None
    if shape is not None and any(isinstance(size, Size) for size in shape):
        sizes = tuple([replaced(size, values) for size in shape])
        Rewriter.replace_value_with_new_type(value, tensor_type(sizes, element_of(value.type)))


def _replace_in_settings(root: Operation, values: Mapping[str, Any]) -> None:
    for op in root.walk():
        for name, attribute in op.properties.items():
            if isinstance(attribute, SizesAttr):
                op.properties[name] = setting_sizes([replaced(size, values) for size in attribute.data])
