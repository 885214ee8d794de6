"""One workload, measured: numbers are checked before time, contestants take turns, medians are compared.

A round runs each contestant once (or as often as fills a block, where a call is short), in an order of its own, so that
what disturbs the machine disturbs all alike, and none always follows another that reads the same arrays and leaves them
in the caches. Before a block of several threads there is a pause, in which those of the one before stop to wait for
work and take no core from the next. Where calls are short, calls that are not timed come before a block, in which
threads wake up and the caches fill: how far others had emptied them is not what is compared. A peer's ratio is the
median over the rounds of its time over Tenon's in the same round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from statistics import median
from typing import Any

import numpy as np

from benchmarks import environment, limits
from benchmarks.peers import Array, Runner
from benchmarks.workload import Target, Workload

OURS = ("tenon", "tenon, out=")
"""Contestants that are Tenon; the others are its peers."""
BLOCK = 1e-3
"""Seconds that a block of short calls takes."""
PAUSE = 40e-3
"""Seconds after which the threads of OpenBLAS, OpenMP and onnxruntime sleep instead of spinning: while they spin, the
threads of the next one share a core with them."""
WAKE_UP, FILLED = 10e-3, 30e-3
"""Seconds of calls before a block that are not timed: at least, and at most where they are too few. A virtual machine's
core takes milliseconds to wake up, and a last-level cache that it shares with others keeps what is read again only
after several calls: of 8 MB read and written the first call after another contestant's takes up to 2.7 times as long as
the eighth, the second 1.9 times."""
FILLING_CALLS = 6
"""Calls that are not too few."""
WITH_WARM_UP = 3
"""How many times as long the rounds take for what is not timed in them."""
SHORT = 20e-3
"""Seconds of a block below which calls before it warm up caches and threads."""
LEAST_ROUNDS, MOST_ROUNDS = 2, 400
MOST_CALLS = 10_000
WARM_UP_CALLS = 4


class WrongResultError(ArithmeticError):
    """Numbers that are not those of the reference, or not within the tolerance."""


@dataclass
class Row:
    """What was found out about a workload at one thread count. Seconds are medians."""

    name: str
    section: str
    threads: int
    target: Target = field(default_factory=Target)
    seconds: dict[str, float] = field(default_factory=dict)
    fastest: dict[str, float] = field(default_factory=dict)
    """Seconds of the fastest round, which are compared with the limit: that is a best of many, too."""
    errors: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)
    """For each contestant of Tenon's: each peer's time over ours."""
    fresh: dict[str, float] = field(default_factory=dict)
    """How many times as long each takes where large memory is new at each call."""
    limit: float | None = None
    """The least seconds, as the machine was measured."""
    binds: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    """Why a contestant was not timed."""
    unit: str = "s"

    def fraction(self, contestant: str = "tenon") -> float | None:
        """How much of the limit is reached; `None` where there is no limit, or no time."""
        taken = self.fastest.get(contestant)
        return None if self.limit is None or not taken else self.limit / taken

    def best(self, contestant: str = "tenon") -> tuple[str, float] | None:
        """The fastest peer, and its ratio."""
        ratios = self.ratios.get(contestant)
        if not ratios:
            return None
        peer = min(ratios, key=ratios.__getitem__)
        return peer, ratios[peer]

    def shortfalls(self, contestant: str = "tenon") -> list[str]:
        """What of the target is missed; empty where it is reached."""
        if contestant not in self.seconds:
            return [self.absent.get(contestant, "not measured")]
        missed: list[str] = []
        fraction, best = self.fraction(contestant), self.best(contestant)
        least = self.target.limit_of_several if self.threads > 1 else None
        least = self.target.limit if least is None else least
        if least is not None and fraction is not None and fraction < least:
            missed.append(f"{100 * fraction:.0f} % of {self.binds}")
        factor = self.target.best_into if contestant == "tenon, out=" else self.target.best
        if factor is not None and best is not None and best[1] < factor:
            missed.append(f"{best[1]:.2f} × {best[0]}")
        if self.target.ulp is not None and self.errors.get(contestant, 0) > self.target.ulp:
            missed.append(f"{self.errors[contestant]:.1f} ulp")
        ratios = self.ratios.get(contestant, {})
        for peer, factor in self.target.peers.items():
            if peer in ratios and ratios[peer] < factor:
                missed.append(f"{ratios[peer]:.2f} × {peer}")
        return missed

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Row:
        """A row as `to_json` gave it."""
        parts: dict[str, Any] = {**data, "target": Target(**data["target"])}
        return Row(**parts)


def check(name: str, results: Sequence[Array], exact: Sequence[Array], workload: Workload) -> float:
    """The error of a contestant's results; raises `WrongResultError` above the workload's tolerance."""
    if len(results) != len(exact):
        raise WrongResultError(f"{workload.name}: {name} gives {len(results)} results where {len(exact)} are right")
    try:
        found = max(workload.error(r, e) for r, e in zip(results, exact, strict=True))
    except ValueError as error:
        raise WrongResultError(f"{workload.name}: {name}: {error}") from None
    # written so that a NaN is refused, too
    if not found <= workload.tolerance:
        raise WrongResultError(f"{workload.name}: {name} is off by {found:.1e}, above {workload.tolerance:.0e}")
    return found


def ratios_of(samples: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """For each contestant of Tenon's, each peer's time over ours: the median over rounds that had both."""
    peers = [name for name in samples if name not in OURS]
    return {
        ours: {peer: median([p / t for p, t in zip(samples[peer], samples[ours], strict=True)]) for peer in peers}
        for ours in OURS
        if ours in samples
    }


def _block(run: Callable[[], Any], calls: int, pause: float = 0.0, warm_up: bool = False) -> float:
    time.sleep(pause)
    started, done = time.perf_counter(), 0
    while warm_up:
        run()
        done += 1
        warm_up = time.perf_counter() < started + (WAKE_UP if done >= FILLING_CALLS else FILLED)
    started = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - started) / calls


def take_turns(runs: Mapping[str, Callable[[], Any]], seconds: float, pause: float = 0.0) -> dict[str, list[float]]:
    """Seconds per call of each contestant in each round, for about `seconds` in all, with a pause before each."""
    calls: dict[str, int] = {}
    short: dict[str, bool] = {}
    for name, run in runs.items():
        calls[name] = 1
        # What is made ready at the first calls, such as a native entry, must not decide how many make a block.
        taken = min(_block(run, 1), _block(run, 1))
        if taken < SHORT:
            taken = min(_block(run, 1) for _ in range(WARM_UP_CALLS))
        while taken < BLOCK / 2 and calls[name] < MOST_CALLS:
            calls[name] *= 2
            taken = _block(run, calls[name]) * calls[name]
        short[name] = taken < SHORT
    samples: dict[str, list[float]] = {name: [] for name in runs}
    order, random = list(runs), Random(0)
    end = time.perf_counter() + seconds
    for turn in range(MOST_ROUNDS):
        if turn >= LEAST_ROUNDS and time.perf_counter() > end:
            break
        random.shuffle(order)
        for name in order:
            samples[name].append(_block(runs[name], calls[name], pause, short[name]))
    return samples


def _reason(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return f"absent ({error.name or error})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def _prepared(workload: Workload, arrays: Sequence[Array], wanted: Sequence[str], row: Row) -> dict[str, Runner]:
    """The contestants that can run; why the others cannot goes into the row."""
    runners: dict[str, Runner] = {}
    for name, prepare in workload.contestants.items():
        if name not in OURS and name not in wanted and name != workload.exact:
            continue
        try:
            runners[name] = prepare(arrays)
        except Exception as error:
            row.absent[name] = _reason(error)
    return runners


def _wide(results: Any) -> list[Array]:
    parts = results if isinstance(results, tuple | list) else [results]
    return [np.asarray(part, np.float64) for part in parts]


def measure(workload: Workload, threads: int, wanted: Sequence[str], seconds: float) -> Row:
    """Check and time a workload. Contestants that are absent, fail or are wrong are not timed, and the row says why."""
    row = Row(workload.name, workload.section, threads, workload.target)
    arrays = list(workload.inputs())
    runners = _prepared(workload, arrays, wanted, row)
    results: dict[str, list[Array]] = {}
    for name, runner in list(runners.items()):
        try:
            results[name] = [np.array(part) for part in runner.read(runner.run())]
        except Exception as error:
            row.absent[name] = _reason(error)
            del runners[name]
    if isinstance(workload.exact, str):
        if workload.exact not in results:
            raise WrongResultError(f"{workload.name}: {workload.exact}, which is the reference, gave no results")
        exact = _wide(results[workload.exact])
    else:
        exact = _wide(workload.exact(*arrays))
    for name in list(runners):
        try:
            row.errors[name] = check(name, results[name], exact, workload)
        except WrongResultError as error:
            row.absent[name] = _reason(error)
            del runners[name]
    for name in [name for name in runners if name not in OURS and name not in wanted]:
        del runners[name]  # it was only the reference
    pause, seconds = (PAUSE if threads > 1 else 0.0), WITH_WARM_UP * seconds
    runs = {name: runner.run for name, runner in runners.items()}
    samples = take_turns(runs, seconds, pause)
    row.seconds = {name: median(taken) for name, taken in samples.items()}
    row.fastest = {name: min(taken) for name, taken in samples.items()}
    row.ratios = ratios_of(samples)
    is_large = any(part.nbytes >= environment.FRESH for part in results.get("tenon", []))
    if threads == 1 and is_large and environment.tells_malloc():
        with environment.fresh_memory():
            taken = take_turns(runs, seconds / 2)
        row.fresh = {name: median(new) / row.seconds[name] for name, new in taken.items()}
    if workload.has_limit:
        own = results.get("tenon", results[next(iter(results))] if results else [])
        reads = sum(a.nbytes for a in arrays) if workload.reads is None else workload.reads
        writes = sum(a.nbytes for a in own) if workload.writes is None else workload.writes
        row.limit, row.binds = limits.least_seconds(workload.kind, workload.operations, reads, writes, threads)
    return row
