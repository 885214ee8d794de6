"""Infers what is not known of shapes from what is: ranks and dimensions, through control flow and calls.

Before: a verified module of tensor ops, shapes known or not (`?`, unknown ranks). After: every type has what follows
from the arguments of the functions that callers outside of the module see; a contradiction is an error that names the
op. What an op infers it says by the trait `InfersTypes`. A private function gets the argument types that its calls
have, and a copy for each further list of them. Where a dimension that `tenon.shape` names is a number, the name is that
number everywhere. The results of `tenon.cond` have what both branches have; carried values keep the types that they
begin with.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, SymbolRefAttr, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.type_inference import InfersTypes, refine_results, refine_values
from tenon.dialects.support.location import at_line
from tenon.dialects.types.types import is_known, shape_of
from tenon.passes.named_shapes import bind_numbers
from tenon.passes.simplify.dce import functions_by_name, is_private, referenced_symbols


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Infer the shapes of a whole module."""

    name = "infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            infer_shapes(op)
        except ValueError as error:
            raise PassFailedException(str(error)) from error


def infer_shapes(module: ModuleOp) -> None:
    """Infer the shapes of a module, in place; raises `ValueError` where they contradict each other."""
    functions = [f for f in functions_by_name(module).values() if f.body.blocks]
    if all(map(_is_known, functions)):
        return
    called = {name for function in functions for name in referenced_symbols(function)}
    inference = ShapeInference(module)
    try:
        for function in functions:
            if not is_private(function) or function.sym_name.data not in called:
                inference.function(function)
    except RecursionError:
        raise ValueError("regions are nested, or functions call themselves with other shapes, too deeply") from None
    inference.finish()


def _is_known(function: func.FuncOp) -> bool:
    values = [value for op in function.walk() for block in _blocks(op) for value in block.args]
    values += [result for op in function.walk() for result in op.results]
    return all(is_known(v.type) for v in values if isinstance(v.type, TensorType | UnrankedTensorType))


def _blocks(op: Operation) -> list[Block]:
    return [block for region in op.regions for block in region.blocks]


class ShapeInference:
    """Infers types in program order, function by function; a function that is called, once for each list of shapes."""

    def __init__(self, module: ModuleOp | None) -> None:
        self._functions = functions_by_name(module) if module is not None else {}
        self._module = module
        self._instances: dict[str, dict[tuple[Any, ...], func.FuncOp]] = {}
        self._calls: dict[func.FuncOp, list[func.CallOp]] = {}

    def function(self, function: func.FuncOp) -> None:
        """Infer the types in a function from those of its arguments."""
        bind_numbers(function)
        for block in function.body.blocks:
            self._block(block)
        results = _ended_with(function.body.blocks[-1])
        function.function_type = FunctionType.from_lists(list(function.body.blocks[0].arg_types), results)

    def finish(self) -> None:
        """Put the only copy of a private function that nothing calls any more into its place."""
        if self._module is None:
            return
        called = set(referenced_symbols(self._module))
        for name, instances in self._instances.items():
            original = self._functions[name]
            if not is_private(original) or name in called:
                continue
            Rewriter.erase_op(original)
            (copy, *others) = instances.values()
            if not others:
                copy.sym_name = original.sym_name
                for call in self._calls[copy]:
                    call.callee = SymbolRefAttr(original.sym_name)

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            if isinstance(op, func.CallOp):
                self._call(op)
            elif (trait := op.get_trait(InfersTypes)) is not None:
                self._regions(op, trait)
                with _located(op):
                    refine_results(op)

    def _regions(self, op: Operation, trait: InfersTypes) -> None:
        for number, types in enumerate(trait.infer_argument_types(op)):
            refine_values(op.regions[number].block.args, types, f"{op.name}: argument")
        for block in _blocks(op):
            self._block(block)
        for number, types in enumerate(trait.infer_yielded_types(op)):
            terminator = op.regions[number].block.last_op
            assert terminator is not None
            with _located(op):
                refine_values(terminator.operands, types, f"{op.name}: yielded value")

    def _call(self, op: func.CallOp) -> None:
        callee = self._functions.get(op.callee.root_reference.data)
        if callee is None or not callee.body.blocks:
            return
        instance = self._instance(callee, tuple([operand.type for operand in op.operands]), op)
        self._calls.setdefault(instance, []).append(op)
        op.callee = SymbolRefAttr(instance.sym_name)
        refine_values(op.results, instance.function_type.outputs.data, f"func.call: result of @{callee.sym_name.data}")

    def _instance(self, callee: func.FuncOp, types: tuple[Attribute, ...], call: func.CallOp) -> func.FuncOp:
        """`callee` for arguments of these types: itself if they are its own, else a copy, whose types are inferred."""
        name = callee.sym_name.data
        instances = self._instances.setdefault(name, {})
        shapes = tuple([shape_of(type_) for type_ in types])
        known = instances.get(shapes)
        if known is None:
            is_own = shapes == tuple([shape_of(type_) for type_ in callee.function_type.inputs])
            # Known before it is inferred: a function that calls itself has the results that it declares.
            known = instances[shapes] = callee if is_own else self._copy(callee)
            refine_values(known.body.blocks[0].args, types, f"func.call: argument of @{name}")
            self.function(known)
        return known

    def _copy(self, callee: func.FuncOp) -> func.FuncOp:
        assert self._module is not None
        name, number = callee.sym_name.data, 0
        taken = functions_by_name(self._module)
        while f"{name}_{number}" in taken:
            number += 1
        copy = callee.clone()
        copy.sym_name = StringAttr(f"{name}_{number}")
        copy.sym_visibility = StringAttr("private")
        self._module.body.block.insert_op_after(copy, callee)
        # What is copied once more may already call this copy.
        self._functions[copy.sym_name.data] = callee
        return copy


@contextmanager
def _located(op: Operation) -> Generator[None]:
    """Errors say where `op` is, as far as it is known."""
    try:
        yield
    except ValueError as error:
        error.args = (f"{error}{at_line(op)}", *error.args[1:])
        raise


def _ended_with(block: Block) -> Sequence[Attribute]:
    terminator = block.last_op
    assert terminator is not None
    return [value.type for value in terminator.operands]
