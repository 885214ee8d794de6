"""Gives functions concrete argument types.

Before: a verified module of tensor ops, shapes known or not (`?`, unknown ranks). After: the function has the given
argument types, and every type that follows from them, through calls and regions too, is inferred again. A
contradiction is an error that names the op. Called private functions are copied for the types that they are called
with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.base import TensorOp
from tenon.dialects.checkpoint import CheckpointOp
from tenon.dialects.control_flow import CondOp, ScanOp, WhileLoopOp
from tenon.dialects.family_control_flow import YieldOp
from tenon.dialects.inference import InferenceError, refine, show
from tenon.dialects.types import element_of, element_type, shape_of, tensor_type
from tenon.passes.dce import erase_unreachable_functions, functions_by_name


@dataclass(frozen=True)
class SpecializePass(ModulePass):
    """Give `function` the argument types `arguments`, written as `"4x3xf32"` or `"tensor<4x3xf32>"`."""

    name = "specialize"
    arguments: tuple[str, ...]
    function: str = "main"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = functions_by_name(op).get(self.function)
        if function is None:
            raise PassFailedException(f"specialize: there is no function @{self.function}")
        specialize(function, [_parsed(text) for text in self.arguments])
        erase_unreachable_functions(op)


def _parsed(text: str) -> Attribute:
    match = re.fullmatch(r"(?:tensor<)?((?:(?:\d+|\?)x)*)([a-z]+\d+)>?", text)
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
    module = function.parent_op()
    specializer = _Specializer(module if isinstance(module, ModuleOp) else None)
    for position, (argument, type_) in enumerate(zip(arguments, argument_types, strict=True)):
        specializer.refine(argument, type_, f"@{name}: argument {position}")
    specializer.function(function)


class _Specializer:
    """Infers types in program order; the types of loop-carried values are met until they no longer change."""

    def __init__(self, module: ModuleOp | None) -> None:
        self._module = module
        self._copies: dict[tuple[str, tuple[Attribute, ...]], func.FuncOp] = {}

    def function(self, function: func.FuncOp) -> None:
        """Infer the types in a function whose argument types are set."""
        block = function.body.block
        self.block(block)
        terminator = block.last_op
        assert terminator is not None
        results = [value.type for value in terminator.operands]
        function.function_type = FunctionType.from_lists([argument.type for argument in block.args], results)

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            self._operation(op)

    def refine(self, value: SSAValue, type_: Attribute, what: str) -> None:
        """Set the type of `value` to all that is known of it by its own type and by `type_`."""
        known, given = shape_of(value.type), shape_of(type_)
        if element_of(value.type) != element_of(type_):
            raise ValueError(f"{what} has dtype {element_of(value.type)}, and {element_of(type_)} is given")
        try:
            refined = tensor_type(refine(known, given), element_of(type_))
        except InferenceError as error:
            message = f"{what} has shape {show(known)}, and {show(given)} is given: {error}"
            raise InferenceError(message, error.sizes) from None
        if shape_of(refined) != known:
            Rewriter.replace_value_with_new_type(value, refined)

    def _results(self, op: Operation, types: Iterable[Attribute]) -> None:
        for position, type_ in enumerate(types):
            self.refine(op.results[position], type_, f"{op.name}: result {position}")

    def _operation(self, op: Operation) -> None:
        match op:
            case TensorOp():
                types = op.group([operand.type for operand in op.operands], op.properties)
                self._results(op, op.inferred_types(types, op.settings))
            case CondOp():
                for region in (op.then, op.otherwise):
                    self.block(region.block)
                    self._results(op, _yielded_types(region.block))
            case CheckpointOp():
                for position, operand in enumerate(op.inputs):
                    self.refine(op.body.block.args[position], operand.type, f"{op.name}: argument {position}")
                self.block(op.body.block)
                self._results(op, _yielded_types(op.body.block))
            case WhileLoopOp():
                self._loop(op, [op.condition.block, op.body.block], op.body.block, len(op.initial), [])
            case ScanOp():
                slices = [tensor_type((shape_of(v.type) or (0,))[1:], element_of(v.type)) for v in op.sequences]
                self._loop(op, [op.body.block], op.body.block, len(op.initial), slices)
                stacked = _yielded_types(op.body.block)[len(op.initial) :]
                for position, type_ in enumerate(stacked, start=len(op.initial)):
                    shape = shape_of(type_)
                    whole = tensor_type(None if shape is None else (op.steps, *shape), element_of(type_))
                    self.refine(op.results[position], whole, f"{op.name}: result {position}")
            case func.CallOp():
                self._call(op)
            case _:
                pass

    def _loop(self, op: Operation, blocks: list[Block], body: Block, carried: int, slices: Sequence[Attribute]) -> None:
        """Carried values have the type of their initial values, which the body must keep."""
        types = [operand.type for operand in op.operands][:carried]
        for block in blocks:
            for position, type_ in enumerate([*types, *slices]):
                self.refine(block.args[position], type_, f"{op.name}: argument {position} of its body")
            self.block(block)
        self._results(op, types)
        terminator = body.last_op
        assert terminator is not None
        for position, type_ in enumerate(types):
            self.refine(terminator.operands[position], type_, f"{op.name}: carried value {position}")

    def _call(self, op: func.CallOp) -> None:
        name = op.callee.root_reference.data
        callee = functions_by_name(self._module).get(name) if self._module is not None else None
        if callee is None or callee.body.first_block is None:
            return
        types = tuple([operand.type for operand in op.operands])
        if [shape_of(t) for t in types] != [shape_of(t) for t in callee.function_type.inputs]:
            callee = self._copy_for(callee, types, op)
            op.callee = SymbolRefAttr(callee.sym_name)
        self._results(op, callee.function_type.outputs.data)

    def _copy_for(self, callee: func.FuncOp, types: tuple[Attribute, ...], call: func.CallOp) -> func.FuncOp:
        name = callee.sym_name.data
        if (known := self._copies.get((name, types))) is not None:
            return known
        assert self._module is not None
        copy = callee.clone()
        taken = functions_by_name(self._module)
        number = 0
        while f"{name}_{number}" in taken:
            number += 1
        copy.sym_name = StringAttr(f"{name}_{number}")
        copy.sym_visibility = StringAttr("private")
        self._copies[name, types] = copy
        self._module.body.block.insert_op_after(copy, callee)
        for position, (argument, type_) in enumerate(zip(copy.body.block.args, types, strict=True)):
            self.refine(argument, type_, f"{call.name}: argument {position} of @{name}")
        self.function(copy)
        return copy


def _yielded_types(block: Block) -> list[Attribute]:
    terminator = block.last_op
    assert isinstance(terminator, YieldOp)
    return [value.type for value in terminator.operands]
