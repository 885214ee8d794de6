"""Batching of control flow.

A choice that differs among examples takes both branches, and each example gets its own; a loop that ends at different
steps goes on until the last example is done, the others keeping what they have. All other control flow stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue

from tenon.dialects.definition.value import Value, emit, ops
from tenon.dialects.families.batching import aligned, moved_axis
from tenon.dialects.families.control_flow import YieldOp, float_values, yielded
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.control_flow import CondOp, WhileLoopOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.passes.transform.batched_values import BatchedValues


def batch_cond(batching: BatchedValues, op: CondOp) -> None:
    """Build `op` for all examples; its results are set."""
    if op.predicate not in batching.batched:
        then, otherwise = Block(), Block()
        for region, block in ((op.then, then), (op.otherwise, otherwise)):
            with batching.inserting(block):
                _end(_region(batching, region, [], op.results))
        types = [batching.type_of(r) for r in op.results]
        new = CondOp.of(batching.get(op.predicate).ssa, then, otherwise, types)
        batching.set(op.results, [Value(r) for r in emit(new).results])
        return
    predicate = batching.get(op.predicate)
    given = [_region(batching, region, [], op.results) for region in (op.then, op.otherwise)]
    batching.set(op.results, [_chosen(predicate, x, y) for x, y in zip(*given, strict=True)])


def batch_while_loop(batching: BatchedValues, op: WhileLoopOp) -> None:
    """Build `op` for all examples; its results are set."""
    initial = [batching.get_as(v, r) for v, r in zip(op.initial, op.results, strict=True)]
    if yielded(op.condition)[0] in batching.batched:
        _until_all_are_done(batching, op, initial)
        return
    types = [v.type for v in initial]
    condition, body = Block(arg_types=types), Block(arg_types=types)
    with batching.inserting(condition):
        _end(_region(batching, op.condition, condition.args, yielded(op.condition)))
    with batching.inserting(body):
        _end(_region(batching, op.body, body.args, op.results))
    loop = emit(WhileLoopOp.of([v.ssa for v in initial], condition, body))
    batching.set(op.results, [Value(r) for r in loop.results])


def _until_all_are_done(batching: BatchedValues, op: WhileLoopOp, initial: Sequence[Value]) -> None:
    """Besides what `op` carries, carry for each example whether it goes on, so as to ask once in each step."""

    def goes_on(carried: Sequence[SSAValue]) -> Value:
        (answer,) = _region(batching, op.condition, carried, yielded(op.condition))
        return answer

    start = [*initial, goes_on([v.ssa for v in initial])]
    types = [v.type for v in start]
    condition, body = Block(arg_types=types), Block(arg_types=types)
    with batching.inserting(condition):
        _end([ops.any(Value(condition.args[-1]))])
    *carried, active = body.args
    with batching.inserting(body):
        stepped = _region(batching, op.body, carried, op.results)
        kept = [_chosen(Value(active), new, Value(old)) for new, old in zip(stepped, carried, strict=True)]
        _end([*kept, goes_on([v.ssa for v in kept])])
    loop = emit(WhileLoopOp.of([v.ssa for v in start], condition, body))
    batching.set(op.results, [Value(r) for r in loop.results[:-1]])


def batch_scan(batching: BatchedValues, op: ScanOp) -> None:
    """Build `op` for all examples; its results are set. Slices are taken, and stacked, before the examples."""
    count = len(op.initial)
    carried, stacked = op.results[:count], op.results[count:]
    initial = [batching.get_as(v, r) for v, r in zip(op.initial, carried, strict=True)]
    sequences = [moved_axis(batching.get(v), 1, 0) if v in batching.batched else batching.get(v) for v in op.sequences]
    block = Block(arg_types=[batching.type_of(a) for a in op.body.block.args])
    with batching.inserting(block):
        _end(_region(batching, op.body, block.args, [*carried, *stacked]))
    loop = ScanOp.of(
        [v.ssa for v in initial], [v.ssa for v in sequences], block, op.steps, reverse=op.reverse is not None
    )
    values = [Value(r) for r in emit(loop).results]
    batching.set(carried, values[:count])
    outputs = zip(values[count:], stacked, strict=True)
    batching.set(stacked, [moved_axis(v, 1, 0) if r in batching.batched else v for v, r in outputs])


def batch_checkpoint(batching: BatchedValues, op: CheckpointOp) -> None:
    """Build `op` for all examples; its results are set."""
    inputs = [batching.get_as(v, a) for v, a in zip(op.inputs, op.body.block.args, strict=True)]
    block = Block(arg_types=[v.type for v in inputs])
    with batching.inserting(block):
        _end(_region(batching, op.body, block.args, op.results))
    types = [batching.type_of(r) for r in op.results]
    new = CheckpointOp.of([v.ssa for v in inputs], block, types, recomputed=op.is_recomputed)
    batching.set(op.results, [Value(r) for r in emit(new).results])


def batch_with_gradient(batching: BatchedValues, op: WithGradientOp) -> None:
    """Build `op` for all examples, with each its own inputs and their gradients; its results are set."""
    arguments = op.body.block.args
    inputs = [batching.get_as(v, a) for v, a in zip(op.inputs, arguments, strict=True)]
    types = [batching.type_of(r) for r in op.results]
    body = Block(arg_types=[v.type for v in inputs])
    with batching.inserting(body):
        _end(_region(batching, op.body, body.args, op.results))
    gradient = None if op.gradient is None else Block(arg_types=[batching.type_of(a) for a in op.gradient.block.args])
    if op.gradient is not None and gradient is not None:
        with batching.inserting(gradient):
            _end(_region(batching, op.gradient, gradient.args, float_values(list(arguments))))
    new = WithGradientOp.of([v.ssa for v in inputs], body, gradient, types, op.refused)
    batching.set(op.results, [Value(r) for r in emit(new).results])


def _region(
    batching: BatchedValues, region: Region, arguments: Sequence[SSAValue], targets: Sequence[SSAValue]
) -> list[Value]:
    """What `region` yields, computed at the insertion point, where it becomes `targets`."""
    batching.set(region.block.args, [Value(a) for a in arguments])
    batching.build(region.block.ops)
    return [batching.get_as(v, target) for v, target in zip(yielded(region), targets, strict=True)]


def _end(values: Sequence[Value]) -> None:
    emit(YieldOp(*[v.ssa for v in values]))


def _chosen(predicate: Value, x: Value, y: Value) -> Value:
    """For each example `x` or `y`."""
    return ops.select(aligned(predicate, True, x.ndim - 1), x, y)
