"""Windows that slide over the two last dimensions: their elements, maxima, sums, and pooling as networks use it."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import operand_def, result_def

from tenon.dialects.base import tensor_op
from tenon.dialects.contraction import borders, padded_image, pair, scaled, window_counts
from tenon.dialects.families import CompositeOp, IndexMapOp, WindowOp
from tenon.dialects.inference import InferenceError, show
from tenon.dialects.reduction import least
from tenon.dialects.settings import setting
from tenon.dialects.types import FLOAT_TENSOR, NUMERIC_TENSOR, compute_type, element_of, shape_of, tensor_type
from tenon.dialects.value import Value, ops

Sizes = tuple[int, ...]


def check_windows(**settings: Any) -> None:
    """Raise unless `window`, `stride` and `dilation` are pairs of sizes."""
    for name in ("window", "stride", "dilation"):
        if len(settings[name]) != 2 or min(settings[name]) < 1:
            raise InferenceError(f"{name} is {settings[name]} where two sizes above 0 are needed")


@tensor_op
class SlidingWindowsOp(IndexMapOp):
    """The windows of `x` (..., height, width): (..., oh, ow, kh, kw), where kh, kw is the size `window`.

    They start every `stride` rows and columns; their elements are `dilation` apart. NumPy: `sliding_window_view`.
    """

    name = "tenon.sliding_windows"
    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=(1, 1))
    dilation = setting(tuple, default=(1, 1))
    result = result_def(NUMERIC_TENSOR)

    check = staticmethod(check_windows)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape, window = shape_of(x), settings["window"]
        if shape is None:
            return tensor_type(None, element_of(x))
        if len(shape) < 2:
            raise InferenceError(f"x has shape {show(shape)} where two dimensions or more are needed")
        counts = window_counts(shape[-2:], window, settings["stride"], (0,), settings["dilation"])
        return tensor_type((*shape[:-2], *counts, *window), element_of(x))

    @staticmethod
    def source(index: tuple[AffineExpr, ...], shape: Sizes, /, **settings: Any) -> tuple[AffineExpr, ...]:
        *batch, oh, ow, kh, kw = index
        stride, dilation = settings["stride"], settings["dilation"]
        rows = scaled(oh, stride[0]) + scaled(kh, dilation[0])
        return (*batch, rows, scaled(ow, stride[1]) + scaled(kw, dilation[1]))


class PlaneWindowOp(WindowOp):
    """A combination over the windows of the last two dimensions."""

    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=(1, 1))
    dilation = setting(tuple, default=(1, 1))
    result = result_def(NUMERIC_TENSOR)

    check = staticmethod(check_windows)

    @staticmethod
    def indexing(  # pyright: ignore[reportIncompatibleMethodOverride]
        oh: Any, ow: Any, kh: Any, kw: Any, *batch: Any, window: Sizes, stride: Sizes, dilation: Sizes
    ) -> tuple[tuple[Any, ...], ...]:
        rows = scaled(oh, stride[0]) + scaled(kh, dilation[0])
        columns = scaled(ow, stride[1]) + scaled(kw, dilation[1])
        return (*batch, rows, columns), (*batch, oh, ow)

    @staticmethod
    def extents(*, window: Sizes, **settings: Any) -> dict[str, int]:
        return {"kh": window[0], "kw": window[1]}


@tensor_op
class WindowMaxOp(PlaneWindowOp):
    """The largest element of each window of `x` (..., height, width); the gradient goes to the first such element."""

    name = "tenon.window_max"

    @staticmethod
    def initial(element: Attribute) -> float:
        return least(element)

    @staticmethod
    def scalar(accumulator: Value, x: Value) -> Value:
        return ops.maximum(accumulator, x)

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        windows = ops.sliding_windows(x, **settings)
        flat = ops.reshape(windows, shape=(*g.shape, settings["window"][0] * settings["window"][1]))
        places = ops.iota(shape=flat.shape, axis=-1)
        chosen = ops.cast(places == ops.argmax(flat, axis=-1, keepdims=True), dtype=g.element_type)
        spread = ops.reshape(ops.expand_dims(g, axis=-1) * chosen, shape=windows.shape)
        return SlidingWindowsOp.vjp(spread, windows, x, **settings)


@tensor_op
class WindowSumOp(PlaneWindowOp):
    """The sum of each window of `x` (..., height, width)."""

    name = "tenon.window_sum"

    @staticmethod
    def initial(element: Attribute) -> float:
        return 0

    @staticmethod
    def scalar(accumulator: Value, x: Value) -> Value:
        return accumulator + x

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        loops = cls.loops([x.shape], settings)
        maps = (loops.result_map, *loops.operand_maps)
        return (ops.contract((g,), maps=maps, extents=loops.extents, shape=x.shape),)


class PoolingOp(CompositeOp):
    """Windows over the two last dimensions; `stride` is `window` unless given."""

    @staticmethod
    def check(**settings: Any) -> None:
        window = pair(settings["window"], "window", 1)
        pair(settings["stride"] or window, "stride", 1)
        for low, high, size in zip(*borders(settings["padding"]), window, strict=True):
            if max(low, high) > size // 2:
                raise InferenceError(f"padding is {max(low, high)} and may be at most half the window, which is {size}")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is None:
            return tensor_type(None, element_of(x))
        if len(shape) < 2:
            raise InferenceError(f"x has shape {show(shape)} where two dimensions or more are needed")
        window = pair(settings["window"], "window", 1)
        stride = pair(settings["stride"] or window, "stride", 1)
        return tensor_type(
            (*shape[:-2], *window_counts(shape[-2:], window, stride, settings["padding"], (1, 1))), element_of(x)
        )


@tensor_op
class MaxPool2dOp(PoolingOp):
    """The largest element of each window of `x` (..., height, width); NaN if there is any.

    `window` and `stride` are one size or a pair, `padding` one size, a pair, or top, bottom, left and right. Padding
    never is the largest. The last rows and columns are left out where no whole window fits. The gradient goes to the
    first largest.
    """

    name = "tenon.max_pool2d"
    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=None)
    padding = setting(tuple, default=(0,))
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def decompose(x: Value, *, window: Sizes, stride: Sizes | None, padding: Sizes) -> Value:
        size = pair(window, "window", 1)
        padded = padded_image(x, padding, float(least(compute_type(x.element_type))))
        return ops.window_max(padded, window=size, stride=pair(stride or size, "stride", 1))


@tensor_op
class AvgPool2dOp(PoolingOp):
    """The mean of each window of `x` (..., height, width). Integers are taken as f32.

    `window` and `stride` are one size or a pair, `padding` one size, a pair, or top, bottom, left and right. Padding
    counts as zeros, or with `count_include_pad=False` not at all. The last rows and columns are left out where no whole
    window fits.
    """

    name = "tenon.avg_pool2d"
    x = operand_def(FLOAT_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=None)
    padding = setting(tuple, default=(0,))
    count_include_pad = setting(bool, default=True)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, *, window: Sizes, stride: Sizes | None, padding: Sizes, count_include_pad: bool) -> Value:
        size = pair(window, "window", 1)
        steps = pair(stride or size, "stride", 1)
        compute = x.astype(compute_type(x.element_type))
        total = ops.window_sum(padded_image(compute, padding, 0.0), window=size, stride=steps)
        count: Any = float(size[0] * size[1])
        if not count_include_pad:
            ones = ops.ones(x.shape[-2:], dtype=compute.element_type)
            count = ops.window_sum(padded_image(ones, padding, 0.0), window=size, stride=steps)
        return (total / count).astype(x.element_type)
