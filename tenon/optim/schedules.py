"""Learning rates that change from step to step: functions of the number of steps made, which may be traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tenon
from tenon.dialects.definition.value import Value
from tenon.dialects.support.states import check_state

Schedule = Callable[[Any], Any]


def _choose(condition: Any, x: Any, y: Any) -> Any:
    return tenon.select(condition, x, y) if isinstance(condition, Value) else x if condition else y


def _cosine(phase: Any) -> Any:
    return tenon.cos(phase) if isinstance(phase, Value) else math.cos(phase)


def _as_float(step: Any) -> Any:
    return step.astype("f32") if isinstance(step, Value) else step


def step_decay(lr: float, step_size: int, gamma: float = 0.1) -> Schedule:
    """`lr`·gammaᵏ after k times `step_size` steps."""
    return lambda step: lr * gamma ** _as_float(step // step_size)


def exponential(lr: float, gamma: float) -> Schedule:
    """`lr`·gammaᵗ after t steps."""
    return lambda step: lr * gamma ** _as_float(step)


def cosine(lr: float, steps: int, end: float = 0.0) -> Schedule:
    """From `lr` to `end` in `steps` steps along half a cosine, and `end` from then on: Loshchilov and Hutter, "SGDR",
    ICLR 2017, without restarts."""

    def schedule(step: Any) -> Any:
        done = _choose(step < steps, _as_float(step), float(steps)) / steps
        return end + (lr - end) * (1 + _cosine(math.pi * done)) / 2

    return schedule


def warm_up(after: Schedule, steps: int, start: float = 0.0) -> Schedule:
    """From `start` times what `after` begins with, in `steps` steps along a line; then `after`, from its start."""

    def schedule(step: Any) -> Any:
        first = after(0)
        rising = first * (start + (1 - start) * _as_float(step) / steps)
        return _choose(step < steps, rising, after(_choose(step < steps, 0, step - steps)))

    return schedule


def one_cycle(
    max_lr: float, total_steps: int, pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 1e4
) -> Schedule:
    """From `max_lr`/`div_factor` up to `max_lr`, and down to the first over `final_div_factor`, along cosines.

    Source: PyTorch's documentation of `OneCycleLR`; Smith and Topin, "Super-convergence", 2018.
    """
    peak = pct_start * total_steps - 1
    first = max_lr / div_factor
    last = first / final_div_factor

    def between(start: float, end: float, done: Any) -> Any:
        return end + (start - end) * (1 + _cosine(math.pi * done)) / 2

    def schedule(step: Any) -> Any:
        t = _as_float(step)
        return _choose(
            t <= peak, between(first, max_lr, t / peak), between(max_lr, last, (t - peak) / (total_steps - 1 - peak))
        )

    return schedule


class Scheduler:
    """Sets the learning rate of an optimizer over tensors to `schedule(t)` before the first and after each `step()`.

    A group with a learning rate of its own keeps the proportion that it has to the optimizer's.
    """

    def __init__(self, optimizer: Any, schedule: Schedule) -> None:
        self.optimizer, self.schedule = optimizer, schedule
        self.made: float = 0
        self._shares = [group["lr"] / optimizer.lr if optimizer.lr else 1.0 for group in optimizer.param_groups]
        self._set()

    def _set(self) -> None:
        for group, share in zip(self.optimizer.param_groups, self._shares, strict=True):
            group["lr"] = float(self.schedule(self.made)) * share

    def step(self, epoch: float | None = None) -> None:
        """Count a step; or, with `epoch`, which need be no whole number, go on as if so many were made."""
        self.made = self.made + 1 if epoch is None else epoch
        self._set()

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """How many steps were counted."""
        return {"made": self.made}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was asked for."""
        check_state(type(self).__name__, state, ["made"])
        self.made = state["made"]
        self._set()


class Plateau:
    """Multiplies the learning rate by `factor` once a measure has not become better for more than `patience` steps.

    Better is less (`mode="min"`) or more (`"max"`) by a share of `threshold`, or, with `threshold_mode="abs"`, by
    `threshold`. For `cooldown` steps after that, no step counts as waited.
    """

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"Plateau: threshold_mode is {threshold_mode!r}, neither 'rel' nor 'abs'")
        if mode not in ("min", "max"):
            raise ValueError(f"Plateau: mode is {mode!r}, neither 'min' nor 'max'")
        if not 0 < factor < 1:
            raise ValueError(f"Plateau: factor is {factor}, outside of (0, 1)")
        self.optimizer, self.factor, self.patience, self.min_lr = optimizer, factor, patience, min_lr
        self._sign = 1 if mode == "min" else -1
        self._threshold, self._is_relative, self.cooldown = threshold, threshold_mode == "rel", cooldown
        self.best = math.inf * self._sign
        self.waited = self.cooling = 0

    def step(self, measure: Any) -> None:
        """Take note of the measure after a step."""
        value = float(measure)
        margin = self._threshold * abs(self.best) if self._is_relative else self._threshold
        is_better = math.isinf(self.best) or self._sign * (self.best - value) > margin
        self.best, self.waited = (value, 0) if is_better else (self.best, self.waited + 1)
        if self.cooling > 0:
            self.cooling, self.waited = self.cooling - 1, 0
        if self.waited > self.patience:
            self.waited, self.cooling = 0, self.cooldown
            for group in self.optimizer.param_groups:
                group["lr"] = max(group["lr"] * self.factor, self.min_lr)

    def state_dict(self) -> dict[str, Any]:
        """What was seen."""
        return {"best": self.best, "waited": self.waited, "cooling": self.cooling}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was asked for."""
        check_state("Plateau", state, ["best", "waited"])
        self.best, self.waited = float(state["best"]), int(state["waited"])
        self.cooling = int(state.get("cooling", 0))


__all__ = ["Plateau", "Schedule", "Scheduler", "cosine", "exponential", "one_cycle", "step_decay", "warm_up"]
