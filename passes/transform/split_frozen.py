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
that `derived_values` finds worth keeping; the others stay where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, ModuleOp, SymbolRefAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.families.regions import used_values
from tenon.dialects.support.frozen_arguments import PREPARE, TAKEN, frozen_positions
from tenon.passes.simplify.dce import Effects, erase_dead_ops, functions_by_name
from tenon.passes.transform.derived_values import DerivedValues


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
        body = main.body.block
        derived = DerivedValues(body, [body.args[i] for i in frozen_positions(main)], effects.is_pure)
        if prepared := derived.worth_keeping():
            op.body.block.add_op(_prepare(main, derived.needed_for(prepared), prepared))
            _pass_prepared(main, prepared)
            erase_dead_ops(body, effects)


def _prepare(main: func.FuncOp, needed: Sequence[Operation], values: Sequence[SSAValue]) -> func.FuncOp:
    """The function of the frozen arguments of `main` that computes `values` by the ops `needed`."""
    used = {value for op in needed for value in used_values(op)}
    arguments = main.body.block.args
    taken = [i for i in frozen_positions(main) if arguments[i] in used]
    block = Block(arg_types=[arguments[i].type for i in taken])
    mapper: dict[SSAValue, SSAValue] = {}
    for i, argument in zip(taken, block.args, strict=True):
        argument.name_hint = arguments[i].name_hint
        mapper[arguments[i]] = argument
    for op in needed:
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
