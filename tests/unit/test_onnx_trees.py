"""Tree ensembles of ai.onnx.ml against onnxruntime, and a walk through the trees in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import info

from tenon.onnx import OnnxError, load

F32 = np.float32
FEATURES = 5
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True)
class Leaf:
    target: int
    weight: float


@dataclass(frozen=True)
class Branch:
    feature: int
    split: float
    mode: int
    follows_nan: bool
    then: Any
    otherwise: Any


def grown(random: np.random.Generator, depth: int, targets: int, modes: tuple[int, ...]) -> Any:
    """A random tree, whose branches end at different depths; a few splits are values that rows have."""
    if depth == 0 or random.random() < 0.2:
        return Leaf(int(random.integers(targets)), float(np.round(random.uniform(0, 2), 3)))
    split = float(random.integers(-2, 3)) / 2
    then, otherwise = (grown(random, depth - 1, targets, modes) for _ in range(2))
    nan = bool(random.random() < 0.3)
    return Branch(int(random.integers(FEATURES)), split, int(random.choice(modes)), nan, then, otherwise)


def forest(seed: int, targets: int, modes: tuple[int, ...], *, count: int = 7) -> list[Any]:
    """Trees of depth 6 at most; each has an inner node."""
    random = np.random.default_rng(seed)
    trees: list[Any] = []
    while len(trees) < count:
        tree = grown(random, 6, targets, modes)
        trees += [tree] if isinstance(tree, Branch) else []
    return trees


def rows(count: int = 40) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(9)
    x = random.integers(-3, 4, (count, FEATURES)) / 2
    return np.where(random.random(x.shape) < 0.1, np.nan, x).astype(F32)


def walked(tree: Any, row: Any) -> Leaf:
    while isinstance(tree, Branch):
        value = row[tree.feature]
        compared = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal][tree.mode]
        tree = tree.then if compared(value, tree.split) or (tree.follows_nan and np.isnan(value)) else tree.otherwise
    return tree


def scores(trees: list[Any], x: Any, targets: int, fold: str = "SUM") -> np.ndarray[Any, Any]:
    found = np.zeros((len(x), targets))
    for i, row in enumerate(x):
        leaves = [walked(tree, row) for tree in trees]
        for target in range(targets):
            weights = [leaf.weight for leaf in leaves if leaf.target == target]
            folds = {"SUM": sum, "AVERAGE": lambda w: sum(w) / len(trees), "MIN": min, "MAX": max}
            found[i, target] = folds[fold](weights) if weights else 0
    return found


def numbered(trees: list[Any], targets: int, code: int = TensorProto.FLOAT, **attributes: Any) -> onnx.ModelProto:
    """A model of TreeEnsemble: inner nodes and leaves are numbered each for themselves."""
    inner: list[Branch] = []
    leaves: list[Leaf] = []
    places: dict[int, tuple[int, int]] = {}

    def number(tree: Any) -> None:
        kind: list[Any] = leaves if isinstance(tree, Leaf) else inner
        places[id(tree)] = len(kind), int(isinstance(tree, Leaf))
        kind.append(tree)
        if isinstance(tree, Branch):
            number(tree.then)
            number(tree.otherwise)

    for tree in trees:
        number(tree)
    dtype = helper.tensor_dtype_to_np_dtype(code)

    def tensor(values: list[Any], kind: Any) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.asarray(values, kind))

    given = {
        "nodes_featureids": [b.feature for b in inner],
        "nodes_splits": tensor([b.split for b in inner], dtype),
        "nodes_modes": tensor([b.mode for b in inner], np.uint8),
        "nodes_missing_value_tracks_true": [int(b.follows_nan) for b in inner],
        "nodes_truenodeids": [places[id(b.then)][0] for b in inner],
        "nodes_trueleafs": [places[id(b.then)][1] for b in inner],
        "nodes_falsenodeids": [places[id(b.otherwise)][0] for b in inner],
        "nodes_falseleafs": [places[id(b.otherwise)][1] for b in inner],
        "tree_roots": [places[id(tree)][0] for tree in trees],
        "leaf_targetids": [leaf.target for leaf in leaves],
        "leaf_weights": tensor([leaf.weight for leaf in leaves], dtype),
        "n_targets": targets,
    }
    return program("TreeEnsemble", "y", code, 5, {**given, **attributes})


def named(trees: list[Any], kind: str, **attributes: Any) -> dict[str, Any]:
    """The attributes of the operators in which nodes have a tree and a number."""
    nodes: list[tuple[int, int, Any]] = []
    numbers: dict[int, int] = {}

    def number(position: int, tree: Any) -> None:
        numbers[id(tree)] = sum(t == position for t, _, _ in nodes)
        nodes.append((position, numbers[id(tree)], tree))
        if isinstance(tree, Branch):
            number(position, tree.then)
            number(position, tree.otherwise)

    for position, tree in enumerate(trees):
        number(position, tree)
    leaves = [entry for entry in nodes if isinstance(entry[2], Leaf)]
    return {
        "nodes_treeids": [tree for tree, _, _ in nodes],
        "nodes_nodeids": [number for _, number, _ in nodes],
        "nodes_featureids": [getattr(n, "feature", 0) for _, _, n in nodes],
        "nodes_modes": [MODES[n.mode] if isinstance(n, Branch) else "LEAF" for _, _, n in nodes],
        "nodes_values": [getattr(n, "split", 0.0) for _, _, n in nodes],
        "nodes_truenodeids": [numbers[id(n.then)] if isinstance(n, Branch) else 0 for _, _, n in nodes],
        "nodes_falsenodeids": [numbers[id(n.otherwise)] if isinstance(n, Branch) else 0 for _, _, n in nodes],
        "nodes_missing_value_tracks_true": [int(getattr(n, "follows_nan", False)) for _, _, n in nodes],
        f"{kind}_treeids": [tree for tree, _, _ in leaves],
        f"{kind}_nodeids": [number for _, number, _ in leaves],
        f"{kind}_ids": [leaf.target for _, _, leaf in leaves],
        f"{kind}_weights": [leaf.weight for _, _, leaf in leaves],
        **attributes,
    }


def program(operator: str, outputs: str, code: int, version: int, attributes: dict[str, Any]) -> onnx.ModelProto:
    trees = helper.make_node(operator, ["x"], outputs.split(), domain="ai.onnx.ml", name="trees", **attributes)
    given = helper.make_tensor_value_info("x", code, ["N", FEATURES])
    graph = helper.make_graph([trees], "trees", [given], [info(name, None) for name in outputs.split()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", version)], ir_version=10)


def in_onnxruntime(source: onnx.ModelProto, x: Any) -> Any:
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


@pytest.mark.parametrize(("modes", "targets"), [((0,), 1), ((1, 2, 3), 3), ((0, 4, 5), 2)])
def test_rows_go_down_the_trees(modes: tuple[int, ...], targets: int) -> None:
    trees, x = forest(len(modes), targets, modes), rows()
    loaded = load(numbered(trees, targets))
    expected = scores(trees, x, targets)
    np.testing.assert_allclose(loaded(x)[0], expected, rtol=1e-5, atol=1e-6)
    (named_scores,) = load(program("TreeEnsembleRegressor", "y", 1, 3, named(trees, "target", n_targets=targets)))(x)
    np.testing.assert_allclose(named_scores, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fold", ["AVERAGE", "MIN", "MAX"])
def test_scores_of_trees_are_folded(fold: str) -> None:
    trees, x = forest(5, 3, (0,)), rows()
    number = ("AVERAGE", "SUM", "MIN", "MAX").index(fold)
    (found,) = load(numbered(trees, 3, TensorProto.DOUBLE, aggregate_function=number))(x.astype(np.float64))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, scores(trees, x, 3, fold), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("number", "fold"), [*enumerate(("AVERAGE", "SUM", "MIN", "MAX"))])
def test_infinite_weights_are_weights(number: int, fold: str) -> None:
    trees = [
        Branch(0, 0.5, 0, False, Leaf(0, -np.inf), Leaf(0, np.inf)),
        Branch(0, 0.5, 0, False, Leaf(1, 2.0), Leaf(1, 2.0)),
    ]
    x = np.zeros((2, FEATURES), np.float32)
    x[1, 0] = 1.0
    (found,) = load(numbered(trees, 2, aggregate_function=number))(x)
    np.testing.assert_array_equal(found[:, 0], [-np.inf, np.inf])


def test_a_feature_is_looked_for_in_a_set() -> None:
    sets = {0.0: [], 0.5: [1.0], 1.0: [-0.5, 0.0, 1.5, 2.0]}
    random = np.random.default_rng(3)
    # A branch of mode 6 is made of one of mode 4: the split says which set.
    trees = [Branch(f, s, 6, f == 1, Leaf(0, f + 1.0), Leaf(0, -s)) for f in range(4) for s in sorted(sets)]
    members = [value for tree in trees for value in (*sets[tree.split], np.nan)]
    attribute = onnx.numpy_helper.from_array(np.asarray(members, F32))
    x = rows()
    x[:, 4] = random.random(len(x))
    source = numbered(trees, 1, membership_values=attribute)
    expected = [
        sum(
            t.then.weight if v in sets[t.split] or (t.follows_nan and np.isnan(v)) else t.otherwise.weight
            for t in trees
            for v in [row[t.feature]]
        )
        for row in x.tolist()
    ]
    np.testing.assert_allclose(load(source)(x)[0][:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_a_regressor_is_as_in_onnxruntime(transform: str) -> None:
    # So many trees that each target has a score in every row: onnxruntime leaves out other base values.
    trees, x = forest(11, 3, (0,), count=30), np.nan_to_num(rows())
    attributes = named(trees, "target", n_targets=3, post_transform=transform, base_values=[0.25, -0.5, 1.0])
    source = program("TreeEnsembleRegressor", "y", 1, 3, attributes)
    np.testing.assert_allclose(load(source)(x)[0], in_onnxruntime(source, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("classes", "shift", "transform"),
    [
        (3, 0.0, "SOFTMAX"),
        (2, 0.0, "NONE"),
        (1, 0.0, "NONE"),
        (1, 0.0, "LOGISTIC"),
        (1, -1.0, "NONE"),
        (1, -1.0, "LOGISTIC"),
        (1, -1.0, "SOFTMAX"),
    ],
)
def test_a_classifier_is_as_in_onnxruntime(classes: int, shift: float, transform: str) -> None:
    """With one class in the leaves there are two labels, and weights are probabilities unless some are negative."""
    trees, x = forest(13, classes, (0,), count=30), np.nan_to_num(rows())
    labels = [7, 5, 9][: max(classes, 2)]
    attributes = named(trees, "class", classlabels_int64s=labels, post_transform=transform)
    attributes["class_weights"] = [(weight + shift) / 60 for weight in attributes["class_weights"]]
    source = program("TreeEnsembleClassifier", "label scores", 1, 3, attributes)
    found, expected = load(source)(x), in_onnxruntime(source, x)
    # Where leaves name both of two classes, onnxruntime gives no label of the model's.
    chosen = np.asarray(labels)[expected[1].argmax(1)] if classes == 2 else expected[0]
    np.testing.assert_array_equal(found[0], chosen, strict=True)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)


def test_integers_are_compared_as_floats() -> None:
    trees, x = forest(3, 1, (0,)), np.arange(-10, 10).reshape(4, FEATURES)
    source = program("TreeEnsembleRegressor", "y", TensorProto.INT64, 3, named(trees, "target", n_targets=1))
    np.testing.assert_allclose(load(source)(x)[0], scores(trees, x, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("nodes_truenodeids", [0], "differ in length: nodes_featureids has 1, nodes_splits has 1"),
        ("nodes_trueleafs", [0, 0], "a node leads back to itself"),
        ("nodes_falsenodeids", [2, 7], "numbers of leaves are from 0 to 7, outside of 3"),
        ("nodes_truenodeids", [-1, 0], "the number -1 of a node or leaf is negative"),
        ("tree_roots", [-1], "numbers of nodes are from -1 to 1, outside of 2"),
        ("nodes_featureids", [0, 9], "features are from 0 to 9, outside of 5"),
        ("nodes_modes", np.asarray([0, 9], np.uint8), "modes are from 0 to 9, outside of 7"),
        ("leaf_targetids", [0, 1, 0], "targets are from 0 to 1, outside of 1"),
        ("n_targets", 0, "n_targets is 0"),
        ("tree_roots", [], "has no trees"),
        ("post_transform", 4, "post_transform PROBIT is not supported"),
        ("aggregate_function", 4, "aggregate_function is 4 where one of AVERAGE, SUM, MIN, MAX is needed"),
    ],
)
def test_trees_that_do_not_fit_together_are_refused(name: str, value: Any, expected: str) -> None:
    tree = Branch(0, 0.5, 0, False, Branch(1, 0.5, 0, False, Leaf(0, 1.0), Leaf(0, 2.0)), Leaf(0, 3.0))
    count = expected.startswith("differ")
    source = numbered([tree.then if count else tree], 1)
    entries = source.graph.node[0].attribute
    for entry in [entry for entry in entries if entry.name == name]:
        entries.remove(entry)
    if count:
        value = [*value, *value]
        expected = "attributes that describe the same differ in length"
    changed = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
    kind = onnx.AttributeProto.INTS if isinstance(value, list) else None
    entries.append(helper.make_attribute(name, changed, attr_type=kind))
    loaded = load(source)
    with pytest.raises(OnnxError) as caught:
        loaded(rows())
    assert expected in str(caught.value)


def test_the_reference_agrees() -> None:
    trees, x = forest(17, 2, (0, 3)), rows(8)
    source = numbered(trees, 2)
    results: Any = ReferenceEvaluator(source).run(None, {"x": x})
    np.testing.assert_allclose(load(source)(x)[0], results[0], rtol=1e-5, atol=1e-6)
