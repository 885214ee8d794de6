"""Optimizers: pure functions of (parameters, gradients, state), so that a training step is one compiled function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.value import Value, insertion_point
from tenon.dialects.types.types import element_type, is_float
from tenon.nn import Module
from tenon.runtime.arguments.tree import copied, flatten, paths, static_field, unflatten
from tenon.runtime.jit import JitFunction, jit

Arrays = dict[str, Any]


def trainable(tree: Any) -> Arrays:
    """The arrays of `tree` that an optimizer changes, by path: a module's parameters, any other tree's floating-point
    leaves.
    """
    if isinstance(tree, Module):
        return tree.named_parameters()
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


class Optimizer:
    """Base of the optimizers: `state = init(params)`, then `params, state = update(params, gradients, state)`."""

    lr: float

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
        return self.start(params)

    def start(self, params: Any) -> dict[str, Any]:
        """The state before the first step; what optimizers define."""
        raise NotImplementedError(f"{type(self).__name__} does not define start")

    def update(self, params: Any, gradients: Any, state: dict[str, Any], lr: Any = None) -> tuple[Any, dict[str, Any]]:
        """Parameters and state after a step along `gradients` (a tree like `params`).

        `lr` (a number, or a traced one that changes from step to step) takes the place of the optimizer's own. Raises
        `ValueError` or `TypeError` naming the leaf for gradients and states that do not belong to the parameters.
        """
        if lr is not None:
            _check_rate(type(self).__name__, lr)
        if insertion_point() is None:
            return _compiled(self)(params, gradients, state, lr)
        self._check_params(params)
        values, slopes = trainable(params), trainable(gradients)
        self._check_like("gradients", slopes, values)
        self._check_like("state", _leaves(state), _leaves(self.start(params)))
        changed, state = self.step(values, slopes, state, self.lr if lr is None else lr)
        return with_values(params, changed), state

    def _check_params(self, params: Any) -> None:
        name, values = type(self).__name__, trainable(params)
        for path, leaf in values.items():
            if not hasattr(leaf, "dtype") or not _is_float(leaf):
                raise TypeError(f"{name}: {path} is {_shown(leaf)}, which cannot be trained; make it a buffer")
        if not values:
            found = ", ".join(f"{path} is {_shown(leaf)}" for path, leaf in _leaves(params).items())
            raise ValueError(f"{name}: there is nothing floating-point to train ({found or 'no arrays'})")

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


def _check_number(where: str, value: Any, below: float = math.inf) -> None:
    """Raise unless `value` is a number that is at least 0 and less than `below`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise TypeError(f"{where} is {value!r} where a number is needed")
    if not 0 <= value < below:
        raise ValueError(f"{where} is {value}, outside of [0, {below})")


def _check_rate(name: str, lr: Any) -> None:
    """Raise unless `lr` is one number that is at least 0, or a traced one."""
    if not hasattr(lr, "shape") or isinstance(lr, np.generic):
        _check_number(f"{name}: lr", lr)
    elif tuple(lr.shape):
        raise ValueError(f"{name}: lr has shape {tuple(lr.shape)} where one number is needed")
    elif isinstance(lr, np.ndarray):
        _check_number(f"{name}: lr", lr[()])


@lru_cache(maxsize=64)
def _compiled(optimizer: Optimizer) -> JitFunction:
    """The step of `optimizer` as a program of its own, for calls outside of a trace."""
    return jit(optimizer.update)


def _zeros(params: Any) -> Arrays:
    return {name: np.zeros(value.shape, value.dtype) for name, value in trainable(params).items()}


def _each(function: Callable[..., Any], *groups: Arrays) -> Arrays:
    return {name: function(*[group[name] for group in groups]) for name in groups[0]}


def _check_settings(optimizer: Optimizer, *names: str) -> None:
    name = type(optimizer).__name__
    if isinstance(optimizer.lr, Value):
        _check_rate(name, optimizer.lr)
    else:
        _check_number(f"{name}: lr", optimizer.lr)
    for setting in names:
        _check_number(f"{name}: {setting}", getattr(optimizer, setting))


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent: v ← momentum·v + g + weight_decay·p, then p ← p - lr·v (with `nesterov`, p - lr·(g +
    momentum·v)).

    Source: PyTorch's documentation of `torch.optim.SGD`, with dampening 0.
    """

    lr: float = static_field(1e-2)
    momentum: float = static_field(0.0)
    weight_decay: float = static_field(0.0)
    nesterov: bool = static_field(False)

    def __post_init__(self) -> None:
        _check_settings(self, "momentum", "weight_decay")
        if self.nesterov and not self.momentum:
            raise ValueError("SGD: nesterov needs a momentum, which is 0")

    def start(self, params: Any) -> dict[str, Any]:
        return {"velocity": _zeros(params) if self.momentum else {}}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        if self.weight_decay:
            slopes = _each(lambda g, p: g + p * self.weight_decay, slopes, values)
        if not self.momentum:
            return _each(lambda p, g: _moved(p, g, lr), values, slopes), state
        velocity = _each(lambda v, g: v * self.momentum + g, state["velocity"], slopes)
        direction = _each(lambda g, v: g + v * self.momentum, slopes, velocity) if self.nesterov else velocity
        return _each(lambda p, d: _moved(p, d, lr), values, direction), {"velocity": velocity}


def _moved(value: Any, direction: Any, rate: Any) -> Any:
    """`value - rate * direction` in the dtype of `value`."""
    return _of_dtype(value - direction * _like(rate, value), value)


def _of_dtype(number: Any, value: Any) -> Any:
    """`number` in the dtype of `value`, which most often it has."""
    return number if number.dtype == value.dtype else tenon.cast(number, dtype=value.dtype)


def _like(number: Any, value: Any) -> Any:
    """A traced `number` in the dtype of `value`; a Python number takes it anyway."""
    return number if isinstance(number, int | float) else _of_dtype(number, value)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Steps scaled by running moments of the gradient: Kingma and Ba, "Adam: a method for stochastic optimization",
    ICLR 2015.
    """

    lr: float = static_field(1e-3)
    betas: tuple[float, float] = static_field((0.9, 0.999))
    eps: float = static_field(1e-8)
    weight_decay: float = static_field(0.0)

    def __post_init__(self) -> None:
        _check_settings(self, "eps", "weight_decay")
        if not isinstance(self.betas, Sequence) or len(self.betas) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{type(self).__name__}: betas is {self.betas!r} where two numbers are needed")
        object.__setattr__(self, "betas", tuple(self.betas))
        for position, beta in enumerate(self.betas):
            _check_number(f"{type(self).__name__}: betas[{position}]", beta, 1.0)

    # Whether the decay acts on the parameters themselves instead of being added to the gradient.
    DECOUPLED = False

    def start(self, params: Any) -> dict[str, Any]:
        return {"step": np.zeros((), np.int32), "mean": _zeros(params), "square": _zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        first, second = self.betas
        count = state["step"] + 1
        in_double = any(np.dtype(p.dtype) == np.float64 for p in values.values())
        time = tenon.cast(count, dtype="f64" if in_double else "f32")
        if self.weight_decay and not self.DECOUPLED:
            slopes = _each(lambda g, p: g + p * self.weight_decay, slopes, values)
        mean = _each(lambda m, g: m * first + g * (1 - first), state["mean"], slopes)
        square = _each(lambda s, g: s * second + g * g * (1 - second), state["square"], slopes)
        # 1 - betaᵗ, written so that it keeps its digits where betaᵗ is close to 1
        rate = lr / -tenon.expm1(time * math.log(first)) if first else lr
        root = tenon.rsqrt(-tenon.expm1(time * math.log(second))) if second else 1.0

        def moved(p: Any, m: Any, s: Any) -> Any:
            decayed = p - p * _like(lr, p) * self.weight_decay if self.weight_decay and self.DECOUPLED else p
            return _moved(decayed, m / (tenon.sqrt(s) * _like(root, p) + self.eps), rate)

        return _each(moved, values, mean, square), {"step": count, "mean": mean, "square": square}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with the decay acting on the parameters: Loshchilov and Hutter, "Decoupled weight decay regularization",
    ICLR 2019.
    """

    weight_decay: float = static_field(1e-2)

    DECOUPLED = True
