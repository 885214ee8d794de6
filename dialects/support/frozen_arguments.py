"""Arguments that are the same at every call, and the function that computes once what depends on them alone."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import BlockArgument, Operation, SSAValue

FROZEN = "tenon.frozen"
"""The attribute of arguments that are the same at every call."""
PREPARE = "prepare"
"""The function whose results are the last arguments of `@main`, and the attribute of `@main` that refers to it."""
TAKEN = "frozen"
"""The attribute of `@prepare` that lists the positions of its arguments among those of `@main`."""


def freeze(function: func.FuncOp, positions: Collection[int]) -> None:
    """Mark the arguments of `function` at `positions` as frozen."""
    if not positions:
        return
    count = len(function.body.block.args)
    old = function.arg_attrs.data if function.arg_attrs is not None else [DictionaryAttr({})] * count
    marks = [
        DictionaryAttr({**attributes.data, FROZEN: UnitAttr()}) if i in positions else attributes
        for i, attributes in enumerate(old)
    ]
    function.arg_attrs = ArrayAttr(marks)


def frozen_positions(function: func.FuncOp) -> list[int]:
    """The arguments of `function` that are frozen."""
    marks = function.arg_attrs.data if function.arg_attrs is not None else ()
    return [i for i, attributes in enumerate(marks) if FROZEN in attributes.data]


def is_frozen(value: SSAValue) -> bool:
    """Whether `value` depends on frozen arguments and constants alone."""
    found, seen, pending = False, {value}, [value]
    while pending:
        current = pending.pop()
        owner = current.owner
        if isinstance(current, BlockArgument):
            function = current.block.parent_op()
            if not isinstance(function, func.FuncOp) or current.index not in frozen_positions(function):
                return False
            found = True
        elif isinstance(owner, Operation):
            if owner.regions:
                return False
            pending += [operand for operand in owner.operands if operand not in seen]
            seen.update(owner.operands)
    return found


def prepare_function(main: func.FuncOp) -> func.FuncOp | None:
    """The function that computes the last arguments of `main`; `None` where there is nothing to prepare."""
    name, module = main.attributes.get(PREPARE), main.parent_op()
    if not isinstance(name, SymbolRefAttr) or not isinstance(module, ModuleOp):
        return None
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    return next(function for function in functions if function.sym_name.data == name.string_value())


def taken_positions(prepare: func.FuncOp) -> tuple[int, ...]:
    """The positions among the arguments of `@main` of what `prepare` takes."""
    taken = prepare.attributes[TAKEN]
    assert isinstance(taken, DenseArrayBase)
    return tuple([int(position) for position in taken.get_values()])
