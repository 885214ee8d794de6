"""Tenon as a backend of the `onnx` package, whose tests run on any of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep

from tenon.onnx.model import Model, load
from tenon.onnx.node import OnnxError
from tenon.runtime.cuda.names import checked_device, kind_of, ordinal_of


class PreparedModel(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the model's order (a list), by name (a dict), or for the only one (an array)."""
        if isinstance(inputs, dict):
            return self.model(**inputs)
        return self.model(*(inputs if isinstance(inputs, list | tuple) else (inputs,)))


class Backend(OnnxBackend):
    """Prepares and runs models; devices are `CPU` and, where there are CUDA devices, `CUDA` and `CUDA:1`."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator of the model is supported."""
        try:
            load(model)
        except OnnxError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """The model, ready to run; raises `OnnxError` as `tenon.onnx.load` does."""
        return PreparedModel(load(model, device=_device(device)))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of the model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node, in the newest opset or that of `opset_version`."""
        names = [name for name in node.input if name]
        given = inputs if isinstance(inputs, dict) else dict(zip(names, inputs, strict=True))
        values = {name: given[name] if _is_sequence(given[name]) else np.asarray(given[name]) for name in names}
        infos = [onnx.helper.make_value_info(name, _type(value)) for name, value in values.items()]
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.helper.make_graph([node], node.op_type, infos, results)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, list(values.values()), device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on `device`, such as `CPU` or `CUDA:0`."""
        from tenon.runtime.cuda.device_cuda import CudaUnavailableError, architecture

        try:
            name = checked_device(_device(device))
            if kind_of(name) == "cuda":
                architecture(ordinal_of(name))
        except (CudaUnavailableError, ValueError):
            return False
        return True


def _is_sequence(value: Any) -> bool:
    """Whether a list is one of arrays; one of numbers is a tensor."""
    return isinstance(value, list) and all(isinstance(each, np.ndarray) for each in value)  # pyright: ignore[reportUnknownVariableType]


def _type(value: Any) -> onnx.TypeProto:
    """That of an array, or of a list of arrays of which nothing is said."""
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(onnx.TypeProto())
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _device(device: str) -> str:
    """Tenon's name for a device; there is one CPU, which has number 0."""
    return "cpu" if device in ("CPU", "CPU:0") else re.sub("^CUDA(?=:|$)", "cuda", device)


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
