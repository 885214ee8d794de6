"""`torch.func` by its names: gradients of single examples, ensembles, and what is refused."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.func

import tenon
from tenon import func, nn
from tenon.dialects.definition.value import TracedValueError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((5, 4)).astype(np.float32), RANDOM.integers(0, 2, 5)


def network(library: Any) -> Any:
    return library.Sequential(library.Linear(4, 3), library.BatchNorm1d(3), library.ReLU(), library.Linear(3, 2)).eval()


def of_examples(library: Any, own: Any, model: Any) -> list[Any]:
    """The gradients of single examples, as PyTorch's tutorial "Per-sample-gradients" has them, and an ensemble."""
    parameters = {path: value.detach() for path, value in model.named_parameters()}
    buffers = {path: value.detach() for path, value in model.named_buffers()}

    def loss(parameters: Any, buffers: Any, x: Any, y: Any) -> Any:
        found = own.functional_call(model, (parameters, buffers), (x.unsqueeze(0),))
        return library.nn.functional.cross_entropy(found, y.unsqueeze(0))

    each = own.vmap(own.grad(loss), in_dims=(None, None, 0, 0))
    slopes = each(parameters, buffers, library.tensor(X), library.tensor(Y))
    first, value = own.grad_and_value(loss)(parameters, buffers, library.tensor(X[0]), library.tensor(Y)[0])
    stacked, others = own.stack_module_state([model, model])
    together = own.vmap(lambda p, b, x: own.functional_call(model, (p, b), (x,)), in_dims=(0, 0, None))
    found = together(stacked, others, library.tensor(X))
    assert all(part.requires_grad for part in stacked.values())
    return [*slopes.values(), first["0.weight"], value, found, *stacked.values()]


def test_gradients_of_single_examples_and_an_ensemble() -> None:
    theirs, own = network(torch.nn), network(nn)
    own.load_state_dict(theirs.state_dict())
    for found, expected in zip(of_examples(tenon, func, own), of_examples(torch, torch.func, theirs), strict=True):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_a_module_keeps_its_own_parameters() -> None:
    model = nn.Linear(2, 1, seed=0)
    before = model.state_dict()["weight"].copy()
    weight = tenon.tensor(np.ones((1, 2), np.float32), requires_grad=True)
    result = func.functional_call(model, {"weight": weight, "bias": np.zeros(1, np.float32)}, tenon.tensor(X[:, :2]))
    np.testing.assert_allclose(result.detach().numpy(), X[:, :2].sum(1, keepdims=True), rtol=1e-5)
    result.sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), X[:, :2].sum(0, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(model.state_dict()["weight"], before)
    with pytest.raises(ValueError, match=r"^functional_call: a Linear has no weigth, did you mean 'weight'"):
        func.functional_call(model, {"weigth": weight}, X)
    with pytest.raises(ValueError, match=r"^stack_module_state: models are of several classes \(Linear, Tanh\)"):
        func.stack_module_state([model, nn.Tanh()])


def test_own_parameters_that_are_not_replaced_have_gradients() -> None:
    model = nn.Sequential(nn.Linear(2, 1, seed=0), nn.Linear(1, 1, seed=1))
    bias = tenon.tensor(np.zeros(1, np.float32), requires_grad=True)
    func.functional_call(model, {"1.bias": bias}, tenon.tensor(X[:, :2])).sum().backward()
    expected = X[:, :2].sum(0) * model[1].weight.item()
    np.testing.assert_allclose(model[0].weight.grad.numpy()[0], expected, rtol=1e-5)
    assert (bias.grad.item(), model[1].bias.grad) == (len(X), None)


def test_each_call_draws_as_calls_of_the_module_would() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5, seed=1)

        def forward(self, x: Any) -> Any:
            return self.drop(x) + 3 * self.drop(x)

    own, other = Twice(), Twice()
    x = tenon.tensor(np.ones(64, np.float32))
    called = lambda model, x: func.functional_call(model, {}, (x,))  # noqa: E731
    value = func.grad_and_value(lambda x: called(own, x).sum())
    direct = [other(x) for _ in range(6)]
    for expected in direct[:2]:
        np.testing.assert_array_equal(called(own, x), expected)
    for expected in direct[2:4]:  # in functions that are traced at each call
        slope, total = value(x)
        np.testing.assert_array_equal(slope, expected)
        assert float(total) == float(expected.sum())
    compiled = tenon.jit(lambda model, x: (called(model, x), model))
    for expected in direct[4:]:
        found, own = compiled(own, x)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(TracedValueError, match=r"^Dropout: calls of a module that is no argument of the"):
        tenon.jit(lambda x: called(other, x))(x)
    # the steps of a loop would all draw the same
    with pytest.raises(TracedValueError, match=r"^Dropout: calls of a module that is no argument of the"):
        tenon.scan(lambda carry, _: (called(other, carry), None), x, length=3)
    fixed = {"drop.calls": np.zeros((), np.int32)}
    for _ in range(2):
        np.testing.assert_array_equal(func.functional_call(other, fixed, (x,)), direct[0])
    traced = tenon.trace(lambda x: called(own, x))
    assert not np.array_equal(traced(x), traced(x))


DRAWS: list[Any] = [
    lambda model, x: func.grad(lambda x: func.functional_call(model, {}, (x,)).sum())(x),
    lambda model, x: nn.functional.dropout(x),
    lambda model, x: tenon.checkpoint(model, x) * 2 * tenon.bernoulli(tenon.full(x.shape, 0.5)),
]


@pytest.mark.parametrize("draw", DRAWS, ids=["module", "function", "checkpoint"])
def test_examples_have_numbers_of_their_own_where_they_shall(draw: Any) -> None:
    """At once, and in a program that is called again."""
    model, x = nn.Dropout(0.5, seed=1), tenon.tensor(np.ones((3, 32), np.float32))
    by_mode = {mode: func.vmap(lambda x: draw(model, x), randomness=mode) for mode in ("different", "same", "error")}
    for wrapped in (lambda f: f, tenon.trace):
        for mode, count in (("different", 6), ("same", 2)):
            call = wrapped(by_mode[mode])
            found = np.concatenate([call(x).numpy() for _ in range(2)])
            assert {*found.ravel().tolist()} <= {0.0, 2.0, 4.0}
            assert len({tuple(row) for row in found.tolist()}) == count
        with pytest.raises(RuntimeError, match=r"^vmap: random numbers are drawn .* randomness='different'"):
            wrapped(by_mode["error"])(x)


def test_each_axis_of_examples_says_what_its_numbers_are() -> None:
    model, x = nn.Dropout(0.5, seed=1), np.ones((2, 3, 32), np.float32)

    def masks(outer: str, inner: str) -> np.ndarray[Any, Any]:
        rows = tenon.jit(lambda model, x: (func.vmap(func.vmap(model, randomness=inner), randomness=outer)(x), model))
        return rows(model, x)[0]

    assert len({tuple(row) for row in masks("different", "different").reshape(6, 32).tolist()}) == 6
    outer = masks("different", "same")
    np.testing.assert_array_equal(outer, np.broadcast_to(outer[:, :1], outer.shape))
    assert not np.array_equal(outer[0], outer[1])
    np.testing.assert_array_equal(masks("same", "different")[0], masks("same", "different")[1])
    with pytest.raises(RuntimeError, match="randomness is 'error'"):
        masks("error", "different")
    with pytest.raises(ValueError, match=r"^vmap: randomness is 'other' where one of error, different, same is needed"):
        func.vmap(model, randomness="other")


def test_what_is_computed_again_draws_the_same() -> None:
    """In the gradient of a checkpoint, and where a function is traced for its value and once more to pull back."""
    model = nn.Sequential(nn.Linear(4, 64, seed=0), nn.Dropout(0.5, seed=1)).requires_grad_()
    x = tenon.tensor(X, requires_grad=True)

    def step(x: Any) -> Any:
        y = tenon.checkpoint(lambda x: nn.functional.dropout(model(x)), x, use_reentrant=False)
        return y, *tenon.autograd.grad(y.sum(), x)

    for run in (step, tenon.trace(step)):
        y, slope = run(x)
        mask = y.detach() / model[0](x).detach()
        np.testing.assert_allclose(slope.numpy(), (mask @ model[0].weight.detach()).numpy(), rtol=1e-4, atol=1e-5)
    ones = np.ones(64, np.float32)
    for draw in (model[1], nn.functional.dropout):
        value, pull_back = tenon.vjp(lambda x, draw=draw: draw(x), ones)
        np.testing.assert_array_equal(pull_back(ones)[0], value)
