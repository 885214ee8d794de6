"""Many rows of a few numbers: scores of a few classes, colours, positions in space."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.program import program
from benchmarks.workload import normal

SECTION = "Short rows"


def _softmax(np_: Any, x: Any) -> Any:
    weights = np_.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _log_sum(np_: Any, x: Any) -> Any:
    largest = x.max(-1, keepdims=True)
    return np_.log(np_.exp(x - largest).sum(-1)) + largest[..., 0]


def _normed(np_: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np_.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def _pulls(x: Any) -> Any:
    """The sums of what all bodies at `x` (n, 3) pull each of them with."""
    away = x[:, None, :] - x[None, :, :]
    weights = ((away * away).sum(-1) + 1e-3) ** -1.5
    return (away * weights[:, :, None]).sum(1)


def _our_pulls(x: Any) -> Any:
    away = x[:, None, :] - x[None, :, :]
    weights = ((away * away).sum(axis=-1) + 1e-3) ** -1.5
    return (away * weights[:, :, None]).sum(axis=1)


def _kernel(np_: Any, x: Any) -> Any:
    return np_.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(-1))


WORKLOADS = (
    program(
        "softmax-65536x10",
        SECTION,
        lambda: (normal(65536, 10),),
        tenon=lambda tenon, x: tenon.softmax(x),
        like_numpy=_softmax,
        torch=lambda torch, x: x.softmax(-1),
        jax=lambda jax, x: jax.nn.softmax(x),
    ),
    program(
        "logsumexp-65536x10",
        SECTION,
        lambda: (normal(65536, 10),),
        tenon=lambda tenon, x: tenon.logsumexp(x, axis=-1),
        like_numpy=_log_sum,
        torch=lambda torch, x: x.logsumexp(-1),
        jax=lambda jax, x: jax.nn.logsumexp(x, -1),
    ),
    program(
        "layernorm-65536x16",
        SECTION,
        lambda: (normal(65536, 16),),
        tenon=lambda tenon, x: tenon.layer_norm(x),
        like_numpy=_normed,
        torch=lambda torch, x: torch.nn.functional.layer_norm(x, (16,)),
    ),
    program(
        "argmax-65536x10",
        SECTION,
        lambda: (normal(65536, 10),),
        tenon=lambda tenon, x: tenon.argmax(x, axis=-1),
        like_numpy=lambda np_, x: np_.argmax(x, -1),
        torch=lambda torch, x: x.argmax(-1),
    ),
    program(
        "sum-1e6x3",
        SECTION,
        lambda: (normal(1_000_000, 3),),
        tenon=lambda tenon, x: tenon.sum(x, axis=-1),
        like_numpy=lambda np_, x: x.sum(-1),
        torch=lambda torch, x: x.sum(-1),
    ),
    program(
        "n-body-1500",
        SECTION,
        lambda: (normal(1500, 3),),
        tenon=lambda tenon, x: _our_pulls(x),
        like_numpy=lambda np_, x: _pulls(x),
        torch=lambda torch, x: _pulls(x),
        tolerance=1e-4,
    ),
    program(
        "rbf-kernel-2000x16",
        SECTION,
        lambda: (normal(2000, 16) * np.float32(0.2),),
        tenon=lambda tenon, x: tenon.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=-1)),
        like_numpy=_kernel,
        torch=lambda torch, x: torch.exp(-(torch.cdist(x, x) ** 2)),
        jax=lambda jax, x: _kernel(jax.numpy, x),
        tolerance=1e-4,
    ),
    program(
        "einsum-chain-1000",
        SECTION,
        lambda: (normal(1000, 10), normal(10, 1000), normal(1000, 10)),
        tenon=lambda tenon, *a: tenon.einsum("ij,jk,kl->il", *a),
        like_numpy=lambda np_, *a: np_.einsum("ij,jk,kl->il", *a, optimize=True),
        torch=lambda torch, *a: torch.einsum("ij,jk,kl->il", *a),
        tolerance=1e-4,
    ),
)
