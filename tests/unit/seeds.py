"""What tests draw anew for other sources: by `TENON_TEST_SEED`, which `tests/conftest.py` chooses and shows, and of
cases that are made by the hundred one in `TENON_TEST_SHARE`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

_Case = TypeVar("_Case")


def run_seed() -> int:
    """The seed of this run."""
    return int(os.environ["TENON_TEST_SEED"])


def drawn(cases: Sequence[_Case], name: str) -> tuple[list[_Case], list[_Case]]:
    """The first case, with those of the others that this run draws for the test of this name, and those left out."""
    share = int(os.environ.get("TENON_TEST_SHARE", "1"))
    kept: tuple[list[_Case], list[_Case]] = ([], [])
    for number, case in enumerate(cases):
        is_out = number > 0 and crc32(f"{run_seed()} {name} {number}".encode()) % share > 0
        kept[is_out].append(case)
    return kept
