"""Losses of scores and labels. The classes are in axis 1."""

from __future__ import annotations

from typing import Any

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, Operand
from tenon.onnx.operators import operator


def _settings(node: Node) -> dict[str, Any]:
    return {
        "axis": 1,
        "ignore_index": node.attribute("ignore_index"),
        "reduction": node.attribute("reduction", "mean"),
    }


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(node: Node, x: Operand, labels: Operand, weight: Operand | None = None) -> Any:
    return ops.nll_loss(x, labels, weight, **_settings(node))


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(node: Node, scores: Operand, labels: Operand, weight: Operand | None = None) -> Any:
    """The logarithms of the probabilities are a second result."""
    if node.wants(1):
        return ops.softmax_cross_entropy(scores, labels, weight, **_settings(node))
    return ops.cross_entropy(scores, labels, weight, **_settings(node))
