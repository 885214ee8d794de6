"""Whole training steps: forward, backward and Adam, from the same parameters on the same batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.networks import NETWORKS, Problem, operations, problem
from benchmarks.peers import Array, Preparation, Runner, thread_count
from benchmarks.workload import Target, Workload

SECTION = "Training steps"
CHECKED_STEPS = 4
TARGETS = {"mlp": Target(best=1.3), "lenet": Target(best=2.5), "transformer": Target(best=1.8)}


def stepper(framework: str, network: str, start: Problem) -> Callable[[], Any]:
    """A function that trains for a step and gives the loss."""
    if framework == "tenon":
        from benchmarks.networks import in_tenon

        return in_tenon.stepper(network, start)
    if framework == "jax":
        from benchmarks.networks import in_jax

        return in_jax.stepper(network, start)
    import torch

    from benchmarks.networks import in_torch

    torch.set_num_threads(thread_count())
    return in_torch.stepper(network, start, compiled=framework == "torch.compile")


def _contestant(framework: str, network: str) -> Preparation:
    def prepare(_: Sequence[Array]) -> Runner:
        step = stepper(framework, network, problem(network))
        # the loss is compared after a few steps, since the first one says nothing of gradients
        return Runner(step, lambda _: [np.array([float(step()) for _ in range(CHECKED_STEPS)])])

    return prepare


def _training(network: str) -> Workload:
    return Workload(
        f"train-{network}",
        SECTION,
        lambda: (),
        {name: _contestant(name, network) for name in ("tenon", "torch", "torch.compile", "jax")},
        exact="torch",
        tolerance=1e-4,
        operations=operations(network),
        target=TARGETS[network],
    )


WORKLOADS = tuple([_training(network) for network in NETWORKS])
