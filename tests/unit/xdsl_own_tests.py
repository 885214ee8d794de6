"""Runs tests in xDSL's style, given as arguments, in this process with whatever xDSL is on the path, without Tenon.

    python xdsl_own_tests.py LIMIT TEST...

A `.py` file fails where one of its `test_` functions raises, a `.mlir` file where its RUN line does: `xdsl-opt`s, each
reading what the one before printed, and `filecheck`. Prints one JSON object: for each test "passed", "timed out" after
LIMIT seconds of processor time (0 for none), or the error.
"""

from __future__ import annotations

import io
import json
import runpy
import shlex
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.xdsl_opt_main import xDSLOptMain

# What is installed beside xDSL, Tenon's corrections of xDSL above all, stays out.
Universe.get_multiverse = staticmethod(lambda: XDSL_UNIVERSE)


class TimedOut(Exception):
    pass


def run_line(path: Path) -> None:
    line = path.read_text().partition("// RUN: ")[2].partition("\n")[0]
    text = ""
    for command in line.split("|"):
        tool, *arguments = (str(path) if word == "%s" else word for word in shlex.split(command))
        sys.stdin, out = io.TextIOWrapper(io.BytesIO(text.encode())), io.StringIO()
        with redirect_stdout(out):
            if tool == "xdsl-opt":
                xDSLOptMain(args=arguments).run()
            else:
                assert tool == "filecheck", f"unknown tool in RUN line: {tool}"
                with redirect_stderr(out):
                    status = Matcher.from_opts(parse_argv_options([tool, *arguments])).run()
                assert status == 0, out.getvalue()
        text = out.getvalue()


def run(path: Path) -> None:
    if path.suffix == ".mlir":
        return run_line(path)
    tests = [value for name, value in runpy.run_path(str(path)).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


def outcome(path: Path, limit: float) -> str:
    def give_up(*_: Any) -> None:
        raise TimedOut

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        run(path)
    except TimedOut:
        return "timed out"
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "passed"


if __name__ == "__main__":
    limit, *paths = sys.argv[1:]
    outcomes = {path: outcome(Path(path), float(limit)) for path in paths}
    assert "tenon" not in sys.modules
    print(json.dumps(outcomes))
