"""One step of a decoder of 12 layers: the next token of one sequence, whose keys and values are kept in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import Array, Runner, thread_count, torch_tensor
from benchmarks.workload import Target, Workload, generator

LAYERS, HEADS, TOKENS, SIZE = 12, 12, 1024, 64
WIDTH = HEADS * SIZE
PLACE = TOKENS - 2
"""Almost the last one, so that all read the whole of what is kept, with or without a mask."""
KEPT = 2 * LAYERS
"""How many arrays are kept."""


def _inputs() -> tuple[Array, ...]:
    """The token's vector, keys and values of each layer, and each layer's four matrices."""
    random = generator()
    matrices = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    return (
        random.standard_normal((1, WIDTH), np.float32),
        *[random.standard_normal((HEADS, TOKENS, SIZE), np.float32) for _ in range(KEPT)],
        *[random.standard_normal(s, np.float32) * np.float32(s[0] ** -0.5) for _ in range(LAYERS) for s in matrices],
    )


def _step(
    framework: Any, attend: Callable[..., Any], gelu: Any, x: Any, kept: Sequence[Any], weights: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """The vector after all layers, and what is kept now."""
    now: list[Any] = []
    for layer in range(LAYERS):
        qkv, out, up, down = weights[4 * layer : 4 * layer + 4]
        given = _normed(framework, x) @ qkv
        q, k, v = [given[:, part * WIDTH : (part + 1) * WIDTH].reshape(HEADS, 1, SIZE) for part in range(3)]
        mixed, keys, values = attend(q, k, v, *kept[2 * layer : 2 * layer + 2])
        now += [keys, values]
        x = x + mixed.reshape(1, WIDTH) @ out
        x = x + gelu(_normed(framework, x) @ up) @ down
    return x, now


def _normed(framework: Any, x: Any) -> Any:
    mean = framework.mean(x, -1, keepdims=True)
    return (x - mean) * framework.rsqrt(framework.mean((x - mean) ** 2, -1, keepdims=True) + 1e-5)


def _in_tenon(arrays: Sequence[Array]) -> Runner:
    import tenon

    def attend(place: Any, q: Any, k: Any, v: Any, keys: Any, values: Any) -> Any:
        keys = tenon.dynamic_update_slice(keys, k, (0, place, 0))
        values = tenon.dynamic_update_slice(values, v, (0, place, 0))
        scores = q @ tenon.transpose(keys, (0, 2, 1)) * SIZE**-0.5
        scores = tenon.select(tenon.iota(shape=(TOKENS,)) <= place, scores, -np.inf)
        return tenon.softmax(scores) @ values, keys, values

    def step(place: Any, x: Any, kept: Any, weights: Any) -> Any:
        return _step(tenon, partial(attend, place), tenon.gelu, x, kept, weights)

    return _keeping(tenon.jit(step, donate=("kept",)), np.array(PLACE), *_parts([a.copy() for a in arrays]))


def _in_jax(arrays: Sequence[Array]) -> Runner:
    import jax
    from jax import numpy as jnp

    class Functions:
        mean, rsqrt = staticmethod(jnp.mean), staticmethod(jax.lax.rsqrt)

    def attend(place: Any, q: Any, k: Any, v: Any, keys: Any, values: Any) -> Any:
        keys = jax.lax.dynamic_update_slice(keys, k, (0, place, 0))
        values = jax.lax.dynamic_update_slice(values, v, (0, place, 0))
        scores = q @ jnp.transpose(keys, (0, 2, 1)) * SIZE**-0.5
        scores = jnp.where(jnp.arange(TOKENS) <= place, scores, -jnp.inf)
        return jax.nn.softmax(scores) @ values, keys, values

    def step(place: Any, x: Any, kept: Any, weights: Any) -> Any:
        gelu = partial(jax.nn.gelu, approximate=False)
        return _step(Functions, partial(attend, place), gelu, x, kept, weights)

    given = [jax.device_put(a) for a in arrays]
    runner = _keeping(jax.jit(step, donate_argnums=2), np.array(PLACE), *_parts(given))
    return Runner(lambda: jax.block_until_ready(runner.run()), runner.read)


def _in_torch(arrays: Sequence[Array]) -> Runner:
    import torch

    class Functions:
        rsqrt = staticmethod(torch.rsqrt)

        @staticmethod
        def mean(x: Any, axis: int, keepdims: bool) -> Any:
            return x.mean(axis, keepdim=keepdims)

    def attend(q: Any, k: Any, v: Any, keys: Any, values: Any) -> Any:
        keys[:, PLACE : PLACE + 1], values[:, PLACE : PLACE + 1] = k, v
        seen = keys[:, : PLACE + 1], values[:, : PLACE + 1]
        return torch.nn.functional.scaled_dot_product_attention(q, *seen), keys, values

    torch.set_num_threads(thread_count())
    x, kept, weights = _parts([torch_tensor(a) for a in arrays])

    def run() -> Any:
        with torch.inference_mode():
            return _step(Functions, attend, torch.nn.functional.gelu, x, kept, weights)[0]

    return Runner(run, lambda result: [result.numpy()])


def _parts(arrays: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    return arrays[0], list(arrays[1 : 1 + KEPT]), list(arrays[1 + KEPT :])


def _keeping(step: Any, place: Array, x: Any, kept: list[Any], weights: list[Any]) -> Runner:
    """What is kept after a call is given to the next one."""

    def run() -> Any:
        nonlocal kept
        result, kept = step(place, x, kept, weights)
        return result

    return Runner(run, lambda result: [np.asarray(result)])


WORKLOADS = (
    Workload(
        "decode-12x768-at-1022",
        "Decoding",
        _inputs,
        {"tenon": _in_tenon, "torch": _in_torch, "jax": _in_jax},
        exact="torch",
        tolerance=1e-4,
        reads=4.0 * LAYERS * (12 * WIDTH * WIDTH + 2 * TOKENS * WIDTH),
        writes=4.0 * 2 * LAYERS * WIDTH,
        target=Target(best=1.3),
    ),
)
