"""`tenon.nn` against NumPy: modules, parameters and buffers, state, jitted steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_long_programs import calls

import tenon
from tenon import nn
from tenon.runtime.arguments.tree import flatten, paths


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def apply(module: Any, *arguments: Any) -> Any:
    return tenon.jit(lambda module, *arguments: module(*arguments))(module, *arguments)


def convolution(x: np.ndarray, weight: np.ndarray, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """Cross-correlation by its definition."""
    n, channels, _, _ = x.shape
    outputs, per_group, height, width = weight.shape
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows = (x.shape[2] - dilation * (height - 1) - 1) // stride + 1
    columns = (x.shape[3] - dilation * (width - 1) - 1) // stride + 1
    result = np.zeros((n, outputs, rows, columns))
    for output in range(outputs):
        first = output // (outputs // groups) * per_group
        for i in range(height):
            for j in range(width):
                window = x[:, first : first + per_group, i * dilation :, j * dilation :]
                window = window[:, :, : rows * stride : stride, : columns * stride : stride]
                result[:, output] += np.einsum("nchw,c->nhw", window, weight[output, :, i, j])
    assert channels == per_group * groups
    return result


# --- modules against NumPy ------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool) -> None:
    layer = nn.Linear(3, 5, bias, seed=0)
    x = floats(2, 4, 3)
    expected = x @ layer.weight.T + (layer.bias if bias else 0)
    np.testing.assert_allclose(apply(layer, x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-6)
    assert abs(layer.weight).max() <= 3**-0.5
    assert len(list(layer.named_parameters())) == 1 + bias


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (1, 1, 1, 2), (3, 0, 1, 4)]
)
def test_conv2d(stride: int, padding: int, dilation: int, groups: int) -> None:
    layer = nn.Conv2d(4, 8, (3, 2), stride, padding, dilation, groups, seed=0)
    x = floats(2, 4, 9, 8)
    expected = convolution(x, layer.weight, stride, padding, dilation, groups) + layer.bias[:, None, None]
    np.testing.assert_allclose(apply(layer, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [5, (4, 5)])
def test_layer_norm(shape: Any) -> None:
    layer = nn.LayerNorm(shape)
    layer.weight, layer.bias = floats(*np.atleast_1d(shape)), floats(*np.atleast_1d(shape), seed=1)
    x = floats(3, 4, 5, seed=2)
    axes = (-1,) if shape == 5 else (-2, -1)
    centred = x - x.mean(axes, keepdims=True)
    expected = centred / np.sqrt(x.var(axes, keepdims=True) + 1e-5) * layer.weight + layer.bias
    np.testing.assert_allclose(apply(layer, x), expected, rtol=1e-4, atol=1e-5)
    assert not list(nn.LayerNorm(5, elementwise_affine=False).named_parameters())


def test_embedding() -> None:
    layer = nn.Embedding(10, 4, seed=0)
    indices = np.array([[1, 9], [0, 1]])
    np.testing.assert_array_equal(apply(layer, indices), layer.weight[indices])


def test_sequential_with_functions() -> None:
    model = nn.Sequential(nn.Linear(3, 4, seed=0), tenon.tanh, nn.Linear(4, 2, seed=1), lambda x: x * 2.0)
    x = floats(5, 3)
    hidden = np.tanh(x @ model[0].weight.T + model[0].bias)
    expected = 2 * (hidden @ model[2].weight.T + model[2].bias)
    np.testing.assert_allclose(apply(model, x), expected, rtol=1e-5, atol=1e-6)
    assert len(model) == 4
    assert list(dict(model.named_parameters())) == ["0.weight", "0.bias", "2.weight", "2.bias"]


# --- batch normalization --------------------------------------------------------------------------


def test_batch_norm_follows_the_batches_through_jitted_steps() -> None:
    @tenon.jit
    def step(layer: nn.BatchNorm2d, x: Any) -> Any:
        return layer(x), layer

    layer = nn.BatchNorm2d(3)
    layer.weight, layer.bias = floats(3), floats(3, seed=1)
    mean, variance = np.zeros(3), np.ones(3)
    for seed in range(3):
        x = floats(4, 3, 5, 6, seed=seed) * 2 + 1
        result, layer = step(layer, x)
        batch_mean, batch_variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        centred = (x - batch_mean[:, None, None]) / np.sqrt(batch_variance + 1e-5)[:, None, None]
        expected = centred * layer.weight[:, None, None] + layer.bias[:, None, None]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        count = x.size // 3
        mean = 0.9 * mean + 0.1 * batch_mean
        variance = 0.9 * variance + 0.1 * batch_variance * count / (count - 1)
    np.testing.assert_allclose(layer.running_mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var, variance, rtol=1e-5)
    x = floats(2, 3, 4, 4, seed=9)
    expected = (x - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
    expected = expected * layer.weight[:, None, None] + layer.bias[:, None, None]
    np.testing.assert_allclose(apply(layer.eval(), x), expected, rtol=1e-4, atol=1e-4)


def test_statistics_reach_the_caller_of_a_gradient_as_aux() -> None:
    layer = nn.BatchNorm2d(2)

    def loss(layer: nn.BatchNorm2d, x: Any) -> Any:
        return tenon.sum(layer(x) * tenon.asarray(floats(4, 2, 3, 3, seed=5))), layer

    x = floats(4, 2, 3, 3)
    (_, updated), gradient = tenon.value_and_grad(loss, has_aux=True)(layer, x)
    np.testing.assert_allclose(updated.running_mean, 0.1 * x.mean((0, 2, 3)), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(layer.running_mean, np.zeros(2))
    np.testing.assert_array_equal(gradient.running_mean, np.zeros(2))
    np.testing.assert_allclose(gradient.bias, floats(4, 2, 3, 3, seed=5).sum((0, 2, 3)), rtol=1e-4)


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_is_reproducible_and_differs_from_call_to_call() -> None:
    @tenon.jit
    def call(layer: nn.Dropout, x: Any) -> Any:
        return layer(x), layer

    def run(seed: int) -> list[np.ndarray]:
        layer, results = nn.Dropout(0.3, seed=seed), []
        for _ in range(2):
            result, layer = call(layer, np.ones(10_000, np.float32))
            results.append(result)
        assert int(layer.calls) == 2
        return results

    first, second = run(1)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, run(1)[0])
    assert not np.array_equal(first, run(2)[0])
    for result in (first, second):
        assert set(np.unique(result)) == {np.float32(0), np.float32(1 / 0.7)}
        # The share of kept elements lies within five standard errors.
        assert abs((result > 0).mean() - 0.7) < 5 * np.sqrt(0.21 / result.size)


def test_dropout_in_evaluation_and_at_zero() -> None:
    x = floats(5)
    np.testing.assert_array_equal(apply(nn.Dropout(0.5).eval(), x), x)
    np.testing.assert_array_equal(apply(nn.Dropout(0.0), x), x)
    with pytest.raises(ValueError, match=r"Dropout: p is 1.5, outside of \[0, 1\]"):
        nn.Dropout(1.5)


def test_gradient_of_dropout_is_its_mask() -> None:
    layer = nn.Dropout(0.5, seed=3)
    x = floats(50)
    gradient, layer = tenon.grad(lambda x, layer: (tenon.sum(layer(x)), layer), has_aux=True)(x, layer)
    assert set(np.unique(gradient)) == {0.0, 2.0}
    assert int(layer.calls) == 1


@pytest.mark.parametrize("layer", [nn.Dropout(), nn.Dropout1d(), nn.AlphaDropout()], ids=str)
def test_dropout_of_a_tensor_is_few_native_calls(layer: nn.Module) -> None:
    x = tenon.tensor(floats(2, 3, 4), requires_grad=True)
    for _ in range(10):
        layer(x)
    assert calls(lambda: layer(x)) < 300


# --- parameters, buffers, state -------------------------------------------------------------------


class Heads(NamedTuple):
    left: Any
    right: Any


class Network(nn.Module):
    """Every kind of attribute."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = np.random.default_rng(seed)
        self.blocks: list[Any] = [nn.Linear(3, 3, seed=generator), {"norm": nn.LayerNorm(3)}]
        self.heads = Heads(nn.Linear(3, 2, seed=generator), [generator.standard_normal(2).astype(np.float32)])
        self.table = {"bias": generator.standard_normal(2).astype(np.float32)}
        self.register_buffer("count", np.zeros((), np.int32))
        self.sizes = [3, 3]
        self.options = {"mode": "fast"}

    def forward(self, x: Any) -> Any:
        assert self.sizes == [3, 3]
        assert self.options == {"mode": "fast"}
        x = tenon.tanh(self.blocks[1]["norm"](self.blocks[0](x)))
        self.count = self.count + 1
        return self.heads.left(x) * self.heads.right[0] + self.table["bias"]


PARAMETERS = [
    "table.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.norm.weight", "blocks.1.norm.bias",
    "heads.0.weight", "heads.0.bias", "heads.1.0",
]  # fmt: skip


def test_parameters_in_any_container() -> None:
    model = Network()
    assert list(dict(model.named_parameters())) == PARAMETERS
    assert list(dict(model.named_buffers())) == ["count"]
    assert set(model.state_dict()) == {*PARAMETERS, "count"}
    assert [type(m).__name__ for m in model.modules()] == ["Network", "Linear", "LayerNorm", "Linear"]
    assert len(flatten(model)[0]) == len(PARAMETERS) + 1
    assert "blocks.0.weight" in list(paths(flatten(model)[1]))


def test_state_round_trip(tmp_path: Any) -> None:
    model, other = Network(0), Network(1)
    x = floats(4, 3)
    _, model = tenon.jit(lambda m, x: (m(x), m))(model, x)
    np.savez(tmp_path / "model.npz", **model.state_dict())
    assert not np.array_equal(model(x), other(x))
    with np.load(tmp_path / "model.npz") as state:
        other.load_state_dict(state)
    assert int(other.count) == 1  # that of `model` when it was saved
    np.testing.assert_array_equal(model(x), other(x))
    assert other.blocks[0].weight is not model.blocks[0].weight
    assert isinstance(other.heads, Heads)


def test_state_that_does_not_fit_changes_nothing() -> None:
    model = Network()
    kept = {name: value.copy() for name, value in model.state_dict().items()}
    state = {name: value + 1 for name, value in kept.items()}
    wrong = {**state, "more": np.zeros(1)}
    del wrong["count"]
    with pytest.raises(ValueError, match="state does not fit the module: missing count, unknown more"):
        model.load_state_dict(wrong)
    with pytest.raises(ValueError, match=r"table.bias has shape \(2,\) in the module and \(3,\) in the state"):
        model.load_state_dict({**state, "table.bias": np.zeros(3)})
    with pytest.raises(ValueError, match="count has dtype int32 in the module and float64 in the state"):
        model.load_state_dict({**state, "count": np.zeros(())})
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, kept[name])


def test_training_mode_is_part_of_the_signature() -> None:
    model = nn.Sequential(nn.Dropout(0.9, seed=0), nn.Linear(4, 4, seed=0))
    x = np.ones((2, 4), np.float32)
    run = tenon.jit(lambda model, x: (model(x), model))
    training, model = run(model, x)
    evaluation, model = run(model.eval(), x)
    assert not model[0].training
    np.testing.assert_allclose(evaluation, x @ model[1].weight.T + model[1].bias, rtol=1e-5)
    assert not np.allclose(training, evaluation)
    assert model.train()[0].training


def test_a_call_inside_of_a_trace_leaves_the_callers_module_alone() -> None:
    model = Network()
    with pytest.warns(UserWarning, match="count of a Network changed in a traced function that does not return it"):
        apply(model, floats(2, 3))
    assert int(model.count) == 0
    model(floats(2, 3))
    assert int(model.count) == 1


def test_module_without_forward_and_its_text() -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty does not define forward"):
        Empty()(1)
    assert repr(nn.Dropout(0.25)) == "Dropout(p=0.25, inplace=False)"
    assert repr(nn.Sequential(nn.Dropout(0.25))) == "Sequential(\n  (0): Dropout(p=0.25, inplace=False)\n)"
    with pytest.raises(ValueError, match="Conv2d: groups is 3, which does not divide 4 and 8 channels"):
        nn.Conv2d(4, 8, 3, groups=3)


def test_module_attribute_that_does_not_hash_is_named() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.thing = bytearray(b"x")

    with pytest.raises(TypeError, match=r"Odd.thing is a bytearray, which is neither an array nor hashable"):
        apply(Odd(), 1.0)


def test_double_precision() -> None:
    layer = nn.Linear(3, 2, dtype=np.float64, seed=0)
    assert apply(layer, np.ones((1, 3))).dtype == np.float64


# --- convolutions, pooling and activations ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Conv1d(4, 6, 3, stride=2, padding=1, seed=0), (2, 4, 9), (2, 6, 5)),
        (nn.Conv2d(4, 6, (3, 2), padding="same", groups=2, seed=0), (2, 4, 9, 8), (2, 6, 9, 8)),
        (nn.Conv3d(2, 3, 2, dilation=(1, 2, 1), bias=False, seed=0), (1, 2, 4, 5, 3), (1, 3, 3, 3, 2)),
        (nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1, seed=0), (2, 4, 5), (2, 6, 12)),
        (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2, seed=0), (2, 4, 5, 3), (2, 6, 9, 5)),
        (nn.ConvTranspose3d(2, 3, 2, padding=(0, 1, 0), seed=0), (1, 2, 2, 3, 2), (1, 3, 3, 2, 3)),
    ],
)
def test_convolutions_are_the_ops_of_their_name(layer: Any, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    x = floats(*shape)
    kind = type(layer).__name__
    op = getattr(tenon, {"ConvT": f"conv_transpose{kind[-2:]}"}.get(kind[:5], kind.lower()))
    names = ("stride", "padding", "dilation", "groups", "output_padding")
    settings = {name: getattr(layer, name) for name in names if hasattr(layer, name)}
    result = apply(layer, x)
    assert result.shape == expected
    np.testing.assert_allclose(result, op(x, layer.weight, layer.bias, **settings), rtol=1e-4, atol=1e-5)
    fan_in = np.prod(layer.weight.shape[1:])
    assert abs(layer.weight).max() <= fan_in**-0.5
    assert len(list(layer.named_parameters())) == 1 + (layer.bias is not None)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling_modules(rank: int) -> None:
    x = floats(2, 3, *[4] * rank)
    shape = (2, 3, *[part for _ in range(rank) for part in (2, 2)])
    taps = tuple(range(3, 2 * rank + 2, 2))
    windows = x.reshape(shape)
    np.testing.assert_allclose(apply(getattr(nn, f"MaxPool{rank}d")(2), x), windows.max(taps))
    np.testing.assert_allclose(apply(getattr(nn, f"AvgPool{rank}d")(2), x), windows.mean(taps), rtol=1e-5, atol=1e-6)
    axes = tuple(range(2, rank + 2))
    np.testing.assert_allclose(apply(nn.GlobalAvgPool(), x), x.mean(axes), rtol=1e-5, atol=1e-6)
    kept = apply(nn.GlobalAvgPool(keepdims=True), x)
    np.testing.assert_allclose(kept, x.mean(axes, keepdims=True), rtol=1e-5, atol=1e-6)


def test_adaptive_pooling_module() -> None:
    x = floats(2, 3, 6, 4)
    expected = x.reshape(2, 3, 3, 2, 2, 2).mean((3, 5))
    np.testing.assert_allclose(apply(nn.AdaptiveAvgPool2d((3, 2)), x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (nn.ReLU(), lambda x: np.maximum(x, 0)),
        (nn.GELU("tanh"), lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))),
        (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
        (nn.Tanh(), np.tanh),
        (nn.Softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0)),
        (nn.Identity(), lambda x: x),
        (nn.Flatten(), lambda x: x.reshape(3, -1)),
        (nn.Flatten(0, 1), lambda x: x.reshape(12, 5)),
    ],
)
def test_modules_without_parameters(layer: Any, function: Callable[[Any], Any]) -> None:
    x = floats(3, 4, 5)
    np.testing.assert_allclose(apply(layer, x), function(x), rtol=1e-5, atol=1e-6)
    assert not list(layer.named_parameters())


def test_flatten_refuses_axes_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"Flatten: axes 1 to -1 do not name a range of shape \(3,\)"):
        nn.Flatten()(floats(3))
