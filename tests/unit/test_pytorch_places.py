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
    "gather, function": lambda t, x, i, s: t.gather(x, 1, i),
    "max of two": lambda t, x, i, s: t.max(x[:3, :4], s) + t.min(s, x[1:, :4]),
    "select": lambda t, x, i, s: x.select(1, 2) * s.select(-1, 0)[0],
    "clone": lambda t, x, i, s: t.clone(x) * t.numel(s),
    "gather by name": lambda t, x, i, s: x.gather(dim=1, index=i),
    "gather by name, function": lambda t, x, i, s: t.gather(x, dim=1, index=i) + t.gather(x, 1, index=i),
    "gather of input": lambda t, x, i, s: t.gather(input=x, index=i, dim=1),
    "scatter_add, function": lambda t, x, i, s: t.scatter_add(x, 1, i, s),
    "scatter_add by name, function": lambda t, x, i, s: t.scatter_add(x, dim=1, index=i[:, :2], src=s[:, :2]),
    "scatter": lambda t, x, i, s: t.scatter(x, 1, i[:, :1], s[:, :1]),
    "scatter by name": lambda t, x, i, s: x.scatter(dim=1, index=i[:, :1], src=s[:, :1]),
    "scatter of a number": lambda t, x, i, s: x.scatter(1, i, 2.0).scatter(1, i[:, :2], value=3.0),
    "scatter_add": lambda t, x, i, s: x.scatter_add(1, i, s),
    "scatter_add by name": lambda t, x, i, s: x.scatter_add(dim=1, index=i, src=s),
    "index_fill": lambda t, x, i, s: x.index_fill(1, i[0, :2], 3.0),
    "index_fill of one place": lambda t, x, i, s: x.index_fill(1, i[0, 0], i[0, 1] * 2.0),
    "index_copy of one place": lambda t, x, i, s: t.index_copy(x[0], 0, i[0, 0], s[0, 0]),
    "index_add of one place": lambda t, x, i, s: t.index_add(x[0], 0, i[0, 0], s[0, :1]),
    "index_select of one place": lambda t, x, i, s: t.index_select(x, 1, i[0, 0]),
    "index_copy": lambda t, x, i, s: x.index_copy(0, i[0, :2].argsort(), x[1:3] * 2),
    "index_put": lambda t, x, i, s: t.index_put(x, (i[:, :1].argsort(0), i.argsort(1)), s),
    "index_put of rows": lambda t, x, i, s: x.index_put((i[0, :3].argsort(),), s[0, 0]),
    "index_put, accumulate": lambda t, x, i, s: x.index_put((i % 4, i), s, accumulate=True),
    "diagonal_scatter": lambda t, x, i, s: (
        t.diagonal_scatter(x, s[0], 1) * x.diagonal_scatter(s[1, :3], offset=-1).sum()
    ),
    "select_scatter": lambda t, x, i, s: t.select_scatter(x, s[0], 1, -2) + x.select_scatter(src=x[1], dim=0, index=2),
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
    "index_put_": lambda t, x, i, s: (x * 1).index_put_((i[0] % 4, i[0]), s[0], accumulate=True),
    "index_put_ where true": lambda t, x, i, s: (x * 1).index_put_((t.tensor(PLACES[0] > 2), i[0, 0]), s[0, 0]),
    "fill_diagonal_": lambda t, x, i, s: (x * 1).fill_diagonal_(2.0),
    "argwhere": lambda t, x, i, s: x[tuple(t.argwhere(x > 0).T)],
    "where": lambda t, x, i, s: x[t.where(x > 0)],
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


@pytest.mark.parametrize("number", [np.float32(2), np.array(2.0), np.int64(2), 2])
def test_numbers_of_any_kind_are_put_at_places(number: Any) -> None:
    places = PLACES[:, :2]
    close(tenon.scatter(X, 1, places, number), torch.tensor(X).scatter(1, torch.tensor(places), 2.0))
    close(tenon.scatter(X, 1, places, value=number), torch.tensor(X).scatter(1, torch.tensor(places), 2.0))
    close(tenon.index_fill(X, 1, places[:, 0], number), torch.tensor(X).index_fill(1, torch.tensor(places[:, 0]), 2.0))
    close(tenon.index_fill(X, 1, 3, number), torch.tensor(X).index_fill(1, torch.tensor(3), 2.0))


@pytest.mark.parametrize("parts", [np.int64(3), np.array(3), np.array([1, 3]), [np.int32(1), 3]], ids=repr)
def test_parts_may_be_numbers_of_numpy(parts: Any) -> None:
    expected = torch.tensor(X).tensor_split(torch.as_tensor(parts), dim=1)
    for found, part in zip(tenon.tensor_split(X, parts, 1), expected, strict=True):
        close(found, part)


def test_rows_are_copied_as_a_whole() -> None:
    copied = tenon.jit(lambda x, i, s: tenon.index_copy(x, 0, i, s)).trace(X, PLACES[0, :2], X[:2])
    assert "tenon.scatter_nd" in str(copied)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_distinct_integers_are_found_by_sorting(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[7, 3, 7], [3, 0, 200]], dtype)
    monkeypatch.setattr(np, "unique", None)
    for given in (x, x[:0]):
        found = tenon.unique(given)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, sorted({*given.reshape(-1).tolist()}))
    np.testing.assert_array_equal(tenon.tensor(x).unique(), [0, 3, 7, 200])


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
    with pytest.raises(TypeError, match="scatter: neither of source and value given"):
        x.scatter(1, places)
    with pytest.raises(TypeError, match="scatter: both of source and value given"):
        x.scatter(1, places, source, value=1.0)
    with pytest.raises(ValueError, match="index_fill: index has rank 2 where a vector of integers is needed"):
        x.index_fill(1, places, 1.0)
    with pytest.raises(ValueError, match="index_fill: value has rank 1 where a number is needed"):
        x.index_fill(1, places[0], source[0])
    with pytest.raises(ValueError, match=r"index_copy: x has shape \(4, 5\), index \(4,\) and source \(3, 4\), which"):
        x.index_copy(1, places[0], source)
    for parts in (2.0, [1.5], "2"):
        with pytest.raises(TypeError, match=r"tensor_split: indices_or_sections is .* where an integer or a sequence"):
            x.tensor_split(parts)
    with pytest.raises(ValueError, match="there are 0 parts"):
        x.tensor_split(0)


@pytest.mark.parametrize(("dtype", "value"), [("f16", 1.5), ("bf16", 1.5), ("i8", 100), ("u8", 200)])
def test_a_mean_of_many_is_right_in_narrow_dtypes(dtype: Any, value: float) -> None:
    count = 5000
    start = tenon.full(2, value, dtype)
    many = tenon.full(count, value, dtype)
    found = tenon.scatter_reduce(start, 0, np.arange(count) % 2, many, "mean")
    assert found.dtype == start.dtype
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(start, np.float64), rtol=1e-5)


def test_triangles_and_choices_are_those_of_torch() -> None:
    for rows, columns, offset in ((3, 4, 1), (4, 3, -1), (2, 0, 0)):
        for name in ("tril_indices", "triu_indices"):
            close(getattr(tenon, name)(rows, columns, offset), getattr(torch, name)(rows, columns, offset))
    assert tenon.tril_indices(2, 2, dtype=tenon.int32).dtype == np.int32
    vector, other = torch.tensor(X[0]), torch.tensor(S[0])
    close(tenon.cartesian_prod(X[0], S[0]), torch.cartesian_prod(vector, other))
    close(tenon.cartesian_prod(X[0]), vector)
    for count, again in ((2, False), (3, True), (6, False), (0, False)):
        close(tenon.combinations(X[0], count, again), torch.combinations(vector, count, again))
    close(tenon.nonzero(X > 0, as_tuple=False), torch.nonzero(torch.tensor(X > 0)))
    close(tenon.tensor(X > 0).nonzero(as_tuple=False), torch.nonzero(torch.tensor(X > 0)))
    close(tenon.nonzero(tenon.tensor(1.0), as_tuple=False), torch.nonzero(torch.tensor(1.0)))
    close(tenon.jit(lambda x: tenon.nonzero(x, 3, as_tuple=False))(X > 0), torch.nonzero(torch.tensor(X > 0))[:3])
    powers = np.array([0, 2, -3])
    for count in (None, 0, 1, 5):
        np.testing.assert_array_equal(tenon.vander(powers, count), np.vander(powers, count))
    slopes: Any = tenon.grad(lambda x: tenon.vander(x, 4, increasing=True)[:, 3].sum())(X[0])
    np.testing.assert_allclose(slopes, 3 * X[0] ** 2, rtol=1e-5)


def test_a_traced_mask_chooses_where_values_are_put() -> None:
    put = tenon.jit(lambda x, mask, s: tenon.index_put(x, (mask,), s, accumulate=True))
    np.testing.assert_allclose(put(X, X > 0, np.float32(2)), X + 2 * (X > 0))
    np.testing.assert_allclose(put(X, X[:, 0] > 0, X[0]), X + X[0] * (X[:, :1] > 0))
    with pytest.raises(TypeError, match="traced truth values are beside other indices"):
        tenon.jit(lambda x, mask, i: tenon.index_put(x, (mask, i), 1.0))(X, X[:, 0] > 0, PLACES[0])


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        (PLACES, 1.0, "indices is a ndarray where a tuple of arrays is needed"),
        ((PLACES + 5,), 1.0, r"index \d is out of bounds for axis 0 of size 4"),
        ((S,), 1.0, "an index is float32 where integers or truth values are needed"),
        ((PLACES,) * 3, 1.0, "there are 3 indices where x has 2 axes"),
        ((PLACES[0] % 4,), S, r"values have shape \(3, 4\), which does not broadcast to \(4, 5\)"),
        ((PLACES[0] % 4,), PLACES, "values are int64 and x is float32; both have one dtype"),
    ],
)
def test_places_and_values_that_do_not_fit(indices: Any, values: Any, message: str) -> None:
    with pytest.raises((TypeError, IndexError, ValueError), match=f"index_put: {message}"):
        tenon.index_put(X, indices, values)
