"""Passes that take functions one by one, so that one function can go through several of them while others wait."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.support.location import position_of
from tenon.dialects.types.size_values import NAMES, sizes_in
from tenon.dialects.upstream.walking import all_ops

Change: TypeAlias = Callable[[FuncOp], None]


class FunctionPass(ModulePass):
    """A pass whose effect on a function depends on no other kernel of the module."""

    kernels_only: ClassVar[bool] = True
    """Whether functions that are no kernels stay as they are."""
    changes_entries: ClassVar[bool] = False
    """Whether what calls the kernels is changed as soon as it is asked what is done to these."""

    @abstractmethod
    def change(self, module: ModuleOp) -> Change:
        """What is done to each function of `module`. It is asked for before any function was changed, and may read
        what calls the kernels; functions without a body may have been added to the module since."""

    def takes(self, function: FuncOp) -> bool:
        """Whether `function` is changed at all."""
        return bool(function.body.blocks) and not (self.kernels_only and "kernel" not in function.attributes)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Change all functions of a module."""
        change = self.change(op)
        for function in [function for function in op.ops if isinstance(function, FuncOp)]:
            if self.takes(function):
                require_buffers(function, self.name)
                change(function)


class SizesPass(ModulePass):
    """A pass that changes only what has sizes that the launch tells."""

    @staticmethod
    def concerns(module: ModuleOp) -> bool:
        """Whether there are any in `module`, at any stage."""
        functions = [function for function in module.ops if isinstance(function, FuncOp)]
        sizes = [size for function in functions for type_ in function.function_type.inputs for size in sizes_in(type_)]
        return bool(sizes) or any(NAMES in function.attributes for function in functions)


def require_buffers(function: FuncOp, pass_name: str) -> None:
    """Raise `PassFailedException` where a function that a pass is to change is not at the buffered stage yet."""
    for op in all_ops(function):
        types = (
            *op.result_types,
            *(type_ for region in op.regions for block in region.blocks for type_ in block.arg_types),
        )
        if any(isinstance(type_, TensorType | UnrankedTensorType) for type_ in types):
            name = function.sym_name.data
            raise PassFailedException(
                f"{position_of(op)}{op.name} in @{name} works on tensors; bufferize before {pass_name}"
            )
