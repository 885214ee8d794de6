"""Arrays of truth values as keys: known ones select as in NumPy, traced ones choose what is updated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

X = np.arange(24.0).reshape(2, 3, 4)
WHOLE, PAIRS, ROWS = X % 5 > 2, np.array([[True, False, True], [False, True, True]]), np.array([True, False, True])
KEYS: dict[str, Any] = {
    "all axes": WHOLE,
    "first axes": PAIRS,
    "no element": WHOLE & False,
    "an inner axis": (slice(None), ROWS),
    "a list": (slice(None), [True, False, True], 0),
    "behind an ellipsis": (..., ROWS, slice(1, 3)),
    "before an ellipsis": (PAIRS, ..., 1),
    "beside a new axis": (None, PAIRS, slice(None, None, -1)),
    "beside an integer": (1, ROWS),
    "apart from integers": (np.array([True, True]), slice(None), np.array([0, 3])),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_known_mask_selects_as_in_numpy(key: Any) -> None:
    np.testing.assert_array_equal(tenon.jit(lambda x: x[key])(X), X[key])
    expected = X.copy()
    expected[key] *= 3
    np.testing.assert_array_equal(tenon.jit(lambda x: x.at[key].multiply(3.0))(X), expected)
    expected[key] = given = np.arange(X[key].size).reshape(X[key].shape)
    np.testing.assert_array_equal(tenon.jit(lambda x, given: x.at[key].set(given))(X, given), expected)


UPDATES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "set": (lambda part: part.set(-1), lambda x, mask: np.where(mask, -1, x)),
    "add": (lambda part: part.add(0.5), lambda x, mask: np.where(mask, x + 0.5, x)),
    "multiply": (lambda part: part.multiply(2), lambda x, mask: np.where(mask, 2 * x, x)),
    "min": (lambda part: part.min(9), lambda x, mask: np.where(mask, np.minimum(x, 9), x)),
    "max": (lambda part: part.max(9), lambda x, mask: np.where(mask, np.maximum(x, 9), x)),
}


@pytest.mark.parametrize(("update", "expected"), UPDATES.values(), ids=UPDATES)
def test_a_traced_mask_chooses_what_is_updated(update: Any, expected: Any) -> None:
    np.testing.assert_array_equal(tenon.jit(lambda x: update(x.at[x % 5 > 2]))(X), expected(X, WHOLE))
    np.testing.assert_array_equal(tenon.vmap(lambda x: update(x.at[x % 5 > 2]))(X), expected(X, WHOLE))
    of_pairs = tenon.jit(lambda x, mask: update(x.at[mask]))
    np.testing.assert_array_equal(of_pairs(X, PAIRS), expected(X, PAIRS[..., None]))


def test_values_and_gradients_of_a_traced_mask() -> None:
    row = np.array([1.0, 2.0, 3.0, 4.0])
    expected = X.copy()
    expected[PAIRS] = row
    np.testing.assert_array_equal(tenon.jit(lambda x, mask, row: x.at[mask].set(row))(X, PAIRS, row), expected)
    kept, given = tenon.grad(lambda x, row: (x.at[PAIRS | (x[..., 0] < 0)].set(row) ** 2).sum(), argnums=(0, 1))(X, row)
    np.testing.assert_array_equal(kept, np.where(PAIRS[..., None], 0, 2 * X))
    np.testing.assert_array_equal(given, 2 * row * PAIRS.sum())


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x[ROWS], IndexError, "a mask of shape (3,) for axes of shape (2,)"),
        (lambda x: x.at[..., ROWS].set(0.0), IndexError, "a mask of shape (3,) for axes of shape (4,)"),
        (
            lambda x: x[x > 3],
            TypeError,
            "choose by truth values with tenon.select(mask, x, y) or x.at[mask].set(number)",
        ),
        (lambda x: x.at[x[0] > 3].set(1.0), IndexError, "the mask has shape (3, 4), and the first axes of x (2, 3)"),
        (lambda x: x.at[x > 3].set(np.ones(5)), ValueError, "values have shape (5,), which does not broadcast to ()"),
    ],
    ids=["rows", "columns", "traced", "traced shape", "values"],
)
def test_masks_that_do_not_fit(function: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=f"(?i){re.escape(message)}"):
        tenon.jit(function)(X)
