"""The light networks of the `onnx` package: as they are, and with weights that are random instead of all the same."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tenon
from tenon.onnx import load

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
TOLERANCE = 1e-4


@dataclass(frozen=True)
class LightOutcome:
    """How a network went: the largest error over the largest value, and the seconds that its steps took."""

    name: str
    error: str = ""
    deviation: float = math.nan
    cold: float = math.nan
    cached: float = math.nan
    run: float = math.nan

    @property
    def row(self) -> str:
        """The row of the table."""
        verdict = "failed" if self.error else "passed"
        times = " | ".join(f"{seconds:.2f} s" for seconds in (self.cold, self.cached, self.run))
        return f"| {self.name} | {verdict} | {self.deviation:.1e} | {times} |"

    @property
    def shipped_row(self) -> str:
        """The row of the table of networks as they are shipped."""
        return f"| {self.name} | {'failed' if self.error else 'passed'} | {self.deviation:.1e} |"


SHIPPED_HEADER = ["| network | verdict | max error / max value |", "|---|---|---|"]
HEADER = [
    "| network | verdict | max error / max value | import and compile, cold | from the disk cache | one run |",
    "|---|---|---|---|---|---|",
]


def names() -> list[str]:
    """The networks' names."""
    return sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx"))


def as_shipped(name: str) -> onnx.ModelProto:
    """The network; the input of a closing Softmax, which hides errors, is an output as well."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(last.input[0]))
    return model


def with_random_weights(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network, its constant weights replaced by random ones that keep the size of activations."""
    model = as_shipped(name)
    graph = model.graph
    generator = np.random.default_rng(seed)
    positive = _positive(graph)
    shapes = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    filled = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    weights = {node.output[0]: tuple(shapes[node.input[0]].tolist()) for node in filled}
    weights |= {n: array.shape for n, array in shapes.items() if array.dtype == np.float32}
    kept = [t for t in graph.initializer if t.name not in weights]
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)
    for weight, shape in weights.items():
        graph.initializer.append(onnx.numpy_helper.from_array(_random(generator, shape, weight in positive), weight))
    return model


def _positive(graph: Any) -> set[str]:
    """Scales and variances: what multiplies or divides channels."""
    names = {node.input[i] for node in graph.node if node.op_type == "BatchNormalization" for i in (1, 4)}
    factors = {name for node in graph.node if node.op_type == "Mul" for name in node.input}
    return names | {node.input[0] for node in graph.node if node.op_type == "Unsqueeze" and node.output[0] in factors}


def _random(generator: np.random.Generator, shape: tuple[int, ...], is_positive: bool) -> np.ndarray[Any, Any]:
    if is_positive:
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    values = generator.standard_normal(shape, np.float32)
    fan_in = math.prod(shape[1:]) if len(shape) > 1 else 100
    return values * np.float32(math.sqrt((2 if len(shape) > 1 else 1) / fan_in))


def outcome_of(name: str, model: onnx.ModelProto) -> LightOutcome:
    """Compile the network cold and from the cache, each in a process of its own, and compare with onnxruntime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.onnx")
        onnx.save(model, path)
        context = get_context("fork")
        results: list[Any] = []
        for step in (_compare, _compile):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_apart, args=(step, path, sender))
            process.start()
            sender.close()
            try:
                results.append(receiver.recv())
            except EOFError:
                results.append("crashed")
            process.join()
    cold, cached = results
    if isinstance(cold, str) or isinstance(cached, str):
        return LightOutcome(name, cold if isinstance(cold, str) else cached)
    seconds, run, deviation = cold
    error = "" if deviation <= TOLERANCE else f"max error / max value is {deviation:.1e}"
    return LightOutcome(name, error, deviation, seconds, cached, run)


def _apart(step: Any, path: Path, sender: Any) -> None:
    with tenon.knobs.override(cache_dir=path.parent / "cache"):
        try:
            result = step(path)
        except Exception as error:
            result = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
        sender.send(result)
    sender.close()
    sys.stderr.flush()
    os._exit(0)


def _compile(path: Path) -> float:
    started = time.perf_counter()
    load(path).compile()
    return time.perf_counter() - started


def _compare(path: Path) -> tuple[float, float, float]:
    """Seconds to compile and to run, and the deviation from onnxruntime."""
    import onnxruntime

    started = time.perf_counter()
    model = load(path)
    model.compile()
    compiled = time.perf_counter() - started
    generator = np.random.default_rng(1)
    inputs = {info.name: generator.standard_normal(_sizes(info.shape)).astype(info.dtype) for info in model.inputs}
    started = time.perf_counter()
    actual = model(**inputs)
    run = time.perf_counter() - started
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected: Any = session.run([info.name for info in model.outputs], inputs)
    deviations: list[float] = []
    for mine, other in zip(actual, expected, strict=True):
        assert mine.shape == other.shape, f"shape {mine.shape} where {other.shape} is right"
        assert np.isfinite(other).all(), "the expected values are not finite"
        deviations.append(float(np.abs(mine - other).max() / (np.abs(other).max() or 1)))
    return compiled, run, float(np.max(deviations))


def _sizes(shape: Any) -> tuple[int, ...]:
    assert shape is not None
    return tuple(size if isinstance(size, int) else 1 for size in shape)
