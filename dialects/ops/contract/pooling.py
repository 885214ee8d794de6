"""Pooling, as networks use it: what remains of the windows that slide over an image."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.monoid import of_nothing
from tenon.dialects.ops.contract.sliding import image_of
from tenon.dialects.ops.contract.windows import Sizes, Windows, each
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape
from tenon.dialects.types.types import (
    FLOAT_TENSOR,
    INTEGER_TENSOR,
    NUMERIC_TENSOR,
    compute_type,
    i64,
    numpy_dtype,
    shape_of,
    tensor_type,
)


class PoolingOp(KeepsElement, CompositeOp):
    """Pooling over windows of the last dimensions; `stride` is `window` unless given."""

    RANK: ClassVar[int | None] = None
    """The number of dimensions that windows slide over, where the op's name says it; otherwise `window` does."""

    @classmethod
    def check(cls, **settings: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        windows = cls.windows(settings)
        if isinstance(windows.padding, str):
            return
        for sides, span in zip(windows.borders(()), windows.span, strict=True):
            if max(sides) >= span:
                raise InferenceError(f"padding is {max(sides)} and must be less than the window, which spans {span}")

    @classmethod
    def windows(cls, settings: dict[str, Any]) -> Windows:
        """The windows that the settings describe; raises `InferenceError` for settings that are wrong."""
        window = each(settings["window"], cls.RANK, "window")
        stride = settings["stride"] or window
        return Windows.of(window, stride, settings["padding"], settings["dilation"], settings["ceil_mode"])

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        windows = cls.windows(settings)
        image = image_of(shape, len(windows.size))
        return (*shape[: len(shape) - len(image)], *windows.counts(image))

    @classmethod
    def fixed(cls, windows: Windows) -> dict[str, Any]:
        """The windows as settings of ops on an image that is padded already."""
        return {"window": windows.size, "stride": windows.stride, "dilation": windows.dilation}


class MaxPoolingOp(PoolingOp):
    """The largest element of each window."""

    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=None)
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    ceil_mode = setting(bool, default=False)
    result = result_def(NUMERIC_TENSOR)

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Any:
        (x,) = operands
        windows = cls.windows(settings)
        return ops.window_max(windows.padded(x, _lowest(x)), **cls.fixed(windows))


def _lowest(x: Value) -> float:
    """What is put around `x` so that it never is the largest."""
    return float(of_nothing("maximum", compute_type(x.element_type)))


@tensor_op
class MaxPoolOp(MaxPoolingOp):
    """The largest element of each window of `x` (..., *image); NaN if there is any.

    `window` has one size for each of the last dimensions that are pooled; `stride` (the window's size unless given) and
    `dilation` have one, or one for each. `padding`, which never is the largest, is one size, one per dimension, before
    and behind each dimension in turn, or a name: `"valid"` for none, `"same"` for ceil(size / stride) windows, with an
    odd element behind (`"same_lower"`: before). With `ceil_mode` a last window that reaches beyond the padding counts,
    if it starts before what is behind the image. The gradient goes to the first largest.

    >>> x = np.array([[1.0, 3.0, 2.0, 0.0, 5.0]])
    >>> tenon.max_pool(x, window=(2,))
    >>> tenon.max_pool(x, window=(2,), ceil_mode=True)
    """

    name = "tenon.max_pool"


@tensor_op
class MaxPool1dOp(MaxPoolingOp):
    """The largest element of each window of `x` (..., length); NaN if there is any. The settings are those of
    `max_pool`.

    >>> tenon.max_pool1d(np.array([[1.0, 3.0, 2.0, 0.0, 5.0]]), window=3, stride=1)
    """

    name = "tenon.max_pool1d"
    RANK: ClassVar[int | None] = 1


@tensor_op
class MaxPool2dOp(MaxPoolingOp):
    """The largest element of each window of `x` (..., height, width); NaN if there is any.

    `window` and `stride` are one size or a pair, `padding` one size, a pair, or top, bottom, left and right, or a name.
    Padding never is the largest. The last rows and columns are left out where no whole window fits, unless `ceil_mode`
    is set. The gradient goes to the first largest. See `max_pool`.

    >>> x = np.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
    >>> tenon.max_pool2d(x, window=2, stride=1)
    >>> tenon.max_pool2d(x, window=2, padding=1)
    """

    name = "tenon.max_pool2d"
    RANK: ClassVar[int | None] = 2


@tensor_op
class MaxPool3dOp(MaxPoolingOp):
    """The largest element of each window of `x` (..., depth, height, width); NaN if there is any. The settings are
    those of `max_pool`.

    >>> tenon.max_pool3d(np.array([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 8.0], [7.0, 6.0]]]]), window=2)
    """

    name = "tenon.max_pool3d"
    RANK: ClassVar[int | None] = 3


@tensor_op
class MaxPoolWithIndicesOp(PoolingOp):
    """The largest element of each window of `x` (..., *image), and where in the image it is (i64); of equal ones the
    first, or the first NaN.

    The settings are those of `max_pool`. Indices count the elements of the image in row-major order, or with
    `storage_order=1` in column-major order; with `within="tensor"` the elements of the images before count, too, as
    ONNX has it.

    >>> x = np.array([[1.0, 3.0, 3.0, 0.0]])
    >>> tenon.max_pool_with_indices(x, window=(2,), stride=1)
    """

    name = "tenon.max_pool_with_indices"
    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=None)
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    ceil_mode = setting(bool, default=False)
    storage_order = setting(int, default=0, choices=(0, 1))
    within = setting(str, default="image", choices=("image", "tensor"))
    result = result_def(NUMERIC_TENSOR)
    indices = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        pooled = super().infer(*operands, **settings)
        return pooled, tensor_type(shape_of(pooled), i64)

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Any:
        (x,) = operands
        windows = cls.windows(settings)
        padded = windows.padded(x, _lowest(x))
        tap = ops.window_argmax(padded, **cls.fixed(windows))
        rank = len(windows.size)
        image = x.shape[x.ndim - rank :]
        low, _ = windows.margins(image)
        strides = _strides(image[::-1])[::-1] if settings["storage_order"] else _strides(image)
        index: Any = 0
        for i, weight in enumerate(_strides(windows.size)):
            along = tap // weight % windows.size[i]
            start = ops.iota(shape=tap.shape, axis=i - rank) * windows.stride[i] - low[i]
            place = start + along * windows.dilation[i]
            # Padding only comes first where all of the window is as small; its first element inside is meant then.
            index = index + ops.select(place < 0, place % windows.dilation[i], place) * strides[i]
        if settings["within"] == "tensor":
            for axis, weight in enumerate(_strides(x.shape)[: x.ndim - rank]):
                index = index + ops.iota(shape=tap.shape, axis=axis) * weight
        return ops.window_max(padded, **cls.fixed(windows)), index


def _strides(shape: Sequence[int]) -> list[int]:
    """How far neighbours along each dimension are apart in row-major order."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


class AveragePoolingOp(PoolingOp):
    """The mean of each window. Integers are taken as f32."""

    x = operand_def(FLOAT_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=None)
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    ceil_mode = setting(bool, default=False)
    count_include_pad = setting(bool, default=True)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Value:
        (x,) = operands
        windows = cls.windows(settings)
        compute = in_compute_type(x)
        total = ops.window_sum(windows.padded(compute, 0.0), **cls.fixed(windows))
        image = x.shape[x.ndim - len(windows.size) :]
        return divided(total, counted(windows, image, settings["count_include_pad"])).astype(x.element_type)


def counted(windows: Windows, image: Sizes, with_padding: bool) -> list[np.ndarray[Any, Any]]:
    """How many elements of the image (and of its padding) each window has along each dimension."""
    counts: list[np.ndarray[Any, Any]] = []
    sides = windows.borders(image)
    for i, (size, (low, high), windows_along) in enumerate(zip(image, sides, windows.counts(image), strict=True)):
        starts, taps = np.arange(windows_along) * windows.stride[i], np.arange(windows.size[i]) * windows.dilation[i]
        place = starts[:, None] + taps - low
        inside = (place >= -low) & (place < size + high) if with_padding else (place >= 0) & (place < size)
        counts.append(inside.sum(axis=1))
    return counts


def divided(total: Value, counts: Sequence[np.ndarray[Any, Any]]) -> Value:
    """`total` over the products of `counts` along the last dimensions; where there is nothing to count, 0."""
    if all(np.all(count == count[:1]) for count in counts):
        return total / float(max(prod(int(count[0]) if count.size else 1 for count in counts), 1))
    divisor: Any = None
    for i, count in enumerate(counts):
        column = np.maximum(count, 1).astype(numpy_dtype(total.element_type)).reshape(-1, *[1] * (len(counts) - 1 - i))
        divisor = column if divisor is None else ops.multiply(divisor, column)
    return total / divisor


@tensor_op
class AvgPoolOp(AveragePoolingOp):
    """The mean of each window of `x` (..., *image). Integers are taken as f32.

    The settings are those of `max_pool`. Padding counts as zeros, or with `count_include_pad=False` not at all; what
    `ceil_mode` adds never counts.

    >>> x = np.array([[1.0, 3.0, 2.0, 0.0, 5.0]])
    >>> tenon.avg_pool(x, window=(2,), padding=1)
    >>> tenon.avg_pool(x, window=(2,), padding=1, count_include_pad=False)
    """

    name = "tenon.avg_pool"


@tensor_op
class AvgPool1dOp(AveragePoolingOp):
    """The mean of each window of `x` (..., length). Integers are taken as f32. The settings are those of `avg_pool`.

    >>> tenon.avg_pool1d(np.array([[1.0, 3.0, 2.0, 0.0, 5.0]]), window=3, stride=1)
    """

    name = "tenon.avg_pool1d"
    RANK: ClassVar[int | None] = 1


@tensor_op
class AvgPool2dOp(AveragePoolingOp):
    """The mean of each window of `x` (..., height, width). Integers are taken as f32.

    `window` and `stride` are one size or a pair, `padding` one size, a pair, or top, bottom, left and right, or a name.
    Padding counts as zeros, or with `count_include_pad=False` not at all. The last rows and columns are left out where
    no whole window fits, unless `ceil_mode` is set. See `avg_pool`.

    >>> x = np.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
    >>> tenon.avg_pool2d(x, window=2, stride=1)
    >>> tenon.avg_pool2d(x, window=2, padding=1, count_include_pad=False)
    """

    name = "tenon.avg_pool2d"
    RANK: ClassVar[int | None] = 2


@tensor_op
class AvgPool3dOp(AveragePoolingOp):
    """The mean of each window of `x` (..., depth, height, width). Integers are taken as f32. The settings are those of
    `avg_pool`.

    >>> tenon.avg_pool3d(np.array([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 8.0], [7.0, 6.0]]]]), window=2)
    """

    name = "tenon.avg_pool3d"
    RANK: ClassVar[int | None] = 3


def check_order(p: float) -> None:
    """Raise unless there is a norm of order `p`."""
    if not 0 < p < np.inf:
        raise InferenceError(f"p is {p} where a number above 0 is needed")


def powers(x: Value, p: float) -> Value:
    """|`x`|**`p`."""
    return x * x if p == 2 else ops.abs(x) if p == 1 else ops.pow(ops.abs(x), p)


def root(total: Value, p: float) -> Value:
    """`total`**(1 / `p`), with a gradient of 0 at 0."""
    if p == 1:
        return total
    is_zero = total == 0.0
    positive = ops.select(is_zero, 1.0, total)
    return ops.select(is_zero, 0.0, ops.sqrt(positive) if p == 2 else ops.pow(positive, 1 / p))


@tensor_op
class LpPoolOp(PoolingOp):
    """The p-norm of each window of `x` (..., *image): (sum of |x|**p)**(1 / p). Integers are taken as f32.

    The settings are those of `max_pool`; padding is zeros. The gradient at a window of zeros is 0.

    >>> tenon.lp_pool(np.array([[3.0, 4.0, 0.0, -2.0]]), window=(2,))
    >>> tenon.lp_pool(np.array([[3.0, 4.0, 0.0, -2.0]]), window=(2,), p=1.0)
    """

    name = "tenon.lp_pool"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=None)
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    ceil_mode = setting(bool, default=False)
    p = setting(float, default=2.0)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def check(cls, **settings: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().check(**settings)
        check_order(settings["p"])

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Value:
        (x,) = operands
        windows, p = cls.windows(settings), settings["p"]
        total = ops.window_sum(windows.padded(powers(in_compute_type(x), p), 0.0), **cls.fixed(windows))
        return root(total, p).astype(x.element_type)
