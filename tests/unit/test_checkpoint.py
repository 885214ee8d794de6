"""`checkpoint`: the values and gradients of the function itself, from less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_transform import assert_gradients, doubles

import tenon

LAYERS = 16


def layers(h: Any, weights: list[Any]) -> Any:
    for w in weights:
        h = tenon.tanh(h @ w)
    return h


def loss(group: int | None, weights: list[Any], x: Any) -> Any:
    """The MLP in checkpoints of `group` layers each."""
    if group is None:
        return tenon.sum(layers(x, weights) ** 2)
    for start in range(0, len(weights), group):
        x = tenon.checkpoint(layers)(x, weights[start : start + group])
    return tenon.sum(x**2)


def network(batch: int = 64, size: int = 16) -> tuple[list[Any], Any]:
    weights = [np.float32(doubles(size, size, seed=i) / np.sqrt(size)) for i in range(LAYERS)]
    return weights, np.float32(doubles(batch, size))


def gradient_of(group: int | None) -> Any:
    return tenon.jit(tenon.grad(lambda weights, x: loss(group, weights, x)))


def test_deep_network_has_equal_gradients_from_less_memory() -> None:
    weights, x = network(1024)
    expected = gradient_of(None)(weights, x)
    peak = gradient_of(None).compile(weights, x).memory().peak
    for group, most in ((1, 0.62), (4, 0.5)):
        for found, wanted in zip(gradient_of(group)(weights, x), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
        assert gradient_of(group).compile(weights, x).memory().peak < most * peak


def attention(h: Any, p: dict[str, Any]) -> Any:
    def normalized(h: Any) -> Any:
        centered = h - tenon.mean(h, axis=-1, keepdims=True)
        return centered / tenon.sqrt(tenon.mean(centered**2, axis=-1, keepdims=True) + 1e-5)

    n = normalized(h)
    scores = tenon.softmax((n @ p["q"]) @ (n @ p["k"]).T, axis=-1)
    h = h + scores @ (n @ p["v"])
    return h + tenon.gelu(normalized(h) @ p["up"]) @ p["down"]


def test_transformer_block() -> None:
    parameters = {name: doubles(8, 8, seed=i) / 3 for i, name in enumerate(("q", "k", "v"))}
    parameters |= {"up": doubles(8, 16, seed=4) / 3, "down": doubles(16, 8, seed=5) / 4}
    h = doubles(12, 8)

    def total(block: Any, p: Any, h: Any) -> Any:
        return tenon.sum(block(block(h, p), p) ** 2)

    found = tenon.grad(lambda p, h: total(tenon.checkpoint(attention), p, h), argnums=(0, 1))(parameters, h)
    expected = tenon.grad(lambda p, h: total(attention, p, h), argnums=(0, 1))(parameters, h)
    for name in parameters:
        np.testing.assert_allclose(found[0][name], expected[0][name], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-12)


def curve(x: Any, w: Any) -> Any:
    return tenon.sum(tenon.sin(x * w) * tenon.exp(x))


def nested(x: Any, w: Any) -> Any:
    inner = tenon.checkpoint(lambda y: tenon.exp(y))
    outer = tenon.checkpoint(lambda y, w: tenon.sin(y * w) * inner(y))
    return tenon.sum(outer(x, w))


def test_nested() -> None:
    x, w = doubles(5), doubles(5, seed=1)
    np.testing.assert_array_equal(tenon.jit(nested)(x, w), tenon.jit(curve)(x, w))
    assert_gradients(nested, x, w)


def test_transformations_compose() -> None:
    x, w = doubles(3, 5), doubles(5, seed=1)
    for transform in (
        lambda f: tenon.vmap(tenon.grad(f), in_axes=(0, None))(x, w),
        lambda f: tenon.grad(lambda x: tenon.sum(tenon.vmap(f, in_axes=(0, None))(x, w)))(x),
        lambda f: tenon.grad(lambda x: tenon.sum(tenon.grad(f)(x, w) ** 2))(x[0]),
        lambda f: tenon.jvp(f, (x[0], w), (w, x[1]))[1],
        lambda f: tenon.jvp(lambda x: tenon.grad(f)(x, w), (x[0],), (w,))[1],
        lambda f: tenon.grad(lambda x: tenon.scan(lambda c, a: (c + f(a, w), c), x[0, 0], x)[0])(x),
    ):
        np.testing.assert_allclose(transform(nested), transform(curve), rtol=1e-12, atol=1e-12)


def test_trees_closures_keywords_and_numbers() -> None:
    def total(x: Any, w: Any) -> Any:
        twice = x * 2.0

        @tenon.checkpoint
        def inner(tree: dict[str, Any], *, power: int) -> Any:
            return {"a": tree["a"] ** power * twice, "count": tenon.argmax(tree["a"])}, [tree["b"][0]]

        first, second = inner({"a": tenon.sin(x), "b": (w, 3)}, power=2)
        return tenon.sum(first["a"] * second[0]) + first["count"]

    assert_gradients(total, doubles(4), doubles(4, seed=1))


def test_gradients_that_are_not_asked_for_are_not_computed() -> None:
    x, w = np.float32(doubles(64, 32)), np.float32(doubles(32, 32))
    f = tenon.checkpoint(lambda w: tenon.tanh(x @ w))
    text = str(tenon.jit(tenon.grad(lambda w: tenon.sum(f(w)))).lower(w))
    assert text.count("func.func private @kernel") <= 3


def test_at_once() -> None:
    double = tenon.checkpoint(lambda x: x * 2.0)
    np.testing.assert_array_equal(double(np.arange(3.0)), [0.0, 2.0, 4.0])
    assert double.__name__ == "<lambda>"


def test_errors() -> None:
    with pytest.raises(TypeError, match="checkpoint: a float is given where a function is needed"):
        tenon.checkpoint(3.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="where an array or a number is needed"):
        tenon.checkpoint(lambda x: object())(1.0)
