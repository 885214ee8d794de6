"""Puts private functions in the place of their calls.

Before: a verified module. After: no call of a private function is left, nor any such function, except kernels and
declarations. Recursion is an error. Ops keep their locations.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.upstream.walking import ops_of
from tenon.passes.simplify.dce import functions_by_name, is_private, referenced_symbols


class InlinePass(ModulePass):
    """Replace calls of private functions by the functions' bodies."""

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inline_calls(op)


def inline_calls(module: ModuleOp) -> None:
    """Inline every call of a private function with a body, callees before their callers."""
    functions = functions_by_name(module)
    inlinable = {name: function for name, function in functions.items() if _is_inlinable(function)}
    done: set[str] = set()
    active: list[str] = []

    def process(function: func.FuncOp) -> None:
        name = function.sym_name.data
        if name in active:
            cycle = " -> ".join(f"@{n}" for n in [*active[active.index(name) :], name])
            raise PassFailedException(f"inline: function @{name} is recursive: {cycle}")
        if name in done:
            return
        active.append(name)
        calls = ops_of(function, func.CallOp)
        for call in calls:
            callee = inlinable.get(call.callee.root_reference.data)
            if callee is not None:
                process(callee)
                _inline(call, callee)
        active.pop()
        done.add(name)

    for function in functions.values():
        process(function)
    _erase_uncalled(module, inlinable)


def _is_inlinable(function: func.FuncOp) -> bool:
    has_one_block = function.body.first_block is not None and function.body.first_block is function.body.last_block
    return is_private(function) and has_one_block and "kernel" not in function.attributes


def _inline(call: func.CallOp, callee: func.FuncOp) -> None:
    body = callee.body.block
    mapper: dict[SSAValue, SSAValue] = dict(zip(body.args, call.arguments, strict=True))
    target = call.parent
    assert target is not None
    for op in body.ops:
        if isinstance(op, func.ReturnOp):
            for result, value in zip(call.results, op.arguments, strict=True):
                result.replace_all_uses_with(mapper.get(value, value))
            break
        target.insert_op_before(op.clone(mapper), call)
    Rewriter.erase_op(call)


def _erase_uncalled(module: ModuleOp, inlined: dict[str, func.FuncOp]) -> None:
    referenced = set(referenced_symbols(module))
    for name, function in inlined.items():
        if name not in referenced:
            Rewriter.erase_op(function)
