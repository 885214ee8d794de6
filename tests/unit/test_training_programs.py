"""Programs as users write them give the losses of the same programs in PyTorch over 100 steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from training_programs import (
    LENGTH,
    MASK,
    VOCABULARY,
    discriminators,
    generators,
    gpt,
    perceptron,
    resnet,
    tagger,
)

import tenon
from tenon import nn, optim

STEPS = 100

GENERATOR = np.random.default_rng(0)
cross_entropy = torch.nn.functional.cross_entropy


@pytest.fixture(autouse=True)
def _without_verification() -> Iterator[None]:
    """Programs this large take twice as long with it."""
    with tenon.knobs.override(verify=False):
        yield


def three(make: Callable[[Any], Any], dtype: Any = np.float32) -> tuple[Any, Any, Any]:
    """A network for PyTorch, for tensors and for functions, with the weights of the first."""
    torch.manual_seed(0)
    theirs = make(torch.nn)
    own = [make(nn), make(nn)]
    for model in own:
        model.load_state_dict(theirs.state_dict())
        if dtype != np.float32:
            doubled(model)
    return theirs.to({np.float32: torch.float32, np.float64: torch.float64}[dtype]), own[0].requires_grad_(), own[1]


def doubled(model: Any) -> None:
    for module in model.modules():
        for name, value in [*vars(module).items()]:
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                setattr(module, name, value.astype(np.float64))


def losses_with(library: Any, model: Any, steps: Any, loss: Any, batches: Any, clip: Any, schedule: Any) -> list[float]:
    """The program of PyTorch's manual, for its tensors and for Tenon's."""
    found: list[float] = []
    for batch in batches:
        steps.zero_grad()
        value = loss(model, *[library.tensor(array) for array in batch])
        value.backward()
        if clip:
            clip(model.parameters(), 0.5)
        steps.step()
        if schedule:
            schedule.step()
        found.append(value.item())
    return found


def losses_of_a_function(model: Any, rule: Any, loss: Any, batches: Any, clip: bool, schedule: Any) -> list[float]:
    """The same program as one function."""

    @tenon.jit(donate=("model", "state"))
    def step(model: Any, state: Any, number: Any, *batch: Any) -> Any:
        (value, model), gradient = tenon.value_and_grad(lambda m: (loss(m, *batch), m), has_aux=True)(model)
        if clip:
            gradient, _ = optim.clip_by_global_norm(gradient, 0.5)
        rate = schedule(number) if schedule else None
        return *rule.update(model, gradient, state, lr=rate), value

    state, found = rule.init(model), []
    for number, batch in enumerate(batches):
        model, state, value = step(model, state, np.int32(number), *batch)
        found.append(float(value))
    return found


PLACES = np.arange(LENGTH)


def gpt_loss(model: Any, tokens: Any) -> Any:
    places, mask = (PLACES, MASK) if not isinstance(tokens, torch.Tensor) else map(torch.tensor, (PLACES, MASK))
    entropy = cross_entropy if isinstance(tokens, torch.Tensor) else tenon.cross_entropy
    return entropy(model(tokens[:, :-1], places, mask), tokens[:, 1:].flatten())


def tagger_loss(model: Any, tokens: Any) -> Any:
    zeros = np.zeros((4, 8), np.float32)
    if isinstance(tokens, torch.Tensor):
        return cross_entropy(model(tokens, torch.tensor(zeros)), (tokens % 5).flatten())
    return tenon.cross_entropy(model(tokens, zeros), (tokens % 5).flatten())


def image_loss(model: Any, images: Any, labels: Any) -> Any:
    return (cross_entropy if isinstance(images, torch.Tensor) else tenon.cross_entropy)(model(images), labels)


def tokens(batch: int, length: int) -> Any:
    return [(GENERATOR.integers(0, VOCABULARY, (batch, length)),) for _ in range(STEPS)]


def images(batch: int) -> Any:
    return [(GENERATOR.standard_normal((batch, 3, 16, 16)), GENERATOR.integers(0, 10, batch)) for _ in range(STEPS)]


def small_resnet(library: Any) -> Any:
    return resnet(library, 4, (1, 1))


PROGRAMS: dict[str, Any] = {
    "gpt": (gpt, np.float32, gpt_loss, tokens(4, LENGTH + 1), torch.optim.AdamW, optim.AdamW, 3e-3, True),
    "tagger": (tagger, np.float32, tagger_loss, tokens(4, 3), torch.optim.RMSprop, optim.RMSprop, 1e-2, False),
    # Batches of so few images make it chaotic: in f32 two ways of summing part within 100 steps.
    "resnet": (small_resnet, np.float64, image_loss, images(4), torch.optim.SGD, optim.SGD, 1e-2, False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_torch(name: str) -> None:
    make, dtype, loss, batches, their_rule, own_rule, lr, is_gpt = PROGRAMS[name]
    theirs, own, model = three(make, dtype)
    optimizer, rule = their_rule(theirs.parameters(), lr), own_rule(lr)
    steps = rule.over(own)
    their_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS) if is_gpt else None
    rate = optim.cosine(lr, STEPS) if is_gpt else None
    schedule = optim.Scheduler(steps, rate) if rate else None
    clips = (torch.nn.utils.clip_grad_norm_, optim.clip_grad_norm_) if is_gpt else (None, None)
    expected = losses_with(torch, theirs, optimizer, loss, batches, clips[0], their_schedule)
    if name != "tagger":  # which is many ops, met in other programs, and slow to test
        found = losses_with(tenon, own, steps, loss, batches, clips[1], schedule)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    if name != "resnet":
        found = losses_of_a_function(model, rule, loss, batches, is_gpt, rate)
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def generators_loss(g: Any, d: Any, x: Any, y: Any) -> Any:
    second, first = g.to_second(x), g.to_first(y)
    fooled = ((d.to_second(second) - 1) ** 2).mean() + ((d.to_first(first) - 1) ** 2).mean()
    cycles = (g.to_first(second) - x).abs().mean() + (g.to_second(first) - y).abs().mean()
    return fooled + 10 * cycles, first, second


def discriminators_loss(d: Any, x: Any, y: Any, first: Any, second: Any) -> Any:
    real = ((d.to_first(x) - 1) ** 2).mean() + ((d.to_second(y) - 1) ** 2).mean()
    return real + (d.to_first(first) ** 2).mean() + (d.to_second(second) ** 2).mean()


def test_two_networks_that_train_each_other() -> None:
    """As CycleGAN (Zhu et al., ICCV 2017): each network has an optimizer, and sees the other's results as they are."""

    def losses(library: Any, g: Any, d: Any, of_g: Any, of_d: Any) -> list[float]:
        found: list[float] = []
        for batch in batches:
            x, y = map(library.tensor, batch)
            of_g.zero_grad()
            value, first, second = generators_loss(g, d, x, y)
            value.backward()
            of_g.step()
            of_d.zero_grad()
            score = discriminators_loss(d, x, y, first.detach(), second.detach())
            score.backward()
            of_d.step()
            found += [value.item(), score.item()]
        return found

    (their_g, own_g, g), (their_d, own_d, d) = three(generators), three(discriminators)
    batches = [GENERATOR.uniform(-1, 1, (2, 5, 6)).astype(np.float32) for _ in range(STEPS)]
    rule = optim.Adam(2e-4, (0.5, 0.999))
    their_rules = [torch.optim.Adam(model.parameters(), 2e-4, (0.5, 0.999)) for model in (their_g, their_d)]
    expected = losses(torch, their_g, their_d, *their_rules)
    np.testing.assert_allclose(losses(tenon, own_g, own_d, rule.over(own_g), rule.over(own_d)), expected, rtol=1e-4)

    @tenon.jit(donate=("g", "d", "of_g", "of_d"))
    def step(g: Any, d: Any, of_g: Any, of_d: Any, x: Any, y: Any) -> Any:
        def loss(g: Any) -> Any:
            value, first, second = generators_loss(g, d, x, y)
            return value, (first, second)

        (value, (first, second)), gradient = tenon.value_and_grad(loss, has_aux=True)(g)
        g, of_g = rule.update(g, gradient, of_g)
        score, gradient = tenon.value_and_grad(lambda d: discriminators_loss(d, x, y, first, second))(d)
        d, of_d = rule.update(d, gradient, of_d)
        return g, d, of_g, of_d, value, score

    state, found = (g, d, rule.init(g), rule.init(d)), []
    for batch in batches:
        *state, value, score = step(*state, *batch)
        found += [float(value), float(score)]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


POINTS = np.linspace(0, 1, 24, dtype=np.float32)[:, None]
ENDS = np.array([[0.0], [1.0]], np.float32)
FORCE = (np.pi**2 * np.sin(np.pi * POINTS)).astype(np.float32)


def test_a_differential_equation() -> None:
    """u'' = -π² sin(πx), u(0) = u(1) = 0, by a network (Raissi, Perdikaris and Karniadakis, 2019)."""

    def losses(library: Any, model: Any, steps: Any) -> list[float]:
        found: list[float] = []
        for _ in range(STEPS):
            steps.zero_grad()
            x = library.tensor(POINTS, requires_grad=True)
            (slope,) = library.autograd.grad(model(x).sum(), x, create_graph=True)
            (bend,) = library.autograd.grad(slope.sum(), x, create_graph=True)
            residual = ((bend + library.tensor(FORCE)) ** 2).mean()
            value = residual + 10 * (model(library.tensor(ENDS)) ** 2).mean()
            value.backward()
            steps.step()
            found.append(value.item())
        return found

    theirs, own, model = three(perceptron)
    rule = optim.Adam(1e-3)
    expected = losses(torch, theirs, torch.optim.Adam(theirs.parameters(), 1e-3))
    np.testing.assert_allclose(losses(tenon, own, rule.over(own)), expected, rtol=1e-4)

    @tenon.jit(donate=("model", "state"))
    def step(model: Any, state: Any) -> Any:
        def loss(model: Any) -> Any:
            slope = tenon.grad(lambda x: model(x).sum())
            bend = tenon.grad(lambda x: slope(x).sum())
            return ((bend(POINTS) + FORCE) ** 2).mean() + 10 * (model(ENDS) ** 2).mean()

        value, gradient = tenon.value_and_grad(loss)(model)
        return *rule.update(model, gradient, state), value

    state, found = rule.init(model), []
    for _ in range(STEPS):
        model, state, value = step(model, state)
        found.append(float(value))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
