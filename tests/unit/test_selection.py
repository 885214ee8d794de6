"""`top_k` selects where that takes less time than sorting rows, and gives the same either way."""

from __future__ import annotations

import numpy as np
import pytest
from sample import generator

import tenon
from tenon.passes.simplify.decompose import decompose

RANDOM = generator("selection")


@pytest.mark.parametrize(
    ("k", "size", "is_selected"),
    [
        (1, 8, True),
        (2, 1024, True),
        (10, 1024, True),
        (100, 10**6, True),
        (2, 8, False),
        (8, 64, False),
        (32, 256, False),
    ],
)
def test_a_share_of_a_short_row_is_sorted(k: int, size: int, is_selected: bool) -> None:
    module = tenon.jit(lambda x: tenon.top_k(x, k)).trace(tenon.ShapeDtype((3, size), np.float32)).module.clone()
    decompose(module)
    assert ("leading_places" in str(module)) is is_selected


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize(("k", "size"), [(3, 9), (8, 64), (16, 64), (5, 100), (40, 257)])
def test_the_first_ones_are_those_of_a_stable_sort(k: int, size: int, dtype: str) -> None:
    x = RANDOM.integers(0, 40, (7, size)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, 1] = np.nan
    for largest in (True, False):
        keys = np.where(np.isnan(x), np.inf, x.astype(np.float64))
        wanted = np.argsort(-keys if largest else keys, axis=1, kind="stable")[:, :k]
        values, places = tenon.jit(lambda x, largest=largest: tenon.top_k(x, k, largest=largest))(x)
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))
