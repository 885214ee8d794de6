"""Reading and writing at indices by PyTorch's names, with its results and gradients, on tensors and in traces."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((4, 5)).astype(np.float32)
S = GENERATOR.standard_normal((3, 4)).astype(np.float32)
PLACES = GENERATOR.integers(0, 5, (3, 4))
"""Places along the second axis, some of them more than once."""


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What is meant is looked at here; that ops compile to what they mean is, elsewhere."""
    with tenon.knobs.override(interpret=True):
        yield


def _reduced(reduce: str, include_self: bool) -> Callable[..., Any]:
    return lambda t, x, i, s: x.scatter_reduce(1, i, s, reduce=reduce, include_self=include_self)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "gather": lambda t, x, i, s: x.gather(1, i),
    "gather by name": lambda t, x, i, s: x.gather(dim=1, index=i),
    "scatter": lambda t, x, i, s: t.scatter(x, 1, i[:, :1], s[:, :1]),
    "scatter by name": lambda t, x, i, s: x.scatter(dim=1, index=i[:, :1], src=s[:, :1]),
    "scatter of a number": lambda t, x, i, s: x.scatter(1, i, 2.0).scatter(1, i[:, :2], value=3.0),
    "scatter_add": lambda t, x, i, s: x.scatter_add(1, i, s),
    "scatter_add by name": lambda t, x, i, s: x.scatter_add(dim=1, index=i, src=s),
    "index_fill": lambda t, x, i, s: x.index_fill(1, i[0, :2], 3.0),
    "index_copy": lambda t, x, i, s: x.index_copy(0, i[0, :2].argsort(), x[1:3] * 2),
    "take_along_dim": lambda t, x, i, s: t.take_along_dim(x, i[:1, :2], dim=1),
    "take_along_dim of all": lambda t, x, i, s: t.take_along_dim(x, i),
    "tensor_split": lambda t, x, i, s: t.cat([part.sum(1) for part in t.tensor_split(x, 3, dim=1)]),
    "tensor_split at places": lambda t, x, i, s: t.cat([part.sum(1) for part in x.tensor_split((1, 3), dim=1)]),
    **{
        f"scatter_reduce {reduce} {include}": _reduced(reduce, include)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    },
}
IN_PLACE: dict[str, Callable[..., Any]] = {
    "scatter_": lambda t, x, i, s: (x * 1).scatter_(1, i[:, :1], s[:, :1]),
    "scatter_add_": lambda t, x, i, s: (x * 1).scatter_add_(1, i, s),
    "scatter_reduce_": lambda t, x, i, s: (x * 1).scatter_reduce_(1, i, s, "amax"),
    "index_add_": lambda t, x, i, s: (x * 1).index_add_(0, i[0, :3] % 3, x[:3]),
    "index_fill_": lambda t, x, i, s: (x * 1).index_fill_(1, i[0, :2], 3.0),
}


def close(found: Any, expected: Any) -> None:
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(np.asarray(found), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*PROGRAMS, *IN_PLACE])
def test_results_and_gradients_are_those_of_torch(name: str) -> None:
    program = {**PROGRAMS, **IN_PLACE}[name]
    made: list[list[Any]] = []
    for library in (tenon, torch):
        x, s = library.tensor(X, requires_grad=True), library.tensor(S, requires_grad=True)
        result: Any = program(library, x, library.tensor(PLACES), s)
        (result * result).sum().backward()
        made.append([result.detach(), x.grad, s.grad])
    for found, expected in zip(*made, strict=True):
        assert (found is None) == (expected is None) or not found.numpy().any()
        if expected is not None:
            close(found, expected)
    if name in PROGRAMS:
        with tenon.knobs.override(interpret=True):
            close(tenon.jit(lambda *given: program(tenon, *given))(X, PLACES, S), made[1][0])


def test_a_source_may_be_larger_than_the_index() -> None:
    expected = torch.tensor(X).scatter_add(1, torch.tensor(PLACES[:, :2]), torch.tensor(S))
    close(tenon.tensor(X).scatter_add(1, tenon.tensor(PLACES[:, :2]), tenon.tensor(S)), expected)
    expected = torch.tensor(X).scatter(1, torch.tensor(PLACES[:, :1]), torch.tensor(S))
    close(tenon.tensor(X).scatter(1, tenon.tensor(PLACES[:, :1]), tenon.tensor(S)), expected)


def test_numpy_meanings_stay() -> None:
    x = tenon.tensor(X)
    np.testing.assert_array_equal(np.asarray(x.gather(PLACES[0], 1)), X[:, PLACES[0]])
    found = x.scatter_add(np.array([0, 0]), X[:2])
    np.testing.assert_allclose(np.asarray(found)[0], X[0] + X[0] + X[1], rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(x.gather(tenon.tensor(2), axis=0)), X[2])


def test_what_is_refused() -> None:
    x, places, source = tenon.tensor(X), tenon.tensor(PLACES), tenon.tensor(S)
    with pytest.raises(ValueError, match="reduce is 'max', none of 'sum'"):
        x.scatter_reduce(1, places, source, reduce="max")
    with pytest.raises(ValueError, match=r"scatter: the source has shape \(3, 2\), and the index \(3, 4\)"):
        x.scatter(1, places, source[:, :2])
    with pytest.raises(ValueError, match="there are 0 parts"):
        x.tensor_split(0)
