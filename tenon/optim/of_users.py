"""Optimizers that users write for tensors, by PyTorch's base class: groups of parameters, and a state for each."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tenon.dialects.support.plain_arrays import is_stored
from tenon.dialects.support.states import check_state
from tenon.eager.tensor import Tensor
from tenon.nn.utils.gradients import tensors_in
from tenon.runtime.arguments.mapped import mapped


def groups_of(parameters: Any) -> list[dict[str, Any]]:
    """The groups that an optimizer is given: dicts, or else parameters that are one."""
    is_one = isinstance(parameters, Tensor) or hasattr(parameters, "parameters")
    if is_one:
        return [{"params": parameters}]
    items = [*parameters]  # since an iterator gives its items once
    return items if items and all(isinstance(item, dict) for item in items) else [{"params": items}]


class Grouped:
    """What has `param_groups`: dicts of `params`, a list of tensors, and settings."""

    param_groups: list[dict[str, Any]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take the gradients of all parameters away; or, without `set_to_none`, make them zeros."""
        for group in self.param_groups:
            for tensor in group["params"]:
                tensor.grad = None if set_to_none or tensor.grad is None else tensor.new_zeros(tensor.shape)

    def _not_yet_there(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors of a group to add. Raises `ValueError` for one that is in another group."""
        if {*map(id, tensors)} & {id(tensor) for known in self.param_groups for tensor in known["params"]}:
            raise ValueError("a parameter is in two groups")
        return tensors


class OverTensors(Grouped):
    """What an optimizer that changes tensors by itself has: `param_groups`, each with its settings, and `state`, a dict
    for each parameter."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        """`defaults` are settings of the groups that have none of their own."""
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups = []
        for group in groups_of(params):
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Have `group["params"]` changed as well. Raises `ValueError` for a parameter that is in another group."""
        tensors = self._not_yet_there(tensors_in(group["params"]))
        self.param_groups.append({**self.defaults, **group, "params": tensors})

    def state_dict(self) -> dict[str, Any]:
        """The settings of the groups, and the states by the numbers of the parameters."""
        numbers = self._numbers()
        groups = [
            {**group, "params": [numbers[id(tensor)] for tensor in group["params"]]} for group in self.param_groups
        ]
        states = {numbers[id(tensor)]: mapped(state, _array_of) for tensor, state in self.state.items()}
        return {"state": states, "param_groups": groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; raises `ValueError`, changing nothing, where it does not fit."""
        check_state(type(self).__name__, state, ["param_groups", "state"])
        groups, tensors = state["param_groups"], [t for group in self.param_groups for t in group["params"]]
        sizes, given = [len(group["params"]) for group in self.param_groups], [len(group["params"]) for group in groups]
        if sizes != given:
            raise ValueError(
                f"{type(self).__name__}: the state is of groups of {given} parameters, and there are {sizes}"
            )
        for own, group in zip(self.param_groups, groups, strict=True):
            own.update({name: value for name, value in group.items() if name != "params"})
        self.state.clear()
        for number, held in state["state"].items():
            tensor = tensors[int(number)]
            self.state[tensor] = mapped(held, lambda leaf, tensor=tensor: _tensor_of(leaf, tensor))

    def _numbers(self) -> dict[int, int]:
        tensors = [tensor for group in self.param_groups for tensor in group["params"]]
        return {id(tensor): number for number, tensor in enumerate(tensors)}


def _array_of(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy().copy() if isinstance(leaf, Tensor) else leaf


def _tensor_of(leaf: Any, like: Any) -> Any:
    """An array as a tensor, where the parameter is."""
    return Tensor(leaf, device=like.device) if is_stored(leaf) or isinstance(leaf, Tensor) else leaf


__all__ = ["Grouped", "OverTensors", "groups_of"]
