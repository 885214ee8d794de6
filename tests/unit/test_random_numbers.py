"""Tests have random numbers of their own, whatever ran before."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from random_numbers import generator

RANDOM = generator()


@pytest.mark.parametrize("_", range(2))
def test_numbers_depend_on_the_test_alone(_: int, request: pytest.FixtureRequest) -> None:
    expected = np.random.default_rng(zlib.crc32(request.node.name.encode()))
    np.testing.assert_array_equal(RANDOM.random(3), expected.random(3))
