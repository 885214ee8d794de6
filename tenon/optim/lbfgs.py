"""L-BFGS: steps by an approximation of the second derivative, from the last changes of parameters and gradients.

Nocedal and Wright, "Numerical Optimization", 2006: algorithm 7.5 for the direction, and 3.5 and 3.6 for how far to go.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenon.dialects.support.plain_arrays import host_array
from tenon.dialects.support.states import check_state
from tenon.eager.modes import enable_grad, no_grad
from tenon.eager.tensor import Tensor
from tenon.nn.utils.gradients import tensors_in
from tenon.optim.base import check_number
from tenon.optim.of_users import Grouped

Vector = np.ndarray[Any, Any]
_SUFFICIENT, _CURVATURE, _MOST_TRIALS = 1e-4, 0.9, 25
"""What the conditions of Wolfe ask for, and how often a line is tried."""


class LBFGS(Grouped):
    """Steps of L-BFGS over tensors, by the names of `torch.optim.LBFGS`; `step` asks its closure for losses many times.

    A step makes at most `max_iter` changes, and asks at most `max_eval` times (by default, 5/4 of that). It ends where
    no element of the gradient is above `tolerance_grad`, and where neither loss nor parameters change by more than
    `tolerance_change`. The last `history_size` changes count. Parameters go as far as `lr` says, or, with
    `line_search_fn="strong_wolfe"`, so far that the strong conditions of Wolfe hold.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn is {line_search_fn!r}, neither None nor 'strong_wolfe'")
        for name, value in {"lr": lr, "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}.items():
            check_number(f"LBFGS: {name}", value)
        tensors = tensors_in(params)
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise ValueError("LBFGS: the parameters have several dtypes; their changes are parts of one vector")
        self.param_groups: list[dict[str, Any]] = [
            {
                "params": tensors,
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            }
        ]
        self._changes: deque[tuple[Vector, Vector]] = deque(maxlen=history_size)
        """Changes of the parameters, and of the gradient by them."""
        self._last: tuple[Vector, Vector] | None = None
        """The change of the parameters made last, and the gradient before it, until they are among the changes."""
        self._is_first = True

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self.param_groups[0]["lr"]

    def step(self, closure: Callable[[], Any]) -> Any:
        """Change the parameters; `closure` takes the gradients away, finds a loss and its gradients, and gives the
        loss. The first loss is returned.
        """
        group = self.param_groups[0]
        trial = _Trials(group["params"], closure)
        first = trial.loss_and_gradient()
        loss, gradient = float(first), trial.gradient
        for number in range(group["max_iter"]):
            if np.abs(gradient).max(initial=0) <= group["tolerance_grad"]:
                break
            is_first, self._is_first = self._is_first, False
            direction = self._direction(gradient)
            slope = float(gradient @ direction)
            if slope > -group["tolerance_change"]:
                break
            rate = group["lr"] * (min(1.0, 1.0 / float(np.abs(gradient).sum())) if is_first else 1.0)
            before, at, start = loss, gradient, trial.point()
            if group["line_search_fn"] is not None:
                rate, loss, gradient = _searched(trial, start, direction, rate, loss, slope, gradient)
                trial.go_to(start + gradient.dtype.type(rate) * direction)
            else:
                trial.go_to(start + gradient.dtype.type(rate) * direction)
                if number + 1 < group["max_iter"]:
                    loss, gradient = float(trial.loss_and_gradient()), trial.gradient
            self._last = gradient.dtype.type(rate) * direction, at
            is_still = np.abs(self._last[0]).max() <= group["tolerance_change"]
            if is_still or abs(loss - before) < group["tolerance_change"] or trial.count >= group["max_eval"]:
                break
        return first

    def _direction(self, gradient: Vector) -> Vector:
        """Where to go: down along the gradient, as the changes so far bend it."""
        if self._last is not None:
            change, before = self._last
            if float(change @ (gradient - before)) > 1e-10:
                self._changes.append((change, gradient - before))
            self._last = None
        direction, weights = -gradient, list[Any]()
        for change, difference in reversed(self._changes):
            weights.append((change @ direction) / (change @ difference))
            direction = direction - weights[-1] * difference
        if self._changes:
            change, difference = self._changes[-1]
            direction = direction * ((change @ difference) / (difference @ difference))
        for (change, difference), weight in zip(self._changes, reversed(weights), strict=True):
            direction = direction + change * (weight - (difference @ direction) / (change @ difference))
        return direction

    def state_dict(self) -> dict[str, Any]:
        """Settings, and the changes that count."""
        settings = {name: value for name, value in self.param_groups[0].items() if name != "params"}
        last = None if self._last is None else [part.copy() for part in self._last]
        changes = [[*map(np.copy, pair)] for pair in self._changes]
        return {"settings": settings, "changes": changes, "last": last, "is_first": self._is_first}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        check_state("LBFGS", state, ["settings", "changes", "last", "is_first"])
        self.param_groups[0].update(state["settings"])
        pairs = [(np.asarray(change), np.asarray(difference)) for change, difference in state["changes"]]
        self._changes = deque(pairs, maxlen=self.param_groups[0]["history_size"])
        last, self._is_first = state["last"], state["is_first"]
        self._last = None if last is None else (np.asarray(last[0]), np.asarray(last[1]))


class _Trials:
    """Parameters as one vector, and losses there."""

    def __init__(self, tensors: Sequence[Tensor], closure: Callable[[], Any]) -> None:
        self._tensors, self._closure = tensors, closure
        self.count = 0
        self.gradient: Vector = np.zeros(0)

    def point(self) -> Vector:
        """The parameters."""
        return np.concatenate([host_array(tensor).ravel() for tensor in self._tensors])

    def go_to(self, point: Vector) -> None:
        """Have the parameters be those of a vector."""
        at = 0
        with no_grad():
            for tensor in self._tensors:
                size = math.prod(tensor.shape)
                tensor[...] = point[at : at + size].reshape(tensor.shape)
                at += size

    def loss_and_gradient(self) -> Any:
        """The loss where the parameters are; its gradient is kept."""
        with enable_grad():
            loss = self._closure()
        self.count += 1
        zeros = [np.zeros(math.prod(t.shape), t.dtype) for t in self._tensors]
        found = [z if t.grad is None else host_array(t.grad).ravel() for t, z in zip(self._tensors, zeros, strict=True)]
        self.gradient = np.concatenate(found)
        return loss


def _searched(
    trial: _Trials, start: Vector, direction: Vector, rate: float, loss: float, slope: float, gradient: Vector
) -> tuple[float, float, Vector]:
    """How far to go along `direction`, the loss there, and its gradient: where the loss has become less by a share of
    what the slope promised, and the slope has become flatter (algorithm 3.5)."""

    def at(rate: float) -> _Point:
        trial.go_to(start + start.dtype.type(rate) * direction)
        value = float(trial.loss_and_gradient())
        return _Point(rate, value, float(trial.gradient @ direction), trial.gradient)

    before = first = _Point(0.0, loss, slope, gradient)
    for number in range(_MOST_TRIALS):
        here = at(rate)
        if not here.is_low(first) or (number and here.loss >= before.loss):
            found = _between(at, first, before, here, _MOST_TRIALS - number)
            break
        if abs(here.slope) <= -_CURVATURE * slope:
            found = here
            break
        if here.slope >= 0:
            found = _between(at, first, here, before, _MOST_TRIALS - number)
            break
        least, most = rate + 0.01 * (rate - before.rate), rate * 10
        rate, before = min(max(_lowest(before, here), least), most), here
    else:
        found = before
    return found.rate, found.loss, found.gradient


class _Point:
    """A point of a line: how far it is, the loss, and the slope along the line."""

    def __init__(self, rate: float, loss: float, slope: float, gradient: Vector) -> None:
        self.rate, self.loss, self.slope, self.gradient = rate, loss, slope, gradient

    def is_low(self, first: _Point) -> bool:
        """Whether the loss is less than that of the first point, by a share of what its slope promises."""
        return self.loss <= first.loss + _SUFFICIENT * self.rate * first.slope


def _between(at: Callable[[float], _Point], first: _Point, low: _Point, high: _Point, trials: int) -> _Point:
    """A point between two, of which `low` has the lower loss, that fulfils the conditions (algorithm 3.6)."""
    for _ in range(trials):
        width = abs(high.rate - low.rate)
        if width * abs(low.slope) < 1e-9:
            break
        ends = sorted((low.rate, high.rate))
        # Never too near to an end, where the interval would not become smaller.
        rate = min(max(_lowest(low, high), ends[0] + 0.1 * width), ends[1] - 0.1 * width)
        here = at(rate)
        if not here.is_low(first) or here.loss >= low.loss:
            high = here
            continue
        if abs(here.slope) <= -_CURVATURE * first.slope:
            return here
        if here.slope * (high.rate - low.rate) >= 0:
            high = low
        low = here
    return low


def _lowest(one: _Point, other: _Point) -> float:
    """Where the cubic polynomial with the losses and slopes of two points is least (equation 3.59)."""
    distance = other.rate - one.rate
    if distance == 0:  # with a learning rate of 0
        return one.rate
    bend = one.slope + other.slope + 3 * (one.loss - other.loss) / distance
    inside = bend * bend - one.slope * other.slope
    if not math.isfinite(inside) or inside < 0:
        return (one.rate + other.rate) / 2
    root = math.copysign(math.sqrt(inside), distance)
    below = other.slope - one.slope + 2 * root
    return other.rate - distance * (other.slope + root - bend) / below if below else (one.rate + other.rate) / 2


__all__ = ["LBFGS"]
