"""Convolutions, transposed ones, and those of quantized numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.linear import from_zero_point, requantized

_NAMED_PADDING = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


def padding(node: Node, rank: int) -> tuple[int, ...] | str:
    """`auto_pad` as Tenon names it, or `pads`: before and behind each dimension in turn."""
    name = node.attribute("auto_pad", "NOTSET") or "NOTSET"
    if name != "NOTSET":
        if name not in _NAMED_PADDING:
            raise OnnxError(
                f"{node.where}: auto_pad is {name!r} where NOTSET or one of {', '.join(_NAMED_PADDING)} is needed"
            )
        return _NAMED_PADDING[name]
    pads = node.attribute("pads") or [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise OnnxError(f"{node.where}: pads has {len(pads)} entries where {2 * rank} are needed")
    return interleaved(pads)


def interleaved(pads: Sequence[int]) -> tuple[int, ...]:
    """From all sizes before and then all behind, to before and behind each dimension in turn."""
    rank = len(pads) // 2
    return tuple([size for pair in zip(pads[:rank], pads[rank:], strict=True) for size in pair])


def sizes(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with a size per spatial dimension, 1 unless given."""
    given = tuple(node.attribute(name) or (1,) * rank)
    if len(given) != rank:
        raise OnnxError(f"{node.where}: {name} {list(given)} has {len(given)} entries where {rank} are needed")
    return given


def _layer(node: Node, x: Any, weight: Any) -> dict[str, Any]:
    """The settings that a convolution and a transposed one share; checks what is stated twice."""
    if x.ndim != weight.ndim or x.ndim < 3:
        raise OnnxError(f"{node.where}: ranks {x.ndim} and {weight.ndim} where the same rank of 3 or more is needed")
    rank = x.ndim - 2
    window = node.attribute("kernel_shape")
    if window is not None and tuple(window) != tuple(weight.shape[2:]):
        raise OnnxError(f"{node.where}: kernel_shape is {window} and the weight has {list(weight.shape[2:])}")
    return {
        "stride": sizes(node, "strides", rank),
        "dilation": sizes(node, "dilations", rank),
        "groups": node.attribute("group", 1),
    }


@operator("Conv")
def conv(node: Node, x: Operand, weight: Operand, bias: Operand | None = None) -> Any:
    return ops.conv(x, weight, bias, padding=padding(node, x.ndim - 2), **_layer(node, x, weight))


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Operand, weight: Operand, bias: Operand | None = None) -> Any:
    """With `output_shape` the padding follows from it, whatever `pads` says."""
    rank = x.ndim - 2
    target = node.attribute("output_shape")
    around = padding(node, rank)
    if target:
        target = tuple(target[-rank:])
        around = around if isinstance(around, str) else (0,)
    return ops.conv_transpose(
        x,
        weight,
        bias,
        padding=around,
        output_padding=tuple(node.attribute("output_padding") or (0,) * rank),
        output_size=target or None,
        **_layer(node, x, weight),
    )


@operator("ConvInteger", since=10)
def conv_integer(
    node: Node, x: Operand, weight: Operand, x_zero: Operand | None = None, weight_zero: Operand | None = None
) -> Any:
    """Padding counts as the zero point."""
    values, weights = from_zero_point(x, x_zero, 0), from_zero_point(weight, weight_zero, 0)
    return ops.conv(values, weights, padding=padding(node, x.ndim - 2), **_layer(node, x, weight))


@operator("QLinearConv", since=10)
def qlinear_conv(
    node: Node,
    x: Operand,
    x_scale: Operand,
    x_zero: Operand,
    weight: Operand,
    weight_scale: Operand,
    weight_zero: Operand,
    y_scale: Operand,
    y_zero: Operand,
    bias: Operand | None = None,
) -> Any:
    """The bias counts in steps of x_scale * weight_scale."""
    values, weights = from_zero_point(x, x_zero, 0), from_zero_point(weight, weight_zero, 0)
    total = ops.conv(values, weights, bias, padding=padding(node, x.ndim - 2), **_layer(node, x, weight))
    scale = ops.reshape(weight_scale, shape=(-1, *(1,) * (x.ndim - 2))) if weight_scale.ndim else weight_scale
    factor = ops.reshape(x_scale, shape=()) * scale / ops.reshape(y_scale, shape=())
    return requantized(total, factor, ops.reshape(y_zero, shape=()))
