"""Commands from the server are the installed ones, for whoever runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from command_server import CommandServer

INSTALLED = Path(sys.executable).parent
FUNCTION = """
// é
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = tenon.neg %x : tensor<2xf32>
  %z = tenon.neg %y : tensor<2xf32>
  func.return %z : tensor<2xf32>
}
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Path]:
    with CommandServer() as server:
        yield server.commands


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (["tenon-opt", "-", "-p", "canonicalize"], {}),
        (["tenon-opt", "f.mlir", "-p", "canonicalise"], {}),
        (["tenon", "run", "f.mlir", "--args", "iota:2xf32", "-o", "result.npy"], {"TENON_VERIFY": "perhaps"}),
        (["tenon", "--ops", "ends.py", "ops"], {}),
        (["filecheck", "f.mlir", "--check-prefix=MISSING"], {}),
    ],
    ids=" ".join,
)
def test_results_are_those_of_the_installed_command(
    command: Sequence[str], settings: Mapping[str, str], served: Path, tmp_path: Path
) -> None:
    (tmp_path / "f.mlir").write_text(FUNCTION)
    (tmp_path / "ends.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")

    def run(folder: Path) -> tuple[int, str, str]:
        completed = subprocess.run(
            [folder / command[0], *command[1:]],
            input=FUNCTION,
            cwd=tmp_path,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        return completed.returncode, completed.stdout, completed.stderr

    result = run(served)
    assert result == run(INSTALLED)
    assert "command_server" not in result[2]


def test_lit_runs_the_installed_commands_by_itself(tmp_path: Path) -> None:
    files = [Path(__file__).parent / name for name in ("passes/cse.mlir", "tools/run_from_tensor.mlir")]
    completed = subprocess.run(
        [INSTALLED / "lit", "--workers=1", f"--param=exec_root={tmp_path}", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert completed.stdout.count("PASS: ") == len(files)
