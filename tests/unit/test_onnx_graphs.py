"""Random ONNX graphs give what onnxruntime gives; those that once failed, as well."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import numpy as np
import onnx_graphs
import onnxruntime
import pytest
from onnx_draw import draw
from onnx_graphs import Graph, smaller
from seeds import run_seed

import tenon

COUNT = 60
SECONDS_TO_SHRINK = 60


class Undecided(Exception):
    """Onnxruntime does not run the graph, or rounding decides what it gives."""


def drawn(seed: object, number: int) -> Graph:
    """The graph of this number in a run with this seed."""
    return draw(Random(f"{seed}-{number}"))


def network_of(text: str) -> Graph:
    """The graph that prints as this."""
    return eval(text, dict(vars(onnx_graphs)))


def check(graph: Graph) -> None:
    """Raise `AssertionError`, or what the importer or the compiler raises, if results differ."""
    model, feeds = graph.model(), graph.feeds()
    expected, moved = _by_onnxruntime(model, feeds)
    results = tenon.onnx.load(model)(*feeds.values())
    assert len(results) == len(expected)
    for number, (got, exact, others) in enumerate(zip(results, expected, moved, strict=True)):
        where = f"result {number} of {len(results)}"
        assert got.shape == exact.shape, f"{where}: shape {got.shape} instead of {exact.shape}"
        assert got.dtype == exact.dtype, f"{where}: dtype {got.dtype} instead of {exact.dtype}"
        if exact.dtype.kind != "f":
            np.testing.assert_array_equal(got, exact, where)
            continue
        conditioned = max((float(abs(other - exact).max(initial=0)) for other in others), default=0.0)
        allowed = 16 * conditioned + 1e-5 * (1 + float(abs(exact).max(initial=0)))
        np.testing.assert_allclose(got, exact, rtol=0, atol=allowed, err_msg=where)


def _by_onnxruntime(model: Any, feeds: dict[str, Any]) -> tuple[list[Any], list[list[Any]]]:
    """What onnxruntime gives, and for each result what it gives for inputs that differ in their last bit."""
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        exact: list[Any] = list(session.run(None, feeds))
        runs: list[Any] = []
        for sign in (1, -1):
            pattern = {n: np.where(np.arange(x.size).reshape(x.shape) % 2, sign, -sign) for n, x in feeds.items()}
            shifted = {n: (x * (1 + 1.5e-7 * pattern[n])).astype(x.dtype) if x.dtype.kind == "f" else x
                       for n, x in feeds.items()}  # fmt: skip
            runs.append(session.run(None, shifted))
    except Exception as error:
        raise Undecided(f"onnxruntime: {error}") from None
    for number, result in enumerate(exact):
        if result.dtype.kind == "f":
            if not np.isfinite(result).all() or abs(result).max(initial=0) > 1e6:
                raise Undecided("numbers are too large to compare")
            if any(abs(run[number] - result).max(initial=0) > 1e-3 * (1 + abs(result).max(initial=0)) for run in runs):
                raise Undecided("rounding decides")
        elif any(not np.array_equal(run[number], result) for run in runs):
            raise Undecided("rounding decides")
    return exact, [list(of_one) for of_one in zip(*runs, strict=True)]


def failure(graph: Graph) -> Exception | None:
    try:
        check(graph)
    except Undecided:
        return None
    except Exception as error:
        return error
    return None


def report(graph: Graph, error: Exception, seconds: float) -> str:
    """The smallest graph that fails in this way, as Python."""
    small, end, progress = graph, time.monotonic() + seconds, True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in smaller(small):
            found = failure(candidate)
            if type(found) is type(error):
                small, progress = candidate, True
                break
    found = failure(small)
    return f"{type(error).__name__}: {error}\n  drawn:  {graph!r}\n  shrunk: {small!r}\n  which gives: {found!r}"


@pytest.mark.parametrize("number", range(COUNT))
def test_a_random_graph_gives_what_onnxruntime_gives(number: int) -> None:
    graph = drawn(run_seed(), number)
    try:
        check(graph)
    except Undecided as reason:
        pytest.skip(f"{reason}: {graph!r}")
    except Exception as error:
        raise AssertionError(report(graph, error, SECONDS_TO_SHRINK)) from error
