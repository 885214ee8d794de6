"""Which values differ among examples: those that depend on a value that does.

What control flow gives differs when what it chooses from does, or the choice itself; what loops carry does as soon as
it does in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tenon.dialects.families.control_flow import YieldOp, yielded
from tenon.dialects.families.host import HostOp
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.control_flow import CondOp, WhileLoopOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.dialects.support.location import at_line


def spread(ops: Iterable[Operation], batched: set[SSAValue]) -> None:
    """Add to `batched` the results of `ops`, and the values in their regions, that depend on values in it.

    Host ops with effects run for one example after the other. Raises `TypeError` for other ops with effects, and for
    those that only some of the examples reach.
    """
    for op in ops:
        match op:
            case CondOp():
                _cond(op, batched)
            case WhileLoopOp():
                _while_loop(op, batched)
            case ScanOp():
                _scan(op, batched)
            case CheckpointOp():
                _along([op.inputs], op.body.block.args, batched)
                spread(op.body.block.ops, batched)
                _along([yielded(op.body)], op.results, batched)
            case WithGradientOp():
                if any(v in batched for v in (*op.inputs, *op.reads_around())):
                    # A gradient that the examples share would be a sum over them.
                    batched.update(op.results)
                    for region in op.regions:
                        batched.update(region.block.args)
                        spread(region.block.ops, batched)
            case YieldOp() | func.ReturnOp():
                pass
            case func.CallOp():
                raise TypeError(f"func.call: functions are batched one by one; run inline first{at_line(op)}")
            case _:
                if not is_side_effect_free(op) and not isinstance(op, HostOp):
                    raise TypeError(
                        f"{op.name}: has effects, so it cannot be computed for all examples at once{at_line(op)}"
                    )
                if any(operand in batched for operand in op.operands):
                    batched.update(op.results)


def _cond(op: CondOp, batched: set[SSAValue]) -> None:
    for region in (op.then, op.otherwise):
        spread(region.block.ops, batched)
        _along([yielded(region)], op.results, batched)
    if op.predicate in batched:
        _check_reached_by_all(op)
        batched.update(op.results)


def _while_loop(op: WhileLoopOp, batched: set[SSAValue]) -> None:
    carried = [*op.condition.block.args, *op.body.block.args, *op.results]
    parts = (op.condition.block.args, op.body.block.args, op.results)
    known = -1
    while known != len(batched):
        known = len(batched)
        for part in parts:
            _along([op.initial, yielded(op.body)], part, batched)
        spread(op.condition.block.ops, batched)
        spread(op.body.block.ops, batched)
        if yielded(op.condition)[0] in batched:
            # Each example ends with values of its own.
            _check_reached_by_all(op)
            batched.update(carried)


def _check_reached_by_all(op: Operation) -> None:
    """Raise for an op with effects in the regions of `op`, which are computed for all examples."""
    for inner in op.walk():
        if inner is not op and isinstance(inner, HostOp) and not is_side_effect_free(inner):
            raise TypeError(
                f"{inner.name}: has effects, and only some of the examples reach it in {op.name}, which is computed "
                f"for all{at_line(inner)}"
            )


def _scan(op: ScanOp, batched: set[SSAValue]) -> None:
    count = len(op.initial)
    arguments = op.body.block.args
    _along([op.sequences], arguments[count:], batched)
    known = -1
    while known != len(batched):
        known = len(batched)
        _along([op.initial, yielded(op.body)[:count]], arguments[:count], batched)
        spread(op.body.block.ops, batched)
    _along([op.initial, yielded(op.body)[:count]], op.results[:count], batched)
    _along([yielded(op.body)[count:]], op.results[count:], batched)


def _along(sources: Sequence[Sequence[SSAValue]], targets: Sequence[SSAValue], batched: set[SSAValue]) -> None:
    """Add each of `targets` to `batched` for which one of `sources` has a value there that is in it."""
    for position, target in enumerate(targets):
        if any(source[position] in batched for source in sources):
            batched.add(target)
