"""Whole training steps: forward, backward and the optimizer, from the same parameters on the same batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.networks import NETWORKS, Problem, operations, problem, vision
from benchmarks.peers import Array, Preparation, Runner, thread_count
from benchmarks.workload import Target, Workload

SECTION = "Training steps"
CHECKED_STEPS = 4
TARGETS = {
    "mlp": Target(best=1.3),
    "lenet": Target(best=2.5),
    "transformer": Target(best=1.8),
    "resnet18": Target(best=1.2),
    "mobilenetv2": Target(best=1.2),
    "unet": Target(best=1.3),
    "vit": Target(best=1.3),
}


def prepared(framework: str, network: str) -> Callable[[], Callable[[], Any]]:
    """With data that was drawn: makes a function that trains for a step and gives the loss."""
    if network in vision.NETWORKS:
        return partial(vision.stepper, framework, network, vision.start(network))
    return partial(_stepper, framework, network, problem(network))


def _stepper(framework: str, network: str, start: Problem) -> Callable[[], Any]:
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
        step = prepared(framework, network)()
        # the loss is compared after a few steps, since the first one says nothing of gradients
        return Runner(step, lambda _: [np.array([float(step()) for _ in range(CHECKED_STEPS)])])

    return prepare


def _training(network: str, frameworks: Sequence[str], **options: Any) -> Workload:
    contestants = {name: _contestant(name, network) for name in frameworks}
    return Workload(f"train-{network}", SECTION, lambda: (), contestants, "torch", target=TARGETS[network], **options)


WORKLOADS = (
    *[
        _training(network, ("tenon", "torch", "torch.compile", "jax"), tolerance=1e-4, operations=operations(network))
        for network in NETWORKS
    ],
    *[_training(network, ("tenon", "torch", "jax"), tolerance=1e-3, has_limit=False) for network in vision.NETWORKS],
)
