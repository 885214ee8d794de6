"""What is printed of an error that ends a program: the lines of the program, and none of Tenon's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = {
    "tensor": (
        "x = tenon.tensor([1.0], requires_grad=True).exp()",
        "x.backward(); x.backward()",
        "RuntimeError: backward",
    ),
    "module": ("linear = nn.Linear(2, 3)", "linear.load_state_dict({})", "ValueError: state does not fit the module"),
    "optimizer": ("from tenon import optim", "optim.Adam(lr='a')", "TypeError: Adam: lr is 'a' where a number is"),
    "function": ("x = np.ones((2, 3))", "tenon.einsum('ij,jk->ik', x, x)", "ValueError: einsum: dimension j is 3"),
    "name": ("", "tenon.softmaxx", "AttributeError: module 'tenon' has no attribute and no op 'softmaxx'"),
}


def run(folder: Path, first: str, last: str, **environment: str) -> list[str]:
    program = folder / "program.py"
    program.write_text(f"import numpy as np\nimport tenon\nfrom tenon import nn\ntenon.exp(1.0)\n{first}\n{last}\n")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 1
    return done.stderr.splitlines()


def files(lines: list[str]) -> set[str]:
    return {Path(line.split('"')[1]).name for line in lines if line.startswith("  File ")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lines_of_the_program_are_printed(name: str, tmp_path: Path) -> None:
    first, last, message = PROGRAMS[name]
    lines = run(tmp_path, first, last)
    assert lines[-1].startswith(message)
    assert files(lines) == {"program.py"}
    assert lines[1].endswith("line 6, in <module>")


def test_all_lines_are_printed_on_request(tmp_path: Path) -> None:
    first, last, _ = PROGRAMS["module"]
    assert files(run(tmp_path, first, last, TENON_TRACEBACK="full")) > {"program.py"}


def test_what_was_to_print_errors_before_still_does(tmp_path: Path) -> None:
    hook = "import sys; sys.excepthook = lambda kind, error, frames: print('mine', kind.__name__, file=sys.stderr)"
    program = tmp_path / "program.py"
    program.write_text(f"{hook}\nimport tenon\ntenon.exp(1.0)\ntenon.softmaxx\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.stderr == "mine AttributeError\n"


ENDLESS = """
@tenon.tensor_op
class EndlessOp(tenon.IndexMapOp):
    "."
    name = "mine.endless"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    source = staticmethod(lambda index, shape, /: index)
    @staticmethod
    def infer(x):
        return tenon.endless(np.ones(3))
"""


def test_a_hook_that_calls_itself_is_named(tmp_path: Path) -> None:
    lines = run(tmp_path, ENDLESS, "tenon.jit(tenon.endless)(np.ones(3))")
    assert len(lines) < 30
    assert files(lines) == {"program.py"}
    place = f"{tmp_path / 'program.py'}:15"
    assert lines[-1] == f"EndlessOp.infer, a hook of mine.endless, calls itself without end ({place})"
