"""Relatives of Adam and Adagrad: what a step makes of a parameter, its gradient and what was kept of former ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tenon
from tenon.optim.base import Arrays, Optimizer, check_settings, each, zeros
from tenon.optim.moments import check_betas, decayed, like, moved, running, running_square, time_of, without_bias
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
