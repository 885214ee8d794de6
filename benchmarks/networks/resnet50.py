"""resnet50 from the light model that comes with the `onnx` package, with seeded weights in place of its constant ones.

torch and jax run the same graph, node by node, compiled where they compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


def _weights(graph: Any) -> dict[str, Array]:
    """Random weights that keep the size of activations, for the constants that the light model has."""
    random = np.random.default_rng(0)
    shapes = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    sizes = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.data_type == onnx.TensorProto.INT64}
    filled = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    shapes |= {node.output[0]: tuple(sizes[node.input[0]].tolist()) for node in filled}
    scales = {node.input[i] for node in graph.node if node.op_type == "BatchNormalization" for i in (1, 4)}
    found: dict[str, Array] = {}
    for name, shape in shapes.items():
        if name in scales:
            found[name] = random.uniform(0.5, 1.5, shape).astype(np.float32)
        else:
            fan_in = math.prod(shape[1:]) if len(shape) > 1 else 100
            spread = math.sqrt((2 if len(shape) > 1 else 1) / fan_in)
            found[name] = random.standard_normal(shape, np.float32) * np.float32(spread)
    return found


def model(batch: int) -> Any:
    """The ONNX model for `batch` images (batch, 3, 224, 224). Its result is what goes into the closing softmax, which
    would hide errors.
    """
    loaded = onnx.load(Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx")
    graph = loaded.graph
    weights = _weights(graph)
    last = graph.node[-1]
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape" and node is not last]
    result = helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, (batch, 1000))
    (reshape,) = [node for node in nodes if node.op_type == "Reshape"]
    weights[reshape.input[1]] = np.array([batch, 2048])
    image = next(value for value in graph.input if value.name not in {t.name for t in graph.initializer})
    given = helper.make_tensor_value_info(image.name, onnx.TensorProto.FLOAT, (batch, 3, 224, 224))
    known = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return helper.make_model(
        helper.make_graph(nodes, "resnet50", [given], [result], known), opset_imports=loaded.opset_import, ir_version=8
    )


def walk(graph: Any, ops: Mapping[str, Callable[..., Any]], weights: Mapping[str, Any], images: Any) -> Any:
    """The result of the graph with each operator computed by its function in `ops`."""
    values: dict[str, Any] = {**weights, graph.input[0].name: images}
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = ops[node.op_type](*[values[name] for name in node.input], **attributes)
    return values[graph.output[0].name]


def arrays(graph: Any) -> dict[str, Array]:
    """The graph's weights by name."""
    return {t.name: numpy_helper.to_array(t) for t in graph.initializer}


def torch_ops() -> dict[str, Callable[..., Any]]:
    """The operators in torch."""
    from torch.nn import functional as F

    def convolution(x: Any, weight: Any, strides: Any = (1, 1), pads: Any = (0,), **_: Any) -> Any:
        return F.conv2d(x, weight, None, tuple(strides), pads[0])

    def norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, epsilon: float = 1e-5, **_: Any) -> Any:
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)

    return {
        "Conv": convolution,
        "BatchNormalization": norm,
        "Relu": F.relu,
        "Sum": lambda x, y: x + y,
        "MaxPool": lambda x, kernel_shape, strides, pads: F.max_pool2d(x, kernel_shape, strides, pads[0]),
        "AveragePool": lambda x, kernel_shape, strides: F.avg_pool2d(x, kernel_shape, strides),
        "Reshape": lambda x, _: x.flatten(1),
        "Gemm": lambda x, weight, bias, transB: F.linear(x, weight, bias),
    }


def jax_ops() -> dict[str, Callable[..., Any]]:
    """The operators in jax."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def convolution(x: Any, weight: Any, strides: Any = (1, 1), pads: Any = (0,), **_: Any) -> Any:
        return lax.conv_general_dilated(x, weight, tuple(strides), ((pads[0],) * 2,) * 2)

    def norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, epsilon: float = 1e-5, **_: Any) -> Any:
        scale = weight * lax.rsqrt(variance + epsilon)
        return x * scale[:, None, None] + (bias - mean * scale)[:, None, None]

    def pool(x: Any, kernel_shape: Any, strides: Any, pads: Any) -> Any:
        padding = ((0, 0), (0, 0), *[(p, p) for p in pads[:2]])
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *kernel_shape), (1, 1, *strides), padding)

    return {
        "Conv": convolution,
        "BatchNormalization": norm,
        "Relu": jax.nn.relu,
        "Sum": lambda x, y: x + y,
        "MaxPool": pool,
        "AveragePool": lambda x, kernel_shape, strides: x.mean((2, 3), keepdims=True),
        "Reshape": lambda x, _: x.reshape(x.shape[0], -1),
        "Gemm": lambda x, weight, bias, transB: x @ weight.T + bias,
    }
