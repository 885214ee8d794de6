"""Models: what an ONNX file holds, as a function of arrays that is compiled for each signature it is called with.

Weights are arguments of the compiled code, not part of it. Inputs whose value decides a shape are part of what is
compiled: with other values it is compiled again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import onnx

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import Value, insertion_point
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.plain_arrays import is_on_gpu, is_stored, on_host
from tenon.dialects.types.types import element_type, is_float, tensor_type
from tenon.onnx.arguments import Arguments, Array, Specification, bound, check, gathered, specified
from tenon.onnx.functions import check_supported
from tenon.onnx.graph import DEFAULT_DOMAIN, Graph, GraphNode
from tenon.onnx.importer import Importer
from tenon.onnx.model_file import ModelFile, read_file
from tenon.onnx.node import NOTHING, NeedsSizes, NeedsValue, OnnxError, Operand
from tenon.passes.simplify.dce import Effects, erase_dead_ops
from tenon.runtime.arguments.arguments import as_array
from tenon.runtime.arguments.interface import main_function
from tenon.runtime.arguments.tree import Structure, flatten, unflatten
from tenon.runtime.cuda.arrays import as_data, brought, place_among
from tenon.runtime.cuda.names import checked_device
from tenon.runtime.executables import Executable, executable
from tenon.runtime.jit import JitFunction
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collection_paused
from tenon.runtime.stages import Traced
from tenon.runtime.store.files import replacing
from tenon.runtime.store.resources import attach_resources, write_module
from tenon.runtime.tracing.trace import trace

# An initializer is a weight if it is floating point, or larger than what shapes, axes and paddings are made of.
_LARGEST_CONSTANT = 256
# A constant inside the graph is part of the program up to this size, and a weight above.
_LARGEST_INNER_CONSTANT = 1024

_Compiled = tuple[Executable, Structure]
"""A program, and how its results are put together."""


def load(source: str | os.PathLike[str] | bytes | onnx.ModelProto, *, device: str | None = None) -> Model:
    """The model in an ONNX file (or in bytes, or a `ModelProto`), to run on `device` (`"cpu"`, `"cuda"`, `"cuda:1"`),
    or else on the GPU that an input or a weight is on, or on the CPU.

    Raises `OnnxError` for a file that is damaged or inconsistent, or asks for what is not supported: all operators that
    are not are listed at once.
    """
    return Model(read_file(source), device=device)


class Model:
    """A model with its weights. May be called from several threads.

    `inputs` and `outputs` describe what `model(...)` takes and gives: arrays, lists of arrays for sequences, and for an
    optional one of these or `None`; `weights` are its arrays by name, which may be exchanged for others. A model is
    compiled for each length of a sequence; where positions in sequences and trip counts of loops in which one grows
    hang on inputs, it is compiled for each of their values. On a GPU it gives CuPy arrays; the first call there brings
    the weights there.
    """

    def __init__(self, file: ModelFile, *, device: str | None = None) -> None:
        self._device = None if device is None else checked_device(device)
        check_supported(file.graph, file.opsets, file.functions, file.where)
        self.name = file.where
        self.metadata = dict(file.metadata)
        self._file = file
        self._graph, initializers = _constants_lifted(file.graph)
        self.weights: dict[str, Array] = {}
        self._constants: dict[str, Operand] = {}
        for name, array in initializers.items():
            is_weight = is_float(element_type(array.dtype)) or array.size > _LARGEST_CONSTANT
            (self.weights if is_weight else self._constants)[name] = array if array.flags.aligned else array.copy()
        self.inputs = tuple([info for info in file.graph.inputs if info.name not in file.graph.initializers])
        self.outputs = file.graph.outputs
        self._replaceable = {info.name for info in file.graph.inputs} & initializers.keys()
        self._needed: dict[Any, frozenset[str]] = {}
        self._prepare_to_run()

    @property
    def device(self) -> str:
        """Where calls without an input on a GPU run."""
        return self._place(self.weights.values())

    def to(self, device: str) -> Self:
        """Have the weights on a device, and run there: the model itself, which is given back."""
        self._device = checked_device(device)
        self.weights.update({name: brought(array, device) for name, array in self.weights.items()})
        return self

    def _place(self, tensors: Iterable[Any]) -> str:
        """Where a call with such inputs and weights runs."""
        return self._device or place_among(tensors) or "cpu"

    def _brought(self, name: str, value: Any, place: str) -> Any:
        """What is given to a program on a GPU: a weight of the model's own is there from now on."""
        if self.weights.get(name) is value:
            value = self.weights[name] = brought(value, place)
        return value

    def _prepare_to_run(self) -> None:
        self._executables: BoundedCache[_Compiled] = BoundedCache(64)
        self._lock = new_lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_executables", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare_to_run()

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"Model({self.name}: ({takes}) -> ({gives}), {len(self.weights)} weights)"

    def __call__(self, /, *arrays: Any, **named: Any) -> tuple[Any, ...]:
        """The outputs, in the order of `outputs`; inputs come by position or by name.

        Compiles first when these shapes and dtypes (and values, where they decide a shape) are new. Raises `TypeError`
        and `ValueError` naming an input that is missing, unknown, or of another dtype or shape than declared.
        """
        return self.apply(self.weights, *arrays, **named)

    def apply(self, weights: Mapping[str, Any], /, *arrays: Any, **named: Any) -> tuple[Any, ...]:
        """The outputs for `weights` of one's own: a pure function, for use under `tenon.jit` and `tenon.grad`.

        `weights` are like those of the model, some of which may be missing. Weights that decide a shape are always the
        model's own under a trace.
        """
        arguments = self._gathered(self._bind(arrays, named), weights)
        if insertion_point() is not None:
            return self._joined(arguments)
        take = as_array if self._device == "cpu" else as_data
        arguments = arguments.with_tensors(lambda name, value: take(value, f"{self.name}: {name}"))
        place = self._place(arguments.tensors.values())
        if place != "cpu":
            arguments = arguments.with_tensors(lambda name, value: self._brought(name, value, place))
        check(self.inputs, arguments, self.name)
        try:
            return self._run(arguments, place)
        except MemoryError as error:
            raise OnnxError(f"{self.name}: does not fit into memory: {str(error) or 'no more is free'}") from None

    def freeze(self) -> JitFunction:
        """The model as a compiled function of its inputs alone, whose weights stay as they are now: what depends on
        them alone is computed once (see `JitFunction.freeze`). Inputs whose value decides a shape cannot be given.
        """

        def frozen(weights: Mapping[str, Any], /, *arrays: Any, **named: Any) -> tuple[Any, ...]:
            return self.apply(weights, *arrays, **named)

        frozen.__name__ = frozen.__qualname__ = self.name.removesuffix(".onnx")
        return JitFunction(frozen, (), (), self._device).freeze(dict(self.weights))

    def trace(self, /, *specifications: Specification, **named: Specification) -> Traced:
        """The tensor IR for inputs like these: arrays, `ShapeDtype` or shapes, where -1 is an unknown size.

        Inputs that are left out have the declared shape; a sequence is a list of such, and an optional without a value
        is `None`. `@main` takes the inputs, then the weights; arrays whose values are needed are part of the IR. Raises
        `OnnxError` naming the node that needs a value that is not given.
        """
        given = self._by_name(specifications, named)
        with collection_paused():
            return self._traced(self._gathered(self._specified(given)), self.device)[0]

    def compile(self, /, *specifications: Specification, **named: Specification) -> None:
        """Compile for inputs like these (see `trace`) ahead of the first call, which then only runs."""
        given = self._by_name(specifications, named)
        arguments = self._gathered(self._specified(given))
        if unknown := [name for name, value in arguments.tensors.items() if any(size < 0 for size in value.shape)]:
            raise ValueError(f"{self.name}: the shape of input {unknown[0]!r} has to be known to compile")
        place = self.device
        self._compile((place, *_signature(arguments)), arguments, place)

    def to_mlir(self, path: str | os.PathLike[str], /, *specifications: Specification, **named: Specification) -> None:
        """Write the tensor IR for inputs like these (see `trace`) to a file that `tenon run` takes.

        `@main` takes what the model takes, then its weights, whose data is kept out of the text as dense resources.
        """
        given = self._gathered(self._specified(self._by_name(specifications, named)))
        with collection_paused():
            traced, known = self._traced(given, self.device)
        names = [name for name in given.tensors if name not in known]
        weights = {position: name for position, name in enumerate(names) if name in self.weights}
        resources = attach_resources(traced.module, weights)
        arrays = {resource: on_host(given.tensors[names[position]]) for resource, position in resources.items()}
        with replacing(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
            write_module(file, traced.module, arrays)

    # --- arguments --------------------------------------------------------------------------------

    def _by_name(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [info.name for info in self.inputs]
        if len(positional) > len(names):
            raise TypeError(f"{self.name}: takes {len(names)} inputs ({', '.join(names)}), got {len(positional)}")
        given = dict(zip(names, positional, strict=False))
        for name, value in named.items():
            if name in given:
                raise TypeError(f"{self.name}: input {name!r} is given twice")
            if name not in names and name not in self._replaceable:
                raise TypeError(f"{self.name}: has no input named {name!r} (inputs: {', '.join(names)})")
            given[name] = value
        return given

    def _specified(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs as `trace` takes them."""
        inputs = {info.name: specified(info, given, self.name) for info in self.inputs}
        return inputs | {name: as_array(value) for name, value in given.items() if name not in inputs}

    def _bind(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        given = self._by_name(positional, named)
        for info in self.inputs:
            if info.name not in given:
                raise TypeError(f"{self.name}: input {info} is missing")
        inputs = {info.name: bound(info, given.pop(info.name), self.name) for info in self.inputs}
        return {**inputs, **given}

    def _gathered(self, inputs: Mapping[str, Any], weights: Mapping[str, Any] = MappingProxyType({})) -> Arguments:
        """`inputs` and `weights`, and those of the model that are not among them."""
        if unknown := sorted(weights.keys() - self.weights.keys()):
            raise TypeError(f"{self.name}: has no weight named {', '.join(map(repr, unknown))}")
        others = {name: weights.get(name, own) for name, own in self.weights.items() if name not in inputs}
        return gathered({**inputs, **others}, self.inputs, self.name)

    # --- running, tracing and compiling -----------------------------------------------------------

    def _run(self, arguments: Arguments, place: str) -> tuple[Any, ...]:
        """The outputs for arrays; compiles first where that has to be."""
        signature = (place, *_signature(arguments))
        needed = self._needed.get(signature)
        compiled = None if needed is None else self._executables.get(_key(signature, needed, arguments))
        if compiled is None:
            compiled, needed = self._compile(signature, arguments, place)
        assert needed is not None
        program, result = compiled
        return unflatten(result, program.run([a for name, a in arguments.tensors.items() if name not in needed]))

    def _compute(self, arguments: Arguments) -> tuple[Any, ...]:
        """The outputs in the trace under way."""
        sources = {value.ssa: name for name, value in arguments.tensors.items() if isinstance(value, Value)}
        importer = Importer(self._file.opsets, self._file.functions, sources)
        try:
            outputs = importer.graph(self._graph, {**self._constants, **arguments.contents})
            return tuple([None if output is NOTHING else output for output in outputs])
        except OnnxError as error:
            message = str(error)
            if message.startswith(self.name):
                raise
            if isinstance(error, NeedsSizes):
                message += self._how_to_state_sizes(arguments)
            raise OnnxError(f"{self.name}: {message}") from error.__cause__

    def _how_to_state_sizes(self, arguments: Arguments) -> str:
        """What of inputs with open sizes has to be said, as the command line takes it."""
        shapes = {i.name: arguments.tensors[i.name].shape for i in self.inputs if i.name in arguments.tensors}
        is_open = {name: shape for name, shape in shapes.items() if any(size < 0 for size in shape)}
        shown = [f"--input {name}=" + "x".join(map(_example_size, shape)) for name, shape in is_open.items()]
        return f"; state those of the inputs, as in {' '.join(shown)}" if shown else ""

    def _joined(self, arguments: Arguments) -> tuple[Any, ...]:
        """The outputs in the trace of another function."""

        def joined(name: str, value: Any) -> Operand:
            operand = value if isinstance(value, Value) else as_data(value, f"{self.name}: {name}")
            if is_on_gpu(operand):
                return to_value(operand)
            is_small = isinstance(operand, Value) or name not in self.weights or operand.size <= _LARGEST_INNER_CONSTANT
            return operand if is_small else to_value(operand)

        arguments = arguments.with_tensors(joined)
        check(self.inputs, arguments, self.name)

        def attempt(known: frozenset[str]) -> tuple[Any, ...]:
            own = {name: on_host(self.weights[name]) for name in known}
            return self._compute(arguments.with_tensors(lambda name, value: own.get(name, value)))

        outputs, _ = self._with_known_values(attempt, self.weights.keys())
        leaves, structure = flatten(outputs)
        return unflatten(structure, [v if isinstance(v, Value) else to_value(v) for v in leaves])

    def _with_known_values(
        self, attempt: Callable[[frozenset[str]], Any], available: Set[str]
    ) -> tuple[Any, frozenset[str]]:
        """What `attempt` gives when it knows the values that it turns out to need, and which these are."""
        known: frozenset[str] = frozenset()
        while True:
            try:
                return attempt(known), known
            except NeedsValue as needs:
                more = needs.names - known
                if missing := sorted(name for name in more if name not in available):
                    shown = ", ".join(map(repr, missing))
                    raise OnnxError(
                        f"{self.name}: {needs}; no value of {shown} is given, as where it is traced: call the model on "
                        "arrays, outside of jit and grad"
                    ) from None
                known |= more

    def _traced(self, arguments: Arguments, place: str) -> tuple[Traced, frozenset[str]]:
        """The IR for arguments of these shapes and dtypes, and the arguments whose values it needs."""
        check(self.inputs, arguments, self.name)
        values = arguments.tensors
        names = list(values)
        _, structure = flatten((([0] * len(names),), {}))

        def attempt(known: frozenset[str]) -> Any:
            types = [
                None if n in known else tensor_type(tuple(v.shape), element_type(v.dtype)) for n, v in values.items()
            ]

            def compute(args: Any, _: Any) -> tuple[Any, ...]:
                return self._compute(Arguments(dict(zip(names, args[0], strict=True)), arguments.trees))

            leaves = [on_host(value) if name in known else value for name, value in values.items()]
            return trace(compute, structure, leaves, types, names)

        available = {name for name, value in values.items() if is_stored(value)}
        traced, known = self._with_known_values(attempt, available)
        # What was computed while importing has left ops that nothing uses.
        erase_dead_ops(main_function(traced.module).body.block, Effects(traced.module))
        return Traced(traced.module, traced.result, place, self.name.removesuffix(".onnx")), known

    def _compile(self, signature: Any, arguments: Arguments, place: str) -> tuple[_Compiled, frozenset[str]]:
        with self._lock, collection_paused():
            traced, needed = self._traced(arguments, place)
            made = executable(traced.module, place, traced.name), traced.result
            self._needed[signature] = needed
            self._executables[_key(signature, needed, arguments)] = made
            return made, needed


def _example_size(size: int) -> str:
    return str(size) if size >= 0 else "4"


def _signature(arguments: Arguments) -> Any:
    tensors = tuple([(name, a.dtype, a.shape) for name, a in arguments.tensors.items()])
    return knobs.code_settings, tensors, arguments.trees


def _key(signature: Any, needed: frozenset[str], arguments: Arguments) -> Any:
    """What an executable is for: the signature, and the values that are part of the program."""
    return signature, tuple([(name, on_host(arguments.tensors[name]).tobytes()) for name in sorted(needed)])


def _constants_lifted(graph: Graph) -> tuple[Graph, dict[str, Array]]:
    """`graph` without the nodes that hold large arrays, and its initializers with those."""
    initializers = dict(graph.initializers)
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        value = node.attributes.get("value")
        is_constant = node.operator == "Constant" and node.domain == DEFAULT_DOMAIN and len(node.outputs) == 1
        if is_constant and isinstance(value, np.ndarray) and value.size > _LARGEST_INNER_CONSTANT:
            initializers[node.outputs[0]] = value
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes)), initializers
