"""Tensors that require a gradient, read by functions of values from around them: control flow, checkpoints, `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn

X = np.random.default_rng(0).standard_normal((5, 3, 4), np.float32)
W = np.random.default_rng(1).standard_normal((4, 4), np.float32)

Function = Callable[[Any, Any, Any, Any], Any]
"""Of a library, its own form of the function, a layer, and sequences (time, rows, features)."""


def scanned(own: Any, layer: Any, xs: Any, _: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = own.tanh(layer(h) + x)
        return h, h

    if own is tenon:
        return tenon.scan(step, xs[0], xs)[1].sum()
    h, total = xs[0], 0.0
    for x in xs:
        h, y = step(h, x)
        total = total + y.sum()
    return total


def branched(own: Any, layer: Any, xs: Any, _: Any) -> Any:
    return tenon.cond(xs.sum() > -1e9, layer, lambda x: x, xs).sum() if own is tenon else layer(xs).sum()


def recomputed(own: Any, layer: Any, xs: Any, _: Any) -> Any:
    return (tenon.checkpoint(layer)(xs) ** 2).sum() if own is tenon else (layer(xs) ** 2).sum()


def computed_inside(own: Any, layer: Any, xs: Any, w: Any) -> Any:
    """What is computed of tensors inside, views of them, an array, and a tensor that is no parameter."""

    def step(x: Any) -> Any:
        return own.tanh(x @ (layer.weight * 2).T + w[0]) * (W if own is tenon else torch.tensor(W))[0]

    return tenon.checkpoint(step)(xs).sum() if own is tenon else step(xs).sum()


def slopes(own: Any, layer: Any, xs: Any, _: Any) -> Any:
    """Of a gradient with respect to what is no parameter, as for a penalty of slopes."""
    if own is tenon:
        return (tenon.grad(lambda x: (layer(x) ** 3).sum())(xs) ** 2).sum()
    xs = xs.clone().requires_grad_()
    (found,) = torch.autograd.grad((layer(xs) ** 3).sum(), (xs,), create_graph=True)
    return (found**2).sum()


def put_inside(own: Any, layer: Any, xs: Any, w: Any) -> Any:
    """Where values are updated, at indices that are values, as an array, and as numbers to fill with."""
    if own is tenon:

        def step(h: Any, i: Any) -> Any:
            h = h.at[i].add(w[i] * w[0]) + tenon.asarray(w) + tenon.full_like(h, w[i, 0])
            return h, tenon.full((4,), w[1, 2]) * tenon.linspace(w[i, 1], w[0, 0], 4)

        last, rows = tenon.scan(step, layer.weight, np.array([1, 3, 1]))
        return (last**2).sum() + rows.sum()
    h, total = layer.weight, 0.0
    for i in (1, 3, 1):
        rows = torch.nn.functional.one_hot(torch.tensor(i), 4)[:, None]
        h = h + rows * (w[i] * w[0]) + w + w[i, 0]
        total = total + (w[1, 2] * torch.lerp(w[i, 1], w[0, 0], torch.arange(4) / 3)).sum()
    return (h**2).sum() + total


@pytest.mark.parametrize("kind", [lambda f: f, tenon.trace])
def test_what_is_computed_of_them_indexes_values(kind: Callable[..., Any]) -> None:
    """Assignments of k-means: in a trace, the places are computed of a tensor from around the step."""

    def means(points: Any, centres: Any) -> Any:
        def step(c: Any, _: Any) -> tuple[Any, Any]:
            nearest = tenon.argmin(((points[:, None] - c[None]) ** 2).sum(axis=-1), axis=1)
            counts = tenon.zeros_like(c[:, 0]).at[nearest].add(1.0)
            return tenon.zeros_like(c).at[nearest].add(points) / counts[:, None], c[nearest]

        return tenon.scan(step, centres, length=2)

    points = tenon.tensor(np.array([[0.0], [1.0], [10.0], [12.0]]), requires_grad=True)
    last, rows = kind(means)(points, tenon.tensor(np.array([[2.0], [9.0]])))
    assert last.tolist() == [[0.5], [11.0]]
    assert rows[1].tolist() == [[0.5], [0.5], [11.0], [11.0]]
    (last[:, 0] * tenon.tensor([1.0, 3.0])).sum().backward()
    assert points.grad.tolist() == [[0.5], [0.5], [1.5], [1.5]]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("function", [scanned, branched, recomputed, computed_inside, slopes, put_inside])
def test_tensors_from_around_have_gradients(function: Function, is_traced: bool) -> None:
    own, theirs = nn.Linear(4, 4), torch.nn.Linear(4, 4)
    own.load_state_dict({name: value.detach().numpy() for name, value in theirs.state_dict().items()})
    own.requires_grad_()
    w, v = tenon.tensor(W, requires_grad=True), torch.tensor(W, requires_grad=True)

    def step(xs: Any) -> Any:
        found = function(tenon, own, xs, w)
        found.backward()
        return found

    for _ in range(2):  # a call like one before, too
        found = tenon.trace(step)(tenon.tensor(X)) if is_traced else step(tenon.tensor(X))
        expected = function(torch, theirs, torch.tensor(X), v)
        expected.backward()
        np.testing.assert_allclose(found.item(), expected.item(), rtol=2e-5)
    for parameter, peer in zip([*own.parameters(), w], [*theirs.parameters(), v], strict=True):
        assert (parameter.grad is None) == (peer.grad is None)
        if peer.grad is not None:
            np.testing.assert_allclose(parameter.grad.numpy(), peer.grad.numpy(), rtol=2e-4, atol=1e-4)


def test_products_with_jacobians() -> None:
    """Those of a cotangent that is given are recorded; a function that pulls back later is not."""
    layer, seed = nn.Linear(4, 4).requires_grad_(), tenon.tensor(W)
    _, (found,) = tenon.vjp(lambda w: tenon.tanh(layer(w)), tenon.tensor(W), cotangent=seed)
    found.sum().backward()
    theirs = torch.nn.Linear(4, 4)
    theirs.load_state_dict({name: torch.tensor(np.array(value)) for name, value in layer.state_dict().items()})
    given = torch.tensor(W, requires_grad=True)
    (expected,) = torch.autograd.grad(torch.tanh(theirs(given)), given, torch.tensor(W), create_graph=True)
    expected.sum().backward()
    assert theirs.weight.grad is not None
    np.testing.assert_allclose(layer.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match=r"^vjp: the value is a tensor that requires a gradient"):
        tenon.vjp(tenon.exp, tenon.tensor(W, requires_grad=True))
    with pytest.raises(TypeError, match=r"^vjp: the value is a tensor that requires a gradient"):
        tenon.vjp(layer, tenon.tensor(W))


def test_without_a_record_they_are_arrays() -> None:
    layer = nn.Linear(4, 4).requires_grad_()
    expected = layer(tenon.tensor(X)).detach().numpy()
    with tenon.no_grad():
        np.testing.assert_allclose(tenon.vmap(layer)(X), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(tenon.vmap(layer)(tenon.tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match=r"of shape \(4, 4\) that requires a gradient is read from around a func"):
        tenon.vmap(layer)(X)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("of_tensors", [False, True])
def test_functions_of_jit_take_them_as_arguments_alone(requires_grad: bool, of_tensors: bool) -> None:
    """They would be constant in its program, recorded or not."""
    around = tenon.tensor(W, requires_grad=requires_grad)
    x = tenon.tensor(X, requires_grad=True) if of_tensors else X
    with pytest.raises(TypeError, match=r"a tensor of shape \(4, 4\) is read from around a function of jit"):
        tenon.jit(lambda x: x @ around)(x)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "checkpoint": lambda f, x: tenon.checkpoint(f)(x),
    "vmap": lambda f, x: tenon.vmap(f)(x),
    "scan": lambda f, x: tenon.scan(lambda total, row: (total, f(row)), x[0], x)[1],
    "grad": lambda f, x: tenon.grad(lambda x: f(x).sum())(x),
}


@pytest.mark.parametrize("of_parameter", [False, True])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_runs_is_what_is_recorded(call: Callable[[Any, Any], Any], of_parameter: bool) -> None:
    """The function is traced once for both, also where only what it reads from around it has gradients."""
    traced = 0
    w = tenon.tensor(np.float32(2), requires_grad=of_parameter)

    def cube(x: Any) -> Any:
        nonlocal traced
        traced += 1
        return w * x**3

    x = tenon.tensor(W, requires_grad=not of_parameter)
    result = call(cube, x)
    assert traced == 1
    is_slope = call is CALLS["grad"]
    np.testing.assert_allclose(result.detach().numpy(), 6 * W**2 if is_slope else 2 * W**3, rtol=1e-5)
    result.sum().backward()
    if of_parameter:
        np.testing.assert_allclose(w.grad.numpy(), (3 * W**2 if is_slope else W**3).sum(), rtol=1e-4)
    else:
        np.testing.assert_allclose(x.grad.numpy(), 12 * W if is_slope else 6 * W**2, rtol=1e-4)
