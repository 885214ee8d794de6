"""Relatives of Adam and Adagrad, and others whose steps follow what was there before: what a step makes of a parameter,
its gradient and what was kept of former ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenon
from tenon.optim.base import Arrays, Optimizer, check_number, check_settings, each, zeros
from tenon.optim.moments import (
    check_betas,
    decayed,
    like,
    moved,
    of_dtype,
    running,
    running_square,
    time_of,
    without_bias,
)
from tenon.runtime.arguments.tree import static_field


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Steps g·√(d + eps)/√(s + eps), where s and d are running means of g² and of the squared steps: Zeiler,
    arXiv:1212.5701.
    """

    lr: float = static_field(1.0)
    rho: float = static_field(0.9)
    eps: float = static_field(1e-6)
    weight_decay: float = static_field(0.0)
    maximize: bool = static_field(False)

    def __post_init__(self) -> None:
        check_settings(self, "rho", "eps", "weight_decay")

    def start(self, params: Any) -> dict[str, Any]:
        return {"square": zeros(params), "moved": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        slopes = decayed(slopes, values, self.weight_decay)
        square = running_square(self.rho, state["square"], slopes)
        direction = each(
            lambda g, s, d: g * tenon.sqrt(d + self.eps) / tenon.sqrt(s + self.eps), slopes, square, state["moved"]
        )
        changed = each(lambda p, d: moved(p, d, lr), values, direction)
        return changed, {"square": square, "moved": running_square(self.rho, state["moved"], direction)}


@dataclass(frozen=True)
class Adamax(Optimizer):
    """Adam with the greatest magnitude, which fades by the second of the betas, in place of the mean square: section
    7.1 of Kingma and Ba, ICLR 2015.
    """

    lr: float = static_field(2e-3)
    betas: tuple[float, float] = static_field((0.9, 0.999))
    eps: float = static_field(1e-8)
    weight_decay: float = static_field(0.0)
    maximize: bool = static_field(False)
    CHANGING = ("betas",)

    def __post_init__(self) -> None:
        check_settings(self, "eps", "weight_decay")
        check_betas(self)

    def start(self, params: Any) -> dict[str, Any]:
        return {"step": np.zeros((), np.int32), "mean": zeros(params), "greatest": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        first, second = self.betas
        slopes = decayed(slopes, values, self.weight_decay)
        count = state["step"] + 1
        rate = 1.0 / without_bias(first, time_of(count, values))
        mean = running(first, state["mean"], slopes)
        greatest = each(lambda u, g: tenon.maximum(u * like(second, u), abs(g) + self.eps), state["greatest"], slopes)
        changed = each(lambda p, m, u: moved(p, m * like(rate, p) / u, lr), values, mean, greatest)
        return changed, {"step": count, "mean": mean, "greatest": greatest}


@dataclass(frozen=True)
class NAdam(Optimizer):
    """Adam with the momentum of Nesterov, whose share grows by `momentum_decay`: Dozat, "Incorporating Nesterov
    momentum into Adam", 2016; with `decoupled_weight_decay`, the decay acts on the parameters themselves.

    Source of the share: PyTorch's documentation of `torch.optim.NAdam`.
    """

    lr: float = static_field(2e-3)
    betas: tuple[float, float] = static_field((0.9, 0.999))
    eps: float = static_field(1e-8)
    weight_decay: float = static_field(0.0)
    momentum_decay: float = static_field(4e-3)
    decoupled_weight_decay: bool = static_field(False)
    maximize: bool = static_field(False)
    CHANGING = ("betas",)

    def __post_init__(self) -> None:
        check_settings(self, "eps", "weight_decay", "momentum_decay")
        check_betas(self)

    def start(self, params: Any) -> dict[str, Any]:
        kept = {"step": np.zeros((), np.int32), "shares": np.ones((), np.float32)}
        return {**kept, "mean": zeros(params), "square": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        first, second = self.betas
        count = state["step"] + 1
        time = time_of(count, values)
        share, following = [
            like(first, time) * (1 - 0.5 * 0.96 ** (at * self.momentum_decay)) for at in (time, time + 1)
        ]
        shares = state["shares"] * tenon.cast(share, dtype="f32")
        so_far = tenon.cast(shares, dtype=time.dtype)
        of_slope, of_mean = (1 - share) / (1 - so_far), following / (1 - so_far * following)
        if not self.decoupled_weight_decay:
            slopes = decayed(slopes, values, self.weight_decay)
        mean, square = running(first, state["mean"], slopes), running_square(second, state["square"], slopes)
        root = tenon.rsqrt(without_bias(second, time) * tenon.ones_like(time))

        def stepped(p: Any, g: Any, m: Any, s: Any) -> Any:
            if self.decoupled_weight_decay:
                p = p - p * like(lr, p) * self.weight_decay
            direction = g * like(of_slope, p) + m * like(of_mean, p)
            return moved(p, direction / (tenon.sqrt(s) * like(root, p) + self.eps), lr)

        changed = each(stepped, values, slopes, mean, square)
        return changed, {"step": count, "shares": shares, "mean": mean, "square": square}


@dataclass(frozen=True)
class RAdam(Optimizer):
    """Adam that follows the mean of the gradients alone until the variance of their mean square is finite, and is
    scaled by that from then on: Liu et al., "On the variance of the adaptive learning rate and beyond", ICLR 2020;
    with `decoupled_weight_decay`, the decay acts on the parameters themselves.
    """

    lr: float = static_field(1e-3)
    betas: tuple[float, float] = static_field((0.9, 0.999))
    eps: float = static_field(1e-8)
    weight_decay: float = static_field(0.0)
    decoupled_weight_decay: bool = static_field(False)
    maximize: bool = static_field(False)
    CHANGING = ("betas",)

    def __post_init__(self) -> None:
        check_settings(self, "eps", "weight_decay")
        check_betas(self)

    def start(self, params: Any) -> dict[str, Any]:
        return {"step": np.zeros((), np.int32), "mean": zeros(params), "square": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        first, second = self.betas
        count = state["step"] + 1
        time = time_of(count, values)
        second = like(second, time)
        longest = 2 / (1 - second) - 1
        bias = without_bias(second, time) * tenon.ones_like(time)
        length = longest - 2 * time * (1 - bias) / bias
        is_finite = length > 5
        scale = tenon.sqrt(
            (tenon.maximum(length, 5) - 4)
            * (tenon.maximum(length, 5) - 2)
            * longest
            / ((longest - 4) * (longest - 2) * tenon.maximum(length, 5))
        )
        if not self.decoupled_weight_decay:
            slopes = decayed(slopes, values, self.weight_decay)
        mean, square = running(first, state["mean"], slopes), running_square(second, state["square"], slopes)
        rate, root = 1.0 / without_bias(first, time), tenon.sqrt(bias)

        def stepped(p: Any, m: Any, s: Any) -> Any:
            if self.decoupled_weight_decay:
                p = p - p * like(lr, p) * self.weight_decay
            m = m * like(rate, p)
            scaled = m * like(scale * root, p) / (tenon.sqrt(s) + self.eps)
            return moved(p, tenon.select(is_finite, scaled, m), lr)

        return each(stepped, values, mean, square), {"step": count, "mean": mean, "square": square}


@dataclass(frozen=True)
class Rprop(Optimizer):
    """Steps against the sign of a gradient, of a length of each element's own, which begins with `lr`: it is multiplied
    by the second of `etas` where the sign is that of the step before, and where it is the other one by the first, and
    no step made; it stays between the two `step_sizes`. Riedmiller and Braun, "A direct adaptive method for faster
    backpropagation learning: the RPROP algorithm", ICNN 1993. Gradients are to be those of all examples.

    Source: PyTorch's documentation of `torch.optim.Rprop`.
    """

    lr: float = static_field(1e-2)
    etas: tuple[float, float] = static_field((0.5, 1.2))
    step_sizes: tuple[float, float] = static_field((1e-6, 50.0))
    maximize: bool = static_field(False)

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("etas", "step_sizes"):
            given: Any = getattr(self, name)
            if not isinstance(given, Sequence) or len(given) != 2:  # pyright: ignore[reportUnknownArgumentType]
                raise TypeError(f"Rprop: {name} is {given!r} where two numbers are needed")
            object.__setattr__(self, name, tuple(given))  # pyright: ignore[reportUnknownArgumentType]
            for position, number in enumerate(getattr(self, name)):
                check_number(f"Rprop: {name}[{position}]", number)
        if not 0 < self.etas[0] < 1 < self.etas[1]:
            raise ValueError(f"Rprop: etas is {self.etas} where a number in (0, 1) and one above 1 are needed")

    def start(self, params: Any) -> dict[str, Any]:
        return {"size": zeros(params), "slope": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        less, more = self.etas

        def scaled(size: Any, turn: Any) -> Any:
            size = tenon.select(size == 0, tenon.ones_like(size) * like(lr, size), size)  # before the first step
            factor = tenon.select(turn > 0, more, tenon.select(turn < 0, less, 1.0))
            return of_dtype(tenon.clip(size * of_dtype(factor, size), *self.step_sizes), size)

        turns = each(lambda g, s: tenon.sign(g) * tenon.sign(s), slopes, state["slope"])
        size = each(scaled, state["size"], turns)
        slope = each(lambda g, turn: tenon.select(turn < 0, tenon.zeros_like(g), g), slopes, turns)
        changed = each(lambda p, g, s: of_dtype(p - tenon.sign(g) * s, p), values, slope, size)
        return changed, {"size": size, "slope": slope}


@dataclass(frozen=True)
class ASGD(Optimizer):
    """Gradient descent with a rate of lr / (1 + lambd·lr·t)^alpha after t steps, and parameters that decay by lambd
    times that; `ax` of the state is the mean of the parameters since step `t0`: Polyak and Juditsky, "Acceleration of
    stochastic approximation by averaging", 1992.

    Source: PyTorch's documentation of `torch.optim.ASGD`.
    """

    lr: float = static_field(1e-2)
    lambd: float = static_field(1e-4)
    alpha: float = static_field(0.75)
    t0: float = static_field(1e6)
    weight_decay: float = static_field(0.0)
    maximize: bool = static_field(False)

    def __post_init__(self) -> None:
        check_settings(self, "lambd", "alpha", "t0", "weight_decay")

    def start(self, params: Any) -> dict[str, Any]:
        return {"step": np.zeros((), np.int32), "rate": np.zeros((), np.float64), "ax": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        slopes = decayed(slopes, values, self.weight_decay)
        made, count = tenon.cast(state["step"], dtype="f64"), state["step"] + 1
        given = tenon.cast(tenon.asarray(lr), dtype="f64")
        # the rate follows from the learning rate of the step before
        rate = tenon.select(state["step"] == 0, given, state["rate"])
        share = 1 / tenon.maximum(made - self.t0, 1.0)
        changed = each(lambda p, g: moved(p * like(1 - rate * self.lambd, p), g, rate), values, slopes)
        ax = each(lambda a, p: a + (p - a) * like(share, a), state["ax"], changed)
        ax = each(lambda a, p: tenon.select(share == 1, p, a), ax, changed)
        following = given / (1 + given * self.lambd * tenon.cast(count, dtype="f64")) ** self.alpha
        return changed, {"step": count, "rate": following, "ax": ax}
