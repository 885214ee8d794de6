"""Ensembles of decision trees (domain ai.onnx.ml): all trees of all rows go down a level at a time, by look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.control_flow import scan
from tenon.dialects.definition.value import ops
from tenon.onnx.node import LARGEST_ARRAY, Node, OnnxError, Operand, check_size
from tenon.onnx.operators import operator

_ML = "ai.onnx.ml"
_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_COMPARISONS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
_EQUAL, _MEMBER = _MODES.index("EQ"), _MODES.index("MEMBER")
_AGGREGATIONS = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Branches:
    """The inner nodes of all trees, an entry each. `children` (nodes, 2) has where a comparison leads that is false,
    or true: to an inner node, or to leaf l, which is ~l.
    """

    features: Array
    splits: Array
    modes: Array
    follows_nan: Array
    children: Array


def _lengths_agree(node: Node, arrays: Mapping[str, Sized]) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise OnnxError(f"{node.where}: attributes that describe the same differ in length: {shown}")


def _in_range(node: Node, what: str, numbers: Array, count: int) -> None:
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise OnnxError(f"{node.where}: {what} are from {numbers.min()} to {numbers.max()}, outside of {count}")


def _with_members_apart(node: Node, branches: Branches, members: Array) -> Branches:
    """With a chain of comparisons for each test whether a feature is in a set: `members` has the sets, NaN ends one."""
    places = np.flatnonzero(branches.modes == _MEMBER)
    ends = np.flatnonzero(np.isnan(members))
    if len(ends) != len(places):
        raise OnnxError(f"{node.where}: membership_values has {len(ends)} sets for {len(places)} nodes")
    rows = [np.arange(len(branches.modes))]
    splits, children, modes = branches.splits.copy(), branches.children.copy(), branches.modes.copy()
    more_splits, more_children, count = [splits[:0]], [children[:0]], len(modes)
    for place, begin, end in zip(places, [0, *(ends + 1)][:-1], ends, strict=True):
        # A comparison with NaN alone stands for the empty set.
        values = members[begin:end] if end > begin else members[end : end + 1]
        otherwise, then = children[place]
        following = np.append(np.arange(count, count + len(values) - 1), otherwise)
        splits[place], children[place], modes[place] = values[0], (following[0], then), _EQUAL
        more_splits.append(values[1:].astype(splits.dtype))
        more_children.append(np.stack([following[1:], np.full(len(values) - 1, then)], 1))
        rows.append(np.full(len(values) - 1, place))
        count += len(values) - 1
    taken = np.concatenate(rows)
    return Branches(
        branches.features[taken],
        np.concatenate([splits, *more_splits]),
        modes[taken],
        branches.follows_nan[taken],
        np.concatenate([children, *more_children]),
    )


def _depth(node: Node, children: Array, roots: Array) -> int:
    """The most steps from a root to a leaf."""
    level, depth = np.unique(roots[roots >= 0]), 0
    while level.size:
        depth += 1
        if depth > len(children):
            raise OnnxError(f"{node.where}: a node leads back to itself")
        below = children[level]
        level = np.unique(below[below >= 0])
    return depth


def _reached(node: Node, x: Operand, branches: Branches, leaves: int, roots: Array) -> Any:
    """The leaves (rows, trees) that the rows of `x` (rows, features) lead to from the roots."""
    inner, depth = len(branches.modes), _depth(node, branches.children, roots)
    # Leaves are numbered behind the inner nodes, and lead to themselves.
    own = np.repeat(np.arange(inner, inner + leaves)[:, None], 2, axis=1)
    numbered = [np.where(refs < 0, inner + ~refs, refs).astype(np.int32) for refs in (branches.children, roots)]
    children = ops.asarray(np.concatenate([numbered[0], own.astype(np.int32)]).reshape(-1))

    def table(entries: Array) -> Any:
        return ops.asarray(np.concatenate([entries, np.zeros(leaves, entries.dtype)]))

    features, splits = table(branches.features.astype(np.int32)), table(branches.splits.astype(x.dtype))
    modes, follows_nan = table(branches.modes.astype(np.int32)), table(branches.follows_nan)
    known_modes = [int(mode) for mode in np.unique(branches.modes)]
    follows_any = bool(branches.follows_nan.any())

    def step(at: Any, _: Any) -> Any:
        value, split = ops.gather_elements(x, ops.gather(features, at), axis=1), ops.gather(splits, at)
        is_true = ops.find(_COMPARISONS[known_modes[0]])(value, split)
        for mode in known_modes[1:]:
            other = ops.find(_COMPARISONS[mode])(value, split)
            is_true = ops.select(ops.equal(ops.gather(modes, at), np.int32(mode)), other, is_true)
        if follows_any:
            is_true = ops.logical_or(is_true, ops.logical_and(ops.gather(follows_nan, at), ops.isnan(value)))
        return ops.gather(children, at * np.int32(2) + ops.cast(is_true, dtype="i32")), ()

    start = ops.broadcast_to(ops.asarray(numbered[1]), shape=(node.shape(x)[0], len(roots)))
    last = scan(step, start, None, length=depth)[0] if depth else start
    return last - np.int32(inner)


def _scores(leaves: Any, weights: Array, aggregation: str) -> Any:
    """The scores (rows, targets) of leaves (rows, trees); `weights` (leaves, targets) has NaN where a leaf has none."""
    if aggregation in ("SUM", "AVERAGE"):
        total = _folded("sum", leaves, np.where(np.isnan(weights), np.zeros((), weights.dtype), weights))
        return total / np.asarray(leaves.shape[1], weights.dtype) if aggregation == "AVERAGE" else total
    sign = 1.0 if aggregation == "MIN" else -1.0
    found = _folded(aggregation.lower(), leaves, np.where(np.isnan(weights), sign * np.inf, weights))
    if not np.isnan(weights).any():
        return found
    # A target that no tree has a say in is 0.
    has_say = _folded("max", leaves, np.where(np.isnan(weights), 0, 1).astype(weights.dtype))
    return ops.select(has_say > np.zeros((), weights.dtype), found, np.zeros((), weights.dtype))


def _folded(fold: str, leaves: Any, weights: Array) -> Any:
    if weights.shape[1] == 1:
        return ops.find(fold)(ops.gather(ops.asarray(weights[:, 0].copy()), leaves), axis=1, keepdims=True)
    return ops.find(fold)(ops.gather(ops.asarray(weights), leaves, axis=0), axis=1)


def _transformed(node: Node, scores: Any, transform: str) -> Any:
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return ops.softmax(scores, axis=1)
        case "LOGISTIC":
            return ops.sigmoid(scores)
        case "SOFTMAX_ZERO":
            is_zero = ops.abs(scores) <= np.asarray(1e-7, scores.dtype)
            powers = ops.exp(scores - ops.max(scores, axis=1, keepdims=True))
            powers = ops.select(is_zero, np.zeros((), scores.dtype), powers)
            # A row of zeros stays as it is.
            total = ops.sum(powers, axis=1, keepdims=True)
            return powers / ops.select(total > np.zeros((), scores.dtype), total, np.ones((), scores.dtype))
        case _:
            raise OnnxError(f"{node.where}: post_transform {transform} is not supported")


def _chosen(node: Node, what: str, names: Sequence[str], default: int) -> str:
    """The name of an attribute that is a number, or one of these names."""
    given = node.attribute(what, default)
    if isinstance(given, str) and given in names:
        return given
    if isinstance(given, int) and 0 <= given < len(names):
        return names[given]
    raise OnnxError(f"{node.where}: {what} is {given!r} where one of {', '.join(names)} is needed")


def _rows(node: Node, x: Operand) -> Operand:
    if x.ndim != 2:
        raise OnnxError(f"{node.where}: X has rank {x.ndim} where (rows, features) is needed")
    return x


def _target_count(node: Node) -> int:
    count = node.attribute("n_targets", 1)
    if count < 1:
        raise OnnxError(f"{node.where}: n_targets is {count}")
    return count


def _weights(node: Node, shape: tuple[int, int], leaves: Array, targets: Array, given: Array) -> Array:
    """The table (leaves, targets) of what `leaves` add to `targets`, NaN for nothing."""
    check_size(shape, np.dtype(np.float64), f"{node.where}: the table of leaves", LARGEST_ARRAY)
    _in_range(node, "targets", targets, shape[1])
    table, is_given = np.zeros(shape, given.dtype), np.zeros(shape, bool)
    np.add.at(table, (leaves, targets), given)
    is_given[leaves, targets] = True
    return np.where(is_given, table, np.asarray(np.nan, given.dtype))


def _natural(node: Node, numbers: Array) -> Array:
    if (numbers < 0).any():
        raise OnnxError(f"{node.where}: the number {numbers.min()} of a node or leaf is negative")
    return numbers


@operator("TreeEnsemble", since=5, domain=_ML)
def tree_ensemble(node: Node, x: Operand) -> Any:
    """Inner nodes and leaves are numbered each for themselves; a leaf has one target."""
    names = ("featureids", "splits", "modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    given: dict[str, Array] = {name: np.asarray(node.required(f"nodes_{name}")) for name in names}
    missing = node.attribute("nodes_missing_value_tracks_true")
    follows = np.zeros(len(given["modes"]), bool) if missing is None else np.asarray(missing) != 0
    _lengths_agree(node, {**{f"nodes_{name}": array for name, array in given.items()}, "the tracks of NaN": follows})
    given_weights, targets = node.required("leaf_weights"), node.required("leaf_targetids")
    _lengths_agree(node, {"leaf_weights": given_weights, "leaf_targetids": targets})
    _in_range(node, "modes", given["modes"], len(_MODES))
    ends = ((given[f"{side}nodeids"].astype(np.int64), given[f"{side}leafs"]) for side in ("false", "true"))
    children = np.stack([np.where(is_leaf != 0, ~_natural(node, numbers), numbers) for numbers, is_leaf in ends], 1)
    roots, count = np.asarray(node.required("tree_roots"), np.int64), len(targets)
    _in_range(node, "numbers of nodes", np.append(children[children >= 0], roots), len(children))
    _in_range(node, "numbers of leaves", ~children[children < 0], count)
    branches = Branches(given["featureids"], given["splits"], given["modes"].astype(np.int64), follows, children)
    if (branches.modes == _MEMBER).any() or node.attribute("membership_values") is not None:
        members = np.asarray(node.required("membership_values"), np.float64).reshape(-1)
        branches = _with_members_apart(node, branches, members)
    shape, numbers = (count, _target_count(node)), np.asarray(targets, np.int64)
    weights = _weights(node, shape, np.arange(count), numbers, given_weights.astype(x.dtype))
    scores = _computed(node, _rows(node, x), branches, roots, weights)
    return _transformed(node, scores, _chosen(node, "post_transform", _TRANSFORMS, 0))


def _computed(node: Node, x: Operand, branches: Branches, roots: Array, weights: Array) -> Any:
    """The scores (rows, targets), before they are transformed."""
    if not len(roots):
        raise OnnxError(f"{node.where}: has no trees")
    _in_range(node, "features", branches.features, node.shape(x, rank=2)[1])
    reached = _reached(node, x, branches, len(weights), roots)
    return _scores(reached, weights, _chosen(node, "aggregate_function", _AGGREGATIONS, 1))


# --- trees whose nodes are named by a tree and a number in it -------------------------------------


def _either(node: Node, name: str) -> Array:
    """A list of floats, which may be given as a tensor instead."""
    tensor = node.attribute(f"{name}_as_tensor")
    return np.asarray(node.attribute(name) or [], np.float32) if tensor is None else np.asarray(tensor).reshape(-1)


def _named_trees(node: Node) -> tuple[Branches, Array, dict[tuple[int, int], int], int]:
    """The inner nodes, the roots, the number of each leaf (~l) by tree and node, and how many leaves there are."""
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    trees, ids, features, then, otherwise = (np.asarray(node.required(f"nodes_{name}"), np.int64) for name in names)
    modes = [mode.removeprefix("BRANCH_") for mode in node.required("nodes_modes")]
    splits = _either(node, "nodes_values")
    missing = node.attribute("nodes_missing_value_tracks_true") or [0] * len(modes)
    lists = {name: node.required(f"nodes_{name}") for name in (*names, "modes")}
    _lengths_agree(node, {**lists, "values": splits, "missing_value_tracks_true": missing})
    if unknown := set(modes) - {*_MODES[:_MEMBER], "LEAF"}:
        raise OnnxError(f"{node.where}: mode {min(unknown)!r} is not known")
    is_leaf = np.asarray([mode == "LEAF" for mode in modes], bool)
    numbers = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    keys = list(zip(trees.tolist(), ids.tolist(), strict=True))
    places = dict(zip(keys, numbers.tolist(), strict=True))
    if len(places) < len(keys):
        raise OnnxError(f"{node.where}: two nodes of a tree have the same number")
    inner = ~is_leaf
    sides = [
        [_place(node, places, key) for key in zip(trees[inner].tolist(), side[inner].tolist(), strict=True)]
        for side in (otherwise, then)
    ]
    codes = np.asarray([_MODES.index(mode) for mode in modes if mode != "LEAF"], np.int64)
    follows = np.asarray(missing)[inner] != 0
    branches = Branches(features[inner], splits[inner], codes, follows, np.asarray(sides, np.int64).T.reshape(-1, 2))
    firsts = np.unique(trees, return_index=True)[1]
    return branches, numbers[firsts], places, int(is_leaf.sum())


def _place(node: Node, places: dict[tuple[int, int], int], key: tuple[int, int]) -> int:
    if key not in places:
        raise OnnxError(f"{node.where}: tree {key[0]} has no node {key[1]}")
    return places[key]


def _named_scores(node: Node, x: Operand, kind: str, targets: int) -> tuple[Any, Array, Array]:
    """f32 scores (rows, targets) with base values, and the targets and weights of the leaves, named for `kind`."""
    branches, roots, places, leaves = _named_trees(node)
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
    trees, ids, given = (node.required(name) for name in names)
    weights = _either(node, f"{kind}_weights").astype(np.float32)
    _lengths_agree(node, {**dict(zip(names, (trees, ids, given), strict=True)), f"{kind}_weights": weights})
    found = np.asarray([_place(node, places, key) for key in zip(trees, ids, strict=True)], np.int64)
    if (found >= 0).any():
        raise OnnxError(f"{node.where}: a node that is no leaf has a weight")
    numbers = np.asarray(given, np.int64)
    table = _weights(node, (leaves, targets), ~found, numbers, weights)
    compared: Any = _rows(node, x)
    if np.dtype(x.dtype).kind in "iu":
        compared = ops.cast(compared, dtype="f32")
    scores, base = _computed(node, compared, branches, roots, table), _either(node, "base_values").astype(np.float32)
    if base.size not in (0, 1, targets):
        raise OnnxError(f"{node.where}: base_values has {base.size} entries for {targets} targets")
    return (scores + base if base.size else scores), numbers, weights


@operator("TreeEnsembleRegressor", domain=_ML)
def tree_ensemble_regressor(node: Node, x: Operand) -> Any:
    scores, _, _ = _named_scores(node, x, "target", _target_count(node))
    return _transformed(node, scores, _chosen(node, "post_transform", _TRANSFORMS, 0))


@operator("TreeEnsembleClassifier", domain=_ML)
def tree_ensemble_classifier(node: Node, x: Operand) -> Any:
    """Labels and scores (rows, classes). Labels that are strings are not computed.

    Two classes of which all leaves name one only have one score s, as onnxruntime reads them: the other's is 1 - s
    where weights are probabilities (none is negative), and -s otherwise, as it is for LOGISTIC; the one is chosen where
    s is above 1/2 if they are probabilities, and above 0 otherwise. SOFTMAX and SOFTMAX_ZERO leave these as they are.
    """
    labels = node.attribute("classlabels_int64s") or None
    count = len(labels or node.attribute("classlabels_strings") or ())
    if not count:
        raise OnnxError(f"{node.where}: has no classes")
    scores, classes, weights = _named_scores(node, x, "class", count)
    transform = _chosen(node, "post_transform", _TRANSFORMS, 0)
    if count == 2 and len(set(classes.tolist())) == 1:
        one = ops.slice(scores, starts=(0, int(classes[0])), limits=(scores.shape[0], int(classes[0]) + 1))
        is_probability = bool((weights >= 0).all())
        chosen = ops.reshape(ops.cast(one > np.float32(0.5 if is_probability else 0), dtype="i64"), shape=(-1,))
        other = np.float32(1) - one if is_probability and transform != "LOGISTIC" else -one
        pair = ops.concatenate((other, one), axis=1)
        scores = ops.sigmoid(pair) if transform == "LOGISTIC" else pair
    else:
        chosen, scores = ops.argmax(scores, axis=1), _transformed(node, scores, transform)
    return None if labels is None else ops.gather(np.asarray(labels, np.int64), chosen), scores
