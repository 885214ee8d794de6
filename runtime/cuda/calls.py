"""Calls of compiled functions on arrays of a GPU, as Python code that is written for each kind of call.

A kind is what the general way found out about one call: how the arguments nest, which dtypes and shapes arrays have,
which program runs, and how results nest. The code compares, collects addresses, allocates results, launches, and puts
results together. Calls that are not of its kind, and those of which the general way has more to say (errors, copies,
memory that arguments share), get `OTHER`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from struct import Struct
from typing import TYPE_CHECKING, Any

from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.donation import GIVEN, is_given
from tenon.dialects.support.user_place import user_place
from tenon.passes.machine import GPU
from tenon.runtime.arguments.arguments import Static
from tenon.runtime.arguments.tree import Structure, is_named_tuple, layout
from tenon.runtime.call.donation import Donated
from tenon.runtime.call.entry import Entry, NativeCalls
from tenon.runtime.call.entry_words import Guard
from tenon.runtime.call.steps import is_unchanging
from tenon.runtime.epoch import EPOCH

if TYPE_CHECKING:
    from tenon.runtime.cuda.device import DeviceBuffer
    from tenon.runtime.cuda.program import CudaProgram

_ACTIVE, _KNOWN = 16, 64
"""How many kinds of calls are looked through, and how many are remembered, those met last."""

OTHER = object()
"""What a call gives that is not of the kind."""

DeviceCall = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]


class DeviceCalls:
    """What serves calls of one function: entries for native code, and code, that of the last kind first. May be used
    from several threads."""

    def __init__(self, function: NativeCalls) -> None:
        self._function = weakref.ref(function)
        self._codes: tuple[_Code, ...] = ()
        self._met = BoundedCache["_Code | Entry | bool"](_KNOWN)
        """Kinds of calls: what serves them, or whether anything can."""

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

    def learn(self, kind: Any, make: Callable[[bool], DeviceCall | Entry], epoch: int) -> None:
        """Have calls of this kind, one of which the general way served in this epoch, go by what is made at the second
        one: `make` is told whether that may be an entry, for which there has to be room, and raises `OtherwiseError`
        if there is nothing."""
        code = self._met.get(kind)
        if code is None:
            self._met[kind] = True
            return
        if code is True:
            function = self._function()
            try:
                made = make(function is not None and function.has_room(kind))
                code = made if isinstance(made, Entry) else _Code(made)
            except OtherwiseError:
                code = False
            self._met[kind] = code
        if isinstance(code, Entry):
            if (function := self._function()) is not None:
                function.serve(kind, code, epoch)
        elif isinstance(code, _Code):
            code.epoch = epoch
            self._codes = (code, *[other for other in self._codes if other is not code])[:_ACTIVE]


@dataclass
class _Code:
    """What serves calls of a kind in one epoch."""

    call: DeviceCall
    epoch: int = -1


class OtherwiseError(Exception):
    """Calls like this one go the general way; the message says why."""


@dataclass(frozen=True)
class CallOnDevice:
    """A call `(args, kwargs)` that the general way served, with the structure of that and of its result.

    The inputs of the program, which runs on the device of this number, are the arrays among the leaves, and those
    `held`, by position, which are on the device. `donations` has for each result the input whose memory it takes over,
    or -1. It holds as long as `guards` do; what serves calls like it keeps `kept`.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    structure: Structure
    result: Structure
    ordinal: int
    program: CudaProgram
    held: Mapping[int, DeviceBuffer]
    guards: Sequence[Guard]
    donations: Sequence[int]
    donated: Donated | None
    kept: Any


def device_call(like: CallOnDevice, holds: Callable[[], bool] | None) -> DeviceCall:
    """The code for calls like one, as long as `holds` says so, which stands for its guards. Raises `OtherwiseError`."""
    program, held, donated = like.program, like.held, like.donated
    if not program.is_recorded:
        raise OtherwiseError("it runs step by step")
    writer = _Writer(like.ordinal)
    writer.arguments(like.args, like.kwargs, like.structure)
    inputs = iter(writer.addresses)
    total = len(program.program.inputs)
    if total != len(writer.addresses) + len(held):
        raise OtherwiseError("some argument is no array of a GPU")
    addresses = [
        writer.constant(held[position].address) if position in held else next(inputs) for position in range(total)
    ]
    donors = like.donations if donated is not None else (-1,) * len(like.donations)
    if held and max(donors, default=-1) >= 0:
        raise OtherwiseError("arguments are frozen, and others are donated")
    results = writer.results(program, like.result, donors, donated)
    writer.run(program, [*addresses, *writer.memory], donors, donated)
    return writer.finished(results, {"holds": holds, "held": held, "kept": like.kept})


class _Writer:
    """The lines of a call, the values that they name, and the expressions of the addresses of arrays."""

    def __init__(self, ordinal: int) -> None:
        from tenon.runtime.cuda.device_cuda import cupy_module

        cupy = cupy_module()
        self._values: dict[str, Any] = {
            "__name__": __name__,  # so that its frames are known as ours
            "OTHER": OTHER,
            "GIVEN": GIVEN,
            "is_given": is_given,
            "Array": cupy.ndarray,
            "allocate": cupy.cuda.alloc,
            "device": cupy.cuda.runtime.getDevice,
            "place_of": user_place,
            "ordinal": ordinal,
        }
        self._has_flag = hasattr(cupy.ndarray, "_c_contiguous")
        self._checks_devices = int(cupy.cuda.runtime.getDeviceCount()) > 1
        self._lines: list[str] = []
        self._allocations: list[str] = []
        self._last: list[str] = []
        self._names = 0
        self._arrays: list[str] = []
        self._pools: set[type] = set()
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
            self._same(name, value)
        elif how in ("tuple", "list"):
            self._require(f"len({name}) == {len(value)}")
            for number, (inner, child) in enumerate(zip(value, structure.children, strict=True)):
                self._open(f"{name}[{number}]", inner, child)
        elif how == "dict":
            self._require(f"tuple({name}) == {self.constant(tuple(value))}")
            for (key, inner), child in zip(value.items(), structure.children, strict=True):
                self._open(f"{name}[{self.constant(key)}]", inner, child)
        elif how in ("attributes", "fields"):
            children = dict(zip(structure.names, structure.children, strict=True))
            items = (
                vars(value) if how == "attributes" else {n: getattr(value, n) for n in (*children, *structure.static)}
            )
            if how == "attributes":
                self._lines.append(f"{name}_items = {name}.__dict__")
                self._require(f"tuple({name}_items) == {self.constant(tuple(items))}")
            for key, inner in items.items():
                found = f"{name}_items[{self.constant(key)}]" if how == "attributes" else f"{name}.{key}"
                if key in children:
                    self._open(found, inner, children[key])
                else:
                    self._same(found, inner)
        else:
            raise OtherwiseError(f"a {kind.__name__} is taken apart by code of its own")

    def _same(self, expression: str, value: Any) -> None:
        """Compare what an expression gives with a static value."""
        kind = type(value)
        if kind in (tuple, list, dict):
            name = self._name("x")
            self._lines.append(f"{name} = {expression}")
            keys = f"tuple({name}) == {self.constant(tuple(value))}" if kind is dict else f"len({name}) == {len(value)}"
            self._require(f"type({name}) is {self.constant(kind)} and {keys}")
            for key, inner in value.items() if kind is dict else enumerate(value):
                self._same(f"{name}[{self.constant(key)}]", inner)
        elif kind in (int, str, bool) or (kind is float and value and value == value):
            self._require(f"type({expression}) is {self.constant(kind)} and {expression} == {self.constant(value)}")
        elif kind is float:  # -0 equals 0, and NaN nothing
            self._require(f"type({expression}) is float and repr({expression}) == {self.constant(repr(value))}")
        elif is_unchanging(value):
            self._require(f"{expression} is {self.constant(value)}")
        else:
            raise OtherwiseError(f"a {kind.__name__} may change")

    def _leaf(self, name: str, value: Any) -> None:
        if isinstance(value, Static):
            self._same(name, value.value)
            return
        if type(value) is not self._values["Array"]:
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
        self._require(f"{name}_address % {GPU.access} == 0")
        self._require(f"not ((GIVEN or {name}.base is not None) and is_given({name}))")
        self.addresses.append(f"{name}_address")
        self._arrays.append(name)
        self._pools.add(type(getattr(value.data, "mem", None)))

    # Results

    def results(
        self, program: CudaProgram, structure: Structure, donors: Sequence[int], donated: Donated | None
    ) -> str:
        """Allocate all results that do not take over the memory of arguments; the expression of their tree."""
        if max(donors, default=-1) >= 0:
            self._require_own_memory()
        arrays: list[str] = []
        for (shape, dtype), donor in zip(program.program.outputs, donors, strict=True):
            if donor >= 0 and donated is not None:
                self.memory.append(f"{self._arrays[donor]}_address")
                given = f"{self._arrays[donor]}, {self.constant(donated.names[donor])}, place"
                arrays.append(f"{self.constant(donated.taken)}({given})")
                continue
            size = prod(shape) * dtype.itemsize
            if not size:
                raise OtherwiseError("a result has no elements")
            name = self._name("r")
            self._allocations.append(f"{name} = allocate({size})")
            self.memory.append(f"{name}.ptr")
            arrays.append(f"Array({self.constant(shape)}, {self.constant(dtype)}, {name})")
        return self._tree(structure, iter(arrays))

    def _require_own_memory(self) -> None:
        """Have no two arrays share memory: each has an allocation of its own, of a pool."""
        if {kind.__name__ for kind in self._pools} != {"PooledMemory"}:
            raise OtherwiseError("arguments are donated, and some memory is of no pool")
        kinds = self.constant(self._pools)
        self._lines.append(f"owners = ({''.join(f'{name}_memory.mem, ' for name in self._arrays)})")
        self._require(f"{{*map(type, owners)}} == {kinds} and len({{*map(id, owners)}}) == {len(self._arrays)}")

    def _tree(self, structure: Structure, arrays: Any) -> str:
        kind: Any = structure.kind
        if kind is None:
            return next(arrays)
        children = [self._tree(child, arrays) for child in structure.children]
        if kind is tuple:
            return f"({''.join(child + ', ' for child in children)})"
        if is_named_tuple(kind):
            return f"{self.constant(kind)}({', '.join(children)})"
        if kind is list:
            return f"[{', '.join(children)}]"
        if kind is dict:
            keys, _ = structure.static
            return f"{{{', '.join(f'{self.constant(k)}: {c}' for k, c in zip(keys, children, strict=True))}}}"
        if kind is type(None):
            return "None"
        rebuild, names = self.constant(structure.rebuild), self.constant(structure.names)
        static = f"{self.constant(structure)}.static"
        return f"{rebuild}({self.constant(kind)}, {names}, [{', '.join(children)}], {static})"

    # The call

    def run(
        self, program: CudaProgram, addresses: Sequence[str], donors: Sequence[int], donated: Donated | None
    ) -> None:
        pack = self.constant(Struct(f"={len(addresses)}Q").pack)
        launch = f"{self.constant(program.launch)}({pack}({', '.join(addresses)}))"
        positions = tuple([donor for donor in donors if donor >= 0])
        if donated is None or not positions:
            self._last = [launch]
            return
        given = ", ".join(self._arrays)
        lost = f"{self.constant(donated.lost)}([{given}], {self.constant(positions)}, place)"
        self._last = ["place = place_of()", "try:", f"    {launch}", "except Exception:", f"    {lost}", "    raise"]

    def finished(self, results: str, values: Mapping[str, Any]) -> DeviceCall:
        """The function, which keeps `values`."""
        self._values |= values
        checks = ["if device() != ordinal: return OTHER"] if self._checks_devices else []
        checks += ["if not holds(): return OTHER"] if values["holds"] is not None else []
        body = [*checks, *self._lines]
        if self._allocations:
            body += ["try:", *[f"    {line}" for line in self._allocations]]
            body += ["except MemoryError:", "    return OTHER"]  # the general way says for what
        body += [*self._last, f"return {results}"]
        source = "def call(args, kwargs):\n" + "".join(f"    {line}\n" for line in body)
        exec(compile(source, "<call on a GPU>", "exec"), self._values)
        return self._values["call"]
