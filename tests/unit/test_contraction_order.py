"""The order in which `einsum` and `multi_dot` multiply three operands and more: its results, and what it takes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.contract.einsum import SEARCHES

NETWORK = "abc,bde,cdf,egh,fgi->ahi"


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]


def steps(function: Any, *operands: np.ndarray) -> list[int]:
    """How many products each contraction of the traced `function` adds up."""
    module = tenon.jit(function).trace(*operands).module
    return [prod(op.settings["extents"]) for op in module.walk() if isinstance(op, ContractOp)]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        (NETWORK, [(2, 3, 4), (3, 5, 2), (4, 5, 3), (2, 4, 2), (3, 4, 5)]),
        ("...i,ij,...j->...", [(2, 3), (3, 4), (2, 4)]),
        ("ii,ij,j,->", [(4, 4), (4, 5), (5,), ()]),
        ("ab,bc,cd", [(2, 1), (3, 4), (4, 2)]),
    ],
)
def test_any_search_is_numpys(equation: str, shapes: list[tuple[int, ...]], search: str) -> None:
    operands = arrays(*shapes)
    found = tenon.einsum(equation, *operands, optimize=search)
    np.testing.assert_allclose(found, np.einsum(equation, *operands), rtol=1e-12)


def test_the_order_takes_the_fewest_products() -> None:
    chain = np.ones((100, 10)), np.ones((10, 100)), np.ones((100, 10))
    assert steps(lambda *xs: tenon.einsum("ij,jk,kl->il", *xs), *chain) == [10 * 100 * 10] * 2
    cube = np.ones((6, 6, 6))
    assert steps(lambda *xs: tenon.einsum(NETWORK, *xs), *[cube] * 5) == [6**5] * 4


def test_pairs_that_sum_go_first() -> None:
    """Of as many steps: x of (4, 10), w of (5, 10, 10), y of (4, 10). What sums nothing is multiplied at once."""
    x, w = np.ones((4, 10), np.float32), np.ones((5, 10, 10), np.float32)
    text = str(tenon.jit(lambda x, w, y: tenon.einsum("bi,oij,bj->bo", x, w, y)).trace(x, w, x))
    assert text.count("tenon.contract") == 2
    text = str(tenon.jit(lambda x, y, z: tenon.einsum("bi,bi,bi->", x, y, z)).trace(x, x, x))
    assert text.count("tenon.contract") == 1


def test_a_path_is_followed() -> None:
    chain = np.ones((100, 10)), np.ones((10, 100)), np.ones((100, 10))
    left_first = [(0, 1), (0, 1)]
    assert steps(lambda *xs: tenon.einsum("ij,jk,kl->il", *xs, optimize=left_first), *chain) == [10**5, 10**5]
    at_once = [(0, 1, 2)]
    assert steps(lambda *xs: tenon.einsum("ij,jk,kl->il", *xs, optimize=at_once), *chain) == [10**6]


@pytest.mark.parametrize("optimize", [[(0, 3)], [(1, 1)], [()], [(0, 1), (0, 2)]])
def test_a_path_that_does_not_fit_names_what_is_left(optimize: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"einsum: optimize has \(.*\) where operands 0 to [12] are left"):
        tenon.einsum("ij,jk,kl->il", *[np.ones((2, 2))] * 3, optimize=optimize)


def test_an_unknown_search_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="optimize is 'best', which is none of auto, optimal, dp, greedy"):
        tenon.einsum("i,i", np.ones(2), np.ones(2), optimize="best")


def test_the_gradient_goes_through_the_pairs() -> None:
    a, b, c = arrays((40, 3), (3, 40), (40, 3))

    def gradient(a: Any, b: Any, c: Any) -> Any:
        return tenon.grad(lambda b: tenon.sum(tenon.einsum("ij,jk,kl->il", a, b, c)))(b)

    np.testing.assert_allclose(tenon.jit(gradient)(a, b, c), np.outer(a.sum(0), c.sum(1)), rtol=1e-12)
    assert max(steps(gradient, a, b, c)) == 3 * 40 * 3


def test_open_sizes_have_an_order() -> None:
    a, b, c = arrays((7, 3), (3, 50), (50, 2))
    compiled = tenon.jit(lambda a, b, c: tenon.einsum("ij,jk,kl->il", a, b, c), dynamic={"a": ("n", None)})
    np.testing.assert_allclose(compiled(a, b, c), a @ b @ c, rtol=1e-12)


@pytest.mark.parametrize(
    "shapes", [[(3, 4), (4, 5)], [(30, 2), (2, 40), (40, 1), (1, 9)], [(5,), (5, 3), (3, 4)], [(4,), (4, 6), (6,)]]
)
def test_multi_dot_is_numpys(shapes: list[tuple[int, ...]]) -> None:
    matrices = arrays(*shapes)
    np.testing.assert_allclose(tenon.multi_dot(matrices), np.linalg.multi_dot(matrices), rtol=1e-12)


def test_multi_dot_begins_where_it_is_cheap() -> None:
    matrices = np.ones((50, 60)), np.ones((60, 70)), np.ones(70)
    assert steps(lambda *xs: tenon.multi_dot(xs), *matrices) == [60 * 70, 50 * 60]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 2)], "matrices has 1 entries where 2 to 51 are needed"),
        ([(2, 2), (2,), (2, 2)], r"matrices\[1\] has rank 1 where 2 is needed"),
        ([(2, 1), (3, 2)], r"dimension k is 1 in matrices\[0\] and 3 in matrices\[1\]"),
    ],
)
def test_multi_dot_says_what_does_not_fit(shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=f"multi_dot: {message}"):
        tenon.multi_dot([np.ones(shape) for shape in shapes])


def test_numbers_take_the_dtype_of_arrays() -> None:
    for dtype, number in ((np.float16, 0.5), (np.int8, 5)):
        x = np.ones(3, dtype)
        product = tenon.einsum("i,->i", x, number)
        assert product.dtype == tenon.jit(lambda x, number=number: tenon.einsum("i,->i", x, number))(x).dtype == dtype
        np.testing.assert_array_equal(product, x * dtype(number))
    lists = [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]
    np.testing.assert_array_equal(tenon.multi_dot(matrices=lists), np.linalg.multi_dot(lists))


def test_arrays_of_truth_values_are_told_from_numbers() -> None:
    x, y = np.array([True, False]), np.array([False, False])
    for result in (tenon.maximum(x, y), tenon.jit(lambda x: tenon.maximum(x, y))(x)):
        assert result.dtype == bool
