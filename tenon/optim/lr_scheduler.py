"""`torch.optim.lr_scheduler` by its names: schedules of the learning rate of an optimizer over tensors, as
`optim.Scheduler` of the function that says the rate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tenon.dialects.support.suggestion import attribute_hints
from tenon.optim.schedules import Plateau, Scheduler, cosine, exponential, one_cycle, step_decay

ReduceLROnPlateau = Plateau


def LambdaLR(optimizer: Any, lr_lambda: Callable[[int], float]) -> Scheduler:
    """The optimizer's rate times `lr_lambda(t)` after t steps."""
    if not callable(lr_lambda):
        raise TypeError("LambdaLR: lr_lambda is no function; groups keep the proportion of their rates")
    return Scheduler(optimizer, lambda step: optimizer.lr * lr_lambda(step))


def StepLR(optimizer: Any, step_size: int, gamma: float = 0.1) -> Scheduler:
    """The optimizer's rate times gammaᵏ after k times `step_size` steps."""
    return Scheduler(optimizer, step_decay(optimizer.lr, step_size, gamma))


def MultiStepLR(optimizer: Any, milestones: Sequence[int], gamma: float = 0.1) -> Scheduler:
    """The optimizer's rate times `gamma` for each of the `milestones` that is reached."""
    ordered = sorted(milestones)
    return Scheduler(optimizer, lambda step: optimizer.lr * gamma ** bisect_right(ordered, step))


def ExponentialLR(optimizer: Any, gamma: float) -> Scheduler:
    """The optimizer's rate times gammaᵗ after t steps."""
    return Scheduler(optimizer, exponential(optimizer.lr, gamma))


def CosineAnnealingLR(optimizer: Any, T_max: int, eta_min: float = 0.0) -> Scheduler:
    """From the optimizer's rate to `eta_min` in `T_max` steps along half a cosine, and `eta_min` from then on."""
    return Scheduler(optimizer, cosine(optimizer.lr, T_max, eta_min))


def LinearLR(optimizer: Any, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5) -> Scheduler:
    """From `start_factor` times the optimizer's rate to `end_factor` times it in `total_iters` steps along a line."""

    def schedule(step: int) -> float:
        done = min(step, total_iters) / total_iters
        return optimizer.lr * (start_factor + (end_factor - start_factor) * done)

    return Scheduler(optimizer, schedule)


def OneCycleLR(
    optimizer: Any,
    max_lr: float,
    total_steps: int | None = None,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Scheduler:
    """`optim.one_cycle` over `total_steps`, or over `epochs` of `steps_per_epoch`."""
    if total_steps is None:
        if epochs is None or steps_per_epoch is None:
            raise ValueError("OneCycleLR: total_steps, or epochs and steps_per_epoch, are needed")
        total_steps = epochs * steps_per_epoch
    return Scheduler(optimizer, one_cycle(max_lr, total_steps, pct_start, div_factor, final_div_factor))


__all__ = [
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "StepLR",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
