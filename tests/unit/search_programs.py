"""Random programs of ops for `tests/search.py`: those of `random_programs`, drawn by a seed instead of hypothesis."""

from __future__ import annotations

from random import Random
from typing import Any

from program_builder import DTYPES, Program
from random_programs import program
from test_random_programs import assert_agrees, compiled


class Undecided(Exception):
    """Never raised: what could not be compared is not drawn."""


def drawn(seed: object, number: int) -> Program:
    """The program of this number in a search with this seed."""
    random = Random(f"{seed}-{number}")
    choose: Any = random.choice
    return program(choose, smooth=False, dtypes=DTYPES, steps=random.randint(1, 16))


def check(case: Program) -> None:
    assert_agrees(case, compiled(case))


def report(case: Program, error: Exception, seconds: float) -> str:
    return f"{type(error).__name__}: {error}"
