"""Counting bits: NumPy's function and the processor's differ on negative numbers, and both run in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import tenon

NUMBERS = np.array([0, 1, -1, 77, -77, 127, -128], np.int8)


def test_numpys_count_of_a_traced_value_is_numpys_count() -> None:
    counted = tenon.jit(lambda x: np.bitwise_count(x))(NUMBERS)
    np.testing.assert_array_equal(counted, np.bitwise_count(NUMBERS))


def test_the_population_of_a_negative_number_is_that_of_its_twos_complement() -> None:
    counted = tenon.population_count(NUMBERS)
    np.testing.assert_array_equal(counted, np.bitwise_count(NUMBERS.view(np.uint8)))
    assert counted.dtype == NUMBERS.dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_hamming_distances_are_counted_in_vectors(dtype: type[np.integer]) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 127, (rows, 8)).astype(dtype) for rows in (16, 64))
    distances = tenon.jit(lambda a, b: tenon.sum(tenon.population_count(a[:, None, :] ^ b[None, :, :]), axis=-1))
    np.testing.assert_array_equal(distances(a, b), np.bitwise_count(a[:, None, :] ^ b[None, :, :]).sum(axis=-1))
    counts = [line for line in str(distances.lower(a, b)).splitlines() if "math.ctpop" in line]
    assert counts
    assert all("vector<" in line for line in counts)
