"""Gives functions concrete argument types.

Before: a verified module of tensor ops, shapes known or not (`?`, unknown ranks). After: the function has the given
argument types, and every type that follows from them is inferred again, as by `infer-shapes`. A contradiction is an
error that names the op."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.type_inference import refine_values
from tenon.dialects.types.types import element_type, tensor_type
from tenon.passes.simplify.dce import erase_unreachable_functions, functions_by_name
from tenon.passes.simplify.infer_shapes import ShapeInference


@dataclass(frozen=True)
class SpecializePass(ModulePass):
    """Give `function` the argument types `arguments`: `"4x3xf32,3xf32"`, or `"tensor<4x3xf32>","3xf32"`."""

    name = "specialize"
    arguments: tuple[str, ...]
    function: str = "main"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = functions_by_name(op).get(self.function)
        if function is None:
            raise PassFailedException(f"specialize: there is no function @{self.function}")
        try:
            types = [_parsed(text.strip()) for listed in self.arguments for text in listed.split(",")]
            specialize(function, types)
        except ValueError as error:
            raise PassFailedException(str(error)) from error
        erase_unreachable_functions(op)


def _parsed(text: str) -> Attribute:
    match = re.fullmatch(r"(?:tensor<)?((?:(?:\d+|\?)x)*)([a-zA-Z]\w*)>?", text)
    if match is None:
        raise PassFailedException(f"specialize: {text!r} is not a type such as '4x3xf32'")
    sizes = tuple([-1 if size == "?" else int(size) for size in match[1].split("x")[:-1]])
    try:
        return tensor_type(sizes, element_type(match[2]))
    except TypeError as error:
        raise PassFailedException(f"specialize: {error}") from None


def specialize(function: func.FuncOp, argument_types: Sequence[Attribute]) -> None:
    """Give `function` argument types that refine those it has, and infer every other type in it again.

    Raises `ValueError` where a shape contradicts a declared one or what an op asks for.
    """
    name = function.sym_name.data
    arguments = function.body.block.args
    if len(arguments) != len(argument_types):
        raise ValueError(f"@{name}: takes {len(arguments)} arguments, and {len(argument_types)} types are given")
    refine_values(arguments, argument_types, f"@{name}: argument")
    module = function.parent_op()
    inference = ShapeInference(module if isinstance(module, ModuleOp) else None)
    inference.function(function)
    inference.finish()
