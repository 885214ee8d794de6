"""Variations of tests: all run by default; of those that are drawn, nothing that must always run is left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import SAMPLES
from seeds import drawn
from variations import _subject

HOOKS = str(Path(__file__).parents[1] / "conftest.py")
SHARE, SEED = "TENON_TEST_SHARE", "TENON_TEST_SEED"


def chosen(request: pytest.FixtureRequest, items: list[Any]) -> list[Any]:
    """What is left of the items of a run."""
    plugin: Any = request.config.pluginmanager.get_plugin(HOOKS)
    kept, config = list(items), SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
    plugin.pytest_collection_modifyitems(config=config, items=kept)
    return kept


def item(name: str, *marks: str) -> Any:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: mark in marks or None)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op_name == "tenon.log_softmax"], ids=str)
def test_the_first_sample_of_an_op_and_those_with_a_label_are_no_variations(
    sample: Any, request: pytest.FixtureRequest
) -> None:
    first = next(s for s in SAMPLES if s.op_name == sample.op_name and not s.is_named)
    is_variation = request.node.get_closest_marker("variation") is not None
    assert is_variation == (sample is not first and not sample.is_named)
    assert sample.is_named == any(name in sample.label for name in ("special", "empty", "large"))


def test_cases_of_other_tests_are_no_variations() -> None:
    assert _subject({"name": "add", "shape": (2, 3)}) is None
    assert _subject({"name": "tenon.add", "group": ["x", "y"], "element": "f32"}) == ("tenon.add", "x", "y")


def test_a_share_of_the_variations_is_drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [item(f"many[{i}]", "variation") for i in range(100)] + [item("fixed")]
    monkeypatch.setenv(SHARE, "3")
    found: list[set[str]] = []
    for seed in range(25):
        monkeypatch.setenv(SEED, str(seed))
        found.append({i.nodeid for i in chosen(request, items)})
        assert "fixed" in found[-1]
        assert 15 < len(found[-1]) < 60
    assert len(set.union(*found)) == len(items)
    monkeypatch.delenv(SHARE)
    assert chosen(request, items) == items


def test_samples_are_drawn_within_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARE, "3")
    monkeypatch.setenv(SEED, "0")
    kept, left_out = drawn(range(100), "tenon.add")
    assert kept[0] == 0
    assert 20 < len(kept) < 50
    assert sorted([*kept, *left_out]) == list(range(100))
    monkeypatch.delenv(SHARE)
    assert drawn(range(100), "tenon.add") == (list(range(100)), [])
