"""Pooling over all of an image or to a given size, its opposite, and normalization by what is near among channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.batching import along_first_axis
from tenon.dialects.ops.contract.pooling import check_order, divided, powers, root
from tenon.dialects.ops.contract.sliding import image_of
from tenon.dialects.ops.contract.windows import Sizes, each
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, show
from tenon.dialects.types.types import FLOAT_TENSOR, INTEGER_TENSOR, NUMERIC_TENSOR, element_of, shape_of, tensor_type


class AdaptivePoolingOp(KeepsElement, CompositeOp):
    """Pooling of the last dimensions to a given size, by windows that cover them in even parts."""

    x = operand_def(NUMERIC_TENSOR)
    output_size = setting(tuple)
    result = result_def(NUMERIC_TENSOR)
    REPEATS: ClassVar[bool]
    """Whether windows that are shorter than others repeat their last element; otherwise they are filled with zeros."""

    @staticmethod
    def check(**settings: Any) -> None:
        sizes = settings["output_size"]
        if not sizes or min(sizes) < -1 or 0 in sizes:
            raise InferenceError(f"output_size is {sizes} where sizes of at least 1 are needed, or -1 for those of x")

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        sizes = settings["output_size"]
        image = image_of(shape, len(sizes))
        if 0 in image:
            raise InferenceError(f"x has shape {show(shape)}, so it has no elements to pool")
        pooled = [own if size < 0 else size for own, size in zip(image, sizes, strict=True)]
        return (*shape[: len(shape) - len(image)], *pooled)

    @classmethod
    def parts(cls, x: Value, output_size: Sizes) -> tuple[Value, Sizes, list[np.ndarray[Any, Any]]]:
        """`x` with its windows side by side, the size of each, and how many elements of each window count."""
        first = x.ndim - len(output_size)
        window: list[int] = []
        counts: list[np.ndarray[Any, Any]] = []
        for axis, target in enumerate(output_size, start=first):
            size = x.shape[axis]
            out = np.arange(size if target < 0 else target)
            starts, ends = out * size // len(out), -(-(out + 1) * size // len(out))
            lengths = ends - starts
            longest = int(lengths.max())
            window.append(longest)
            counts.append(lengths)
            if size == longest * len(out):
                continue
            place = starts[:, None] + np.arange(longest)
            x = ops.gather(x, np.minimum(place, ends[:, None] - 1).reshape(-1), axis=axis)
            if not cls.REPEATS and (lengths != longest).any():
                is_inside = (place < ends[:, None]).reshape(-1, *[1] * (x.ndim - 1 - axis))
                x = ops.select(is_inside, x, 0)
        return x, tuple(window), counts


@tensor_op
class AdaptiveMaxPoolOp(AdaptivePoolingOp):
    """The largest element of each of `output_size` windows that cover the last dimensions of `x` (..., *image).

    Window i of m along n elements has those from floor(i n / m) to before ceil((i + 1) n / m), as PyTorch's; a size of
    -1 keeps the dimension. NaN if there is any; the gradient goes to the first largest.

    >>> tenon.adaptive_max_pool(np.array([1.0, 5.0, 2.0, 3.0, 4.0]), output_size=(3,))
    """

    name = "tenon.adaptive_max_pool"
    REPEATS: ClassVar[bool] = True

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Value:
        (x,) = operands
        x, window, _ = cls.parts(x, settings["output_size"])
        return ops.window_max(x, window=window, stride=window)


@tensor_op
class AdaptiveAvgPoolOp(AdaptivePoolingOp):
    """The mean of each of `output_size` windows that cover the last dimensions of `x` (..., *image). Integers are taken
    as f32. The windows are those of `adaptive_max_pool`.

    >>> tenon.adaptive_avg_pool(np.array([1.0, 5.0, 2.0, 3.0, 4.0]), output_size=(3,))
    """

    name = "tenon.adaptive_avg_pool"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    REPEATS: ClassVar[bool] = False

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Value:
        (x,) = operands
        parts, window, counts = cls.parts(in_compute_type(x), settings["output_size"])
        return divided(ops.window_sum(parts, window=window, stride=window), counts).astype(x.element_type)


class GlobalPoolingOp(KeepsElement, CompositeOp):
    """One element for each channel of images (n, c, ...image), whose spatial dimensions stay with size 1."""

    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        if len(shape) < 3:
            raise InferenceError(f"rank of x is {len(shape)} where 3 or more is needed")
        return (*shape[:2], *[1] * (len(shape) - 2))


@tensor_op
class GlobalMaxPoolOp(GlobalPoolingOp):
    """The largest element of each channel of `x` (n, c, ...image), as (n, c, 1, ...); NaN if there is any.

    The gradient goes to the first largest.

    >>> tenon.global_max_pool(np.array([[[1.0, 4.0, 2.0], [-1.0, -3.0, -2.0]]]))
    """

    name = "tenon.global_max_pool"
    x = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def decompose(x: Value) -> Value:
        return ops.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        flat = (*x.shape[:2], prod(x.shape[2:]))
        first = ops.argmax(ops.reshape(x, shape=flat), axis=2, keepdims=True)
        spread = ops.select(first == ops.iota(shape=flat[2:]), ops.reshape(g, shape=(*flat[:2], 1)), 0)
        return (ops.reshape(spread, shape=x.shape),)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_first_axis(partial(cls.apply, **settings), size, operands)


@tensor_op
class GlobalAvgPoolOp(GlobalPoolingOp):
    """The mean of each channel of `x` (n, c, ...image), as (n, c, 1, ...). Integers are taken as f32.

    >>> tenon.global_avg_pool(np.array([[[1.0, 4.0, 1.0], [-1.0, -3.0, -2.0]]]))
    """

    name = "tenon.global_avg_pool"

    @staticmethod
    def decompose(x: Value) -> Value:
        return ops.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@tensor_op
class GlobalLpPoolOp(GlobalPoolingOp):
    """The p-norm of each channel of `x` (n, c, ...image), as (n, c, 1, ...): (sum of |x|**p)**(1 / p). Integers are
    taken as f32. The gradient at a channel of zeros is 0.

    >>> tenon.global_lp_pool(np.array([[[3.0, 4.0], [0.0, -2.0]]]))
    """

    name = "tenon.global_lp_pool"
    AUTOCAST = "full"
    p = setting(float, default=2.0)

    @staticmethod
    def check(**settings: Any) -> None:
        check_order(settings["p"])

    @staticmethod
    def decompose(x: Value, *, p: float) -> Value:
        total = ops.sum(powers(in_compute_type(x), p), axis=tuple(range(2, x.ndim)), keepdims=True)
        return root(total, p).astype(x.element_type)


@tensor_op
class LocalResponseNormOp(CompositeOp):
    """`x` (n, c, ...image) over (`bias` + `alpha` / `size` * s)**`beta`, where s is the sum of the squares of the
    `size` channels around each: (size - 1) // 2 before it and size // 2 behind it, as far as there are any.

    Source: ONNX's LRN; Krizhevsky, Sutskever and Hinton (2012), section 3.3. Integers are taken as f32.

    >>> tenon.local_response_norm(np.array([[[1.0], [2.0], [4.0]]]), size=3, alpha=3.0, beta=1.0)
    """

    name = "tenon.local_response_norm"
    AUTOCAST = "full"
    ALIASES: ClassVar[tuple[str, ...]] = ("lrn",)
    x = operand_def(FLOAT_TENSOR)
    size = setting(int)
    alpha = setting(float, default=1e-4)
    beta = setting(float, default=0.75)
    bias = setting(float, default=1.0)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["size"] < 1:
            raise InferenceError(f"size is {settings['size']} where 1 or more is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None and len(shape) < 2:
            raise InferenceError(f"rank of x is {len(shape)} where 2 or more is needed")
        return x

    @staticmethod
    def decompose(x: Value, *, size: int, alpha: float, beta: float, bias: float) -> Value:
        if 0 in x.shape:
            return x
        compute = in_compute_type(x)
        squares = ops.reshape(compute * compute, shape=(*x.shape[:2], prod(x.shape[2:])))
        around = ops.pad(squares, low=(0, (size - 1) // 2, 0), high=(0, size // 2, 0))
        total = ops.reshape(ops.window_sum(around, window=(size, 1)), shape=x.shape)
        return (compute / ops.pow(bias + alpha / size * total, beta)).astype(x.element_type)


def _agree(left: Sizes, right: Sizes) -> bool:
    """Whether two shapes are the same as far as they are known."""
    return len(left) == len(right) and all(a == b or min(a, b) < 0 for a, b in zip(left, right, strict=True))


@tensor_op
class MaxUnpoolOp(CompositeOp):
    """Images (..., *`output_size`) of zeros with the elements of `x` (..., *counts) at `indices`, which count the
    elements of each image in row-major order: what undoes `max_pool_with_indices`.

    `output_size` has a size for each pooled dimension. Of several elements at one place the last one stays; indices
    outside of the image are left out.

    >>> tenon.max_unpool(np.array([[3.0, 5.0]]), np.array([[1, 3]]), output_size=(5,))
    """

    name = "tenon.max_unpool"
    x = operand_def(NUMERIC_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    output_size = setting(tuple)
    result = result_def(NUMERIC_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x",)

    @staticmethod
    def check(**settings: Any) -> None:
        each(settings["output_size"], None, "output_size")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices = map(shape_of, operands)
        size, element = settings["output_size"], element_of(operands[0])
        shape = indices if x is None else x
        if shape is None:
            return tensor_type(None, element)
        if x is not None and indices is not None and not _agree(x, indices):
            raise InferenceError(f"indices has shape {show(indices)} where that of x, {show(x)}, is needed")
        image = image_of(shape, len(size))
        return tensor_type((*shape[: len(shape) - len(image)], *size), element)

    @staticmethod
    def decompose(x: Value, indices: Value, *, output_size: Sizes) -> Value:
        outer = x.shape[: x.ndim - len(output_size)]
        flat = (*outer, prod(x.shape[len(outer) :]))
        images = ops.zeros(shape=(*outer, prod(output_size)), dtype=x.element_type)
        places, elements = ops.reshape(indices, shape=flat), ops.reshape(x, shape=flat)
        written = ops.scatter_elements(images, places, elements, axis=len(outer))
        return ops.reshape(written, shape=(*outer, *output_size))
