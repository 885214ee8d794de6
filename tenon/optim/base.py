"""The base of optimizers: pure functions of (parameters, gradients, state), so that a training step is one program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tenon.dialects.definition.value import Value, insertion_point
from tenon.dialects.support.plain_arrays import is_stored
from tenon.dialects.support.suggestion import check_keywords
from tenon.dialects.types.types import element_type, is_float
from tenon.nn import Module
from tenon.optim.of_users import OverTensors
from tenon.optim.stepping import Steps
from tenon.runtime.arguments.tree import copied, flatten, paths, unflatten
from tenon.runtime.cuda.arrays import placed
from tenon.runtime.jit import JitFunction, jit

Arrays = dict[str, Any]


def trainable(tree: Any) -> Arrays:
    """The arrays of `tree` that an optimizer changes, by path: a module's parameters, any other tree's floating-point
    leaves.
    """
    if isinstance(tree, Module):
        return dict(tree.named_arrays(remove_duplicate=False))
    return {path: leaf for path, leaf in _leaves(tree).items() if hasattr(leaf, "dtype") and _is_float(leaf)}


def _leaves(tree: Any) -> Arrays:
    """The leaves of `tree` by path; raises `ValueError` where two have one path, as in `{1: x, "1": y}`."""
    leaves, structure = flatten(tree)
    named: Arrays = {}
    for path, leaf in zip(paths(structure), leaves, strict=True):
        if path in named:
            raise ValueError(f"two leaves are called {path}; give the keys names that differ")
        named[path] = leaf
    return named


def _is_float(leaf: Any) -> bool:
    return is_float(element_type(leaf.dtype))


def with_values(tree: Any, values: Arrays) -> Any:
    """A copy of `tree` with the arrays at the paths of `values` replaced.

    Raises `ValueError` for a path that the tree, or a module's parameters, do not have.
    """
    if isinstance(tree, Module):
        module = copied(tree)
        module.set_parameters(values)
        return module
    named = _leaves(tree)
    if unknown := [path for path in values if path not in named]:
        raise ValueError(f"there is no leaf {', '.join(unknown)} to replace")
    return unflatten(flatten(tree)[1], list((named | values).values()))


def is_parameters(given: Any) -> bool:
    """Whether an optimizer is given a module or several parameters, where a number is its learning rate."""
    return hasattr(given, "parameters") or (isinstance(given, Iterable) and not hasattr(given, "dtype"))


_HOW = ("capturable", "foreach", "fused")


class Optimizer(OverTensors):
    """Base of the optimizers: `state = init(params)`, then `params, state = update(params, gradients, state)`.

    A class of yours that is no dataclass is one for tensors, as in PyTorch: it calls `super().__init__(params,
    defaults)`, and its `step()` changes what is in `param_groups` by the gradients, in `no_grad`.

    `Adam(model.parameters(), lr=1e-3)` is `Adam(lr=1e-3).over(model.parameters())`, where PyTorch's settings of how a
    step is computed (`foreach`, `fused`, `capturable`) mean nothing: each is one program. With `maximize`, steps are
    along gradients instead of against them.
    """

    lr: float
    maximize = False
    CHANGING: ClassVar[tuple[str, ...]] = ()
    """The settings, besides the learning rate, that schedules change from step to step."""
    ADDED: ClassVar[tuple[str, ...]] = ("maximize",)
    """The settings that states of earlier versions lack."""

    if not TYPE_CHECKING:  # type checkers make the arguments of the fields

        def __new__(cls, *args: Any, **settings: Any) -> Any:
            """An optimizer, or, with parameters as the first argument, as in PyTorch, one over these (`over`)."""
            given = "params" in settings
            if not is_dataclass(cls):
                return object.__new__(cls)
            if given or (args and is_parameters(args[0])):
                params = settings.pop("params") if given else args[0]
                for name in _HOW:
                    settings.pop(name, None)
                return cls(*args[0 if given else 1 :], **settings).over(params)
            check_keywords(cls, settings)
            return object.__new__(cls)

    def init(self, params: Any) -> dict[str, Any]:
        """The state before the first step.

        Raises `ValueError` when there is nothing to train, and when one array is two parameters, which a step would
        turn into two different ones.
        """
        self._check_params(params)
        seen: dict[int, str] = {}
        for name, value in trainable(params).items():
            first = seen.setdefault(id(value), name)
            if first != name:
                raise ValueError(f"{first} and {name} are one array; keep it in one place and use it twice in forward")
        return self.started(params)

    def started(self, params: Any) -> dict[str, Any]:
        """The state before the first step, its arrays where parameters are: what is on the host where the first one
        is, so that programs for later steps, whose state was computed there, are programs for the first one."""
        leaves, structure = flatten(self.start(params))
        first = next(iter(trainable(params).values()))
        return unflatten(structure, [placed(v, None, first) if is_stored(v) else v for v in leaves])

    def over(self, parameters: Any) -> Steps:
        """The optimizer for tensors, which its `step()` changes in place by their `grad`.

        `parameters` is a module, an iterable of tensors, or one of dicts with `params` and settings that differ.
        """
        return Steps(self, parameters)

    def start(self, params: Any) -> dict[str, Any]:
        """The state before the first step; what optimizers define."""
        raise NotImplementedError(f"{type(self).__name__} does not define start")

    def update(
        self, params: Any, gradients: Any, state: dict[str, Any], lr: Any = None, settings: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Parameters and state after a step along `gradients` (a tree like `params`).

        `lr` (a number, or a traced one that changes from step to step) takes the place of the optimizer's own, and so
        do `settings` by name (`momentum`, `betas`). Raises `ValueError` or `TypeError` naming the leaf for gradients
        and states that do not belong to the parameters.
        """
        if lr is not None:
            self.check_rate(lr)
        if settings and (unknown := [name for name in settings if name not in self.CHANGING]):
            raise ValueError(f"{type(self).__name__}: {', '.join(unknown)} cannot change from step to step")
        if insertion_point() is None:
            return _compiled(self)(params, gradients, state, lr, settings)
        if settings:
            return replace(self, **settings).update(params, gradients, state, lr)  # pyright: ignore
        self._check_params(params)
        values, slopes = trainable(params), trainable(gradients)
        self._check_like("gradients", slopes, values)
        self._check_like("state", _leaves(state), _leaves(self.start(params)))
        if self.maximize:
            slopes = each(lambda g: -g, slopes)
        changed, state = self.step(values, slopes, state, self.lr if lr is None else lr)
        return with_values(params, changed), state

    def check_rate(self, lr: Any) -> None:
        """Raise unless `lr` is one number that is at least 0, or a traced one."""
        name = type(self).__name__
        if not hasattr(lr, "shape") or isinstance(lr, np.generic):
            check_number(f"{name}: lr", lr)
        elif tuple(lr.shape):
            raise ValueError(f"{name}: lr has shape {tuple(lr.shape)} where one number is needed")
        elif isinstance(lr, np.ndarray):
            check_number(f"{name}: lr", lr[()])

    def _check_params(self, params: Any) -> None:
        name, values = type(self).__name__, trainable(params)
        for path, leaf in values.items():
            if not hasattr(leaf, "dtype") or not _is_float(leaf):
                raise TypeError(f"{name}: {path} is {_shown(leaf)}, which cannot be trained; make it a buffer")
        if not values:
            found = ", ".join(f"{path} is {_shown(leaf)}" for path, leaf in _leaves(params).items())
            raise ValueError(f"{name}: there is nothing floating-point to train ({found or 'no arrays'})")
        self.check_shapes({path: tuple(leaf.shape) for path, leaf in values.items()})

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise `ValueError` for parameters of shapes that the optimizer does not take; it takes all, unless it says
        otherwise."""

    def _check_like(self, what: str, given: Arrays, like: Arrays) -> None:
        """Raise unless the leaves of `given` are called as those of `like` and have their shapes and dtypes."""
        name = type(self).__name__
        if lacking := [path for path in like if path not in given]:
            raise ValueError(f"{name}: {what} lack{'s' * (what == 'state')} {', '.join(lacking)}")
        if others := [path for path in given if path not in like]:
            raise ValueError(f"{name}: {what} ha{'s' if what == 'state' else 've'} {', '.join(others)}, unlike params")
        for path, leaf in given.items():
            found, needed = _shown(leaf), _shown(like[path])
            if found != needed:
                raise ValueError(f"{name}: {path} is {found} in {what} where {needed} is needed")

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        """New values and state; what optimizers define."""
        raise NotImplementedError(f"{type(self).__name__} does not define step")


def _shown(leaf: Any) -> str:
    """A leaf as errors print it: `f32[3, 4]`, or the kind of what is no array."""
    kind = getattr(leaf, "dtype", None)
    return f"a {type(leaf).__name__}" if kind is None else f"{element_type(kind)}{list(leaf.shape)}"


def is_on(setting: Any) -> bool:
    """Whether a number is not 0; a traced one is taken not to be."""
    return isinstance(setting, Value) or bool(setting)


def check_number(where: str, value: Any, below: float = math.inf) -> None:
    """Raise unless `value` is a number that is at least 0 and less than `below`, or a traced one."""
    if isinstance(value, Value) and not tuple(value.shape):
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise TypeError(f"{where} is {value!r} where a number is needed")
    if not 0 <= value < below:
        raise ValueError(f"{where} is {value}, outside of [0, {below})")


@lru_cache(maxsize=64)
def _compiled(optimizer: Optimizer) -> JitFunction:
    """The step of `optimizer` as a program of its own, for calls outside of a trace."""
    return jit(optimizer.update)


def zeros(params: Any, number: float = 0) -> Arrays:
    """An array like each parameter, where that is, of zeros, or of another number."""
    return {n: placed(np.full(v.shape, number, v.dtype), None, v) for n, v in trainable(params).items()}


def zeros_of(params: Any, dtype: Any) -> Arrays:
    """A zero for each parameter, where that is."""
    return {name: placed(np.zeros((), dtype), None, value) for name, value in trainable(params).items()}


def each(function: Callable[..., Any], *groups: Arrays) -> Arrays:
    return {name: function(*[group[name] for group in groups]) for name in groups[0]}


def check_settings(optimizer: Optimizer, *names: str) -> None:
    name = type(optimizer).__name__
    check_number(f"{name}: lr", optimizer.lr)
    for setting in names:
        check_number(f"{name}: {setting}", getattr(optimizer, setting))
