"""Random numbers: Threefry against Random123's known answers, reproducibility, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon

KEY = np.array([0x13198A2E, 0x03707344], np.int32)


def words(*values: int) -> list[np.ndarray]:
    return [np.array(value, np.uint32).astype(np.int32) for value in values]


# Random123, kat_vectors, threefry2x32 with 20 rounds: key, counter, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def threefry(key: np.ndarray, low: np.ndarray) -> np.ndarray:
    """First words for counters (low, 0), restated from the paper with NumPy's unsigned integers."""
    k = [np.uint32(key[0]), np.uint32(key[1])]
    k.append(k[0] ^ k[1] ^ np.uint32(0x1BD11BDA))
    x, y = low.astype(np.uint32) + k[0], np.zeros_like(low, np.uint32) + k[1]
    for group in range(5):
        for bits in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = ((y << np.uint32(bits)) | (y >> np.uint32(32 - bits))) ^ x
        x, y = x + k[(group + 1) % 3], y + k[(group + 2) % 3] + np.uint32(group + 1)
    return x


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("key", "counter", "result"), KNOWN)
def test_threefry_known_answers(key: Any, counter: Any, result: Any, interpret: bool) -> None:
    with tenon.knobs.override(interpret=interpret):
        low, high = tenon.threefry(*words(*counter), *words(*key))
    assert (int(np.uint32(low)), int(np.uint32(high))) == result


def test_bits_are_those_of_the_counters() -> None:
    with np.errstate(over="ignore"):
        expected = threefry(KEY.view(np.uint32), np.arange(35))
    bits = tenon.jit(lambda key: tenon.random_bits(key, (5, 7)))(KEY)
    np.testing.assert_array_equal(bits.reshape(-1).view(np.uint32), expected)


def test_same_key_same_numbers_at_once_and_jitted() -> None:
    at_once = tenon.random_uniform(KEY, (100,))
    np.testing.assert_array_equal(at_once, tenon.jit(lambda key: tenon.random_uniform(key, (100,)))(KEY))
    assert not np.array_equal(at_once, tenon.random_uniform(KEY + 1, (100,)))


def test_uniform_numbers() -> None:
    numbers = tenon.jit(lambda key: tenon.random_uniform(key, (200_000,)))(KEY)
    assert numbers.dtype == np.float32
    assert 0 <= numbers.min() < 1e-4
    assert 0.9999 < numbers.max() < 1
    # Mean and variance of 200,000 draws lie within five standard errors.
    assert abs(numbers.mean() - 0.5) < 5 * np.sqrt(1 / 12 / numbers.size)
    assert abs(numbers.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / numbers.size)
    counts, _ = np.histogram(numbers, 64, (0, 1))
    chi_squared = ((counts - numbers.size / 64) ** 2 / (numbers.size / 64)).sum()
    assert 30 < chi_squared < 110  # 63 degrees of freedom
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.012


def test_folded_keys_are_unrelated() -> None:
    streams = np.stack([tenon.random_uniform(tenon.fold_in(KEY, np.int32(n)), (2000,)) for n in range(4)])
    correlation = np.corrcoef(streams) - np.eye(4)
    assert np.abs(correlation).max() < 0.12
    np.testing.assert_array_equal(tenon.fold_in(KEY, np.int32(3)), tenon.fold_in(KEY, np.int32(3)))


def test_shapes() -> None:
    assert tenon.random_uniform(KEY, ()).shape == ()
    assert tenon.random_uniform(KEY, (0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="random_bits: 2147483648 words are asked for, more than one key gives"):
        tenon.jit(lambda key: tenon.random_bits(key, (2**16, 2**15))).trace(KEY)


def test_key_is_data() -> None:
    draw = tenon.jit(lambda key: tenon.random_uniform(key, (8,)))
    assert not np.array_equal(draw(KEY), draw(KEY[::-1]))
    with pytest.raises(ValueError, match=r"tenon.threefry: dtype"):
        tenon.random_uniform(np.array([1, 2], np.int64), (3,))


def test_random_numbers_have_no_gradient() -> None:
    gradient = tenon.grad(lambda x: tenon.sum(x * tenon.cast(tenon.random_uniform(KEY, (3,)), dtype="f64")))(np.ones(3))
    np.testing.assert_allclose(gradient, tenon.random_uniform(KEY, (3,)))
