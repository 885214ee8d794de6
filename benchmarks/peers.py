"""Who takes part in a comparison, and how each is called at its best setting.

Each function makes a `Preparation`: what takes a workload's NumPy arrays and gives a `Runner`, whose `run` is timed.
Inputs are converted, moved to where the peer wants them and compiled for before; results are read only to be checked.
A peer whose package is not installed raises `ImportError` when it prepares, which the table reports as absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

PEERS = ("numpy", "torch", "torch.compile", "onednn", "onnxruntime", "jax")
"""The names of the peers, in the order of the table's columns."""


def thread_count() -> int:
    """How many threads the peers of this process may use; what starts it says so."""
    return int(os.environ.get("BENCHMARK_THREADS", "1"))


@dataclass(frozen=True)
class Runner:
    """`run()` is timed. `read(result)` gives what it returned as NumPy arrays."""

    run: Callable[[], Any]
    read: Callable[[Any], list[Array]]


Preparation = Callable[[Sequence[Array]], Runner]


def _sequence(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _in_numpy(result: Any) -> list[Array]:
    return [np.asarray(part) for part in _sequence(result)]


def tenon(function: Function) -> Preparation:
    """A compiled function, called as users call it: new results each time."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import tenon

        compiled = tenon.jit(function)
        return Runner(partial(compiled, *arrays), _in_numpy)

    return prepare


def tenon_into(function: Function) -> Preparation:
    """A compiled function that writes into memory of the caller, which was touched before."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import tenon

        compiled = tenon.jit(function)
        target = compiled(*arrays)
        return Runner(partial(compiled, *arrays, out=target), _in_numpy)

    return prepare


def tenon_into_last(function: Function) -> Preparation:
    """A compiled function that writes into the last array."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import tenon

        compiled = tenon.jit(function)
        *given, target = arrays
        return Runner(partial(compiled, *given, out=target), _in_numpy)

    return prepare


def numpy(function: Function) -> Preparation:
    """NumPy, with OpenBLAS at its best setting for the processor."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        return Runner(partial(function, *arrays), _in_numpy)

    return prepare


def jax(function: Function) -> Preparation:
    """`jax.jit`, its inputs on the device."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import jax

        jax.config.update("jax_enable_x64", any(a.dtype == np.float64 for a in arrays))
        given = [jax.device_put(a) for a in arrays]
        compiled = jax.jit(function)
        return Runner(lambda: jax.block_until_ready(compiled(*given)), _in_numpy)

    return prepare


def torch_tensor(array: Array) -> Any:
    """The array as a tensor of its own, in the same order of dimensions."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy(order="K"))


def _from_torch(result: Any) -> list[Array]:
    import torch

    parts = [part.detach().contiguous() for part in _sequence(result)]
    return [(part.float() if part.dtype == torch.bfloat16 else part).numpy() for part in parts]


def _torch_runner(function: Function, tensors: Sequence[Any], differentiates: bool) -> Runner:
    import torch

    torch.set_num_threads(thread_count())
    if differentiates:
        return Runner(partial(function, *tensors), _from_torch)

    def run() -> Any:
        with torch.no_grad():
            return function(*tensors)

    return Runner(run, _from_torch)


def torch(
    function: Function, *, differentiates: bool = False, convert: Callable[[Any], Any] | None = None
) -> Preparation:
    """torch as it is. `convert` prepares each input, for a layout of its own."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        tensors = [torch_tensor(a) for a in arrays]
        return _torch_runner(function, tensors if convert is None else [*map(convert, tensors)], differentiates)

    return prepare


def compiled_torch(function: Function) -> Preparation:
    """`torch.compile` in its default mode, for static shapes."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import torch

        return _torch_runner(torch.compile(function, dynamic=False), [torch_tensor(a) for a in arrays], False)

    return prepare


def with_torch_gradients(forward: Function) -> Function:
    """`forward` and the gradients of its inputs, as a function of the inputs and of the cotangent."""

    def function(*tensors: Any) -> Any:
        import torch

        leaves = [t.detach().requires_grad_() for t in tensors[:-1]]
        result = forward(*leaves)
        return (result.detach(), *torch.autograd.grad(result, leaves, tensors[-1]))

    return function


def compiled_torch_gradients(forward: Function) -> Preparation:
    """`torch.compile` of `forward`, and with it of its gradients."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import torch

        compiled = with_torch_gradients(torch.compile(forward, dynamic=False))
        return _torch_runner(compiled, [torch_tensor(a) for a in arrays], True)

    return prepare


def channels_last(tensor: Any) -> Any:
    """Images and filters with the channels innermost, which oneDNN's convolutions prefer."""
    import torch

    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX operator; `constants` are inputs (by position) that the model knows beforehand."""

    op: str
    attributes: dict[str, Any]
    constants: tuple[int, ...] = ()
    opset: int = 22
    inputs: Callable[[Sequence[Array]], list[Array]] | None = None
    """Rearranges the workload's arrays, where the operator wants others."""
    outputs: int = 1


def onnx(
    op: str,
    *,
    constants: tuple[int, ...] = (),
    opset: int = 22,
    inputs: Any = None,
    outputs: int = 1,
    **attributes: Any,
) -> Any:
    """onnxruntime on one operator with so many `outputs`."""
    node = OnnxNode(op, attributes, constants, opset, inputs, outputs)

    def prepare(arrays: Sequence[Array]) -> Runner:
        given = node.inputs(arrays) if node.inputs else list(arrays)
        return onnx_session(_model_of(node, given), [a for i, a in enumerate(given) if i not in node.constants])

    return prepare


def _model_of(node: OnnxNode, arrays: Sequence[Array]) -> Any:
    from onnx import helper, numpy_helper

    names = [f"x{position}" for position in range(len(arrays))]
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    given = [
        helper.make_tensor_value_info(name, kind, a.shape)
        for position, (name, kind, a) in enumerate(zip(names, kinds, arrays, strict=True))
        if position not in node.constants
    ]
    known = [numpy_helper.from_array(arrays[position], names[position]) for position in node.constants]
    made = [f"y{number}" for number in range(node.outputs)]
    operator = helper.make_node(node.op, names, made, **node.attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in made]
    graph = helper.make_graph([operator], "workload", given, results, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)], ir_version=10)


def onnx_session(model: Any, arrays: Sequence[Array]) -> Runner:
    """onnxruntime on a model; inputs are bound once, results are the session's own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for given, array in zip(session.get_inputs(), arrays, strict=True):
        binding.bind_ortvalue_input(given.name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)))
    for result in session.get_outputs():
        binding.bind_output(result.name, "cpu")
    return Runner(lambda: session.run_with_iobinding(binding), lambda _: binding.copy_outputs_to_cpu())
