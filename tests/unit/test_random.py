"""Random numbers: Threefry against Random123's known answers, reproducibility, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

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


def test_random_numbers_have_no_gradient() -> None:
    gradient = tenon.grad(lambda x: tenon.sum(x * tenon.cast(tenon.random_uniform(KEY, (3,)), dtype="f64")))(np.ones(3))
    np.testing.assert_allclose(gradient, tenon.random_uniform(KEY, (3,)))


def test_new_keys_are_counted_apart_from_draws() -> None:
    with np.errstate(over="ignore"):
        drawn = threefry(KEY.view(np.uint32), np.arange(64))
    keys = [tenon.split_key(KEY, 8), np.stack([tenon.fold_in(KEY, np.int32(n)) for n in range(8)])]
    assert all(key.shape == (8, 2) and key.dtype == np.int32 for key in keys)
    words = np.concatenate([key.view(np.uint32).reshape(-1) for key in keys])
    assert np.unique(words).size == words.size
    assert not np.isin(words, drawn).any()
    np.testing.assert_array_equal(keys[0], tenon.jit(lambda key: tenon.split_key(key, 8))(KEY))


# What these draws gave when they were written: they stay the same on every machine.
GOLDEN = [
    (lambda key: tenon.random_bits(key, (3,)), [1095259177, -1855287088, 547490127]),
    (lambda key: tenon.split_key(key, 1)[0], [-55952676, -1939704245]),
    (lambda key: tenon.fold_in(key, 7), [-1667158293, 1555917960]),
    (lambda key: tenon.random_integers(key, (6,), 0, 100), [25, 56, 12, 42, 93, 19]),
    (lambda key: tenon.random_permutation(key, 6), [1, 4, 2, 5, 0, 3]),
]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("draw", "expected"), GOLDEN)
def test_golden_numbers(draw: Any, expected: list[int], interpret: bool) -> None:
    with tenon.knobs.override(interpret=interpret):
        assert np.asarray(tenon.jit(draw)(KEY)).tolist() == expected


SIZE = 100_000

DISTRIBUTIONS = [
    (lambda key, dtype: tenon.random_uniform(key, (SIZE,), -3.0, 2.0, dtype), scipy.stats.uniform(-3, 5)),
    (lambda key, dtype: tenon.random_normal(key, (SIZE,), dtype=dtype), scipy.stats.norm()),
    (lambda key, dtype: tenon.random_normal(key, (SIZE,), 2.0, 3.0, dtype), scipy.stats.norm(2, 3)),
    (lambda key, dtype: tenon.random_truncated_normal(key, (SIZE,), -1.0, 2.5, dtype), scipy.stats.truncnorm(-1, 2.5)),
    (lambda key, dtype: tenon.random_exponential(key, (SIZE,), 2.0, dtype), scipy.stats.expon(scale=0.5)),
    (lambda key, dtype: tenon.random_gumbel(key, (SIZE,), dtype), scipy.stats.gumbel_r()),
]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("draw", "distribution"), DISTRIBUTIONS)
def test_distributions(draw: Any, distribution: Any, dtype: str) -> None:
    numbers = tenon.jit(lambda key: draw(key, dtype))(KEY)
    assert numbers.dtype == np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    assert np.isfinite(numbers).all()
    # Kolmogorov and Smirnov: the distance exceeds 1.95 / sqrt(n) for one key in a thousand.
    assert scipy.stats.kstest(numbers.astype(np.float64), distribution.cdf).statistic < 1.95 / np.sqrt(SIZE)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / np.sqrt(SIZE)
    assert np.unique(numbers).size > 0.97 * SIZE


@pytest.mark.parametrize(("dtype", "digits"), [("f16", 11), ("bf16", 8), ("f32", 24), ("f64", 53)])
def test_uniform_numbers_stay_below_one(dtype: str, digits: int) -> None:
    numbers = tenon.jit(lambda key: tenon.random_uniform(key, (SIZE,), dtype=dtype))(KEY).astype(np.float64)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    np.testing.assert_array_equal(numbers * 2.0**digits % 1, 0)
    assert abs(numbers.mean() + 2.0 ** -(digits + 1) - 0.5) < 5 * np.sqrt(1 / 12 / SIZE)


def test_bernoulli() -> None:
    p = np.repeat(np.array([0.0, 0.1, 0.5, 1.0], np.float32)[:, None], SIZE // 4, 1)
    truths = tenon.jit(tenon.random_bernoulli)(KEY, p)
    assert truths.dtype == np.bool_
    np.testing.assert_allclose(truths.mean(1), p[:, 0], atol=5 * np.sqrt(0.25 / (SIZE // 4)))
    assert truths.mean(1)[[0, 3]].tolist() == [0, 1]
    assert tenon.random_bernoulli(KEY, 0.5, (3, 2)).shape == (3, 2)


@pytest.mark.parametrize(("low", "high", "dtype"), [(-3, 5, "i32"), (0, 7, "i8"), (-(2**31), 2**31, "i64")])
def test_integers(low: int, high: int, dtype: str) -> None:
    numbers = tenon.jit(lambda key: tenon.random_integers(key, (SIZE,), low, high, dtype))(KEY)
    assert numbers.dtype == np.dtype(dtype.replace("i", "int"))
    counts, _ = np.histogram(numbers, 8 if high - low > 7 else 7, (low, high))
    expected = SIZE / counts.size
    assert ((counts - expected) ** 2 / expected).sum() < 30  # 7 degrees of freedom
    assert low <= numbers.min()
    assert numbers.max() < high


def test_integers_of_no_range() -> None:
    with pytest.raises(ValueError, match=r"random_integers: high - low is 0, outside of \[1, 2\^32\]"):
        tenon.random_integers(KEY, (3,), 5, 5)


def test_permutations() -> None:
    numbers = tenon.random_permutation(KEY, 1000)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1000))
    assert abs(np.corrcoef(numbers, np.arange(1000))[0, 1]) < 0.15
    rows = np.arange(12).reshape(4, 3)
    moved = tenon.random_permutation(KEY, rows, axis=1)
    np.testing.assert_array_equal(np.sort(moved, 1), rows)
    firsts = [int(tenon.random_permutation(key, 3)[0]) for key in tenon.split_key(KEY, 300)]
    assert np.bincount(firsts).min() > 70


def test_categorical() -> None:
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    draws = tenon.jit(lambda key, x: tenon.random_categorical(key, x, 40_000))(KEY, logits)
    assert draws.shape == (2, 40_000)
    shares = np.stack([np.bincount(row, minlength=3) / 40_000 for row in draws])
    np.testing.assert_allclose(shares, p, atol=5 * np.sqrt(0.25 / 40_000))
    assert shares[1, 2] == 0
    assert tenon.random_categorical(KEY, logits).shape == (2,)


def test_dropout_rates() -> None:
    x = np.ones((SIZE,), np.float32)
    y, mask = tenon.jit(lambda x, key: tenon.dropout_with_mask(x, key, rate=0.3))(x, KEY)
    assert abs(mask.mean() - 0.7) < 5 * np.sqrt(0.21 / SIZE)
    np.testing.assert_array_equal(y, np.where(mask, np.float32(1 / 0.7), 0))
    with pytest.raises(ValueError, match=r"tenon.dropout: key has shape \(3,\) where \(2,\) is needed"):
        tenon.dropout(x, np.zeros(3, np.int32))
    with pytest.raises(ValueError, match=r"tenon.dropout: rate is 1.5 where a number from 0 to 1 is needed"):
        tenon.dropout(x, KEY, rate=1.5)


def test_keys_of_other_libraries_are_unsigned():
    key = np.array([3, 0xFFFFFFFF], np.uint32)
    expected = tenon.random_bits(key.view(np.int32), (5,))
    for draw in (lambda k: tenon.random_bits(k, (5,)), tenon.jit(lambda k: tenon.random_bits(k, (5,)))):
        np.testing.assert_array_equal(draw(key), expected)


@pytest.mark.parametrize("key", [np.array([1, 2]), np.array([1.0, 2.0])], ids=["i64", "f64"])
def test_keys_of_other_dtypes_are_refused(key):
    for draw in (lambda k: tenon.random_bits(k, (5,)), tenon.jit(lambda k: tenon.random_bits(k, (5,)))):
        with pytest.raises(
            ValueError, match=r"the key of a random op has dtype [if]64 where 2 words \(i32\) are needed"
        ):
            draw(key)


@pytest.mark.parametrize("number", [np.int64(7), np.uint8(7), np.array(7 + 2**32), np.uint32(7)], ids=repr)
def test_keys_are_folded_with_integers_of_any_width(number: Any) -> None:
    key = np.array([1, 2], np.int32)
    np.testing.assert_array_equal(tenon.fold_in(key, number), tenon.fold_in(key, 7))
    np.testing.assert_array_equal(tenon.jit(tenon.fold_in)(key, number), tenon.fold_in(key, 7))


@pytest.mark.parametrize("number", [2**31 + 7, 2**40 - 1, -(2**31) - 1, 2**70 + 3], ids=repr)
def test_the_lowest_bits_of_a_number_count(number: int) -> None:
    key = np.array([1, 2], np.int32)
    low = np.uint32(number % 2**32)
    np.testing.assert_array_equal(tenon.fold_in(key, number), tenon.fold_in(key, low))
    np.testing.assert_array_equal(tenon.jit(lambda key: tenon.fold_in(key, number))(key), tenon.fold_in(key, low))


@pytest.mark.parametrize("number", [1.5, np.float64(7), np.array(True)], ids=repr)
def test_keys_are_not_folded_with_anything_else(number: Any) -> None:
    with pytest.raises(TypeError, match=r"fold_in: number is of dtype .* where an integer is needed"):
        tenon.fold_in(np.array([1, 2], np.int32), number)
