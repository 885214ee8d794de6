"""What of a function is kept for its gradient: the lightest values that suffice."""

from __future__ import annotations

import random
from itertools import chain, combinations

import pytest

from tenon.passes.transform.least_cut import least_cut

pytestmark = pytest.mark.quick


def reached(edges: list[tuple[int, int]], starts: set[int], removed: set[int]) -> set[int]:
    found = starts - removed
    for _ in edges:
        found |= {after for before, after in edges if before in found and after not in removed}
    return found


@pytest.mark.parametrize("seed", range(40))
def test_no_lighter_cut_is_there(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 8)
    weights = {node: draw.randint(0, 5) for node in range(count)}
    edges = [(a, b) for a in range(count) for b in range(a + 1, count) if draw.random() < 0.4]
    sources, sinks = set(draw.sample(range(count), 2)), set(draw.sample(range(count), 2))
    cut = least_cut(weights, edges, sources, sinks)
    assert not reached(edges, sources, cut) & sinks
    sets = map(set, chain.from_iterable(combinations(range(count), size) for size in range(count + 1)))
    lightest = min(sum(weights[n] for n in nodes) for nodes in sets if not reached(edges, sources, nodes) & sinks)
    assert sum(weights[node] for node in cut) == lightest


def test_of_equal_cuts_the_one_nearest_to_the_sinks_is_taken() -> None:
    assert least_cut(dict.fromkeys("abc", 3), [("a", "b"), ("b", "c")], ["a"], ["c"]) == {"c"}


def test_what_has_no_weight_is_no_way() -> None:
    assert not least_cut({"a": 1, "c": 1}, [("a", "b"), ("b", "c")], ["a"], ["c"])
