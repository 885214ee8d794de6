"""The equations of places that are given axis by axis.

`x[i, j]` reads at pairs of numbers, and `x.at[i, j].add(y)` writes there. Where the two are joined only to be taken
apart again, x is one row of memory in their place, at numbers that are computed in vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.ops.elementwise.arithmetic import ClipOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.index_places import is_inside, nearest_inside
from tenon.dialects.ops.move.indexing import GatherNdOp
from tenon.dialects.ops.move.joining import ConcatenateOp
from tenon.dialects.ops.move.scatter import ScatterAddOp, ScatterNdOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.types.types import i32, i64, is_static, shape_of
from tenon.passes.simplify.equation import by_class, defined_by, replace_by_block, replace_same_type


class GatherOfJoinedPlaces(RewritePattern):
    """gather_nd(x, concatenate([i, j], -1)) -> gather(reshape(x), i * size + j), where i and j are one place each; of
    examples, the rows of which come one after the other, at example * sizes + i * size + j"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GatherNdOp, rewriter: PatternRewriter, /) -> None:
        if (joined := _joined(op)) is None:
            return
        block = Block()
        with inserting(InsertionPoint(block)):
            row = _row_places([part() for part in joined.parts], joined)
            row = ops.reshape(row, shape=row.shape[:-1])
            ops.gather(joined.rows(op), row, axis=0)
        replace_by_block(op, rewriter, block)


class ScatterOfJoinedPlaces(RewritePattern):
    """scatter_nd(x, concatenate([i, j], -1), y) -> reshape(scatter_nd(reshape(x), i * size + j, y)), where i and j are
    one place each; where one is outside, so is the sum"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ScatterNdOp, rewriter: PatternRewriter, /) -> None:
        if (joined := _joined(op)) is None or joined.examples:
            return  # what is written for each example is so beside that of others
        block = Block()
        with inserting(InsertionPoint(block)):
            places = [part() for part in joined.parts]
            row = _row_places(places, joined)
            for part, size in zip(places, joined.sizes, strict=True):
                row = ops.select(is_inside(part, size), row, prod(joined.sizes))
            sums = ops.scatter_nd(joined.rows(op), row, Value(op.updates), reduction=op.settings["reduction"])
            ops.reshape(sums, shape=(*joined.sizes, *joined.behind))
        replace_by_block(op, rewriter, block)


class SumAtPlaces(RewritePattern):
    """scatter_nd(x, reshape(i), y) -> scatter_add(x, i, y), where y is added at places along the first axis

    What computes i then computes the places, which the kernel can do that updates x there.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ScatterNdOp, rewriter: PatternRewriter, /) -> None:
        reshape, places = defined_by(op.indices, ReshapeOp), shape_of(op.indices.type)
        if reshape is None or op.settings["reduction"] != "add" or op.settings["batch_dims"]:
            return
        if places is not None and places[-1] == 1 and shape_of(reshape.x.type) == places[:-1]:
            added = ScatterAddOp.build_from([op.x, reshape.x, op.updates], {"axis": 0})
            replace_same_type(op, rewriter, added)


class _Joined(NamedTuple):
    """Places along axes of what is read or written, the first ones behind those of examples."""

    parts: Sequence[Callable[[], Value]]
    """What writes those along each axis, bounded or not."""
    examples: tuple[int, ...]
    """The sizes of the axes in front."""
    sizes: tuple[int, ...]
    """Of the axes of places."""
    behind: tuple[int, ...]
    """Of the others."""

    def rows(self, op: GatherNdOp | ScatterNdOp) -> Value:
        """What `op` reads or writes, with these axes as one."""
        return ops.reshape(Value(op.x), shape=(self.lines, *self.behind))

    @property
    def lines(self) -> int:
        """How many rows there are then."""
        return prod(self.examples) * prod(self.sizes)


def _joined(op: GatherNdOp | ScatterNdOp) -> _Joined | None:
    """What the indices of `op` join; `None` where they join nothing, or sizes are unknown."""
    shape = shape_of(op.x.type) or ()
    if (parts := _parts(op)) is None:
        return None
    first = op.settings["batch_dims"]
    last = first + len(parts)
    return _Joined(parts, shape[:first], shape[first:last], shape[last:])


def _parts(op: GatherNdOp | ScatterNdOp) -> list[Callable[[], Value]] | None:
    if not all(is_static(v.type) for v in (*op.operands, op.result)):
        return None
    clip = defined_by(op.indices, ClipOp)
    joined = defined_by(clip.x if clip else op.indices, ConcatenateOp)
    if joined is None or len(joined.operands) < 2 or 0 in (shape_of(op.x.type) or ()):
        return None
    shape = shape_of(joined.result.type) or ()
    parts = joined.operands
    if joined.settings["axis"] not in (-1, len(shape) - 1) or any((shape_of(p.type) or (0,))[-1] != 1 for p in parts):
        return None
    if clip is None:
        return [partial(Value, part) for part in parts]
    known = [defined_by(bound, ConstantOp) for bound in (clip.low, clip.high) if bound is not None]
    if len(known) != 2 or any(constant is None or constant.settings["value"].ndim > 1 for constant in known):
        return None
    bounds = [np.broadcast_to(constant.settings["value"], (len(parts),)) for constant in known]
    return [partial(_bounded, *given) for given in zip(parts, *bounds, strict=True)]


def _bounded(part: SSAValue, low: Any, high: Any) -> Value:
    return ops.clip(Value(part), low=low, high=high)


def _row_places(parts: Sequence[Value], joined: _Joined) -> Value:
    """Where in row-major order what lies at `parts` is, the nearest element if that is outside of the axes' sizes."""
    dtype = i32 if joined.lines <= np.iinfo(np.int32).max else i64
    row: Value | None = None
    for axis, size in enumerate(joined.examples):
        alone = [1] * parts[0].ndim
        alone[axis] = size
        example = ops.iota(shape=tuple(alone), axis=axis, dtype=dtype)
        row = example if row is None else row * size + example
    for part, size in zip(parts, joined.sizes, strict=True):
        place = ops.cast(nearest_inside(part, size), dtype=dtype)
        place = ops.select(place < 0, place + size, place)
        row = place if row is None else row * size + place
    assert row is not None
    return row


PLACE_EQUATIONS = by_class(
    [
        ((GatherNdOp,), GatherOfJoinedPlaces()),
        ((ScatterNdOp,), ScatterOfJoinedPlaces()),
        ((ScatterNdOp,), SumAtPlaces()),
    ]
)
