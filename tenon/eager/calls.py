"""Compiled and transformed functions (`jit`, `grad`, `vmap`...) called on tensors: one call on the tape."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.promotion import weak_float
from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.value import Value, emit
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.eager.backward import array_type_of, trace_types
from tenon.eager.recording import Stored, as_operands, call_of, record, wants_gradient
from tenon.eager.tape import Call, Type, type_of
from tenon.runtime.arguments.arguments import is_array
from tenon.runtime.arguments.tree import Structure, flatten, static_key, unflatten
from tenon.runtime.jit import JitFunction
from tenon.runtime.reads.guards import Guards
from tenon.runtime.reads.reading import Reading
from tenon.runtime.tracing.trace import traced

_MODULES: BoundedCache[tuple[Call, Guards | None]] = BoundedCache(1024)
"""Calls of functions of `jit`, with what must be there for them to hold."""


def call_function(kind: type[Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`function`, which runs on arrays and in traces, of arguments of which some are tensors; so are its results."""
    leaves, structure = flatten((args, kwargs))
    arrays = [leaf._array if isinstance(leaf, Stored) else leaf for leaf in leaves]
    noted = None
    if wants_gradient(leaves):
        wide = any(getattr(array, "dtype", None) == np.float64 for array in arrays)
        noted = as_operands([np.asarray(v, _float(wide)) if type(v) is float else v for v in leaves])
    given, named = unflatten(structure, arrays)
    result = function(*given, **named)
    found, shape = flatten(result)
    own = {id(leaf._array): leaf for leaf in leaves if isinstance(leaf, Stored)}
    made = [_tensor(kind, array, own) for array in found]
    if noted is not None:
        data = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
        new = [m for m, array in zip(made, found, strict=True) if id(array) not in own]
        operands = [noted[i] for i in data]
        call = _call(function, arrays, structure, data, [array_type_of(type_of(saved)) for _, saved in operands])
        record(call, operands, new)
    return unflatten(shape, made)


def _float(wide: bool) -> Any:
    """What floats of Python's are in a call: f64 that counts as f32 but where it meets f64, if there is any."""
    return np.float64 if wide else np.float32


def _tensor(kind: type[Any], leaf: Any, own: dict[int, Any]) -> Any:
    """What was computed, as a tensor; one that was given, where it is that, as with `out`."""
    if id(leaf) in own:
        own[id(leaf)]._own_memory().change()
        return own[id(leaf)]
    return kind._new(np.asarray(leaf)) if isinstance(leaf, np.ndarray | np.generic) else leaf


def _call(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    structure: Structure,
    data: Sequence[int],
    types: Sequence[Type],
) -> Call:
    """What was called, as it was traced now: what the function reads besides its arguments counts as it is."""
    key: Hashable = None
    if isinstance(function, JitFunction):
        others = tuple([static_key(leaf) for i, leaf in enumerate(arrays) if i not in data])
        kinds = tuple([type(arrays[i]) for i in data])
        key = (function, structure, others, tuple(types), kinds, autocast_element(), generation())
        known, guards = _MODULES.get(key) or (None, None)
        if known is not None and (guards is None or guards.hold()):
            return known

    def on_values(*values: Value) -> Any:
        leaves = [*arrays]
        for position, value in zip(data, values, strict=True):
            is_weak = type(arrays[position]) is float and value.dtype == np.float64
            leaves[position] = weak_float(value) if is_weak else value
        args, kwargs = unflatten(structure, leaves)
        return function(*args, **kwargs)

    others = [leaf for i, leaf in enumerate(arrays) if i not in data]
    reading = None if key is None else Reading(function, others, structure)
    module = trace_types(on_values, types, None if reading is None else reading.captures).module
    call = call_of(getattr(function, "__name__", "function"), ("inlined", str(module)), inlined(module))
    if reading is not None:
        _MODULES[key] = call, reading.guards()
    return call


def inlined(module: ModuleOp) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What the function `@main` of a module computes, built where it is called."""
    main = next(op for op in module.ops if isinstance(op, func.FuncOp))

    def apply(values: Sequence[Any]) -> tuple[Any, ...]:
        block = main.body.block
        known: dict[SSAValue, SSAValue] = {
            argument: traced(value).ssa for argument, value in zip(block.args, values, strict=True)
        }
        for op in block.ops:
            if isinstance(op, func.ReturnOp):
                return tuple([Value(known[operand]) for operand in op.operands])
            emit(op.clone(known))
        raise AssertionError("a function returns")

    return apply
