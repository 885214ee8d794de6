"""Inference of resnet50, with weights that stay as they are: constants for onnxruntime, frozen arguments for Tenon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks import peers
from benchmarks.peers import Array, Preparation, Runner
from benchmarks.workload import Target, Workload, generator

SECTION = "Networks"
OPERATIONS = 8.18e9
"""Of the convolutions and the last layer on one image, a multiply-add being two."""


def _tenon(batch: int) -> Preparation:
    def prepare(arrays: Sequence[Array]) -> Runner:
        import tenon.onnx
        from benchmarks.networks import resnet50

        model = tenon.onnx.load(resnet50.model(batch)).freeze()
        return Runner(lambda: model(*arrays), list)

    return prepare


def _onnxruntime(batch: int) -> Preparation:
    def prepare(arrays: Sequence[Array]) -> Runner:
        from benchmarks.networks import resnet50

        return peers.onnx_session(resnet50.model(batch), arrays)

    return prepare


def _torch(batch: int, channels_last: bool) -> Preparation:
    def prepare(arrays: Sequence[Array]) -> Runner:
        from benchmarks.networks import resnet50

        graph = resnet50.model(batch).graph
        weights = {name: peers.torch_tensor(a) for name, a in resnet50.arrays(graph).items()}
        if channels_last:
            weights = {name: peers.channels_last(tensor) for name, tensor in weights.items()}
        ops = resnet50.torch_ops()

        def function(images: Any) -> Any:
            return resnet50.walk(graph, ops, weights, images)

        return peers.torch(function, convert=peers.channels_last if channels_last else None)(arrays)

    return prepare


def _jax(batch: int) -> Preparation:
    def prepare(arrays: Sequence[Array]) -> Runner:
        import jax

        from benchmarks.networks import resnet50

        graph = resnet50.model(batch).graph
        weights = {name: jax.device_put(a) for name, a in resnet50.arrays(graph).items()}
        ops = resnet50.jax_ops()
        compiled = jax.jit(lambda weights, images: resnet50.walk(graph, ops, weights, images))
        images = jax.device_put(arrays[0])
        return Runner(lambda: jax.block_until_ready(compiled(weights, images)), lambda result: [result])

    return prepare


def _resnet50(batch: int) -> Workload:
    return Workload(
        f"resnet50-{batch}",
        SECTION,
        lambda: (generator().standard_normal((batch, 3, 224, 224), "float32"),),
        {
            "tenon": _tenon(batch),
            "torch": _torch(batch, channels_last=False),
            "onednn": _torch(batch, channels_last=True),
            "onnxruntime": _onnxruntime(batch),
            "jax": _jax(batch),
        },
        exact="onnxruntime",
        tolerance=1e-4,
        operations=OPERATIONS * batch,
        target=Target(best=1.1),
    )


WORKLOADS = (_resnet50(1), _resnet50(8))
