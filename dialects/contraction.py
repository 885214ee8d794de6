"""Sums of products: matrix products, convolutions, and the general form that their gradients take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def

from tenon.dialects.base import tensor_op
from tenon.dialects.families import CompositeOp, ContractionOp
from tenon.dialects.inference import InferenceError, Shape
from tenon.dialects.loops import LoopStructure, linear, loop_structure, span
from tenon.dialects.registry import tensor_function
from tenon.dialects.settings import setting
from tenon.dialects.types import NUMERIC_TENSOR, element_of, promote, shape_of, tensor_type
from tenon.dialects.value import Value, ops


@tensor_op
class MatmulOp(ContractionOp):
    """The matrix product of `x` (..., m, k) and `y` (..., k, n); leading dimensions broadcast.

    A vector (k,) is taken as a row on the left and as a column on the right, and that dimension is left out of the
    result.
    """

    name = "tenon.matmul"
    x = operand_def(NUMERIC_TENSOR)
    y = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def indexing(m: Any, n: Any, k: Any, *batch: Any) -> tuple[tuple[Any, ...], ...]:
        return (*batch, m, k), (*batch, k, n), (*batch, m, n)

    @classmethod
    def loops(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> LoopStructure:
        forms = {(False, False): cls.indexing, (True, True): _dot, (True, False): _row, (False, True): _column}
        left, right = (shape is not None and len(shape) == 1 for shape in shapes)
        return loop_structure(forms[left, right], {}, ("x", "y"), shapes, settings)


def _dot(k: Any) -> tuple[tuple[Any, ...], ...]:
    return (k,), (k,), ()


def _row(n: Any, k: Any, *batch: Any) -> tuple[tuple[Any, ...], ...]:
    return (k,), (*batch, k, n), (*batch, n)


def _column(m: Any, k: Any, *batch: Any) -> tuple[tuple[Any, ...], ...]:
    return (*batch, m, k), (k,), (*batch, m)


@tensor_op
class ContractOp(ContractionOp):
    """The sum, over loops of the given `extents`, of the product of `factors`: the general contraction.

    `maps` has the index of each operand and then of the result in terms of the loops; a sum of multiples of loops is
    allowed as an index. The result has `shape`; elements that no loop reaches are 0.
    """

    name = "tenon.contract"
    factors = var_operand_def(NUMERIC_TENSOR)
    maps = setting("maps")
    extents = setting(tuple)
    shape = setting(tuple)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def indexing(*loops: Any, **settings: Any) -> tuple[tuple[Any, ...], ...]:
        return tuple([tuple(m.eval_affine(loops)) for m in settings["maps"]])

    @classmethod
    def loops(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> LoopStructure:
        *operand_maps, result_map = settings["maps"]
        extents = settings["extents"]
        plain = {e.position for m in settings["maps"] for e in m.results if isinstance(e, AffineDimExpr)}
        return LoopStructure(
            tuple([f"d{loop}" for loop in range(len(extents))]),
            extents,
            tuple(operand_maps),
            result_map,
            tuple([loop for loop in range(len(extents)) if loop not in plain]),
        )

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (factors,) = operands
        maps, extents, shape = settings["maps"], settings["extents"], settings["shape"]
        if not factors:
            raise InferenceError("factors is empty where one tensor or more is needed")
        if len(maps) != len(factors) + 1:
            raise InferenceError(
                f"maps has {len(maps)} entries where {len(factors) + 1} are needed: one per factor, and the result's"
            )
        for position, factor in enumerate(factors):
            _check_index(f"factors[{position}]", maps[position], extents, shape_of(factor))
        _check_index("the result", maps[-1], extents, shape)
        return tensor_type(shape, promote(element_of(t) for t in factors))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        return super().structured(list(operands[0]))

    @classmethod
    def vjp(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, g: Value, out: Value, factors: tuple[Value, ...], **settings: Any
    ) -> tuple[Any, ...]:
        return (super().vjp(g, out, *factors, **settings),)


def _check_index(name: str, index: AffineMap, extents: tuple[int, ...], shape: Shape) -> None:
    """Raise unless the loops stay inside of a tensor of `shape` that `index` reads or writes."""
    if index.num_dims != len(extents):
        raise InferenceError(f"the map of {name} has {index.num_dims} loops, and extents {extents} has {len(extents)}")
    if shape is None:
        return
    if len(index.results) != len(shape):
        raise InferenceError(f"the map of {name} has {len(index.results)} indices, and {name} has rank {len(shape)}")
    for axis, (expr, size) in enumerate(zip(index.results, shape, strict=True)):
        needed = span(linear(expr), extents)
        if size >= 0 and ((isinstance(expr, AffineDimExpr) and needed != size) or needed > size):
            raise InferenceError(f"dimension {axis} of {name} is {size}, and the loops span {needed}", (size, needed))


@tensor_function
def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products in Einstein notation, as NumPy's: `einsum("bij,bjk->bik", x, y)`.

    Letters that are missing behind the arrow are summed over; without an arrow, those that occur once remain, in
    alphabetical order. Dimensions of one letter must be equal (they do not broadcast), and an ellipsis is not
    supported.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    letters = sorted(set("".join(terms)))
    if not arrow:
        output = "".join(letter for letter in letters if inputs.count(letter) == 1)
    if (
        not all(letter.isalpha() for letter in letters)
        or not set(output) <= set(letters)
        or len(set(output)) != len(output)
    ):
        raise ValueError(f"einsum: equation {equation!r} is not of the form 'ij,jk->ik'")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: equation {equation!r} has {len(terms)} operands, got {len(operands)}")
    sizes: dict[str, int] = {}
    for position, (term, operand) in enumerate(zip(terms, operands, strict=True)):
        shape = np.shape(operand) if not isinstance(operand, Value) else operand.shape
        if len(shape) != len(term):
            raise ValueError(f"einsum: {term!r} has {len(term)} dimensions, and operand {position} has {len(shape)}")
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ValueError(f"einsum: dimension {letter} is {sizes[letter]} and, in operand {position}, {size}")
    # The loops of the result come first, those that are summed over last.
    order = [*output, *[letter for letter in letters if letter not in output]]
    maps = [
        AffineMap(len(order), 0, tuple([AffineExpr.dimension(order.index(letter)) for letter in term]))
        for term in (*terms, output)
    ]
    extents = tuple([sizes[letter] for letter in order])
    return ops.contract(operands, maps=tuple(maps), extents=extents, shape=extents[: len(output)])


@tensor_op
class ConvolutionOp(ContractionOp):
    """Windows of `x` (n, groups, c, height, width) times `weight` (groups, f, c, kh, kw), added up within each window.

    The result is (n, groups, f, oh, ow); windows start every `stride` rows and columns, and their elements are
    `dilation` apart. As in all frameworks this is a correlation: the weight is not mirrored.
    """

    name = "tenon.convolution"
    x = operand_def(NUMERIC_TENSOR)
    weight = operand_def(NUMERIC_TENSOR)
    stride = setting(tuple, default=(1, 1))
    dilation = setting(tuple, default=(1, 1))
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        for name in ("stride", "dilation"):
            if len(settings[name]) != 2 or min(settings[name]) < 1:
                raise InferenceError(f"{name} is {settings[name]} where two sizes above 0 are needed")

    @staticmethod
    def indexing(  # pyright: ignore[reportIncompatibleMethodOverride]
        n: Any, groups: Any, f: Any, oh: Any, ow: Any, c: Any, kh: Any, kw: Any, *, stride: Any, dilation: Any
    ) -> tuple[tuple[Any, ...], ...]:
        rows = scaled(oh, stride[0]) + scaled(kh, dilation[0])
        columns = scaled(ow, stride[1]) + scaled(kw, dilation[1])
        return (n, groups, c, rows, columns), (groups, f, c, kh, kw), (n, groups, f, oh, ow)

    @classmethod
    def vjp(cls, g: Value, out: Value, *operands: Value, **settings: Any) -> tuple[Any, ...]:
        dilation = settings["dilation"]
        if settings["stride"] != (1, 1):
            return super().vjp(g, out, *operands, **settings)
        # With a stride of 1 the gradient of x is a convolution as well: of g with the mirrored weight.
        x, weight = operands
        border = (0, 0, 0, *[(size - 1) * gap for size, gap in zip(weight.shape[3:], dilation, strict=True)])
        mirrored = ops.transpose(ops.flip(weight, axis=(3, 4)), permutation=(0, 2, 1, 3, 4))
        to_x = ops.convolution(ops.pad(g, low=border, high=border), mirrored, dilation=dilation)
        loops = cls.loops([x.shape, weight.shape], settings)
        maps = (loops.result_map, *loops.operand_maps)
        return to_x, ops.contract((g, x), maps=maps, extents=loops.extents, shape=weight.shape)


def scaled(loop: Any, factor: int) -> Any:
    """`loop * factor`, which stays a plain loop for a factor of 1."""
    return loop if factor == 1 else loop * factor


def pair(sizes: tuple[int, ...], name: str, least: int) -> tuple[int, int]:
    """A setting of one or two sizes as two."""
    if len(sizes) not in (1, 2) or min(sizes) < least:
        raise InferenceError(f"{name} is {sizes} where one or two sizes of at least {least} are needed")
    return sizes[0], sizes[-1]


def borders(padding: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int]]:
    """What is padded before and behind rows and columns: one size, rows and columns, or top, bottom, left and right."""
    if len(padding) == 4 and min(padding) >= 0:
        top, bottom, left, right = padding
        return (top, left), (bottom, right)
    if len(padding) not in (1, 2) or min(padding) < 0:
        raise InferenceError(f"padding is {padding} where one, two or four sizes of at least 0 are needed")
    both = pair(padding, "padding", 0)
    return both, both


def window_counts(
    image: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """How many windows fit in the two last dimensions `image` of x, -1 where unknown."""
    counts: list[int] = []
    before, behind = borders(padding)
    for size, extent, step, gap, low, high in zip(image, window, stride, dilation, before, behind, strict=True):
        covered = (extent - 1) * gap + 1
        if size < 0 or extent < 0:
            counts.append(-1)
            continue
        if covered > size + low + high:
            raise InferenceError(f"a window spans {covered} and the padded x has size {size + low + high}")
        counts.append((size + low + high - covered) // step + 1)
    return tuple(counts)


def padded_image(x: Value, padding: tuple[int, ...], value: float) -> Value:
    """`x` with its two last dimensions padded."""
    before, behind = borders(padding)
    if not any((*before, *behind)):
        return x
    kept = (0,) * (x.ndim - 2)
    return ops.pad(x, low=(*kept, *before), high=(*kept, *behind), value=value)


@tensor_op
class Conv2dOp(CompositeOp):
    """The convolution of images `x` (n, c, height, width) with `weight` (f, c / groups, kh, kw), plus `bias` (f,).

    `stride` and `dilation` are one size or a pair; `padding` (with zeros) is one size, a pair, or top, bottom, left and
    right. The result is (n, f, oh, ow) with oh = (height + padding - dilation * (kh - 1) - 1) // stride + 1, as
    PyTorch's.
    """

    name = "tenon.conv2d"
    x = operand_def(NUMERIC_TENSOR)
    weight = operand_def(NUMERIC_TENSOR)
    bias = opt_operand_def(NUMERIC_TENSOR)
    stride = setting(tuple, default=(1,))
    padding = setting(tuple, default=(0,))
    dilation = setting(tuple, default=(1,))
    groups = setting(int, default=1)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        pair(settings["stride"], "stride", 1)
        pair(settings["dilation"], "dilation", 1)
        borders(settings["padding"])
        if settings["groups"] < 1:
            raise InferenceError(f"groups is {settings['groups']} where 1 or more is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        element = promote(element_of(t) for t in operands if t is not None)
        x, weight, bias = (None if t is None else shape_of(t) for t in operands)
        groups = settings["groups"]
        for name, shape, rank in (("x", x, 4), ("weight", weight, 4), ("bias", bias, 1)):
            if shape is not None and len(shape) != rank:
                raise InferenceError(f"rank of {name} is {len(shape)} where {rank} is needed")
        n, channels, *image = x or (-1,) * 4
        filters, depth, *window = weight or (-1,) * 4
        if channels >= 0 and depth >= 0 and channels != depth * groups:
            message = f"x has {channels} channels, and weight takes {depth} in each of {groups} groups"
            raise InferenceError(message, (channels, depth * groups))
        if filters >= 0 and filters % groups:
            raise InferenceError(f"weight has {filters} filters, which is no multiple of groups {groups}")
        if bias is not None and min(bias[0], filters) >= 0 and bias[0] != filters:
            raise InferenceError(f"dimension f is {filters} in weight and {bias[0]} in bias")
        stride, dilation = pair(settings["stride"], "stride", 1), pair(settings["dilation"], "dilation", 1)
        counts = window_counts(tuple(image), tuple(window), stride, settings["padding"], dilation)
        return tensor_type((n, filters, *counts), element)

    @staticmethod
    def decompose(x: Value, weight: Value, bias: Value | None, **settings: Any) -> Value:
        groups = settings["groups"]
        padded = padded_image(x, settings["padding"], 0.0)
        n, channels, *image = padded.shape
        filters, depth, *window = weight.shape
        result = ops.convolution(
            ops.reshape(padded, shape=(n, groups, channels // groups, *image)),
            ops.reshape(weight, shape=(groups, filters // groups, depth, *window)),
            stride=pair(settings["stride"], "stride", 1),
            dilation=pair(settings["dilation"], "dilation", 1),
        )
        result = ops.reshape(result, shape=(n, filters, *result.shape[3:]))
        return result if bias is None else result + ops.reshape(bias, shape=(filters, 1, 1))
