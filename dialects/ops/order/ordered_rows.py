"""What ops that put rows in order have in common, by whichever algorithm they do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.families import StructuredOp
from tenon.dialects.families.batching import along_first_axis
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import ANY_TENSOR, shape_of, tensor_type


class OrderedRowsOp(StructuredOp):
    """What is made of the rows of `x`, in an order, in the shape of `x`."""

    DIMENSIONS: ClassVar[tuple[str, ...]]
    """The names of the dimensions of `x`, the last of which is that of a row."""

    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    descending = setting(bool, default=False)

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        """The element type of the result for an operand of type `x`."""
        raise NotImplementedError

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None and len(shape) != len(cls.DIMENSIONS):
            raise InferenceError(f"x has shape {show(shape)} where ({', '.join(cls.DIMENSIONS)}) is needed")
        return tensor_type(shape, cls.result_element(x))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_first_axis(partial(cls.apply, **settings), size, operands)
