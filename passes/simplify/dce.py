"""Removes what nothing needs.

Before: a verified module of any stage. After: no op without effects is left whose results are unused, also inside of
regions, and no private function that cannot be reached from a public one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator, RecursiveMemoryEffect, is_side_effect_free

_SCALAR_DIALECTS = frozenset(("arith", "math"))


class DeadCodeEliminationPass(ModulePass):
    """Remove unused ops without effects and private functions that are never called."""

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        for function in op.ops:
            for region in function.regions:
                for block in region.blocks:
                    erase_dead_ops(block, effects)
        erase_unreachable_functions(op)


class Effects:
    """Tells which ops of a module do nothing but compute their results, be it by a loop that may not end."""

    def __init__(self, module: ModuleOp) -> None:
        self._functions = functions_by_name(module)
        self._by_type: dict[type[Operation], bool] = {}
        self._by_function: dict[str, bool] = {}

    def is_pure(self, op: Operation) -> bool:
        """Whether `op` may be removed when its results are unused, and merged with an equal one."""
        if isinstance(op, func.CallOp):
            return self._function_is_pure(op.callee.root_reference.data)
        if op.regions:
            return self._may_be_pure(op) and all(self._is_pure_inside(inner) for inner in _children(op))
        known = self._by_type.get(type(op))
        if known is None:
            # Effects are traits of the class; only ops with regions or symbols look at the op itself.
            known = op.dialect_name() in _SCALAR_DIALECTS or is_side_effect_free(op)
            self._by_type[type(op)] = known
        return known and not op.successors

    def _is_pure_inside(self, op: Operation) -> bool:
        return self.is_pure(op) or op.has_trait(IsTerminator)

    def _may_be_pure(self, op: Operation) -> bool:
        if op.dialect_name() == "linalg":
            return not any(isinstance(operand.type, MemRefType) for operand in op.operands)
        return op.has_trait(RecursiveMemoryEffect) or is_side_effect_free(op)

    def _function_is_pure(self, name: str) -> bool:
        known = self._by_function.get(name)
        if known is None:
            self._by_function[name] = False  # a recursive function may not end
            function = self._functions.get(name)
            if function is None or function.body.first_block is None:
                return False
            known = all(map(self._is_pure_inside, _children(function)))
            self._by_function[name] = known
        return known


def _children(op: Operation) -> Iterator[Operation]:
    return (inner for region in op.regions for block in region.blocks for inner in block.ops)


def functions_by_name(module: ModuleOp) -> dict[str, func.FuncOp]:
    """The functions of `module` by symbol."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}


def erase_dead_ops(block: Block, effects: Effects) -> None:
    """Remove dead ops from `block` and from the regions of its ops."""
    for op in reversed(block.ops):
        if not any(result.first_use is not None for result in op.results) and effects.is_pure(op):
            if not op.has_trait(IsTerminator):
                Rewriter.erase_op(op)
            continue
        for region in op.regions:
            for inner in region.blocks:
                erase_dead_ops(inner, effects)


def erase_unreachable_functions(module: ModuleOp, entry: str | None = None) -> None:
    """Remove the private functions that no public symbol refers to, directly or through others.

    With `entry`, only the function of that name counts as public.
    """
    functions = functions_by_name(module)
    reached = {name for name, function in functions.items() if (name == entry if entry else not is_private(function))}
    pending: list[Operation] = [
        op for op in module.ops if not isinstance(op, func.FuncOp) or op.sym_name.data in reached
    ]
    while pending:
        for name in referenced_symbols(pending.pop()):
            if name in functions and name not in reached:
                reached.add(name)
                pending.append(functions[name])
    for name, function in functions.items():
        if name not in reached:
            Rewriter.erase_op(function)


def is_private(function: func.FuncOp) -> bool:
    """Whether only its own module can call `function`."""
    return function.sym_visibility == StringAttr("private")


def referenced_symbols(op: Operation) -> Iterator[str]:
    """The symbols that `op` and the ops inside of it refer to."""
    for inner in op.walk():
        for attributes in (inner.properties, inner.attributes):
            if attributes:
                yield from _symbols(attributes.values())


def _symbols(attributes: Iterable[Attribute]) -> Iterator[str]:
    for attribute in attributes:
        if isinstance(attribute, SymbolRefAttr):
            yield attribute.root_reference.data
        elif isinstance(attribute, ArrayAttr):
            yield from _symbols(attribute.data)
