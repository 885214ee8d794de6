"""Sizes as arguments of functions: who takes which, and who passes them on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IndexType, StringAttr

from tenon.dialects.types.assumptions import require_positive_sizes
from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import NAMES, size_arguments
from tenon.dialects.upstream.walking import ops_of


def add_size_arguments(function: func.FuncOp, names: Sequence[str]) -> None:
    """Let `function` take an `index` for each of `names`, behind its other arguments."""
    block = function.body.block
    for name in names:
        block.insert_arg(IndexType(), len(block.args)).name_hint = name
    function.attributes[NAMES] = ArrayAttr([StringAttr(name) for name in names])
    function.properties.pop("arg_attrs", None)
    function.update_function_type()


def pass_size_arguments(functions: Sequence[func.FuncOp]) -> None:
    """Let every call of a function that takes sizes pass those of the function around it."""
    taken = {function.sym_name.data: list(size_arguments(function)) for function in functions}
    for function in functions:
        known = size_arguments(function)
        for call in ops_of(function, func.CallOp):
            names = taken.get(call.callee.root_reference.data, [])
            if names:
                call.operands = [*call.operands, *[known[name] for name in names]]


def note_positive_sizes(functions: Sequence[func.FuncOp], required: Collection[Size]) -> None:
    """Note on those functions that are no kernels which sizes must be above 0."""
    for function in functions:
        if required and "kernel" not in function.attributes:
            require_positive_sizes(function, required)
