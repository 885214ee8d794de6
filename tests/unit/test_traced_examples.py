"""The functions that are no ops give the values of their examples when their arguments are traced, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.arguments.tree import flatten, unflatten
from tenon.tools.catalog import Entry, catalog

# Those of random numbers are traced in their own tests.
OWN, RANDOM = "tenon.dialects.", "tenon.dialects.ops.random."
FUNCTIONS = [
    entry
    for entry in catalog().values()
    if entry.op is None and entry.module.startswith(OWN) and not entry.module.startswith(RANDOM)
]

# The shape of the result depends on values: documented to be refused, or to leave out what does not fit.
BY_VALUES = {"bincount", "compress", "extract", "flatnonzero", "masked_select", "nonzero"}


def traced(function: Callable[..., Any]) -> Any:
    """The function, run by `jit` on the arrays among its arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

        def program(*arrays: Any) -> Any:
            given = list(leaves)
            for place, array in zip(places, arrays, strict=True):
                given[place] = array
            args, kwargs = unflatten(structure, given)
            return function(*args, **kwargs)

        return tenon.jit(program)(*[leaves[place] for place in places])

    return call


def evaluated(entry: Entry) -> list[Any]:
    """What the lines of the example give that are expressions."""
    names: dict[str, Any] = {"np": np, "tenon": tenon}
    found: list[Any] = []
    for line in entry.example:
        try:
            found.append(eval(line, names))
        except SyntaxError:
            exec(line, names)
    return flatten(found)[0]


@pytest.mark.parametrize("entry", [e for e in FUNCTIONS if e.name not in BY_VALUES], ids=lambda entry: entry.name)
def test_examples_give_the_same_when_traced(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = evaluated(entry)
    monkeypatch.setattr(tenon, entry.name, traced(getattr(tenon, entry.name)))
    for one, other in zip(evaluated(entry), expected, strict=True):
        found, wanted = np.asarray(one), np.asarray(other)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-6, atol=1e-12)


def test_counts_of_integers_in_a_trace() -> None:
    """What has no place among the counts is left out, negative ones included, whatever their width."""
    values = np.array([0, 2, 2, -1, 7, 4], np.int8)
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.bincount(x, minlength=5))(values), [1, 0, 2, 0, 1])
    np.testing.assert_array_equal(
        tenon.jit(lambda x: tenon.bincount(x, minlength=300))(values)[:8], [1, 0, 2, 0, 1, 0, 0, 1]
    )
    rows, weights = values[:3].astype(np.int64) * [[1], [2]], np.array([1.0, 10.0, 100.0])
    found = tenon.vmap(lambda x: tenon.bincount(x, weights, minlength=5))(rows)
    np.testing.assert_array_equal(found, [np.bincount(row, weights, 5) for row in rows])
