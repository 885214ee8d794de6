"""What ops on the matrices (..., m, n) of an operand share: LAPACK's types, its errors, and batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.batching import all_batched
from tenon.dialects.families.host import HostOp
from tenon.dialects.families.structured_op import as_tuple, require_hooks
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of, tensor_type

Array = np.ndarray[Any, Any]


class MatrixOp(HostOp):
    """An op on stacks of matrices of f32 or f64; floats of 16 bits are computed in f32."""

    @staticmethod
    @abstractmethod
    def compute(*operands: Any, **settings: Any) -> Any:
        """The result (a tuple for several) by NumPy, in the dtype of the operands."""

    @staticmethod
    @abstractmethod
    def shapes(*operands: Any, **settings: Any) -> tuple[Sequence[int], ...]:
        """The shapes of the results for those of the operands, of rank 2 or more; raises `InferenceError`."""

    LAPACK: ClassVar[Callable[..., tuple[str, Sequence[int]]] | None] = None
    """The function of `runtime/cpu/lapack` that computes the same, and its sizes, of the shapes and settings."""

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "compute", "shapes")

    def native(self, types: Sequence[Any]) -> tuple[str, Sequence[int]] | None:
        shapes, dtype = [shape_of(type_) or () for type_ in types], numpy_dtype(element_of(types[0]))
        lapack = type(self).LAPACK
        if lapack is None or dtype.name not in ("float32", "float64") or any(0 in shape for shape in shapes):
            return None
        name, sizes = lapack(*shapes, **self.settings)
        return f"lapack_{name}_f{8 * dtype.itemsize}", (prod(shapes[0][:-2]), *sizes)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        known: list[tuple[int, ...]] = []
        for declared, type_ in zip(cls.SIGNATURE.operands, operands, strict=True):
            shape = shape_of(type_)
            if shape is not None and len(shape) < 2:
                raise InferenceError(f"{declared.name} has shape {show(shape)} where (..., m, n) is needed")
            known += [] if shape is None else [shape]
        is_known = len(known) == len(operands)
        found = cls.shapes(*known, **settings) if is_known else (None,) * len(cls.SIGNATURE.results)
        types = tuple([tensor_type(shape, element_of(operands[0])) for shape in found])
        return types[0] if len(types) == 1 else types

    @classmethod
    def reference(cls, *operands: Any, **settings: Any) -> Any:
        element = operands[0].dtype
        wide = [x.astype(np.float32) if x.dtype.itemsize < 4 else x for x in operands]
        try:
            # what divides by a pivot of 0 says so by its error alone
            with np.errstate(all="ignore"):
                results = as_tuple(cls.compute(*wide, **settings))
        except np.linalg.LinAlgError as error:
            shapes = " and ".join(str(x.shape) for x in operands)
            raise np.linalg.LinAlgError(f"{cls.called()}: {str(error).lower()} (operands {shapes})") from None
        return tuple([result.astype(element, copy=False) for result in results])

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*all_batched(size, batched, operands), **settings)


def check_square(name: str, shape: tuple[int, ...]) -> None:
    """Raise `InferenceError` for matrices of another number of rows than columns."""
    if shape[-1] != shape[-2] and min(shape[-2:]) >= 0:
        raise InferenceError(f"{name} has shape {show(shape)} where (..., n, n) is needed")


def of_squares(*axes: int) -> staticmethod[..., tuple[Sequence[int], ...]]:
    """The hook `shapes` of an op on square matrices `x` (..., n, n), each of whose results has so many of the two axes
    of a matrix."""

    def shapes(x: Any, **settings: Any) -> tuple[Sequence[int], ...]:
        check_square("x", x)
        return tuple([x[: len(x) - 2 + count] for count in axes])

    return staticmethod(shapes)


def smaller(m: int, n: int) -> int:
    """The smaller of two sizes, -1 where one is unknown."""
    return -1 if min(m, n) < 0 else min(m, n)


def transposed(x: Value) -> Value:
    """The matrices with rows and columns exchanged."""
    return ops.swapaxes(x, -1, -2)


def symmetric_part(x: Any) -> Any:
    """The nearest symmetric matrices, of values or arrays."""
    return (x + x.swapaxes(-1, -2)) * 0.5


def columns_times(x: Value, factors: Value) -> Value:
    """The matrices `x` (..., m, n) with each column multiplied by one of `factors` (..., n)."""
    return x * ops.expand_dims(factors, axis=-2)


def reciprocal_differences(values: Value) -> Value:
    """The matrices (..., n, n) of 1 / (values[j] - values[i]), of `values` (..., n); 0 where two are equal."""
    difference = ops.expand_dims(values, axis=-2) - ops.expand_dims(values, axis=-1)
    is_equal = difference == 0.0
    return ops.select(is_equal, 0.0, 1.0 / ops.select(is_equal, 1.0, difference))
