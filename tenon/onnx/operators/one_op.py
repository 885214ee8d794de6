"""Operators that are one op of Tenon, operand by operand; where ops promote, ONNX asks for equal dtypes anyway."""

from __future__ import annotations

from typing import Any

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, Operand
from tenon.onnx.operators import operator


def _one_op(name: str, op: str = "", since: int = 1, **settings: tuple[str, Any] | str) -> None:
    """Register `name` as `op` (by default of the same name), each setting by its attribute and that one's default; an
    attribute without a default is required."""

    @operator(name, since=since)
    def function(node: Node, *operands: Operand) -> Any:
        given = {s: node.required(a) if isinstance(a, str) else node.attribute(*a) for s, a in settings.items()}
        return ops.find(op or name.lower())(*operands, **given)


for _name in (
    *("Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Equal", "Erf", "Exp"),
    *("Floor", "Greater", "IsNaN", "Less", "Log", "MatMul", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh"),
    *("Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
):
    _one_op(_name)

_one_op("And", "logical_and")
_one_op("BitwiseAnd", "bitwise_and")
_one_op("BitwiseNot", "bitwise_not")
_one_op("BitwiseOr", "bitwise_or")
_one_op("BitwiseXor", "bitwise_xor")
_one_op("Celu", since=12, alpha=("alpha", 1.0))
_one_op("DepthToSpace", "depth_to_space", block="blocksize", mode=("mode", "DCR"))
_one_op("Det", since=11)
_one_op("Elu", alpha=("alpha", 1.0))
_one_op("Gather", axis=("axis", 0))
_one_op("GatherElements", "gather_elements", since=11, axis=("axis", 0))
_one_op("GatherND", "gather_nd", since=11, batch_dims=("batch_dims", 0))
_one_op("GlobalAveragePool", "global_avg_pool")
_one_op("GlobalLpPool", "global_lp_pool", since=2, p=("p", 2))
_one_op("GlobalMaxPool", "global_max_pool")
_one_op("GreaterOrEqual", "greater_equal")
_one_op("HardSigmoid", "hard_sigmoid", since=6, alpha=("alpha", 0.2), beta=("beta", 0.5))
_one_op("HardSwish", "hard_swish", since=14)
_one_op("InstanceNormalization", "instance_norm", since=6, eps=("epsilon", 1e-5))
_one_op("LeakyRelu", "leaky_relu", negative_slope=("alpha", 0.01))
_one_op("LessOrEqual", "less_equal")
# The window of channels begins (size - 1) // 2 before each one.
_one_op("LRN", "local_response_norm", size="size", alpha=("alpha", 1e-4), beta=("beta", 0.75), bias=("bias", 1.0))
_one_op("Mish", since=18)
_one_op("Mul")
_one_op("Neg")
_one_op("Not", "logical_not")
_one_op("Or", "logical_or")
_one_op("ScatterND", "scatter_nd", since=11, reduction=("reduction", "none"))
_one_op("Selu", since=6, alpha=("alpha", 1.67326319217681884765625), gamma=("gamma", 1.05070102214813232421875))
_one_op("SpaceToDepth", "space_to_depth", block="blocksize", mode=("mode", "DCR"))
_one_op("Sub")
_one_op("Swish", since=24, alpha=("alpha", 1.0))
_one_op("ThresholdedRelu", "thresholded_relu", since=10, alpha=("alpha", 1.0))
_one_op("Where")
_one_op("Xor", "logical_xor")
