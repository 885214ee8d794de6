"""What tests of numbers share."""

from __future__ import annotations

import pytest
from random_numbers import restart


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the test random numbers of its own."""
    restart(item.name)
