"""Look for programs that Tenon gets wrong: `python tests/search.py --count 10000 --seed 1 --jobs 2`.

Draws random networks (or ONNX graphs, or programs of ops), as the tests do, and checks them in processes of their own:
a network that crashes one, or takes longer than `--limit` seconds, is reported like one whose results are wrong.
Failures are made smaller, printed as Python, and written to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
CASES_PER_WORKER = 100


class Worker:
    """A process that checks one case after the other."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        kind = arguments.kind
        command = [sys.executable, __file__, "--worker", kind]
        settings = {"TENON_CACHE": "0", "TENON_VERIFY": "1", "TENON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.errors = Path(tempfile.mkdtemp(prefix="tenon-search-")) / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=settings | dict(os.environ),
            )
        self.limit, self.start, self.done = arguments.limit, arguments.start_limit, 0
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def _answer(self, seconds: float) -> dict[str, Any]:
        line = self._line(seconds)
        if line is None:
            self.end()
            return {"status": "hung", "report": f"no answer after {seconds:.0f} seconds"}
        if line:
            return json.loads(line)
        code = self.process.wait()
        return {"status": "crashed", "report": f"exit status {code}\n{self.errors.read_text()[-3000:]}"}

    def _line(self, seconds: float) -> str | None:
        """The next line, unless the process works for so many seconds without one, or takes ten times as long."""
        start, end = self._worked(), time.monotonic() + 10 * seconds
        while self._worked() - start < seconds and time.monotonic() < end:
            try:
                return self.answers.get(timeout=0.2)
            except queue.Empty:
                continue
        return None

    def _worked(self) -> float:
        """Seconds of a processor that the process had, where that is told; elsewhere those of a clock."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, **question: Any) -> dict[str, Any]:
        """What is known about a case, and whether it passes."""
        assert self.process.stdin is not None
        self.done += 1
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        shown = self._answer(self.limit + (self.start if self.done == 1 else 0))
        if "case" not in shown:
            return {"case": "?"} | shown
        answer = self._answer(self.limit)
        if answer["status"] == "shrinking":
            answer = answer | self._answer(question["shrink"] + 2 * self.limit) | {"status": "failed"}
        return shown | answer

    @property
    def is_fresh(self) -> bool:
        return self.process.poll() is None and self.done < CASES_PER_WORKER

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.errors.parent, ignore_errors=True)


def search(arguments: argparse.Namespace) -> int:
    """Check all cases; the number of those that failed."""
    numbers = iter(range(arguments.start, arguments.start + arguments.count))
    lock, counts, kinds = threading.Lock(), Counter[str](), Counter[str]()
    print(f"{arguments.kind}: {arguments.count} with seed {arguments.seed}", flush=True)

    def told(number: int, answer: dict[str, Any]) -> None:
        counts[answer["status"]] += 1
        if counts.total() % 100 == 0:
            print(", ".join(f"{count} {status}" for status, count in counts.most_common()), flush=True)
        if answer["status"] in ("passed", "undecided"):
            return
        kinds[answer["report"].splitlines()[0][:100]] += 1
        text = f"--- {arguments.kind} {arguments.seed} {number}: {answer['status']}\n{answer['case']}\n"
        text += answer["report"] + "\n"
        print(text, flush=True)
        Path(arguments.write).parent.mkdir(parents=True, exist_ok=True)
        with open(arguments.write, "a") as file:
            file.write(text)

    def work() -> None:
        worker = Worker(arguments)
        for number in _shared(numbers, lock):
            if not worker.is_fresh:
                worker.end()
                worker = Worker(arguments)
            answer = worker.ask(seed=arguments.seed, number=number, shrink=arguments.shrink)
            if answer["status"] in ("crashed", "hung"):
                answer["report"] += "\nshrunk: " + shrunk_apart(arguments, answer["case"], answer["status"])
            with lock:
                told(number, answer)
        worker.end()

    threads = [threading.Thread(target=work) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()) or "nothing")
    for kind, count in kinds.most_common():
        print(f"{count:5} {kind}")
    return sum(kinds.values())


def _shared(numbers: Iterator[int], lock: threading.Lock) -> Iterator[int]:
    while True:
        with lock:
            number = next(numbers, None)
        if number is None:
            return
        yield number


def shrunk_apart(arguments: argparse.Namespace, case: str, status: str) -> str:
    """A smaller network that ends in the same way, with a process for each that is tried."""
    if arguments.kind != "networks":
        return case
    sys.path.insert(0, str(TESTS / "unit"))
    shrunk: Any = import_module("networks_shrink").shrunk
    network_of: Any = import_module("test_networks").network_of

    def fails(network: Any) -> bool:
        worker = Worker(arguments)
        answer = worker.ask(case=repr(network))
        worker.end()
        return answer["status"] == status

    return repr(shrunk(network_of(case), fails, 5 * arguments.shrink))


# --- in the process that checks ---------------------------------------------------------------------------------------


def answer_questions(kind: str) -> None:
    """Read a question a line, and write what the case is, and whether it passes."""
    sys.path.insert(0, str(TESTS / "unit"))
    source: Any = import_module(
        {"networks": "test_networks", "onnx": "test_onnx_graphs", "programs": "search_programs"}[kind]
    )
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed otherwise

    def say(**answer: Any) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    for line in sys.stdin:
        question = json.loads(line)
        case = (
            source.network_of(question["case"])
            if "case" in question
            else source.drawn(question["seed"], question["number"])
        )
        say(case=repr(case))
        _check(source, case, say, question.get("shrink", 0))


def _check(source: Any, case: Any, say: Callable[..., None], seconds: float) -> None:
    try:
        source.check(case)
    except source.Undecided as reason:
        say(status="undecided", report=str(reason))
    except Exception as error:
        report = f"{type(error).__name__}: {error}"
        if not seconds:
            say(status="failed", report=report)
            return
        say(status="shrinking", report=report)
        say(report=source.report(case, error, seconds))
    else:
        say(status="passed", report="")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="networks", choices=["networks", "onnx", "programs"])
    parser.add_argument("--count", type=int, default=1000, help="how many to check")
    parser.add_argument("--start", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=None, help="by which they are drawn; a new one without it")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes check")
    parser.add_argument("--limit", type=float, default=120, help="seconds of work after which a case is said to hang")
    parser.add_argument("--start-limit", type=float, default=120, help="seconds more for what a process imports first")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to look for a smaller one that fails")
    parser.add_argument("--write", default="build/search-failures.txt", help="the file to which failures are added")
    parser.add_argument("--case", help="check this one alone: Python, as a failure prints it")
    parser.add_argument("--worker", metavar="KIND", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        answer_questions(arguments.worker)
        return 0
    if arguments.case:
        worker = Worker(arguments)
        answer = worker.ask(case=arguments.case)
        worker.end()
        print(answer["status"], answer["report"])
        return int(answer["status"] not in ("passed", "undecided"))
    arguments.seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    return int(search(arguments) > 0)


if __name__ == "__main__":
    sys.exit(main())
