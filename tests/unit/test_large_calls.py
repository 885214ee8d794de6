"""Functions of several ops that are called on large arrays again run as one program, with what they gave op by op."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn
from tenon.dialects.definition.one_program import LARGE, one_program_when_large
from tenon.dialects.definition.value import insertion_point

KEY = np.array([5, 6], np.int32)
FLOATS = np.random.default_rng(0).standard_normal((300, 250)).astype(np.float32)
SCALE = np.float32(0.013)
PLACES = np.random.default_rng(1).integers(0, 50, 75_000)

CALLS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: tenon.random_uniform(KEY, (100_003,), low=-1.3, high=2.7),
    "uniform between tensors": lambda: tenon.random_uniform(KEY, (300, 250), low=FLOATS, high=FLOATS + 1),
    "normal": lambda: tenon.random_normal(KEY, (100_003,), mean=0.3, deviation=1.7),
    "normal f64": lambda: tenon.random_normal(KEY, (100_003,), dtype="f64"),
    "normal f16": lambda: tenon.random_normal(KEY, (200_003,), dtype=np.float16),
    "truncated": lambda: tenon.random_truncated_normal(KEY, (100_003,)),
    "exponential": lambda: tenon.random_exponential(KEY, (100_003,), rate=1.7),
    "gumbel": lambda: tenon.random_gumbel(KEY, (100_003,)),
    "bernoulli": lambda: tenon.random_bernoulli(KEY, 0.3, (300_003,)),
    "integers": lambda: tenon.random_integers(KEY, (100_003,), 3, 1000),
    "categorical": lambda: tenon.random_categorical(KEY, FLOATS),
    "bits": lambda: tenon.random_bits(KEY, (100_003,)),
    "isclose": lambda: tenon.isclose(FLOATS, FLOATS.T.reshape(300, 250), 0.5),
    "diff": lambda: tenon.diff(FLOATS, 2),
    "bincount": lambda: tenon.bincount(PLACES),
    "bincount with weights": lambda: tenon.bincount(PLACES, FLOATS.reshape(-1), 100),
    "quantize": lambda: tenon.quantization.quantize(FLOATS, SCALE, np.int8(3)),
    "fake_quantize": lambda: tenon.quantization.fake_quantize(FLOATS, SCALE, np.int32(3)),
    "integer_matmul": lambda: tenon.quantization.integer_matmul(FLOATS.astype(np.int8), FLOATS.T.astype(np.int8)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_as_op_by_op(name: str) -> None:
    first = CALLS[name]()
    for _ in range(2):
        again = CALLS[name]()
        assert type(again) is type(first)
        assert again.dtype == first.dtype
        np.testing.assert_array_equal(again, first)


def test_distances_are_those_op_by_op_but_for_the_last_bits() -> None:
    first, again = tenon.cdist(FLOATS, FLOATS), tenon.cdist(FLOATS, FLOATS)
    np.testing.assert_allclose(again, first, rtol=1e-5, atol=1e-4)


def counted() -> tuple[Callable[..., Any], list[bool]]:
    """A function of several ops, and for each time that its code ran, whether it was traced."""
    runs: list[bool] = []

    @one_program_when_large
    def moved(x: Any, by: float, *, places: tuple[int, ...] = (0,)) -> Any:
        runs.append(insertion_point() is not None)
        return tenon.roll(tenon.multiply(x, by), places[0], 0)

    return moved, runs


def test_a_second_call_that_is_large_and_alike_is_compiled() -> None:
    moved, runs = counted()
    x = np.arange(LARGE // 8, dtype=np.float64)
    for _ in range(3):
        np.testing.assert_array_equal(moved(x, 3.0), x * 3)
    assert runs == [False, True]
    np.testing.assert_array_equal(moved(x + 1, 3.0), (x + 1) * 3)
    assert runs == [False, True]
    np.testing.assert_array_equal(moved(x, 4.0), x * 4)
    np.testing.assert_array_equal(moved(x, 3.0, places=(1,)), np.roll(x * 3, 1))
    assert moved(x, 0.0)[0] == 0
    assert np.signbit(moved(-x, -0.0)[0]) != np.signbit(moved(-x, 0.0)[0])
    np.testing.assert_array_equal(moved(x.astype(np.int64), 3), x * 3)
    assert runs == [False, True] + [False] * 6


def test_numbers_that_change_are_compiled_for_when_they_come_often() -> None:
    moved, runs = counted()
    x = np.arange(LARGE // 8, dtype=np.float64)
    for by in (3.0, 2.0, 1.0):
        for _ in range(4):
            np.testing.assert_array_equal(moved(x, by), x * by)
    assert runs == [False, True] + [False] * 8
    for _ in range(20):
        np.testing.assert_array_equal(moved(x, 2.0), x * 2)
    assert runs.count(True) == 2


def test_what_is_given_back_as_it_is_has_no_program() -> None:
    assert all(tenon.rot90(FLOATS, 0) is FLOATS for _ in range(3))


def test_small_calls_and_traces_are_as_ever() -> None:
    moved, runs = counted()
    for _ in range(3):
        moved(np.arange(4.0), 3.0)
    assert not any(runs)
    x = np.ones(LARGE, np.float32)
    inner = tenon.jit(lambda x: moved(x, 3.0))
    np.testing.assert_array_equal(inner(x), x * 3)

    step = tenon.trace(lambda x: moved(x, 3.0) + 1)
    for _ in range(3):
        np.testing.assert_array_equal(step(tenon.tensor(x)), x * 3 + 1)


def test_tensors_are_compiled_for_and_recorded() -> None:
    moved, runs = counted()
    x = np.ones(LARGE, np.float32)
    weight = tenon.tensor(x, requires_grad=True)
    for _ in range(3):
        made = moved(weight, 3.0)
        assert isinstance(made, tenon.Tensor)
        made.sum().backward()
    np.testing.assert_array_equal(weight.grad, np.full(LARGE, 9, np.float32))
    assert runs[:2] == [False, True]
    with tenon.no_grad():
        assert not moved(weight, 3.0).requires_grad


def test_a_loss_and_its_gradients_are_those_op_by_op_but_for_the_last_bits() -> None:
    loss = nn.GaussianNLLLoss()

    def call() -> list[Any]:
        x, target, variance = [tenon.tensor(FLOATS + i, requires_grad=True) for i in range(3)]
        found = loss(x, target, variance * variance)
        found.backward()
        return [found.detach(), x.grad, target.grad, variance.grad]

    first = call()
    for _ in range(2):
        for one, other in zip(call(), first, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)


def test_settings_of_a_module_and_precision_are_those_of_the_call() -> None:
    loss, x = nn.TripletMarginLoss(), FLOATS
    values = [float(loss(x, x + 2, x + 1)) for _ in range(3)]
    loss.margin = 3.0
    assert values == pytest.approx([values[0]] * 3)
    assert float(loss(x, x + 2, x + 1)) == pytest.approx(np.sqrt(250) + 3, rel=1e-3)
    one, x = nn.Softplus(beta=2.0), tenon.tensor(FLOATS)
    assert [float(one(x).mean()) for _ in range(2)]
    one.beta = 9.0
    again = nn.Softplus(beta=2.0)(tenon.tensor(FLOATS, requires_grad=True)).detach()
    np.testing.assert_allclose(again, np.log1p(np.exp(2 * FLOATS.astype(float))) / 2, rtol=1e-5)
    for _ in range(3):
        with tenon.autocast("f16"):
            assert tenon.linear(x, x).dtype == np.float16
        assert tenon.linear(x, x).dtype == np.float32


def test_what_cannot_be_traced_goes_on_op_by_op() -> None:
    runs: list[bool] = []

    @one_program_when_large
    def total(x: Any, factor: Any) -> Any:
        runs.append(insertion_point() is not None)
        return tenon.multiply(x, float(factor))

    x = np.ones(LARGE, np.float32)
    for _ in range(4):
        np.testing.assert_array_equal(total(x, np.float32(2)), x * 2)
    assert runs == [False, True, False, False, False]


@pytest.mark.parametrize("call", [lambda: tenon.arange(50_000), lambda: tenon.linspace(0, 1, 50_000, dtype="f64")])
def test_ranges_take_no_copy(call: Callable[[], Any]) -> None:
    size = call().nbytes
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size <= most < 1.5 * size


def test_few_programs_are_kept() -> None:
    moved, runs = counted()
    x = np.ones(LARGE // 8)
    for by in range(80):
        moved(x, float(by))
    moved(x, 0.0)
    assert not any(runs)
