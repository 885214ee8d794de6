"""NumPy implementations of the `linalg` dialect: one evaluation for every structured op.

The iteration domain is cut into tiles, and the body is run once per tile on arrays that have one dimension per loop.
Operands come in as views of their memory over the loops, so that nothing is gathered. Tiles are chosen such that

- no two points of a tile write the same element, or
- the body ends in `acc combined with value` for an associative operation: the values of a tile are reduced at once.

Otherwise reduction loops are run point by point, in lexicographic order. Results agree with the nested loops up to the
order of the terms of a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, i1
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.families.monoid import combining_monoid, combining_op
from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError, implements

_TILE_POINTS = 1 << 18
"""Points that are evaluated at once: enough to hide Python, few enough for intermediate arrays to stay in cache."""

_ON_BOOLS = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)


@dataclass(frozen=True)
class _Access:
    """An indexing map, and its results as `subscripts` if all of them are sums of loops times constants."""

    map: AffineMap
    subscripts: tuple[Subscript, ...] | None
    loops: frozenset[int]

    @staticmethod
    def of(map_: AffineMap) -> _Access:
        try:
            subscripts = tuple(map(Subscript.of, map_.results))
        except ValueError:
            subscripts = None
        return _Access(map_, subscripts, frozenset(map_.used_dims()))


@dataclass(frozen=True)
class _Combination:
    """How the values of a tile reach an output: combined with what it holds or, without `combine`, by assignment."""

    combine: np.ufunc | None
    op: Operation | None
    value: SSAValue


@dataclass(frozen=True)
class _Plan:
    """What does not depend on the values of the operands."""

    ranges: tuple[int, ...]
    accesses: tuple[_Access, ...]
    num_inputs: int
    tile: tuple[int, ...]
    combinations: tuple[_Combination, ...] | None
    steps: list[Any]


@implements(LinalgStructuredOperation)
def _structured(interpreter: Interpreter, op: LinalgStructuredOperation, *operands: Any) -> Sequence[Any]:
    shapes = tuple(np.shape(operand) for operand in operands)

    def prepare() -> _Plan:
        maps = [attribute.data for attribute in op.get_indexing_maps()]
        is_parallel = [iterator.data == IteratorType.PARALLEL for iterator in op.get_iterator_types()]
        return _plan(interpreter, op, maps, is_parallel, shapes, len(op.inputs))

    return _run(interpreter, op, op.body.block, interpreter.prepared((id(op), shapes), prepare), operands)


@implements(linalg.ReduceOp)
def _reduce(interpreter: Interpreter, op: linalg.ReduceOp, *operands: Any) -> Sequence[Any]:
    shapes = tuple(np.shape(operand) for operand in operands)

    def prepare() -> _Plan:
        rank = len(shapes[0])
        dimensions = op.dimensions.get_values()
        kept = [loop for loop in range(rank) if loop not in dimensions]
        maps = [AffineMap.identity(rank), AffineMap(rank, 0, tuple(AffineExpr.dimension(loop) for loop in kept))]
        return _plan(interpreter, op, maps, [loop in kept for loop in range(rank)], shapes, 1)

    return _run(interpreter, op, op.region.block, interpreter.prepared((id(op), shapes), prepare), operands)


@implements(linalg.BroadcastOp)
def _broadcast(interpreter: Interpreter, op: linalg.BroadcastOp, source: Any, target: Any) -> Sequence[Any]:
    filled = np.broadcast_to(np.expand_dims(source, op.dimensions.get_values()), np.shape(target))
    if op.results:
        return (filled,)
    target[...] = filled
    return ()


@implements(linalg.YieldOp)
def _yield(interpreter: Interpreter, op: linalg.YieldOp, *values: Any) -> Sequence[Any]:
    return values


@implements(linalg.IndexOp)
def _index(interpreter: Interpreter, op: linalg.IndexOp) -> Sequence[Any]:
    if interpreter.tile is None:
        raise InterpreterError(f"{op.name}: there is no enclosing iteration domain")
    loop = op.dim.value.data
    positions = interpreter.tile[loop]
    shape = [1] * len(interpreter.tile)
    shape[loop] = -1
    return (np.arange(positions.start, positions.stop, dtype=np.int64).reshape(shape),)


def _plan(
    interpreter: Interpreter,
    op: Operation,
    maps: Sequence[AffineMap],
    is_parallel: Sequence[bool],
    shapes: Sequence[tuple[int, ...]],
    num_inputs: int,
) -> _Plan:
    accesses = tuple(_Access.of(map_) for map_ in maps)
    try:
        ranges = IterationSpace.over(maps, is_parallel, shapes, len(maps) - num_inputs).extents
    except ValueError as error:
        raise InterpreterError(f"{op.name}: {error}") from None
    block = op.regions[0].block
    outputs = accesses[num_inputs:]
    combinations = _combinations(block, outputs, num_inputs, ranges)
    tile = _tile(ranges, is_parallel, outputs, combinations is not None)
    combining = {combination.op for combination in combinations or ()}
    steps = interpreter.steps(op for op in block.ops if op not in combining and op is not block.last_op)
    return _Plan(ranges, accesses, num_inputs, tile, combinations, steps)


def _combinations(
    block: Block, outputs: Sequence[_Access], num_inputs: int, ranges: Sequence[int]
) -> tuple[_Combination, ...] | None:
    """How each output can take the values of a whole tile, or None if one of them needs its points in order."""
    assert block.last_op is not None
    found = []
    for accumulator, yielded, access in zip(block.args[num_inputs:], block.last_op.operands, outputs, strict=True):
        op, monoid = combining_op(block, accumulator), combining_monoid(block, accumulator)
        if accumulator.first_use is None and len(access.loops) == len(ranges):
            found.append(_Combination(None, None, yielded))
        elif (
            op is not None
            and monoid is not None
            and monoid.ufunc is not None
            and (isinstance(op, _ON_BOOLS) or yielded.type != i1)
        ):
            value = op.operands[1 if op.operands[0] is accumulator else 0]
            found.append(_Combination(monoid.ufunc, op, value))
        else:
            return None
    return tuple(found)


def _tile(
    ranges: Sequence[int], is_parallel: Sequence[bool], outputs: Sequence[_Access], combines: bool
) -> tuple[int, ...]:
    """Iterations of each loop that are evaluated at once, see the module."""
    tile = [max(size, 1) if parallel or combines else 1 for size, parallel in zip(ranges, is_parallel, strict=True)]
    for access in outputs:
        for expression in access.map.results:
            for loop in sorted(expression.used_dims(), key=lambda loop: ranges[loop])[:-1]:
                tile[loop] = 1
    points = prod(tile)
    for loop in sorted(range(len(tile)), key=lambda loop: is_parallel[loop]):
        others = points // tile[loop]
        if points > _TILE_POINTS:
            tile[loop] = max(_TILE_POINTS // others, 1)
            points = others * tile[loop]
    return tuple(tile)


def _run(interpreter: Interpreter, op: Operation, block: Block, plan: _Plan, operands: Sequence[Any]) -> Sequence[Any]:
    """Evaluate tile after tile: into copies of the outputs if they are tensors, else in place."""
    inputs = [
        _over_loops(op, np.asarray(operand), access, plan.ranges)
        for operand, access in zip(operands[: plan.num_inputs], plan.accesses[: plan.num_inputs], strict=True)
    ]
    if any(access.subscripts is None for access in plan.accesses[plan.num_inputs :]):
        raise InterpreterError(f"{op.name}: the indexing map of an output is not a sum of multiples of the loops")
    targets = [np.array(operand) if op.results else operand for operand in operands[plan.num_inputs :]]
    outputs = [
        _over_loops(op, target, access, plan.ranges)
        for target, access in zip(targets, plan.accesses[plan.num_inputs :], strict=True)
    ]
    starts = [range(0, size, extent) for size, extent in zip(plan.ranges, plan.tile, strict=True)]
    with interpreter.vectorizing():
        for start in product(*starts):
            tile = tuple(slice(s, min(s + n, size)) for s, n, size in zip(start, plan.tile, plan.ranges, strict=True))
            interpreter.tile = tile
            arguments = [view[_within(tile, view.shape)] for view in inputs]
            parts = [_within(tile, view.shape) for view in outputs]
            if plan.combinations is None:
                _assign(interpreter, block, arguments, outputs, parts)
            else:
                _combine(interpreter, block, plan, arguments, outputs, parts)
    return targets if op.results else ()


def _within(tile: tuple[slice, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of a view over the loops that belongs to a tile; loops that the view does not depend on have size 1."""
    return tuple(positions if size != 1 else slice(None) for positions, size in zip(tile, shape, strict=True))


def _assign(
    interpreter: Interpreter,
    block: Block,
    arguments: Sequence[Any],
    outputs: Sequence[np.ndarray],
    parts: Sequence[tuple[slice, ...]],
) -> None:
    current = [view[part] for view, part in zip(outputs, parts, strict=True)]
    if len(current) > 1:  # one output must not see what another has just been given
        current = [np.array(values)[()] for values in current]
    for view, part, values in zip(outputs, parts, interpreter.run_block(block, [*arguments, *current]), strict=True):
        view[part] = values


def _combine(
    interpreter: Interpreter,
    block: Block,
    plan: _Plan,
    arguments: Sequence[Any],
    outputs: Sequence[np.ndarray],
    parts: Sequence[tuple[slice, ...]],
) -> None:
    assert plan.combinations is not None
    assert interpreter.tile is not None
    interpreter.values.update(zip(map(id, block.args), arguments, strict=False))
    interpreter.run_steps(plan.steps)
    extents = [positions.stop - positions.start for positions in interpreter.tile]
    for combination, access, view, part in zip(
        plan.combinations, plan.accesses[plan.num_inputs :], outputs, parts, strict=True
    ):
        values = interpreter.values[id(combination.value)]
        combine = combination.combine
        if combine is None:
            view[part] = values
            continue
        loops = tuple(loop for loop in range(len(extents)) if loop not in access.loops)
        if loops:
            present = np.shape(values) or (1,) * len(extents)
            shape = [extents[loop] if loop in loops else present[loop] for loop in range(len(extents))]
            values = combine.reduce(np.broadcast_to(values, shape), axis=loops, keepdims=True, dtype=view.dtype)
        view[part] = combine(view[part], values)


def _over_loops(op: Operation, array: np.ndarray, access: _Access, ranges: Sequence[int]) -> np.ndarray:
    """A view of `array` with one dimension per loop, of size 1 where the indexing map does not use the loop."""
    shape = tuple(size if loop in access.loops else 1 for loop, size in enumerate(ranges))
    if 0 in ranges:
        return np.empty(shape, array.dtype)
    if access.subscripts is None:
        positions: Any = np.ogrid[tuple(slice(size) for size in ranges)]
        index = tuple(expression.eval(positions, ()) for expression in access.map.results)
        _check_reach(op, access, array, [(np.min(i), np.max(i)) for i in index])
        return array[index]
    _check_reach(op, access, array, [(s.least(ranges), s.end(ranges) - 1) for s in access.subscripts])
    strides = [
        sum(s.factors.get(loop, 0) * stride for s, stride in zip(access.subscripts, array.strides, strict=True))
        for loop in range(len(ranges))
    ]
    reached = array[(*(slice(s.constant, None) for s in access.subscripts), ...)]
    # NumPy describes a float of one byte to itself as "<f1", which it does not read.
    bytes_or_more = reached.view(np.uint8) if array.dtype.itemsize == 1 else reached
    return as_strided(bytes_or_more, shape, strides).view(array.dtype)


def _check_reach(op: Operation, access: _Access, array: np.ndarray, reach: Sequence[tuple[int, int]]) -> None:
    for (least, greatest), size in zip(reach, array.shape, strict=True):
        if least < 0 or greatest >= size:
            raise InterpreterError(
                f"{op.name}: indexing map {AffineMapAttr(access.map)} reaches indices {least} to {greatest} "
                f"of a dimension of size {size}, operand shape {array.shape}"
            )
