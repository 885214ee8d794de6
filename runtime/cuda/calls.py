"""Calls of compiled functions on arrays of a GPU, as Python code that is written for each kind of call.

A kind is what the general way found out about one call: how the arguments nest, which dtypes and shapes arrays have,
which program runs, and how results nest. The code compares, collects addresses, allocates results, launches, and puts
results together. Calls that are not of its kind, and those of which the general way has more to say (errors, copies,
donated arrays), get `OTHER`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.support.donation import GIVEN
from tenon.passes.machine import GPU
from tenon.runtime.arguments.arguments import Static
from tenon.runtime.arguments.tree import Structure, layout
from tenon.runtime.cuda.device_cuda import cupy_module
from tenon.runtime.epoch import EPOCH

if TYPE_CHECKING:
    from tenon.runtime.cuda.device import DeviceBuffer
    from tenon.runtime.cuda.program import CudaProgram

_ACTIVE, _MADE = 16, 256
"""How many kinds of calls are looked through, and how many are ever met."""

OTHER = object()
"""What a call gives that is not of the kind."""

DeviceCall = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]


class DeviceCalls:
    """The code for calls of one function, that of the last kind first. May be used from several threads."""

    def __init__(self) -> None:
        self._codes: tuple[_Code, ...] = ()
        self._met: dict[Any, _Code | None] = {}

    def __bool__(self) -> bool:
        return bool(self._codes)

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call, or `OTHER`."""
        if insertion_point() is None and autocast_element() is None:
            epoch = EPOCH[0]
            for code in self._codes:
                if code.epoch == epoch and (made := code.call(args, kwargs)) is not OTHER:
                    return made
        return OTHER

    def learn(self, kind: Any, make: Callable[[], DeviceCall], epoch: int) -> None:
        """Have calls of this kind, one of which the general way served in this epoch, go by code that is made at the
        second one; `make` raises `OtherwiseError` if there is none."""
        if kind not in self._met:
            if len(self._met) < _MADE:
                self._met[kind] = None
            return
        code = self._met[kind]
        if code is None:
            try:
                code = self._met[kind] = _Code(make())
            except OtherwiseError:
                return
        code.epoch = epoch
        self._codes = (code, *[other for other in self._codes if other is not code])[:_ACTIVE]


@dataclass
class _Code:
    """What serves calls of a kind in one epoch."""

    call: DeviceCall
    epoch: int = -1


class OtherwiseError(Exception):
    """Calls like this one go the general way; the message says why."""


def device_call(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    structure: Structure,
    result: Structure,
    ordinal: int,
    program: CudaProgram,
    held: Mapping[int, DeviceBuffer],
    holds: Callable[[], bool] | None,
) -> DeviceCall:
    """The code for calls like `(args, kwargs)`, whose structure is given, as is that of the result.

    The program's inputs are the arrays among the leaves, and those `held`, by position, which are on the device.
    Raises `OtherwiseError`.
    """
    if not program.is_recorded:
        raise OtherwiseError("it runs step by step")
    writer = _Writer(ordinal)
    writer.arguments(args, kwargs, structure)
    inputs = iter(writer.addresses)
    total = len(program.program.inputs)
    if total != len(writer.addresses) + len(held):
        raise OtherwiseError("some argument is no array of a GPU")
    addresses = [
        writer.constant(held[position].address) if position in held else next(inputs) for position in range(total)
    ]
    results = writer.results(program, result)
    writer.run(program, [*addresses, *writer.memory])
    return writer.finished(results, {"holds": holds, "held": held})


class _Writer:
    """The lines of a call, the values that they name, and the expressions of the addresses of arrays."""

    def __init__(self, ordinal: int) -> None:
        cupy = cupy_module()
        self._values: dict[str, Any] = {
            "OTHER": OTHER,
            "GIVEN": GIVEN,
            "Array": cupy.ndarray,
            "allocate": cupy.cuda.alloc,
            "device": cupy.cuda.runtime.getDevice,
            "ordinal": ordinal,
        }
        self._has_flag = hasattr(cupy.ndarray, "_c_contiguous")
        self._checks_devices = int(cupy.cuda.runtime.getDeviceCount()) > 1
        self._lines: list[str] = []
        self._names = 0
        self.addresses: list[str] = []
        self.memory: list[str] = []

    def constant(self, value: Any) -> str:
        """The name of a value."""
        name = self._name("c")
        self._values[name] = value
        return name

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _require(self, condition: str) -> None:
        self._lines.append(f"if not ({condition}): return OTHER")

    # Arguments

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], structure: Structure) -> None:
        positional, keywords = structure.children
        self._require(f"len(args) == {len(args)}")
        if kwargs:
            self._require(f"tuple(kwargs) == {self.constant(tuple(kwargs))}")
        else:
            self._require("not kwargs")
        children = dict(zip(keywords.names, keywords.children, strict=True))
        for number, (value, child) in enumerate(zip(args, positional.children, strict=True)):
            self._open(f"args[{number}]", value, child)
        for name, value in kwargs.items():
            self._open(f"kwargs[{self.constant(name)}]", value, children[name])

    def _open(self, expression: str, value: Any, structure: Structure) -> None:
        """Compare what an expression gives with `value`, of this structure."""
        name = self._name("x")
        self._lines.append(f"{name} = {expression}")
        kind: Any = structure.kind
        if kind is None:
            self._leaf(name, value)
            return
        how = layout(kind)
        self._require(f"type({name}) is {self.constant(type(value))}")
        if how == "constant":
            same = "is" if value is None or callable(value) else "=="
            self._require(f"{name} {same} {self.constant(value)}")
        elif how in ("tuple", "list"):
            self._require(f"len({name}) == {len(value)}")
            for number, (inner, child) in enumerate(zip(value, structure.children, strict=True)):
                self._open(f"{name}[{number}]", inner, child)
        elif how == "dict" and type(value) is dict:
            self._require(f"tuple({name}) == {self.constant(tuple(value))}")
            for (key, inner), child in zip(value.items(), structure.children, strict=True):
                self._open(f"{name}[{self.constant(key)}]", inner, child)
        else:
            raise OtherwiseError(f"a {kind.__name__} is taken apart by code of its own")

    def _leaf(self, name: str, value: Any) -> None:
        if isinstance(value, Static) and type(value.value) in (int, bool, str, type(None)):
            kind, known = self.constant(type(value.value)), self.constant(value.value)
            self._require(f"type({name}) is {kind} and {name} == {known}")
            return
        if isinstance(value, Static) or type(value) is not self._values["Array"]:
            raise OtherwiseError(f"a {type(value).__name__} is no array of CuPy")
        whole = f"{name}._c_contiguous" if self._has_flag else f"{name}.flags.c_contiguous"
        shape, dtype = self.constant(tuple(value.shape)), self.constant(value.dtype)
        self._require(f"type({name}) is Array and {name}.shape == {shape} and {name}.dtype == {dtype} and {whole}")
        self._lines.append(f"{name}_memory = {name}.data")
        self._lines.append(f"{name}_address = {name}_memory.ptr")
        if self._checks_devices:
            if not hasattr(value.data, "device_id"):
                raise OtherwiseError("memory does not say on which device it is")
            self._require(f"{name}_memory.device_id == ordinal")
        self._require(f"{name}_address % {GPU.access} == 0 and not (GIVEN and id({name}) in GIVEN)")
        self.addresses.append(f"{name}_address")

    # Results

    def results(self, program: CudaProgram, structure: Structure) -> str:
        """Allocate all results; the expression of their tree."""
        arrays: list[str] = []
        for shape, dtype in program.program.outputs:
            size = prod(shape) * dtype.itemsize
            if not size:
                raise OtherwiseError("a result has no elements")
            name = self._name("r")
            self._lines.append(f"{name} = allocate({size})")
            self.memory.append(f"{name}.ptr")
            arrays.append(f"Array({self.constant(shape)}, {self.constant(dtype)}, {name})")
        return self._tree(structure, iter(arrays))

    def _tree(self, structure: Structure, arrays: Any) -> str:
        kind: Any = structure.kind
        if kind is None:
            return next(arrays)
        children = [self._tree(child, arrays) for child in structure.children]
        if kind is tuple:
            return f"({''.join(child + ', ' for child in children)})"
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return f"{self.constant(kind)}({', '.join(children)})"
        if kind is list:
            return f"[{', '.join(children)}]"
        if kind is dict:
            keys, _ = structure.static
            return f"{{{', '.join(f'{self.constant(k)}: {c}' for k, c in zip(keys, children, strict=True))}}}"
        if kind is type(None):
            return "None"
        raise OtherwiseError(f"a {kind.__name__} is put together by code of its own")

    # The call

    def run(self, program: CudaProgram, addresses: Sequence[str]) -> None:
        self._lines.append(f"{self.constant(program.launch)}(({''.join(a + ', ' for a in addresses)}))")

    def finished(self, results: str, values: Mapping[str, Any]) -> DeviceCall:
        """The function, which keeps `values`."""
        self._values |= values
        checks = ["if device() != ordinal: return OTHER"] if self._checks_devices else []
        checks += ["if not holds(): return OTHER"] if values["holds"] is not None else []
        allocations = [line for line in self._lines if " = allocate(" in line]
        before = self._lines[: self._lines.index(allocations[0])] if allocations else self._lines[:-1]
        body = [*checks, *before]
        if allocations:
            body += ["try:", *[f"    {line}" for line in allocations]]
            body += ["except MemoryError:", "    return OTHER"]  # the general way says for what
        body += [self._lines[-1], f"return {results}"]
        source = "def call(args, kwargs):\n" + "".join(f"    {line}\n" for line in body)
        exec(compile(source, "<call on a GPU>", "exec"), self._values)
        return self._values["call"]
