"""Parameters that are computed of others have PyTorch's names and numbers, in both faces."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.dialects.support.plain_arrays import host_array
from tenon.nn.utils import parametrizations, parametrize

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((2, 4, 9)).astype(np.float32)


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What is meant is looked at here; that ops compile to what they mean is, elsewhere."""
    with tenon.knobs.override(interpret=True):
        yield


def network(n: Any) -> Any:
    p = n.utils.parametrizations
    return n.Sequential(
        p.weight_norm(n.Conv1d(4, 6, 3, dilation=2)),
        n.Tanh(),
        p.spectral_norm(n.Conv1d(6, 4, 3), n_power_iterations=2),
        p.spectral_norm(n.ConvTranspose1d(4, 3, 2)),
        p.weight_norm(n.Conv1d(3, 2, 1), dim=None),
    )


def former(n: Any) -> Any:
    u = n.utils
    return n.Sequential(u.weight_norm(n.Conv1d(4, 6, 3)), n.Tanh(), u.spectral_norm(n.Conv1d(6, 2, 3)))


def pair(make: Any) -> tuple[Any, Any]:
    theirs, own = make(torch.nn), make(nn)
    assert list(own.state_dict()) == list(theirs.state_dict())
    own.load_state_dict(theirs.state_dict())
    return own, theirs


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("make", [network, former])
def test_training_is_that_of_torch(make: Any) -> None:
    losses: list[list[float]] = []
    models = pair(make)
    for model, library, rules in zip(models, (tenon, torch), (optim, torch.optim), strict=True):
        make_steps: Any = rules.Adam
        steps = make_steps(model.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(4):
            steps.zero_grad()
            loss = ((model(library.tensor(X)) - 1) ** 2).mean()
            loss.backward()
            steps.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(*losses, rtol=1e-5)
    own, theirs = models
    for (name, found), (known, expected) in zip(own.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == known
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        own.eval()(tenon.tensor(X)).detach(), theirs.eval()(torch.tensor(X)).detach(), rtol=1e-3, atol=1e-5
    )


def test_as_functions() -> None:
    """A traced function is given what the parameter is computed of, and gives the vectors back that follow it."""
    own, theirs = pair(network)
    expected = theirs(torch.tensor(X))
    found, own = tenon.jit(lambda model, x: (model(x), model))(own, X)
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-4, atol=1e-5)
    for name, buffer in theirs.named_buffers():
        np.testing.assert_allclose(own.get_buffer(name), buffer, rtol=1e-4, atol=1e-5)
    slopes = tenon.grad(lambda model, x: (model(x) ** 2).sum())(own.eval(), X)
    (theirs.eval()(torch.tensor(X)) ** 2).sum().backward()
    for name, parameter in theirs.named_parameters():
        np.testing.assert_allclose(slopes.get_parameter(name), parameter.grad, rtol=1e-3, atol=1e-4)


def test_copies_and_files() -> None:
    own = network(nn).requires_grad_()
    for made in (copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert repr(made) == repr(own)
        assert "ParametrizedConv1d(" in repr(made)
        np.testing.assert_array_equal(made.eval()(X).detach(), own.eval()(X).detach())
        assert made[0].parametrizations.weight.original0 is not own[0].parametrizations.weight.original0


class Symmetric(nn.Module):
    """A matrix of the part above its diagonal."""

    def forward(self, x: Any) -> Any:
        return tenon.triu(x) + tenon.transpose(tenon.triu(x, k=1))


class Exponential(nn.Module):
    """Numbers above 0."""

    def forward(self, x: Any) -> Any:
        return tenon.exp(x)

    def right_inverse(self, x: Any) -> Any:
        """The logarithms."""
        return tenon.log(x)


@pytest.mark.parametrize("is_learned", [True, False])
def test_own_parametrizations(is_learned: bool) -> None:
    layer: Any = nn.Linear(3, 3)
    if is_learned:
        layer.requires_grad_()
    before = np.asarray(layer.state_dict()["weight"]).copy()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert isinstance(layer, nn.Linear)
    assert parametrize.is_parametrized(layer)
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert sorted(name for name, _ in layer.named_arrays()) == ["bias", "parametrizations.weight.original"]
    symmetric = np.triu(before) + np.triu(before, 1).T
    np.testing.assert_array_equal(np.asarray(host_array(layer.weight)), symmetric)
    parametrize.register_parametrization(layer, "weight", Doubled())
    np.testing.assert_array_equal(host_array(layer.weight), 2 * symmetric)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    np.testing.assert_array_equal(host_array(layer.weight), 2 * symmetric)
    assert list(layer.state_dict()) == ["bias", "weight"]
    assert (type(layer.weight) is nn.Parameter) == is_learned


class Doubled(nn.Module):
    """Twice a number."""

    def forward(self, x: Any) -> Any:
        return 2 * x


def test_assignments_and_what_is_left() -> None:
    layer: Any = nn.Linear(2, 2).requires_grad_()
    layer.weight.data = np.full((2, 2), 3.0, np.float32)
    known = layer.weight
    parametrize.register_parametrization(layer, "weight", Exponential())
    np.testing.assert_allclose(layer.weight.detach(), np.full((2, 2), 3.0), rtol=1e-6)
    layer.weight = np.full((2, 2), 5.0, np.float32)
    np.testing.assert_allclose(layer.parametrizations.weight.original.detach(), np.log(np.full((2, 2), 5.0)), rtol=1e-6)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    np.testing.assert_allclose(host_array(layer.weight), np.log(np.full((2, 2), 5.0)), rtol=1e-6)
    assert known is not layer.weight

    layer = nn.utils.weight_norm(nn.Linear(2, 3))
    weight = host_array(layer.weight)
    nn.utils.remove_weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(layer.weight, weight)
    layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 3)))
    assert list(layer.state_dict()) == ["bias", "weight"]


def test_what_is_refused() -> None:
    layer = parametrizations.weight_norm(nn.Linear(2, 3))
    with pytest.raises(ValueError, match="leave_parametrized=False has none"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    with pytest.raises(KeyError, match="Linear has no parameter 'wieght'"):
        parametrize.register_parametrization(layer, "wieght", Symmetric())
    with pytest.raises(ValueError, match=r"weight of a Linear is float32\[3, 2\], and the parametrization gives"):
        parametrize.register_parametrization(nn.Linear(2, 3), "weight", nn.Flatten(0))
    with pytest.raises(ValueError, match="bias of a ParametrizedLinear is not parametrized"):
        parametrize.remove_parametrizations(layer, "bias")
    with pytest.raises(ValueError, match="weight of a ParametrizedLinear is computed already"):
        nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(2, 3)))
    with pytest.raises(ValueError, match="n_power_iterations is 0"):
        parametrizations.spectral_norm(nn.Linear(2, 3), n_power_iterations=0)
