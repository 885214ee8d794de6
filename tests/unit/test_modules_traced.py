"""Modules while functions are traced: none is left with traced values, no change of a buffer is lost in silence, and
layers draw from streams of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn

X = np.random.default_rng(0).uniform(-1, 1, (4, 2, 3, 3)).astype(np.float32)


def training_network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 2, 1, seed=0), nn.BatchNorm2d(2), nn.Dropout(0.5, seed=0))


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "jit": lambda net: tenon.jit(lambda x: net(x))(X),
    "grad": lambda net: tenon.grad(lambda x: tenon.sum(net(x)))(X),
    "vmap": lambda net: tenon.vmap(lambda x: net(x[None]))(X),
    "scan": lambda net: tenon.scan(lambda c, _: (net(c), None), X, length=2),
    "cond": lambda net: tenon.cond(True, lambda x: net(x), lambda x: x, X),
    "checkpoint": lambda net: tenon.checkpoint(lambda x: net(x))(X),
}


@pytest.mark.parametrize("how", TRANSFORMED)
def test_modules_from_around_a_trace_stay_usable(how: str) -> None:
    network = training_network()
    before = {path: np.array(value) for path, value in network.state_dict().items()}
    # a program that runs once has counted what it draws when it is traced
    counts = r", 2\.calls" if how in ("jit", "scan") else ""
    names = rf"1\.running_mean, 1\.running_var, 1\.num_batches_tracked{counts}"
    words = rf"Sequential: {names} of a module that is no argument"
    with pytest.raises(tenon.TracedValueError, match=words):
        TRANSFORMED[how](network)
    for path, value in network.state_dict().items():
        np.testing.assert_array_equal(value, before[path])
    network(X)
    assert int(network.state_dict()["2.calls"]) == 1


def test_modules_keep_what_they_held_when_a_trace_fails() -> None:
    norm = nn.BatchNorm2d(2)

    def failing(x: Any) -> Any:
        norm(x)
        raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        tenon.jit(failing)(X)
    np.testing.assert_array_equal(norm.running_mean, np.zeros(2))


def test_a_module_by_itself_is_not_compiled() -> None:
    """What its arrays are would be frozen, while those who come from PyTorch go on to train it."""
    layer = nn.Linear(3, 3, seed=0)
    for function in (layer, layer.forward):
        with pytest.raises(TypeError, match=r"jit: what this Linear holds \(weight, bias\) would be constant"):
            tenon.jit(function)
    x = np.ones(3, np.float32)
    np.testing.assert_allclose(tenon.jit(lambda layer, x: tenon.jit(layer)(x))(layer, x), layer(x), rtol=1e-6)
    np.testing.assert_array_equal(tenon.jit(nn.ReLU())(x), x)


@dataclass(frozen=True)
class Power:
    """A setting of a user's program."""

    exponent: Any

    def of(self, x: Any) -> Any:
        return tenon.power(x, self.exponent)


def test_a_method_of_what_cannot_change_is_compiled() -> None:
    np.testing.assert_allclose(tenon.jit(Power(3).of)(np.full(2, 2.0)), 8.0)
    with pytest.raises(TypeError, match=r"jit: what this Power holds \(exponent\) would be constant"):
        tenon.jit(Power(np.ones(2)).of)


class Recorder(nn.Module):
    """Keeps what it is given in a list, in a dict, and in an attribute that it did not have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = np.ones(3)
        self.history: list[Any] = []
        self.seen: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        self.history.append(x)
        self.seen["x"] = x
        self.last = x
        return x * self.weight


def test_what_a_module_collects_is_put_back() -> None:
    recorder = Recorder()
    with pytest.raises(tenon.TracedValueError, match=r"Recorder: history\.0, seen\.x, last of a module"):
        tenon.jit(lambda x: recorder(x))(np.ones(3))
    assert (recorder.history, recorder.seen, hasattr(recorder, "last")) == ([], {}, False)


def test_values_that_are_put_back_and_modules_made_in_a_trace_are_fine() -> None:
    recorder = Recorder()

    def with_weight(weight: Any, x: Any) -> Any:
        former, recorder.weight = recorder.weight, weight
        try:
            return tenon.sum(recorder.weight * x)
        finally:
            recorder.weight = former

    np.testing.assert_array_equal(tenon.grad(with_weight)(np.ones(3), np.arange(3.0)), np.arange(3.0))
    np.testing.assert_array_equal(recorder.weight, np.ones(3))

    kept: list[Any] = []

    def makes(x: Any) -> Any:
        for made in (nn.BatchNorm2d(2), copy.deepcopy(nn.BatchNorm2d(2))):
            kept.append(made)
            x = made(x)
        return x

    assert tenon.jit(makes)(X).shape == X.shape


def test_a_change_that_is_lost_is_told() -> None:
    network = training_network()
    with pytest.warns(UserWarning, match="does not return it") as caught:
        tenon.jit(lambda network, x: network(x))(network, X)
    assert sorted(str(warning.message).partition(" changed in a traced function that")[0] for warning in caught) == [
        "calls of a Dropout",
        "running_mean, running_var, num_batches_tracked of a BatchNorm2d",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match="calls of a Dropout"):
        tenon.jit(lambda d, x: tenon.scan(lambda c, _: (d(c), None), x, length=2)[0])(nn.Dropout(), X)


def test_changes_that_are_returned_or_wanted_are_not_told() -> None:
    """Warnings are errors in tests."""

    @tenon.jit
    def step(network: Any, x: Any) -> Any:
        def loss(network: Any) -> Any:
            return tenon.sum(network(network(x))), network

        (value, network), _ = tenon.value_and_grad(loss, has_aux=True)(network)
        again = copy.copy(network)
        return value, again(x), again

    network = step(training_network(), X)[-1]
    assert int(network[2].calls) == 3
    tenon.jit(lambda network, x: network(x))(network.eval(), X)


def test_a_module_at_several_places_is_told() -> None:
    """In a trace it is several modules: the masks of a dropout would be one, and the counts differ."""
    dropout, norm = nn.Dropout(seed=0), nn.BatchNorm2d(2)
    network = nn.Sequential(dropout, dropout)
    run = tenon.jit(lambda network, x: (network(x), network))
    words = r"calls of a Dropout changed, .* places \(network\.0\.calls and network\.1\.calls\)"
    with pytest.warns(UserWarning, match=words):
        run(network, X)
    with pytest.warns(UserWarning, match=r"calls of a Dropout changed, .* several places"):
        tenon.grad(lambda network: (tenon.sum(network(X)), network), has_aux=True)(
            nn.Sequential(norm, dropout, dropout)
        )
    run(nn.Sequential(nn.Dropout(), nn.Dropout()), X)
    start = np.zeros(2, np.float32)
    norms = [nn.BatchNorm2d(2), nn.BatchNorm2d(2)]
    for norm in norms:  # arrays that are shared are no shared module
        norm.running_mean = start
    run(nn.Sequential(*norms), X)


# --- streams --------------------------------------------------------------------------------------


def layers() -> list[nn.Module]:
    return [nn.Dropout(), nn.Linear(3, 3), nn.Conv2d(1, 1, 3), nn.ConvTranspose1d(1, 1, 3), nn.Embedding(3, 3)]


def test_layers_without_a_seed_differ() -> None:
    for first, second in zip(layers(), layers(), strict=True):
        one, other = first.state_dict(), second.state_dict()
        name = "key" if isinstance(first, nn.Dropout) else "weight"
        assert not np.array_equal(one[name], other[name]), type(first).__name__
    x = np.ones(1000, np.float32)
    first, second = nn.Dropout(), nn.Dropout()
    # independent masks agree at half of the places: within five standard errors
    assert abs(np.mean((first(x) > 0) == (second(x) > 0)) - 0.5) < 5 * np.sqrt(0.25 / x.size)


def test_manual_seed_makes_layers_reproducible() -> None:
    made: list[list[np.ndarray]] = []
    for seed in (1, 1, 2):
        nn.manual_seed(seed)
        made.append([value for layer in layers() for value in layer.state_dict().values() if value.ndim])
    assert all(map(np.array_equal, made[0], made[1]))
    assert not any(map(np.array_equal, made[0], made[2]))
    for wrong, error in ((-1, "is -1, which is negative"), (1.5, "is 1.5 where an integer is needed")):
        with pytest.raises((TypeError, ValueError), match=f"manual_seed: seed {error}"):
            nn.manual_seed(wrong)
