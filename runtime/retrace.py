"""Calls of functions outside of a trace, as those of `grad`: traced, compiled and run at once.

What such a function reads besides its arguments is read anew by each call. A call like one before, for which nothing
else is another one either, takes the program of that; in doubt it is traced again.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.registry import generation
from tenon.dialects.ops.control.debug import checks_gradients
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.device import DEFAULT_DEVICE
from tenon.dialects.support.forking import cached_property, new_lock
from tenon.dialects.support.plain_arrays import copied, device_for
from tenon.dialects.types.types import array_type
from tenon.runtime.arguments.arguments import Parameters, is_array
from tenon.runtime.arguments.tree import Structure, unflatten
from tenon.runtime.cuda.arrays import as_data
from tenon.runtime.executables import Executable, executable
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collection_paused
from tenon.runtime.reads.doubts import CallReads, FunctionKey
from tenon.runtime.reads.guards import Guards
from tenon.runtime.reads.programs import Programs
from tenon.runtime.reads.reading import Reading
from tenon.runtime.store.module_digest import digest
from tenon.runtime.tracing.trace import Captures, Trace, trace

_MOST = 64
"""Programs that are kept for other calls."""


class Program:
    """What was traced."""

    def __init__(self, name: str, traced: Trace, device: str) -> None:
        self.name, self.traced, self.device = name, traced, device

    @cached_property
    def digest(self) -> str:
        """That of its module."""
        return digest(self.traced.module)

    @cached_property
    def executable(self) -> Executable:
        """What runs it."""
        return executable(self.traced.module, self.device, self.name, self.digest)


class TracedCall:
    """One call of a function, traced: a program, and the arrays that it is run on.

    Arrays that the function takes from around it are inputs of the program, so that other ones need no other code.
    """

    def __init__(self, program: Program, captures: Captures, arrays: Sequence[Any]) -> None:
        self.program = program
        self.captures = captures
        """What the call takes from around it."""
        self._arrays = [*arrays, *captures.arrays]

    @property
    def module(self) -> ModuleOp:
        """The program, as it was traced."""
        return self.program.traced.module

    def run(self, first: Sequence[Any] = ()) -> Any:
        """The result, with `first` in the place of as many arguments."""
        results = self.program.executable.run([*first, *self._arrays[len(first) :]])
        return unflatten(self.program.traced.result, results)


def traced_call(
    parameters: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, holds: bool = False
) -> TracedCall:
    """Trace one call. With `holds`, its arguments are copied, so that it can be run later."""
    return _traced(parameters, *parameters.take_apart(args, dict(kwargs)), Captures(), holds=holds)


def _traced(
    parameters: Parameters, leaves: Sequence[Any], structure: Structure, captures: Captures, *, holds: bool = False
) -> TracedCall:
    names = parameters.leaf_names(structure)
    arrays = [
        as_data(leaf, f"{parameters.name}: argument {name}") if is_array(leaf) else None
        for leaf, name in zip(leaves, names, strict=True)
    ]
    types = [None if array is None else array_type(array) for array in arrays]
    with collection_paused():
        made = trace(parameters.call, structure, leaves, types, names, captures=captures)
    given = [copied(array) if holds else array for array in arrays if array is not None]
    program = Program(parameters.name, made, device_for([*given, *captures.arrays]))
    return TracedCall(program, captures, given)


@dataclass
class _Kept:
    """A program for other calls."""

    program: Program
    captures: Captures
    """What it takes from around it, but for what is in tensors."""
    guards: Guards | None
    """What must be as it was."""
    reads: CallReads
    kinds: Sequence[Any]
    """What tensors from around it were like."""
    held: Sequence[Any]
    """What its key tells by its identity."""
    was_taken: bool = False


_KEPT = [Programs[_Kept](_MOST)]
_TRACED: BoundedCache[int] = BoundedCache(1024)
"""How often kinds of calls were traced since a program was taken."""
_LOCK = new_lock()
_STATES: list[Callable[[], Hashable]] = []


def install_state(ask: Callable[[], Hashable]) -> None:
    """Have calls told apart by what `ask` gives, too; those for which that is `None` are traced each by itself."""
    _STATES.append(ask)


def _state() -> Hashable:
    """What programs depend on besides what functions read."""
    modes = knobs.code_settings, autocast_element(), generation(), tuple(DEFAULT_DEVICE)
    return modes, *[ask() for ask in _STATES]


def _forget(phase: str, information: Mapping[str, int]) -> None:
    """Let go of all programs, which keep alive what they have read, whenever Python looks at all objects."""
    if phase == "start" and information["generation"] == 2:
        _KEPT[0] = Programs(_MOST)


gc.callbacks.append(_forget)


class TracedFunction:
    """A function that is traced for each call, or for calls like one before."""

    __tenon_traced_function__ = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._parameters = Parameters(function)

    def trace(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], captures: Captures | None = None) -> TracedCall:
        """A call of it, to be run; the `captures` of that get what it takes from around it."""
        captures = captures or Captures()
        leaves, structure = self._parameters.take_apart(args, dict(kwargs))
        try:
            data, arrays = self._parameters.signature(leaves, structure)
        except (TypeError, OverflowError, BufferError, RuntimeError):  # what is wrong is said where that is traced
            return _traced(self._parameters, leaves, structure, captures)
        function = self._function_key()
        if function is None:
            return _traced(self._parameters, leaves, structure, captures)
        key = function.key, type(captures), data, _state()
        kept = _KEPT[0].get(key)
        if kept is not None and kept.reads.kinds() == kept.kinds:
            if not kept.was_taken:
                kept.was_taken = True
                _TRACED[key] = 1
            return TracedCall(kept.program, kept.captures.again(), arrays)
        tries = _TRACED.get(key) or 0
        _TRACED[key] = tries + 1
        if tries & (tries - 1) or not tries:  # as to find out what it reads costs as much again
            return _traced(self._parameters, leaves, structure, captures)
        return self._for_others(key, function, leaves, structure, captures)

    def _function_key(self) -> FunctionKey | None:
        """What tells the function from others; `None` where each call is traced by itself."""
        is_checked = knobs.interpret or knobs.check_results or knobs.check_memory or knobs.dump_ir or checks_gradients()
        if is_checked or None in [ask() for ask in _STATES]:
            return None
        try:
            return FunctionKey(self._parameters.function)
        except TypeError:
            return None

    def _for_others(
        self,
        key: Hashable,
        function: FunctionKey,
        leaves: Sequence[Any],
        structure: Structure,
        captures: Captures,
    ) -> TracedCall:
        """A call whose program may serve others."""
        parameters, reads = self._parameters, CallReads()
        with collection_paused():
            others = [leaf for leaf in leaves if not is_array(leaf)]
            reading = Reading(parameters.function, others, structure, captures=captures, reads=reads)
            kinds, state, held = reads.kinds(), _state(), reads.in_tensors()
            call = _traced(parameters, leaves, structure, captures)
            guards = reading.guards(function.told)
        now = self._function_key()
        is_same = not reading.has_changed and (kinds, state) == (reads.kinds(), _state())
        is_same = is_same and now is not None and now.key == function.key
        is_same = is_same and all(map(operator.is_, reads.in_tensors(), held))
        is_whole = reads.settled() and all(id(tensor) in reads.tensors for tensor in captures.holders.values())
        program = call.program
        if is_same and is_whole and not program.traced.is_for_once and program.device == "cpu":
            with _LOCK:
                kept = _Kept(program, captures.kept(), guards, reads, kinds, function.held)
                _KEPT[0].add(parameters.name, key, kept)
        elif reads.doubts and knobs.log_compiles:
            asked = ", ".join(dict.fromkeys(reads.doubts))
            print(f"tenon: {parameters.name} is traced at each call, since it asks for {asked}", file=sys.stderr)
        return call
