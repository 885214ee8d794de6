"""What the forms of convolutions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes


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
