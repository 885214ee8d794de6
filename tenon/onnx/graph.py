"""Graphs as the importer takes them: plain data, checked once when a file is read.

A graph lists its nodes in an order in which every value is computed before it is used; names are defined once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tenon.onnx.node import OnnxError, stored_dtype

DEFAULT_DOMAIN = ""
TensorReader = Callable[[Any, str], "np.ndarray[Any, Any]"]
"""Gives the array of a `TensorProto`; the text begins its errors."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: `shape` has a number, a name or `None` (unknown) per axis, or is `None` as a whole.

    A sequence has tensors of this dtype and shape; an optional is such a value, a tensor or a sequence, or nothing.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None
    is_sequence: bool = False
    is_optional: bool = False

    def __str__(self) -> str:
        sizes = "*" if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        kind = "optional " * self.is_optional + "sequence of " * self.is_sequence
        return f"{self.name}: {kind}{self.dtype or '?'}[{sizes}]"


@dataclass(frozen=True)
class AttributeReference:
    """Inside a function: the attribute of this name of the node that calls it."""

    name: str


@dataclass(frozen=True)
class GraphNode:
    """A node with its attributes decoded; `proto` is what it was read from."""

    name: str
    operator: str
    domain: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any

    @property
    def where(self) -> str:
        return f"{self.operator} node {self.name!r}"

    @property
    def subgraphs(self) -> list[Graph]:
        """The graphs among the attributes."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]


@dataclass(frozen=True)
class Graph:
    """A graph, or one in an attribute of a node: that one sees the names around it."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    initializers: Mapping[str, np.ndarray[Any, Any]]
    nodes: tuple[GraphNode, ...]


@dataclass(frozen=True)
class Function:
    """A function of the model, or the body that the standard gives an operator."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, Any]
    nodes: tuple[GraphNode, ...]
    opsets: Mapping[str, int]


FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""


def domain_name(domain: str) -> str:
    """The one name of a domain: the default one has two."""
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


def opset_versions(imports: Iterable[Any], where: str) -> dict[str, int]:
    """The version of each domain that a model or function asks for."""
    versions: dict[str, int] = {}
    for entry in imports:
        domain = domain_name(text(entry.domain, where))
        if versions.setdefault(domain, entry.version) != entry.version:
            raise OnnxError(f"{where}: domain {domain or 'ai.onnx'!r} is imported in two versions")
    return versions


# --- from protobuf --------------------------------------------------------------------------------


def text(value: Any, where: str) -> str:
    """A string of a protobuf message, which is handed out as bytes where it is damaged."""
    if isinstance(value, str):
        return value
    raise OnnxError(f"{where}: a name is not UTF-8 text: {bytes(value)[:40]!r}")


def _texts(values: Iterable[Any], where: str) -> tuple[str, ...]:
    return tuple([text(value, where) for value in values])


def read_graph(proto: Any, read_tensor: TensorReader, where: str, outer: Set[str] = frozenset()) -> Graph:
    """The graph that `proto` (a `GraphProto`) describes; `outer` names what is visible around it.

    Raises `OnnxError` for names that are defined twice, used before they are defined (as in a cycle) or nowhere.
    """
    inputs = tuple([_tensor_info(info, f"{where}: input {info.name!r}") for info in proto.input])
    outputs = tuple([_tensor_info(info, f"{where}: output {info.name!r}") for info in proto.output])
    if proto.sparse_initializer:
        raise OnnxError(f"{where}: sparse initializers are not supported")
    initializers: dict[str, np.ndarray[Any, Any]] = {}
    for tensor in proto.initializer:
        name = text(tensor.name, where)
        if name in initializers:
            raise OnnxError(f"{where}: initializer {name!r} is defined twice")
        initializers[name] = read_tensor(tensor, f"{where}: initializer {name!r}")
    names = [info.name for info in inputs]
    if "" in names or "" in initializers:
        raise OnnxError(f"{where}: an input or initializer has no name")
    if twice := _twice(names):
        raise OnnxError(f"{where}: input {twice!r} is defined twice")
    visible = set(outer)
    visible.update(names, initializers)
    nodes = read_nodes(proto.node, read_tensor, where, visible)
    for info in outputs:
        if info.name not in visible:
            raise OnnxError(f"{where}: output {info.name!r} is not computed by any node")
    return Graph(text(proto.name, where), inputs, outputs, initializers, nodes)


def read_nodes(
    protos: Sequence[Any], read_tensor: TensorReader, where: str, visible: set[str]
) -> tuple[GraphNode, ...]:
    """The nodes, checked to come in order; `visible` are the names defined before, and gains theirs."""
    defined_later = {name for proto in protos for name in proto.output}
    nodes: list[GraphNode] = []
    for position, proto in enumerate(protos):
        outputs = _texts(proto.output, where)
        name = text(proto.name, where) or next(filter(None, outputs), f"#{position}")
        here = f"{where}: {text(proto.op_type, where)} node {name!r}"
        for used in _texts(proto.input, here):
            if used and used not in visible:
                why = (
                    "before it is computed (a cycle or a wrong order)"
                    if used in defined_later
                    else "that nothing defines"
                )
                raise OnnxError(f"{here}: uses {used!r} {why}")
        nodes.append(_node(proto, name, read_tensor, here, visible))
        for output in filter(None, outputs):
            if output in visible:
                raise OnnxError(f"{here}: output {output!r} is defined twice")
            visible.add(output)
    return tuple(nodes)


def _twice(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    # `add` gives nothing, so that a name that is new is not chosen.
    return next((name for name in names if name in seen or seen.add(name)), None)


def _node(proto: Any, name: str, read_tensor: TensorReader, where: str, visible: Set[str]) -> GraphNode:
    if not proto.op_type:
        raise OnnxError(f"{where}: has no operator")
    attributes: dict[str, Any] = {}
    for attribute in proto.attribute:
        key = text(attribute.name, where)
        if key in attributes:
            raise OnnxError(f"{where}: attribute {key!r} is given twice")
        attributes[key] = read_attribute(attribute, read_tensor, where, visible)
    return GraphNode(
        name,
        proto.op_type,
        domain_name(text(proto.domain, where)),
        text(getattr(proto, "overload", ""), where),
        tuple(proto.input),
        tuple(proto.output),
        attributes,
        proto,
    )


def read_attribute(proto: Any, read_tensor: TensorReader, where: str, visible: Set[str]) -> Any:
    """The value of an attribute: int, float, str, list of those, array or `Graph`, or a reference to the caller's."""
    if proto.ref_attr_name:
        return AttributeReference(text(proto.ref_attr_name, where))
    here = f"{where}: attribute {proto.name!r}"
    kinds = onnx.AttributeProto
    match proto.type:
        case kinds.FLOAT:
            return float(proto.f)
        case kinds.INT:
            return int(proto.i)
        case kinds.STRING:
            return _decoded(proto.s, here)
        case kinds.FLOATS:
            return [float(value) for value in proto.floats]
        case kinds.INTS:
            return [int(value) for value in proto.ints]
        case kinds.STRINGS:
            return [_decoded(value, here) for value in proto.strings]
        case kinds.TENSOR:
            return read_tensor(proto.t, here)
        case kinds.GRAPH:
            return read_graph(proto.g, read_tensor, f"{here}: graph", visible)
        case kinds.TYPE_PROTO:
            return proto.tp
        case _:
            known = proto.type in kinds.AttributeType.values()
            raise OnnxError(
                f"{here}: kind {kinds.AttributeType.Name(proto.type) if known else proto.type} is not supported"
            )


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise OnnxError(f"{where}: is not UTF-8 text") from None


def _tensor_info(proto: Any, where: str) -> TensorInfo:
    if not text(proto.name, where):
        raise OnnxError(f"{where}: has no name")
    inner, is_in = proto.type, dict.fromkeys(("optional_type", "sequence_type"), False)
    # An optional may hold a sequence, but not the other way round, and neither holds one of its own kind.
    for wrapper in is_in:
        if inner.WhichOneof("value") == wrapper:
            is_in[wrapper], inner = True, getattr(inner, wrapper).elem_type
    kind = inner.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise OnnxError(f"{where}: is a {_kind(proto.type)}, which is not supported")
    dtype, shape = (None, None) if kind is None else _tensor_type(inner.tensor_type, where)
    return TensorInfo(proto.name, dtype, shape, is_in["sequence_type"], is_in["optional_type"])


def _kind(proto: Any) -> str:
    """What errors call a type, such as `sequence of map`."""
    kind = (proto.WhichOneof("value") or "tensor_type").removesuffix("_type")
    return f"{kind} of {_kind(getattr(proto, kind + '_type').elem_type)}" if kind in ("optional", "sequence") else kind


def _tensor_type(tensor: Any, where: str) -> tuple[np.dtype[Any] | None, tuple[int | str | None, ...] | None]:
    """The dtype and shape that a `TypeProto.Tensor` states."""
    dtype = None if tensor.elem_type == 0 else stored_dtype(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return dtype, None
    shape: list[int | str | None] = []
    for dim in tensor.shape.dim:
        match dim.WhichOneof("value"):
            case "dim_value":
                if dim.dim_value < 0:
                    raise OnnxError(f"{where}: has a size of {dim.dim_value}")
                shape.append(int(dim.dim_value))
            case "dim_param":
                shape.append(text(dim.dim_param, where) or None)
            case _:
                shape.append(None)
    return dtype, tuple(shape)


def read_function(proto: Any, read_tensor: TensorReader, where: str, *, is_complete: bool = True) -> Function:
    """The function that `proto` (a `FunctionProto`) describes.

    Unless it `is_complete`, outputs may be left out, as the standard's bodies leave out optional ones.
    """
    here = f"{where}: function {text(proto.name, where)!r}"
    inputs, outputs = _texts(proto.input, here), _texts(proto.output, here)
    if twice := _twice(inputs):
        raise OnnxError(f"{here}: input {twice!r} is defined twice")
    visible = set(inputs)
    nodes = read_nodes(proto.node, read_tensor, here, visible)
    for name in outputs:
        if is_complete and name not in visible:
            raise OnnxError(f"{here}: output {name!r} is not computed by any node")
    defaults = {text(a.name, here): read_attribute(a, read_tensor, here, frozenset()) for a in proto.attribute_proto}
    return Function(proto.name, inputs, outputs, defaults, nodes, opset_versions(proto.opset_import, here))


def function_key(proto: Any, where: str) -> FunctionKey:
    """What nodes call the function `proto` by."""
    return domain_name(text(proto.domain, where)), proto.name, text(getattr(proto, "overload", ""), where)


__all__ = [
    "AttributeReference",
    "Function",
    "FunctionKey",
    "Graph",
    "GraphNode",
    "TensorInfo",
    "domain_name",
    "function_key",
    "opset_versions",
    "read_attribute",
    "read_function",
    "read_graph",
    "read_nodes",
    "text",
]
