"""Optimizers for tensors: `step()` changes parameters in place, by the same rules as `update`, as one program."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import on_host
from tenon.dialects.support.states import check_state
from tenon.dialects.support.suggestion import did_you_mean
from tenon.eager.changes import replace as replace_elements
from tenon.eager.changes import restorer
from tenon.eager.modes import TRACING, enable_grad, no_grad
from tenon.eager.tensor import Tensor
from tenon.nn.utils.gradients import tensors_in
from tenon.optim.of_users import Grouped, groups_of
from tenon.runtime.arguments.tree import flatten, unflatten
from tenon.runtime.cuda.arrays import beside
from tenon.runtime.jit import JitFunction, jit


class Steps(Grouped):
    """An optimizer over tensors; made by `Optimizer.over`.

    `param_groups` are dicts of `params` (a list of tensors) and settings of the optimizer, which may be changed between
    steps. If a step fails, parameters and state are as they were before it.
    """

    def __init__(self, rule: Any, parameters: Any) -> None:
        self._rule = rule
        self._names = [field.name for field in fields(rule)]
        self.param_groups: list[dict[str, Any]] = []
        self._states: list[dict[str, Any] | None] = []
        for group in groups_of(parameters):
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Have `group["params"]` changed as well, with the settings that the group has, or else the optimizer's; what
        else the group has is the user's, unless it is called nearly as a setting."""
        others = {name: value for name, value in group.items() if name not in ("params", *self._names)}
        if unknown := [(name, meant) for name in others if (meant := did_you_mean(name, self._names))]:
            raise ValueError(f"{type(self._rule).__name__} has no setting {unknown[0][0]}{unknown[0][1]}")
        if "params" not in group:
            has = ", ".join(group) or "nothing"
            raise ValueError(f"{type(self._rule).__name__}: a group lacks params; it has {has}")
        made = {name: group.get(name, getattr(self._rule, name)) for name in self._names}
        tensors = self._not_yet_there(tensors_in(group["params"]))
        if computed := [number for number, tensor in enumerate(tensors) if not tensor.is_leaf]:
            raise ValueError(
                f"{type(self._rule).__name__}: parameter {computed[0]} was computed of others, and has no gradient of "
                "its own; give the optimizer what it was computed of, or its detach()"
            )
        replace(self._rule, **made).check_shapes({str(i): tensor.shape for i, tensor in enumerate(tensors)})
        self.param_groups.append({"params": tensors, **made, **others})
        self._states.append(None)

    @property
    def lr(self) -> float:
        """The learning rate of groups that have none of their own, as the optimizer was made."""
        return self._rule.lr

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change all parameters that have gradients. `closure`, where there is one, computes these, and the loss that
        is returned.

        Raises `ValueError` where no parameter has a gradient.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            asked = {position: call for position in range(len(self._states)) if (call := self._call(position))}
            if not asked:
                raise ValueError(f"{type(self._rule).__name__}: no parameter has a gradient; call backward() first")
            rules, states, calls = zip(*asked.values(), strict=True)
            made = [rules[0].update(*calls[0])] if len(calls) == 1 else _together(rules)(calls)
            after = [(changed, _joined(state, new)) for state, (changed, new) in zip(states, made, strict=True)]
            self._take_over(dict(zip(asked, after, strict=True)))
        return loss

    def step_if(self, condition: Any) -> None:
        """`step()` in a trace, whose program leaves parameters and state as they are where a truth value is false."""
        self._begin()
        tensors = [tensor for group in self.param_groups for tensor in group["params"]]
        arrays, states = [tensor._array for tensor in tensors], [*self._states]
        self.step()
        with no_grad():
            for tensor, before in zip(tensors, arrays, strict=True):
                if tensor._array is not before:
                    chosen = chosen_of(condition._array, tensor._array, before)
                    replace_elements(tensor, Tensor._new(chosen), "step")
        self._states = chosen_of(condition._array, self._states, states)

    def _take_over(self, made: Mapping[int, tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """Give parameters and states of groups what a step made of them: all, or, if that is interrupted, none."""
        undo: list[Callable[[], None]] = []
        states = self._states
        try:
            for position, (changed, _) in made.items():
                for number, array in changed.items():
                    tensor = self.param_groups[position]["params"][int(number)]
                    undo.append(restorer(tensor))
                    replace_elements(tensor, Tensor._new(array), "step")
                    if TRACING.session is not None:
                        TRACING.session.stepped.add(id(tensor))
            self._states = [made[i][1] if i in made else state for i, state in enumerate(states)]
        except BaseException:
            self._states = states
            for restore in reversed(undo):
                restore()
            raise

    def _call(self, position: int) -> tuple[Any, dict[str, Any], tuple[Any, ...]] | None:
        """The rule of a group, its state, and what `update` is given for the parameters that have gradients, by their
        numbers; `None` where none has."""
        group = self.param_groups[position]
        own = {str(number): tensor for number, tensor in enumerate(group["params"])}
        slopes = {name: tensor.grad._array for name, tensor in own.items() if tensor.grad is not None}
        if not slopes:
            return None
        changing = self._changing(group)
        rule = self._rule_of(group)
        replace(rule, **changing)  # raises for settings that do not fit
        rule.check_rate(group["lr"])
        arrays = {name: tensor._array for name, tensor in own.items()}
        state = self._states[position]
        state = rule.init(arrays) if state is None else _beside(state, arrays)
        values = {name: own[name]._array for name in slopes}
        return rule, state, (values, slopes, _part(state, slopes), group["lr"], changing)

    def _begin(self) -> None:
        """Make the states that are there before the first step."""
        for position, group in enumerate(self.param_groups):
            if self._states[position] is None:
                own = {str(number): tensor._array for number, tensor in enumerate(group["params"])}
                self._states[position] = self._rule_of(group).init(own)

    def __tenon_begin__(self) -> None:
        """What happens before `tenon.trace` traces a function that reaches this: states are there, so that the program
        of the first step is that of all others."""
        if not any(tensor._is_traced for group in self.param_groups for tensor in group["params"]):
            with suppress(TypeError, ValueError):  # which a step says, if there is one
                self._begin()

    def _rule_of(self, group: dict[str, Any]) -> Any:
        """The optimizer with the settings of a group, but for those that change from step to step."""
        changing = self._changing(group)
        return replace(self._rule, **{name: group[name] for name in self._names if name not in ("lr", *changing)})

    def __tenon_numbers__(self) -> tuple[str, ...]:
        """What `tenon.trace` takes as inputs, since it changes from step to step: the rate, and what schedules have
        changed."""
        changing = [name for name in self._rule.CHANGING if all(group[name] for group in self.param_groups)]
        return ("lr", *[name for name in changing if any(name in self._changing(group) for group in self.param_groups)])

    def _changing(self, group: dict[str, Any]) -> dict[str, Any]:
        """The settings that a schedule has changed, which are given to the program instead of being in it."""
        made = {name: (group[name], getattr(self._rule, name)) for name in self._rule.CHANGING}
        return {name: now for name, (now, first) in made.items() if _is_traced(now) or (now != first and now and first)}

    def state_dict(self) -> dict[str, Any]:
        """Settings of the groups and the state, as dicts, lists, numbers and arrays."""
        settings = [{name: group[name] for name in self._names} for group in self.param_groups]
        return {"param_groups": settings, "state": [_copied(state) for state in self._states]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; raises `ValueError`, changing nothing, where it does not fit."""
        check_state(type(self._rule).__name__, state, ["param_groups", "state"])
        groups, states = state["param_groups"], state["state"]
        if len(groups) != len(self.param_groups) or len(states) != len(groups):
            own = [len(group["params"]) for group in self.param_groups]
            raise ValueError(
                f"{type(self._rule).__name__}: the state is of {len(groups)} groups of parameters, and there are "
                f"{len(own)}, of {', '.join(map(str, own))} parameters; make the groups as they were when it was saved"
            )
        for number, (own, group, given) in enumerate(zip(self.param_groups, groups, states, strict=True)):
            if lacking := [name for name in self._names if name not in group and name not in self._rule.ADDED]:
                raise ValueError(
                    f"{type(self._rule).__name__}: group {number} of the state lacks {', '.join(lacking)}; it has "
                    f"{', '.join(sorted(group)) or 'nothing'}, which is of another optimizer"
                )
            rule = replace(self._rule, **self._settings_of(group))
            if given is not None:
                like = {str(i): tensor._array for i, tensor in enumerate(own["params"])}
                expected = {path: _shape(leaf) for path, leaf in _flat(rule.start(like)).items()}
                found = {path: _shape(leaf) for path, leaf in _flat(given).items()}
                if found != expected:
                    path = sorted({*found.items()} ^ {*expected.items()})[0][0]
                    raise ValueError(
                        f"the state does not fit the parameters: {path} of group {number} has shape "
                        f"{found.get(path, 'none')} in the state and {expected.get(path, 'none')} here"
                    )
        for own, group in zip(self.param_groups, groups, strict=True):
            own.update(self._settings_of(group))
        self._states = [_copied(given) for given in states]

    def _settings_of(self, group: dict[str, Any]) -> dict[str, Any]:
        """The settings in a group of a state; those that it lacks, being older, are the optimizer's."""
        return {name: group.get(name, getattr(self._rule, name)) for name in self._names}

    def __repr__(self) -> str:
        return f"{self._rule!r}.over({sum(len(group['params']) for group in self.param_groups)} parameters)"


def _is_traced(setting: Any) -> bool:
    """Whether a setting, a number or several, is an input of the function that is traced."""
    return any(isinstance(number, Value) for number in (setting if isinstance(setting, tuple) else (setting,)))


def chosen_of(condition: Any, one: Any, other: Any) -> Any:
    """The leaves of one tree or the other's, which has the same structure."""
    first, structure = flatten(one)
    second, _ = flatten(other)
    leaves = [a if a is b else tenon.select(condition, a, b) for a, b in zip(first, second, strict=True)]
    return unflatten(structure, leaves)


@lru_cache(maxsize=64)
def _together(rules: tuple[Any, ...]) -> JitFunction:
    """The steps of several groups as one program."""

    def step(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [rule.update(*call) for rule, call in zip(rules, calls, strict=True)]

    return jit(step)


def _part(state: Any, names: Any) -> Any:
    """The state of some parameters: dicts by parameters have only these."""
    return {
        key: {name: value[name] for name in names if name in value} if isinstance(value, dict) else value
        for key, value in state.items()
    }


def _joined(state: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: {**state[key], **value} if isinstance(value, dict) else value for key, value in after.items()}


def _shape(leaf: Any) -> tuple[int, ...]:
    return tuple(leaf.shape) if hasattr(leaf, "shape") else np.shape(leaf)


def _copied(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _copied(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_copied(value) for value in state]
    return None if state is None else np.array(on_host(state))


def _beside(state: Any, own: dict[str, Any]) -> dict[str, Any]:
    """The state of a group, where its parameters are: these may have been moved, or the state loaded."""
    kinds = {*map(type, own.values())}
    for value in state.values():
        kinds |= {*map(type, value.values())} if isinstance(value, dict) else {type(value)}
    if kinds == {np.ndarray}:  # as it takes less long to find out than to put together again
        return state
    first = next(iter(own.values()))
    return {
        key: {name: beside(array, own[name]) for name, array in value.items()}
        if isinstance(value, dict)
        else beside(value, first)
        for key, value in state.items()
    }


def _flat(state: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in state.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


class Average:
    """The exponential moving average of parameters: after each `update()`, a ← decay·a + (1 - decay)·p.

    `with average.applied():` the parameters have the averages as their elements.
    """

    def __init__(self, parameters: Any, decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"Average: decay is {decay}, outside of [0, 1]")
        self.decay = decay
        self._tensors = tensors_in(parameters)
        self.values = [tensor.detach().clone() for tensor in self._tensors]

    def update(self) -> None:
        """Let the averages follow the parameters as they are."""
        for value, tensor in zip(self.values, self._tensors, strict=True):
            value += (tensor.detach() - value) * (1 - self.decay)

    def state_dict(self) -> dict[str, Any]:
        """The averages."""
        return {"values": _copied([value._array for value in self.values])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; raises `ValueError`, changing nothing, where it does not fit."""
        check_state("Average", state, ["values"])
        given = [np.asarray(value) for value in state["values"]]
        if len(given) != len(self.values):
            raise ValueError(f"Average: there are {len(self.values)} values, and in the state {len(given)}")
        for number, (own, value) in enumerate(zip(self.values, given, strict=True)):
            if own.shape != value.shape:
                raise ValueError(f"Average: value {number} has shape {own.shape}, and in the state {value.shape}")
        for own, value in zip(self.values, given, strict=True):
            own.copy_(value)

    def applied(self) -> Applied:
        """A context in which the parameters are the averages."""
        return Applied(self._tensors, self.values)


class Applied:
    """Tensors have other elements until the block ends."""

    def __init__(self, tensors: Sequence[Tensor], values: Sequence[Any]) -> None:
        self._tensors, self._values = tensors, values
        self._kept: list[Any] = []

    def __enter__(self) -> None:
        self._kept = [tensor.detach().clone() for tensor in self._tensors]
        self._give(self._values)

    def __exit__(self, *_: object) -> None:
        self._give(self._kept)

    def _give(self, values: Sequence[Any]) -> None:
        with no_grad():
            for tensor, value in zip(self._tensors, values, strict=True):
                tensor[...] = value
