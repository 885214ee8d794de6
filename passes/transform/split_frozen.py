"""Moves what depends on frozen arguments alone out of `@main`, to be computed once.

Before: the tensor stage, decomposed; an argument of `@main` with the attribute `tenon.frozen` is the same at every
call. After: the same arguments, and behind them the *prepared* ones: the results of the function that the attribute
`prepare` of `@main` names. It takes those arguments of `@main` whose positions its attribute `frozen` lists:

    func.func @main(%x: T, %w: U {tenon.frozen}) {    func.func @main(%x: T, %w: U {tenon.frozen}, %t: V)
      %t = tenon.contract [%w, ...]                        attributes {prepare = @prepare} {
      %y = tenon.contract [%x, %t]                ->    %y = tenon.contract [%x, %t]
                                                      func.func @prepare(%w: U) -> V attributes {frozen = array<0>} {
                                                        %t = tenon.contract [%w, ...]

What is prepared is held in memory as long as the function is, and read from there at each call. So a value is prepared
that takes no more bytes than the frozen arguments that it is computed from, or `MOST_GROWTH` times as many if sums are
part of that, such as the transformed filters of a convolution; `LITTLE` bytes always. What is larger, such as a
broadcast or a cast of small integers, stays where it is used, and so does a reshape, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, ModuleOp, SymbolRefAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.traits import KeepsMemory, states
from tenon.dialects.families import ContractionOp, CumulativeOp, ReductionOp, WindowOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.support.frozen_arguments import PREPARE, TAKEN, frozen_positions
from tenon.dialects.types.types import AnyTensor, element_of, is_static, numpy_dtype, shape_of
from tenon.passes.simplify.dce import Effects, erase_dead_ops, functions_by_name

MOST_GROWTH = 2
LITTLE = 4096
_SUMS = (ContractionOp, CumulativeOp, ReductionOp, WindowOp)


class SplitFrozenPass(ModulePass):
    """Let `@prepare` compute what depends on frozen arguments alone."""

    name = "split-frozen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_by_name(op)
        main = functions.get("main")
        if main is None or not frozen_positions(main) or PREPARE in main.attributes:
            return
        if PREPARE in functions:
            raise PassFailedException(f"split-frozen: there is a function @{PREPARE} already")
        effects = Effects(op)
        prepared = _Derived(main, effects).worth_keeping()
        if prepared:
            op.body.block.add_op(_prepare(main, prepared))
            _pass_prepared(main, prepared)
            erase_dead_ops(main.body.block, effects)


class _Derived:
    """The values of a function that depend on frozen arguments and constants alone."""

    def __init__(self, function: func.FuncOp, effects: Effects) -> None:
        block = function.body.block
        # For each value the frozen arguments that it depends on, and whether sums are on the way.
        self._sources: dict[SSAValue, frozenset[SSAValue]] = {}
        self._has_sums: set[SSAValue] = set()
        for i in frozen_positions(function):
            if is_static(block.args[i].type):
                self._sources[block.args[i]] = frozenset((block.args[i],))
        self._ops: list[Operation] = []
        for op in block.ops:
            if not op.has_trait(IsTerminator) and effects.is_pure(op):
                self._add(op)

    def _add(self, op: Operation) -> None:
        used = used_values(op)
        if not all(value in self._sources for value in used) or not all(is_static(r.type) for r in op.results):
            return
        sources = frozenset[SSAValue]().union(*[self._sources[value] for value in used])
        has_sums = isinstance(op, _SUMS) or any(value in self._has_sums for value in used)
        self._sources.update(dict.fromkeys(op.results, sources))
        if has_sums:
            self._has_sums.update(op.results)
        self._ops.append(op)

    def worth_keeping(self) -> list[SSAValue]:
        """The values to prepare, in order: those that others than derived ops use. In the place of one that is not
        worth its memory come the values that it is computed from.
        """
        moved = set(self._ops)
        found: list[SSAValue] = []
        for op in reversed(self._ops):
            kept = [
                result for result in op.results if any(_user(use.operation, op) not in moved for use in result.uses)
            ]
            if all(self._is_worth_keeping(value) for value in kept):
                found += reversed(kept)
            else:
                moved.discard(op)
        return found[::-1]

    def _is_worth_keeping(self, value: SSAValue) -> bool:
        sources, size = self._sources[value], _bytes(value)
        if not sources or states(value.owner, KeepsMemory):
            return False
        growth = MOST_GROWTH if value in self._has_sums else 1
        return size <= max(LITTLE, growth * sum(map(_bytes, sources)))


def _user(op: Operation, definition: Operation) -> Operation:
    """The op in the block of `definition` that holds `op`."""
    while op.parent is not definition.parent:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _bytes(value: SSAValue) -> int:
    type_: AnyTensor = value.type  # pyright: ignore[reportAssignmentType]
    return prod(shape_of(type_) or ()) * numpy_dtype(element_of(type_)).itemsize


def _prepare(main: func.FuncOp, values: Sequence[SSAValue]) -> func.FuncOp:
    """The function of the frozen arguments of `main` that computes `values`."""
    needed: set[Operation] = set()
    pending = [value.owner for value in values]
    while pending:
        op = pending.pop()
        if isinstance(op, Operation) and op not in needed:
            needed.add(op)
            pending += [value.owner for value in used_values(op)]
    used = {value for op in needed for value in used_values(op)}
    arguments = main.body.block.args
    taken = [i for i in frozen_positions(main) if arguments[i] in used]
    block = Block(arg_types=[arguments[i].type for i in taken])
    mapper: dict[SSAValue, SSAValue] = {}
    for i, argument in zip(taken, block.args, strict=True):
        argument.name_hint = arguments[i].name_hint
        mapper[arguments[i]] = argument
    for op in main.body.block.ops:
        if op in needed:
            block.add_op(op.clone(mapper))
    block.add_op(func.ReturnOp(*[mapper[value] for value in values]))
    types = list(block.arg_types), [value.type for value in values]
    function = func.FuncOp(PREPARE, types, Region(block))
    function.attributes[TAKEN] = DenseArrayBase.from_list(i64, taken)
    return function


def _pass_prepared(main: func.FuncOp, values: Sequence[SSAValue]) -> None:
    """Let `main` take `values` behind its other arguments."""
    block = main.body.block
    for value in values:
        argument = block.insert_arg(value.type, len(block.args))
        argument.name_hint = value.name_hint
        value.replace_all_uses_with(argument)
    assert main.arg_attrs is not None
    main.arg_attrs = ArrayAttr([*main.arg_attrs, *[DictionaryAttr({})] * len(values)])
    main.attributes[PREPARE] = SymbolRefAttr(PREPARE)
    main.update_function_type()
