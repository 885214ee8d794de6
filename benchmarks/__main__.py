"""`python -m benchmarks [NAME…]`: measure workloads by name or pattern, or all, and print a line for each.

    python -m benchmarks --list
    python -m benchmarks matmul-f32-512 'softmax-*' --threads 1 --peers jax,torch
    python -m benchmarks --write                 all, and docs/benchmarks.md with its picture

Results are kept in build/benchmarks.json, where those of later runs replace those of the same name and thread count.
The workloads of a thread count run in one process, kept on as many cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import environment, report, workloads
from benchmarks.harness import Row
from benchmarks.peers import PEERS
from benchmarks.processes import Children, ProcessWorkload, measure_in_processes, temporary_caches
from benchmarks.workload import Workload

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "benchmarks.json"
SECONDS = 0.3


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="names or patterns of workloads; all by default")
    parser.add_argument("--list", action="store_true", help="print the names and what is aimed at")
    parser.add_argument("--threads", default="1,2", help="thread counts, by default 1,2")
    parser.add_argument("--peers", default=",".join(PEERS), help="peers, by default all that are installed")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time for each row's rounds, {SECONDS} s")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that keeps the results")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its picture")
    options = parser.parse_args(arguments)
    options.threads = [int(count) for count in options.threads.split(",")]
    options.peers = options.peers.split(",")
    if unknown := [peer for peer in options.peers if peer not in PEERS]:
        parser.error(f"no peer is named {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return options


def _child_rows(names: Sequence[str], threads: int, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """What a child process answers, line by line."""
    command = [sys.executable, "-m", "benchmarks.child", "rows", *names, "--threads", str(threads)]
    command += ["--peers", ",".join(options.peers), "--seconds", str(options.seconds)]
    variables = environment.variables(threads)
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("{"):
                yield json.loads(text)
    if process.returncode != 0:
        print(f"a process ended with status {process.returncode}", file=sys.stderr)


def _rows(names: Sequence[str], threads: int, options: argparse.Namespace) -> Iterator[Row]:
    """A row for each name; one that ends the process has none, and the others go on in the next process."""
    left = list(names)
    while left:
        done = 0
        for data in _child_rows(left, threads, options):
            yield Row.from_json(data)
            done += 1
        left = left[done + 1 :]


def _measured(chosen: Sequence[Workload | ProcessWorkload], options: argparse.Namespace) -> Iterator[Row]:
    """A row for each workload and thread count."""
    available = len(environment.processors())
    counts = [count for count in options.threads if count <= available]
    for threads in counts:
        plain = [w.name for w in chosen if isinstance(w, Workload) and w.threads in (None, threads)]
        yield from _rows(plain, threads, options)
    if counts:
        children = Children(max(counts), options.peers, temporary_caches())
        for workload in chosen:
            if isinstance(workload, ProcessWorkload):
                yield measure_in_processes(workload, children)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status is 1 where a row of Tenon's could not be measured."""
    options = _parsed(arguments)
    try:
        chosen = workloads.select(options.names)
    except ValueError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{workload.name:<32} {workload.target.text()}" for workload in chosen))
        return 0
    started = time.perf_counter()
    results = report.Results.read(options.results)
    results.machine = environment.described()
    for threads in options.threads:
        for data in _child_rows([], threads, options):
            results.limits[threads] = data["limits"]  # type: ignore[assignment]
            print(report.limits_text(results.limits[threads], threads), flush=True)
    failed = False
    for row in _measured(chosen, options):
        results.rows[row.name, row.threads] = row
        failed |= "tenon" not in row.seconds
        print(report.line(row), flush=True)
        results.write(options.results)
    order = list(workloads.all_workloads())
    known = [key for key in results.rows if key[0] in order]
    results.rows = {key: results.rows[key] for key in sorted(known, key=lambda key: (order.index(key[0]), key[1]))}
    results.write(options.results)
    if options.write:
        report.write_page(results)
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
