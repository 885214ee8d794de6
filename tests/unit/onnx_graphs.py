"""ONNX graphs as small data structures that print as Python, and how they are made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from networks import Printed
from onnx import helper, shape_inference
from onnx_models import info

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Floats(Printed):
    """A constant of random floats between two bounds."""

    shape: Shape
    low: float = -1.0
    high: float = 1.0
    dtype: str = "float32"

    def array(self, random: np.random.Generator) -> Array:
        return random.uniform(self.low, self.high, self.shape).astype(self.dtype)


@dataclass(frozen=True, repr=False)
class Whole(Printed):
    """A constant of these whole numbers."""

    values: Any
    dtype: str = "int64"

    def array(self, random: np.random.Generator) -> Array:
        return np.asarray(self.values, self.dtype)


@dataclass(frozen=True, repr=False)
class Node(Printed):
    """An operator on values, by number, and constants; `None` is an input left out."""

    operator: str
    inputs: tuple[int | Floats | Whole | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


@dataclass(frozen=True, repr=False)
class Graph(Printed):
    """Values are numbered: inputs first, as (dtype, shape), then what nodes give. Those that no node takes come out."""

    inputs: tuple[tuple[str, Shape], ...]
    nodes: tuple[Node, ...]
    opset: int = 21
    seed: int = 0

    def model(self) -> onnx.ModelProto:
        random = np.random.default_rng(self.seed)
        nodes: list[onnx.NodeProto] = []
        constants: list[onnx.TensorProto] = []
        used: set[int] = set()
        count = len(self.inputs)
        for position, node in enumerate(self.nodes):
            names: list[str] = []
            for given in node.inputs:
                if isinstance(given, Floats | Whole):
                    names.append(f"c{len(constants)}")
                    constants.append(onnx.numpy_helper.from_array(given.array(random), names[-1]))
                else:
                    names.append("" if given is None else f"v{given}")
                    used |= {given} if given is not None else set()
            results = [f"v{count + i}" for i in range(node.outputs)]
            count += node.outputs
            nodes.append(helper.make_node(node.operator, names, results, name=f"n{position}", **node.attributes))
        results = [f"v{i}" for i in range(len(self.inputs), count) if i not in used]
        graph = helper.make_graph(
            nodes,
            "random",
            [info(f"v{i}", dtype, shape) for i, (dtype, shape) in enumerate(self.inputs)],
            [info(name, None) for name in results],
            constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def feeds(self) -> dict[str, Array]:
        random = np.random.default_rng(self.seed + 1)
        found: dict[str, Array] = {}
        for i, (dtype, shape) in enumerate(self.inputs):
            kind = np.dtype(dtype).kind
            array = random.integers(0, 2 if kind == "b" else 4, shape) if kind in "ib" else random.uniform(-2, 2, shape)
            found[f"v{i}"] = np.asarray(array, dtype)
        return found

    def values(self) -> dict[int, tuple[str, Shape]]:
        """The dtype and shape of each value; raises where a node cannot be."""
        model = shape_inference.infer_shapes(self.model(), check_type=True, strict_mode=True, data_prop=True)
        found = dict(enumerate(self.inputs))
        for value in [*model.graph.value_info, *model.graph.output]:
            kind = value.type.tensor_type
            if value.name.startswith("v") and kind.HasField("shape"):
                shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
                found[int(value.name[1:])] = (helper.tensor_dtype_to_np_dtype(kind.elem_type).name, shape)
        return found


def smaller(graph: Graph) -> Iterator[Graph]:
    """Graphs with a node less: its results are inputs instead, or nothing needs them."""
    values = graph.values()
    firsts = [len(graph.inputs)]
    for node in graph.nodes:
        firsts.append(firsts[-1] + node.outputs)
    for i in reversed(range(len(graph.nodes))):
        own = range(firsts[i], firsts[i + 1])
        taken = {n for node in graph.nodes for n in node.inputs if n in own}
        inputs = (*graph.inputs, *[values[n] for n in own if n in taken])
        numbers = {n: n for n in range(len(graph.inputs))}
        numbers |= {n: len(graph.inputs) + k for k, n in enumerate(n for n in own if n in taken)}
        count, nodes = len(inputs), list[Node]()
        for j, node in enumerate(graph.nodes):
            if j == i:
                continue
            renamed = tuple(numbers[n] if isinstance(n, int) else n for n in node.inputs)
            nodes.append(replace(node, inputs=renamed))
            for k in range(firsts[j], firsts[j + 1]):
                numbers[k], count = count, count + 1
        if nodes:
            yield _without_unused_inputs(replace(graph, inputs=inputs, nodes=tuple(nodes)))


def _without_unused_inputs(graph: Graph) -> Graph:
    taken = {n for node in graph.nodes for n in node.inputs if isinstance(n, int)}
    kept = [n for n in range(len(graph.inputs)) if n in taken]
    lost = len(graph.inputs) - len(kept)
    numbers = {n: k for k, n in enumerate(kept)}

    def renamed(n: Any) -> Any:
        return (numbers[n] if n < len(graph.inputs) else n - lost) if isinstance(n, int) else n

    nodes = tuple(replace(node, inputs=tuple(map(renamed, node.inputs))) for node in graph.nodes)
    return replace(graph, inputs=tuple(graph.inputs[n] for n in kept), nodes=nodes)
