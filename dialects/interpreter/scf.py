"""NumPy implementations of the `scf` dialect.

Where scalars are arrays over an iteration domain (the body of a `linalg.generic`), a branch on a condition that differs
between the points evaluates both sides and selects; loops must there have the same bounds at every point.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import scf

from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError, element_dtype, implements


@implements(scf.YieldOp, scf.ConditionOp, scf.ReduceOp, scf.ReduceReturnOp)
def _pass_on(interpreter: Interpreter, op: scf.YieldOp, *values: Any) -> Sequence[Any]:
    return values


@implements(scf.IfOp)
def _if(interpreter: Interpreter, op: scf.IfOp, condition: Any) -> Sequence[Any]:
    if not isinstance(condition, np.ndarray) or condition.all():
        return interpreter.run_region(op.true_region if np.all(condition) else op.false_region)
    if not condition.any():
        return interpreter.run_region(op.false_region)
    with interpreter.masked(condition):
        if_true = interpreter.run_region(op.true_region)
    with interpreter.masked(~condition):
        if_false = interpreter.run_region(op.false_region)
    return tuple(np.where(condition, true, false) for true, false in zip(if_true, if_false, strict=True))


@implements(scf.IndexSwitchOp)
def _index_switch(interpreter: Interpreter, op: scf.IndexSwitchOp, selected: Any) -> Sequence[Any]:
    for case, region in zip(op.cases.iter_values(), op.case_regions, strict=True):
        if case == _uniform(op, selected):
            return interpreter.run_region(region)
    return interpreter.run_region(op.default_region)


@implements(scf.ExecuteRegionOp)
def _execute_region(interpreter: Interpreter, op: scf.ExecuteRegionOp) -> Sequence[Any]:
    return interpreter.run_region(op.region)


@implements(scf.ForOp)
def _for(interpreter: Interpreter, op: scf.ForOp, lower: Any, upper: Any, step: Any, *carried: Any) -> Sequence[Any]:
    block = op.body.block
    induction_type = element_dtype(block.args[0].type).type
    values: Sequence[Any] = carried
    for position in _positions(op, lower, upper, step):
        values = interpreter.run_block(block, (induction_type(position), *values))
    return values


@implements(scf.ParallelOp)
def _parallel(interpreter: Interpreter, op: scf.ParallelOp, *operands: Any) -> Sequence[Any]:
    block = op.body.block
    rank = len(block.args)
    ranges = map(_positions, [op] * rank, operands[:rank], operands[rank : 2 * rank], operands[2 * rank : 3 * rank])
    accumulated: Sequence[Any] = operands[3 * rank :]
    reductions = [region.block for region in block.last_op.regions] if block.last_op is not None else []
    for position in product(*ranges):
        values = interpreter.run_block(block, [np.int64(index) for index in position])
        accumulated = [
            interpreter.run_block(reduction, pair)[0]
            for reduction, *pair in zip(reductions, accumulated, values, strict=True)
        ]
    return accumulated


@implements(scf.WhileOp)
def _while(interpreter: Interpreter, op: scf.WhileOp, *carried: Any) -> Sequence[Any]:
    before, after = op.before_region.block, op.after_region.block
    values: Sequence[Any] = carried
    while True:
        condition, *passed_on = interpreter.run_block(before, values)
        if not _uniform(op, condition):
            return passed_on
        values = interpreter.run_block(after, passed_on)


def _positions(op: scf.ForOp | scf.ParallelOp, lower: Any, upper: Any, step: Any) -> range:
    step = _uniform(op, step)
    if step <= 0:
        raise InterpreterError(f"{op.name}: step is {step}, expected a positive one")
    return range(_uniform(op, lower), _uniform(op, upper), step)


def _uniform(op: scf.ForOp | scf.ParallelOp | scf.WhileOp | scf.IndexSwitchOp, value: Any) -> int:
    """The integer that `value` is at every point of the iteration domain."""
    if isinstance(value, np.ndarray):
        if (value != value.flat[0]).any():
            raise InterpreterError(f"{op.name}: bounds, condition or case differ between the points of linalg.generic")
        return int(value.flat[0])
    return int(value)
