"""The node tests of the `onnx` package, run on Tenon by a loop of our own.

Every test of a list counts: what is unsupported, skipped, crashes or takes too long is a failure. Tolerances and
comparison are the suite's. Each test runs in a process of its own, in which nothing was compiled before; its cold time
is that of reading the model, compiling it with the disk cache off, and running it.

    python tests/conformance/onnx_nodes.py                  the lists, with scores and failures
    python tests/conformance/onnx_nodes.py --only softmax   the tests whose names match
    python tests/conformance/onnx_nodes.py --light          the light networks, against onnxruntime
    python tests/conformance/onnx_nodes.py --write PAGE     both, and a page of results
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import tenon
from tenon.onnx import load

HERE = Path(__file__).parent
LISTS = {"core": HERE / "onnx_core_dev_tests.txt", "wide": HERE / "onnx_wide_dev_tests.txt", "all": None}
"""The lists by name; `None` stands for every test that the installed package has."""
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a test went: `error` is empty where it passed."""

    name: str
    error: str
    seconds: float
    details: str = ""


# --- one test -------------------------------------------------------------------------------------


def as_array(value: Any) -> Any:
    """A test's input or output as an array; lists (sequences) stay lists."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def run_case(case: Any) -> tuple[float, list[tuple[Any, Sequence[Any]]]]:
    """Seconds from the model's bytes to the first results, and expected and actual outputs of each data set."""
    data_sets = [([as_array(x) for x in inputs], [as_array(x) for x in outputs]) for inputs, outputs in case.data_sets]
    data = case.model.SerializeToString()
    pairs: list[tuple[Any, Sequence[Any]]] = []
    seconds = 0.0
    with tenon.knobs.override(cache=False):
        started = time.perf_counter()
        model = load(data)
        for inputs, outputs in data_sets:
            pairs.append((outputs, model(*inputs)))
            seconds = seconds or time.perf_counter() - started
    return seconds, pairs


def in_rows(expected: Sequence[Any], actual: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The tensors of both; sequences, which the suite would compare row by row, have to be as long."""
    rows: tuple[list[Any], list[Any]] = [], []
    assert len(expected) == len(actual), f"{len(actual)} values where {len(expected)} are expected"
    for wanted, given in zip(expected, actual, strict=True):
        assert isinstance(wanted, list) == isinstance(given, list), f"a {type(given).__name__} for {wanted}"
        first, second = in_rows(wanted, given) if isinstance(wanted, list) else ([wanted], [given])
        rows[0].extend(first)
        rows[1].extend(second)
    return rows


def outcome_of(case: Any) -> Outcome:
    """Run a test and compare as the suite does: shapes and dtypes exactly, values within its tolerances."""
    started = time.perf_counter()
    try:
        seconds, pairs = run_case(case)
        for expected, actual in pairs:
            Runner.assert_similar_outputs(*in_rows(expected, actual), rtol=case.rtol, atol=case.atol)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = " ".join(lines[:3]) if isinstance(error, AssertionError) else (lines[0] if lines else "")
        details = "".join(traceback.format_exception(error))
        return Outcome(case.name, f"{type(error).__name__}: {text}", time.perf_counter() - started, details)
    return Outcome(case.name, "", seconds)


# --- many tests -----------------------------------------------------------------------------------


def run_apart(cases: Sequence[Any], function: Callable[[Any], Outcome], jobs: int) -> Iterator[Outcome]:
    """`function` of every case, each in a process of its own, `jobs` at a time; a crash is an outcome too."""
    context = multiprocessing.get_context("fork")
    pending = list(reversed(cases))
    running: dict[Connection, tuple[Any, Any, float]] = {}
    while pending or running:
        while pending and len(running) < jobs:
            case = pending.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(function, case, sender))
            process.start()
            sender.close()
            running[receiver] = process, case, time.perf_counter()
        ready: set[Any] = {*wait(list(running), timeout=1.0)}
        late: set[Any] = {c for c, (_, _, started) in running.items() if time.perf_counter() - started > TIME_LIMIT}
        for connection in ready | late:
            process, case, started = running.pop(connection)
            if connection in ready:
                try:
                    outcome = connection.recv()
                except EOFError:
                    process.join()
                    outcome = Outcome(case.name, f"crashed with status {process.exitcode}", 0.0)
            else:
                process.kill()
                outcome = Outcome(case.name, f"took more than {TIME_LIMIT:.0f} s", time.perf_counter() - started)
            process.join()
            connection.close()
            yield outcome


def _child(function: Callable[[Any], Outcome], case: Any, sender: Connection) -> None:
    # What the process shares with its parent is left where it is, and nothing of the parent is torn down.
    sys.stderr.flush()
    sender.send(function(case))
    sender.close()
    os._exit(0)


def warm_up() -> None:
    """Import what compiling needs, so that a test's time is that of its own work."""
    tensor = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "warm", [tensor], [result])
    with tenon.knobs.override(cache=False):
        load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]))(np.ones(1, np.float32))


@cache
def node_cases() -> dict[str, Any]:
    """The suite's node tests by name."""
    with warnings.catch_warnings():
        # Expected values are computed by NumPy, on extremes too.
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def listed(name: str) -> list[str]:
    """The tests of a list."""
    if (path := LISTS[name]) is None:
        return sorted(node_cases())
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]


def _percentile(seconds: Sequence[float], fraction: float) -> float:
    return float(np.quantile(seconds, fraction)) if seconds else 0.0


def report(outcomes: dict[str, Outcome], lists: dict[str, list[str]]) -> list[str]:
    """A Markdown table of scores and cold times, with a row per list."""
    lines = ["| list | tests | passed | median cold | 90th percentile |", "|---|---|---|---|---|"]
    for name, tests in lists.items():
        passed = [outcomes[t].seconds for t in tests if not outcomes[t].error]
        median, high = (f"{1e3 * _percentile(passed, q):.0f} ms" for q in (0.5, 0.9))
        score = f"{len(passed)} ({100 * len(passed) / max(len(tests), 1):.1f} %)"
        lines.append(f"| {name} | {len(tests)} | {score} | {median} | {high} |")
    return lines


def run_nodes(options: argparse.Namespace) -> tuple[list[str], dict[str, Outcome]]:
    """Run the lists (or what `--only` matches) and print what fails."""
    cases = node_cases()
    lists = {name: listed(name) for name in options.lists}
    if options.only:
        matches = re.compile(options.only).search
        lists = {name: [t for t in tests if matches(t)] for name, tests in lists.items()}
    names = sorted({test for tests in lists.values() for test in tests})
    outcomes = {name: Outcome(name, "there is no such test in this version of onnx", 0.0) for name in names}
    warm_up()
    gc.collect()
    gc.freeze()
    for outcome in run_apart([cases[n] for n in names if n in cases], outcome_of, options.jobs):
        outcomes[outcome.name] = outcome
        if options.verbose and outcome.error:
            print(f"--- {outcome.name}\n{outcome.details or outcome.error}", flush=True)
    lines = report(outcomes, lists)
    failures = [outcome for outcome in outcomes.values() if outcome.error]
    for outcome in failures:
        print(f"FAILED {outcome.name}: {outcome.error[:300]}")
    if options.times:
        for outcome in sorted(outcomes.values(), key=lambda o: -o.seconds)[: options.times]:
            print(f"{1e3 * outcome.seconds:8.0f} ms  {outcome.name}")
    return lines, outcomes


def run_light(options: argparse.Namespace) -> tuple[list[str], bool]:
    """Run the light networks one after the other: their tables, and whether all agree with onnxruntime."""
    import light_networks

    chosen = [name for name in light_networks.names() if not options.only or re.search(options.only, name)]
    shipped = [light_networks.outcome_of(name, light_networks.as_shipped(name)) for name in chosen]
    random = [light_networks.outcome_of(name, light_networks.with_random_weights(name)) for name in chosen]
    lines = [
        "As they are shipped: every weight of a layer is the same number, part of the program.",
        "",
        *light_networks.SHIPPED_HEADER,
        *[outcome.shipped_row for outcome in shipped],
        "",
        "With random weights (seed 0) in place of the constant ones:",
        "",
        *light_networks.HEADER,
        *[outcome.row for outcome in random],
    ]
    print("\n".join(lines), flush=True)
    failures = [outcome for outcome in (*shipped, *random) if outcome.error]
    for outcome in failures:
        print(f"FAILED {outcome.name}: {outcome.error}", flush=True)
    return lines, not failures


def document(scores: Sequence[str], failures: Sequence[Outcome], networks: Sequence[str]) -> str:
    """The page of results."""
    failed = [f"- `{outcome.name}`: {outcome.error[:200]}" for outcome in failures] or ["None."]
    return "\n".join(
        [
            "# Conformance",
            "",
            f"What Tenon computes for the tests that come with the `onnx` package ({onnx.__version__}), on the CPU.",
            "`make conformance` runs them and writes this page.",
            "",
            "## Node tests",
            "",
            "Tests that are unsupported, skipped, crash or take more than a minute count as failures. Shapes and",
            "dtypes have to agree exactly, values within the suite's tolerances (rtol 1e-3, atol 1e-7; two units in",
            "the last place for bf16), compared by the suite's own function, and sequences tensor by tensor. The cold",
            "time is that of reading a model, compiling it in a process that has compiled nothing of the kind before,",
            "without the disk cache, and running it; Tenon's modules are imported already.",
            "",
            *scores,
            "",
            "Failures:",
            "",
            *failed,
            "",
            "## Light networks",
            "",
            "The nine networks on random images, compared with onnxruntime: the largest error over the largest value",
            "of each output. The input of a closing Softmax is an output, too. At most 1e-4 passes. Each is compiled",
            "in a process of its own, imports included.",
            "",
            *networks,
            "",
        ]
    )


def main() -> int:
    """Run what the command line asks for; the exit status is 1 where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PATTERN", help="run the tests whose names match this regular expression")
    parser.add_argument("--lists", nargs="+", default=list(LISTS), choices=list(LISTS), help="the lists to run")
    parser.add_argument("--light", action="store_true", help="run the light networks instead of the node tests")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="run both and write the page of results")
    parser.add_argument("--jobs", type=int, default=2, help="how many tests run at once")
    parser.add_argument("--times", type=int, default=0, metavar="N", help="print the N slowest tests")
    parser.add_argument("--verbose", action="store_true", help="print the tracebacks of failures")
    options = parser.parse_args()
    networks, agree = run_light(options) if options.light or options.write else ([], True)
    if options.light:
        return not agree
    scores, outcomes = run_nodes(options)
    print("\n".join(scores))
    failures = [outcome for outcome in outcomes.values() if outcome.error]
    if options.write:
        options.write.write_text(document(scores, failures, networks))
    return bool(failures) or not agree


if __name__ == "__main__":
    sys.exit(main())
