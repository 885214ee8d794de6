"""What a call costs: the sum of two arrays of 16 numbers, a third one made for it or given."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.workload import Target, Workload, in_f64, normal

SECTION = "Calls"


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _into(x: Any, y: Any, target: Any) -> Any:
    import torch

    return torch.add(x, y, out=target)


FACTORS = {"numpy": 2.5, "torch": 10.0, "jax": 30.0}

WORKLOADS = (
    Workload(
        "call-16",
        SECTION,
        lambda: (normal(16), normal(16)),
        {
            "tenon": peers.tenon(_sum),
            "numpy": peers.numpy(operator.add),
            "torch": peers.torch(operator.add, differentiates=True),
            "jax": peers.jax(_sum),
        },
        exact=in_f64(_sum),
        has_limit=False,
        target=Target(peers=FACTORS),
        threads=1,
    ),
    Workload(
        "call-16-out",
        SECTION,
        lambda: (normal(16), normal(16), np.zeros(16, np.float32)),
        {
            "tenon": peers.tenon_into_last(_sum),
            "numpy": peers.numpy(np.add),
            "torch": peers.torch(_into, differentiates=True),
        },
        exact=in_f64(lambda x, y, _: x + y),
        has_limit=False,
        target=Target(peers={"numpy": 2.5, "torch": 10.0}),
        threads=1,
    ),
)
