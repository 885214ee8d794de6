"""Ops called on concrete arrays run at once: one executable per op, settings and operand types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.promotion import adopted, is_literal
from tenon.dialects.definition.registry import generation, install_evaluator
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.types.types import array_type, numpy_dtype
from tenon.runtime.arguments.arguments import as_array
from tenon.runtime.arguments.tree import flatten, paths, unflatten
from tenon.runtime.knobs import knobs
from tenon.runtime.stages import Compiled, Traced
from tenon.runtime.tracing.trace import trace

_COMPILED: BoundedCache[Compiled] = BoundedCache(4096)


def evaluate(cls: type[TensorOp], operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The result of op `cls` on arrays and numbers (an array, or a tuple of them)."""
    known = cls.known_settings(settings)
    grouped = _arrays(cls, operands)
    arrays = flat(grouped)
    groups = tuple([len(o) if isinstance(o, tuple) else o is None for o in grouped])
    signature = tuple([(array.dtype, array.shape) for array in arrays])
    # What other settings gave is not meant, nor what was made before an op was defined again.
    key = (cls, groups, known.identity, signature, knobs.interpret, knobs.code_settings, generation())
    compiled = _COMPILED.get(key)
    if compiled is None:
        _, structure = flatten((tuple(grouped), {}))
        types = [array_type(array) for array in arrays]
        names = [name.removeprefix("0.") for name in paths(structure)]
        traced = trace(lambda args, _: cls.apply(*args, **settings), structure, arrays, types, names)
        compiled = Traced(traced.module, traced.result, "cpu", cls.name.rpartition(".")[2]).compile()
        _COMPILED[key] = compiled
    return unflatten(compiled.result, compiled.executable.run(arrays))


def _arrays(cls: type[TensorOp], operands: Sequence[Any]) -> list[Any]:
    """Operands as arrays; numbers become arrays of the dtype that they would adopt."""
    targets = iter(cls.operand_elements(operands))

    def convert(value: Any) -> np.ndarray[Any, Any]:
        where, element = next(targets)
        if is_literal(value):
            return np.asarray(adopted(value, element, where), numpy_dtype(element))
        return as_array(value, where)

    return map_grouped(convert, operands)


install_evaluator(evaluate)
