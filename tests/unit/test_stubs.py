"""What type checkers know: stubs that follow from the definitions, and what pyright says with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tenon
from tenon.tools.stubs import package_stubs

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np
import tenon
from tenon import nn

x = np.ones((2, 3))
tenon.softmaxx(x)                                # attribute
tenon.softmax(x, axes=1)                         # setting
tenon.pad(x, 1, 1, mode="wrapped")               # choice
tenon.sum(x, axis="rows")                        # type
tenon.softmax(x, axis=-1)
tenon.pad(x, (0, 1), (0, 1), mode="edge")
tenon.sum(x, 0, keepdims=True, dtype=np.float32)
tenon.clip(x, min=0.0)
tenon.add(x, 1.0, out=x)
t = tenon.tensor(x)
t.softmaxx()                                     # method
t.softmax(axes=1)                                # setting of a method
t.softmax(dim=-1).exp().sum(keepdim=True).relu_().numpy()
nn.Lineer(3, 4)                                  # module
nn.Linear(3, 4, biased=True)                     # argument
tenon.debug.print("{}", t)
tenon.int8, tenon.bool, tenon.linalg, tenon.knobs.debug
with tenon.knobs.override(interpret=True):
    tenon.jit(lambda x: x, static=("x",))
tenon.mine_of_stubs(x, slope=0.5)
tenon.mine_of_stubs(x, slop=0.5)                 # setting of an op of the user's
reveal_type(t.exp())
reveal_type(tenon.topk)

class Doubled(tenon.UnaryOp):
    @staticmethod
    def scalar(x):
        return x + x
"""

OPS = """
import tenon

@tenon.tensor_op
class MineOp(tenon.ElementwiseOp):
    '''An op of a user.'''
    name = "mine.mine_of_stubs"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    slope = tenon.setting(float, default=1.0)

    @staticmethod
    def scalar(x, slope):
        return x * slope
"""


def test_stubs_are_those_of_the_definitions() -> None:
    command = [
        sys.executable,
        "-c",
        "from tenon.tools.stubs import package_stubs as p; import json; print(json.dumps(p()))",
    ]
    # in a process without the ops of other tests
    made = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    for name, text in made.items():
        path = Path(tenon.__file__).parent / name
        assert path.read_text() == text, f"{path} is not up to date: python -m tenon.tools.stubs"
    assert made.keys() == package_stubs().keys()


def test_stubs_name_everything_public() -> None:
    text = (ROOT / "tenon/__init__.pyi").read_text()
    for name in vars(tenon)["_WHERE"] | dict.fromkeys(vars(tenon)["_MODULES"]):
        assert f" as {name}\n" in text or f"class {name}(" in text or f"\n{name} = _{name}" in text, name


@pytest.mark.slow
def test_pyright_flags_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mine.py").write_text(OPS)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)], "include": ["program.py"]}))
    stubs = [sys.executable, "-m", "tenon.tools.stubs", "--ops", "mine.py", "typings"]
    subprocess.run(stubs, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    said = json.loads(done.stdout)["generalDiagnostics"]
    errors = {d["range"]["start"]["line"] for d in said if d["severity"] == "error"}
    lines = PROGRAM.splitlines()
    assert {lines[number] for number in errors} == {line for line in lines if "  # " in line}
    revealed = [d["message"] for d in said if d["severity"] == "information"]
    assert revealed[0].endswith('is "Tensor"')
    assert "k: int" in revealed[1]
    assert "largest: bool" in revealed[1]
