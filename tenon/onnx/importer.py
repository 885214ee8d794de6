"""From a graph to tensor IR: each node is computed by its operator's function where a trace is under way.

Names become traced values, constants stay arrays. Where a node has to know a value, it is computed from what the
trace has recorded so far, by the interpreter, if it follows from constants and shapes alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import Value, inserting
from tenon.dialects.types.shapes import InferenceError, Shape
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of
from tenon.onnx.functions import (
    Functions,
    check_attributes,
    check_inputs,
    check_supported,
    model_function,
    standard_body,
)
from tenon.onnx.graph import AttributeReference, Function, Graph, GraphNode
from tenon.onnx.node import (
    LARGEST_ARRAY,
    NOTHING,
    TOO_DEEP,
    Content,
    NeedsStep,
    NeedsValue,
    Node,
    OnnxError,
    Operand,
    check_size,
)
from tenon.onnx.operators import OperatorFunction, find_operator
from tenon.runtime.tracing.trace import TracingPoint, captured_array

Scope = dict[str, Content]

# Functions that call functions, and loops that are written out, may multiply without end.
_LARGEST_EXPANSION = 100_000


class Importer:
    """Computes a graph in the trace under way.

    `sources` says which traced values are inputs of the model, for errors and for tracing again with their values.
    """

    def __init__(self, opsets: Mapping[str, int], functions: Functions, sources: Mapping[SSAValue, str]) -> None:
        self._opsets = opsets
        self._functions = functions
        self._sources = sources
        self._found: dict[SSAValue, np.ndarray[Any, Any]] = {}
        self._expanded = 0

    def graph(self, graph: Graph, given: Mapping[str, Content]) -> tuple[Content, ...]:
        """The outputs of `graph`; `given` has its inputs and initializers."""
        scope = dict(given)
        try:
            self._nodes(graph.nodes, scope, self._opsets, {})
        except RecursionError:
            raise OnnxError(TOO_DEEP) from None
        return tuple([scope[info.name] for info in graph.outputs])

    def _nodes(
        self, nodes: Sequence[GraphNode], scope: Scope, opsets: Mapping[str, int], attributes: Mapping[str, Any]
    ) -> None:
        for node in nodes:
            operands = [scope[name] if name else None for name in node.inputs]
            while operands and operands[-1] is None:
                operands.pop()
            results = self._node(node, operands, scope, opsets, attributes)
            for name, result in zip(node.outputs, results, strict=False):
                if name and result is not None:
                    scope[name] = result

    def _inner_nodes(
        self, nodes: Sequence[GraphNode], scope: Scope, opsets: Mapping[str, int], attributes: Mapping[str, Any]
    ) -> None:
        """The nodes of a function, or of a graph in an attribute, each time that it is used."""
        self._expanded += 1 + len(nodes)
        if self._expanded > _LARGEST_EXPANSION:
            raise OnnxError(f"functions and loops expand to more than {_LARGEST_EXPANSION} nodes")
        self._nodes(nodes, scope, opsets, attributes)

    def _node(
        self,
        node: GraphNode,
        operands: list[Content | None],
        scope: Scope,
        opsets: Mapping[str, int],
        outer: Mapping[str, Any],
    ) -> Sequence[Content | None]:
        attributes = self._attributes(node, scope, opsets, outer)
        opset = opsets.get(node.domain, 0)
        function = model_function(node, self._functions)
        if function is None:
            check_attributes(node, opset, attributes)
            computed = find_operator(node.domain, node.operator, opset)
            if computed is not None:
                return self._compute(computed, self._described(node, opset, attributes), operands)
            try:
                function = standard_body(node, opset, operands)
            except OnnxError:
                raise
            except (RuntimeError, ValueError) as error:
                raise OnnxError(f"{node.where}: has no body for its operands: {error}") from None
            if function is None:
                raise OnnxError(f"{node.where}: unsupported operator (opset {opset})")
            body = Graph(function.name, (), (), {}, function.nodes)
            check_supported(body, {**opsets, **function.opsets}, self._functions, node.where)
        return self._call(function, node, operands, opsets, attributes)

    def _call(
        self,
        function: Function,
        node: GraphNode,
        operands: Sequence[Content | None],
        opsets: Mapping[str, int],
        attributes: Mapping[str, Any],
    ) -> list[Content | None]:
        if len(operands) > len(function.inputs):
            raise OnnxError(f"{node.where}: takes at most {len(function.inputs)} inputs, got {len(operands)}")
        # An input that is left out reads like an empty name in the nodes of the body.
        absent = set(function.inputs[len(operands) :])
        absent.update(n for n, operand in zip(function.inputs, operands, strict=False) if operand is None)
        scope: Scope = {
            name: operand for name, operand in zip(function.inputs, operands, strict=False) if operand is not None
        }
        nodes = [_without(inner, absent) for inner in function.nodes] if absent else function.nodes
        self._inner_nodes(nodes, scope, {**opsets, **function.opsets}, {**function.defaults, **attributes})
        results = [scope.get(name) for name in function.outputs]
        for position, name in enumerate(node.outputs):
            if name and (position >= len(results) or results[position] is None):
                raise OnnxError(f"{node.where}: its body does not compute output {position} ({name!r})")
        return results

    def _attributes(
        self, node: GraphNode, scope: Scope, opsets: Mapping[str, int], outer: Mapping[str, Any]
    ) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for name, value in node.attributes.items():
            if isinstance(value, AttributeReference):
                # A reference to what the caller leaves out is as if it were left out here.
                if value.name not in outer:
                    continue
                value = outer[value.name]
            if isinstance(value, Graph):
                value = self._subgraph(value, scope, opsets, outer)
            attributes[name] = value
        return attributes

    def _subgraph(
        self, graph: Graph, scope: Scope, opsets: Mapping[str, int], outer: Mapping[str, Any]
    ) -> Callable[..., tuple[Content, ...]]:
        def compute(*operands: Content) -> tuple[Content, ...]:
            names = [info.name for info in graph.inputs]
            if len(operands) != len(names):
                raise OnnxError(f"graph {graph.name!r}: takes {len(names)} inputs, got {len(operands)}")
            inner: Scope = {**scope, **graph.initializers, **dict(zip(names, operands, strict=True))}
            self._inner_nodes(graph.nodes, inner, opsets, outer)
            return tuple([inner[info.name] for info in graph.outputs])

        return compute

    def _described(self, node: GraphNode, opset: int, attributes: Mapping[str, Any]) -> Node:
        return Node(
            node.name, node.operator, node.domain, opset, node.inputs, node.outputs, attributes, self._find_value
        )

    def _compute(
        self, function: OperatorFunction, node: Node, operands: Sequence[Content | None]
    ) -> tuple[Content, ...]:
        check_inputs(node, _parameters(function), operands)
        try:
            computed = function(node, *operands)
        except (NeedsValue, OnnxError):
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError, MemoryError, InferenceError) as error:
            raise OnnxError(f"{node.where} on ({', '.join(map(_shown, operands))}): {error}") from error
        results: tuple[Any, ...] = computed if isinstance(computed, tuple) else (computed,)
        for position, name in enumerate(node.outputs):
            if name and (position >= len(results) or results[position] is None):
                raise OnnxError(f"{node.where}: output {position} ({name!r}) is not supported")
            if name:
                for tensor in _tensors(results[position]):
                    check_size(_shape(tensor) or (), tensor.dtype, f"{node.where}: output {name!r}")
        return results

    # --- known values -----------------------------------------------------------------------------

    def _find_value(self, operand: Operand, where: str) -> np.ndarray[Any, Any]:
        assert isinstance(operand, Value)
        known = self._found.get(operand.ssa)
        if known is None:
            steps, inputs, is_closed = self._history(operand.ssa)
            if not is_closed:
                raise NeedsStep(f"{where}: hangs on a value of the loop or branch around it, which is not known")
            if inputs:
                shown = ", ".join(map(repr, sorted(inputs)))
                raise NeedsValue(inputs, f"{where}: has to be known, and hangs on the value of {shown}")
            for result in (result for step in steps for result in step.results):
                check_size(shape_of(result.type) or (), numpy_dtype(element_of(result.type)), where, LARGEST_ARRAY)
            known = self._found[operand.ssa] = self._interpreted(operand.ssa, steps)
        return known

    def _history(self, value: SSAValue) -> tuple[list[Operation], frozenset[str], bool]:
        """The ops that lead to `value`, in order; the model's inputs among what they take; whether that is all."""
        steps: list[Operation] = []
        inputs: set[str] = set()
        seen: set[Any] = set()
        is_closed = True
        pending: list[tuple[Any, bool]] = [(value, False)]
        while pending:
            item, is_done = pending.pop()
            if is_done:
                steps.append(item)
                continue
            if item in seen or item in self._found:
                continue
            seen.add(item)
            if item in self._sources:
                inputs.add(self._sources[item])
            elif (array := captured_array(item)) is not None:
                self._found[item] = array
            elif not isinstance(item, OpResult):
                is_closed = False
            elif item.op not in seen:
                seen.add(item.op)
                pending.append((item.op, True))
                pending.extend((used, False) for used in _used(item.op))
        return steps, frozenset(inputs), is_closed

    def _interpreted(self, value: SSAValue, steps: Sequence[Operation]) -> np.ndarray[Any, Any]:
        from tenon.dialects.interpreter.interpreter import Interpreter
        from tenon.runtime.lower import structured

        types: list[Attribute] = []
        main = func.FuncOp("main", (types, [value.type]))
        block = main.body.block
        mapping: dict[SSAValue, SSAValue] = {}
        with inserting(TracingPoint(block)):
            needed = {used for step in steps for used in _used(step)} | {value}
            for known in needed & self._found.keys():
                mapping[known] = to_value(self._found[known]).ssa
            for step in steps:
                block.add_op(step.clone(mapping))
            block.add_op(func.ReturnOp(mapping[value]))
        (result,) = Interpreter().run(structured(ModuleOp([main])), "main", [])
        return np.asarray(result)


def _used(op: Operation) -> set[SSAValue]:
    """What an op takes from outside of it, in its regions too."""
    used = set(op.operands)
    if op.regions:
        inner = list(op.walk())
        used.update(operand for each in inner for operand in each.operands)
        used.difference_update(result for each in inner for result in each.results)
        used.difference_update(a for each in inner for region in each.regions for b in region.blocks for a in b.args)
    return used


def _without(node: GraphNode, absent: set[str]) -> GraphNode:
    inputs = tuple(["" if name in absent else name for name in node.inputs])
    return replace(node, inputs=inputs)


@cache
def _parameters(function: OperatorFunction) -> tuple[inspect.Parameter, ...]:
    """What an operator's function takes after the node."""
    return tuple(inspect.signature(function).parameters.values())[1:]


def _tensors(content: Content) -> Sequence[Operand]:
    return content if isinstance(content, list) else () if content is NOTHING else (content,)


def _shape(tensor: Operand) -> Shape:
    """The shape of an operand, `None` where not even its rank is known."""
    return shape_of(tensor.type) if isinstance(tensor, Value) else tensor.shape


def _shown(operand: Content | None) -> str:
    if operand is None or operand is NOTHING:
        return "none"
    tensors = ", ".join([f"{tensor.dtype}{_listed(_shape(tensor))}" for tensor in _tensors(operand)])
    return f"[{tensors}]" if isinstance(operand, list) else tensors


def _listed(shape: Shape) -> str:
    return "[*]" if shape is None else str(list(shape))
