"""Random numbers: a million uniform and normal ones. Their first two moments are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import Workload

COUNT = 1_000_000


def _key() -> tuple[Array]:
    return (np.array([1, 2], np.uint32),)


def _moments(result: Array, exact: Array) -> float:
    """How far mean and standard deviation are from the `exact` ones."""
    return float(np.abs(np.array([result.mean(dtype=np.float64), result.std(dtype=np.float64)]) - exact).max())


def _workload(name: str, moments: tuple[float, float], tenon: Any, torch: Any, jax: Any, numpy: Any) -> Workload:
    generator = np.random.default_rng(0)
    return program(
        f"{name}-1e6",
        "Random numbers",
        _key,
        tenon=tenon,
        torch=lambda torch_, key: torch(torch_),
        jax=lambda jax_, key: jax(jax_.random, jax_.random.wrap_key_data(key)),
        numpy=lambda np_, key: numpy(generator),
        exact=lambda key: np.array(moments),
        error=_moments,
        tolerance=5e-3,
    )


WORKLOADS = (
    _workload(
        "uniform",
        (0.5, 12**-0.5),
        lambda tenon, key: tenon.random_uniform(key, shape=(COUNT,)),
        lambda torch: torch.rand(COUNT),
        lambda random, key: random.uniform(key, (COUNT,)),
        lambda generator: generator.random(COUNT, dtype=np.float32),
    ),
    _workload(
        "normal",
        (0.0, 1.0),
        lambda tenon, key: tenon.random_normal(key, shape=(COUNT,)),
        lambda torch: torch.randn(COUNT),
        lambda random, key: random.normal(key, (COUNT,)),
        lambda generator: generator.standard_normal(COUNT, dtype=np.float32),
    ),
)
