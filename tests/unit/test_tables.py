"""Tables of vectors whose gradients are over how often rows are asked for; distances between points that are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn

RANDOM: Any = np.random.default_rng(0)
PLACES: Any = np.array([[1, 1, 4], [2, 1, 0]])
WEIGHTS = RANDOM.standard_normal((2, 3)).astype(np.float32)
OFFSETS = np.array([0, 2])
SEEDS = RANDOM.standard_normal((2, 3)).astype(np.float32)


def gradients(own: Any, seeds: Any, *args: Any) -> list[Any]:
    """Those of a table, in a function that is compiled and by `backward`."""
    found = tenon.jit(tenon.grad(lambda own: (own(*args) * seeds).sum()))(own)
    own.requires_grad_()
    (own(*args) * seeds).sum().backward()
    return [found.weight, own.weight.grad.numpy()]


@pytest.mark.parametrize("padding", [None, 1, 3])
@pytest.mark.parametrize("places", [PLACES, PLACES[0], np.array(2), np.zeros((2, 0), np.int64)], ids=np.shape)
def test_rows(places: Any, padding: int | None) -> None:
    theirs = torch.nn.Embedding(6, 3, padding, scale_grad_by_freq=True)
    own = nn.Embedding(6, 3, padding, scale_grad_by_freq=True)
    own.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(own(places), own.weight[places])
    assert repr(own) == repr(theirs)
    seeds = RANDOM.standard_normal((*places.shape, 3)).astype(np.float32)
    (theirs(torch.tensor(places)) * torch.tensor(seeds)).sum().backward()
    for found in gradients(own, seeds, places):
        np.testing.assert_allclose(found, theirs.weight.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(mode: str, padding: int | None) -> None:
    """PyTorch counts other rows than are asked for there, so that the measure is what a bag is made of."""
    settings: dict[str, Any] = {"mode": mode, "padding_idx": padding, "scale_grad_by_freq": True}
    assert repr(nn.EmbeddingBag(6, 3, **settings)) == repr(torch.nn.EmbeddingBag(6, 3, **settings))
    flat: list[tuple[Any, ...]] = [(PLACES.ravel(), np.array([0, 3]))]
    for args in [(PLACES,), *flat, *([(PLACES, None, WEIGHTS)] if mode == "sum" else [])]:
        own = nn.EmbeddingBag(6, 3, **settings, seed=0)
        rows = torch.nn.Embedding(6, 3, padding, scale_grad_by_freq=True)
        rows.load_state_dict({"weight": torch.tensor(own.weight)})
        made = rows(torch.tensor(PLACES))
        share = np.ones((2, 3, 1), np.float32) if padding is None else (padding != PLACES)[..., None].astype(np.float32)
        if mode == "mean":
            share /= np.maximum(share.sum(1, keepdims=True), 1)
        if len(args) == 3:
            share *= WEIGHTS[..., None]
        result = (made * torch.tensor(share)).sum(1)
        np.testing.assert_allclose(own(*args), result.detach().numpy(), rtol=1e-5, atol=1e-6)
        (result * torch.tensor(SEEDS)).sum().backward()
        for found in gradients(own, SEEDS, *args):
            np.testing.assert_allclose(found, rows.weight.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_what_tables_do_not_do() -> None:
    for table in (nn.Embedding, nn.EmbeddingBag):
        with pytest.raises(ValueError, match=f"^{table.__name__}: there are no sparse gradients; leave sparse out"):
            table(3, 2, sparse=True)
        with pytest.raises(
            ValueError, match=f"^{table.__name__}: there is no max_norm, which changes weight in a call"
        ):
            table(3, 2, max_norm=1.0)
    with pytest.raises(ValueError, match=r"^EmbeddingBag: scale_grad_by_freq is for modes 'sum' and 'mean'"):
        nn.EmbeddingBag(3, 2, scale_grad_by_freq=True, mode="max")


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_gradients_of_distances(p: float) -> None:
    """Also of points that are alike, in all elements or in some."""
    a, b = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((5, 3))
    a[3], b[2], b[0] = a[1], a[1], a[0]
    b[0, 1] += 0.5
    for name, given in (("cdist", (a, b)), ("pdist", (a,))):
        theirs = [torch.tensor(x, requires_grad=True) for x in given]
        own = [tenon.tensor(x, requires_grad=True) for x in given]
        expected, found = (getattr(library, name)(*xs, p=p) for library, xs in ((torch, theirs), (tenon, own)))
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
        seeds = RANDOM.standard_normal(tuple(expected.shape))
        (expected * torch.tensor(seeds)).sum().backward()
        (found * seeds).sum().backward()
        for x, y in zip(own, theirs, strict=True):
            slope = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
            np.testing.assert_allclose(slope, y.grad.numpy(), rtol=1e-12, atol=1e-14)
    for name, given in (("cdist", (a, b)), ("pdist", (a,))):
        with pytest.raises(ValueError, match=f"^{name}: p is -1.0 where 0 or more is needed"):
            getattr(tenon, name)(*given, p=-1.0)
