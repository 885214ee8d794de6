"""Bands: matrices of truth values that depend on how far a place lies from the main diagonal."""

from __future__ import annotations

from typing import Any

from xdsl.irdl import result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import convert
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import ComputedByUsers, NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import IndexingOp
from tenon.dialects.families.linalg_builders import Reader
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import BOOL_TENSOR, i1, i32, i64, tensor_type


@tensor_op
class BandOp(IndexingOp):
    """Whether `lower <= column - row <= upper` at each place of the matrices in a tensor of `shape`.

    Without `lower` or `upper` there is no such bound: `upper=0` are the places that a causal mask leaves visible, and
    `lower=-7, upper=0` those of a sliding window of 8.

    >>> tenon.band(shape=(3, 4), lower=-1, upper=0)
    """

    name = "tenon.band"
    traits = traits_def(Pure(), NoGradient(), ComputedByUsers())
    shape = setting(tuple)
    lower = setting(int, default=None)
    upper = setting(int, default=None)
    result = result_def(BOOL_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = settings["shape"]
        if len(shape) < 2 or any(size < 0 for size in shape):
            raise InferenceError(f"shape is {show(shape)} where two sizes or more, of at least 0, are needed")
        if settings["lower"] is None and settings["upper"] is None:
            raise InferenceError("neither lower nor upper is given")
        return tensor_type(shape, i1)

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        bounds = [bound for bound in (settings["lower"], settings["upper"]) if bound is not None]
        sizes = [*settings["shape"][-2:], *map(abs, bounds)]
        # Lanes of i32 are twice as many.
        fits = all(isinstance(size, int) and size < 1 << 30 for size in sizes)
        row, column = [convert(position, i32 if fits else i64) for position in index[-2:]]
        distance = column - row
        inside = [distance >= settings["lower"]] if settings["lower"] is not None else []
        inside += [distance <= settings["upper"]] if settings["upper"] is not None else []
        return inside[0] if len(inside) == 1 else ops.logical_and(*inside)
