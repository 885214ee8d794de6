"""Windows that slide over the last dimensions: their elements, and their maxima and sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import convert, to_compute
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, IndexMapOp, WindowOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.indexing import LoopStructure
from tenon.dialects.families.linalg_builders import LoopIndex
from tenon.dialects.ops.contract.windows import Sizes, Windows, check_padding, each, places
from tenon.dialects.ops.reduce.reduction import ArgmaxOp
from tenon.dialects.types.shapes import InferenceError, Shape, show
from tenon.dialects.types.types import (
    INTEGER_TENSOR,
    NUMERIC_TENSOR,
    compute_type,
    element_of,
    i64,
    shape_of,
    tensor_type,
)


def check_windows(**settings: Any) -> None:
    """Raise unless `window` is sizes, and `stride` and `dilation` are one size or as many."""
    rank = len(each(settings["window"], None, "window"))
    each(settings["stride"], rank, "stride")
    each(settings["dilation"], rank, "dilation")


@tensor_op
class SlidingWindowsOp(KeepsElement, IndexMapOp):
    """The windows of `x` (..., *image): (..., *counts, *window).

    `window` has a size for each of the last dimensions that the windows slide over. They start every `stride` elements
    and their elements are `dilation` apart: one size, or one for each. NumPy: `sliding_window_view`.

    >>> tenon.sliding_windows(np.array([1, 2, 3, 4, 5]), window=(3,))
    >>> tenon.sliding_windows(np.array([1, 2, 3, 4, 5]), window=(2,), stride=2, dilation=2)
    """

    name = "tenon.sliding_windows"
    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=(1,))
    dilation = setting(tuple, default=(1,))
    result = result_def(NUMERIC_TENSOR)

    check = staticmethod(check_windows)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        window = settings["window"]
        image = image_of(shape, len(window))
        counts = Windows.of(window, settings["stride"], (0,), settings["dilation"]).counts(image)
        return (*shape[: len(shape) - len(image)], *counts, *window)

    @staticmethod
    def source(index: tuple[AffineExpr, ...], shape: Sizes, /, **settings: Any) -> tuple[AffineExpr, ...]:
        rank = len(settings["window"])
        batch, out, tap = index[: -2 * rank], index[-2 * rank : -rank], index[-rank:]
        return (*batch, *places(out, tap, settings["stride"], settings["dilation"]))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*operands, **settings)


@tensor_op
class FoldOp(CompositeOp):
    """The sum of windows `x` (n, c * elements, windows), each put back to where it lies in an image: (n, c, *size).

    `size` is that of the image, around which `padding` (as in `conv`) lies that is left out; `window`, `stride` and
    `dilation` are those of `sliding_windows`. The elements of a window, and the windows, are in row-major order.
    PyTorch: `fold`, ONNX: Col2Im, with any number of spatial dimensions.

    >>> tenon.fold(np.array([[[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]]), size=(4,), window=(2,))
    """

    name = "tenon.fold"
    x = operand_def(NUMERIC_TENSOR)
    size = setting(tuple)
    window = setting(tuple)
    stride = setting(tuple, default=(1,))
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        check_windows(**settings)
        each(settings["size"], None, "size")
        if len(settings["size"]) != len(settings["window"]):
            raise InferenceError(
                f"size is {settings['size']} and window {settings['window']} where as many entries are needed"
            )
        check_padding(settings["padding"], len(settings["size"]))

    @staticmethod
    def windows(settings: dict[str, Any]) -> tuple[Windows, Sizes]:
        """The windows, and how many there are along each dimension."""
        windows = Windows.of(settings["window"], settings["stride"], settings["padding"], settings["dilation"])
        return windows, windows.counts(settings["size"])

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        size, elements = settings["size"], prod(settings["window"])
        _, counts = cls.windows(settings)
        shape = shape_of(x)
        if shape is None:
            return tensor_type((-1, -1, *size), element_of(x))
        if len(shape) != 3 or (shape[1] % elements and shape[1] >= 0) or shape[2] not in (-1, prod(counts)):
            needed = f"(n, c * {elements}, {prod(counts)})"
            raise InferenceError(f"x has shape {show(shape)} where {needed} is needed")
        return tensor_type((shape[0], -1 if shape[1] < 0 else shape[1] // elements, *size), element_of(x))

    @classmethod
    def decompose(cls, x: Value, **settings: Any) -> Value:
        windows, counts = cls.windows(settings)
        size, rank = settings["size"], len(counts)
        batch, channels = x.shape[0], x.shape[1] // prod(windows.size)
        low, high = windows.margins(size)
        padded = tuple([before + n + behind for before, n, behind in zip(low, size, high, strict=True)])
        apart = ops.reshape(x, shape=(batch, channels, *windows.size, *counts))

        loops = [AffineExpr.dimension(i) for i in range(apart.ndim)]
        taps, out = loops[2 : 2 + rank], loops[2 + rank :]
        target = (*loops[:2], *places(out, taps, windows.stride, windows.dilation))
        maps = (AffineMap.identity(apart.ndim), AffineMap(apart.ndim, 0, target))
        total = ops.contract((apart,), maps=maps, extents=apart.shape, shape=(batch, channels, *padded))
        limits = tuple([before + n for before, n in zip(low, size, strict=True)])
        return ops.slice(total, starts=(0, 0, *low), limits=(batch, channels, *limits))


def image_of(shape: Sizes, rank: int) -> Sizes:
    """The last `rank` dimensions, which windows slide over."""
    if len(shape) < rank:
        needed = "one dimension" if rank == 1 else f"{rank} dimensions"
        raise InferenceError(f"x has shape {show(shape)} where {needed} or more are needed")
    return shape[len(shape) - rank :]


class SlidingOp(WindowOp):
    """A combination over windows of the last dimensions, as `sliding_windows` has them."""

    x = operand_def(NUMERIC_TENSOR)
    window = setting(tuple)
    stride = setting(tuple, default=(1,))
    dilation = setting(tuple, default=(1,))
    result = result_def(NUMERIC_TENSOR)

    COUNTS_TAPS: ClassVar[bool] = False
    """Whether the result says at which place of a window an element is."""

    check = staticmethod(check_windows)

    @classmethod
    def ranks(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> dict[str, int]:
        rank = len(settings["window"])
        return {"out": rank, "tap": rank}

    @staticmethod
    def indexing(  # pyright: ignore[reportIncompatibleMethodOverride]
        out: Sequence[Any], tap: Sequence[Any], *batch: Any, window: Sizes, stride: Sizes, dilation: Sizes
    ) -> tuple[tuple[Any, ...], ...]:
        return (*batch, *places(out, tap, stride, dilation)), (*batch, *out)

    @staticmethod
    def extents(*, window: Sizes, **settings: Any) -> dict[str, int]:
        return {f"tap{i}": size for i, size in enumerate(window)}

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any] | None:
        if len(shape_of(self.operands[0].type) or ()) != len(order):
            return None
        rank = len(self.settings["window"])
        along = [axis for axis in order if axis >= len(order) - rank]
        if self.COUNTS_TAPS and along != sorted(along):
            return None
        # Axes that no window slides over have windows of 1; in front of all others they are left out.
        first = min([place for place, axis in enumerate(order) if axis in along], default=len(order))
        axes = [axis - len(order) for axis in order[first:]]
        return {
            name: tuple([each(self.settings[name], rank, name)[axis] if axis >= -rank else 1 for axis in axes])
            for name in ("window", "stride", "dilation")
        }


class LargestOp(SlidingOp):
    """What is said of the largest element of each window: NaN if there is any, otherwise the first of equal ones."""

    COMBINE = "maximum"


@tensor_op
class WindowMaxOp(LargestOp):
    """The largest element of each window of `x` (..., *image); the gradient goes to the first such element.

    The settings are those of `sliding_windows`.

    >>> tenon.window_max(np.array([1.0, 3.0, 2.0, 0.0]), window=(2,))
    """

    name = "tenon.window_max"

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        window = settings["window"]
        taps = ops.iota(shape=(prod(window),))
        chosen = ops.expand_dims(ops.window_argmax(x, **settings), axis=-1) == taps
        spread = ops.select(chosen, ops.expand_dims(g, axis=-1), 0)
        windows = ops.reshape(spread, shape=(*g.shape, *window))
        return SlidingWindowsOp.vjp(windows, windows, x, **settings)


@tensor_op
class WindowArgmaxOp(LargestOp):
    """Which element of each window of `x` (..., *image) is the largest, or the first NaN, counted in row-major order
    within the window (i64).

    The settings are those of `sliding_windows`. Equal ones: the first.

    >>> tenon.window_argmax(np.array([1.0, 3.0, 3.0, np.nan]), window=(2,))
    """

    name = "tenon.window_argmax"
    result = result_def(INTEGER_TENSOR)
    traits = traits_def(Pure(), NoGradient())
    COUNTS_TAPS = True

    @classmethod
    def result_element(cls, *elements: Attribute) -> Attribute:
        return i64

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        element = compute_type(element_of(operands[0].type))
        window = self.settings["window"]

        def body(values: list[Value], accumulators: list[Value], loops: LoopStructure) -> list[Value]:
            best, best_tap = accumulators
            value = to_compute(values[0])
            tap: Any = 0
            for i, size in enumerate(window):
                along = LoopIndex(loops.names.index(f"tap{i}"), size)
                tap = along if i == 0 else tap * size + along
            replaces = ArgmaxOp.better(value, best)
            return [ops.select(replaces, value, best), ops.select(replaces, convert(tap, i64), best_tap)]

        return [self.accumulate_all(operands, [(element, self._checked_initial(element)), (i64, 0)], body)[1]]


@tensor_op
class WindowSumOp(SlidingOp):
    """The sum of each window of `x` (..., *image). The settings are those of `sliding_windows`.

    >>> tenon.window_sum(np.array([1.0, 3.0, 2.0, 0.0]), window=(2,), stride=2)
    """

    name = "tenon.window_sum"
    COMBINE = "add"

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        loops = cls.loops([x.shape], settings)
        maps = (loops.result_map, *loops.operands)
        return (ops.contract((g,), maps=maps, extents=loops.extents, shape=x.shape),)
