"""Schedules and optimizers by PyTorch's names have its numbers, of several groups and beyond the end as well."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((4, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What is meant is looked at here; that ops compile to what they mean is, elsewhere."""
    with tenon.knobs.override(interpret=True):
        yield


def _restarts(schedule: Any, steps: int) -> None:
    schedule.step(steps * 0.75)


SCHEDULES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "constant": (lambda s, o: s.ConstantLR(o, 0.5, 3), False),
    "polynomial": (lambda s, o: s.PolynomialLR(o, 8, 2.0), False),
    "multiplicative": (lambda s, o: s.MultiplicativeLR(o, lambda t: 0.9 + 0.01 * t), False),
    "lambdas": (lambda s, o: s.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 0.5**t]), False),
    "exponential": (lambda s, o: s.ExponentialLR(o, 0.9), False),
    "linear": (lambda s, o: s.LinearLR(o, 0.1, total_iters=4), False),
    "steps": (lambda s, o: s.MultiStepLR(o, [3, 7]), False),
    "cosine, beyond its end": (lambda s, o: s.CosineAnnealingLR(o, T_max=5, eta_min=0.01), False),
    "restarts": (lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=2, eta_min=0.01), False),
    "restarts, all alike": (lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=3), False),
    "warm up, then cosine": (
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 8)], milestones=[4]),
        False,
    ),
    "several at once": (
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 20)]),
        False,
    ),
    "one cycle": (lambda s, o: s.OneCycleLR(o, [0.5, 0.1], total_steps=14), True),
    "one cycle, lines": (lambda s, o: s.OneCycleLR(o, 0.5, total_steps=14, anneal_strategy="linear"), True),
    "one cycle, three phases": (lambda s, o: s.OneCycleLR(o, 0.5, total_steps=14, three_phase=True), True),
    "one cycle, no momentum": (lambda s, o: s.OneCycleLR(o, 0.5, total_steps=14, cycle_momentum=False), False),
    "cycles": (lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=3), True),
    "cycles, halved": (lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, 2, mode="triangular2"), True),
    "cycles, fading": (lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9), True),
}


def _of_two_groups(library: Any, rules: Any, name: str, **settings: Any) -> tuple[Any, list[Any]]:
    tensors = [library.tensor(X[row], requires_grad=True) for row in range(2)]
    groups = [{"params": tensors[0]}, {"params": tensors[1], "lr": 0.02}]
    return getattr(rules, name)(groups, lr=0.2, **settings), tensors


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_of_two_groups_are_those_of_torch(name: str) -> None:
    make, moves = SCHEDULES[name]
    rates: list[list[list[Any]]] = []
    for library, rules in ((tenon, optim), (torch, torch.optim)):
        steps, tensors = _of_two_groups(library, rules, "SGD", momentum=0.9)
        schedule = make(rules.lr_scheduler, steps)
        rates.append([])
        for _ in range(12):
            for tensor in tensors:
                tensor.grad = library.tensor(np.ones(3, np.float32))
            steps.step()
            schedule.step()
            rates[-1].append([*schedule.get_last_lr(), *[group["momentum"] for group in steps.param_groups]])
    np.testing.assert_allclose(*rates, rtol=1e-6)
    assert (np.array(rates[0])[:, 2:] != 0.9).any() == moves


def test_fractions_of_an_epoch() -> None:
    rates: list[list[float]] = []
    for library, rules in ((tenon, optim), (torch, torch.optim)):
        steps, _ = _of_two_groups(library, rules, "SGD")
        schedule = rules.lr_scheduler.CosineAnnealingWarmRestarts(steps, 3)
        rates.append([])
        for batch in range(20):
            schedule.step(batch * 0.25)
            rates[-1] += schedule.get_last_lr()
    np.testing.assert_allclose(*rates, rtol=1e-6)


RULES: list[tuple[str, dict[str, Any]]] = [
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1}),
    ("RAdam", {"decoupled_weight_decay": True, "betas": (0.8, 0.9)}),
    ("Rprop", {"etas": (0.4, 1.3), "step_sizes": (1e-3, 0.3)}),
    ("ASGD", {"weight_decay": 0.1, "lambd": 0.1, "t0": 4}),
    ("Adafactor", {"weight_decay": 0.1}),
    ("Adafactor", {"beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 1.5, "maximize": True}),
]


@pytest.mark.parametrize(("name", "settings"), RULES)
def test_steps_are_those_of_torch(name: str, settings: dict[str, Any]) -> None:
    """Of a matrix and a vector."""
    made: list[Any] = []
    for library, rules in ((tenon, optim), (torch, torch.optim)):
        x, b = (library.tensor(array, requires_grad=True) for array in (X, X[0]))
        steps = getattr(rules, name)([x, b], lr=0.1, **settings)
        for number in range(10):
            steps.zero_grad()
            ((x + b + number % 3) ** 2 * library.tensor(X)).sum().backward()
            steps.step()
        made.append([x.detach().numpy(), b.detach().numpy()])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}])
@pytest.mark.parametrize("shape", [(4, 3), (2, 6)])
def test_steps_along_orthonormal_matrices(settings: dict[str, Any], shape: tuple[int, int]) -> None:
    """They are computed in bf16, and only so far agree with PyTorch's."""
    given = GENERATOR.standard_normal((3, *shape)).astype(np.float32)
    made: list[Any] = []
    for library, rules in ((tenon, optim), (torch, torch.optim)):
        x = library.tensor(given[0], requires_grad=True)
        steps = rules.Muon([x], lr=0.1, **settings)
        for number in range(4):
            x.grad = library.tensor(given[1] + number * given[2])
            steps.step()
        made.append(x.detach().numpy())
    np.testing.assert_allclose(*made, atol=0.02)
    assert abs(made[0] - given[0]).max() > 0.1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "settings"),
    [("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("AdamW", {}), ("RAdam", {})],
)
def test_momentum_that_a_schedule_changes(name: str, settings: dict[str, Any]) -> None:
    """It is an input of the program of a step, which is compiled once, and of a traced function."""
    made: list[Any] = []
    for library, rules, is_traced in ((tenon, optim, False), (tenon, optim, True), (torch, torch.optim, False)):
        x = library.tensor(X.astype(np.float64), requires_grad=True)
        steps = getattr(rules, name)([x], lr=0.01, **settings)
        schedule = rules.lr_scheduler.OneCycleLR(steps, 0.1, total_steps=12)

        def step(x: Any, scale: Any, steps: Any = steps) -> None:
            steps.zero_grad()
            (x**2 * scale).sum().backward()
            steps.step()

        update = tenon.trace(step) if is_traced else step
        for number in range(12):
            with warnings.catch_warnings(action="error", category=UserWarning if is_traced else BytesWarning):
                update(x, library.tensor(X.astype(np.float64)))  # one that is traced again and again warns
            if number < 11:
                schedule.step()
        made.append(x.detach().numpy())
    np.testing.assert_allclose(made[0], made[2], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(made[1], made[2], rtol=1e-6, atol=1e-8)


def test_what_schedules_and_optimizers_refuse() -> None:
    x = tenon.tensor(X, requires_grad=True)
    with pytest.raises(ValueError, match="has no momentum; write cycle_momentum=False"):
        optim.lr_scheduler.OneCycleLR(optim.Adagrad(lr=0.1).over([x]), 0.1, total_steps=3)
    steps = optim.SGD(lr=0.1).over([x])
    with pytest.raises(ValueError, match="max_lr has 2 numbers, and the optimizer 1 groups"):
        optim.lr_scheduler.OneCycleLR(steps, [0.1, 0.2], total_steps=3)
    with pytest.raises(ValueError, match=r"milestones are \[2, 1\] where 2"):
        optim.lr_scheduler.SequentialLR(steps, [optim.lr_scheduler.ConstantLR(steps)] * 3, [2, 1])
    with pytest.raises(ValueError, match="there are 3 steps"):
        optim.lr_scheduler.OneCycleLR(steps, 0.1, total_steps=3, cycle_momentum=False).step(5)
    chained, lambdas = optim.lr_scheduler.ChainedScheduler, optim.lr_scheduler.LambdaLR(steps, lambda t: 1.0)
    with pytest.raises(ValueError, match="scheduler 1 sets rates and multiplies none"):
        chained([optim.lr_scheduler.ConstantLR(steps), lambdas])
    with pytest.raises(ValueError, match="ChainedScheduler: scheduler 0 is of another optimizer"):
        chained([lambdas], optim.SGD(lr=0.1).over([tenon.tensor(X)]))
    with pytest.raises(
        ValueError, match=r"Muon: parameter 1 has shape \(3,\) where a matrix is needed; leave it to AdamW"
    ):
        optim.Muon().over([x, tenon.tensor(X[0], requires_grad=True)])
    for wrong in (
        lambda: optim.Rprop(etas=(1.5, 1.2)),
        lambda: optim.Adafactor(d=0.5),
        lambda: optim.Adafactor(beta2_decay=0.5),
        lambda: optim.Muon(adjust_lr_fn="mean"),
    ):
        with pytest.raises(ValueError, match=r"^(Rprop: etas|Adafactor: (d|beta2_decay)|Muon: adjust_lr_fn) is"):
            wrong()
    with pytest.raises(ValueError, match="SGD: parameter 0 was computed of others"):
        optim.SGD(lr=0.1).over([x * 2])
    with pytest.raises(ValueError, match="SGD: nesterov cannot change from step to step"):
        optim.SGD(lr=0.1).update({"x": X}, {"x": X}, {"velocity": {}}, settings={"nesterov": True})


class Tied(nn.Module):
    """A language model that scores words by their vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.scores = nn.Embedding(5, 3), nn.Linear(3, 5)
        self.scores.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        return self.scores(self.words(x))


@pytest.mark.parametrize("names", [["words.weight", "scores.bias", "scores.weight"], ["words.weight"]])
@pytest.mark.parametrize("is_learned", [True, False])
def test_arrays_at_two_places_stay_one_when_a_state_is_loaded(names: list[str], is_learned: bool) -> None:
    model = Tied()
    if is_learned:
        model.requires_grad_()
    state = {name: np.full(model.state_dict()[name].shape, 2.0, np.float32) for name in names}
    model.load_state_dict(state, strict=False)
    assert model.scores.weight is model.words.weight
    assert (model.state_dict()["scores.weight"] == 2.0).all()
    assert len(list(model.parameters())) == 2
    steps = optim.SGD(lr=1.0).over(model.parameters())
    model(np.array([1, 2])).sum().backward()
    steps.step()
    assert model.scores.weight is model.words.weight


def test_losses_of_other_shapes() -> None:
    """A column of predictions and a vector of targets broadcast to a matrix, which is a warning or an error."""
    column, vector = tenon.tensor(X[:, :1]), tenon.tensor(X[:, 0])
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(), nn.HuberLoss()):
        with pytest.warns(UserWarning, match=rf"{type(loss).__name__}: the target has shape \(4,\)") as caught:
            loss(column, vector)
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="rarely meant"):
        nn.functional.mse_loss(column, vector)
    for loss in (nn.BCELoss(), nn.BCEWithLogitsLoss()):
        with pytest.raises(ValueError, match=rf"{type(loss).__name__}: the target has shape \(4,\)"):
            loss(column, vector)


def test_parameters_of_two_models_in_one_list_and_frozen_ones() -> None:
    """Parameters that are listed are those that are trained, whatever is listed together."""
    made: list[list[Any]] = []
    theirs = [torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)]
    own = [nn.Linear(3, 2), nn.Linear(2, 1)]
    for model, other in zip(own, theirs, strict=True):
        model.load_state_dict(other.state_dict())
    libraries: list[Any] = [(tenon, optim, own), (torch, torch.optim, theirs)]
    for library, rules, (first, second) in libraries:
        for parameter in second.parameters():
            parameter.requires_grad = False
        steps = rules.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        second(first(library.tensor(X))).sum().backward()
        steps.step()
        made.append([p.detach().numpy() for p in (*first.parameters(), *second.parameters())])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_traced", [False, True])
def test_a_critic_with_a_penalty_and_a_target(is_traced: bool) -> None:
    """A second derivative of ones like a result, a mask of rows, a result of values that gradients went through before,
    a target that is loaded from a computed state, and its buffers, which are copied."""
    states: list[Any] = []
    losses: list[list[float]] = []
    for library in torch, tenon:
        own: Any = library.nn
        model, target = [
            own.Sequential(own.Linear(3, 5), own.BatchNorm1d(5), own.Tanh(), own.Linear(5, 1)) for _ in range(2)
        ]
        states = states or [{name: value.clone() for name, value in model.state_dict().items()}]
        for part in model, target:
            part.load_state_dict(states[0])
        steps = (optim if library is tenon else torch.optim).SGD(model.parameters(), lr=0.1)  # pyright: ignore
        rows = library.tensor(np.array([True, False, False, True]))

        def step(x: Any, rows: Any, library: Any, model: Any, target: Any, steps: Any) -> Any:
            steps.zero_grad()
            inner = (x * 2).requires_grad_()
            scores = model(inner)
            ones = library.ones_like(scores)
            (slope,) = library.autograd.grad(scores, inner, ones, create_graph=True, only_inputs=True)
            slope = slope.clone()
            slope[rows] = 0.5
            first = (slope.norm(2, dim=1) - 1).pow(2).mean()
            first.backward()
            second = (model(x) - target(x).detach()).pow(2).mean() + scores.mean().detach()
            second.backward()
            steps.step()
            new, old = model.state_dict(), target.state_dict()
            mixed = {name: new[name] * 0.25 + old[name] * 0.75 for name in new if "num" not in name}
            target.load_state_dict({**new, **mixed})
            return first + second

        made: Any = functools.partial(step, library=library, model=model, target=target, steps=steps)
        if is_traced and library is tenon:
            made = tenon.trace(made)
        losses.append([made(library.tensor(X), rows).item() for _ in range(3)])
        for part, value in zip(target.buffers(), model.buffers(), strict=True):
            part.copy_(value)
        assert all((a == b).all() for a, b in zip(target.buffers(), model[1].buffers(), strict=True))
        model[1].running_mean.fill_(2.0)
        assert model.get_buffer("1.running_mean") is model[1].running_mean
        assert model.state_dict()["1.running_mean"].tolist() == [2.0] * 5
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_what_a_traced_tensor_says_of_its_memory() -> None:
    """And that it can be brought into order there."""

    def described(library: Any, x: Any) -> Any:
        y = x.transpose(0, 1)
        facts: list[Any] = [
            y.stride(),
            y.stride(0),
            y.is_contiguous(),
            y.contiguous().is_contiguous(),
            y.contiguous() is y,
            y.nbytes,
        ]
        return y.contiguous().view(2, 6) * library.tensor([*facts[0], *map(float, facts[2:])])

    expected = described(torch, torch.tensor(X))
    for function in described, tenon.trace(described):
        np.testing.assert_array_equal(function(tenon, tenon.tensor(X)), expected)
