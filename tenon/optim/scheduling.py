"""Schedules of the rate of each group, by PyTorch's base class: of a rule of the user's, or of a formula.

Each group goes on from the rate that it had when its first scheduler was made, its `initial_lr`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenon.dialects.support.states import check_state
from tenon.optim.schedules import Scheduler

Rate = Callable[[float, float], float]
"""The rate of a group, of its `initial_lr` and the number of steps."""


class LRScheduler(Scheduler):
    """The base of schedules, as PyTorch has it: `get_lr()`, which a class of yours defines, gives the rate of each
    group before the first and after each `step()`.

    It may ask for `last_epoch`, how many steps were counted, `base_lrs`, the rates that the groups began with, and for
    those that they have, `optimizer.param_groups`. A `last_epoch` that is given is that of a schedule to go on with.
    """

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if last_epoch >= 0 and (new := [i for i, g in enumerate(optimizer.param_groups) if "initial_lr" not in g]):
            raise KeyError(f"group {new[0]} has no initial_lr, which a schedule that goes on at {last_epoch} needs")
        self.base_lrs: list[float] = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.made = last_epoch
        self.step()

    def get_lr(self) -> Sequence[float]:
        """The rate of each group; what schedules define."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def _set(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = float(rate)

    @property
    def last_epoch(self) -> Any:
        """How many steps were counted."""
        return self.made

    @last_epoch.setter
    def last_epoch(self, made: float) -> None:
        self.made = made

    def state_dict(self) -> dict[str, Any]:
        """What the schedule holds besides its optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was asked for; the rates are part of the optimizer's state."""
        check_state(type(self).__name__, state, ["made"])
        vars(self).update(state)


def _check_optimizer(optimizer: Any) -> None:
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"a schedule is given a {type(optimizer).__name__} where an optimizer over parameters is needed, such as "
            "optim.SGD(model.parameters(), lr=0.1)"
        )


class FormulaLR(LRScheduler):
    """Sets the rate of each group to `rate(initial_lr, t)` before the first and after each `step()`; what the functions
    of this module give.

    `rate` may be one function for each group. `momentum(t)`, where it is given, becomes the momentum, or the first of
    the betas, of each group. What multiplies the rate by a factor that depends on the step before (`is_factor`) may be
    chained with others.
    """

    def __init__(
        self,
        optimizer: Any,
        rate: Rate | Sequence[Rate],
        momentum: Callable[[float], float] | None = None,
        *,
        is_factor: bool = False,
    ) -> None:
        _check_optimizer(optimizer)
        groups = optimizer.param_groups
        self.rates = [rate] * len(groups) if callable(rate) else [*rate]
        if len(self.rates) != len(groups):
            raise ValueError(f"there are rates of {len(self.rates)} groups, and the optimizer has {len(groups)}")
        self.momentum, self.is_factor = momentum, is_factor
        if momentum is not None and not groups[0].keys() & {"betas", "momentum"}:
            raise ValueError(f"{optimizer!r} has no momentum; write cycle_momentum=False")
        super().__init__(optimizer)

    def get_lr(self) -> Sequence[float]:
        """The rate of each group."""
        return [rate(base, self.made) for rate, base in zip(self.rates, self.base_lrs, strict=True)]

    def _set(self) -> None:
        super()._set()
        if self.momentum is None:
            return
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (self.momentum(self.made), *group["betas"][1:])
            else:
                group["momentum"] = self.momentum(self.made)

    # The rates are computed of the count alone.
    state_dict, load_state_dict = Scheduler.state_dict, Scheduler.load_state_dict
