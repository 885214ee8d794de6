"""Small ONNX models that tests are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

Info = tuple[Any, Sequence[int | str | None] | None]


def info(name: str, dtype: Any = np.float32, shape: Sequence[int | str | None] | None = None) -> onnx.ValueInfoProto:
    """The description of an input or output; without a dtype, nothing but its name."""
    if dtype is None:
        return helper.make_empty_tensor_value_info(name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Info],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = 21,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes; inputs are `name: (dtype, shape)`."""
    graph = helper.make_graph(
        nodes,
        "small",
        [info(name, *given) for name, given in inputs.items()],
        [info(name, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid(*entry) for entry in (domains or {}).items()]]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def node(operator: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by spaces, and `-` is one that is left out."""
    split = [["" if n == "-" else n for n in names.split()] for names in (inputs, outputs)]
    return helper.make_node(operator, *split, name=name, **attributes)


def perceptron(seed: int = 0) -> tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """Two layers with a batch of any size, and their weights."""
    generator = np.random.default_rng(seed)
    weights = {
        "w1": generator.standard_normal((8, 16)).astype(np.float32),
        "b1": generator.standard_normal(16).astype(np.float32),
        "w2": generator.standard_normal((16, 3)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x w1", "h", "first"),
        node("Add", "h b1", "hb", "shift"),
        node("Relu", "hb", "a", "activation"),
        node("MatMul", "a w2", "y", "second"),
    ]
    return model(nodes, {"x": (np.float32, ("N", 8))}, ["y"], weights), weights
