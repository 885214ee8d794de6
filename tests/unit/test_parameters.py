"""Parameters that a module hands out: tensors to programs written for PyTorch, arrays to functions of trees."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.eager import known_tapes

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def pair() -> tuple[Any, Any]:
    """The same network, ours and torch's."""
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 5), torch.nn.Linear(5, 2))
    own = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 2))
    own.load_state_dict(theirs.state_dict())
    return own, theirs


def frozen_by_attribute(model: Any, rules: Any) -> Any:
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    return rules.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)


def frozen_as_a_whole(model: Any, rules: Any) -> Any:
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model[3].requires_grad_(True)
    return rules.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1, momentum=0.9)


def in_groups(model: Any, rules: Any) -> Any:
    heads = list(model[3].parameters())
    others = [p for p in model.parameters() if all(p is not head for head in heads)]
    return rules.SGD([{"params": others, "lr": 0.01}, {"params": heads}], lr=0.1)


def by_names(model: Any, rules: Any) -> Any:
    decayed = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    others = [p for name, p in model.named_parameters() if name.endswith("bias")]
    return rules.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.05)


def written_to(model: Any, rules: Any) -> Any:
    first, *rest = model.parameters()
    first.data.fill_(0.25)
    for parameter in rest:
        parameter.data = parameter.data * 0.5
        parameter.data.add_(0.01)
    return rules.SGD([first, *rest], lr=0.1)


@pytest.mark.parametrize("make", [frozen_by_attribute, frozen_as_a_whole, in_groups, by_names, written_to])
def test_as_in_torch(make: Any) -> None:
    """Three steps of programs that say nothing of what is learned but by parameters."""
    made: list[list[Any]] = []
    for library, rules, model in zip((tenon, torch), (optim, torch.optim), pair(), strict=True):
        steps, x = make(model, rules), library.tensor(X)
        for _ in range(3):
            steps.zero_grad()
            (model(x) ** 2).mean().backward()
            steps.step()
        made.append([p.detach().numpy() for p in model.parameters()])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_by_hand() -> None:
    """No optimizer: a module that is called on tensors learns, and is changed where nothing is recorded."""
    made: list[list[Any]] = []
    for library, model in zip((tenon, torch), pair(), strict=True):
        for _ in range(2):
            (model(library.tensor(X)) ** 2).sum().backward()
            with library.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad.zero_()
                model[3].bias.copy_(library.tensor([1.0, 2.0]))
        made.append([p.detach().numpy() for p in model.parameters()])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_listed_parameters_leave_functions_of_trees_as_they_are() -> None:
    own, _ = pair()
    step = tenon.jit(lambda model, x: (model(x) ** 2).sum())
    before = step(own, X)
    assert sum(p.numel() for p in own.parameters()) == sum(p.size for _, p in own.named_arrays())
    after, (value, slopes) = step(own, X), tenon.value_and_grad(lambda model: (model(X) ** 2).sum())(own)
    assert type(after) is type(value) is type(before)
    np.testing.assert_allclose([after, value], before, rtol=1e-6)
    assert type(own(X)) is np.ndarray
    rule = optim.Adam()
    changed, _ = rule.update(own, slopes, rule.init(own))
    assert isinstance(changed[0].weight, np.ndarray)
    for name, parameter in own.named_parameters():
        np.testing.assert_array_equal(parameter, own.state_dict()[name])
    for made in copy.deepcopy(own), pickle.loads(pickle.dumps(own)):
        np.testing.assert_allclose(step(made, X), before, rtol=1e-6)


def test_one_array_is_one_parameter() -> None:
    """Wherever its modules are, and whichever of them is asked first; a state that is loaded changes no identity."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    assert first.weight is second.weight
    (weight, _), (again, _) = first.parameters(), second.parameters()
    assert weight is again is first.weight is second.weight
    first.load_state_dict({"weight": np.ones((4, 4), np.float32), "bias": np.zeros(4, np.float32)})
    second.requires_grad_()
    assert weight is first.weight is second.weight
    assert weight.sum().item() == 16


def test_tapes_that_do_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of other lengths and choices go by the programs of their calls, until one comes again."""
    monkeypatch.setattr(known_tapes, "_LONG", 8)
    monkeypatch.setattr(known_tapes, "_WASTED", 12)
    known_tapes._KNOWN.clear()
    known_tapes._UNUSED.clear()
    own, theirs = pair()
    counts: list[int] = []
    for length in 2, 3, 4, 5, 4:
        found: list[list[Any]] = []
        for library, model in (tenon, own), (torch, theirs):
            scores, state = [], library.tensor(X[:1])
            for step in range(length):
                low, high = model(state).chunk(2, dim=1)  # two results of one call
                state = state + high * 0.1
                scores.append((low if step % 2 else high)[0, 0])
            model.zero_grad()
            library.stack(scores).mean().backward()
            found.append([p.grad.numpy() for p in model.parameters()])
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        counts.append(len(known_tapes._KNOWN))
    assert counts == [1, 1, 1, 1, 2]
