"""Random networks: those of a kind (perceptron, transformer, convolutions, ...), at small and at real sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from networks import CALLS, LOSSES, Invalid, Layers, Network, Shape, result_of
from networks_dense import (
    ACTIVATIONS,
    Activation,
    Branches,
    Checkpoint,
    Dropout,
    Experts,
    Flatten,
    Gated,
    Linear,
    Norm,
    Residual,
    Scaled,
)
from networks_image import Conv, GlobalPool, Patches, Pool, Transposed, UNet
from networks_sequence import Attention, Embedding, Gather, Recurrent, Swap

SMALL = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 33)
LARGE = (16, 32, 48, 64, 65, 96, 100, 128, 192, 256, 300, 384, 512, 768, 1024)
SHORT, LONG = (1, 2, 3, 5, 8, 11, 16, 20), (16, 32, 50, 64, 77, 128, 197, 256)
BATCHES, MANY = (1, 1, 2, 3, 4, 7, 8, 16, 33), (1, 8, 32, 64, 128, 250, 512, 1024, 4096)
CHANNELS, WIDE = (1, 2, 3, 4, 6, 8, 16, 17), (3, 16, 32, 64, 96, 128, 256)
HEIGHTS, HIGH = (4, 5, 6, 7, 8, 9, 12, 16), (14, 16, 28, 32, 56, 64)
COMMON = ("tanh", "relu", "gelu", "silu", "sigmoid", "relu", "gelu")
"""Activations that are drawn as often as all others together."""


class Draw:
    """Draws networks; `real` ones have sizes as programs do."""

    def __init__(self, random: Random, real: bool) -> None:
        self.random, self.real = random, real
        self.choose: Callable[[Sequence[Any]], Any] = random.choice

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def size(self) -> int:
        return self.choose(LARGE if self.real else SMALL)

    def activation(self) -> str:
        return self.choose(COMMON) if self.chance(0.5) else self.choose(list(ACTIVATIONS))

    # --- layers by the rank of what they get --------------------------------------------------------------------------

    def dense(self, shape: Shape) -> Layers:
        """For features: products, activations and what is between them."""
        kind = self.random.random()
        if kind < 0.45:
            return (Linear(self.size(), self.chance(0.8)), Activation(self.activation()))
        if kind < 0.55:
            return (Norm(self.choose(("layer", "rms", "batch", "running", "unit"))),)
        if kind < 0.57:
            return (Scaled(self.choose((0, 1))),)
        if kind < 0.6:
            return (Dropout(self.choose((0.1, 0.5)), self.random.randrange(99)),)
        if kind < 0.7:
            return (Gated(self.size(), self.activation(), self.chance(0.5)),)
        if kind < 0.8:
            return (Residual((*self.dense(shape), Linear(shape[-1]))),)
        if kind < 0.85:
            hidden = self.size()
            return (
                Experts(
                    self.choose((2, 4, 8)), self.choose((1, 2)), hidden, self.choose(("scatter", "one_hot", "gather"))
                ),
            )
        if kind < 0.92:
            return (Checkpoint((*self.dense(shape), *self.dense(shape))),)
        return (
            (Branches(self.dense(shape), self.dense(shape)),) if len(shape) == 1 else (Activation(self.activation()),)
        )

    def attention(self, shape: Shape) -> Attention:
        heads = self.choose((1, 2, 4, 8))
        shared = self.choose((1, 1, 2, heads))
        size = self.choose((8, 16, 32, 64) if self.real else (1, 2, 4, 6, 8, 16))
        context = self.choose(LONG if self.real else SHORT) if self.chance(0.2) else 0
        mask = self.choose(
            ("none", "padding", "alibi") if context else ("none", "causal", "causal", "window", "padding", "alibi")
        )
        how = self.choose(("constant", "compared", "added"))
        return Attention(heads, size, shared, context, mask, how, rotary=self.chance(0.4) and size % 2 == 0)

    def sequence(self, shape: Shape) -> Layers:
        kind = self.random.random()
        if kind < 0.35:
            norm, attention = Norm(self.choose(("layer", "rms"))), self.attention(shape)
            return (Residual((norm, attention) if self.chance(0.6) else (attention,)),)
        if kind < 0.55:
            up = Gated(self.size(), self.activation(), self.chance(0.5)) if self.chance(0.5) else Linear(shape[-1])
            return (Residual((Norm(self.choose(("layer", "rms"))), up)),)
        if kind < 0.65:
            return (Recurrent(self.size(), self.choose(("rnn", "gru", "lstm")), self.chance(0.3)),)
        if kind < 0.7:
            return (Swap(),)
        if kind < 0.75:
            return (Gather("running"),)
        if kind < 0.8:
            return (Checkpoint(self.sequence(shape)),)
        return self.dense(shape)

    def image(self, shape: Shape) -> Layers:
        kind = self.random.random()
        channels = self.choose(WIDE if self.real else CHANNELS)
        if kind < 0.5:
            return (self.convolution(shape, channels), *self.after())
        if kind < 0.6:
            kernel = self.choose((1, 3))
            middle = (Conv(channels, kernel, padding=kernel // 2), *self.after(), Conv(shape[0], 3, padding=1))
            return (Residual(middle),)
        if kind < 0.7:
            return (
                Pool(
                    self.choose(("average", "max")),
                    window := self.choose((2, 3)),
                    self.choose((1, 2)),
                    self.choose((0, window // 2)),
                ),
            )
        if kind < 0.78:
            inner = (Conv(channels, 3, padding=1), *self.after())
            return (UNet(inner, self.choose(("average", "max")), self.choose(("repeat", "transposed"))),)
        if kind < 0.83:
            return (Transposed(channels, self.choose((2, 3, 4)), self.choose((1, 2)), self.choose((0, 1))),)
        if kind < 0.9:
            left, right = Conv(channels, 1), Conv(self.choose(CHANNELS), 3, padding=1)
            return (Branches((left,), (right, *self.after())),)
        if kind < 0.95:
            return (Checkpoint(self.image(shape)),)
        return self.after()

    def convolution(self, shape: Shape, channels: int) -> Conv:
        given, *image = shape
        kernel = self.choose((1, 2, 3) if len(image) == 3 else (1, 2, 3, 3, 3, 5, 7))
        groups = self.choose([g for g in (1, 1, 1, 2, 4, 8) if given % g == channels % g == 0])
        stride, dilation = self.choose((1, 1, 2, 3)), self.choose((1, 1, 1, 2, 3))
        depthwise = self.chance(0.2)
        padding = self.choose((0, kernel // 2, dilation * (kernel // 2)))
        return Conv(self.choose((1, 1, 2)) if depthwise else channels, kernel, stride, padding, dilation,
                    1 if depthwise else groups, depthwise, self.chance(0.7))  # fmt: skip

    def after(self) -> Layers:
        norm = Norm(self.choose(("batch", "batch", "running", "group", "instance")), self.choose((1, 2, 4)))
        activation = Activation(self.activation() if self.chance(0.7) else "relu")
        return self.choose(((norm, activation), (activation,), (norm,)))

    # --- chains -------------------------------------------------------------------------------------------------------

    def grown(self, shape: Shape, make: Callable[[Shape], Layers], count: int) -> tuple[Layers, Shape]:
        """A chain of `count` constructions that fit."""
        layers: Layers = ()
        for _ in range(count):
            for _ in range(20):
                more = make(shape)
                try:
                    shape = result_of(more, shape)
                except Invalid:
                    continue
                layers += more
                break
        return layers, shape

    def text(self, shape: Shape) -> tuple[Layers, Shape]:
        layers, shape = self.grown(shape, self.sequence, self.choose((1, 1, 2, 3)))
        if self.chance(0.3):
            layers, shape = (*layers, Gather(self.choose(("mean", "max", "last")))), shape[1:]
        return layers, shape

    def chain(self, kind: str) -> tuple[int, Shape, Layers]:
        """Vocabulary, shape of an example and layers of a network of this kind."""
        time, size = self.choose(LONG if self.real else SHORT), self.size()
        channels = self.choose((1, 3, 3, 8, 16, 64) if self.real else CHANNELS)
        high = self.choose(HIGH if self.real else HEIGHTS)
        image: Shape = (channels, *[high] * self.choose((2, 2, 2, 2, 1, 1 if self.real else 3)))
        if len(image) == 4:
            image = (min(channels, 4), *[min(high, 6)] * 3)
        match kind:
            case "perceptron":
                return 0, (size,), self.grown((size,), self.dense, self.choose((1, 2, 3, 4)))[0]
            case "sequence":
                return 0, (time, size), self.text((time, size))[0]
            case "tokens":
                vocabulary = self.choose((100, 1000, 5000) if self.real else (2, 5, 20, 50))
                first = Embedding(vocabulary, size, self.chance(0.5))
                return vocabulary, (time,), (first, *self.text((time, size))[0])
            case "patches":
                patch = self.choose((1, 2, 4))
                square = (channels, high - high % patch, high - high % patch)
                first = Patches(patch)
                return 0, square, (first, *self.text(first.result(square))[0])
            case _:
                layers, shape = self.grown(image, self.image, self.choose((1, 2, 3, 4)))
                if self.chance(0.5):
                    last = GlobalPool(self.choose(("average", "max"))) if self.chance(0.6) else Flatten()
                    layers = (*layers, last, *self.grown(last.result(shape), self.dense, self.choose((0, 1)))[0])
                return 0, image, layers


KINDS = ("perceptron", "perceptron", "sequence", "tokens", "patches", "image", "image", "image")
MODES = (*["forward"] * 6, *["gradient"] * 7, "sgd", "adam", "adamw", "hvp", "vmap", "example_gradients")
DTYPES = (*["f32"] * 7, "f64", "f64", "bf16", "bf16", "f16")


def draw(random: Random, real: bool, most: float) -> Network:
    """A network of no more than `most` products in its forward pass."""
    maker = Draw(random, real)
    while True:
        vocabulary, shape, layers = maker.chain(random.choice(KINDS))
        if not layers:
            continue
        network = Network(
            shape, layers,
            loss=random.choice(LOSSES), mode=random.choice(MODES), call=random.choice(("jit", "jit", *CALLS)),
            dtype=random.choice(DTYPES), batch=random.choice(MANY if real else BATCHES), vocabulary=vocabulary,
            clip=random.choice((0.0, 0.0, 1.0)), equal=random.random() < 0.05, seed=random.randrange(2**16),
        )  # fmt: skip
        network = _sensible(network, random)
        try:
            network.check()
        except Invalid:
            continue
        if most / 500 * real <= network.work() * _passes(network) <= most:
            return network


def _passes(network: Network) -> int:
    """How often the products of a forward pass are done, about."""
    return {"forward": 1, "vmap": 1, "hvp": 9, "sgd": 6, "adam": 6, "adamw": 6}.get(network.mode, 3)


def _sensible(network: Network, random: Random) -> Network:
    """What goes together: kinks have no second derivatives, and rows of one example are few."""
    if network.call in ("frozen", "constant") and network.mode != "vmap":
        network = replace(network, mode="forward")
    if network.mode in ("vmap", "example_gradients"):
        network = replace(network, batch=random.choice((1, 2, 3, 5)))
    if network.mode in ("sgd", "adam", "adamw") and network.dtype not in ("f32", "f64"):
        network = replace(network, dtype="f32")
    if network.mode in ("forward", "vmap"):
        network = replace(network, loss="sum", clip=0.0)
    if network.mode in ("hvp", "example_gradients"):
        network = replace(network, clip=0.0)
    return network
