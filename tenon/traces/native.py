"""Calls of traced functions without Python: what native code must know of a program.

It is given the arguments, and behind them what lies around the function. What is changed is changed in its own memory,
so that nothing is left to do where nobody else has that; where somebody has, and for outcomes of other kinds, the call
goes through Python.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.autocast import precision
from tenon.eager.modes import MODE
from tenon.eager.recording import Stored
from tenon.runtime.arguments.arguments import Static
from tenon.runtime.arguments.tree import flatten
from tenon.runtime.call.entry import Entry
from tenon.runtime.call.entry_words import Guard, Leaf, Part, Traced
from tenon.runtime.call.layout import Load, Test
from tenon.runtime.call.steps import WIDE_NUMBERS
from tenon.runtime.executable_cpu import CpuExecutable
from tenon.runtime.reads.guards import guard_at
from tenon.runtime.stages import Compiled
from tenon.traces.outcomes import Made
from tenon.traces.program import Program
from tenon.traces.session import Input


def like_given(leaf: Any) -> Any:
    """An argument as native code is shown it: data as arrays and floats, all else as what it must be."""
    if isinstance(leaf, Stored):
        return leaf._array
    return leaf if isinstance(leaf, np.ndarray) or type(leaf) is float else Static(leaf)


def entry_of(program: Program, call: tuple[Any, Any], leaves: Sequence[Any]) -> Entry | None:
    """What native code must know for calls of a program like one with these arguments, whose leaves were `like_given`;
    `None` where they have to go through Python."""
    plan, inputs = program.plan, program.arguments
    made = program.executable
    is_simple = not (plan.is_recorded or plan.places or plan.grown or plan.refilled or plan.gradients)
    if not is_simple or not isinstance(made, CpuExecutable) or made.memory.is_checked:
        return None
    if any(is_leaf for _, is_leaf, _ in plan.tensors):
        return None
    data = [i for i, leaf in enumerate(leaves) if type(like_given(leaf)) is not Static]
    if [given.argument for given in inputs if given.argument is not None] != data:
        return None
    changed = _changed(program, [donor for donor, _, _ in made.launch({}, ()).results])
    if changed is None or any(
        isinstance(leaves[inputs[i].argument or 0], np.ndarray) for i in changed if i < len(data)
    ):
        return None
    result = _result(program, leaves)
    guards = _used(program)
    if result is None or guards is None:
        return None
    wanted = [_wanted(leaves[position], number in changed) for number, position in enumerate(data)]
    extras: list[tuple[Guard, Any]] = []
    for number, given in enumerate(inputs[len(data) :], len(data)):
        guard, held = _place(given)
        if guard is None:
            return None
        extras.append((guard, like_given(held) if not isinstance(held, np.generic) else held))
        wanted.append(Leaf(is_changed=number in changed))
    for array in program.captured:
        extras.append((Guard(Load.constant, Test.identity, array), array))
        wanted.append(Leaf())
    plain = [n for n in range(len(plan.values)) if n not in {number for number, _, _ in plan.tensors}]
    traced = Traced(1 if MODE.records else 2, extras, wanted, plain, result[0], guards)
    _, structure = flatten(call)
    compiled = Compiled(structure, "cpu", program.name, made, guards=program.guards)
    return compiled.entry_of(call, structure, {}, None, WIDE_NUMBERS, traced=traced, precision=precision())


def _changed(program: Program, donors: Sequence[int]) -> set[int] | None:
    """The inputs that are changed, in their own memory; `None` where one would get other memory."""
    plan, found = program.plan, set[int]()
    targets = [(given, number) for given, number in plan.contents]
    for container, key, number in plan.items:
        given = next((g for g in program.arguments if g.place is not None and g.place.is_at(container, key)), None)
        if given is None:
            return None
        targets.append((given, number))
    for given, number in targets:
        position = next((i for i, known in enumerate(program.arguments) if known is given), -1)
        if position < 0 or donors[number] != position:
            return None
        found.add(position)
    return found


def _wanted(leaf: Any, is_changed: bool) -> Leaf:
    if isinstance(leaf, Stored):
        return Leaf(type(leaf), 1 if leaf._source is None else 2, is_changed)
    return Leaf(np.ndarray if isinstance(leaf, np.ndarray) else None)


def _place(given: Input) -> tuple[Guard | None, Any]:
    """Where an input lies, and what is there now."""
    if given.place is None:
        return Guard(Load.constant, Test.identity, given.tensor), given.tensor
    return guard_at(given.place, Test.identity, None), given.place.get()


def _result(program: Program, leaves: Sequence[Any]) -> tuple[Any] | None:
    """The tree of the result, with the numbers of arrays in it; `None` where it is more than that."""
    parts = [Part(number) for number in range(len(program.plan.values))]
    try:
        return (program.plan.result(Made(leaves, parts, dict(enumerate(parts)))),)
    except AttributeError:  # of a part of a result
        return None


def _used(program: Program) -> list[Guard] | None:
    """That tensors say where their gradients have gone; `None` where these may be others at each call."""
    guards: list[Guard] = []
    for make in program.plan.used:
        try:
            tensor = make(Made((), (), {}))
        except IndexError:  # of an argument
            return None
        if any(given.place is not None and given.tensor is not None for given in program.inputs):
            return None
        guards.append(Guard(Load.attribute, Test.identity, tensor, "_grad", expected=program.used))
    return guards


__all__ = ["entry_of", "like_given"]
