"""L-BFGS and averages of models, beside PyTorch's."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

START = np.array([-1.2, 1.0, -0.5, 0.8])
X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What is meant is looked at here; that ops compile to what they mean is, elsewhere."""
    with tenon.knobs.override(interpret=True):
        yield


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def minimized(library: Any, rules: Any, steps: int, **settings: Any) -> tuple[list[float], Any, Any]:
    x = library.tensor(START, requires_grad=True)
    optimizer = rules.LBFGS([x], **settings)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)], x.detach().numpy(), optimizer


@pytest.mark.parametrize("settings", [{"lr": 1e-2, "max_iter": 4}, {"lr": 1e-3, "history_size": 2, "max_iter": 7}])
def test_steps_without_a_search_are_those_of_torch(settings: dict[str, Any]) -> None:
    own, theirs = minimized(tenon, optim, 3, **settings), minimized(torch, torch.optim, 3, **settings)
    np.testing.assert_allclose(own[0], theirs[0], rtol=1e-8)
    np.testing.assert_allclose(own[1], theirs[1], rtol=1e-8)


def test_a_search_finds_the_minimum() -> None:
    """As fast as that of PyTorch, though it tries other points."""
    settings = {"max_iter": 50, "line_search_fn": "strong_wolfe"}
    own, theirs = minimized(tenon, optim, 2, **settings), minimized(torch, torch.optim, 2, **settings)
    np.testing.assert_allclose(own[1], np.ones(4), atol=1e-5)
    np.testing.assert_allclose(own[1], theirs[1], atol=1e-5)


def test_a_state_goes_on_where_it_was() -> None:
    whole = minimized(tenon, optim, 3, max_iter=3, line_search_fn="strong_wolfe")
    _, at, before = minimized(tenon, optim, 2, max_iter=3, line_search_fn="strong_wolfe")
    x = tenon.tensor(at, requires_grad=True)
    after = optim.LBFGS([x], max_iter=3)
    after.load_state_dict(before.state_dict())

    def closure() -> Any:
        after.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    after.step(closure)
    np.testing.assert_array_equal(x.detach(), whole[1])


@pytest.mark.parametrize("settings", [{}, {"lr": 0.5}, {"line_search_fn": "strong_wolfe"}], ids=repr)
def test_a_minimum_that_was_found_adds_no_changes(settings: dict[str, Any]) -> None:
    """Steps that end before they change anything leave what is known of the changes as it is."""
    own, theirs = minimized(tenon, optim, 5, **settings), minimized(torch, torch.optim, 5, **settings)
    np.testing.assert_allclose(own[1], theirs[1], rtol=1e-8)
    state = theirs[2].state_dict()["state"][0]
    changes = own[2].state_dict()["changes"]
    assert len(changes) == len(state["old_stps"])
    for (change, difference), step, slope in zip(changes, state["old_stps"], state["old_dirs"], strict=True):
        np.testing.assert_allclose(change, step, atol=1e-8)
        np.testing.assert_allclose(difference, slope, atol=1e-6)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_learning_rate_of_0_changes_nothing(search: str | None) -> None:
    losses, found, _ = minimized(tenon, optim, 2, lr=0, line_search_fn=search)
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(found, START)


def test_a_network_and_what_is_refused() -> None:
    nn.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    losses: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((model(tenon.tensor(X)) - tenon.tensor(X[:, :1] ** 2)) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(5):
        optimizer.step(closure)
    assert losses[-1] < losses[0] / 1000
    with pytest.raises(ValueError, match="line_search_fn is 'wolfe'"):
        optim.LBFGS(model.parameters(), line_search_fn="wolfe")


def network(n: Any) -> Any:
    return n.Sequential(n.Linear(4, 6), n.BatchNorm1d(6), n.ReLU(), n.Linear(6, 1))


@pytest.mark.parametrize("kind", ["mean", "moving", "function", "buffers"])
def test_averages_are_those_of_torch(kind: str) -> None:
    theirs, own = network(torch.nn), network(nn)
    own.load_state_dict(theirs.state_dict())
    made: list[list[Any]] = []
    for library, rules, model in ((tenon, optim, own), (torch, torch.optim, theirs)):
        swa = rules.swa_utils
        settings: dict[str, Any] = {
            "mean": {},
            "moving": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)},
            "function": {"avg_fn": lambda average, parameter, count: 0.5 * average + 0.5 * parameter},
            "buffers": {"use_buffers": True},
        }[kind]
        make_steps: Any = rules.SGD
        steps = make_steps(model.parameters(), lr=0.1)
        averaged, rates = swa.AveragedModel(model, **settings), swa.SWALR(steps, swa_lr=0.05, anneal_epochs=3)
        data, seen = library.tensor(X), list[float]()
        for epoch in range(6):
            steps.zero_grad()
            (model(data) ** 2).mean().backward()
            steps.step()
            if epoch > 1:
                averaged.update_parameters(model)
                rates.step()
            seen.append(steps.param_groups[0]["lr"])
        found = [averaged.eval()(data).detach().numpy()]
        if kind != "buffers":
            swa.update_bn([data[:6], (data[6:],)], averaged)
            found.append(averaged(data).detach().numpy())
        assert next(iter(averaged.state_dict())) == "n_averaged"
        made.append([np.array(seen), *found, np.asarray(averaged.state_dict()["n_averaged"])])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_averages_of_another_model_are_refused() -> None:
    averaged = optim.swa_utils.AveragedModel(network(nn))
    with pytest.raises(ValueError, match="has other parameters"):
        averaged.update_parameters(nn.Linear(2, 2))
