"""Operators that are functions: those a model brings, and those whose body the ONNX standard states."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from tenon.onnx.graph import (
    DEFAULT_DOMAIN,
    Function,
    FunctionKey,
    Graph,
    GraphNode,
    read_attribute,
    read_function,
)
from tenon.onnx.model_file import read_tensor
from tenon.onnx.node import NOTHING, TOO_DEEP, Content, Node, OnnxError, kind_of
from tenon.onnx.operators import find_operator

Functions = Mapping[FunctionKey, Function]


def schema_of(operator: str, domain: str, opset: int) -> Any | None:
    """The standard's definition of an operator at an opset."""
    try:
        # Files may state any number of 64 bits, and the package takes 32.
        return onnx.defs.get_schema(operator, min(max(opset, 0), 2**31 - 1), domain)
    except onnx.defs.SchemaError:
        return None


def model_function(node: GraphNode, functions: Functions) -> Function | None:
    """The function of the model that a node calls."""
    return functions.get((node.domain, node.operator, node.overload))


def _body_version(versions: Iterable[int], opset: int) -> int | None:
    return max((version for version in versions if version <= opset), default=None)


def is_expandable(node: GraphNode, opset: int) -> bool:
    """Whether the standard gives the operator of `node` a body."""
    schema = schema_of(node.operator, node.domain, opset)
    if schema is None:
        return False
    return any(
        _body_version(versions, opset) is not None
        for versions in (schema.function_opset_versions, schema.context_dependent_function_opset_versions)
    )


def standard_body(node: GraphNode, opset: int, operands: Sequence[Content | None]) -> Function | None:
    """The body that the standard gives the operator of `node` for operands of these types."""
    schema = schema_of(node.operator, node.domain, opset)
    if schema is None:
        return None
    version = _body_version(schema.function_opset_versions, opset)
    dependent = _body_version(schema.context_dependent_function_opset_versions, opset)
    if version is None and dependent is None:
        return None
    proto = onnx.FunctionProto()
    if version is not None and (dependent is None or version >= dependent):
        proto.ParseFromString(schema.get_function_with_opset_version(version))
    else:
        types = [_type(operand).SerializeToString() for operand in operands]
        data = schema.get_context_dependent_function_with_opset_version(
            dependent, _complete(node, schema).SerializeToString(), types
        )
        proto.ParseFromString(data)
    where = f"body of {node.operator}"
    function = read_function(proto, read_tensor, where, is_complete=False)
    defaults = {
        name: read_attribute(attribute.default_value, read_tensor, where, frozenset())
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type
    }
    # A body states the opset that it is written in; operators that the standard leaves alone since then read the same.
    opsets = {node.domain: opset, **function.opsets}
    return Function(
        function.name, function.inputs, function.outputs, {**defaults, **function.defaults}, function.nodes, opsets
    )


def _complete(node: GraphNode, schema: Any) -> Any:
    """The node's protobuf with the defaults of its attributes written out, which bodies are built from."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    given = {attribute.name for attribute in proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            proto.attribute.append(attribute.default_value)
    return proto


def _type(operand: Content | None) -> Any:
    if operand is None or operand is NOTHING:
        return onnx.TypeProto()
    if isinstance(operand, list):
        return onnx.helper.make_sequence_type_proto(_type(operand[0]) if operand else _UNKNOWN_TENSOR)
    shape = [size if size >= 0 else None for size in operand.shape]
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(operand.dtype), shape)


_UNKNOWN_TENSOR = onnx.helper.make_tensor_type_proto(onnx.TensorProto.UNDEFINED, None)

# --- inputs ---------------------------------------------------------------------------------------


def check_inputs(node: Node, parameters: Sequence[inspect.Parameter], operands: Sequence[Content | None]) -> None:
    """Raise `OnnxError` unless `operands` fit the `parameters` of the function that computes `node`.

    Those without a default are inputs that may not be left out. The standard's limits hold, if it has any for the
    operator.
    """
    schema = schema_of(node.operator, node.domain, node.opset)
    rest = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    plain = [p for p in parameters if p is not rest]
    limits = [*([len(plain)] if rest is None else ()), *(() if schema is None else (schema.max_input,))]
    most = min(limits, default=len(operands))
    if len(operands) > most:
        raise OnnxError(f"{node.where}: takes at most {most} inputs, got {len(operands)}")
    needed = sum(p.default is p.empty for p in plain)
    if rest is not None and schema is not None:
        needed = max(needed, 0 if plain else schema.min_input)
    for position in range(max(len(operands), needed)):
        parameter = plain[position] if position < len(plain) else rest
        is_needed = parameter is None or parameter is rest or parameter.default is parameter.empty
        if is_needed and (position >= len(operands) or operands[position] is None):
            raise OnnxError(f"{node.where}: input {position} ({_input_name(schema, parameter, position)!r}) is missing")
        operand = operands[position] if position < len(operands) else None
        if operand is not None and kind_of(operand) not in (kinds := _kinds(node, position)):
            said = f"{node.where}: input {position} ({_input_name(schema, parameter, position)!r})"
            raise OnnxError(f"{said} is of kind {kind_of(operand)!r} where {' or '.join(kinds)} is needed")


_KINDS_OF_TYPES = {
    "tensor(": ("tensor",),
    "seq(": ("sequence",),
    "optional(tensor": ("tensor", "empty optional"),
    "optional(seq": ("sequence", "empty optional"),
}


@cache
def _kinds_of_inputs(operator: str, domain: str, opset: int) -> tuple[tuple[str, ...], ...]:
    """For each input of the standard, what it may be: see `kind_of`."""
    schema = schema_of(operator, domain, opset)
    return tuple(
        tuple(
            dict.fromkeys(
                kind
                for begin, kinds in _KINDS_OF_TYPES.items()
                if any(type_.startswith(begin) for type_ in formal.types)
                for kind in kinds
            )
        )
        for formal in (schema.inputs if schema is not None else ())
    )


def _kinds(node: Node, position: int) -> tuple[str, ...]:
    """What an input may be; operators that the standard does not know take tensors."""
    inputs = _kinds_of_inputs(node.operator, node.domain, node.opset)
    return inputs[min(position, len(inputs) - 1)] if inputs else ("tensor",)


def _input_name(schema: Any | None, parameter: inspect.Parameter | None, position: int) -> str:
    """What the standard calls an input, or else the function that computes the operator."""
    if schema is not None and schema.inputs:
        return schema.inputs[min(position, len(schema.inputs) - 1)].name
    return "" if parameter is None else parameter.name


# --- attributes -----------------------------------------------------------------------------------

_Kind = onnx.defs.OpSchema.AttrType
_ELEMENTS: dict[Any, type | tuple[type, ...]] = {
    _Kind.FLOAT: (int, float),
    _Kind.FLOATS: (int, float),
    _Kind.INT: int,
    _Kind.INTS: int,
    _Kind.STRING: str,
    _Kind.STRINGS: str,
    _Kind.TENSOR: np.ndarray,
}


@cache
def _attribute_kinds(operator: str, domain: str, opset: int) -> Mapping[str, Any]:
    schema = schema_of(operator, domain, opset)
    return {} if schema is None else {name: attribute.type for name, attribute in schema.attributes.items()}


def check_attributes(node: GraphNode, opset: int, attributes: Mapping[str, Any]) -> None:
    """Raise `OnnxError` for an attribute (as `Node.attribute` gives it) of another kind than the standard's."""
    kinds = _attribute_kinds(node.operator, node.domain, opset)
    for name, value in attributes.items():
        kind = kinds.get(name)
        if kind is not None and not _is_of_kind(value, kind):
            raise OnnxError(f"{node.where}: attribute {name!r} is not of kind {kind.name}")


def _is_of_kind(value: Any, kind: Any) -> bool:
    if kind == _Kind.GRAPH:
        return callable(value)
    element = _ELEMENTS.get(kind)
    if element is None:
        return True
    if kind.name.endswith("S"):
        return isinstance(value, list) and all(isinstance(each, element) for each in value)
    return isinstance(value, element)


# --- what is not supported ------------------------------------------------------------------------


def unsupported(
    nodes: Iterable[GraphNode],
    opsets: Mapping[str, int],
    functions: Functions,
    within: tuple[FunctionKey, ...],
    visited: set[FunctionKey],
) -> Iterator[tuple[str, str]]:
    """Operator (with its version) and node name of everything that neither the table nor a function computes.

    `within` are the functions around, and `visited` all that were looked into: each is once, however often it is
    called. Raises `OnnxError` for functions that call themselves.
    """
    for node in nodes:
        opset = opsets.get(node.domain)
        key = (node.domain, node.operator, node.overload)
        function = model_function(node, functions)
        if key in within:
            raise OnnxError(f"function {node.operator!r} calls itself")
        if function is not None:
            if key not in visited:
                visited.add(key)
                inner = {**opsets, **function.opsets}
                yield from unsupported(function.nodes, inner, functions, (*within, key), visited)
        elif opset is None:
            yield f"{operator_text(node)} (its domain is not imported)", node.name
        elif find_operator(node.domain, node.operator, opset) is None and not is_expandable(node, opset):
            yield f"{operator_text(node)} (opset {opset})", node.name
        for graph in node.subgraphs:
            yield from unsupported(graph.nodes, opsets, functions, within, visited)


def operator_text(node: GraphNode) -> str:
    """The operator, with its domain unless that is the default one."""
    return node.operator if node.domain == DEFAULT_DOMAIN else f"{node.domain}.{node.operator}"


def check_supported(graph: Graph, opsets: Mapping[str, int], functions: Functions, where: str) -> None:
    """Raise one `OnnxError` that lists every unsupported operator with the names of its nodes."""
    found: dict[str, dict[str, None]] = {}
    try:
        for operator, name in unsupported(graph.nodes, opsets, functions, (), set()):
            found.setdefault(operator, {})[name] = None
    except RecursionError:
        raise OnnxError(f"{where}: {TOO_DEEP}") from None
    if found:
        listed = "; ".join(f"{operator}: {', '.join(map(repr, names))}" for operator, names in sorted(found.items()))
        raise OnnxError(f"{where}: unsupported operators: {listed}")
