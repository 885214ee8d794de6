"""Sizes that are known at launch only: their arithmetic, the questions they answer, and their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DYNAMIC_INDEX

from tenon.dialects.types.size import Size, UndecidedSizeError, estimate, is_at_most, least, most, replaced

N, M = Size.named("n"), Size.named("m")
NUMBERS = st.integers(0, 300)

EXPRESSIONS: list[Callable[[Any, Any], Any]] = [
    lambda n, m: n + m,
    lambda n, m: 3 * n - 2 * m + 7,
    lambda n, m: (n + 1) * (m + 2),
    lambda n, m: n // 16,
    lambda n, m: n % 16 // 4,
    lambda n, m: (6 * n + 5) // 4,
    lambda n, m: (6 * n + 5) % 4,
    lambda n, m: n * 768 // 64,
    lambda n, m: -(-(4 * n) // 64) * 64,
    lambda n, m: (n * m + 3) // 5 + n % 3,
    lambda n, m: (4 * n + 6 * m) // 8,
    lambda n, m: n * m * 12 // (m + 1),
    lambda n, m: (n + 15) // 16 * 16 % 32,
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(n=NUMBERS, m=NUMBERS)
def test_a_size_is_what_its_numbers_give(expression: Callable[[Any, Any], Any], n: int, m: int) -> None:
    size = expression(N, M)
    assert replaced(size, {"n": n, "m": m}) == expression(n, m)
    assert least(size) <= expression(n, m) <= most(size)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_text_of_a_size_reads_back(expression: Callable[[Any, Any], Any]) -> None:
    size = expression(N, M)
    assert Size.parse(str(size)) == size
    assert hash(Size.parse(str(size))) == hash(size)


def test_remainders_are_less_than_what_divides() -> None:
    rest = N % 48
    assert most(rest) == 47
    assert most(5 - rest) == 5
    assert divmod(rest, 48) == (0, rest)
    assert divmod(rest, 64) == (0, rest)


def test_equal_sums_are_one_size() -> None:
    assert N + M == M + N
    assert (N + 1) * 2 == 2 * N + 2
    assert N - N == 0
    assert N * M // M == N
    assert N * 4 % 2 == 0
    assert N != M
    assert N != 1
    assert 0 not in (N, M)
    assert N == DYNAMIC_INDEX, "xDSL takes a size for an unknown dimension"
    assert N != -1


def test_what_holds_for_all_numbers_is_answered() -> None:
    assert N >= 0
    assert not N < 0
    assert N + 1 > 0
    assert N + M + 2 >= N + 1
    assert bool(N + 1)
    assert max(N, 0) is N
    assert is_at_most(N, N + M)
    assert not is_at_most(N, 100)
    assert estimate(7) == 7
    assert estimate(N) > 1


@pytest.mark.parametrize(
    "question",
    [
        bool,
        lambda n: n > 0,
        lambda n: n <= 5,
        lambda n: n - 1 < 0,
        lambda n: n - M >= 0,
        range,
        int,
        float,
        lambda n: [0][n],
        lambda n: n // M,
        lambda n: (n - 3 * M) // 2,
    ],
)
def test_what_depends_on_the_number_is_refused(question: Callable[[Any], Any]) -> None:
    with pytest.raises(UndecidedSizeError, match="n"):
        question(N)


def test_a_size_is_not_divided_by_zero() -> None:
    with pytest.raises(ZeroDivisionError, match="the size n is divided by 0"):
        _ = N // 0


@pytest.mark.parametrize("text", ["n**2", "f(n)", "n.m", "1.5*n", "n +", "n / 2"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        Size.parse(text)


def test_names_are_identifiers() -> None:
    with pytest.raises(ValueError, match="no identifier"):
        Size.named("n-1")
