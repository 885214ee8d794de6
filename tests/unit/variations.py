"""Which cases of tests are variations of others, of which `make test` runs a share (`tests/conftest.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def mark_variations(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of a test on samples, or on dtypes, but for the first of each op and samples that have a label."""
    seen: set[tuple[Any, ...]] = set()
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            subject = _subject(item.callspec.params)
            if subject is None:
                continue
            key = (item.path, item.originalname, *subject)
            if key in seen:
                item.add_marker("variation")
            seen.add(key)


def _subject(params: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What a case has in common with its variations; `None` where it is none of many."""
    if (sample := params.get("sample")) is not None:
        return None if sample.is_named else (sample.op_name,)
    if "element" in params and "group" in params:
        return params["name"], *params["group"]
    return None
