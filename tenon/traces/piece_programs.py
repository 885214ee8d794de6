"""Pieces as programs: the calls of one, and what is compiled of them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.dialects.definition.autocast import autocast
from tenon.dialects.definition.promotion import AdoptingFloat, weak_float
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.eager.backward import is_differentiable, trace_types
from tenon.eager.recording import Stored, as_operands, record
from tenon.eager.residuals import program_of
from tenon.eager.tape import Call, Operand, Saved, Type
from tenon.eager.tensor import Tensor
from tenon.runtime.executables import executable
from tenon.runtime.python_state import collection_paused
from tenon.runtime.stages import FlatCall

_NAME = "piece"


@dataclass
class Step:
    """A call that waits."""

    call: Call
    operands: tuple[Any, ...]
    """The number of a result each, or what is no result: `("input", number)`, `("float", number)`, or a constant."""
    records: bool
    first: int
    """The number of its first result."""
    again: Callable[[Sequence[Any]], Any]
    """The result, for operands that are there."""
    is_view: bool = False
    is_cut: bool = False
    """Whether no gradients go through it, as it was made under `no_grad`."""

    def given(self, results: Sequence[Any], inputs: Sequence[Any], floats: Sequence[Any]) -> list[Any]:
        """The operands."""
        found: list[Any] = []
        for operand in self.operands:
            if type(operand) is int:
                found.append(results[operand])
            else:
                kind = operand[0]
                found.append(
                    inputs[operand[1]] if kind == "input" else floats[operand[1]] if kind == "float" else operand[2]
                )
        return found


@dataclass(frozen=True)
class PieceProgram:
    """What runs in the place of calls."""

    launch: FlatCall
    call: Call | None
    """What is recorded of it, if anything is."""
    given: int
    """How many results are given; what is kept for the gradient comes behind."""
    varying: frozenset[int]
    """The floats that are inputs, behind the arrays; the others are as they were."""

    def run(self, inputs: Sequence[Operand], numbers: Sequence[float]) -> list[Any]:
        """The results as tensors, which are on the tape, for inputs and all floats of a piece."""
        floats = [np.asarray(numbers[i], np.float64) for i in sorted(self.varying)]
        arrays = [saved.array for _, saved in inputs if isinstance(saved, Saved)]
        arrays = [array if array.flags.c_contiguous else array.copy() for array in arrays]
        found = self.launch(*arrays, *floats)
        made = [Tensor._new(array) for array in found[: self.given]]
        if self.call is not None:
            record(self.call, [*inputs, *as_operands(floats)], made, found[self.given :])
        return made


def compiled(
    steps: Sequence[Step],
    inputs: Sequence[tuple[Type, bool]],
    floats: Sequence[float],
    varying: frozenset[int],
    outputs: Sequence[int],
    is_recorded: bool,
) -> PieceProgram | None:
    """The program that makes calls on inputs of such types, some with gradients, and on `varying` ones of the floats;
    `None` where it has a gradient and cannot keep what that needs."""
    numbers = sorted(varying)

    def replayed(*values: Value) -> Any:
        numbered: list[Any] = [*floats]
        for number, value in zip(numbers, values[len(inputs) :], strict=True):
            numbered[number] = AdoptingFloat(weak_float(value).ssa)
        results: list[Value] = []
        for step in steps:
            for result in step.call.apply(step.given(results, values, numbered)):
                is_cut = step.is_cut and is_differentiable(result.dtype)
                results.append(ops.stop_gradient(result) if is_cut else result)
        return tuple([results[slot] for slot in outputs])

    types = [*[type_ for type_, _ in inputs], *[(np.dtype(np.float64), ())] * len(numbers)]
    with collection_paused(), autocast(enabled=False):
        module = trace_types(replayed, types).module
        if not is_recorded:
            return PieceProgram(FlatCall(executable(module, "cpu", _NAME), _NAME), None, len(outputs), varying)
        made = program_of(_NAME, module, [*[wanted for _, wanted in inputs], *[False] * len(numbers)], "cpu")
    return None if made is None else PieceProgram(made.launch, made.call, made.given, varying)


def again(function: Any, operands: Sequence[Any], settings: dict[str, Any]) -> Callable[[Sequence[Any]], Any]:
    """What calls a function of an op, or an op, with operands in groups like these."""
    groups = [None if o is None else len(o) if isinstance(o, tuple) else -1 for o in operands]

    def call(values: Sequence[Any]) -> Any:
        rest = iter(values)
        given = [
            None if group is None else next(rest) if group < 0 else tuple([next(rest) for _ in range(group)])
            for group in groups
        ]
        if hasattr(function, "op"):
            return function(*given, **settings)
        return Tensor.__tenon_op__(function, given, settings)

    return call


_TYPES: BoundedCache[tuple[Sequence[Type], bool]] = BoundedCache(4096)
"""Of calls on such operands the types of the results, and whether these are a tuple."""


def types_of(call: Call, op: Any, operands: Sequence[Any], settings: dict[str, Any]) -> tuple[Sequence[Type], bool]:
    """The types of the results of a call of an op, and whether these are a tuple. Raises what the op raises for such
    operands."""
    key = call, *map(_kind, flat(operands))
    known = _TYPES.get(key)
    if known is None:
        known = _TYPES[key] = _found_types(op, operands, settings)
    return known


def _kind(given: Any) -> Hashable:
    """What the types of results depend on."""
    if isinstance(given, Stored):
        laid = given._laid
        return laid.dtype, laid.shape
    if isinstance(given, np.ndarray):
        return given.dtype, given.shape, "array"
    return float if type(given) is float else (type(given), given)


def _found_types(op: Any, operands: Sequence[Any], settings: dict[str, Any]) -> tuple[Sequence[Type], bool]:
    given = flat(operands)
    data = [i for i, v in enumerate(given) if isinstance(v, Stored | np.ndarray)]
    laid = [v._laid if isinstance(v, Stored) else v for v in map(given.__getitem__, data)]
    found: list[Any] = []

    def apply(*values: Value) -> Any:
        among = [*given]
        for position, value in zip(data, values, strict=True):
            among[position] = value
        rest = iter(among)
        found.append(op.apply(*map_grouped(lambda _: next(rest), operands), **settings))
        return found[-1]

    trace_types(apply, [(array.dtype, array.shape) for array in laid])
    is_tuple = isinstance(found[-1], tuple)
    return [(value.dtype, value.shape) for value in (found[-1] if is_tuple else (found[-1],))], is_tuple


def fixed(setting: Any) -> Hashable:
    """A setting as part of a key. Raises `TypeError` for what may be data, or may change."""
    kind = type(setting)
    if kind is float:
        return float, setting.hex()
    if kind is tuple or kind is list:
        return kind, *[fixed(part) for part in setting]
    if kind is dict:
        return dict, *[(name, fixed(part)) for name, part in setting.items()]
    if kind in _CONSTANTS:
        return kind, setting
    raise TypeError(f"a {kind.__name__} is no setting")


_CONSTANTS = frozenset((int, bool, str, type(None), type, np.dtype))

__all__ = ["PieceProgram", "Step", "again", "compiled", "fixed", "types_of"]
