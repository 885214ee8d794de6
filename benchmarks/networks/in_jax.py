"""The networks in jax: functions of a dictionary of parameters, one compiled step with donated parameters and state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from benchmarks.networks import HEADS, LAYERS, LEARNING_RATE, WIDTH, Problem

Parameters = dict[str, Any]


def _linear(p: Parameters, name: str, x: Any) -> Any:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def _norm(p: Parameters, name: str, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p: Parameters, x: Any) -> Any:
    return _linear(p, "third", jax.nn.relu(_linear(p, "second", jax.nn.relu(_linear(p, "first", x)))))


def _convolved(p: Parameters, name: str, x: Any, padding: int) -> Any:
    weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
    return jax.lax.conv_general_dilated(x, weight, (1, 1), ((padding, padding),) * 2) + bias[:, None, None]


def _pooled(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def lenet(p: Parameters, images: Any) -> Any:
    x = _pooled(jax.nn.relu(_convolved(p, "conv1", images, 2)))
    x = _pooled(jax.nn.relu(_convolved(p, "conv2", x, 0))).reshape(images.shape[0], -1)
    return _linear(p, "fc3", jax.nn.relu(_linear(p, "fc2", jax.nn.relu(_linear(p, "fc1", x)))))


def _block(p: Parameters, block: str, x: Any) -> Any:
    batch, tokens, _ = x.shape
    parts = _linear(p, f"{block}.qkv", _norm(p, f"{block}.norm1", x))
    q, k, v = parts.reshape(batch, tokens, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(2, 3) * (WIDTH // HEADS) ** -0.5
    weights = jax.nn.softmax(jnp.where(np.tri(tokens, dtype=bool), scores, -jnp.inf))
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, WIDTH)
    x = x + _linear(p, f"{block}.projection", mixed)
    hidden = jax.nn.gelu(_linear(p, f"{block}.up", _norm(p, f"{block}.norm2", x)), approximate=False)
    return x + _linear(p, f"{block}.down", hidden)


def transformer(p: Parameters, tokens: Any) -> Any:
    x = p["embedding.weight"][tokens] + p["positions"]
    for layer in range(LAYERS):
        x = _block(p, f"blocks.{layer}", x)
    return _linear(p, "head", _norm(p, "norm", x))


FORWARD = {"mlp": mlp, "lenet": lenet, "transformer": transformer}


def _adam(p: Parameters, slopes: Parameters, state: Any) -> tuple[Parameters, Any]:
    first, second = 0.9, 0.999
    count = state["step"] + 1
    time = count.astype(jnp.float32)
    mean = jax.tree.map(lambda m, g: first * m + (1 - first) * g, state["mean"], slopes)
    square = jax.tree.map(lambda s, g: second * s + (1 - second) * g * g, state["square"], slopes)
    rate = LEARNING_RATE / (1 - first**time)
    root = jax.lax.rsqrt(1 - second**time)
    changed = jax.tree.map(lambda x, m, s: x - rate * m / (jnp.sqrt(s) * root + 1e-8), p, mean, square)
    return changed, {"step": count, "mean": mean, "square": square}


@partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def train_step(network: str, p: Parameters, state: Any, inputs: Any, labels: Any) -> Any:
    """The changed parameters and state, and the loss before."""

    def loss(p: Parameters) -> Any:
        logits = jax.nn.log_softmax(FORWARD[network](p, inputs))
        return -jnp.take_along_axis(logits, labels[..., None], -1).mean()

    value, slopes = jax.value_and_grad(loss)(p)
    return *_adam(p, slopes, state), value


def start(problem: Problem) -> tuple[Parameters, Any]:
    """The problem's parameters, and Adam's state."""
    p = {name: jnp.array(value) for name, value in problem.parameters.items()}
    zeros = {name: jnp.zeros_like(value) for name, value in p.items()}
    return p, {"step": jnp.zeros((), jnp.int32), "mean": zeros, "square": jax.tree.map(jnp.copy, zeros)}


def stepper(network: str, problem: Problem) -> Callable[[], Any]:
    """A function that does a step and gives the loss before it."""
    p, state = start(problem)
    inputs, labels = jnp.array(problem.inputs), jnp.array(problem.labels)

    def step() -> Any:
        nonlocal p, state
        p, state, value = train_step(network, p, state, inputs, labels)
        jax.block_until_ready((p, value))
        return value

    return step
