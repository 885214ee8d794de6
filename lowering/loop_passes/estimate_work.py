"""How much a program does: the operations that are run, counted in loop IR."""

from __future__ import annotations

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue


def work_of(module: ModuleOp) -> int | None:
    """The number of operations that `@main` runs, one of a vector counting as one; `None` where that is not known:
    with sizes or iteration counts that are decided at launch, and with code from elsewhere.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    known: dict[str, int | None] = {}

    def of_function(name: str) -> int | None:
        if name not in known:
            function = functions.get(name)
            known[name] = None if function is None or not function.body.blocks else of_op(function)
        return known[name]

    def of_op(op: Operation) -> int | None:
        if isinstance(op, func.CallOp):
            return of_function(op.callee.string_value())
        if isinstance(op, scf.WhileOp):
            return None
        times = _iterations(op)
        if times is None:
            return None
        total = 1
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    work = of_op(inner)
                    if work is None:
                        return None
                    total += times * work
        return total

    return of_function("main")


def _iterations(op: Operation) -> int | None:
    if isinstance(op, scf.ForOp):
        bounds = [(op.lb, op.ub, op.step)]
    elif isinstance(op, scf.ParallelOp):
        bounds = list(zip(op.lowerBound, op.upperBound, op.step, strict=True))
    else:
        return 1
    times = 1
    for lower, upper, step in bounds:
        numbers = [_constant(value) for value in (lower, upper, step)]
        if None in numbers:
            return None
        first, last, stride = [number for number in numbers if number is not None]
        times *= max(0, -(-(last - first) // stride))
    return times


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None
