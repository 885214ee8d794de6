"""Programs with reshapes that only split or merge dimensions compute what they did, and move what they must.

The oracles are the same functions in torch, in f64, and sums of bytes by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

torch = pytest.importorskip("torch")
Function = Callable[[Any, Any, Any], Any]
EPS = 1e-5


def normalized(x: Any, axes: tuple[int, ...]) -> Any:
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred * ((centred**2).mean(axis=axes, keepdims=True) + EPS) ** -0.5


def of_channels(w: Any) -> Any:
    return w.reshape(1, -1, 1, 1)


def group_norm_flat(x: Any, w: Any, b: Any) -> Any:
    return normalized(x.reshape(x.shape[0], 4, -1), (2,)).reshape(*x.shape) * of_channels(w) + of_channels(b)


def group_norm_split(x: Any, w: Any, b: Any) -> Any:
    n, c, height, width = x.shape
    y = normalized(x.reshape(n, 4, c // 4, height, width), (2, 3, 4))
    return y.reshape(n, c, height, width) * of_channels(w) + of_channels(b)


def group_norm_of_a_product(x: Any, w: Any, b: Any) -> Any:
    y = group_norm_flat(x * x + x, w, b)
    return y * (y > 0)


def instance_norm(x: Any, w: Any, b: Any) -> Any:
    n, c, height, width = x.shape
    y = normalized(x.reshape(n * c, height * width), (1,)).reshape(n, c, height, width)
    return y * of_channels(w) + of_channels(b)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return normalized(x.reshape(x.shape[0], -1), (1,)).reshape(*x.shape) * of_channels(w) + of_channels(b)


def norm_of_heads(x: Any, w: Any, b: Any) -> Any:
    """Each quarter of the last dimension by itself."""
    n, c, height, width = x.shape
    y = normalized(x.reshape(n * c, height, 4, width // 4), (3,)).reshape(n, c, height, width)
    return y * of_channels(w) + of_channels(b)


def pooled(x: Any, w: Any, b: Any) -> Any:
    n, c, height, width = x.shape
    y = x * of_channels(w) + of_channels(b)
    return y.reshape(n, c, height // 2, 2, width // 2, 2).mean(axis=(3, 5))


def standardized_weight(x: Any, w: Any, b: Any) -> Any:
    y = normalized(x.reshape(x.shape[0], -1), (1,)) * w[: x.shape[0]].reshape(-1, 1)
    return y.reshape(*x.shape) + of_channels(b)


FUNCTIONS = (
    group_norm_flat,
    group_norm_split,
    group_norm_of_a_product,
    instance_norm,
    layer_norm,
    norm_of_heads,
    pooled,
    standardized_weight,
)
NORMS = FUNCTIONS[:6]


def with_gradients(function: Function) -> Callable[..., Any]:
    def run(x: Any, w: Any, b: Any, cotangent: Any) -> Any:
        value, gradients = tenon.vjp(function, x, w, b, cotangent=cotangent)
        return (value, *gradients)

    return run


def arguments(function: Function, *shape: int) -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(8)
    x, w, b = [random.standard_normal(s, np.float32) for s in (shape, shape[1:2], shape[1:2])]
    return (
        x,
        w,
        b,
        random.standard_normal(function(torch.tensor(x), torch.tensor(w), torch.tensor(b)).shape, np.float32),
    )


@pytest.mark.parametrize("shape", [(8, 24, 10, 12), (16, 20, 6, 8), (2, 32, 16, 16)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_values_and_gradients_are_those_of_torch(function: Function, shape: tuple[int, ...]) -> None:
    arrays = arguments(function, *shape)
    *given, cotangent = [torch.tensor(array, dtype=torch.float64) for array in arrays]
    for leaf in given:
        leaf.requires_grad_()
    value = function(*given)
    value.backward(cotangent)
    found = tenon.jit(with_gradients(function))(*arrays)
    for ours, theirs in zip(found, (value.detach(), *[leaf.grad for leaf in given]), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_values_move_once(function: Function) -> None:
    *given, cotangent = arguments(function, 16, 64, 56, 56)
    assert _moved(function, given) <= 1.001 * (_bytes(given) + cotangent.nbytes)


@pytest.mark.parametrize("function", NORMS, ids=lambda function: function.__name__)
def test_values_move_once_in_gradients(function: Function) -> None:
    arrays = arguments(function, 16, 64, 56, 56)
    results = _bytes(arrays[:3]) + arrays[3].nbytes
    assert _moved(with_gradients(function), arrays) <= 1.001 * (_bytes(arrays) + results)


def _bytes(arrays: Any) -> int:
    return sum(array.nbytes for array in arrays)


def _moved(function: Callable[..., Any], arrays: Any) -> int:
    kernels = tenon.jit(function).compile(*arrays).memory().moved
    assert kernels is not None
    return sum(kernel.read + kernel.written for kernel in kernels)


def test_a_size_that_only_the_launch_knows_is_one_dimension() -> None:
    function = tenon.jit(group_norm_split, dynamic={"x": ("n", None, None, None)})
    for count in (3, 5):
        x, w, b, _ = arguments(group_norm_split, count, 24, 10, 12)
        exact = group_norm_split(*[torch.tensor(array, dtype=torch.float64) for array in (x, w, b)])
        np.testing.assert_allclose(function(x, w, b), exact.numpy(), rtol=1e-4, atol=1e-4)


def test_sums_of_one_value_by_samples_and_by_channels_read_it_once() -> None:
    x = np.ones((64, 64, 56, 56), np.float32)
    sums = _moved(lambda x: (x.sum(axis=(1, 2, 3)), x.sum(axis=(0, 2, 3))), (x,))
    assert sums <= 1.01 * x.nbytes


def test_a_constant_has_a_shape_of_its_own_in_each_op() -> None:
    weight = np.arange(1.0, 25.0, dtype=np.float32)

    def scaled(x: Any) -> Any:
        y = normalized(x.reshape(8, 4, -1), (2,)).reshape(8, 24, 10, 12) * weight.reshape(1, -1, 1, 1)
        return y + weight[:12]

    x = arguments(pooled, 8, 24, 10, 12)[0]
    exact = scaled(x.astype(np.float64))
    np.testing.assert_allclose(tenon.jit(scaled)(x), exact, rtol=1e-4, atol=1e-4)
