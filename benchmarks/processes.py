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
"""Measured once instead of twice."""
EXACT = ("plan", "memory")
"""Tasks whose answer is the same each time, or almost."""
ROUNDS = 2


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


@dataclass
class Answers:
    """What the children of each contestant answered, and why others have no answer."""

    given: dict[str, list[dict[str, Any]]]
    absent: dict[str, str] = field(default_factory=dict[str, str])


class Children:
    """Child processes that take turns at a task; rows that ask for other figures of the same task share them."""

    def __init__(self, threads: int, wanted: Sequence[str], caches: Caches) -> None:
        """Children with `threads` threads, of the contestants among `wanted` and of Tenon."""
        self.threads = threads
        self._wanted = wanted
        self._caches = caches
        self._known: dict[tuple[Task, str, tuple[str, ...]], Answers] = {}

    def answers(self, workload: ProcessWorkload) -> Answers:
        """The answers to a workload's task."""
        key = (workload.task, workload.network, workload.contestants)
        if key not in self._known:
            self._known[key] = self._asked(workload)
        return self._known[key]

    def _asked(self, workload: ProcessWorkload) -> Answers:
        names = [name for name in workload.contestants if name == "tenon" or name in self._wanted]
        answers = Answers({name: [] for name in names})
        for turn in range(ROUNDS):
            for name in names:
                once = name in SLOW or workload.task in EXACT
                if name in answers.absent or (once and turn > 0):
                    continue
                try:
                    answers.given[name].append(self._answer(workload, name))
                except RuntimeError as error:
                    answers.absent[name] = str(error)
                    del answers.given[name]
        return answers

    def _answer(self, workload: ProcessWorkload, name: str) -> dict[str, Any]:
        folder = self._caches.folder(name, workload.network)
        arguments = [workload.task, name, workload.network, str(folder)]
        variables = self._caches.variables(folder)
        if workload.task == "compile":
            shutil.rmtree(folder, ignore_errors=True)
        elif not folder.exists():
            run_child(arguments, self.threads, variables)
        return run_child(arguments, self.threads, variables)


def measure_in_processes(workload: ProcessWorkload, children: Children) -> Row:
    """The medians of what the children answer; all train to the same loss or are not counted."""
    row = Row(workload.name, workload.section, children.threads, workload.target)
    row.unit = "B" if workload.task in ("memory", "plan") else "s"
    figure = workload.figure or FIGURES[workload.task]
    answers = children.answers(workload)
    row.absent = dict(answers.absent)
    samples = {name: [answer[figure] for answer in given] for name, given in answers.given.items()}
    losses = {name: given[-1]["loss"] for name, given in answers.given.items()}
    for answer in answers.given.get("tenon", ()):
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
