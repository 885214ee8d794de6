"""Trees of arrays: taking them apart, putting them together, and what makes two structures the same."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenon
from tenon.runtime.arguments.tree import LEAF, copied, describe, flatten, paths, static_field, static_key, unflatten


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = static_field("layer")
    sizes: list[int] = field(default_factory=list, metadata={"static": True})


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


LEAVES = st.integers() | st.floats(allow_nan=False)
TREES = st.recursive(
    LEAVES | st.none() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.builds(Point, inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@given(TREES)
def test_together_is_the_opposite_of_apart(tree: Any) -> None:
    leaves, structure = flatten(tree)
    again = unflatten(structure, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert structure.size == len(leaves) == len(list(paths(structure)))


@given(TREES, TREES)
def test_structures_are_one_object_exactly_when_only_leaves_differ(first: Any, second: Any) -> None:
    blank = [unflatten(structure, [0] * structure.size) for _, structure in map(flatten, (first, second))]
    same = repr(blank[0]) == repr(blank[1])
    assert (flatten(first)[1] is flatten(second)[1]) == same


def test_paths_name_the_leaves() -> None:
    tree = {"layers": [Layer(1, 2), Pair(3, Point(4, 5))], "rate": 6, "none": None}
    _, structure = flatten(tree)
    assert list(paths(structure)) == [
        "layers.0.weight", "layers.0.bias", "layers.1.left", "layers.1.right.x", "layers.1.right.y", "rate",
    ]  # fmt: skip
    assert list(paths(flatten(3)[1])) == ["value"]
    assert describe(tree).startswith("dict(layers.0.weight, ")
    assert describe(3) == "int"


def test_containers_keep_their_class() -> None:
    counts = defaultdict(int, a=1)
    again = copied(counts)
    assert again == counts
    assert again.default_factory is int
    assert type(copied(OrderedDict(b=1, a=2))) is OrderedDict
    assert list(copied(OrderedDict(b=1, a=2))) == ["b", "a"]


def test_static_fields_belong_to_the_structure() -> None:
    first, second = Layer(1, 2, "a", [1, 2]), Layer(3, 4, "a", [1, 2])
    assert flatten(first)[1] is flatten(second)[1]
    assert flatten(first)[1] is not flatten(Layer(1, 2, "b", [1, 2]))[1]
    assert flatten(first)[1] is not flatten(Layer(1, 2, "a", [1, 3]))[1]


def test_static_containers_are_copied() -> None:
    original = Layer(1, 2, "a", [1, 2])
    again = copied(original)
    again.sizes.append(3)
    assert original.sizes == [1, 2]
    assert copied(original).sizes == [1, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 1.0), (1, True), (0.0, -0.0), ((1, 2), [1, 2]), ({"a": 1}, {"a": 1.0}), ({1}, frozenset({1})), ("1", 1)],
)
def test_static_values_that_differ(first: Any, second: Any) -> None:
    assert static_key(first) != static_key(second)


def test_equal_static_values() -> None:
    for value in (1, 1.5, float("nan"), "a", (1, [2.0, {"k": {3}}])):
        assert static_key(value) == static_key(value)
    assert static_key(float("nan")) == static_key(float("-nan") * -1)


def test_static_value_that_does_not_hash_is_named() -> None:
    with pytest.raises(TypeError, match=r"Layer.name is a ndarray, which is .* hashable"):
        flatten(Layer(1, 2, name=np.ones(3)))  # pyright: ignore[reportArgumentType]


def test_functions_classes_and_strings_are_structure() -> None:
    leaves, structure = flatten([tenon.tanh, "mode", Layer, 1.0])
    assert leaves == [1.0]
    assert unflatten(structure, [2.0]) == [tenon.tanh, "mode", Layer, 2.0]


@pytest.mark.usefixtures("few_objects")
def test_functions_in_structures_that_are_gone_are_freed() -> None:
    def function() -> None: ...

    reference = weakref.ref(function)
    leaves, structure = flatten([function, 1.0])
    assert flatten([function, 2.0])[1] is structure
    del function, structure
    gc.collect()
    assert leaves == [1.0]
    assert reference() is None


def test_structures_are_unique_among_threads() -> None:
    barrier = threading.Barrier(4)
    found: list[Any] = []

    def work() -> None:
        for number in range(50):
            tree = [{f"key{number}": 1.0}, (number, [1.0])]
            barrier.wait()
            found.append((number, flatten(tree)[1]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len({id(s) for n, s in found if n == number}) == 1 for number in range(50))


def test_leaf_of_an_object() -> None:
    thing = object()
    assert flatten(thing) == ([thing], LEAF)


def test_trees_through_jit() -> None:
    @tenon.jit
    def update(state: dict[str, Any], scale: Any) -> Any:
        pair = state["pair"]
        return {
            "pair": Pair(pair.left * scale, pair.right),
            "points": [Point(p.x + p.y, None) for p in state["points"]],
        }

    x = np.arange(3.0)
    result = update({"pair": Pair(x, x + 1), "points": [Point(x, 2 * x)]}, 3.0)
    assert isinstance(result["pair"], Pair)
    np.testing.assert_array_equal(result["pair"].left, x * 3)
    np.testing.assert_array_equal(result["pair"].right, x + 1)
    assert result["points"][0].y is None
    np.testing.assert_array_equal(result["points"][0].x, 3 * x)


def test_static_field_of_an_argument_decides_what_is_compiled() -> None:
    traces: list[str] = []

    @tenon.jit
    def apply(layer: Layer, x: Any) -> Any:
        traces.append(layer.name)
        return x * layer.weight if layer.name == "scale" else x + layer.bias

    x = np.arange(3.0)
    np.testing.assert_array_equal(apply(Layer(2.0, 5.0, "scale"), x), x * 2)
    np.testing.assert_array_equal(apply(Layer(3.0, 5.0, "scale"), x), x * 3)
    np.testing.assert_array_equal(apply(Layer(3.0, 5.0, "shift"), x), x + 5)
    assert traces == ["scale", "shift"]
