"""The seed of what tests draw anew in each run: `TENON_TEST_SEED`, which `tests/conftest.py` chooses and shows."""

from __future__ import annotations

import os


def run_seed() -> int:
    """The seed of this run."""
    return int(os.environ["TENON_TEST_SEED"])
