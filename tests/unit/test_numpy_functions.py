"""Functions that NumPy has by the same name give what NumPy's give: of arrays, of tensors, and traced."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon

GENERATOR = np.random.default_rng(0)
X, WEIGHTS = GENERATOR.standard_normal((3, 4)), GENERATOR.uniform(0.1, 1.0, (3, 4))
FLOATS = np.array([0.0, -0.0, 1.0, 0.5, -3.0, 1e300, 5e-324, 2.3e-310, -2.2e-308, 1e-300, np.inf, np.nan])
EXPONENTS = np.array([5, 3, 1023, -1074, -1074, 900, 2000, 1100, -60, -70, 3, 1])
NUMBERS = np.array([0, 0, -128, 127, -128, 6, 100, -36], np.int8)
OTHERS = np.array([0, 5, 0, 127, 6, 4, 75, 60], np.int8)
HOLES = np.where(X > 0.5, np.nan, X)
HOLES[:, 0] = np.nan
PLACES = np.array([0, 2])
EDGES, AMONG = np.array([-1.0, 0.0, 0.5]), np.array([-2.0, -1.0, 0.0, 0.2, 0.5, 7.0])
AT = np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.5, 1.0, 3.0])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gcd": (lambda m, x, y: m.gcd(x, y), (NUMBERS, OTHERS)),
    "gcd of i64": (lambda m, x, y: m.gcd(x * 2**40, y), (NUMBERS.astype(np.int64), OTHERS.astype(np.int64))),
    "gcd, broadcast": (lambda m, x, y: m.gcd(x[:, None], y), (NUMBERS.view(np.uint8), np.array([12, 18], np.uint8))),
    "lcm": (lambda m, x, y: m.lcm(x, y), (NUMBERS // 9, OTHERS // 9)),
    "float_power": (lambda m, x: m.float_power(x, -2), (np.array([2, 3, -4], np.int32),)),
    "rint": (lambda m, x: m.rint(x), (np.array([0.5, 1.5, -2.5, -2.7, np.inf]),)),
    "rint of integers": (lambda m, x: m.rint(x), (np.array([1, -2]),)),
    "spacing": (lambda m, x: m.spacing(x), (FLOATS,)),
    "spacing of f32": (lambda m, x: m.spacing(x), (np.array([1.0, -1e30, 1e-44, -0.0], np.float32),)),
    "frexp": (lambda m, x: m.frexp(x), (FLOATS[:-2],)),
    "frexp of f32": (lambda m, x: m.frexp(x), (np.array([1.0, -3e38, 1e-44, np.finfo(np.float32).tiny], np.float32),)),
    "ldexp": (lambda m, x, n: m.ldexp(x, n), (FLOATS, EXPONENTS)),
    "ldexp of f32": (
        lambda m, x, n: m.ldexp(x, n),
        (np.array([1.7, 1.3, 5.1], np.float32), np.array([-149, -140, 125])),
    ),
    "ptp": (lambda m, x: (m.ptp(x), m.ptp(x, axis=1), m.ptp(x, axis=0, keepdims=True)), (X,)),
    "average": (lambda m, x: (m.average(x), m.average(x, axis=1), m.average(x, 0, returned=True)), (X,)),
    "average, weights": (lambda m, x, w: (m.average(x, weights=w), m.average(x, 0, w, True)), (X, WEIGHTS)),
    "average, a weight a row": (lambda m, x, w: m.average(x, 1, w[0], True, keepdims=True), (X, WEIGHTS)),
    "average of integers": (lambda m, x: m.average(x, weights=x), (np.array([200, 100, 7]),)),
    **{
        f"{name} {len(x)} {len(y)} {mode}": (lambda m, x, y, name=name, mode=mode: getattr(m, name)(x, y, mode), (x, y))
        for name in ("convolve", "correlate")
        for x, y in ((X[0], X[1, :3]), (X[0, :2], X[1]), (X[0], X[1]))
        for mode in ("full", "same", "valid")
    },
    "convolve of integers": (lambda m, x, y: m.convolve(x, y), (np.arange(5), np.array([1, -2]))),
    "gradient": (lambda m, x: (*m.gradient(x), m.gradient(x, 2.0, axis=-1, edge_order=2)), (X,)),
    "gradient at places": (lambda m, x, a, b: (*m.gradient(x, a, b, edge_order=2), *m.gradient(x, 0.5, b)), (X, *AT)),
    "gradient of integers": (lambda m, x: (m.gradient(x), m.gradient(x[:2])), (np.array([1, 5, 2]),)),
    "ediff1d": (lambda m, x: m.ediff1d(x, to_begin=0, to_end=np.array([8, 9])), (np.array([[1, 2], [4, 7]]),)),
    "polyval": (lambda m, p, x: (m.polyval(p, x), m.polyval(p[:0], x)), (X[0], WEIGHTS)),
    "digitize": (lambda m, x: (m.digitize(x, EDGES), m.digitize(x, EDGES[::-1])), (AMONG,)),
    "digitize, right": (lambda m, x: (m.digitize(x, EDGES, True), m.digitize(x, EDGES[::-1], True)), (AMONG,)),
    "histogram": (lambda m, x: (*m.histogram(x), *m.histogram(x, 3, (-1, 1)), *m.histogram(x[:0], 2)), (X,)),
    "histogram at edges": (lambda m, x: (*m.histogram(x, EDGES), *m.histogram(x, 4), *m.histogram(x * 0, 2)), (AMONG,)),
    "histogram, weights": (
        lambda m, x, w: (*m.histogram(x, 4, weights=w), *m.histogram(x, 4, density=True)),
        (X, WEIGHTS),
    ),
    "histogram of integers": (
        lambda m, x: (*m.histogram(x, 3), *m.histogram(x, np.array([0, 2, 5]))),
        (np.array([1, 2, 9, 5]),),
    ),
    "splits": (
        lambda m, x: (*m.hsplit(x, 2), *m.hsplit(x[0], [1, 3]), *m.vsplit(x, 3), *m.array_split(x, 3, axis=1)),
        (X,),
    ),
    "dsplit": (lambda m, x: (*m.dsplit(x, 2), *m.dsplit(x, (1,))), (X.reshape(1, 3, 4),)),
    "unravel_index": (
        lambda m, i: (*m.unravel_index(i, (2, 3, 4)), *m.unravel_index(i, 24)),
        (np.array([[0, 5], [23, 7]]),),
    ),
    "ravel_multi_index": (
        lambda m, i, j: m.ravel_multi_index((i, j), (3, 4)),
        (np.array([0, 2]), np.array([[1], [3]])),
    ),
    "choose": (lambda m, i, x: m.choose(i, (x[0], x[1], 7.0 * x[2])), (np.array([0, 2, 1, 0]), X)),
    "vdot": (lambda m, x, w: m.vdot(x, w), (X, WEIGHTS)),
    "diagflat": (lambda m, x: m.diagflat(x[:2, :2], -1), (X,)),
    **{
        f"{name} {axis} {order}": (lambda m, x, f=name, a=axis, o=order: getattr(m, f)(x, axis=a, bitorder=o), (bits,))
        for name, bits in (("packbits", X > 0.3), ("unpackbits", NUMBERS.view(np.uint8).reshape(2, 4)))
        for axis, order in ((None, "big"), (0, "little"), (1, "big"))
    },
    "unpackbits, some": (
        lambda m, x: [m.unpackbits(x, count=n) for n in (5, -9, 70)] + [m.packbits(x // 9)],
        (NUMBERS.view(np.uint8),),
    ),
    "unwrap": (lambda m, x: (m.unwrap(x), m.unwrap(x, 4.0, axis=0), m.unwrap(x, period=1.5)), (4 * X,)),
    "unwrap at halves": (lambda m, x: m.unwrap(x), (np.array([0.0, np.pi, 0.0, -np.pi, 2 * np.pi]),)),
    "nanquantile": (
        lambda m, x: (m.nanquantile(x, 0.3), m.nanquantile(x, [0.0, 0.5, 1.0], 1, keepdims=True)),
        (HOLES,),
    ),
    "nanquantile of rows": (lambda m, x: m.nanquantile(x, 0.5, axis=0), (HOLES,)),
    "piecewise": (lambda m, x: m.piecewise(x, [x < 0, x > 0.5], [lambda v: -v, 3, lambda v: v + 1]), (X,)),
    "apply_along_axis": (lambda m, x: m.apply_along_axis(lambda row: row[:2] * 2, 0, x), (X.reshape(3, 2, 2),)),
    "apply_along_axis, numbers": (lambda m, x: m.apply_along_axis(lambda row: row.sum(), -1, x), (X,)),
    "nanvar": (lambda m, x: (m.nanvar(x), m.nanvar(x, axis=1, ddof=1), m.nanstd(x, axis=0, keepdims=True)), (HOLES,)),
}
CANCELLING = ("average", "convolve", "correlate", "gradient", "histogram", "nanquantile", "polyval", "unwrap")


def arrays(found: Any) -> Iterator[np.ndarray[Any, Any]]:
    for part in found if isinstance(found, tuple | list) else (found,):
        yield np.asarray(part.detach() if hasattr(part, "detach") else part)


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty", "ignore:All-NaN")
@pytest.mark.parametrize("name", CASES)
def test_functions_are_those_of_numpy(name: str) -> None:
    function, given = CASES[name]
    atol = 1e-14 if name.startswith(CANCELLING) else 0
    with np.errstate(all="ignore"):
        expected = [*arrays(function(np, *given))]
    with tenon.knobs.override(interpret=True):
        found = [
            function(tenon, *given),
            function(tenon, *map(tenon.tensor, given)),
            tenon.jit(lambda *values: function(tenon, *values))(*given),
        ]
    for results in found:
        for one, other in zip(arrays(results), expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=atol, strict=True)


def test_diagonals_ratios_and_medians() -> None:
    for x, value in ((X, 5.0), (np.zeros((3, 3, 3)), 2.0), (np.arange(6).reshape(2, 3), np.array([7, 8]))):
        expected = x.copy()
        np.fill_diagonal(expected, value)
        np.testing.assert_array_equal(tenon.fill_diagonal(x, value), expected)
    found = tenon.jit(lambda: tenon.geomspace(-1, -8, 4, endpoint=False, dtype="f64"))()
    np.testing.assert_allclose(found, np.geomspace(-1, -8, 4, endpoint=False))
    for axis in (None, 0, 1):
        theirs = torch.tensor(HOLES).nanmedian() if axis is None else torch.tensor(HOLES).nanmedian(axis).values
        np.testing.assert_array_equal(tenon.nanmedian(HOLES, axis=axis), theirs.numpy())
    slopes: Any = tenon.grad(lambda x: tenon.nanquantile(x, 0.5) + tenon.unwrap(x[::2]).sum())(
        np.array([1, np.nan, 3.0])
    )
    np.testing.assert_array_equal(slopes, [1.5, 0, 1.5])


def test_how_many_depends_on_values() -> None:
    """These are of arrays and tensors; a traced function has to say how many, or is refused."""
    np.testing.assert_array_equal(tenon.flatnonzero(tenon.tensor(X > 0)), np.flatnonzero(X > 0))
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.flatnonzero(x, 2))(X > 0), np.flatnonzero(X > 0)[:2])
    np.testing.assert_array_equal(tenon.extract(tenon.tensor(X > 0), tenon.tensor(X)), np.extract(X > 0, X))
    x, y = np.array([3, 1, 1, 5]), np.array([5, 2, 2])
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        np.testing.assert_array_equal(getattr(tenon, name)(x, tenon.tensor(y)), getattr(np, name)(x, y))
        with pytest.raises(TypeError, match=f"{name}: x is traced, and the shape of the result depends on its values"):
            tenon.jit(getattr(tenon, name))(x, y)


def test_gradients_of_parts_of_floats() -> None:
    x = np.array([1.0, 3.0, -9.0])
    slopes: Any = tenon.grad(lambda x: tenon.frexp(x)[0].sum() + tenon.ldexp(x, 3).sum())(x)
    np.testing.assert_array_equal(slopes, 8 + np.array([1 / 2, 1 / 4, 1 / 16]))
    weights: Any = tenon.grad(lambda x, w: tenon.average(x, weights=w), argnums=1)(X[0], WEIGHTS[0])
    total = WEIGHTS[0].sum()
    np.testing.assert_allclose(weights, (X[0] - np.average(X[0], weights=WEIGHTS[0])) / total)


def test_divisors_of_examples_take_their_own_steps() -> None:
    x, y = np.array([[12, 7], [100, 0]]), np.array([[18, 21], [75, 3]])
    np.testing.assert_array_equal(tenon.vmap(lambda x, y: tenon.gcd(x, y))(x, y), np.gcd(x, y))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tenon.gcd(1.5, 2), "gcd: x is float64 where integers are needed"),
        (lambda: tenon.ldexp(1.0, X), "ldexp: exponent is float64 where integers are needed"),
        (lambda: tenon.average(X, weights=X[0]), "average: weights have shape (4,), and x (3, 4); a vector"),
        (lambda: tenon.hsplit(X, 3), "hsplit: 3 parts of 4 elements along axis 1 are not equal"),
        (lambda: tenon.hsplit(X, np.int64(3)), "hsplit: 3 parts of 4 elements along axis 1 are not equal"),
        (lambda: tenon.dsplit(X, 2), "dsplit: x has rank 2 where 3 or more is needed"),
        (lambda: tenon.unravel_index(np.array([6]), (2, 3)), "unravel_index: 6 is out of bounds for a tensor of shape"),
        (lambda: tenon.ravel_multi_index((PLACES, PLACES), (3, 2)), "ravel_multi_index: 2 is out of bounds for axis 1"),
        (lambda: tenon.ravel_multi_index((PLACES,), (2, 3)), "there are 1 arrays of places for 2 axes"),
        (lambda: tenon.unravel_index(X, 3), "unravel_index: places are float64 where integers are needed"),
        (lambda: tenon.mvlgamma(X, 0), "mvlgamma: p is 0 where 1 or more is needed"),
        (lambda: tenon.packbits(X, bitorder="middle"), "packbits: bitorder is 'middle' where 'big' or 'little' is"),
        (lambda: tenon.unpackbits(X), "unpackbits: x is float64 where uint8 is needed"),
        (lambda: tenon.fill_diagonal(X[0], 1), "fill_diagonal: x has rank 1 where 2 or more is needed"),
        (lambda: tenon.piecewise(X, [X > 0], [1, 2, 3]), "piecewise: there are 3 functions for 1 conditions"),
        (lambda: tenon.nanquantile(X, 2), "nanquantile: q is 2 where a number from 0 to 1, or a list"),
        (lambda: tenon.convolve(X, X[0]), "convolve: the shapes are (3, 4) and (4,) where two vectors"),
        (lambda: tenon.correlate(X[0], X[0], "all"), "correlate: mode is 'all', none of 'full', 'same' and 'valid'"),
        (lambda: tenon.gradient(X, edge_order=3), "gradient: edge_order is 3 where 1 or 2 is needed"),
        (lambda: tenon.gradient(X, X[0], axis=0), "gradient: the places have shape (4,), and axis 0 has size 3"),
        (lambda: tenon.gradient(X, X[0], X[0], X[0]), "gradient: there are 3 distances and 2 axes"),
        (lambda: tenon.gradient(X[:1], axis=0), "gradient: axis 0 has size 1 where 2 or more are needed"),
        (lambda: tenon.histogram(X, 0), "histogram: there are 0 bins where 1 or more is needed"),
        (lambda: tenon.histogram(X, X), "histogram: bins have shape (3, 4) where a vector of edges is needed"),
        (lambda: tenon.histogram(X, weights=X[0]), "histogram: x has 12 elements, and there are 4 weights"),
        (lambda: tenon.digitize(X, X), "digitize: bins have rank 2 where a vector is needed"),
        (lambda: tenon.average(X, 0, weights=X[0]), "average: there are 4 weights, and axis 0 has size 3"),
    ],
)
def test_arguments_that_do_not_fit(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=re.escape(message)):
        call()
