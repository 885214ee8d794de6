"""`tenon.nn` against torch.nn: PyTorch's own samples of modules, checkpoints, texts, what is drawn at the start."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import module_samples as peers
import numpy as np
import pytest
import torch

import tenon
from tenon import nn


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What modules mean is looked at here; that ops compile to what they mean is, elsewhere."""
    with tenon.knobs.override(interpret=True):
        yield


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(np.asarray(found), arrays(expected), rtol=tolerance, atol=tolerance)


arrays = peers.arrays

# --- PyTorch's samples ------------------------------------------------------------------------------------------------

# One sample of each module, in one of the faces, and of those for images of one, two and three dimensions one of the
# three; `python tests/unit/module_samples.py` runs all of them in both. A transformer has all of its layers.
FAMILIES = {name.translate(str.maketrans("123", "***")): name for name in peers.MODULES}
CASES = [
    (name, number % 2 == 0)
    for number, (family, last) in enumerate(FAMILIES.items())
    if not last.startswith("nn.Transformer") or last == "nn.Transformer"
    for name in [family.replace("*", str(number % 3 + 1)) if family.endswith("*d") else last]
    if name in peers.MODULES
]


@pytest.mark.parametrize(("name", "at_once"), CASES, ids=lambda value: str(value))
def test_a_sample_of_torchs(name: str, at_once: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = list(peers.samples(name))
    # LPPool: PyTorch's has powers of negative numbers, which are NaN unless p is even.
    sample = given[1 if name.startswith("nn.LPPool") else len(name) % len(given)]
    assert peers.check(sample, at_once=at_once) == []


def test_modules_read_as_torchs() -> None:
    for name in peers.MODULES:
        if name.endswith("Loss"):  # of which PyTorch says no setting
            continue
        kind = getattr(nn, name.removeprefix("nn."))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = next(iter(peers.samples(name)))
            theirs = f"{peers.MODULES[name].module_cls(*sample.made.args, **sample.made.kwargs)}"
        own = kind(*map(peers.translated, sample.made.args), **arrays(sample.made.kwargs))
        assert f"{own}" == theirs.replace("NonDynamicallyQuantizableLinear", "Linear")


def test_what_is_left_out_is_not_there() -> None:
    for name in peers.LEFT_OUT:
        assert not hasattr(nn, name.removeprefix("nn."))


# --- what PyTorch has no samples of -----------------------------------------------------------------------------------

OTHERS: list[tuple[Callable[[Any], Any], tuple[Any, ...]]] = [
    (lambda m: m.Upsample(scale_factor=2), (floats(1, 2, 3, 4),)),
    (lambda m: m.Upsample(size=(5, 2), mode="nearest-exact"), (floats(1, 2, 3, 4),)),
    (lambda m: m.Upsample(scale_factor=1.7, mode="linear"), (floats(1, 2, 5),)),
    (lambda m: m.Upsample(size=(7, 3), mode="bilinear"), (floats(1, 2, 3, 4),)),
    (lambda m: m.Upsample(scale_factor=2, mode="trilinear", align_corners=True), (floats(1, 2, 3, 2, 2),)),
    (lambda m: m.Upsample(scale_factor=(2, 1.5), mode="bicubic"), (floats(1, 2, 4, 4),)),
    (lambda m: m.UpsamplingBilinear2d(scale_factor=2), (floats(1, 2, 3, 4),)),
    (lambda m: m.UpsamplingNearest2d(size=(5, 5)), (floats(1, 2, 3, 4),)),
    (lambda m: m.PixelShuffle(2), (floats(1, 8, 2, 3),)),
    (lambda m: m.PixelUnshuffle(2), (floats(1, 2, 4, 6),)),
    (lambda m: m.ChannelShuffle(2), (floats(1, 6, 2, 2),)),
    (lambda m: m.Unfold((2, 3), padding=1, stride=2), (floats(2, 3, 5, 6),)),
    (lambda m: m.Fold((4, 5), (2, 2)), (floats(2, 12, 12),)),
    (lambda m: m.Unflatten(1, (2, 3)), (floats(2, 6, 3),)),
    (lambda m: m.AvgPool2d(3, 2, 1, divisor_override=5, ceil_mode=True), (floats(1, 2, 6, 7),)),
    (lambda m: m.TripletMarginLoss(swap=True), (floats(4, 3), floats(4, 3, seed=1), floats(4, 3, seed=2))),
    (lambda m: m.TripletMarginWithDistanceLoss(), (floats(4, 3), floats(4, 3, seed=1), floats(4, 3, seed=2))),
    (lambda m: m.PairwiseDistance(keepdim=True), (floats(4, 3), floats(4, 3, seed=1))),
    (lambda m: m.CosineSimilarity(), (floats(4, 3), floats(4, 3, seed=1))),
    (lambda m: m.Hardsigmoid(), (floats(4, 3) * 5,)),
    (lambda m: m.RReLU(0.1, 0.3).eval(), (floats(4, 3),)),
    (lambda m: m.Identity(3, unused=1), (floats(4, 3),)),
    (lambda m: m.Conv2d(2, 3, 3, padding="same", padding_mode="circular"), (floats(1, 2, 5, 4),)),
    (lambda m: m.LayerNorm(3, bias=False), (floats(4, 3),)),
    (lambda m: m.EmbeddingBag(10, 3, mode="mean", padding_idx=2), (np.array([[1, 2, 4], [2, 2, 2]]),)),
    (lambda m: m.EmbeddingBag(10, 3, mode="max"), (np.array([1, 2, 4, 5]), np.array([0, 0, 3]))),
    (lambda m: m.EmbeddingBag(10, 3, mode="sum"), (np.array([1, 2, 4, 5]), np.array([0, 3]), floats(4))),
    (lambda m: m.Embedding(5, 3, padding_idx=-1), (np.array([1, 4, 4]),)),
    (lambda m: m.GRU(3, 4, 2, bidirectional=True, batch_first=True), (floats(2, 5, 3), floats(4, 2, 4))),
    (lambda m: m.LSTM(3, 4, proj_size=2), (floats(5, 2, 3), (floats(1, 2, 2), floats(1, 2, 4)))),
    (lambda m: m.MultiheadAttention(6, 2, kdim=3, vdim=5), (floats(4, 2, 6), floats(3, 2, 3), floats(3, 2, 5))),
]  # fmt: skip


@pytest.mark.parametrize(("make", "given"), OTHERS)
def test_modules_agree_with_torchs(make: Callable[[Any], Any], given: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    theirs, own = make(torch.nn), make(nn)
    own.load_state_dict(arrays(theirs.state_dict()))
    own.requires_grad_()

    def each(value: Any, convert: Callable[[Any], Any]) -> Any:
        return tuple([convert(v) for v in value]) if isinstance(value, tuple) else convert(value)

    def wants(array: Any) -> bool:
        return array.dtype == np.float32

    their_inputs = each(given, lambda v: each(v, lambda a: torch.from_numpy(a).requires_grad_(wants(a))))
    inputs = each(given, lambda v: each(v, lambda a: tenon.tensor(a, requires_grad=wants(a))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about projections
        expected = peers.leaves(theirs(*their_inputs), torch.Tensor)
    found = peers.leaves(own(*inputs), tenon.Tensor)
    for one, other in zip(found, expected, strict=True):
        close(one.detach(), other)
    sum((r * (i + 1)).sum() for i, r in enumerate(expected)).backward()  # pyright: ignore[reportAttributeAccessIssue]
    total: Any = 0.0
    for i, result in enumerate(found):
        total = total + (result * (i + 1)).sum()
    total.backward()
    pairs = [*zip(peers.leaves(inputs, tenon.Tensor), peers.leaves(their_inputs, torch.Tensor), strict=True)]
    pairs += [*zip(own.parameters(), theirs.parameters(), strict=True)]
    for tensor, their_tensor in pairs:
        if their_tensor.grad is not None:
            close(tensor.grad, their_tensor.grad)


def test_what_max_pooling_took_is_put_back() -> None:
    x = floats(1, 2, 4, 6)
    pooled, places = nn.MaxPool2d(2, return_indices=True)(x)
    expected, their_places = torch.nn.MaxPool2d(2, return_indices=True)(torch.from_numpy(x))
    np.testing.assert_array_equal(places, their_places.numpy())
    close(nn.MaxUnpool2d(2)(pooled, places), torch.nn.MaxUnpool2d(2)(expected, their_places))


# --- checkpoints ------------------------------------------------------------------------------------------------------


def residual_network(library: Any, relu: Any, flatten: Any) -> Any:
    """ResNet-18 (He et al., arXiv:1512.03385) with torchvision's names."""

    class Block(library.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = library.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = library.BatchNorm2d(outputs)
            self.conv2 = library.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = library.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = library.Sequential(
                    library.Conv2d(inputs, outputs, 1, stride, bias=False), library.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
            return relu(y + (x if self.downsample is None else self.downsample(x)))

    class Network(library.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = library.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1, self.relu = library.BatchNorm2d(64), library.ReLU(inplace=True)
            self.maxpool = library.MaxPool2d(3, 2, 1)
            for number, (inputs, outputs) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512)), start=1):
                blocks = Block(inputs, outputs, 1 + (number > 1)), Block(outputs, outputs, 1)
                setattr(self, f"layer{number}", library.Sequential(*blocks))
            self.avgpool, self.fc = library.AdaptiveAvgPool2d((1, 1)), library.Linear(512, 1000)

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(flatten(self.avgpool(x)))

    return Network()


def test_a_checkpoint_of_a_residual_network() -> None:
    torch.manual_seed(0)
    theirs = residual_network(torch.nn, torch.relu, lambda x: torch.flatten(x, 1))
    x = floats(2, 3, 24, 24)
    theirs(torch.from_numpy(floats(4, 3, 24, 24, seed=1)))  # statistics of a batch
    own = residual_network(nn, tenon.relu, nn.Flatten())
    assert list(own.state_dict()) == list(theirs.state_dict())
    own.load_state_dict(theirs.state_dict())
    expected = theirs.eval()(torch.from_numpy(x))
    close(tenon.jit(lambda network, x: network(x))(own.eval(), x), expected)
    theirs.load_state_dict({name: torch.from_numpy(value) for name, value in own.state_dict().items()})


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_checkpoint_of_a_transformer_encoder(norm_first: bool) -> None:
    def made(library: Any) -> Any:
        layer = library.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=norm_first)
        return library.TransformerEncoder(
            encoder_layer=layer, num_layers=2, norm=library.LayerNorm(16), enable_nested_tensor=False
        ).eval()

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, own = made(torch.nn), made(nn)
        own.load_state_dict(theirs.state_dict())
        x, is_padding = floats(2, 5, 16), np.arange(5) >= np.array([[5], [3]])
        causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
        expected = theirs(torch.from_numpy(x), src_key_padding_mask=torch.from_numpy(is_padding))
        later = theirs(torch.from_numpy(x), mask=causal, is_causal=True)
    close(own(x, src_key_padding_mask=is_padding)[~is_padding], expected.detach().numpy()[~is_padding])
    close(own(x, is_causal=True), later)
    close(own(x, nn.Transformer.generate_square_subsequent_mask(5)), later)
    own.requires_grad_()
    close(own(tenon.tensor(x), is_causal=True).detach(), later)


def test_recurrent_layers_drop_between_layers() -> None:
    layer = nn.GRU(3, 4, num_layers=2, dropout=0.5, seed=0).requires_grad_()
    x = floats(5, 2, 3)
    assert not np.array_equal(layer(x)[0].detach(), layer(x)[0].detach())
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].detach(), layer(x)[0].detach())
    theirs = torch.nn.GRU(3, 4, num_layers=2, dropout=0.5)
    assert layer.load_state_dict(theirs.state_dict()) == ([], [])  # it has no keys of dropout


# --- the numbers that parameters start with ---------------------------------------------------------------------------

INITIALISERS: list[Callable[[Any, Any], Any]] = [
    lambda init, w: init.xavier_uniform_(w, 2.0),
    lambda init, w: init.xavier_normal_(w),
    lambda init, w: init.kaiming_uniform_(w, a=math.sqrt(5)),
    lambda init, w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    lambda init, w: init.trunc_normal_(w, 0.5, 2.0, -1.0, 3.0),
    lambda init, w: init.uniform_(w, -2.0, 3.0),
    lambda init, w: init.normal_(w, 1.0, 0.5),
    lambda init, w: init.constant_(w, 3.0),
    lambda init, w: init.orthogonal_(w, 2.0),
]


@pytest.mark.parametrize("initialise", INITIALISERS)
def test_initialisers_draw_from_torchs_distributions(initialise: Callable[[Any, Any], Any]) -> None:
    torch.manual_seed(0)
    own, theirs = np.empty((96, 80), np.float32), torch.empty((96, 80))
    initialise(nn.init, own)
    initialise(torch.nn.init, theirs)
    expected = theirs.numpy()
    # Mean and deviation within five standard errors, extremes nearly as far out.
    error = expected.std() / math.sqrt(own.size)
    assert abs(own.mean() - expected.mean()) <= 5 * math.sqrt(2) * error
    assert abs(own.std() - expected.std()) <= 5 * error
    assert abs(own.max() - expected.max()) <= 0.3 * (np.ptp(expected) + 1e-6)


def test_initialisers_with_one_result() -> None:
    for initialise in (
        lambda init, w: init.eye_(w(3, 5)),
        lambda init, w: init.dirac_(w(4, 3, 3, 3)),
        lambda init, w: init.dirac_(w(6, 2, 3), 3),
        lambda init, w: init.ones_(w(3)),
        lambda init, w: init.zeros_(w(3)),
    ):
        close(initialise(nn.init, lambda *s: np.full(s, np.nan)), initialise(torch.nn.init, torch.empty))
    q = nn.init.orthogonal_(tenon.tensor(np.empty((4, 6))), generator=0).numpy()
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-12)
    columns = nn.init.sparse_(np.empty((10, 6)), 0.25)
    assert ((columns == 0).sum(axis=0) == 3).all()
    for name in ("sigmoid", "tanh", "relu", "selu", "linear", "conv2d", "leaky_relu"):
        assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))  # pyright: ignore


def test_layers_start_from_torchs_distributions() -> None:
    makers: list[Callable[[Any], Any]] = [
        lambda m: m.Linear(64, 48),
        lambda m: m.Conv2d(16, 24, 3),
        lambda m: m.ConvTranspose2d(16, 24, 3),
        lambda m: m.Bilinear(16, 12, 20),
        lambda m: m.Embedding(64, 48),
        lambda m: m.LSTM(20, 24),
        lambda m: m.GRUCell(20, 24),
        lambda m: m.MultiheadAttention(32, 4, add_bias_kv=True),
        lambda m: m.TransformerDecoderLayer(32, 4, 64),
        lambda m: m.BatchNorm2d(8),
        lambda m: m.PReLU(3),
    ]
    torch.manual_seed(0)
    for make in makers:
        expected, own = make(torch.nn).state_dict(), make(nn).state_dict()
        for name, value in expected.items():
            want, have = value.numpy().astype(np.float64), np.asarray(own[name], np.float64)
            assert want.shape == have.shape
            error = want.std() / math.sqrt(want.size)
            assert abs(want.mean() - have.mean()) <= 7 * error, name
            assert abs(want.std() - have.std()) <= 5 * error, name


def test_copies_of_layers_draw_independently() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3)
    keys = [value.tolist() for name, value in encoder.named_buffers() if name.endswith("key")]
    assert len({*map(tuple, keys)}) == len(keys) == 12
    again = copy.deepcopy(encoder)
    assert [value.tolist() for name, value in again.named_buffers() if name.endswith("key")] == keys
