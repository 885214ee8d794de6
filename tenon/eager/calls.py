"""Compiled and transformed functions (`jit`, `grad`, `vmap`...) called on tensors: one call on the tape."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.promotion import weak_float
from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.value import Value
from tenon.dialects.ops.control.debug import checks_gradients
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.donation import is_donated
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.plain_arrays import copied, elements_of, is_on_gpu
from tenon.eager.backward import array_type_of, trace_types
from tenon.eager.modes import MODE, TRACING, WAITING, run_waiting
from tenon.eager.recording import Around, Stored, as_operands, call_of, record, wants_gradient
from tenon.eager.residuals import Program, inlined, program_of
from tenon.eager.tape import Call, Operand, Saved, Type, type_of
from tenon.runtime.arguments.arguments import Static, is_array
from tenon.runtime.arguments.tree import Structure, flatten, static_key, unflatten
from tenon.runtime.cuda.arrays import as_data
from tenon.runtime.jit import JitFunction
from tenon.runtime.knobs import knobs
from tenon.runtime.reads.guards import Guards
from tenon.runtime.reads.programs import Programs
from tenon.runtime.reads.reading import Reading
from tenon.runtime.retrace import TracedFunction, install_state
from tenon.runtime.store.module_digest import digest
from tenon.runtime.tracing.trace import Captures


def call_function(
    kind: type[Any], function: JitFunction | TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`function` of arguments of which some are tensors; so are its results."""
    run_waiting()
    if isinstance(function, TracedFunction):
        return _call_traced(kind, function, args, kwargs)
    leaves, structure = flatten(function.parameters.marked(args, kwargs))
    function = function.for_data(map(elements_of, leaves))
    if function.device != "cpu":
        if "out" in kwargs and function.parameters.take_out:
            _check_on_gpu(function.name, kwargs["out"])
        leaves = [leaf._on(function.device) if isinstance(leaf, Stored) else leaf for leaf in leaves]
    arrays = [leaf._array if isinstance(leaf, Stored) else leaf for leaf in leaves]
    noted = None
    if wants_gradient(leaves):
        if "out" in kwargs and function.parameters.take_out:
            raise TypeError(
                f"{function.name}: results that are written to out= are not recorded, and an argument requires a "
                "gradient; call it without out, or in tenon.no_grad()"
            )
        noted = _operands(leaves, arrays)
        keeping = _keeping(function, arrays, structure, noted)
        if keeping is not None and keeping.program is not None:
            return keeping.run(keeping.program, kind, noted)
        if function.parameters.donated:
            # The memory of what a gradient may need is not given away.
            flags = function.parameters.donations(structure)
            arrays = [
                copied(as_data(a, function.name)) if f and is_array(a) else a
                for a, f in zip(arrays, flags, strict=True)
            ]
    given, named = _arguments(function, structure, arrays)
    result = function(*given, **named)
    for leaf in leaves:
        if isinstance(leaf, Stored) and is_donated(leaf._array):
            leaf._own_memory().change()
    found, shape = flatten(result)
    own = {id(leaf._array): leaf for leaf in leaves if isinstance(leaf, Stored)}
    made = [_tensor(kind, array, own) for array in found]
    if noted is not None:
        data = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
        new = [m for m, array in zip(made, found, strict=True) if id(array) not in own]
        operands = [noted[i] for i in data]
        types = [array_type_of(type_of(saved)) for _, saved in operands]
        call, captured = _call(function, arrays, structure, data, types)
        record(call, [*operands, *as_operands(captured)], new)
    return unflatten(shape, made)


def _check_on_gpu(name: str, out: Any) -> None:
    """Raise `TypeError` for a tensor that results are to be written to where it is not on a GPU."""
    for leaf in flatten(out)[0]:
        if isinstance(leaf, Stored) and not is_on_gpu(leaf._array):
            raise TypeError(f"{name}: out has a tensor on the CPU, and the function runs on a GPU; give one there")


def _call_traced(kind: type[Any], function: TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same for a function that is traced at each call: what runs is what is recorded, with what it reads besides
    its arguments, as that is now, as further operands."""
    leaves, structure = flatten((args, kwargs))
    arrays = [leaf._array if isinstance(leaf, Stored) else leaf for leaf in leaves]
    noted = _operands(leaves, arrays) if wants_gradient(leaves) else None
    around = Around() if MODE.records else Captures()
    given, named = unflatten(structure, arrays)
    call = function.trace(given, named, around)
    around = call.captures
    result, shape = flatten(call.run())
    made = [kind._new(as_data(array, call.program.name)) for array in result]
    if isinstance(around, Around) and (noted is not None or around.has_tensors):
        noted = noted or _operands(leaves, arrays)
        operands = [operand for operand, leaf in zip(noted, leaves, strict=True) if is_array(leaf)]
        recorded = call_of(call.program.name, ("inlined", call.program.digest), inlined(call.module))
        record(recorded, [*operands, *around.operands()], made)
    return unflatten(shape, made)


def _operands(leaves: Sequence[Any], arrays: Sequence[Any]) -> list[Operand]:
    """What the tape keeps of the leaves of a call's arguments; floats are as `WideFloat` says."""
    wide = any(getattr(array, "dtype", None) == np.float64 for array in arrays)
    return as_operands([np.asarray(v, _float(wide)) if type(v) is float else v for v in leaves])


def _arguments(
    function: JitFunction, structure: Structure, leaves: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call that these leaves make up."""
    args, kwargs = unflatten(structure, leaves)
    return function._frozen.removed(*function.parameters.unmarked(args, kwargs))


def _key_of(leaf: Any) -> Hashable:
    """What tells a leaf that is no data from others."""
    return static_key(leaf.value, is_trusted=True) if isinstance(leaf, Static) else static_key(leaf)


def _float(wide: bool) -> Any:
    """What floats of Python's are in a call: f64 that counts as f32 but where it meets f64, if there is any."""
    return np.float64 if wide else np.float32


def _tensor(kind: type[Any], leaf: Any, own: dict[int, Any]) -> Any:
    """What was computed, as a tensor; one that was given, where it is that, as with `out`."""
    if id(leaf) in own:
        own[id(leaf)]._own_memory().change()
        return own[id(leaf)]
    if is_on_gpu(leaf):
        return kind._new(leaf)
    return kind._new(np.asarray(leaf)) if isinstance(leaf, np.ndarray | np.generic) else leaf


@dataclass(frozen=True)
class _Keeping:
    """What runs when a function is called where a gradient may be wanted."""

    program: Program | None
    """`None` where there is no gradient."""
    result: Structure
    data: tuple[int, ...]
    """The leaves that are arrays."""
    guards: Guards | None
    captured: Sequence[Any]
    """Arrays on a GPU that the function reads from around it."""

    def run(self, program: Program, kind: type[Any], noted: Sequence[Operand]) -> Any:
        """The results, as tensors that are on the tape."""
        operands = [*[noted[i] for i in self.data], *as_operands(self.captured)]
        found = program.launch(*[saved.array for _, saved in operands if isinstance(saved, Saved)])
        made = [kind._new(array) for array in found[: program.given]]
        record(program.call, operands, made, found[program.given :])
        return unflatten(self.result, made)


_LOCK = new_lock()


def _state() -> Any:
    """What direct calls depend on; `None` while something stands for tensors, or calls wait."""
    return None if TRACING.threads or WAITING.piece is not None else MODE.records


install_state(_state)


class _Recorded:
    """What is kept of the calls of one function on tensors."""

    def __init__(self) -> None:
        self.keeping = Programs[_Keeping](64)
        self.calls: BoundedCache[tuple[Call, Guards | None, Sequence[Any]]] = BoundedCache(64)
        """Calls, with what must be there for them to hold, and their operands behind the arguments."""


def _recorded(function: JitFunction) -> _Recorded:
    if function.recorded is None:
        function.recorded = _Recorded()
    return function.recorded


def _keeping(
    function: JitFunction, arrays: Sequence[Any], structure: Structure, noted: Sequence[Operand]
) -> _Keeping | None:
    """What runs so that what the gradient reads is kept; `None` for arguments of which some have rules of their own:
    integers, floats beside f64, arrays that are not in row-major order."""
    if not function.is_plain or checks_gradients() or knobs.check_results:
        return None
    data: list[int] = []
    types: list[tuple[bool, Type]] = []
    for i, (leaf, (source, saved)) in enumerate(zip(arrays, noted, strict=True)):
        is_data = isinstance(leaf, np.ndarray | float) or is_on_gpu(leaf)
        if is_data and isinstance(saved, Saved) and saved.array.flags.c_contiguous:
            data.append(i)
            types.append((source is not None, type_of(saved)))
        elif is_array(leaf):
            return None
    kinds = {type(arrays[i]) for i in data}
    if float in kinds and any(dtype == np.float64 for _, (dtype, _) in types):
        return None
    others = tuple([_key_of(leaf) for i, leaf in enumerate(arrays) if i not in data])
    key = (structure, others, *types, autocast_element(), generation(), knobs.code_settings)
    kept = _recorded(function).keeping
    found = kept.get(key)
    if found is None:
        function.parameters.signature(*function.parameters.take_apart(*_arguments(function, structure, arrays)))
        with _LOCK:
            kept.say_why(function.name, key)
            made, result, guards, captured = _traced(function, arrays, structure, data, [type_ for _, type_ in types])
            wanted = [*[has_source for has_source, _ in types], *[False] * len(captured)]
            program = program_of(function.name, made, wanted, function.device)
            found = kept.add(function.name, key, _Keeping(program, result, tuple(data), guards, captured))
    return found


def _call(
    function: JitFunction, arrays: Sequence[Any], structure: Structure, data: Sequence[int], types: Sequence[Type]
) -> tuple[Call, Sequence[Any]]:
    """What was called, as it was traced now, and its operands behind the arguments: what the function reads besides
    these counts as it is."""
    others = tuple([_key_of(leaf) for i, leaf in enumerate(arrays) if i not in data])
    kinds = tuple([type(arrays[i]) for i in data])
    key = (structure, others, tuple(types), kinds, autocast_element(), generation())
    known, guards, captured = _recorded(function).calls.get(key) or (None, None, ())
    if known is not None and (guards is None or guards.hold()):
        return known, captured
    module, _, guards, captured = _traced(function, arrays, structure, data, types)
    call = call_of(getattr(function, "__name__", "function"), ("inlined", digest(module)), inlined(module))
    _recorded(function).calls[key] = call, guards, captured
    return call, captured


def _traced(
    function: JitFunction, arrays: Sequence[Any], structure: Structure, data: Sequence[int], types: Sequence[Type]
) -> tuple[ModuleOp, Structure, Guards | None, Sequence[Any]]:
    """The function as IR, of those leaves that are data, the structure of its result, and what must hold for that: what
    it reads besides is constant in it, but for arrays on a GPU, which are operands behind the arguments."""
    others = [leaf for i, leaf in enumerate(arrays) if i not in data]
    reading = Reading(function, others, structure, on_gpu=function.device != "cpu")

    def on_values(*values: Value) -> Any:
        leaves = [*arrays]
        for position, value in zip(data, values, strict=True):
            is_weak = type(arrays[position]) is float and value.dtype == np.float64
            leaves[position] = weak_float(value) if is_weak else value
        args, kwargs = _arguments(function, structure, leaves)
        return function(*args, **kwargs)

    made = trace_types(on_values, types, captures=reading.captures, is_for_later=True)
    return made.module, made.result, reading.guards(), tuple(reading.captures.arrays)
