"""Gives the unknown dimensions of arguments names, so that one program can be compiled for all sizes.

Before: a verified module of tensor ops in which `@main` takes arguments with `?`. After: those dimensions are sizes
(`tenon.dialects.types.size`), every type that follows is inferred in terms of them, and the attribute `tenon.shape` of
an argument says what its dimensions are called. An argument may bring that attribute: equal names mean equal sizes.
Two dimensions that ops ask to be equal get one name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.size import Size, names_of, replaced
from tenon.dialects.types.size_values import names_in
from tenon.dialects.types.types import element_of, shape_of, tensor_type
from tenon.passes.named_shapes import declared_shapes, record_shapes, replace_in_settings
from tenon.passes.simplify.dce import erase_unreachable_functions, functions_by_name
from tenon.passes.transform.specialize import specialize


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
        replace_in_settings(module, merged)
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
