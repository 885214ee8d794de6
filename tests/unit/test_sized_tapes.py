"""Tapes that differ in sizes alone have one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.eager import known_tapes, tape_programs
from tenon.eager.backward import Traced


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each program that was compiled whether it is for several sizes."""
    made: list[bool] = []
    original = Traced.compiled

    def noted(traced: Traced, device: str) -> Any:
        program = original(traced, device)
        assert program.executable is not None
        made.append(bool(program.executable.interface.sizes))
        return program

    monkeypatch.setattr(Traced, "compiled", noted)
    monkeypatch.setattr(known_tapes, "_KNOWN", {})
    for name in ("_PROGRAMS", "_KINDS"):
        monkeypatch.setattr(tape_programs, name, BoundedCache(64))
    with tenon.knobs.override(verify=False):
        yield made


def slopes(function: Callable[..., Any], n: int) -> tuple[Any, Any]:
    """Gradients on `n` rows: of the tape, and of the function."""
    x = np.random.default_rng(n).standard_normal((n, 3))
    given = tenon.tensor(x, requires_grad=True)
    function(given, n).backward()
    assert given.grad is not None
    return given.grad.numpy(), tenon.grad(lambda x: function(x, n))(x)


FUNCTIONS: dict[str, Callable[[Any, int], Any]] = {
    "mean": lambda x, n: (x * x).tanh().mean(),
    "reshape to a multiple": lambda x, n: (
        (x.reshape(3 * n)[1:] ** 2).sum() + (x.reshape(n * 3)[:-1] * x.reshape(3 * n)[1:]).sum() * (x**3).sum()
    ),
    "rows but one": lambda x, n: (x[1:n] * x[: n - 1]).sum() + (x * x).sum(),
    "rows of a table": lambda x, n: (x[np.arange(n), np.arange(n) % 3] ** 2).sum(),
    "broadcast": lambda x, n: (tenon.broadcast_to(x[:1], (n, 3)) * x).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_sizes_have_one_program(name: str, compiled: list[bool]) -> None:
    for n in (4, 7, 9, 2, 30):
        found, expected = slopes(FUNCTIONS[name], n)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert compiled == [False, True]


def test_sizes_that_differ_otherwise_have_programs_of_their_own(compiled: list[bool]) -> None:
    def last(x: Any, n: int) -> Any:
        return (x[{4: 1, 7: 5, 9: 3, 2: 1}[n] :] ** 2).sum()

    for n in (4, 7, 9, 2):
        found, expected = slopes(last, n)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert True not in compiled


def test_sizes_that_nothing_tells_have_programs_of_their_own() -> None:
    for n in (4, 7, 9, 2):
        np.testing.assert_array_equal(slopes(lambda x, n: x.sum(), n)[0], np.ones((n, 3)))


def test_equal_names_mean_equal_sizes(compiled: list[bool]) -> None:
    for n, m in ((4, 4), (6, 6), (3, 5), (2, 2)):
        x = tenon.tensor(np.ones((n, 3)), requires_grad=True)
        y = tenon.tensor(np.full((m, 3), 2.0), requires_grad=True)
        (x.exp().sum() * (y * y).sum()).backward()
        assert x.grad is not None
        assert y.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), np.e * 4 * 3 * m)
        np.testing.assert_allclose(y.grad.numpy(), 4 * np.e * 3 * n)
    assert compiled == [False, True, True]


def test_sizes_that_come_often_get_a_program_of_their_own(
    compiled: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_tapes, "_OFTEN", 3)
    for n in (4, 7, 9, 9, 9, 9, 9):
        slopes(FUNCTIONS["mean"], n)
    assert compiled == [False, True, False]


def test_a_network_on_batches_of_several_sizes(compiled: list[bool]) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)).requires_grad_()
    for n in (4, 3, 6):
        images = np.random.default_rng(n).standard_normal((n, 1, 5, 5)).astype(np.float32)
        net.zero_grad()
        tenon.cross_entropy(net(tenon.tensor(images)), np.arange(n) % 2).backward()

        def loss(w: Any, images: Any = images) -> Any:
            return tenon.cross_entropy(tenon.func.functional_call(net, w, images), np.arange(len(images)) % 2)

        expected = tenon.grad(loss)({name: each.detach().numpy() for name, each in net.named_parameters()})
        for name, parameter in net.named_parameters():
            np.testing.assert_allclose(parameter.grad.numpy(), expected[name], rtol=1e-3, atol=1e-5)
    assert compiled == [False, True]
