"""Networks as small data structures that print as Python: chains of layers, and how they are run.

Each layer says twice what it computes, with Tenon and with torch, so that one is tested against the other. Shapes are
those of one example, `x` has a batch in front of it. A network that fails is made smaller by making its data structure
smaller (`networks_shrink`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from math import prod
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import torch

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]
Tree = Any
"""Dicts and lists of what is the same for every leaf: weights, arrays, tensors."""

DTYPES: dict[str, tuple[Any, torch.dtype, float]] = {
    "f64": (np.float64, torch.float64, 2.0**-53),
    "f32": (np.float32, torch.float32, 2.0**-24),
    "bf16": (ml_dtypes.bfloat16, torch.bfloat16, 2.0**-9),
    "f16": (np.float16, torch.float16, 2.0**-11),
}
"""The dtypes of NumPy and torch, and how far rounding to them moves a number of size 1."""


class Invalid(Exception):
    """A network that cannot be: a layer does not fit what it is given."""


@dataclass(frozen=True)
class Weight:
    """An array that a layer learns: normal numbers of this spread around this centre."""

    shape: Shape
    spread: float
    centre: float = 0.0


def matrix(rows: int, columns: int) -> Weight:
    """A weight that keeps the size of what it multiplies."""
    return Weight((rows, columns), rows**-0.5)


class Printed:
    """Prints as the call that makes it, without what is left at its default."""

    def __repr__(self) -> str:
        given = [f for f in fields(self) if f.default is MISSING or getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in given)})"


class Oracle:
    """How torch computes: moved by `shift` at kinks, which tells what may differ by where rounding puts a value.

    The shift is in units of the largest magnitude of what has the kink. `rounding` is by how much results of gates z
    and 1 - z are moved: where z is near 1 it is rounded as 1 is, and 1 - z has what is left of its digits. So is the
    probability p of what is nearly sure, whose derivatives have 1 - p.
    """

    def __init__(self, shift: float = 0.0, rounding: float = 0.0) -> None:
        self.shift, self.has_kinks = shift, False
        self.rounding, self.takes_from_one = rounding, False

    def gated(self, x: Any) -> Any:
        """The result of gates, rounded otherwise."""
        self.takes_from_one = True
        return x + self.rounding

    def slipped(self, x: Any) -> Any:
        """Nothing, whose derivative is that of `x` times the rounding."""
        self.takes_from_one = True
        return self.rounding * (x - x.detach()) if self.rounding else 0.0

    def log_softmax(self, x: Any, axis: int) -> Any:
        """The logarithms of probabilities that derivatives see rounded otherwise."""
        return torch.log_softmax(x, axis) - self.slipped(torch.logsumexp(x, axis, keepdim=True))

    def softmax(self, x: Any, axis: int) -> Any:
        """Such probabilities."""
        self.takes_from_one = True
        return self.log_softmax(x, axis).exp() if self.rounding else torch.softmax(x, axis)

    def near(self, function: Callable[[Any], Any], x: Any, pattern: Any = 1.0) -> Any:
        """`function(x)`, whose derivative is that of a point nearby."""
        self.has_kinks = True
        if not self.shift:
            return function(x)
        moved = function(x + self.shift * float(x.detach().abs().max()) * pattern)
        return function(x).detach() + moved - moved.detach()

    def jump(self, x: Any, pattern: Any) -> Any:
        """`x` moved, for a function that jumps."""
        self.has_kinks = True
        return x + self.shift * float(x.detach().abs().max()) * pattern


class Layer(Printed):
    """One layer, or several in a construction; a frozen dataclass of numbers, strings and other layers."""

    LEAST: ClassVar[dict[str, int]] = {}
    """The least values of settings, where they are not 1 (or 0 for those that can be left out)."""

    def result(self, shape: Shape) -> Shape:
        """The shape that comes out; raises `Invalid`."""
        raise NotImplementedError

    def weights(self, shape: Shape) -> Tree:
        """The `Weight`s for inputs of this shape."""
        return {}

    def work(self, shape: Shape) -> int:
        """About how many products one example takes."""
        return prod(shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        """What Tenon computes."""
        raise NotImplementedError

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        """What torch computes."""
        raise NotImplementedError


Layers = tuple[Layer, ...]


def need(condition: bool, what: str) -> None:
    if not condition:
        raise Invalid(what)


def result_of(layers: Layers, shape: Shape) -> Shape:
    """The shape behind a chain."""
    for layer in layers:
        shape = layer.result(shape)
        need(prod(shape) > 0, f"{layer} leaves nothing")
    return shape


def weights_of(layers: Layers, shape: Shape) -> list[Tree]:
    found: list[Tree] = []
    for layer in layers:
        found.append(layer.weights(shape))
        shape = layer.result(shape)
    return found


def work_of(layers: Layers, shape: Shape) -> int:
    total = 0
    for layer in layers:
        total += layer.work(shape)
        shape = layer.result(shape)
    return total


def run_tenon(layers: Layers, w: Sequence[Tree], x: Any) -> Any:
    for layer, own in zip(layers, w, strict=True):
        x = layer.tenon(own, x)
    return x


def run_torch(layers: Layers, oracle: Oracle, w: Sequence[Tree], x: Any) -> Any:
    for layer, own in zip(layers, w, strict=True):
        x = layer.torch(oracle, own, x)
    return x


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The tree with `function` of each leaf."""
    if isinstance(tree, dict):
        return {key: mapped(function, item) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [mapped(function, item) for item in tree]
    return function(tree)


def leaves(tree: Tree) -> list[Any]:
    """The leaves in the order of the tree."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


MODES = ("forward", "gradient", "sgd", "adam", "adamw", "hvp", "vmap", "example_gradients")
CALLS = ("jit", "frozen", "constant", "donated", "dynamic")
LOSSES = ("sum", "mse", "huber", "bce", "kl", "cross_entropy", "smoothed", "ignoring")


@dataclass(frozen=True, repr=False)
class Network(Printed):
    """A chain of layers, what is computed of it, and on what.

    `shape` is that of an example; with `vocabulary`, the input is that many kinds of tokens. `clip` is the norm that
    gradients are clipped to. `loss` is of what comes last, against random targets. With `equal`, each weight is one
    number everywhere.
    """

    shape: Shape
    layers: Layers
    loss: str = "sum"
    mode: str = "forward"
    call: str = "jit"
    dtype: str = "f32"
    batch: int = 1
    vocabulary: int = 0
    clip: float = 0.0
    equal: bool = False
    seed: int = 0

    LEAST: ClassVar[dict[str, int]] = {}

    def check(self) -> None:
        """Raise `Invalid` for what cannot be."""
        need(min((*self.shape, self.batch)) > 0 and len(self.layers) > 0, "empty")
        result = result_of(self.layers, self.shape)
        embeds = [type(layer).__name__ == "Embedding" for layer in self.layers]
        need(embeds[:1] == [self.vocabulary > 0], "tokens are embedded first, and nothing else is")
        classes = self.loss in ("cross_entropy", "smoothed", "ignoring", "kl")
        need(not classes or (len(result) > 0 and result[-1] > 1), "classes need a dimension")
        learned = leaves(weights_of(self.layers, self.shape))
        need(len(learned) > 0 or self.mode in ("forward", "vmap"), "nothing to learn")
        one = self.mode in ("vmap", "example_gradients")
        need(not one or not any(getattr(y, "kind", "") == "batch" for y in every(self.layers)), "batches of one")
        need(
            self.call not in ("frozen", "constant") or self.mode in ("forward", "vmap"), "weights that are not learned"
        )
        need(self.mode not in ("sgd", "adam", "adamw") or self.dtype in ("f32", "f64"), "steps in half precision")

    def work(self) -> int:
        """About how many products the forward pass takes."""
        return self.batch * work_of(self.layers, self.shape)


def every(layers: Layers) -> list[Layer]:
    """All layers, inner ones as well."""
    found: list[Layer] = []
    for layer in layers:
        found.append(layer)
        for f in fields(layer):  # type: ignore[arg-type]
            value = getattr(layer, f.name)
            if isinstance(value, tuple) and all(isinstance(item, Layer) for item in value):
                found += every(value)
    return found
