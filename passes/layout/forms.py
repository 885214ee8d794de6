"""What the forms of convolutions share: contractions told by loops, and how well images fill vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, scaled
from tenon.dialects.ops.move.slicing import SliceOp
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import f32, f64, numpy_dtype
from tenon.passes.machine import Machine

FEW_VECTORS = 4
"""Vectors of windows up to which an image has few: as many as a tile is wide."""

MOST_AROUND = 2
"""How many times as large as a slice of an image that may be which is read in its place, and computed for that."""


def float_lanes(x: Value, machine: Machine) -> int:
    """How many elements of `x` a vector holds; 0 where these are not f32 or f64, or do not fit one."""
    if x.element_type not in (f32, f64):
        return 0
    return machine.vector_bits // (8 * numpy_dtype(x.element_type).itemsize)


def whole_of(value: Value) -> tuple[Value, Sizes, Sizes]:
    """What `value` is a slice of, where that starts along each axis, and in which steps; `value` if it is none."""
    starts, steps = (0,) * value.ndim, (1,) * value.ndim
    while isinstance(op := value.ssa.owner, SliceOp):
        own = op.settings["strides"] or (1,) * value.ndim
        starts = tuple([at + step * start for at, step, start in zip(op.settings["starts"], own, starts, strict=True)])
        steps = tuple([outer * inner for outer, inner in zip(own, steps, strict=True)])
        value = Value(op.x)
    return value, starts, steps


def image_around(x: Value) -> tuple[Value, Sizes, Sizes]:
    """What is read in place of a slice of an image, which slices share, where the slice starts there, and its steps."""
    whole, starts, steps = whole_of(x)
    if prod(map(estimate, whole.shape)) > MOST_AROUND * prod(map(estimate, x.shape)):
        return x, (0,) * x.ndim, (1,) * x.ndim
    return whole, starts, steps


def within(index: Sequence[AffineExpr], starts: Sequence[int], steps: Sequence[int]) -> tuple[AffineExpr, ...]:
    """The place, in what it is a slice of, of each index of a slice that starts there and has these steps."""
    return tuple(
        [
            scaled(i, step) + start if start else scaled(i, step)
            for i, start, step in zip(index, starts, steps, strict=True)
        ]
    )


def contracted(
    extents: Sizes, factors: Sequence[tuple[Any, Sequence[AffineExpr]]], result: Sequence[AffineExpr]
) -> Value:
    """The contraction over loops of `extents` of `factors`, values or arrays, with their indices, at the loops in
    `result`."""
    indices = [*[index for _, index in factors], result]
    return ops.contract(
        tuple([ops.asarray(factor) for factor, _ in factors]),
        maps=tuple([AffineMap(len(extents), 0, tuple(index)) for index in indices]),
        extents=extents,
        shape=tuple([extents[loop.position] for loop in result if isinstance(loop, AffineDimExpr)]),
    )
