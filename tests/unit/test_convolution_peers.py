"""Convolutions and pooling against PyTorch's, values and gradients, over grids of settings."""

# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenon

torch: Any = pytest.importorskip("torch")
functional: Any = torch.nn.functional

Function = Callable[..., Any]


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def distinct(shape: tuple[int, ...], seed: int) -> Any:
    """Numbers in steps of a quarter, several times each: windows have several largest elements."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count) % max(count // 3, 1) / 4.0).reshape(shape)


def check(own: Function, peer: Function, *arrays: Any) -> None:
    """Assert that `own` gives what `peer` does, and the same gradient of a weighted sum."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = peer(*tensors)
    weights = np.cos(np.arange(expected.numel())).reshape(expected.shape)
    (expected * torch.tensor(weights)).sum().backward()
    positions = tuple(range(len(arrays)))
    result = tenon.jit(own)(*arrays)
    np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    gradients = tenon.grad(lambda *a: tenon.sum(own(*a) * weights), positions)(*arrays)
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-10, atol=1e-10)


IMAGES: dict[int, tuple[int, ...]] = {1: (11,), 2: (9, 8), 3: (6, 5, 7)}
WINDOWS: dict[int, tuple[int, ...]] = {1: (4,), 2: (3, 2), 3: (2, 3, 2)}


# All of them for images; elsewhere every pair of values, which half of them has.
CONVOLUTIONS = [
    (rank, *chosen)
    for rank in (1, 2, 3)
    for chosen in product((1, 2), (0, 1), (1, 2), (1, 2))
    if rank == 2 or sum(chosen) % 2
]


@pytest.mark.parametrize(("rank", "stride", "padding", "dilation", "groups"), CONVOLUTIONS)
def test_conv(rank: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    check(
        lambda x, w, b: getattr(tenon, f"conv{rank}d")(x, w, b, **settings),
        lambda x, w, b: getattr(functional, f"conv{rank}d")(x, w, b, **settings),
        numbers((2, 4, *IMAGES[rank]), 0),
        numbers((6, 4 // groups, *WINDOWS[rank]), 1),
        numbers((6,), 2),
    )


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_with_named_padding(rank: int, padding: str) -> None:
    check(
        lambda x, w: tenon.conv(x, w, padding=padding, dilation=2),
        lambda x, w: getattr(functional, f"conv{rank}d")(x, w, padding=padding, dilation=2),
        numbers((1, 2, *IMAGES[rank]), 0),
        numbers((3, 2, *WINDOWS[rank]), 1),
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "output_padding"),
    [(1, 0, 1, 1, 0), (2, 1, 1, 1, 1), (3, 0, 1, 2, 2), (2, 2, 2, 2, 1), (1, 1, 2, 1, 0), (3, 1, 1, 1, 0)],
)
def test_conv_transpose(rank: int, stride: int, padding: int, dilation: int, groups: int, output_padding: int) -> None:
    settings = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "output_padding": output_padding,
    }
    image = tuple([size // 2 for size in IMAGES[rank]])
    check(
        lambda x, w, b: getattr(tenon, f"conv_transpose{rank}d")(x, w, b, **settings),
        lambda x, w, b: getattr(functional, f"conv_transpose{rank}d")(x, w, b, **settings),
        numbers((2, 4, *image), 0),
        numbers((4, 3, *WINDOWS[rank]), 1),
        numbers((3 * groups,), 2),
    )


POOLS = [
    {"kernel_size": 3},
    {"kernel_size": 2, "stride": 3, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize("dilation", [1, 2])
def test_max_pool(rank: int, options: dict[str, Any], dilation: int) -> None:
    x = distinct((2, 3, *IMAGES[rank]), rank)
    own = {"dilation": dilation, **{key: value for key, value in options.items() if key != "kernel_size"}}
    window = (options["kernel_size"],) * rank
    peer = getattr(functional, f"max_pool{rank}d")
    check(
        lambda x: getattr(tenon, f"max_pool{rank}d")(x, window, **own),
        lambda x: peer(x, dilation=dilation, **options),
        x,
    )
    values, indices = tenon.jit(lambda x: tenon.max_pool_with_indices(x, window, **own))(x)
    expected = peer(torch.tensor(x), dilation=dilation, return_indices=True, **options)
    np.testing.assert_array_equal(values, expected[0].numpy())
    np.testing.assert_array_equal(indices, expected[1].numpy())


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_avg_pool(rank: int, options: dict[str, Any], count_include_pad: bool) -> None:
    own = {key: value for key, value in options.items() if key != "kernel_size"}
    check(
        lambda x: getattr(tenon, f"avg_pool{rank}d")(
            x, options["kernel_size"], count_include_pad=count_include_pad, **own
        ),
        lambda x: getattr(functional, f"avg_pool{rank}d")(x, count_include_pad=count_include_pad, **options),
        numbers((2, 3, *IMAGES[rank]), rank),
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_lp_pool(rank: int, p: float) -> None:
    # PyTorch takes powers of x instead of |x|, which is the same for even p.
    check(
        lambda x: tenon.lp_pool(x, (3,) * rank, stride=2, p=p),
        lambda x: getattr(functional, f"lp_pool{rank}d")(x, p, 3, stride=2),
        np.abs(numbers((2, 3, *IMAGES[rank]), rank)) if p == 1 else numbers((2, 3, *IMAGES[rank]), rank),
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_adaptive_pools(rank: int, size: int) -> None:
    for name in ("max", "avg"):
        check(
            lambda x, name=name: getattr(tenon, f"adaptive_{name}_pool")(x, (size,) * rank),
            lambda x, name=name: getattr(functional, f"adaptive_{name}_pool{rank}d")(x, size),
            distinct((2, 3, *IMAGES[rank]), rank),
        )


@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_response_norm(size: int) -> None:
    check(
        lambda x: tenon.local_response_norm(x, size, alpha=0.3, beta=0.6, bias=1.5),
        lambda x: functional.local_response_norm(x, size, alpha=0.3, beta=0.6, k=1.5),
        numbers((2, 6, 4, 3), 0),
    )


@pytest.mark.parametrize(("name", "shape"), [("max_pool2d", (5, 1, 2, 6, 7)), ("avg_pool2d", (5, 1, 2, 6, 7))])
def test_pooling_of_infinities(name: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape, 0)[0]
    x[0, 0, 2, 3], x[0, 1, 1, 1], x[0, 1, 5, 5] = np.nan, np.inf, -np.inf
    result = tenon.jit(lambda x: getattr(tenon, name)(x, 3, stride=2, padding=1))(x)
    expected = getattr(functional, name)(torch.tensor(x), 3, stride=2, padding=1)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-12)


# Large enough for the forms that convolutions take for speed.
@pytest.mark.parametrize(
    ("x", "weight", "settings"),
    [
        ((2, 6, 17, 23), (8, 6, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 3, 31, 30), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((1, 4, 29, 30), (8, 2, 2, 5), {"stride": (1, 3), "groups": 2, "dilation": (2, 1)}),
        ((1, 16, 12, 33), (16, 16, 1, 2), {"stride": 4}),
        ((1, 16, 9, 7), (24, 16, 3, 3), {"padding": 1}),
        ((2, 8, 14, 11), (8, 4, 3, 2), {"padding": (2, 1), "dilation": (1, 3), "groups": 2}),
        ((1, 4, 7, 9, 6), (6, 4, 2, 3, 3), {"padding": 1, "dilation": (2, 1, 2), "stride": (2, 1, 1)}),
        ((1, 16, 700), (8, 16, 3), {"stride": 2}),
    ],
)
def test_large_conv(x: tuple[int, ...], weight: tuple[int, ...], settings: dict[str, Any]) -> None:
    rank = len(x) - 2
    check(
        lambda x, w: tenon.conv(x, w, **settings),
        lambda x, w: getattr(functional, f"conv{rank}d")(x, w, **settings),
        numbers(x, 0),
        numbers(weight, 1),
    )


@pytest.mark.parametrize(
    ("x", "weight", "settings"),
    [
        ((2, 6, 12, 13), (6, 8, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 8, 12, 13), (8, 4, 4, 5), {"stride": (3, 2), "padding": (1, 2), "groups": 2}),
        ((1, 16, 12, 13), (16, 8, 2, 3), {"stride": (4, 2)}),
        ((1, 8, 5, 6, 7), (8, 4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": (1, 0, 1)}),
    ],
)
def test_large_conv_transpose(x: tuple[int, ...], weight: tuple[int, ...], settings: dict[str, Any]) -> None:
    rank = len(x) - 2
    check(
        lambda x, w: tenon.conv_transpose(x, w, **settings),
        lambda x, w: getattr(functional, f"conv_transpose{rank}d")(x, w, **settings),
        numbers(x, 0),
        numbers(weight, 1),
    )
