"""Steps of optimizers (the preview of a training domain), and what of ai.onnx.ml is about numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator

_TRAINING = "ai.onnx.preview.training"
_ML = "ai.onnx.ml"


def _grouped(node: Node, operands: Sequence[Operand], parts: int) -> list[tuple[Operand, ...]]:
    """What belongs to each tensor: all tensors come first, then all gradients, then what is kept of each."""
    count = len(operands) // parts
    if count == 0 or len(operands) % parts:
        raise OnnxError(f"{node.where}: {len(operands)} inputs after rate and step where {parts} per tensor are needed")
    return [tuple(operands[i::count]) for i in range(count)]


def _in_order(results: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple([each for group in zip(*results, strict=True) for each in group])


def _regularized(node: Node, x: Any, gradient: Any) -> Any:
    return gradient + x * node.attribute("norm_coefficient", 0.0)


@operator("Adagrad", domain=_TRAINING)
def adagrad(node: Node, rate: Any, step: Any, *operands: Any) -> Any:
    scaled = rate / (1.0 + ops.cast(step, dtype=rate.dtype) * node.attribute("decay_factor", 0.0))
    results: list[tuple[Any, ...]] = []
    for x, g, squares in _grouped(node, operands, 3):
        gradient = _regularized(node, x, g)
        total = squares + gradient * gradient
        results.append((x - scaled * gradient / (ops.sqrt(total) + node.attribute("epsilon", 1e-6)), total))
    return _in_order(results)


@operator("Adam", domain=_TRAINING)
def adam(node: Node, rate: Any, step: Any, *operands: Any) -> Any:
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    steps = ops.cast(step, dtype=rate.dtype)
    corrected = rate * ops.sqrt(1.0 - ops.power(beta, steps)) / (1.0 - ops.power(alpha, steps))
    scaled = ops.select(steps > 0.0, corrected, rate)
    results: list[tuple[Any, ...]] = []
    for x, g, mean, squares in _grouped(node, operands, 4):
        gradient = _regularized(node, x, g)
        mean = alpha * mean + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        moved = x - scaled * mean / (ops.sqrt(squares) + node.attribute("epsilon", 1e-6))
        results.append((moved * (1.0 - node.attribute("norm_coefficient_post", 0.0)), mean, squares))
    return _in_order(results)


@operator("Momentum", domain=_TRAINING)
def momentum(node: Node, rate: Any, step: Any, *operands: Any) -> Any:
    alpha, mode = node.required("alpha"), node.required("mode")
    if mode not in ("standard", "nesterov"):
        raise OnnxError(f"{node.where}: mode {mode!r} is not one of standard, nesterov")
    beta = ops.select(ops.greater(step, 0), ops.full((), node.required("beta"), rate.dtype), 1.0)
    results: list[tuple[Any, ...]] = []
    for x, g, velocity in _grouped(node, operands, 3):
        gradient = _regularized(node, x, g)
        velocity = alpha * velocity + beta * gradient
        moved = velocity if mode == "standard" else gradient + alpha * velocity
        results.append((x - rate * moved, velocity))
    return _in_order(results)


@operator("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(node: Node, x: Operand, indices: Operand) -> Any:
    """The columns of `x` that `indices` name."""
    rows = x if x.ndim > 1 else ops.expand_dims(x, axis=0)
    return ops.gather(rows, ops.reshape(indices, shape=(-1,)), axis=-1)


@operator("Binarizer", domain=_ML)
def binarizer(node: Node, x: Operand) -> Any:
    return ops.cast(ops.greater(x, node.attribute("threshold", 0.0)), dtype=np.dtype(x.dtype))
