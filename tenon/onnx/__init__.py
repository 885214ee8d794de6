"""ONNX models: `load` reads a file and gives a model that runs, differentiates and prints as Tenon IR.

Operators are defined in the modules of `operators`, one function for each version of their meaning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import onnx as _onnx  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as _error:
    if _error.name != "onnx":
        raise
    raise ModuleNotFoundError("tenon.onnx needs the onnx package: pip install tenon[onnx]", name="onnx") from None

if TYPE_CHECKING:
    from tenon.onnx.backend import Backend
    from tenon.onnx.model import Model, load
    from tenon.onnx.node import Node, OnnxError, Operand
    from tenon.onnx.operators import operator, operator_names

_WHERE = {
    "Backend": "backend",
    "Model": "model",
    "Node": "node",
    "OnnxError": "node",
    "Operand": "node",
    "load": "model",
    "operator": "operators",
    "operator_names": "operators",
}
__all__ = ["Backend", "Model", "Node", "OnnxError", "Operand", "load", "operator", "operator_names"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tenon.onnx' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"tenon.onnx.{_WHERE[name]}"), name)
    return value
