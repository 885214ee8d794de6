"""Quantized numbers against PyTorch's, integers against NumPy's, and a network that is trained and then made i8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim, quantization

# PyTorch 2.13 warns of its quantized tensors.
pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
GENERATOR = np.random.default_rng(0)
X = (GENERATOR.standard_normal((4, 6, 5)) * 3).astype(np.float32)
SCALES = np.array([0.011, 0.02, 0.05, 0.1, 0.3, 1.0], np.float32)
POINTS = np.array([0, 3, -7, 100, -128, 127], np.int32)
IN_TRACES = pytest.mark.parametrize("face", [lambda f: f, tenon.jit], ids=["at once", "jit"])


@IN_TRACES
@pytest.mark.parametrize("dtype", ["i8", "ui8"])
def test_per_tensor(face: Any, dtype: str) -> None:
    scale, point, kind = 0.043, 5, {"i8": torch.qint8, "ui8": torch.quint8}[dtype]
    expected = torch.quantize_per_tensor(torch.tensor(X), scale, point, kind)
    found = face(lambda x: quantization.quantize(x, scale, point, dtype=dtype))(X)
    np.testing.assert_array_equal(found, expected.int_repr().numpy())
    back = face(lambda q: quantization.dequantize(q, scale, point))(found)
    np.testing.assert_array_equal(back, expected.dequantize().numpy())


@IN_TRACES
def test_per_channel(face: Any) -> None:
    expected = torch.quantize_per_channel(torch.tensor(X), torch.tensor(SCALES), torch.tensor(POINTS), 1, torch.qint8)
    found = face(lambda x, s, p: quantization.quantize(x, s, p, axis=1))(X, SCALES, POINTS)
    np.testing.assert_array_equal(found, expected.int_repr().numpy())
    back = face(lambda q, s, p: quantization.dequantize(q, s, p, axis=-2))(found, SCALES, POINTS)
    np.testing.assert_allclose(back, expected.dequantize().numpy(), rtol=1e-6)


@pytest.mark.parametrize("by_channel", [False, True])
def test_fake_quantize_and_its_gradient(by_channel: bool) -> None:
    x = torch.tensor(X, requires_grad=True)
    if by_channel:
        expected = torch.fake_quantize_per_channel_affine(x, torch.tensor(SCALES), torch.tensor(POINTS), 1, -128, 127)
        arguments: Any = (SCALES, POINTS)
    else:
        expected = torch.fake_quantize_per_tensor_affine(x, 0.02, 7, -128, 127)
        arguments = (0.02, 7)
    weights = GENERATOR.standard_normal(X.shape).astype(np.float32)
    (expected * torch.tensor(weights)).sum().backward()

    def function(x: Any) -> Any:
        return quantization.fake_quantize(x, *arguments, axis=1 if by_channel else None)

    own = tenon.tensor(X, requires_grad=True)
    found = function(own)
    (found * weights).sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(own.grad.numpy(), x.grad.numpy())
    traced = tenon.jit(tenon.grad(lambda x: (function(x) * weights).sum()))(X)
    np.testing.assert_array_equal(traced, x.grad.numpy())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "ui8"])
def test_observers(dtype: str, symmetric: bool) -> None:
    from torch.ao.quantization import MinMaxObserver, MovingAverageMinMaxObserver, PerChannelMinMaxObserver

    settings: Any = {
        "dtype": {"i8": torch.qint8, "ui8": torch.quint8}[dtype],
        "qscheme": torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
    }
    per_channel: Any = {**settings, "qscheme": torch.per_channel_symmetric if symmetric else torch.per_channel_affine}
    pairs: Any = [
        (quantization.MinMaxObserver(dtype=dtype, symmetric=symmetric), MinMaxObserver(**settings)),
        (
            quantization.MovingAverageObserver(0.1, dtype=dtype, symmetric=symmetric),
            MovingAverageMinMaxObserver(0.1, **settings),
        ),
        (
            quantization.MinMaxObserver(dtype=dtype, symmetric=symmetric, axis=1, channels=6),
            PerChannelMinMaxObserver(1, **per_channel),
        ),
    ]
    for own, theirs in pairs:
        with pytest.raises(ValueError, match="nothing was observed"):
            own.parameters_found()
        for number in range(3):
            x = X * (number + 1) - number
            assert own(x) is x
            theirs(torch.tensor(x))
        own.eval()(X * 100)
        scale, point = own.parameters_found()
        their_scale, their_point = theirs.calculate_qparams()
        np.testing.assert_allclose(np.asarray(scale).ravel(), their_scale.numpy(), rtol=1e-6)
        np.testing.assert_array_equal(np.asarray(point).ravel(), their_point.numpy())


def whole(*shape: int, dtype: Any = np.int8) -> Any:
    limits = np.iinfo(dtype)
    return GENERATOR.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@IN_TRACES
def test_integer_products_are_exact(face: Any) -> None:
    x, y, point = whole(3, 7, 300, dtype=np.uint8), whole(300, 9), np.array(131, np.int32)
    found = face(lambda x, y, p: quantization.integer_matmul(x, y, p))(x, y, point)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, (x.astype(np.int64) - 131) @ y.astype(np.int64))
    images, weight = whole(2, 4, 7, 8, dtype=np.uint8), whole(6, 2, 3, 3)
    for settings in ({}, {"stride": (2, 1), "padding": (1, 2), "groups": 2}, {"padding": "same", "dilation": (1, 2)}):
        kernel = weight if settings.get("groups") else np.concatenate([weight, weight], 1)
        given: Any = {"padding": (0,), "groups": 1, "stride": (1,), "dilation": (1,), **settings}
        found = face(lambda x, w, p, given=given: quantization.integer_conv(x, w, p, **given))(images, kernel, point)
        # sums of at most 36 products of 8 bits are exact in f64
        padding = given["padding"] if isinstance(given["padding"], str) else tuple(given["padding"])
        expected = torch.nn.functional.conv2d(
            torch.tensor(images.astype(float) - 131), torch.tensor(kernel.astype(float)),
            stride=given["stride"], padding=padding, dilation=given["dilation"], groups=given["groups"],
        )  # fmt: skip
        np.testing.assert_array_equal(found, expected.numpy().astype(np.int64))


def test_requantize() -> None:
    total, factor = GENERATOR.integers(-(2**20), 2**20, (5, 6), np.int32), (SCALES * 1e-3).astype(np.float32)
    found = quantization.requantize(total, factor, 3, axis=1)
    expected = np.clip(np.rint(total.astype(np.float32) * factor) + 3, -128, 127)
    np.testing.assert_array_equal(found, expected)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Conv2d(1, 4, 3, padding=1, seed=0), nn.Linear(4 * 36, 3, seed=1)]

    def forward(self, x: Any) -> Any:
        convolution, linear = self.layers
        return linear(tenon.relu(convolution(x)).reshape((x.shape[0], -1)))


def stripes(count: int, seed: int) -> tuple[Any, Any]:
    """6x6 images of horizontal stripes, vertical stripes or noise."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, count)
    images = generator.standard_normal((count, 1, 6, 6)).astype(np.float32) * 0.3
    images[labels == 0, 0, ::2] += 1
    images[labels == 1, 0, :, ::2] += 1
    return images, labels


def test_a_network_that_is_trained_and_then_quantized() -> None:
    model = quantization.prepare(Network())
    assert [type(layer).__name__ for layer in model.layers] == ["QATConv2d", "QATLinear"]
    rule = optim.Adam(1e-2)

    @tenon.jit
    def step(model: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(model: Any) -> Any:
            return tenon.cross_entropy(model(x), y), model

        (value, model), gradient = tenon.value_and_grad(loss, has_aux=True)(model)
        return *rule.update(model, gradient, state), value

    state = rule.init(model)
    for seed in range(40):
        model, state, _ = step(model, state, *stripes(32, seed))
    x, y = stripes(200, 1000)
    forward = tenon.jit(lambda model, x: model(x))
    rounded = forward(model.eval(), x)
    found = forward(quantization.convert(model), x)
    assert model.layers[1].weight.dtype == np.int8
    assert (found.argmax(1) == y).mean() > 0.95
    # A convolution that is rounded otherwise moves what is quantized next by one step.
    np.testing.assert_allclose(found, rounded, atol=0.02 * np.abs(rounded).max())
    np.testing.assert_allclose(model(x[:3]), found[:3], rtol=1e-4, atol=1e-4)


def test_tensors_are_trained_so_too() -> None:
    model = quantization.prepare(nn.Sequential(nn.Linear(4, 3, seed=0))).requires_grad_()
    steps = optim.SGD(0.1).over(model)
    x = GENERATOR.standard_normal((16, 4)).astype(np.float32)
    losses: list[float] = []
    for _ in range(8):
        steps.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    expected = model.eval()(x).detach().numpy()
    np.testing.assert_allclose(quantization.convert(model)(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda: quantization.quantize(X, 1.0, dtype="i16"), TypeError, "neither i8 nor ui8"),
        (lambda: quantization.quantize(X, SCALES), ValueError, "name the axis"),
        (lambda: quantization.quantize(X, SCALES, axis=0), ValueError, r"scale has shape \(6,\) where \(4,\)"),
        (lambda: quantization.MinMaxObserver(axis=1), ValueError, "give both or none"),
        (lambda: quantization.MovingAverageObserver(0.0), ValueError, "averaging_constant is 0.0"),
        (lambda: quantization.convert(quantization.prepare(Network())), ValueError, "nothing was observed"),
        (
            lambda: quantization.prepare(nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")),
            ValueError,
            "padding_mode 'circular'",
        ),
    ],
)
def test_refused(function: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        function()


def test_layers_are_replaced_all_or_none() -> None:
    shared = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="prepare: ReLU has no Linear or Conv2d"):
        quantization.prepare(nn.ReLU())
    with pytest.raises(ValueError, match="convert: Sequential has no QATLinear or QATConv2d"):
        quantization.convert(nn.Sequential(shared))
    network = nn.Sequential(shared, nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))
    with pytest.raises(ValueError, match="reflect"):
        quantization.prepare(network)
    assert network[0] is shared
    twice = quantization.prepare(nn.Sequential(shared, nn.ReLU(), shared))
    assert twice[0] is twice[2]
    assert twice[0] is not shared
