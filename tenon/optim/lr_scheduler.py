"""`torch.optim.lr_scheduler` by its names: schedules of the learning rate of an optimizer over tensors.

Each group goes on from the rate that it had when its first scheduler was made, its `initial_lr`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from tenon.dialects.support.suggestion import attribute_hints
from tenon.optim.schedules import Plateau
from tenon.optim.scheduling import FormulaLR, LRScheduler, Rate

ReduceLROnPlateau = Plateau
_LRScheduler = LRScheduler  # as PyTorch's older programs call it


def _check_function(name: str, functions: Any) -> None:
    if not all(map(callable, functions if isinstance(functions, list | tuple) else [functions])):
        raise TypeError(f"{name}: lr_lambda is neither a function nor a list of one for each group")


def LambdaLR(optimizer: Any, lr_lambda: Any) -> LRScheduler:
    """The group's rate times `lr_lambda(t)` after t steps; `lr_lambda` is a function, or a list of one for each
    group."""
    _check_function("LambdaLR", lr_lambda)

    def rate_of(function: Any) -> Rate:
        return lambda base, step: base * function(step)

    return FormulaLR(optimizer, rate_of(lr_lambda) if callable(lr_lambda) else [*map(rate_of, lr_lambda)])


def MultiplicativeLR(optimizer: Any, lr_lambda: Any) -> LRScheduler:
    """The group's rate times lr_lambda(1), lr_lambda(2), ..., lr_lambda(t) after t steps; `lr_lambda` is a function, or
    a list of one for each group."""
    _check_function("MultiplicativeLR", lr_lambda)

    def rate_of(function: Any) -> Rate:
        return lambda base, step: base * math.prod([function(number) for number in range(1, int(step) + 1)])

    rates = rate_of(lr_lambda) if callable(lr_lambda) else [*map(rate_of, lr_lambda)]
    return FormulaLR(optimizer, rates, is_factor=True)


def StepLR(optimizer: Any, step_size: int, gamma: float = 0.1) -> LRScheduler:
    """The group's rate times gammaᵏ after k times `step_size` steps."""
    if step_size < 1:
        raise ValueError(f"StepLR: step_size is {step_size} where 1 or more is needed")
    return FormulaLR(optimizer, lambda base, step: base * gamma ** (step // step_size), is_factor=True)


def MultiStepLR(optimizer: Any, milestones: Sequence[int], gamma: float = 0.1) -> LRScheduler:
    """The group's rate times `gamma` for each of the `milestones` that is reached."""
    ordered = sorted(milestones)
    return FormulaLR(optimizer, lambda base, step: base * gamma ** bisect_right(ordered, step), is_factor=True)


def ExponentialLR(optimizer: Any, gamma: float) -> LRScheduler:
    """The group's rate times gammaᵗ after t steps."""
    return FormulaLR(optimizer, lambda base, step: base * gamma**step, is_factor=True)


def ConstantLR(optimizer: Any, factor: float = 1 / 3, total_iters: int = 5) -> LRScheduler:
    """`factor` times the group's rate for `total_iters` steps, and that rate from then on."""
    return FormulaLR(optimizer, lambda base, step: base * (factor if step < total_iters else 1.0), is_factor=True)


def LinearLR(optimizer: Any, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5) -> LRScheduler:
    """From `start_factor` times the group's rate to `end_factor` times it in `total_iters` steps along a line."""

    def rate(base: float, step: float) -> float:
        return base * (start_factor + (end_factor - start_factor) * min(step, total_iters) / total_iters)

    return FormulaLR(optimizer, rate, is_factor=True)


def PolynomialLR(optimizer: Any, total_iters: int = 5, power: float = 1.0) -> LRScheduler:
    """The group's rate times (1 - t / `total_iters`) to the power `power` after t steps, and 0 in the end."""

    def rate(base: float, step: float) -> float:
        return base * max(0.0, 1 - step / total_iters) ** power

    return FormulaLR(optimizer, rate, is_factor=True)


def on_cosine(start: float, end: float, done: float) -> float:
    """From `start` to `end` along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


def on_line(start: float, end: float, done: float) -> float:
    """From `start` to `end` along a line."""
    return start + (end - start) * done


def CosineAnnealingLR(optimizer: Any, T_max: int, eta_min: float = 0.0) -> LRScheduler:
    """From the group's rate to `eta_min` in `T_max` steps along half a cosine, and then on along it: up again.

    `optim.cosine` stays at the end.
    """
    return FormulaLR(optimizer, lambda base, step: on_cosine(base, eta_min, step / T_max), is_factor=not eta_min)


def CosineAnnealingWarmRestarts(optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> LRScheduler:
    """From the group's rate to `eta_min` along half a cosine, again and again: in `T_0` steps, and then in `T_mult`
    times as many as the time before (Loshchilov and Hutter, "SGDR", ICLR 2017).

    `step(epoch)` takes parts of an epoch, such as `epoch + batch / batches`.
    """
    if T_0 < 1 or T_mult < 1:
        raise ValueError(f"CosineAnnealingWarmRestarts: T_0 is {T_0} and T_mult {T_mult} where 1 or more is needed")

    def rate(base: float, step: float) -> float:
        length = T_0
        while step >= length and T_mult > 1:
            step, length = step - length, length * T_mult
        return on_cosine(base, eta_min, step % length / length)

    return FormulaLR(optimizer, rate)


def of_each(name: str, optimizer: Any, value: Any) -> list[float]:
    """A number for each group."""
    values = [*value] if isinstance(value, list | tuple) else [value] * len(optimizer.param_groups)
    if len(values) != len(optimizer.param_groups):
        raise ValueError(f"{name} has {len(values)} numbers, and the optimizer {len(optimizer.param_groups)} groups")
    return values


def OneCycleLR(
    optimizer: Any,
    max_lr: Any,
    total_steps: int | None = None,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    pct_start: float = 0.3,
    anneal_strategy: str = "cos",
    cycle_momentum: bool = True,
    base_momentum: float = 0.85,
    max_momentum: float = 0.95,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    three_phase: bool = False,
) -> LRScheduler:
    """From `max_lr`/`div_factor` up to `max_lr`, a number or one for each group, in the share `pct_start` of
    `total_steps` (or of `epochs` of `steps_per_epoch`), and down to the first over `final_div_factor`; with
    `three_phase`, as slowly down to the first in between.

    Along cosines, or, with `anneal_strategy="linear"`, lines. Unless `cycle_momentum` is false, the momentum, or the
    first of the betas, goes from `max_momentum` to `base_momentum` and back meanwhile (Smith and Topin,
    arXiv:1708.07120).
    """
    if total_steps is None:
        if epochs is None or steps_per_epoch is None:
            raise ValueError("OneCycleLR: total_steps, or epochs and steps_per_epoch, are needed")
        total_steps = epochs * steps_per_epoch
    if anneal_strategy not in ("cos", "linear"):
        raise ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}, neither 'cos' nor 'linear'")
    between = on_cosine if anneal_strategy == "cos" else on_line
    peak = pct_start * total_steps - 1
    ends = [peak, 2 * pct_start * total_steps - 2, total_steps - 1] if three_phase else [peak, total_steps - 1]

    def at(step: float, values: Sequence[float]) -> float:
        if step > ends[-1] + 1:
            raise ValueError(f"OneCycleLR: there are {total_steps} steps, and this is number {step}")
        phase = min([number for number, end in enumerate(ends) if step <= end], default=len(ends) - 1)
        start = 0.0 if phase == 0 else ends[phase - 1]
        return between(values[phase], values[phase + 1], (step - start) / (ends[phase] - start))

    def rate_of(greatest: float) -> Rate:
        first = greatest / div_factor
        middle = [first] if three_phase else []
        return lambda base, step: at(step, [first, greatest, *middle, first / final_div_factor])

    momenta = [max_momentum, base_momentum, max_momentum, max_momentum]
    return FormulaLR(
        optimizer,
        [rate_of(greatest) for greatest in of_each("OneCycleLR: max_lr", optimizer, max_lr)],
        (lambda step: at(step, momenta)) if cycle_momentum else None,
    )


def CyclicLR(
    optimizer: Any,
    base_lr: Any,
    max_lr: Any,
    step_size_up: int = 2000,
    step_size_down: int | None = None,
    mode: str = "triangular",
    gamma: float = 1.0,
    cycle_momentum: bool = True,
    base_momentum: float = 0.8,
    max_momentum: float = 0.9,
) -> LRScheduler:
    """From `base_lr` to `max_lr`, numbers or one for each group, in `step_size_up` steps along a line, and back in
    `step_size_down`, again and again; the peaks are halved from cycle to cycle by `mode="triangular2"`, and multiplied
    by `gamma`ᵗ by `"exp_range"` (Smith, arXiv:1506.01186).

    The momentum, or the first of the betas, goes the other way, unless `cycle_momentum` is false.
    """
    if mode not in ("triangular", "triangular2", "exp_range"):
        raise ValueError(f"CyclicLR: mode is {mode!r}, none of 'triangular', 'triangular2' and 'exp_range'")
    total = step_size_up + (step_size_up if step_size_down is None else step_size_down)

    def height(step: float) -> float:
        cycle, within = divmod(step, total)
        share = within / step_size_up if within <= step_size_up else (total - within) / (total - step_size_up)
        return share * {"triangular": 1.0, "triangular2": 0.5**cycle, "exp_range": gamma**step}[mode]

    def rate_of(least: float, greatest: float) -> Rate:
        return lambda base, step: least + (greatest - least) * height(step)

    bounds = zip(
        of_each("CyclicLR: base_lr", optimizer, base_lr), of_each("CyclicLR: max_lr", optimizer, max_lr), strict=True
    )
    return FormulaLR(
        optimizer,
        [rate_of(*bound) for bound in bounds],
        (lambda step: max_momentum - (max_momentum - base_momentum) * height(step)) if cycle_momentum else None,
    )


def SequentialLR(optimizer: Any, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> LRScheduler:
    """One schedule after the other: each starts anew when the next of the `milestones` is reached.

    Raises `ValueError` unless there is one milestone less than there are schedulers, all of this optimizer.
    """
    if len(milestones) != len(schedulers) - 1 or [*milestones] != sorted(milestones):
        raise ValueError(
            f"SequentialLR: milestones are {[*milestones]} where {len(schedulers) - 1}, in order, are needed, one "
            "between every two schedulers"
        )
    if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
        raise ValueError("SequentialLR: a scheduler is of another optimizer")
    if any(getattr(scheduler, "momentum", None) is not None for scheduler in schedulers):
        raise ValueError("SequentialLR: a scheduler changes the momentum; write cycle_momentum=False")
    if own := [type(scheduler).__name__ for scheduler in schedulers if not isinstance(scheduler, FormulaLR)]:
        raise TypeError(f"SequentialLR: {own[0]} has a get_lr of its own, which nothing says the later rates of")
    starts, formulas = [0, *milestones], cast(Sequence[FormulaLR], schedulers)

    def rate_of(group: int) -> Rate:
        def rate(base: float, step: float) -> float:
            part = bisect_right(milestones, step)
            return formulas[part].rates[group](base, step - starts[part])

        return rate

    return FormulaLR(optimizer, [rate_of(group) for group in range(len(optimizer.param_groups))])


def ChainedScheduler(schedulers: Sequence[LRScheduler], optimizer: Any = None) -> LRScheduler:
    """All of the schedules at once: the group's rate times the factors of all.

    Raises `ValueError` for a scheduler of another optimizer, and for one that sets rates instead of multiplying them
    (`LambdaLR`, cycles, a cosine with `eta_min`): what came before it would not count.
    """
    if not schedulers:
        raise ValueError("ChainedScheduler: there are no schedulers")
    optimizer = schedulers[0].optimizer if optimizer is None else optimizer
    formulas = cast(Sequence[FormulaLR], schedulers)
    for position, scheduler in enumerate(schedulers):
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"ChainedScheduler: scheduler {position} is of another optimizer")
        if not getattr(scheduler, "is_factor", False):
            raise ValueError(
                f"ChainedScheduler: scheduler {position} sets rates and multiplies none, so what came before it would "
                "not count; write LambdaLR of the product of the factors"
            )

    def rate_of(group: int) -> Rate:
        def rate(base: float, step: float) -> float:
            return math.prod([formula.rates[group](1.0, step) for formula in formulas], start=base)

        return rate

    rates = [rate_of(group) for group in range(len(optimizer.param_groups))]
    return FormulaLR(optimizer, rates, is_factor=True)


__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
