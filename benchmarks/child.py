"""What runs in a process of its own: `python -m benchmarks.child TASK …`, which answers with a line of JSON.

`rows NAME… ` measures workloads and answers with a line for each. `compile`, `start` and `memory` take a framework, a
network and the folder of its caches, and train for a few steps; `plan` says what scratch memory the compiled step has.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

STEPS = 3


def _answer(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


def measure_rows(names: Sequence[str], threads: int, peers: Sequence[str], seconds: float) -> None:
    """A line of JSON for each workload; one that cannot be measured says why."""
    from benchmarks import harness, limits, workloads
    from benchmarks.workload import Workload

    if not names:
        _answer({"limits": limits.measured(threads)})
    for workload in workloads.select(names) if names else []:
        assert isinstance(workload, Workload)
        try:
            row = harness.measure(workload, threads, peers, seconds)
        except Exception as error:
            row = harness.Row(workload.name, workload.section, threads, workload.target)
            row.absent["tenon"] = f"{type(error).__name__}: {error}"[:300]
        _answer(row.to_json())


def _resident(field: str) -> int:
    """Bytes of this process's memory: `VmRSS` now, `VmHWM` at most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def _use_persistent_cache(folder: str) -> None:
    import jax

    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _import(framework: str) -> None:
    if framework == "tenon":
        from benchmarks.networks import in_tenon  # noqa: F401
    elif framework == "jax":
        from benchmarks.networks import in_jax  # noqa: F401
    else:
        from benchmarks.networks import in_torch  # noqa: F401


def _planned(framework: str, network: str) -> dict[str, float]:
    """Bytes of scratch memory that the compiled step has, and for Tenon the least that any plan needs."""
    from benchmarks.networks import problem

    start = problem(network)
    if framework == "tenon":
        from benchmarks.networks import in_tenon

        model, state = in_tenon.start(network, start)
        memory = in_tenon.train_step.compile(model, state, start.inputs, start.labels).memory()
        return {"planned": memory.peak, "bound": memory.lower_bound}
    from benchmarks.networks import in_jax

    p, state = in_jax.start(start)
    compiled = in_jax.train_step.lower(network, p, state, start.inputs, start.labels).compile()
    return {"planned": compiled.memory_analysis().temp_size_in_bytes}


def train(task: str, framework: str, network: str, folder: str) -> None:
    """Train a few steps: seconds of imports and of the first step, memory at most over that before the model."""
    from benchmarks.workloads.training import prepared

    before = time.perf_counter()
    _import(framework)
    imported = time.perf_counter() - before
    if framework == "jax" and task != "compile":
        _use_persistent_cache(folder)
    start = prepared(framework, network)
    resident = 0
    if task == "memory":
        Path("/proc/self/clear_refs").write_text("5")  # the largest size so far is forgotten
        resident = _resident("VmRSS")
    step = start()
    before = time.perf_counter()
    loss = float(step())
    now = time.perf_counter()
    for _ in range(STEPS - 1):
        loss = float(step())
    answer = _planned(framework, network) if task == "plan" else {}
    answer |= {"import": imported, "first": now - before, "process": now - STARTED, "loss": loss}
    if task == "memory":
        answer["peak"] = _resident("VmHWM") - resident
    _answer(answer)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser()
    tasks = parser.add_subparsers(dest="task", required=True)
    rows = tasks.add_parser("rows")
    rows.add_argument("names", nargs="*")
    rows.add_argument("--threads", type=int, required=True)
    rows.add_argument("--peers", default="")
    rows.add_argument("--seconds", type=float, required=True)
    for task in ("compile", "start", "memory", "plan"):
        trains = tasks.add_parser(task)
        trains.add_argument("framework")
        trains.add_argument("network")
        trains.add_argument("folder")
    options = parser.parse_args()
    from benchmarks import environment
    from benchmarks.peers import thread_count

    environment.pin(thread_count())
    if options.task == "rows":
        measure_rows(options.names, options.threads, [*filter(None, options.peers.split(","))], options.seconds)
    else:
        train(options.task, options.framework, options.network, options.folder)


if __name__ == "__main__":
    sys.exit(main())
