"""The seed of what tests draw anew for other sources: `TENON_TEST_SEED`, chosen and shown by `tests/conftest.py`."""

from __future__ import annotations

import os


def run_seed() -> int:
    """The seed of this run."""
    return int(os.environ["TENON_TEST_SEED"])
