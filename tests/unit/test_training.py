"""Training with tensors: modules, optimizers and schedules in place give what PyTorch's give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

X = np.random.default_rng(0).standard_normal((16, 3, 8, 8)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 10, 16)


def networks() -> tuple[nn.Module, torch.nn.Module]:
    """One network in both, with the same weights, from PyTorch's checkpoint."""
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 10),
    )
    own = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    )
    assert own.load_state_dict(theirs.state_dict()) == ([], [])
    return own.requires_grad_(), theirs


def loss_of(model: Any) -> Any:
    return tenon.mean(tenon.cross_entropy(model(X), Y))


def their_loss(model: Any) -> Any:
    return torch.nn.functional.cross_entropy(model(torch.tensor(X)), torch.tensor(Y))


RULES: dict[str, tuple[optim.Optimizer, Callable[[Any], Any]]] = {
    "sgd": (optim.SGD(0.1, 0.9, 1e-3, True), lambda p: torch.optim.SGD(p, 0.1, 0.9, 0, 1e-3, True)),
    "adam": (optim.Adam(1e-2), lambda p: torch.optim.Adam(p, 1e-2)),
    "adamw": (optim.AdamW(1e-2), lambda p: torch.optim.AdamW(p, 1e-2)),
    "rmsprop": (
        optim.RMSprop(1e-3, momentum=0.9, centered=True),
        lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.9, centered=True),
    ),
    "adagrad": (optim.Adagrad(1e-2, 1e-3, 0.1), lambda p: torch.optim.Adagrad(p, 1e-2, 0, 1e-3, 0.1)),
}


@pytest.mark.parametrize("name", RULES)
def test_losses_are_those_of_torch(name: str) -> None:
    rule, make = RULES[name]
    own, theirs = networks()
    steps, their_steps = rule.over(own), make(theirs.parameters())
    for _ in range(12):
        steps.zero_grad()
        loss = loss_of(own)
        loss.backward()
        norm = optim.clip_grad_norm_(own, 1.0)
        steps.step()
        their_steps.zero_grad()
        expected = their_loss(theirs)
        expected.backward()
        their_norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        their_steps.step()
        np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(float(norm), float(their_norm), rtol=1e-3, atol=1e-6)
    result, expected = own.eval()(X).detach().numpy(), theirs.eval()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


def test_parameters_are_given_in_any_form() -> None:
    model: Any = networks()[0]
    parameters = list(model.parameters())
    for given in (model, model.parameters(), parameters, filter(lambda p: p.requires_grad, model.parameters())):
        (group,) = optim.SGD(0.1).over(given).param_groups
        assert list(map(id, group["params"])) == list(map(id, parameters))
    groups = iter([{"params": model[0].parameters()}, {"params": parameters[-1], "lr": 0.5}])
    assert [group["lr"] for group in optim.SGD(0.1).over(groups).param_groups] == [0.1, 0.5]


def lion(p: Any, slopes: Any) -> Any:
    m = np.zeros_like(p)
    for g in slopes:
        p = p - 0.1 * (np.sign(0.9 * m + 0.1 * g) + 0.01 * p)
        m = 0.99 * m + 0.01 * g
    return p


def lamb(p: Any, slopes: Any) -> Any:
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(slopes, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        d = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.01 * p
        p = p - 0.1 * np.linalg.norm(p) / np.linalg.norm(d) * d
    return p


@pytest.mark.parametrize(
    ("rule", "oracle"), [(optim.Lion(0.1, weight_decay=0.01), lion), (optim.LAMB(0.1), lamb)], ids=["lion", "lamb"]
)
def test_rules_of_papers(rule: optim.Optimizer, oracle: Callable[..., Any]) -> None:
    generator = np.random.default_rng(0)
    p, slopes = generator.standard_normal((4, 3)), generator.standard_normal((5, 4, 3))
    x = tenon.tensor(p, requires_grad=True)
    steps = rule.over([x])
    for slope in slopes:
        x.grad = tenon.tensor(slope)
        steps.step()
    np.testing.assert_allclose(x.detach().numpy(), oracle(p, slopes), rtol=1e-9)


AS_IN_TORCH = {
    "Adagrad": {"lr": 0.1, "lr_decay": 0.3, "weight_decay": 0.1},
    **{name: {"lr": 0.01, "maximize": True} for name in ("SGD", "Adam", "AdamW", "RMSprop", "NAdam")},
    **{name: {"lr": 0.01, "maximize": True, "foreach": False} for name in ("Adadelta", "Adamax", "RAdam")},
    "Adagrad, both": {"lr": 0.1, "lr_decay": 0.3, "maximize": True, "initial_accumulator_value": 0.5},
    "AdamW, decay": {"lr": 0.1, "weight_decay": 0.2, "maximize": True, "fused": None, "capturable": False},
}


@pytest.mark.parametrize("name", AS_IN_TORCH)
def test_steps_are_those_of_torch_by_its_own_call(name: str) -> None:
    p = np.random.default_rng(0).standard_normal((4, 3))
    x, y = tenon.tensor(p, requires_grad=True), torch.tensor(p, requires_grad=True)
    kind, settings = name.partition(",")[0], AS_IN_TORCH[name]
    steps, theirs = getattr(optim, kind)([x], **settings), getattr(torch.optim, kind)([y], **settings)
    for number in range(4):
        slope = np.random.default_rng(number).standard_normal((4, 3))
        x.grad, y.grad = tenon.tensor(slope), torch.tensor(slope)
        steps.step()
        theirs.step()
        kept = steps.state_dict()
        steps = getattr(optim, kind)([x], **settings)
        steps.load_state_dict(kept)
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-7)
    with pytest.raises(TypeError, match=rf"{kind}: there is no argument 'differentiable'"):
        getattr(optim, kind)([x], differentiable=True)


SETTINGS: dict[str, tuple[optim.Optimizer, Callable[[Any], Any]]] = {
    **RULES,
    "adam, decay": (optim.Adam(1e-2, weight_decay=0.01), lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.01)),
    "sgd, plain": (optim.SGD(1e-2), lambda p: torch.optim.SGD(p, 1e-2)),
    "adamw, settings": (
        optim.AdamW(1e-2, (0.8, 0.95), 1e-6, 0.1),
        lambda p: torch.optim.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_fifty_steps_of_groups_with_rates_of_their_own(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    rule, make = SETTINGS[name]
    generator = np.random.default_rng(0)
    values = [generator.standard_normal(shape) for shape in ((4, 3), (3,), (2, 2, 2))]
    own = [tenon.tensor(value, requires_grad=True) for value in values]
    theirs = [torch.tensor(value, requires_grad=True) for value in values]
    rate, step_lr = rule.lr, torch.optim.lr_scheduler.StepLR
    steps = rule.over([{"params": own[:2]}, {"params": own[2:], "lr": 3 * rate}])
    optimizer = make([{"params": theirs[:2]}, {"params": theirs[2:], "lr": 3 * rate}])
    schedule, their_schedule = optim.Scheduler(steps, optim.step_decay(rate, 20)), step_lr(optimizer, 20)
    with tenon.knobs.override(log_compiles=True):
        for _ in range(50):
            for x, y in zip(own, theirs, strict=True):
                gradient = generator.standard_normal(y.shape)
                x.grad, y.grad = tenon.tensor(gradient), torch.tensor(gradient)
            steps.step()
            optimizer.step()
            schedule.step()
            their_schedule.step()
    for x, y in zip(own, theirs, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-10)
    assert capfd.readouterr().err.count("compiling step:") == 1  # one program for all groups


def test_in_place_and_functional_steps_are_one() -> None:
    own, _ = networks()
    rule = optim.Adam(1e-2)
    functional = networks()[0]
    functional.load_state_dict(own.state_dict())
    arrays = {name: value.detach().numpy().copy() for name, value in functional.named_parameters()}
    state = rule.init(arrays)
    steps = rule.over(own)
    for _ in range(3):
        slopes = {n: np.full_like(a, 0.5) for n, a in arrays.items()}
        arrays, state = rule.update(arrays, slopes, state)
        for value in own.parameters():
            value.grad = tenon.tensor(np.full(value.shape, 0.5, np.float32))
        steps.step()
    for name, value in own.named_parameters():
        np.testing.assert_array_equal(value.detach().numpy(), arrays[name])


def test_groups_parameters_without_gradients_and_closures() -> None:
    a, b, c = (tenon.tensor([1.0, 2.0], requires_grad=True) for _ in range(3))
    steps = optim.SGD(0.1, 0.9).over([{"params": [a, c]}, {"params": [b], "lr": 1.0}])

    def closure() -> Any:
        steps.zero_grad()
        loss = (a + b).sum()
        loss.backward()
        return loss

    assert steps.step(closure).item() == 6.0
    np.testing.assert_allclose(a.detach().numpy(), [0.9, 1.9])
    np.testing.assert_allclose(b.detach().numpy(), [0.0, 1.0])
    np.testing.assert_array_equal(c.detach().numpy(), [1.0, 2.0])
    steps.param_groups[0]["lr"] = 0.0
    steps.step(closure)
    np.testing.assert_allclose(a.detach().numpy(), [0.9, 1.9])


def arrays_of(model: Any) -> dict[str, Any]:
    """The state of a module: parameters are tensors, buffers may be arrays, such as the count of batches."""
    return {path: np.array(tenon.as_tensor(value).detach()) for path, value in model.state_dict().items()}


def test_state_is_taken_up_again() -> None:
    def train(model: Any, steps: Any, count: int) -> None:
        for _ in range(count):
            steps.zero_grad()
            loss_of(model).backward()
            steps.step()

    one, _ = networks()
    steps = optim.Adam(1e-2).over(one)
    train(one, steps, 2)
    model_state = arrays_of(one)
    state = steps.state_dict()
    train(one, steps, 2)
    other, _ = networks()
    other.load_state_dict(model_state)
    again = optim.Adam(1.0).over(other)
    again.load_state_dict(state)
    train(other, again, 2)
    found, expected = arrays_of(other), arrays_of(one)
    for path, value in expected.items():
        np.testing.assert_array_equal(found[path], value)
    with pytest.raises(ValueError, match="does not fit"):
        optim.Adam(1.0).over([tenon.tensor([1.0], requires_grad=True)]).load_state_dict(state)


def test_a_step_that_fails_changes_nothing() -> None:
    a, b = tenon.tensor([1.0], requires_grad=True), tenon.tensor([2.0], requires_grad=True)
    steps = optim.SGD(0.1).over([{"params": [a]}, {"params": [b]}])
    (a + b).sum().backward()
    steps.param_groups[1]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr"):
        steps.step()
    assert (a.item(), b.item()) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: optim.SGD(0.1).over([x, x]), ValueError, "given twice"),
        (lambda x: optim.SGD(0.1).over([np.ones(2)]), TypeError, r"ndarray .* module\.parameters\(\)"),
        (lambda x: optim.SGD(0.1).over([]), ValueError, "no parameters"),
        (lambda x: optim.SGD(0.1).over([{"params": [x], "momentun": 1}]), ValueError, "no setting momentun, did"),
        (lambda x: optim.SGD(0.1).over([x]).step(), ValueError, "call backward"),
    ],
    ids=["twice", "array", "none", "setting", "no gradient"],
)
def test_refused(function: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        function(tenon.tensor([1.0, 2.0], requires_grad=True))


def rates(scheduler: Any, count: int) -> list[float]:
    found: list[float] = []
    for _ in range(count):
        found.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return found


SCHEDULES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "step": (optim.step_decay(0.1, 3, 0.5), lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5)),
    "exponential": (optim.exponential(0.1, 0.9), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9)),
    "cosine": (optim.cosine(0.1, 20, 0.01), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.01)),
    "one cycle": (
        optim.one_cycle(0.1, 20),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 20, cycle_momentum=False),
    ),
    "warm-up": (
        optim.warm_up(lambda _: 0.1, 5, 0.25),
        lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.25, total_iters=5),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_torch(name: str) -> None:
    schedule, make = SCHEDULES[name]
    x, theirs = tenon.tensor([1.0], requires_grad=True), torch.ones(1, requires_grad=True)
    x.grad, theirs.grad = tenon.tensor([0.0]), torch.zeros(1)
    own = rates(optim.Scheduler(optim.SGD(0.1).over([x]), schedule), 20)
    np.testing.assert_allclose(own, rates(make(torch.optim.SGD([theirs], 0.1)), 20), rtol=1e-6)
    traced = tenon.jit(lambda step: schedule(step) * 1.0)
    for step in (0, 3, 19):
        np.testing.assert_allclose(traced(np.int64(step)), own[step], rtol=1e-5)


def test_plateau() -> None:
    x, theirs = tenon.tensor([1.0], requires_grad=True), torch.ones(1, requires_grad=True)
    steps, their_steps = optim.SGD(1.0).over([x]), torch.optim.SGD([theirs], 1.0)
    own = optim.Plateau(steps, patience=2, factor=0.5)
    their = torch.optim.lr_scheduler.ReduceLROnPlateau(their_steps, patience=2, factor=0.5)
    for measure in (3, 2, 2, 2, 2, 2.1, 1, 1, 1, 1, 1, 1, 1, 0.5):
        own.step(measure)
        their.step(measure)
        assert steps.param_groups[0]["lr"] == their_steps.param_groups[0]["lr"]


def test_average() -> None:
    x = tenon.tensor([1.0, 2.0], requires_grad=True)
    average = optim.Average([x], 0.5)
    with tenon.no_grad():
        x += 2
    average.update()
    with average.applied():
        np.testing.assert_allclose(x.detach().numpy(), [2.0, 3.0])
    np.testing.assert_allclose(x.detach().numpy(), [3.0, 4.0])


def test_clip_by_value() -> None:
    x = tenon.tensor([1.0, 2.0], requires_grad=True)
    x.grad = tenon.tensor([5.0, -0.5])
    optim.clip_grad_value_([x], 1.0)
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, -0.5])


def test_grad_manager() -> None:
    x = tenon.tensor([1.0, 2.0])
    seen: list[Any] = []

    def callback(tensor: Any, gradient: Any) -> Any:
        seen.append(tensor)
        return gradient * 2

    manager = tenon.GradManager().attach([x], callback)
    with manager:
        loss = (x * x).sum()
        manager.backward(loss)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [4.0, 8.0])
    assert seen[0] is x
    assert not x.requires_grad
    assert not (x * 2).requires_grad
    with pytest.raises(RuntimeError, match="before record"):
        manager.backward(loss)


def test_a_module_of_a_user() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(np.ones(3, np.float32))
            self.register_buffer("seen", np.zeros(3, np.float32))

        def forward(self, x: Any) -> Any:
            if self.training:
                self.seen = self.seen + x * self.scale
            return x * self.scale

    model = Scaled()
    loss = model(np.full(3, 2.0, np.float32)).sum()
    loss.backward()
    (scale,) = model.parameters()
    np.testing.assert_array_equal(scale.grad.numpy(), [2.0, 2.0, 2.0])
    assert not model.seen.requires_grad
    compiled = tenon.jit(lambda model, x: model(x).sum())
    model.zero_grad()
    compiled(model.eval(), np.full(3, 3.0, np.float32)).backward()
    np.testing.assert_array_equal(scale.grad.numpy(), [3.0, 3.0, 3.0])
