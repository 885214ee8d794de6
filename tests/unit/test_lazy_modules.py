"""Layers whose first size follows from what they are called on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)
KINDS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "LazyLinear": ((4,), (2, 5, 3)),
    **{f"LazyConv{rank}d": ((4, 2), (2, 6, *(3,) * rank)) for rank in (1, 2, 3)},
    **{f"LazyConvTranspose{rank}d": ((4, 2), (2, 6, *(3,) * rank)) for rank in (1, 2, 3)},
    **{f"LazyBatchNorm{rank}d": ((), (2, 6, *(3,) * rank)) for rank in (1, 2, 3)},
    **{f"LazyInstanceNorm{rank}d": ((), (2, 6, *(3,) * rank)) for rank in (1, 2, 3)},
}


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What is meant is looked at here; that ops compile to what they mean is, elsewhere."""
    with tenon.knobs.override(interpret=True):
        yield


@pytest.mark.parametrize("name", KINDS)
def test_a_layer_is_that_of_the_size_it_is_called_on(name: str) -> None:
    args, shape = KINDS[name]
    settings: dict[str, Any] = {"affine": True, "track_running_stats": True} if "InstanceNorm" in name else {}
    x = RANDOM.standard_normal(shape).astype(np.float32)
    own, theirs = getattr(nn, name)(*args, **settings), getattr(torch.nn, name)(*args, **settings)
    expected = theirs(torch.tensor(x))
    loaded = getattr(nn, name)(*args, **settings)
    assert name in repr(own)
    own(x)
    assert type(own).__name__ == name.removeprefix("Lazy")
    state = {path: value.numpy() for path, value in theirs.state_dict().items()}
    assert {path: v.shape for path, v in own.state_dict().items()} == {path: v.shape for path, v in state.items()}
    loaded.load_state_dict(state)  # which says the size as well
    assert type(loaded) is type(own)
    own.load_state_dict(state)
    for layer in (own, loaded):
        np.testing.assert_allclose(layer(x), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert expected.shape == own(x).shape


def network(library: Any) -> Any:
    return library.Sequential(
        *(library.LazyConv2d(4, 3), library.LazyBatchNorm2d(), library.ReLU(), library.Flatten()),
        *(library.LazyLinear(5), library.Tanh(), library.LazyLinear(2)),
    )


def test_a_network_is_trained_as_in_torch() -> None:
    theirs, own = network(torch.nn), network(nn)
    theirs(torch.tensor(IMAGE))
    own(tenon.tensor(IMAGE))
    own.load_state_dict(theirs.state_dict())
    losses: list[list[float]] = []
    for library, model, rules in ((torch, theirs, torch.optim), (tenon, own, optim)):
        steps = rules.SGD(model.parameters(), lr=0.1)
        losses.append([])
        for _ in range(3):
            steps.zero_grad()
            loss = (model(library.tensor(IMAGE)) ** 2).mean()
            loss.backward()
            steps.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_a_first_call_is_recorded_and_seeded() -> None:
    nn.manual_seed(3)
    expected = nn.Linear(3, 2).state_dict()["weight"]
    nn.manual_seed(3)
    layer: Any = nn.LazyLinear(2)
    layer.eval().register_forward_hook(lambda module, args, result: result * 2)
    x = tenon.tensor(IMAGE[0, 0, :, :3])
    layer(x).sum().backward()
    np.testing.assert_array_equal(layer.weight.detach().numpy(), expected)
    assert layer.weight.grad is not None
    assert not layer.training
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile(2 * x.numpy().sum(0), (2, 1)), rtol=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_are_layers_of_their_own(copied: Callable[[Any], Any]) -> None:
    layer = nn.Sequential(nn.LazyLinear(2, bias=False))
    other = copied(layer)
    layer(np.ones((1, 3), np.float32))
    other(np.ones((1, 4), np.float32))
    assert [layer[0].weight.shape, other[0].weight.shape] == [(2, 3), (2, 4)]


def test_what_is_not_there_yet_is_said() -> None:
    model = network(nn)
    example = np.ones((1, 3), np.float32)
    unknown = r"its size is not known before its first call, and it has no parameters so far; call the model"
    for asked in (
        lambda: list(model.parameters()),
        lambda: optim.SGD(lr=0.1).over(model.parameters()),
        model.state_dict,
        model.double,
        lambda: model.requires_grad_(False),
        lambda: optim.SGD(0.1).init(model),
    ):
        with pytest.raises(RuntimeError, match=rf"^LazyConv2d 0: {unknown}"):
            asked()
    with pytest.raises(RuntimeError, match=r"^LazyLinear: its size .* which is traced; call the model on an example"):
        tenon.jit(lambda layer, x: layer(x))(nn.LazyLinear(2), example)
    traced = r"^LazyLinear: its size .* which is traced; call the model on an example"
    with tenon.knobs.override(interpret=False), pytest.raises(RuntimeError, match=traced):
        tenon.trace(nn.LazyLinear(2))(tenon.tensor(example))
    with pytest.raises(ValueError, match=r"^LazyConv2d: x has shape \(1, 3\), which has no axis -3"):
        nn.LazyConv2d(2, 3)(example)
    with pytest.raises(TypeError, match=r"^LazyLinear\(out_features.*: missing a required argument: 'out_features'"):
        nn.LazyLinear()
    layer = nn.LazyLinear(-2)
    for _ in range(2):
        with pytest.raises(ValueError, match="out_features is -2 where 0 or more is needed"):
            layer(example)
    layer.out_features = 2
    assert layer(example).shape == (1, 2)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyLinear(2))
    state = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).state_dict()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"1.bias": np.zeros(3)}, r"^1.bias has shape \(2,\) in the module and \(3,\) in the state"),
        ({"1.weight": np.zeros(4)}, r"^1.weight has shape \(4,\) in the state, and that of a Linear has more"),
        ({"2.weight": np.zeros(4)}, "^state does not fit the module: missing none, unknown 2.weight"),
    ]
    for part, message in wrong:
        with pytest.raises(ValueError, match=message):
            model.load_state_dict({**state, **part})
        assert [type(layer) for layer in model] == [nn.LazyLinear] * 2
    model.load_state_dict(state)
    np.testing.assert_array_equal(model.state_dict()["1.weight"], state["1.weight"])
    grouped: Any = nn.LazyConv2d(4, 3, groups=2)
    grouped.load_state_dict(nn.Conv2d(6, 4, 3, groups=2).state_dict())
    assert grouped.in_channels == 6
    with pytest.raises(ValueError, match=r"^running_mean has shape \(\) in the state, and that of a BatchNorm1d"):
        nn.LazyBatchNorm1d(affine=False).load_state_dict({"running_mean": np.zeros(())})
