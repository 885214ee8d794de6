"""What the forms of convolutions share: contractions told by loops, and how well images fill vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes
from tenon.dialects.types.types import f32, f64, numpy_dtype
from tenon.passes.machine import Machine

FEW_VECTORS = 4
"""Vectors of windows up to which an image has few: as many as a tile is wide."""


def float_lanes(x: Value, machine: Machine) -> int:
    """How many elements of `x` a vector holds; 0 where these are not f32 or f64, or do not fit one."""
    if x.element_type not in (f32, f64):
        return 0
    return machine.vector_bits // (8 * numpy_dtype(x.element_type).itemsize)


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
