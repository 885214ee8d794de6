"""A function that was read from a file: it runs, joins traces, and has its gradient."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.promotion import is_weak
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.support.plain_arrays import elements_of, is_on_gpu
from tenon.dialects.support.user_place import user_place
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import element_of, element_type, is_float, numpy_dtype, shape_of
from tenon.eager.modes import TRACING
from tenon.eager.recording import Stored, as_operands, record, wants_gradient
from tenon.eager.residuals import inlined
from tenon.eager.tape import Call
from tenon.eager.tensor import Tensor
from tenon.passes.named_shapes import bind_sizes, declared_shapes
from tenon.runtime.arguments.interface import Interface, main_function
from tenon.runtime.arguments.tree import tell_by_identity
from tenon.runtime.cuda.arrays import as_data, brought, place_among, place_of
from tenon.runtime.cuda.names import checked_device, kind_of
from tenon.runtime.executables import Executable, executable
from tenon.runtime.stages import run_flat
from tenon.traces.outcomes import change


class LoadedFunction:
    """What `tenon.load` gives: called like the function that was saved, for arguments of the same shapes and dtypes.

    It runs on the device that it was loaded for, or else on the GPU that some argument or its state is on, or on the
    CPU. Its state goes there, once, and stays there; arguments from elsewhere are copied at each call.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: Mapping[str, Any],
        state: Mapping[str, Any],
        version: int,
        device: str | None = None,
    ) -> None:
        self.version = version
        """That of the format of the file, before upgrades."""
        self.name = self.__name__ = str(function["name"])
        self.state: dict[str, Tensor] = {name: Tensor._new(array) for name, array in state.items()}
        """The tensors that the saved function had from around it, by name."""
        self._module = module
        self._function = function
        main = main_function(module)
        declared = zip(main.body.block.arg_types, declared_shapes(main), strict=True)
        self._types = [(named or shape_of(t) or (), numpy_dtype(element_of(t))) for t, named in declared]
        self._apply = inlined(module)
        self._call = Call(self.name, (self.name, id(module)), self._apply)
        self._executables: dict[Any, Executable] = {}
        self._device: str | None = None
        if device is not None:
            self.to(device)

    @property
    def device(self) -> str:
        """Where calls without an argument on a GPU run."""
        return self._device or self._place(())

    def to(self, device: str) -> Self:
        """Have the state on a device, and run there: the function itself, which is given back."""
        self._device = checked_device(device, f"{self.name}: ")
        for tensor in self.state.values():
            tensor.convert_(device=device)
        return self

    def _place(self, operands: Sequence[Any]) -> str:
        """The device that a call runs on."""
        held = [elements_of(operand) for operand in (*self.state.values(), *operands)]
        return self._device or place_among(held) or "cpu"

    def _executable(self, device: str, arrays: Sequence[Any]) -> Executable:
        """What runs there; on a GPU for the sizes of the arrays."""
        is_sized = kind_of(device) != "cpu" and any(isinstance(n, Size) for shape, _ in self._types for n in shape)
        key = device, tuple([array.shape for array in arrays]) if is_sized else None
        known = self._executables.get(key)
        if known is None:
            module = self._module
            if is_sized:
                module = bind_sizes(module, Interface.of_tensors(module).bind([array.shape for array in arrays]))
            known = self._executables[key] = executable(module, device, self.name)
        return known

    @property
    def ir(self) -> str:
        """The program as text."""
        return str(self._module)

    def __repr__(self) -> str:
        types = dict[int, str]()
        for source, (shape, dtype) in zip(self._function["inputs"], self._types, strict=True):
            if "argument" in source:
                types[source["argument"]] = f"{element_type(dtype)}[{', '.join(map(str, shape))}]"
        positional, named = [next(iter(part.values())) for part in self._function["arguments"]["tuple"]]
        given = [_said(part, types) for part in positional] + [f"{name}={_said(part, types)}" for name, part in named]
        return f"<LoadedFunction {self.name}({', '.join(given)}), version {self.version}>"

    @shows_user_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays or tensors. Raises `TypeError` for arguments that are not like those that were saved."""
        given: dict[int, Any] = {}
        self._match(self._function["arguments"], (args, kwargs), given, "arguments")
        operands = [
            self.state[source["state"]] if "state" in source else given[source["argument"]]
            for source in self._function["inputs"]
        ]
        run = self._at_once if insertion_point() is None else self._in_trace
        outputs = run(operands)
        line = user_place()
        for changed in self._function["changes"]:
            target = self.state[changed["state"]] if "state" in changed else given[changed["argument"]]
            self._change(target, outputs[changed["output"]], line)
        return self._built(self._function["result"], outputs, given)

    def _at_once(self, operands: Sequence[Any]) -> list[Any]:
        place = "cpu"
        is_there = any(map(is_on_gpu, [v._array if isinstance(v, Stored) else v for v in operands]))
        if is_there or self._device not in (None, "cpu"):
            place, operands = self._brought(operands)
        arrays = [self._array(operand, number) for number, operand in enumerate(operands)]
        # A number by itself would be recorded as narrow as numbers count beside tensors; the program takes it as saved.
        as_taken = [a if type(v) is float else v for a, v in zip(arrays, operands, strict=True)]
        noted = as_operands(as_taken) if wants_gradient(operands) else None
        found = run_flat(self._executable(place, arrays), arrays)
        if not self._function["tensors"] and not any(isinstance(v, Stored) for v in operands):
            return list(found)
        outputs = [Tensor._new(array) for array in found]
        if noted is not None:
            record(self._call, noted, outputs)
        return outputs

    def _brought(self, operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """The device that a call runs on, which is not the CPU by default, and its operands there, or as arrays that
        the program copies."""
        given = [
            v if isinstance(v, Stored) or type(v) is float else as_data(v, f"{self.name}: input {number}")
            for number, v in enumerate(operands)
        ]
        place = self._place(given)
        if place == "cpu":
            return place, given
        for tensor in self.state.values():
            tensor.convert_(device=place)
        return place, [v._on(place) if isinstance(v, Stored) else v for v in given]

    def _in_trace(self, operands: Sequence[Any]) -> list[Any]:
        if TRACING.session is not None:
            from tenon.traces.symbols import TracedTensor

            return list(TracedTensor.__tenon_traced_call__(self._on_values, tuple(operands), {}))
        if self._function["changes"]:
            raise TypeError(f"{self.name} changes its state, so it cannot be part of a function of values")
        return list(self._on_values(*[v._array if isinstance(v, Stored) else v for v in operands]))

    def _on_values(self, *operands: Any) -> tuple[Any, ...]:
        values = [
            to_value(operand, element_type(self._types[number][1]) if self._adopts(operand, number) else None)
            for number, operand in enumerate(operands)
        ]
        for number, value in enumerate(values):
            self._check(number, value.shape, value.dtype)
        return self._apply(values)

    def _adopts(self, operand: Any, number: int) -> bool:
        """Whether an operand is a float of Python's, which has the dtype that the program takes."""
        shape, dtype = self._types[number]
        return (type(operand) is float or is_weak(operand)) and not shape and is_float(element_type(dtype))

    def _array(self, operand: Any, number: int) -> Any:
        if self._adopts(operand, number):
            return np.asarray(operand, self._types[number][1])
        array = operand._array if isinstance(operand, Stored) else as_data(operand, f"{self.name}: input {number}")
        if self._device == "cpu" and is_on_gpu(array):
            raise TypeError(f"{self.name}: input {number} is on a GPU, and the function runs on the CPU")
        self._check(number, array.shape, array.dtype)
        return array

    def _check(self, number: int, shape: Any, dtype: Any) -> None:
        wanted, kind = self._types[number]
        fits = len(shape) == len(wanted) and all(
            isinstance(w, Size) or w == s for w, s in zip(wanted, shape, strict=True)
        )
        if not fits or dtype != kind:
            raise TypeError(f"{self.name}: input {number} is {dtype}{list(shape)} where {kind}{list(wanted)} was saved")

    def _change(self, target: Any, made: Any, line: Any) -> None:
        if isinstance(made, Stored) and made._is_traced:
            TRACING.session.put(target, made._array)
        else:
            change(target, brought(elements_of(made), place_of(elements_of(target))), line)

    def _match(self, expected: Any, value: Any, given: dict[int, Any], where: str) -> None:
        """Find the data among arguments; what is known of them must be as it was."""
        ((kind, content),) = expected.items()
        if kind == "argument":
            given[content] = value
            return
        fits = type(value).__name__ == kind
        if kind == "dict" and fits and [*value] == [key for key, _ in content]:
            for key, part in content:
                self._match(part, value[key], given, f"{where}.{key}")
        elif kind in ("tuple", "list") and fits and len(value) == len(content):
            for number, (part, item) in enumerate(zip(content, value, strict=True)):
                self._match(part, item, given, f"{where}.{number}")
        elif not (kind == "value" and _is_one(value, _constant(content))):
            wanted = repr(_constant(content)) if kind == "value" else f"a {kind} of {len(content)}"
            raise TypeError(f"{self.name}: {where} is {value!r:.60} where {wanted} was saved")

    def _built(self, node: Any, outputs: Sequence[Any], given: Mapping[int, Any]) -> Any:
        ((kind, content),) = node.items()
        match kind:
            case "output":
                return outputs[content]
            case "argument":
                return given[content]
            case "state":
                return self.state[content]
            case "value":
                return content
            case "dict":
                return {key: self._built(part, outputs, given) for key, part in content}
            case _:
                items = [self._built(part, outputs, given) for part in content]
                return items if kind == "list" else tuple(items)


def _constant(saved: Any) -> Any:
    """The argument that a file keeps as a constant; Python's floats are data, so that a float is one of NumPy's."""
    return np.float64(saved) if type(saved) is float else saved


def _is_one(value: Any, constant: Any) -> bool:
    return type(value) is type(constant) and (value == constant or (value != value and constant != constant))


def _said(node: Any, types: Mapping[int, str]) -> str:
    """An argument in words."""
    ((kind, content),) = node.items()
    match kind:
        case "argument":
            return types.get(content, "unused")
        case "value":
            return repr(_constant(content))
        case "dict":
            return f"{{{', '.join([f'{key!r}: {_said(part, types)}' for key, part in content])}}}"
        case _:
            items = [_said(part, types) for part in content]
            return f"[{', '.join(items)}]" if kind == "list" else f"({', '.join(items)}{',' * (len(items) == 1)})"


tell_by_identity(LoadedFunction)

__all__ = ["LoadedFunction"]
