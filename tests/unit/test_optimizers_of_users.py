"""Optimizers and schedules that users write by PyTorch's base classes: the same text gives PyTorch's numbers."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((6, 3)), RANDOM.standard_normal((6, 2))
START = RANDOM.standard_normal((3, 2)), RANDOM.standard_normal(2)


def momentum_of(lib: ModuleType) -> Any:
    class Momentum(lib.optim.Optimizer):
        """With states for each parameter, and a count in these."""

        def __init__(self, params: Any, lr: float = 0.1, beta: float = 0.9) -> None:
            super().__init__(params, {"lr": lr, "beta": beta})

        @lib.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"], state["mean"] = 0, lib.zeros_like(p)
                    state["step"] += 1
                    state["mean"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                    p.add_(state["mean"], alpha=-group["lr"] / (1 - group["beta"] ** state["step"]))

    return Momentum


def sharpness_of(lib: ModuleType) -> Any:
    class SAM(lib.optim.Optimizer):
        """Over another one, whose groups it has (Foret et al., arXiv:2010.01412)."""

        def __init__(self, params: Any, base: Any, rho: float = 0.05, **settings: Any) -> None:
            super().__init__(params, {"rho": rho, **settings})
            self.base = base(self.param_groups, **settings)
            self.param_groups = self.base.param_groups

        @lib.no_grad()
        def ascend(self) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["moved"] = p.grad * group["rho"]
                    p.add_(self.state[p]["moved"])

        @lib.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(self.state[p]["moved"])
            self.base.step()

    return SAM


def schedule_of(lib: ModuleType) -> Any:
    class Warmup(lib.optim.lr_scheduler.LRScheduler):
        """To the rate of each group, and down by a factor of the rate that it has."""

        def __init__(self, optimizer: Any, warm: int, last_epoch: int = -1) -> None:
            self.warm = warm
            super().__init__(optimizer, last_epoch)

        def get_lr(self) -> list[float]:
            if self.last_epoch <= self.warm:
                return [base * (self.last_epoch + 1) / (self.warm + 1) for base in self.base_lrs]
            return [group["lr"] * 0.8 for group in self.optimizer.param_groups]

    return Warmup


def run(lib: ModuleType, count: int, saved: Any = None) -> Any:
    """The losses and rates of `count` steps, from where a state was saved, and the state."""
    w, b = [lib.tensor(array, requires_grad=True) for array in START]
    momentum = momentum_of(lib)([{"params": [w]}, {"params": [b], "lr": 0.02}])
    sharp = sharpness_of(lib)([w, b], lib.optim.SGD, lr=0.1, momentum=0.5)
    schedules = [schedule_of(lib)(momentum, 3), schedule_of(lib)(sharp.base, 2)]
    if saved is not None:
        with lib.no_grad():
            w.copy_(lib.tensor(saved[0]))
            b.copy_(lib.tensor(saved[1]))
        for part, state in zip((momentum, sharp.base, *schedules), saved[2], strict=True):
            part.load_state_dict(state)
    found: list[float] = []
    for _ in range(count):
        for optimizer in (momentum, sharp):
            optimizer.zero_grad()
            loss = ((lib.tensor(X) @ w + b - lib.tensor(Y)) ** 2).mean()
            loss.backward()
            if optimizer is sharp:
                sharp.ascend()
                sharp.zero_grad()
                ((lib.tensor(X) @ w + b - lib.tensor(Y)) ** 2).mean().backward()
            optimizer.step()
            found.append(loss.item())
        for schedule in schedules:
            schedule.step()
        found += [*schedules[0].get_last_lr(), sharp.param_groups[0]["lr"], sharp.param_groups[0]["rho"]]
    states = [copy.deepcopy(part.state_dict()) for part in (momentum, sharp.base, *schedules)]
    return found, (w.detach().numpy().copy(), b.detach().numpy().copy(), states)


def test_optimizers_and_schedules_of_users_are_those_of_torch() -> None:
    expected, _ = run(torch, 8)
    found, _ = run(tenon, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    begun, saved = run(tenon, 3)
    gone_on, _ = run(tenon, 5, saved)
    np.testing.assert_allclose([*begun, *gone_on], expected, rtol=1e-12)


def test_what_they_refuse() -> None:
    w = tenon.tensor(START[0], requires_grad=True)
    own = momentum_of(tenon)([w])
    with pytest.raises(ValueError, match="a parameter is in two groups"):
        own.add_param_group({"params": [w]})
    with pytest.raises(ValueError, match=r"Momentum: the state is of groups of \[2\] parameters, and there are \[1\]"):
        own.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
    with pytest.raises(NotImplementedError, match="LRScheduler does not define get_lr"):
        optim.lr_scheduler.LRScheduler(own)
    with pytest.raises(KeyError, match="group 0 has no initial_lr, which a schedule that goes on at 3 needs"):
        schedule_of(tenon)(momentum_of(tenon)([w]), 2, last_epoch=3)
    constant = optim.lr_scheduler.ConstantLR(own)
    with pytest.raises(TypeError, match="SequentialLR: Warmup has a get_lr of its own"):
        optim.lr_scheduler.SequentialLR(own, [schedule_of(tenon)(own, 2), constant], [3])
    model = nn.Linear(2, 1)
    steps = optim.SGD(lr=0.1).over([{"params": model.parameters(), "name": "head"}])
    assert steps.param_groups[0]["name"] == "head"
