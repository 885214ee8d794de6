"""Every `.mlir` file below is a pytest test that lit runs, so that one command and one closing line cover them.

lit and the commands that it runs come from a server that has imported them (`command_server.py`); `lit tests/lit` runs
the installed ones.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cases import failed_case
from command_server import CommandServer

SERVER = pytest.StashKey[CommandServer]()


def _server(config: pytest.Config) -> CommandServer:
    """The server of this process, started by its first test."""
    if SERVER not in config.stash:
        resources = ExitStack()
        config.add_cleanup(resources.close)
        config.stash[SERVER] = resources.enter_context(CommandServer())
    return config.stash[SERVER]


class LitFailure(Exception):
    """What lit reported; shown without a Python traceback."""


class LitTest(pytest.Item):
    def runtest(self) -> None:
        commands = _server(self.config).commands
        # An execution directory of its own: lit keeps a file of timings there that parallel runs would tear.
        with tempfile.TemporaryDirectory(prefix="tenon-lit-") as directory:
            self.run_lit(commands, Path(directory))

    def run_lit(self, commands: Path, directory: Path) -> None:
        results = directory / "results.json"
        command = [str(commands / "lit"), "--workers=1", "--quiet", f"--param=commands={commands}"]
        command += [f"--param=exec_root={directory}", f"--output={results}", str(self.path)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if not results.exists():
            raise LitFailure(completed.stdout + completed.stderr)
        for result in json.loads(results.read_text())["tests"]:
            match result["code"]:
                case "PASS" | "XFAIL":
                    pass
                case "UNSUPPORTED":
                    pytest.skip(result["output"].strip())
                case code:
                    name = failed_case(self.path.read_text(), result["output"])
                    raise LitFailure(f"{code}{f' at {name}' if name else ''}: {result['output']}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, LitFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.nodeid


class LitFile(pytest.File):
    def collect(self) -> Iterator[LitTest]:
        test = LitTest.from_parent(self, name="lit")
        test.add_marker("quick")
        yield test


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LitFile | None:
    return LitFile.from_parent(parent, path=file_path) if file_path.suffix == ".mlir" else None
