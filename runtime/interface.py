"""What is passed to an executable: inputs, outputs, scratch memory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp

from tenon.dialects import signedness
from tenon.dialects.types import element_of, shape_of


def main_function(module: ModuleOp) -> func.FuncOp:
    """The function `@main`; raises `ValueError` when there is none."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main":
            return op
    raise ValueError("the module has no function @main")


def takes_buffers(module: ModuleOp) -> bool:
    """Whether `@main` takes its outputs and scratch memory as arguments, as it does once tensors are buffers."""
    return "num_inputs" in main_function(module).attributes


@dataclass(frozen=True)
class Interface:
    """Shapes and dtypes of inputs and outputs, the size of scratch memory, and the inputs that outputs take over."""

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    arena_bytes: int
    donations: tuple[int, ...]

    @classmethod
    def of(cls, module: ModuleOp) -> Interface:
        """The interface of a module whose tensors are buffers."""
        main = main_function(module)
        types = list(main.function_type.inputs)
        count: Any = main.attributes.get("num_inputs")
        if count is None or not all(isinstance(t, MemRefType) for t in types):
            raise ValueError("@main does not take buffers, or lacks the attribute num_inputs")
        split = count.value.data
        described = _with_external_dtypes(main, [_describe(t) for t in types])
        donations: Any = main.attributes.get("donations")
        outputs = described[split:-1]
        return cls(
            tuple(described[:split]),
            tuple(outputs),
            described[-1][0][0],
            tuple(donations.get_values()) if donations is not None else (-1,) * len(outputs),
        )

    @classmethod
    def of_tensors(cls, module: ModuleOp) -> Interface:
        """The interface of a module whose `@main` takes and returns tensors."""
        main = main_function(module)
        types = [*main.function_type.inputs, *main.function_type.outputs]
        described = _with_external_dtypes(main, [(shape_of(t) or (), str(element_of(t))) for t in types])
        split = len(main.function_type.inputs)
        return cls(tuple(described[:split]), tuple(described[split:]), 0, (-1,) * (len(types) - split))

    @classmethod
    def from_json(cls, text: str) -> Interface:
        """The interface that `to_json` wrote."""
        data = json.loads(text)
        pairs = [tuple((tuple(shape), dtype) for shape, dtype in data[key]) for key in ("inputs", "outputs")]
        return cls(pairs[0], pairs[1], data["arena_bytes"], tuple(data["donations"]))

    def to_json(self) -> str:
        """The interface as a JSON object with a member for each field."""
        return json.dumps(asdict(self))


def _with_external_dtypes(
    main: func.FuncOp, described: list[tuple[tuple[int, ...], str]]
) -> list[tuple[tuple[int, ...], str]]:
    """Inputs, outputs and what may follow them, with the dtypes that callers of `main` see."""
    external = signedness.external_elements(main)
    elements = () if external is None else (*external[0], *external[1])
    named = [(shape, str(element)) for (shape, _), element in zip(described, elements, strict=False)]
    return [*named, *described[len(named) :]]


def _describe(type_: Any) -> tuple[tuple[int, ...], str]:
    return tuple(type_.get_shape()), str(type_.element_type)
