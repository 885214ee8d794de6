"""Convolutions in any number of spatial dimensions.

`convolution` is the sum itself, `conv` and its like are what networks call, with groups, padding and a bias. As in all
frameworks a convolution is a correlation: the weight is not mirrored.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, ContractionOp
from tenon.dialects.families.batching import all_batched, along_first_axis, moved_axis
from tenon.dialects.ops.contract.windows import Sizes, Windows, check_padding, each, places
from tenon.dialects.types.shapes import InferenceError, Shape
from tenon.dialects.types.types import (
    NUMERIC_TENSOR,
    compute_type,
    element_of,
    promote,
    shape_of,
    tensor_type,
)

if TYPE_CHECKING:
    pass


@tensor_op
class ConvolutionOp(ContractionOp):
    """Windows of `x` (n, groups, c, ...image) times `weight` (groups, f, c, ...window), added up within each window.

    The result is (n, groups, f, ...counts), with any number of spatial dimensions. Windows start every `stride`
    elements, and their elements are `dilation` apart: one size each, or one for each spatial dimension.

    Windows of three rows may be computed by minimal filtering, where an infinity or a NaN of `x` reaches up to three
    more rows of the result, and an infinite result may be NaN. `TENON_MINIMAL_FILTERING=0` turns that off.

    >>> tenon.convolution(np.array([[[[1.0, 2.0, 3.0, 4.0]]]]), np.array([[[[1.0, 10.0]]]]))
    """

    name = "tenon.convolution"
    x = operand_def(NUMERIC_TENSOR)
    weight = operand_def(NUMERIC_TENSOR)
    stride = setting(tuple, default=(1,))
    dilation = setting(tuple, default=(1,))
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        for name in ("stride", "dilation"):
            each(settings[name], None, name)

    @classmethod
    def ranks(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> dict[str, int]:
        rank = max([len(shape or ()) for shape in shapes]) - 3
        if rank < 0:
            raise InferenceError(f"rank of x is {len(shapes[0] or ())} where 3 or more is needed")
        return {"out": rank, "tap": rank}

    @staticmethod
    def indexing(  # pyright: ignore[reportIncompatibleMethodOverride]
        n: Any, groups: Any, f: Any, out: Sequence[Any], c: Any, tap: Sequence[Any], *, stride: Sizes, dilation: Sizes
    ) -> tuple[tuple[Any, ...], ...]:
        image = places(out, tap, stride, dilation)
        return (n, groups, c, *image), (groups, f, c, *tap), (n, groups, f, *out)

    @classmethod
    def vjp(cls, g: Value, out: Value, *operands: Value, **settings: Any) -> tuple[Any, ...]:
        x, weight = operands
        to_x = ops.transposed_convolution(g, weight, size=x.shape[3:], **settings)
        return to_x, cls.weight_gradient(g, x, weight, settings)

    @classmethod
    def weight_gradient(cls, g: Value, x: Value, weight: Value, settings: dict[str, Any]) -> Value:
        """The cotangent of `weight` for the cotangent `g` of the convolution of `x`."""
        loops = cls.loops([x.shape, weight.shape], settings)
        maps = (loops.result_map, *loops.operands)
        return ops.contract((g, x), maps=maps, extents=loops.extents, shape=weight.shape)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return with_examples(cls, size, batched, operands, settings)


def with_examples(op: Any, size: int, batched: Sequence[bool], operands: Sequence[Value], settings: Any) -> Value:
    """The op of class `op` on (n, groups, ...) and a weight (groups, ...), some of them batched: examples join the
    images, or with a weight of their own the groups.
    """
    x, weight = operands
    if not batched[1]:
        (result,) = along_first_axis(lambda joined: op.apply(joined, weight, **settings), size, [x])
        return result
    x, weight = all_batched(size, batched, operands)
    n, groups = x.shape[1:3]
    joined = ops.reshape(moved_axis(x, 0, 1), shape=(n, size * groups, *x.shape[3:]))
    result = op.apply(joined, ops.reshape(weight, shape=(size * groups, *weight.shape[2:])), **settings)
    return moved_axis(ops.reshape(result, shape=(n, size, groups, *result.shape[2:])), 1, 0)


class ImageOp(CompositeOp):
    """What convolutions of networks share: images (n, channels, ...image), a weight, a bias, and groups of channels."""

    AUTOCAST = "low"

    RANK: ClassVar[int | None] = None
    """The number of spatial dimensions, where the op's name says it."""

    @classmethod
    def check(cls, **settings: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        each(settings["stride"], cls.RANK, "stride")
        each(settings["dilation"], cls.RANK, "dilation")
        check_padding(settings["padding"], cls.RANK)
        if settings["groups"] < 1:
            raise InferenceError(f"groups is {settings['groups']} where 1 or more is needed")

    @classmethod
    def shapes(cls, operands: Sequence[Any]) -> tuple[Sizes, Sizes, Sizes] | None:
        """The shapes of x, weight and bias as far as they are known; `None` where their rank is not."""
        x, weight, bias = (None if t is None else shape_of(t) for t in operands)
        rank = next((len(shape) - 2 for shape in (x, weight) if shape is not None), None)
        rank = rank if cls.RANK is None else cls.RANK
        if rank is None:
            return None
        if rank < 1:
            raise InferenceError(f"rank of {'weight' if x is None else 'x'} is {rank + 2} where 3 or more is needed")
        if cls.RANK is None and x is not None and weight is not None and len(x) != len(weight):
            raise InferenceError(
                f"rank of x (n, channels, ...image) is {len(x)} and rank of weight (f, channels, ...window) is "
                f"{len(weight)}; they must be the same"
            )
        for name, shape, needed in (("x", x, rank + 2), ("weight", weight, rank + 2), ("bias", bias, 1)):
            if shape is not None and len(shape) != needed:
                raise InferenceError(f"rank of {name} is {len(shape)} where {needed} is needed")
        return x or (-1,) * (rank + 2), weight or (-1,) * (rank + 2), bias or (-1,)

    @staticmethod
    def with_bias(result: Value, bias: Value | None) -> Value:
        """`result` (n, f, ...image) plus `bias` (f,), in the dtype of `result`."""
        if bias is None:
            return result
        column = ops.reshape(bias, shape=(-1, *[1] * (result.ndim - 2)))
        return result + column.astype(result.element_type)


class ConvolutionLayerOp(ImageOp):
    """The convolution of images with the weight (f, c / groups, ...window)."""

    x = operand_def(NUMERIC_TENSOR)
    weight = operand_def(NUMERIC_TENSOR)
    bias = opt_operand_def(NUMERIC_TENSOR)
    stride = setting(tuple, default=(1,))
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    groups = setting(int, default=1)
    result = result_def(NUMERIC_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        element = promote(element_of(t) for t in operands if t is not None)
        shapes = cls.shapes(operands)
        if shapes is None:
            return tensor_type(None, element)
        (n, channels, *image), (filters, depth, *window), (length,) = shapes
        groups = settings["groups"]
        if channels >= 0 and depth >= 0 and channels != depth * groups:
            raise InferenceError(f"x has {channels} channels, and weight takes {depth} in each of {groups} groups")
        if filters >= 0 and filters % groups:
            raise InferenceError(f"weight has {filters} filters, which is no multiple of groups {groups}")
        if min(length, filters) >= 0 and length != filters:
            raise InferenceError(f"dimension f is {filters} in weight and {length} in bias")
        counts = layer_windows(tuple(window), settings).counts(tuple(image))
        return tensor_type((n, max(filters, length), *counts), element)

    @classmethod
    def decompose(cls, *operands: Any, **settings: Any) -> Value:
        x, weight, bias = operands
        groups, element = settings["groups"], x.element_type
        x, weight = x.astype(compute_type(element)), weight.astype(compute_type(element))
        filters, depth, *size = weight.shape
        windows = layer_windows(tuple(size), settings)
        if all(length == 1 for length in size):
            result = _weighted_channels(windows.padded(x, 0.0), weight, windows.stride, groups)
        else:
            result = ops.convolution(
                windows.padded(ops.reshape(x, shape=(x.shape[0], groups, depth, *x.shape[2:])), 0.0),
                ops.reshape(weight, shape=(groups, filters // groups, depth, *size)),
                stride=windows.stride,
                dilation=windows.dilation,
            )
            result = ops.reshape(result, shape=(x.shape[0], filters, *result.shape[3:]))
        return cls.with_bias(result, bias).astype(element)

    @classmethod
    def vjp(cls, g: Value, out: Value, *operands: Any, **settings: Any) -> tuple[Any, ...]:
        """The gradient of `x` is asked for where the image is, and never for the padding around it."""
        x, weight, bias = operands
        groups, compute = settings["groups"], compute_type(x.element_type)
        filters, depth, *size = weight.shape
        windows = layer_windows(tuple(size), settings)
        image = x.shape[2:]
        low, _ = windows.margins(image)
        forward = {"stride": windows.stride, "dilation": windows.dilation}
        by_group = ops.reshape(weight.astype(compute), shape=(groups, filters // groups, depth, *size))
        cotangent = ops.reshape(g.astype(compute), shape=(g.shape[0], groups, filters // groups, *g.shape[2:]))
        to_x = ops.transposed_convolution(cotangent, by_group, size=image, low=low, **forward)
        padded = ops.reshape(x.astype(compute), shape=(x.shape[0], groups, depth, *image))
        padded = windows.padded(padded, 0.0)
        to_weight = ConvolutionOp.weight_gradient(cotangent, padded, by_group, forward)
        to_bias = None if bias is None else ops.sum(g.astype(compute), axis=(0, *range(2, g.ndim)))
        return (
            ops.reshape(to_x, shape=x.shape).astype(x.element_type),
            ops.reshape(to_weight, shape=weight.shape).astype(weight.element_type),
            None if to_bias is None or bias is None else to_bias.astype(bias.element_type),
        )

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        """Examples join the images or, with a weight or a bias of their own, the groups."""
        x, weight, bias = operands
        if not any(batched[1:]):
            (result,) = along_first_axis(lambda joined: cls.apply(joined, weight, bias, **settings), size, [x])
            return result
        x, weight = all_batched(size, batched[:2], (x, weight))
        (n, channels, *image), filters = x.shape[1:], weight.shape[1]
        x = ops.reshape(moved_axis(x, 0, 1), shape=(n, size * channels, *image))
        weight = ops.reshape(weight, shape=(size * filters, *weight.shape[2:]))
        if bias is not None:
            (bias,) = all_batched(size, batched[2:], (bias,))
            bias = ops.reshape(bias, shape=(size * filters,))
        result = cls.apply(x, weight, bias, **{**settings, "groups": size * settings["groups"]})
        return moved_axis(ops.reshape(result, shape=(n, size, filters, *result.shape[2:])), 1, 0)


def layer_windows(size: Sizes, settings: dict[str, Any]) -> Windows:
    """The windows of a weight whose spatial dimensions have `size`."""
    return Windows.of(size, settings["stride"], settings["padding"], settings["dilation"])


def _weighted_channels(x: Value, weight: Value, stride: Sizes, groups: int) -> Value:
    """The convolution with windows of one element: a matrix product over channels, along all of the image at once."""
    if any(step > 1 for step in stride):
        x = ops.slice(x, starts=(0,) * x.ndim, limits=x.shape, strides=(1, 1, *stride))
    n, _, *image = x.shape
    filters, depth = weight.shape[:2]
    columns = ops.reshape(x, shape=(n, groups, depth, prod(image)))
    result = ops.matmul(ops.reshape(weight, shape=(groups, filters // groups, depth)), columns)
    return ops.reshape(result, shape=(n, filters, *image))


@tensor_op
class ConvOp(ConvolutionLayerOp):
    """The convolution of images `x` (n, c, ...image) with `weight` (f, c / groups, ...window), plus `bias` (f,).

    There may be any number of spatial dimensions; `stride` and `dilation` are one size for all of them, or one each.
    `padding` (with zeros) is one size, one per dimension, before and behind each dimension in turn, or a name:
    `"valid"` for none, `"same"` for counts of ceil(size / stride), with an odd element behind (`"same_lower"`: before).
    The result is (n, f, ...counts) with counts of (size + padding - dilation * (window - 1) - 1) // stride + 1, as
    PyTorch's.

    >>> x = np.array([[[1.0, 2.0, 3.0, 4.0]]])
    >>> tenon.conv(x, np.array([[[1.0, 10.0]]]), padding="same")
    """

    name = "tenon.conv"


@tensor_op
class Conv1dOp(ConvolutionLayerOp):
    """The convolution of signals `x` (n, c, length) with `weight` (f, c / groups, k), plus `bias` (f,): see `conv`.

    >>> x, weight = np.array([[[1.0, 2.0, 3.0, 4.0]]]), np.array([[[1.0, 10.0]]])
    >>> tenon.conv1d(x, weight)
    >>> tenon.conv1d(x, weight, np.array([0.5]), stride=2, padding=1)
    """

    name = "tenon.conv1d"
    RANK: ClassVar[int | None] = 1


@tensor_op
class Conv2dOp(ConvolutionLayerOp):
    """The convolution of images `x` (n, c, height, width) with `weight` (f, c / groups, kh, kw), plus `bias` (f,).

    `stride` and `dilation` are one size or a pair; `padding` (with zeros) is one size, a pair, top, bottom, left and
    right, or a name: see `conv`. The result is (n, f, oh, ow) with oh = (height + padding - dilation * (kh - 1) - 1) //
    stride + 1, as PyTorch's.

    >>> x = np.array([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]])
    >>> tenon.conv2d(x, np.array([[[[1.0, 0.0], [0.0, -1.0]]]]))
    """

    name = "tenon.conv2d"
    RANK: ClassVar[int | None] = 2


@tensor_op
class Conv3dOp(ConvolutionLayerOp):
    """The convolution of volumes `x` (n, c, depth, height, width) with `weight` (f, c / groups, kd, kh, kw), plus
    `bias` (f,): see `conv`.

    >>> tenon.conv3d(np.ones((1, 1, 2, 3, 3)), np.ones((1, 1, 2, 2, 2)))
    """

    name = "tenon.conv3d"
    RANK: ClassVar[int | None] = 3
