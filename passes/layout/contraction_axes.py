"""Orders of axes, and what becomes of a contraction whose operands or result have theirs in another one."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from tenon.dialects.families import ArgReductionOp, ReductionOp
from tenon.dialects.families.indexing import LoopStructure
from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import is_known
from tenon.passes.machine import Machine

SINGLE = 0.75
"""How fast products are whose tiles are one vector wide: each row that is loaded serves one of them."""
EMPTIER = 0.9
"""The part of what vectors are filled by that another order of axes may leave."""
FEWEST_ACROSS = 4
"""Sums side by side in memory that are worth transposing a tile for."""

Order = tuple[int, ...]
"""Axis i of the result is axis `order[i]` of the operand."""


def inverse(order: Order) -> Order:
    return tuple([order.index(axis) for axis in range(len(order))])


def keeps_memory(shape: Sequence[int], order: Order) -> bool:
    """Whether a transpose leaves elements where they are, since only axes of size 1 move."""
    moving = [axis for axis in order if shape[axis] != 1]
    return moving == sorted(moving)


def permuted(index: AffineMap, order: Order) -> AffineMap:
    return AffineMap(index.num_dims, index.num_symbols, tuple([index.results[axis] for axis in order]))


def has_known_shapes(op: Operation) -> bool:
    return all(is_known(value.type) for value in (*op.operands, *op.results))


def loses_neighbours(structure: LoopStructure, after: Sequence[AffineMap], machine: Machine) -> bool:
    """Whether a contraction over windows has neighbours to compute together that it would not have any more, in the
    result or across it.

    A product of matrices is packed; windows overlap, so that a copy that is read for every element of a window pays.
    """
    before = (*structure.operands, structure.result_map)
    slides = any(not isinstance(e, AffineDimExpr | AffineConstantExpr) for m in before[:-1] for e in m.results)
    extents = structure.extents

    def filled(maps: Sequence[AffineMap]) -> float:
        loops = [*_neighbours(maps), *_turned(maps, extents)]
        return max([lanes_filled(estimate(extents[loop]), machine.lanes) for loop in loops], default=0.0)

    return slides and filled(after) < EMPTIER * filled(before)


def lanes_filled(extent: int, lanes: int) -> float:
    """The part of its vectors that a loop fills; 0 where they stay too empty."""
    vectors = -(-extent // lanes)
    if extent < lanes * 3 // 4:
        return 0.0
    return extent / (vectors * lanes) * (SINGLE if vectors == 1 else 1.0)


def _neighbours(maps: Sequence[AffineMap]) -> list[int]:
    """The loop along the last dimension of the result, if neighbours along it are neighbours in each operand that they
    differ in."""
    last = maps[-1].results[-1] if maps[-1].results else None
    if not isinstance(last, AffineDimExpr):
        return []
    for index in maps[:-1]:
        steps = [Subscript.of(expr).factors.get(last.position, 0) for expr in index.results]
        if any(steps[:-1]) or (steps and steps[-1] not in (0, 1)):
            return []
    return [last.position]


def _turned(maps: Sequence[AffineMap], extents: Sequence[int]) -> list[int]:
    """The loops along other dimensions of the result than the last along which operands have neighbours, and stay where
    they are along the last: tiles of sums are transposed on their way to memory then."""
    *others, last = maps[-1].results or (None,)
    if not isinstance(last, AffineDimExpr) or estimate(extents[last.position]) < FEWEST_ACROSS:
        return []
    return [
        loop.position
        for loop in others
        if isinstance(loop, AffineDimExpr)
        and all(_has_vectors(index, loop.position, last.position) for index in maps[:-1])
    ]


def _has_vectors(index: AffineMap, loop: int, across: int) -> bool:
    """Whether an operand has neighbours along `loop`, and is the same along `across`, or is the same along `loop`."""
    factors = [Subscript.of(expr).factors for expr in index.results]
    if not any(loop in known for known in factors):
        return True
    is_last = factors[-1] == {loop: 1} and not any(loop in known for known in factors[:-1])
    return is_last and not any(across in known for known in factors)


def reduced_in(op: ReductionOp, order: Order) -> int | tuple[int, ...] | None:
    """The axes that `op` reduces, before the transpose that it reads; `None` where more than the axes would change."""
    settings = op.settings
    given = settings["axis"]
    if isinstance(op, ArgReductionOp) and given is None:
        return None  # counts elements in row-major order
    axes = normalize_axes((given,) if isinstance(given, int) else given, len(order))
    kept = [axis for i, axis in enumerate(order) if i not in axes]
    if settings["keepdims"]:
        in_place = all(i == axis for i, axis in enumerate(order) if i not in axes)
    else:
        in_place = kept == sorted(kept)
    if not in_place:
        return None
    return order[axes[0]] if isinstance(given, int) else tuple(sorted(order[axis] for axis in axes))
