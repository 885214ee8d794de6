"""Calls of `nn.functional` with the arguments that PyTorch's functions have, by position and by name."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn

RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []


def call(name: str, *args: Any, **settings: Any) -> None:
    CALLS.append((name, args, settings))


x, image = 3 * array(2, 4, 6), array(2, 3, 9, 7)
p, q, u = array(4, 3), abs(array(4, 3)), 1 / (1 + np.exp(-array(4, 3)))
y = np.array([0, 2, 1, 1])
for n in ["relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"]:
    call(n, x, True)
    call(n, x, False)
    call(n, input=x, inplace=True)
call("elu", x, 0.5, True)
call("celu", x, 0.5, False)
call("leaky_relu", x, 0.2, True)
call("hardtanh", x, -2.0, 0.5, True)
call("threshold", x, 0.1, 5.0, True)
call("celu", x, alpha=2.0, inplace=True)
call("normalize", x)
call("normalize", x, 1.0, 2)
call("normalize", input=x, dim=0)
call("cosine_similarity", x, x[::-1].copy())
call("cosine_similarity", x1=x, x2=x[::-1].copy(), dim=2)
call("softmax", x, 1, dtype="f64")
call("log_softmax", x, dim=2, dtype="f64")
call("softmin", x, dim=1, dtype="f64")
call("softmin", x, 1)
call("max_pool2d", image, 2, 2, 0, 1, True)
call("max_pool2d", image, 3, 2, 1, 1, True, True)
call("max_pool2d", image, 2, return_indices=True, ceil_mode=True)
call("avg_pool2d", image, 3, 2, 1, True, False, 2)
for m in ["nearest", "nearest-exact", "area", "bilinear", "bicubic"]:
    for s in [(4, 3), (5, 11), (9, 7), (20, 20), (1, 1)]:
        call("interpolate", image, s, mode=m)
    call("interpolate", image, scale_factor=0.5, mode=m)
    call("interpolate", image, scale_factor=(0.3, 1.7), mode=m)
    call("interpolate", image, None, 1.3, m, None, True)
for m in ["bilinear", "bicubic"]:
    for ac in [None, False, True]:
        for s in [(4, 3), (5, 11), (9, 7), (20, 20), (1, 1)]:
            call("interpolate", image, s, None, m, ac, None, True)
        call("interpolate", image, scale_factor=(0.3, 0.7), mode=m, align_corners=ac, antialias=True)
call("interpolate", image, (4, 3), mode="area")
call("interpolate", array(2, 3, 8), 4, mode="area")
call("interpolate", array(1, 2, 4, 5, 6), (2, 2, 3), mode="area")

for n in ["l1_loss", "mse_loss"]:
    call(n, p, q, None, None, "sum")
    call(n, p, q, size_average=None, reduce=None, reduction="none")
call("smooth_l1_loss", p, q, None, None, "sum", 0.5)
call("huber_loss", p, q, "sum", 0.5)
call("huber_loss", p, q, delta=0.3)
call("huber_loss", p, q, "none")
call("binary_cross_entropy", u, u, u, None, None, "sum")
call("binary_cross_entropy_with_logits", p, u, q, None, None, "sum", q)
call("kl_div", p, u, None, None, "batchmean", False)
call("kl_div", p, p, reduction="sum", log_target=True)
call("poisson_nll_loss", p, q, True, True, None, 1e-8, None, "sum")
call("gaussian_nll_loss", p, q, q + 1, True, 1e-6, "sum")
call("soft_margin_loss", p, np.sign(p), None, None, "sum")
call("cross_entropy", p, y, q[0], None, 1, None, "sum", 0.1)
call("nll_loss", p, y, q[0], None, -100, None, "mean")
call("multi_margin_loss", p, y, 2, 1.5, q[0], None, None, "sum")
call("multilabel_soft_margin_loss", p, (u > 0.5).astype(np.float32), q[0], None, None, "sum")
call("hinge_embedding_loss", p, np.sign(q - 1), 0.5, None, None, "sum")
call("cosine_embedding_loss", p, q, np.array([1.0, -1, 1, -1], np.float32), 0.2, None, None, "sum")
call("margin_ranking_loss", p[:, 0], q[:, 0], np.sign(p[:, 1]), 0.3, None, None, "sum")
call("triplet_margin_loss", p, q, u, 0.7, 2.0, 1e-6, True, None, None, "sum")
call("embedding", y, np.ascontiguousarray(p), None, None, 2.0, True, False)
call("embedding_bag", y, np.ascontiguousarray(p), y[:2], None, 2.0, False, "sum", False, q[:, 0].copy(), False, 2)
call("embedding_bag", y, p.copy(), np.array([0, 3, 4]), mode="max", include_last_offset=True)
call("embedding_bag", y[None], p.copy(), padding_idx=-2)
for distance in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
    call("pdist", p, distance)
call("dropout", x, 0.5, False, True)


def given(values: Any, make: Any) -> Any:
    return make(values.copy()) if isinstance(values, np.ndarray) else values


def as_torch(name: str, value: Any) -> Any:
    return torch.float64 if name == "dtype" else given(value, torch.tensor)


def label(case: tuple[str, tuple[Any, ...], dict[str, Any]]) -> str:
    name, args, settings = case
    shown = [*args, *[f"{key}={value}" for key, value in settings.items() if not isinstance(value, np.ndarray)]]
    return "-".join([name, *[str(value) for value in shown if not isinstance(value, np.ndarray)]])


@pytest.mark.parametrize("case", CALLS, ids=label)
def test_calls_are_those_of_torch(case: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    name, args, settings = case
    expected = getattr(torch.nn.functional, name)(
        *[given(value, torch.tensor) for value in args],
        **{key: as_torch(key, value) for key, value in settings.items()},
    )
    found = getattr(nn.functional, name)(
        *[given(value, tenon.tensor) for value in args],
        **{key: given(value, tenon.tensor) for key, value in settings.items()},
    )
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for own, theirs in pairs:
        assert str(own.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_allclose(own.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_in_place() -> None:
    t = tenon.tensor([-1.0, 2.0])
    assert nn.functional.relu(t, inplace=True) is t
    assert t.tolist() == [0.0, 2.0]
    leaf = tenon.tensor([-1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="requires"):
        nn.functional.leaky_relu(leaf, 0.1, True)
    hidden = leaf * 2
    nn.functional.hardtanh(hidden, -1.0, 1.0, inplace=True).sum().backward()
    assert hidden.tolist() == [-1.0, 1.0]
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.mse_loss(p, p, weight=p), r"mse_loss: there is no argument 'weight' \(arguments: reduction\)"),
        (lambda f: f.l1_loss(p, p, True), "l1_loss: size_average is a former argument; write reduction='mean'"),
        (lambda f: f.huber_loss(p, p, "sum", 1.0, p), "huber_loss: takes at most 4 arguments"),
        (lambda f: f.adaptive_max_pool2d(image, 2, return_indices=True), "adaptive_max_pool2d: there is no argument"),
        (lambda f: f.relu(p, 1, 2), "relu: takes at most 2 arguments"),
        (lambda f: f.elu(p, 1.0, alpha=2.0), "elu: argument 'alpha' is given twice"),
        (lambda f: f.kl_div(p, p, None, size_average=None), "kl_div: argument 'size_average' is given twice"),
    ],
)
def test_arguments_that_are_not_there_are_named(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}"):
        call(nn.functional)


def test_settings_that_mean_nothing_are_errors() -> None:
    for settings, message in (
        ({"mode": "area", "align_corners": False}, "align_corners means nothing for mode 'area'"),
        ({"mode": "area", "antialias": True}, "antialias is for modes bilinear and bicubic"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.functional.interpolate(image, (2, 2), **settings)
    f = nn.functional
    for table, name in ((f.embedding, "embedding"), (f.embedding_bag, "embedding_bag")):
        with pytest.raises(ValueError, match=f"^{name}: there is no max_norm, which changes weight in a call; scale"):
            table(y, p, max_norm=1.0)
        with pytest.raises(ValueError, match=f"^{name}: there are no sparse gradients; leave sparse out"):
            table(y, p, sparse=True)
        with pytest.raises(ValueError, match=f"^{name}: padding_idx is 4, and there are 4 rows"):
            table(y, p, padding_idx=4)
