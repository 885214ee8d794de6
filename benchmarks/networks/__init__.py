"""The three networks that are trained: their parameters, data and cost, the same for every framework.

`mlp` is 784-512-512-10 on batches of 128; `lenet` takes 64 images of 28×28; `transformer` has 4 layers of width 256
with 8 heads, 256 tokens, batches of 8 and a vocabulary of 512, normalizes before each part and looks back only. All are
trained by Adam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NETWORKS = ("mlp", "lenet", "transformer")
LEARNING_RATE = 1e-3

LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCABULARY = 4, 256, 8, 256, 8, 512


@dataclass(frozen=True)
class Problem:
    """Where training starts: parameters by name, and one batch, which every step takes."""

    parameters: dict[str, Array]
    inputs: Array
    labels: Array


def _linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def shapes(network: str) -> dict[str, tuple[int, ...]]:
    """The parameters' shapes by name."""
    if network == "mlp":
        return _linear("first", 784, 512) | _linear("second", 512, 512) | _linear("third", 512, 10)
    if network == "lenet":
        filters = {"conv1.weight": (6, 1, 5, 5), "conv1.bias": (6,), "conv2.weight": (16, 6, 5, 5), "conv2.bias": (16,)}
        return filters | _linear("fc1", 400, 120) | _linear("fc2", 120, 84) | _linear("fc3", 84, 10)
    found: dict[str, tuple[int, ...]] = {"embedding.weight": (VOCABULARY, WIDTH), "positions": (TOKENS, WIDTH)}
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        found |= _norm(f"{block}.norm1") | _linear(f"{block}.qkv", WIDTH, 3 * WIDTH)
        found |= _linear(f"{block}.projection", WIDTH, WIDTH) | _norm(f"{block}.norm2")
        found |= _linear(f"{block}.up", WIDTH, 4 * WIDTH) | _linear(f"{block}.down", 4 * WIDTH, WIDTH)
    return found | _norm("norm") | _linear("head", WIDTH, VOCABULARY)


def _start(name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    if "norm" in name:
        return np.full(shape, float(name.endswith("weight")), np.float32)
    if name in ("embedding.weight", "positions"):
        return 0.1 * random.standard_normal(shape, np.float32)
    bound = 1 / math.sqrt(np.prod(shape[1:]) or 1)
    return random.uniform(-bound, bound, shape).astype(np.float32)


def problem(network: str) -> Problem:
    """Parameters and a batch, drawn from seed 0."""
    random = np.random.default_rng(0)
    parameters = {name: _start(name, shape, random) for name, shape in shapes(network).items()}
    if network == "transformer":
        tokens = random.integers(0, VOCABULARY, (BATCH, TOKENS + 1))
        return Problem(parameters, tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32))
    batch = (128, 784) if network == "mlp" else (64, 1, 28, 28)
    images = random.standard_normal(batch, np.float32)
    return Problem(parameters, images, random.integers(0, 10, batch[0]).astype(np.int32))


def operations(network: str) -> float:
    """Arithmetic of a step's products and convolutions: forward, and twice that backward except that the gradient of
    the data is not wanted.
    """
    if network == "mlp":
        return 128 * (4 * 784 * 512 + 6 * (512 * 512 + 512 * 10))
    if network == "lenet":
        first, second = 28 * 28 * 6 * 25, 10 * 10 * 16 * 6 * 25
        return 64 * (4 * first + 6 * (second + 400 * 120 + 120 * 84 + 84 * 10))
    rows = BATCH * TOKENS
    layer = 12 * WIDTH * WIDTH
    scores = 2 * TOKENS * WIDTH / 2  # QKᵀ and its product with V, half of them masked
    return 6 * rows * (LAYERS * (layer + scores) + WIDTH * VOCABULARY)
