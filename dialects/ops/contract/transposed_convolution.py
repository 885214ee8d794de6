"""Transposed convolutions in any number of spatial dimensions.

`transposed_convolution` is the sum itself, the gradient of `convolution`; `conv_transpose` and its like are what
networks call, with groups, padding and a bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.scalar import emit_scalar, index_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, IndexingOp
from tenon.dialects.families.linalg_builders import Reader
from tenon.dialects.ops.contract.convolution import ConvolutionOp, ImageOp, layer_windows, with_examples
from tenon.dialects.ops.contract.transposed_phases import transposed_by_phases
from tenon.dialects.ops.contract.windows import Sizes, Windows, borders, each, halves, moved
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import (
    NUMERIC_TENSOR,
    STORED_TENSOR,
    compute_type,
    element_of,
    promote,
    shape_of,
    tensor_type,
)


@tensor_op
class DilateOp(IndexingOp):
    """`x` with `steps[i]` - 1 zeros between neighbours along each axis i, so that those are `steps[i]` apart.

    >>> tenon.dilate(np.array([1, 2, 3]), (3,))
    """

    name = "tenon.dilate"
    x = operand_def(STORED_TENSOR)
    steps = setting(tuple)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if any(step < 1 for step in settings["steps"]):
            raise InferenceError(f"steps is {settings['steps']} where sizes of at least 1 are needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        steps, shape = settings["steps"], shape_of(x)
        if shape is None:
            return tensor_type((-1,) * len(steps), element_of(x))
        if len(shape) != len(steps):
            raise InferenceError(f"x has rank {len(shape)}, and steps {steps} has {len(steps)} entries")
        sizes = [
            size if step == 1 or size < 1 else (size - 1) * step + 1 for size, step in zip(shape, steps, strict=True)
        ]
        return tensor_type(tuple(sizes), element_of(x))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        (x,) = operands
        place: list[Value] = []
        between: list[Value] = []
        for i, step in zip(index, settings["steps"], strict=True):
            if step > 1:
                # Indices are not negative, which spares what rounding down would ask for.
                between.append(emit_scalar(arith.RemUIOp, i, index_constant(step)) != index_constant(0))
                i = emit_scalar(arith.DivUIOp, i, index_constant(step))
            place.append(i)
        result = x.read_inside(*place)
        for is_between in between:
            result = ops.select(is_between, 0, result)
        return result

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return ops.dilate(*operands, steps=(1, *settings["steps"]))

    vjp = staticmethod(lambda g, out, x, *, steps: ops.slice(g, starts=(0,) * g.ndim, limits=g.shape, strides=steps))


@tensor_op
class TransposedConvolutionOp(CompositeOp):
    """Each element of `x` (n, groups, f, ...counts) times `weight` (groups, f, c, ...window), added up where its window
    lies.

    The result is (n, groups, c, ...`size`): the gradient of a `convolution` of such an image. Windows start every
    `stride` elements, the first one `low` elements before the image, and their elements are `dilation` apart; what
    lies outside of the image is left out, and what no window reaches is 0.

    >>> x, weight = np.array([[[[1.0, 2.0]]]]), np.array([[[[1.0, 10.0, 100.0]]]])
    >>> tenon.transposed_convolution(x, weight, size=(4,))
    >>> tenon.transposed_convolution(x, weight, size=(4,), stride=2, low=1)
    """

    name = "tenon.transposed_convolution"
    AUTOCAST = "low"
    x = operand_def(NUMERIC_TENSOR)
    weight = operand_def(NUMERIC_TENSOR)
    size = setting(tuple)
    stride = setting(tuple, default=(1,))
    dilation = setting(tuple, default=(1,))
    low = setting(tuple, default=(0,))
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        rank = len(settings["size"])
        each(settings["size"], rank, "size", 0)
        each(settings["stride"], rank, "stride")
        each(settings["dilation"], rank, "dilation")
        each(settings["low"], rank, "low", 0)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        element = promote(element_of(t) for t in operands)
        size, (x, weight) = settings["size"], map(shape_of, operands)
        rank = len(size) + 3
        for name, shape in (("x", x), ("weight", weight)):
            if shape is not None and len(shape) != rank:
                raise InferenceError(f"rank of {name} is {len(shape)} where {rank} is needed, by size {size}")
        x, weight = x or (-1,) * rank, weight or (-1,) * rank
        for name, of_x, of_weight in (("groups", x[1], weight[0]), ("f", x[2], weight[1])):
            if min(of_x, of_weight) >= 0 and of_x != of_weight:
                raise InferenceError(f"dimension {name} is {of_x} in x and {of_weight} in weight")
        return tensor_type((x[0], max(x[1], weight[0]), weight[2], *size), element)

    @classmethod
    def decompose(cls, *operands: Value, **settings: Any) -> Value:
        x, weight = operands
        size = settings["size"]
        if 0 in x.shape:
            shape = (*x.shape[:2], weight.shape[2], *size)
            return ops.zeros(shape=shape, dtype=promote([x.element_type, weight.element_type]))
        windows, low, high = cls._margins(x, weight, settings)
        phases = transposed_by_phases(x, weight, windows, size, each(settings["low"], len(size), "low", 0))
        if phases is not None:
            return phases
        spatial = tuple(range(3, x.ndim))
        mirrored = ops.transpose(ops.flip(weight, axis=spatial), permutation=(0, 2, 1, *spatial))
        if all(taps == 1 for taps in windows.size):
            return moved(_spread(ops.convolution(x, mirrored), windows.stride), low, high)
        return ops.convolution(moved(_spread(x, windows.stride), low, high), mirrored, dilation=windows.dilation)

    @staticmethod
    def _margins(x: Value, weight: Value, settings: dict[str, Any]) -> tuple[Windows, Sizes, Sizes]:
        """The windows, and what has to stand before and behind `x` once it is spread by the stride."""
        windows = Windows.of(weight.shape[3:], settings["stride"], (0,), settings["dilation"])
        size = settings["size"]
        starts = each(settings["low"], len(size), "low", 0)
        low = tuple([span - 1 - start for span, start in zip(windows.span, starts, strict=True)])
        high = tuple(
            [
                extent + start - ((count - 1) * step + 1 if count else 0)
                for extent, start, count, step in zip(size, starts, x.shape[3:], windows.stride, strict=True)
            ]
        )
        return windows, low, high

    @classmethod
    def vjp(cls, g: Value, out: Value, *operands: Value, **settings: Any) -> tuple[Any, ...]:
        x, weight = operands
        if 0 in x.shape:
            return ops.zeros_like(x), ops.zeros_like(weight)
        windows, low, high = cls._margins(x, weight, settings)
        before = tuple([span - 1 - size for span, size in zip(windows.span, low, strict=True)])
        behind = tuple([span - 1 - size for span, size in zip(windows.span, high, strict=True)])
        image = moved(g, before, behind)
        forward = {"stride": windows.stride, "dilation": windows.dilation}
        return ops.convolution(image, weight, **forward), ConvolutionOp.weight_gradient(x, image, weight, forward)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return with_examples(cls, size, batched, operands, settings)


def _spread(x: Value, stride: Sizes) -> Value:
    """`x` with its spatial neighbours `stride` apart."""
    return x if all(step == 1 for step in stride) else ops.dilate(x, steps=(1, 1, 1, *stride))


class TransposedLayerOp(ImageOp):
    """The transposed convolution of images with the weight (c, f / groups, ...window)."""

    x = operand_def(NUMERIC_TENSOR)
    weight = operand_def(NUMERIC_TENSOR)
    bias = opt_operand_def(NUMERIC_TENSOR)
    stride = setting(tuple, default=(1,))
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    groups = setting(int, default=1)
    output_padding = setting(tuple, default=(0,))
    output_size = setting(tuple, default=None)
    result = result_def(NUMERIC_TENSOR)

    @classmethod
    def check(cls, **settings: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().check(**settings)
        each(settings["output_padding"], cls.RANK, "output_padding", 0)
        if settings["output_size"] is not None:
            each(settings["output_size"], cls.RANK, "output_size")
            if not isinstance(settings["padding"], str) and any(settings["padding"]):
                raise InferenceError(
                    f"padding {settings['padding']} and output_size {settings['output_size']} are both given"
                )

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        element = promote(element_of(t) for t in operands if t is not None)
        shapes = cls.shapes(operands)
        if shapes is None:
            return tensor_type(None, element)
        (n, channels, *image), (depth, filters, *window), (length,) = shapes
        groups = settings["groups"]
        if min(channels, depth) >= 0 and channels != depth:
            raise InferenceError(f"x has {channels} channels, and weight has {depth}")
        if max(channels, depth) >= 0 and max(channels, depth) % groups:
            raise InferenceError(f"x has {max(channels, depth)} channels, which is no multiple of groups {groups}")
        filters = filters * groups if filters >= 0 else -1
        if min(length, filters) >= 0 and length != filters:
            raise InferenceError(f"dimension f is {filters} in weight and {length} in bias")
        sizes, _ = cls.placed(tuple(image), tuple(window), settings)
        return tensor_type((n, max(filters, length), *sizes), element)

    @staticmethod
    def placed(image: Sizes, window: Sizes, settings: dict[str, Any]) -> tuple[Sizes, Sizes]:
        """The sizes of the result, -1 where unknown, and how many elements before it are left out."""
        rank, padding = len(image), settings["padding"]
        windows = layer_windows(window, settings)
        more = each(settings["output_padding"], rank, "output_padding", 0)
        given = settings["output_size"]
        given = None if given is None else each(given, rank, "output_size")
        derived = given is not None or padding in ("same", "same_upper", "same_lower")
        sides = [(0, 0)] * rank if derived or isinstance(padding, str) else borders(padding, rank)
        sizes: list[int] = []
        low: list[int] = []
        for i, (size, span, step, (before, behind)) in enumerate(
            zip(image, windows.span, windows.stride, sides, strict=True)
        ):
            known = size >= 0 and span >= 0
            whole = (size - 1) * step + span + more[i]
            if derived:
                extent = given[i] if given is not None else size * step if size >= 0 else -1
                # As ONNX has it, the odd element is left out before, unless the padding says otherwise.
                side = "same" if padding in ("same", "same_upper") else "same_lower"
                before = halves(max(whole - extent, 0), side)[0]
            else:
                extent = whole - before - behind if known else -1
                if known and extent < 0:
                    raise InferenceError(
                        f"padding {before} and {behind} leaves nothing of dimension {i} of the result, which is {whole}"
                    )
            sizes.append(extent)
            low.append(before)
        return tuple(sizes), tuple(low)

    @classmethod
    def decompose(cls, *operands: Any, **settings: Any) -> Value:
        x, weight, bias = operands
        groups, element = settings["groups"], x.element_type
        x, weight = x.astype(compute_type(element)), weight.astype(compute_type(element))
        n, channels, *image = x.shape
        filters, window = weight.shape[1], weight.shape[2:]
        size, low = cls.placed(tuple(image), window, settings)
        result = ops.transposed_convolution(
            ops.reshape(x, shape=(n, groups, channels // groups, *image)),
            ops.reshape(weight, shape=(groups, channels // groups, filters, *window)),
            size=size,
            stride=settings["stride"],
            dilation=settings["dilation"],
            low=low,
        )
        result = ops.reshape(result, shape=(n, groups * filters, *size))
        return cls.with_bias(result, bias).astype(element)


@tensor_op
class ConvTransposeOp(TransposedLayerOp):
    """The transposed convolution of images `x` (n, c, ...image) with `weight` (c, f / groups, ...window), plus `bias`
    (f,): each element of `x` adds the weight, times itself, to a window of the result.

    `stride` and `dilation` of the windows and `output_padding` are one size for all spatial dimensions, or one each.
    The result is (n, f, ...sizes) with sizes of (size - 1) * stride + dilation * (window - 1) + 1 + output_padding -
    padding: `padding`, given as for `conv`, is what is left out before and behind. With `"same"` sizes are size *
    stride, and with `output_size` they are what it says; then what is left out follows, the odd element behind with
    `"same"` and before otherwise, as in ONNX's definition.

    >>> x, weight = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]])
    >>> tenon.conv_transpose(x, weight, stride=2)
    >>> tenon.conv_transpose(x, weight, stride=2, padding=1, output_padding=1)
    """

    name = "tenon.conv_transpose"


@tensor_op
class ConvTranspose1dOp(TransposedLayerOp):
    """The transposed convolution of signals `x` (n, c, length) with `weight` (c, f / groups, k), plus `bias` (f,): see
    `conv_transpose`.

    >>> tenon.conv_transpose1d(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]]))
    """

    name = "tenon.conv_transpose1d"
    RANK: ClassVar[int | None] = 1


@tensor_op
class ConvTranspose2dOp(TransposedLayerOp):
    """The transposed convolution of images `x` (n, c, height, width) with `weight` (c, f / groups, kh, kw), plus `bias`
    (f,): see `conv_transpose`.

    >>> tenon.conv_transpose2d(np.array([[[[1.0, 2.0]]]]), np.array([[[[1.0, 10.0], [0.5, 0.0]]]]))
    """

    name = "tenon.conv_transpose2d"
    RANK: ClassVar[int | None] = 2


@tensor_op
class ConvTranspose3dOp(TransposedLayerOp):
    """The transposed convolution of volumes `x` (n, c, depth, height, width) with `weight` (c, f / groups, kd, kh, kw),
    plus `bias` (f,): see `conv_transpose`.

    >>> tenon.conv_transpose3d(np.array([[[[[1.0, 2.0]]]]]), np.array([[[[[1.0, 10.0]]]]]), stride=2)
    """

    name = "tenon.conv_transpose3d"
    RANK: ClassVar[int | None] = 3
