"""Optimizers: what a step makes of a parameter, its gradient and what was kept of former ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tenon
from tenon.optim.base import Arrays, Optimizer, check_settings, each, is_on, zeros, zeros_of
from tenon.optim.moments import check_betas, decayed, like, moved, running, running_square, time_of, without_bias
from tenon.runtime.arguments.tree import static_field


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent: v ← momentum·v + (1 - dampening)·(g + weight_decay·p), but for the first v, which is not
    dampened; then p ← p - lr·v (with `nesterov`, p - lr·(g + momentum·v)).

    Source: PyTorch's documentation of `torch.optim.SGD`.
    """

    lr: float = static_field(1e-2)
    momentum: float = static_field(0.0)
    weight_decay: float = static_field(0.0)
    nesterov: bool = static_field(False)
    dampening: float = static_field(0.0)
    maximize: bool = static_field(False)
    CHANGING = ("momentum",)
    ADDED = ("dampening", "maximize")

    def __post_init__(self) -> None:
        check_settings(self, "momentum", "weight_decay", "dampening")
        if self.nesterov and (self.dampening or not is_on(self.momentum)):
            raise ValueError(
                f"SGD: nesterov needs a momentum, which is {self.momentum}, and no dampening, which is {self.dampening}"
            )

    def start(self, params: Any) -> dict[str, Any]:
        if not is_on(self.momentum):
            return {"velocity": {}}
        started = {"started": zeros_of(params, np.bool_)} if self.dampening else {}
        return {"velocity": zeros(params), **started}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        slopes = decayed(slopes, values, self.weight_decay)
        if not is_on(self.momentum):
            return each(lambda p, g: moved(p, g, lr), values, slopes), state

        def ahead(g: Any, v: Any) -> Any:
            return g + v * like(self.momentum, v)

        damped, started = slopes, state.get("started")
        if started is not None:
            damped = each(lambda s, g: g * tenon.select(s, 1 - self.dampening, 1.0).astype(g.dtype), started, slopes)
            started = {"started": each(tenon.ones_like, started)}
        velocity = each(ahead, damped, state["velocity"])
        direction = each(ahead, slopes, velocity) if self.nesterov else velocity
        return each(lambda p, d: moved(p, d, lr), values, direction), {"velocity": velocity, **(started or {})}


@dataclass(frozen=True)
class Adam(Optimizer):
    """Steps scaled by running moments of the gradient: Kingma and Ba, "Adam: a method for stochastic optimization",
    ICLR 2015; with `amsgrad`, by the greatest mean square so far: Reddi, Kale and Kumar, "On the convergence of Adam
    and beyond", ICLR 2018.
    """

    lr: float = static_field(1e-3)
    betas: tuple[float, float] = static_field((0.9, 0.999))
    eps: float = static_field(1e-8)
    weight_decay: float = static_field(0.0)
    amsgrad: bool = static_field(False)
    maximize: bool = static_field(False)
    CHANGING = ("betas",)

    def __post_init__(self) -> None:
        check_settings(self, "eps", "weight_decay")
        check_betas(self)

    # Whether the decay acts on the parameters themselves instead of being added to the gradient.
    DECOUPLED = False

    def start(self, params: Any) -> dict[str, Any]:
        moments = {"step": np.zeros((), np.int32), "mean": zeros(params), "square": zeros(params)}
        return {**moments, "greatest": zeros(params)} if self.amsgrad else moments

    def moments(self, values: Arrays, slopes: Arrays, state: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
        """The new state, and the mean of each gradient over the root of its mean square, both without their bias."""
        first, second = self.betas
        count = state["step"] + 1
        time = time_of(count, values)
        mean, square = running(first, state["mean"], slopes), running_square(second, state["square"], slopes)
        rate = 1.0 / without_bias(first, time)
        root = tenon.rsqrt(without_bias(second, time)) if is_on(second) else 1.0
        found = {"step": count, "mean": mean, "square": square}
        if self.amsgrad:
            found["greatest"] = each(tenon.maximum, state["greatest"], square)
        scale = found["greatest"] if self.amsgrad else square
        direction = each(
            lambda p, m, s: m * like(rate, p) / (tenon.sqrt(s) * like(root, p) + self.eps), values, mean, scale
        )
        return found, direction

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        if not self.DECOUPLED:
            slopes = decayed(slopes, values, self.weight_decay)
        state, direction = self.moments(values, slopes, state)

        def stepped(p: Any, d: Any) -> Any:
            shrunk = p - p * like(lr, p) * self.weight_decay if self.weight_decay and self.DECOUPLED else p
            return moved(shrunk, d, lr)

        return each(stepped, values, direction), state


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with the decay acting on the parameters: Loshchilov and Hutter, "Decoupled weight decay regularization",
    ICLR 2019.
    """

    weight_decay: float = static_field(1e-2)

    DECOUPLED = True


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """s ← alpha·s + (1 - alpha)·g², then p ← p - lr·g/(√s + eps); with `centered`, the variance in place of s; with
    `momentum`, steps of b ← momentum·b + g/(√s + eps).

    Source: PyTorch's documentation of `torch.optim.RMSprop`; Hinton's lecture 6e.
    """

    lr: float = static_field(1e-2)
    alpha: float = static_field(0.99)
    eps: float = static_field(1e-8)
    weight_decay: float = static_field(0.0)
    momentum: float = static_field(0.0)
    centered: bool = static_field(False)
    maximize: bool = static_field(False)
    CHANGING = ("momentum",)

    def __post_init__(self) -> None:
        check_settings(self, "alpha", "eps", "weight_decay", "momentum")

    def start(self, params: Any) -> dict[str, Any]:
        return {
            "square": zeros(params),
            "mean": zeros(params) if self.centered else {},
            "velocity": zeros(params) if is_on(self.momentum) else {},
        }

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        slopes = decayed(slopes, values, self.weight_decay)
        square = each(lambda s, g: s * self.alpha + g * g * (1 - self.alpha), state["square"], slopes)
        mean, scale = state["mean"], square
        if self.centered:
            mean = each(lambda m, g: m * self.alpha + g * (1 - self.alpha), mean, slopes)
            scale = each(lambda s, m: s - m * m, square, mean)
        direction = each(lambda g, s: g / (tenon.sqrt(s) + self.eps), slopes, scale)
        velocity = state["velocity"]
        if is_on(self.momentum):
            direction = velocity = each(lambda v, d: v * like(self.momentum, v) + d, velocity, direction)
        changed = each(lambda p, d: moved(p, d, lr), values, direction)
        return changed, {"square": square, "mean": mean, "velocity": velocity}


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """s ← s + g², then p ← p - lr·g/(√s + eps): Duchi, Hazan and Singer, "Adaptive subgradient methods for online
    learning and stochastic optimization", JMLR 2011; after t steps, lr is divided by 1 + `lr_decay`·t.
    """

    lr: float = static_field(1e-2)
    weight_decay: float = static_field(0.0)
    initial_accumulator_value: float = static_field(0.0)
    eps: float = static_field(1e-10)
    lr_decay: float = static_field(0.0)
    maximize: bool = static_field(False)
    ADDED = ("lr_decay", "maximize")

    def __post_init__(self) -> None:
        check_settings(self, "weight_decay", "initial_accumulator_value", "eps", "lr_decay")

    def start(self, params: Any) -> dict[str, Any]:
        counted = {"step": np.zeros((), np.int32)} if self.lr_decay else {}
        return {**counted, "square": zeros(params, self.initial_accumulator_value)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        slopes = decayed(slopes, values, self.weight_decay)
        square = each(lambda s, g: s + g * g, state["square"], slopes)
        direction = each(lambda g, s: g / (tenon.sqrt(s) + self.eps), slopes, square)
        found: dict[str, Any] = {"square": square}
        if self.lr_decay:
            rate = 1 / (1 + time_of(state["step"], values) * self.lr_decay)
            direction = each(lambda d: d * like(rate, d), direction)
            found["step"] = state["step"] + 1
        return each(lambda p, d: moved(p, d, lr), values, direction), found


@dataclass(frozen=True)
class Lion(Optimizer):
    """p ← p - lr·(sign(b1·m + (1 - b1)·g) + weight_decay·p), then m ← b2·m + (1 - b2)·g: Chen et al., "Symbolic
    discovery of optimization algorithms", NeurIPS 2023.
    """

    lr: float = static_field(1e-4)
    betas: tuple[float, float] = static_field((0.9, 0.99))
    weight_decay: float = static_field(0.0)

    def __post_init__(self) -> None:
        check_settings(self, "weight_decay")
        check_betas(self)

    def start(self, params: Any) -> dict[str, Any]:
        return {"mean": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        first, second = self.betas
        direction = each(
            lambda p, m, g: tenon.sign(m * first + g * (1 - first)) + p * self.weight_decay,
            values,
            state["mean"],
            slopes,
        )
        mean = each(lambda m, g: m * second + g * (1 - second), state["mean"], slopes)
        return each(lambda p, d: moved(p, d, lr), values, direction), {"mean": mean}


@dataclass(frozen=True)
class LAMB(Adam):
    """Steps of Adam with decay, each array's scaled by |p|/|step|: You et al., "Large batch optimization for deep
    learning", ICLR 2020.
    """

    eps: float = static_field(1e-6)
    weight_decay: float = static_field(1e-2)

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        state, direction = self.moments(values, slopes, state)

        def stepped(p: Any, d: Any) -> Any:
            d = d + p * self.weight_decay
            of_values, of_step = tenon.sqrt(tenon.sum(p * p)), tenon.sqrt(tenon.sum(d * d))
            is_zero = tenon.bitwise_or(of_values == 0, of_step == 0)
            trust = tenon.select(is_zero, tenon.ones_like(of_step), of_values / tenon.select(is_zero, 1.0, of_step))
            return moved(p, d * trust, lr)

        return each(stepped, values, direction), state
