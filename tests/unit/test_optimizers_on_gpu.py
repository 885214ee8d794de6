"""Optimizers on a GPU: their states are where parameters are, from the first step on.

On the stand-in for CuPy; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

from typing import Any

import pytest
from gpu_tensors import close, floats, gpus, second

import tenon
from tenon import nn, optim
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.runtime.arguments.tree import flatten

__all__ = ["gpus"]  # of which each test has one

RULES = [
    optim.SGD(lr=0.1, momentum=0.9, dampening=0.1),
    optim.AdamW(lr=0.05, amsgrad=True),
    optim.NAdam(lr=0.05),
    optim.RMSprop(lr=0.05, centered=True, momentum=0.5),
    optim.Adagrad(lr=0.05, lr_decay=0.1, initial_accumulator_value=0.5),
]


def places(steps: Any) -> set[bool]:
    leaves, _ = flatten(steps._states)  # pyright: ignore[reportPrivateUsage]
    return {is_on_gpu(leaf) for leaf in leaves}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_states_are_where_parameters_are(rule: Any) -> None:
    here, there = (nn.Linear(3, 2, seed=0).to(device).requires_grad_() for device in ("cpu", "cuda"))
    own, other = rule.over(here.parameters()), rule.over(there.parameters())
    leaves, _ = flatten(rule.init({"w": there.weight._array}))
    assert {is_on_gpu(leaf) for leaf in leaves} == {True}

    def step(model: Any, steps: Any, device: str) -> None:
        steps.zero_grad()
        (model(tenon.tensor(floats(4, 3), device=device)) ** 2).sum().backward()
        steps.step()

    for device in ("cuda", second(), "cpu"):  # the model is moved, and the state goes with it
        there.to(device)
        for _ in range(2):
            step(here, own, "cpu")
            step(there, other, device)
        assert places(other) == {device != "cpu"}
        close(there.weight, here.weight, "cuda:0" if device == "cuda" else device)
    there.to("cuda")
    other.load_state_dict(own.state_dict())
    step(here, own, "cpu")
    step(there, other, "cuda")
    close(there.weight, here.weight)


def test_a_traced_step_is_compiled_once(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(3, 2, seed=0).to("cuda").requires_grad_()
    steps, traces = optim.AdamW(lr=0.05).over(model.parameters()), list[int]()
    scaler = optim.GradScaler(8.0)

    def step(x: Any) -> None:
        traces.append(1)
        steps.zero_grad()
        scaler.scale((model(x) ** 2).sum()).backward()
        scaler.step(steps)
        scaler.update()

    traced, x = tenon.trace(step), tenon.tensor(floats(4, 3), device="cuda")
    with tenon.knobs.override(log_compiles=True, cache=False):
        traced(x)
        compiled = capsys.readouterr().err.count("compiling step for")
        traced(x)
        traced(x)
    assert compiled
    assert "compiling step for" not in capsys.readouterr().err
    state = steps.state_dict()
    steps.load_state_dict(state)
    traced(x)
    assert steps.state_dict()["state"][0]["step"] == 4
    count = len(traces)
    step(x)
    scaler.load_state_dict(scaler.state_dict())  # on the host
    traced(x)
    assert len(traces) == count + 2
