"""A program can be picked up at any stage: every file that `TENON_DUMP_IR` writes runs through `tenon run` to the same
numbers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tenon
from tenon.tools.cli import main


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mlp(x: Any, w: Any) -> Any:
    return tenon.softmax(tenon.tanh(tenon.matmul(x, w)))


def best(x: Any) -> Any:
    return tenon.argmax(x, axis=1), tenon.max(x, axis=1)


def gathered(x: Any, i: Any) -> Any:
    return tenon.take(x, i) * 2.0


def weight_gradient(x: Any, w: Any) -> Any:
    return tenon.grad(lambda w: tenon.sum(tenon.max_pool2d(tenon.conv2d(x, w, padding=(1, 1)), window=(2, 2))))(w)


def controlled(x: Any, xs: Any) -> Any:
    carry, outputs = tenon.scan(
        lambda c, a: (tenon.cond(tenon.sum(a) > 0, lambda: c * a, lambda: c - a), c), x, xs, reverse=True
    )
    return tenon.while_loop(lambda v: tenon.sum(v * v) < 100.0, lambda v: v * 2.0, carry), outputs


def converted(x: Any) -> Any:
    half = x.astype("bf16")
    return (half + half).astype("f16").astype("f32") > 0.5, tenon.cast(x * 10.0, dtype="i8")


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "mlp": (mlp, [floats(5, 6), floats(6, 8, seed=1)]),
    "best": (best, [floats(4, 7)]),
    "gathered": (gathered, [floats(9, 3), np.array([1, 8, 0, 1])]),
    "weight_gradient": (weight_gradient, [floats(2, 3, 8, 8), floats(4, 3, 3, 3, seed=1)]),
    "controlled": (controlled, [floats(3), floats(4, 3, seed=1)]),
    "converted": (converted, [floats(40)]),
}


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage_runs_from_its_file(name: str, interpret: bool, tmp_path: Path) -> None:
    function, arguments = PROGRAMS[name]
    with tenon.knobs.override(dump_ir=tmp_path):
        expected = tenon.jit(function)(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    options: list[str] = ["--interpret"] if interpret else []
    for position, argument in enumerate(arguments):
        np.save(tmp_path / f"{position}.npy", argument)
        options += ["--args", str(tmp_path / f"{position}.npy")]
    files = sorted(tmp_path.glob("*.mlir"))
    steps = {file.name.split(".")[2] for file in files}
    assert {"input", "fuse", "convert-tensor-to-structured", "bufferize", "convert-structured-to-loops"} <= steps
    texts: dict[str, Path] = {}
    for file in files:
        texts.setdefault(file.read_text(), file)
    for file in texts.values():
        result = CliRunner().invoke(main, ["run", str(file), *options, "-o", str(tmp_path / "results.npz")])
        assert result.exit_code == 0, f"{file.name}: {result.output}"
        with np.load(tmp_path / "results.npz") as results:
            for position, value in enumerate(expected):
                actual = results[f"result{position}"]
                assert actual.dtype == value.dtype
                np.testing.assert_allclose(
                    actual.astype(float), value.astype(float), rtol=2e-4, atol=1e-5, err_msg=file.name
                )


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not installed")
def test_upstream_reads_the_stages_from_structured_on(tmp_path: Path) -> None:
    with tenon.knobs.override(dump_ir=tmp_path):
        for function, arguments in PROGRAMS.values():
            tenon.jit(function)(*arguments)
    texts = [f.read_text() for f in sorted(tmp_path.glob("*.mlir")) if not re.search(r"\btenon\.", f.read_text())]
    assert len(texts) > 4 * len(PROGRAMS)
    command = ["mlir-opt-22", "--split-input-file", "--allow-unregistered-dialect"]
    done = subprocess.run(command, input="\n// -----\n".join(texts), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_a_dump_takes_the_place_of_the_former_one_of_its_name(tmp_path: Path) -> None:
    for stale in ("f.99.late.mlir", "f.ll", "g.00.input.mlir", "f.notes.mlir"):
        (tmp_path / stale).write_text("before")

    def f(x: Any) -> Any:
        return x + 1.0

    with tenon.knobs.override(dump_ir=tmp_path):
        tenon.jit(f).compile(floats(3))
    assert not (tmp_path / "f.99.late.mlir").exists()
    assert "define" in (tmp_path / "f.ll").read_text()
    assert "tenon.add" in (tmp_path / "f.00.input.mlir").read_text()
    assert (tmp_path / "g.00.input.mlir").read_text() == (tmp_path / "f.notes.mlir").read_text() == "before"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("stage", ["trace", "lower"])
def test_interpreted_programs_run_in_several_threads(stage: str) -> None:
    x, w = floats(5, 4), floats(4, 3, seed=1)
    with tenon.knobs.override(interpret=True):
        compiled = getattr(tenon.jit(mlp), stage)(x, w).compile()
        expected = tenon.jit(mlp)(x, w)
    text = str(compiled)
    barrier = threading.Barrier(4)
    wrong: list[Exception] = []

    def work() -> None:
        barrier.wait()
        try:
            np.testing.assert_allclose(compiled(x, w), expected, rtol=1e-5, atol=1e-6)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert str(compiled) == text


def test_run_checks_what_it_is_given() -> None:
    compiled = tenon.jit(lambda x: x + 1.0).trace(np.zeros(3, np.float32)).compile()
    np.testing.assert_array_equal(compiled.run([np.zeros(3, np.float32)])[0], np.ones(3))
    with pytest.raises(TypeError, match="0 arrays are given where 1 are needed"):
        compiled.run([])
    with pytest.raises(TypeError, match=r"array 0 is float64\[3\] where f32\[3\] is needed"):
        compiled.run([np.zeros(3)])
