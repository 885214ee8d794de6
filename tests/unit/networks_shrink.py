"""Make a network that fails smaller, as long as it fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from networks import Invalid, Layer, Layers, Network

SIMPLEST: dict[str, tuple[Any, ...]] = {
    "mode": ("forward", "gradient"),
    "call": ("jit",),
    "loss": ("sum", "mse"),
    "dtype": ("f32",),
    "mask": ("none",),
    "written": ("constant",),
    "down": ("average",),
    "up": ("repeat",),
    "key": (0,),
    "seed": (0,),
    "clip": (0.0,),
    "rate": (0.5,),
}
"""Values by which others of a setting are replaced."""
SIMPLEST_KINDS: dict[str, tuple[str, ...]] = {
    "Activation": ("tanh",),
    "Gated": ("tanh",),
    "Norm": ("layer", "batch"),
    "Recurrent": ("rnn",),
    "Experts": ("scatter",),
    "Pool": ("average",),
    "GlobalPool": ("average",),
    "Gather": ("mean",),
}


def shorter(layers: Layers) -> Iterator[Layers]:
    """Chains with a layer less, with what is inside of one in its place, or with one that is simpler."""
    if len(layers) > 3:
        yield layers[: len(layers) // 2]
        yield layers[len(layers) // 2 :]
    for i, layer in enumerate(layers):
        before, after = layers[:i], layers[i + 1 :]
        yield before + after
        for inner in _inner(layer):
            yield before + inner + after
    for i, layer in enumerate(layers):
        for changed in simpler(layer):
            yield (*layers[:i], changed, *layers[i + 1 :])


def _inner(layer: Layer) -> list[Layers]:
    values = [getattr(layer, f.name) for f in fields(layer)]  # type: ignore[arg-type]
    return [v for v in values if isinstance(v, tuple) and v and isinstance(v[0], Layer)]


def simpler(node: Any) -> Iterator[Any]:
    """A layer or network with one setting simpler."""
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, tuple) and value and isinstance(value[0], Layer):
            options: Any = shorter(value)
        elif isinstance(value, tuple):
            options = _smaller_shapes(value)
        elif isinstance(value, bool):
            options = (False,) if value else ()
        elif f.name in SIMPLEST or f.name == "kind":
            known = SIMPLEST.get(f.name) or SIMPLEST_KINDS[type(node).__name__]
            options = known[: known.index(value)] if value in known else known
        elif isinstance(value, int):
            least = node.LEAST.get(f.name, 0 if f.name in ("padding", "context", "vocabulary") else 1)
            options = [n for n in dict.fromkeys((least, value // 4, value // 2, value - 1)) if least <= n < value]
        else:
            options = ()
        for option in options:
            yield replace(node, **{f.name: option})


def _smaller_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for i, n in enumerate(shape):
        for less in dict.fromkeys((1, n // 4, n // 2, n - 1)):
            if 0 < less < n:
                yield (*shape[:i], less, *shape[i + 1 :])
    if len(set(shape[1:])) == 1:
        for less in (1, shape[-1] // 2, shape[-1] - 1):
            if 0 < less < shape[-1]:
                yield (shape[0], *[less] * (len(shape) - 1))


def shrunk(network: Network, fails: Callable[[Network], bool], seconds: float) -> Network:
    """The smallest network found for which `fails` holds, after so many seconds at most."""
    end = time.monotonic() + seconds
    tried = {repr(network)}
    progress = True
    while progress:
        progress = False
        for candidate in simpler(network):
            if time.monotonic() > end:
                return network
            if repr(candidate) in tried:
                continue
            tried.add(repr(candidate))
            try:
                candidate.check()
            except (Invalid, ZeroDivisionError, IndexError):
                continue
            if fails(candidate):
                network, progress = candidate, True
                break
    return network
