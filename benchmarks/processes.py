"""Workloads that need a process of their own: compiling, starting from the disk cache, and memory.

Each contestant's measurement is a fresh interpreter that runs `python -m benchmarks.child`, with a folder of its own
for what the frameworks keep on disk: emptied before a cold compilation, filled before a start.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from benchmarks import environment
from benchmarks.harness import Row, ratios_of
from benchmarks.workload import Target

Task = Literal["compile", "start", "memory", "plan"]
FIGURES = {"compile": "first", "start": "first", "memory": "peak", "plan": "planned"}
SLOW = ("torch.compile",)
"""Measured once instead of three times."""
EXACT = ("plan",)
"""Tasks whose answer is the same each time."""
ROUNDS = 3


@dataclass(frozen=True)
class ProcessWorkload:
    """A task about the training step of a network. `figure` is what of a child's answer is compared."""

    name: str
    section: str
    task: Task
    network: str
    contestants: tuple[str, ...]
    target: Target = field(default_factory=Target)
    figure: str = ""
    threads: int | None = None
    has_limit: bool = False


@dataclass(frozen=True)
class Caches:
    """The folders in which the frameworks keep what they compiled."""

    root: Path

    def folder(self, framework: str, network: str) -> Path:
        """The folder of one framework for one network."""
        return self.root / framework / network

    def variables(self, folder: Path) -> dict[str, str]:
        """The environment variables that point the frameworks there."""
        return {"TENON_CACHE_DIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder)}


def run_child(arguments: Sequence[str], threads: int, extra: dict[str, str], timeout: float = 600) -> dict[str, Any]:
    """The answer of a child process; raises `RuntimeError` with the last line that a failed one said."""
    command = [sys.executable, "-m", "benchmarks.child", *arguments]
    completed = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env=environment.variables(threads) | extra,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    if completed.returncode != 0:
        lines = [line for line in completed.stderr.splitlines() if line.strip()]
        raise RuntimeError(lines[-1][:200] if lines else f"exit status {completed.returncode}")
    return json.loads(completed.stdout.splitlines()[-1])


def measure_in_processes(workload: ProcessWorkload, threads: int, wanted: Sequence[str], caches: Caches) -> Row:
    """The medians of what the children answer, contestants in turns; all train to the same loss or are not counted."""
    row = Row(workload.name, workload.section, threads, workload.target)
    row.unit = "B" if workload.task in ("memory", "plan") else "s"
    figure = workload.figure or FIGURES[workload.task]
    names = [name for name in workload.contestants if name == "tenon" or name in wanted]
    samples: dict[str, list[float]] = {name: [] for name in names}
    losses: dict[str, float] = {}
    for turn in range(ROUNDS):
        for name in names:
            if name in row.absent or ((name in SLOW or workload.task in EXACT) and turn > 0):
                continue
            folder = caches.folder(name, workload.network)
            arguments = [workload.task, name, workload.network, str(folder)]
            try:
                if workload.task == "compile":
                    shutil.rmtree(folder, ignore_errors=True)
                elif not folder.exists():
                    run_child(arguments, threads, caches.variables(folder))
                answer = run_child(arguments, threads, caches.variables(folder))
            except RuntimeError as error:
                row.absent[name] = str(error)
                del samples[name]
                continue
            samples[name].append(answer[figure])
            losses[name] = answer["loss"]
            if "bound" in answer:
                row.limit, row.binds = answer["bound"], "the liveness bound"
    reference = median(losses.values()) if losses else 0.0
    row.errors = {name: abs(loss - reference) / abs(reference) for name, loss in losses.items()}
    for name in [name for name, error in row.errors.items() if error > 1e-3]:
        row.absent[name] = f"trains to another loss, {losses[name]:.6g} where {reference:.6g} is right"
        del samples[name]
    row.seconds = {name: median(taken) for name, taken in samples.items()}
    row.fastest = {name: min(taken) for name, taken in samples.items()}
    row.ratios = ratios_of({name: [seconds] for name, seconds in row.seconds.items()})
    return row


def temporary_caches() -> Caches:
    """Folders below the build folder."""
    root = Path(__file__).parents[1] / "build" / "benchmark-caches"
    os.makedirs(root, exist_ok=True)
    return Caches(root)
