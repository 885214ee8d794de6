"""Operators that make tensors: constants, ranges, unit matrices, random numbers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import LARGEST_ARRAY, Node, OnnxError, Operand, check_size
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import in_single, of_dtype

_CONSTANT_DTYPES = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@operator("Constant")
def constant(node: Node) -> np.ndarray[Any, Any]:
    value = node.attribute("value")
    if isinstance(value, np.ndarray):
        return value
    for name, dtype in _CONSTANT_DTYPES.items():
        if name in node.attributes:
            return np.asarray(node.attribute(name), dtype)
    raise OnnxError(f"{node.where}: none of the attributes value, {', '.join(_CONSTANT_DTYPES)} is given")


@operator("ConstantOfShape", since=9)
def constant_of_shape(node: Node, shape: Operand) -> Any:
    value = node.attribute("value", np.zeros(1, np.float32))
    sizes = node.integers(shape, "shape") or []
    return ops.full(sizes, value.reshape(-1)[0], value.dtype)


@operator("Range", since=11)
def arange(node: Node, start: Operand, limit: Operand, delta: Operand) -> np.ndarray[Any, Any]:
    first, last, step = (node.number(x, name) for x, name in ((start, "start"), (limit, "limit"), (delta, "delta")))
    if step == 0:
        raise OnnxError(f"{node.where}: delta is 0")
    if np.asarray(first).dtype.kind in "iu":
        first, last, step = int(first), int(last), int(step)
        values = _counted(node, max(-((first - last) // step), 0), np.int64) * step + first
    else:
        count = max(ceil((float(last) - float(first)) / float(step)), 0)
        values = _counted(node, count, np.float64) * float(step) + float(first)
    return values.astype(start.dtype)


def _counted(node: Node, count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """0, 1, 2, ... where that is not too much to be computed while importing."""
    check_size((count,), np.dtype(dtype), f"{node.where}: the range", LARGEST_ARRAY)
    return np.arange(count, dtype=dtype)


@operator("EyeLike", since=9)
def eye_like(node: Node, x: Operand) -> Any:
    """Ones on diagonal `k` of a matrix of the shape of `x`."""
    rows, columns = node.shape(x, rank=2)
    return ops.eye(rows, columns, node.attribute("k", 0), node.dtype(default=x.dtype))


@operator("OneHot", since=9)
def one_hot(node: Node, indices: Operand, depth: Operand, values: Operand) -> Any:
    """`values` are off and on; negative indices count from the end, others outside of `depth` are off everywhere."""
    size = int(node.number(depth, "depth"))
    axis = normalize_axis(node.attribute("axis", -1), indices.ndim + 1)
    places = of_dtype(indices, np.int64)
    places = ops.expand_dims(ops.select(ops.less(places, 0), ops.add(places, size), places), axis=axis)
    classes = ops.iota(shape=(size, *(1,) * (indices.ndim - axis)))
    return ops.select(ops.equal(places, classes), values[1], values[0])


# --- random numbers ---------------------------------------------------------------------------------------------------


def random_key(node: Node) -> np.ndarray[Any, Any]:
    """The key of a node: of its seed, or of its name and outputs where it has none, so that nodes differ."""
    seed = node.attribute("seed")
    if seed is not None:
        low, high = np.asarray(seed, np.float64).reshape(1).view(np.int32)
        return np.asarray([low, high], np.int32)
    text = "\0".join((node.name, *node.outputs)).encode()
    words = np.asarray([zlib.crc32(text), zlib.crc32(text[::-1])], np.uint32)
    return words.view(np.int32)


def _normal(node: Node, shape: Sequence[int], dtype: Any) -> Any:
    mean, deviation = node.attribute("mean", 0.0), node.attribute("scale", 1.0)
    return ops.random_normal(random_key(node), tuple(shape), mean, deviation, dtype)


def _between(node: Node, shape: Sequence[int], dtype: Any) -> Any:
    low, high = node.attribute("low", 0.0), node.attribute("high", 1.0)
    return ops.random_uniform(random_key(node), tuple(shape), low, high, dtype)


@operator("RandomNormal")
def random_normal(node: Node) -> Any:
    return _normal(node, node.required("shape"), node.dtype(default=np.float32))


@operator("RandomNormalLike")
def random_normal_like(node: Node, x: Operand) -> Any:
    return _normal(node, node.shape(x), node.dtype(default=x.dtype))


@operator("RandomUniform")
def random_uniform(node: Node) -> Any:
    return _between(node, node.required("shape"), node.dtype(default=np.float32))


@operator("RandomUniformLike")
def random_uniform_like(node: Node, x: Operand) -> Any:
    return _between(node, node.shape(x), node.dtype(default=x.dtype))


@operator("Bernoulli", since=15)
def bernoulli(node: Node, probability: Operand) -> Any:
    drawn = ops.random_bernoulli(random_key(node), in_single(probability), node.shape(probability))
    return of_dtype(drawn, node.dtype(default=probability.dtype))


@operator("Multinomial", since=7)
def multinomial(node: Node, x: Operand) -> Any:
    """Classes drawn with logarithms of probabilities `x` (batch, classes)."""
    chosen = ops.random_categorical(random_key(node), in_single(x), node.attribute("sample_size", 1))
    return of_dtype(chosen, node.dtype(default=np.int32))


@operator("Dropout", since=7, until=11)
def dropout_of_inference(node: Node, x: Operand) -> Any:
    """Nothing is dropped; the mask, where it is asked for, is all true (before opset 10, of the dtype of `x`)."""
    dtype = np.dtype(np.bool_) if node.opset >= 10 else x.dtype
    return (x, ops.full(node.shape(x), 1, dtype)) if node.wants(1) else x


@operator("Dropout", since=12)
def dropout(node: Node, x: Operand, ratio: Operand | None = None, training: Operand | None = None) -> Any:
    """In training mode each element is dropped with probability `ratio`, and what stays is scaled up."""
    is_training = training is not None and bool(node.known(training, "training_mode").reshape(-1)[0])
    share = 0.5 if ratio is None else float(node.known(ratio, "ratio").reshape(-1)[0])
    if not 0.0 <= share < 1.0:
        raise OnnxError(f"{node.where}: ratio is {share} where a number from 0 to below 1 is needed")
    shape = node.shape(x)
    if not is_training or share == 0.0 or prod(shape) == 0:
        return (x, ops.full(shape, True, np.bool_)) if node.wants(1) else x
    return ops.dropout_with_mask(x, random_key(node), rate=share)
