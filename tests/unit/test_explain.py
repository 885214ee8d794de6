"""`tenon explain` says what the passes do: its chosen schedules and steps are those that they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from cupy_stand_in import Machine
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr

import tenon
from tenon.lowering.explanation import Explained
from tenon.lowering.kernels.statement import kernels_of
from tenon.lowering.pipeline import lower_to_buffers, run_passes
from tenon.runtime import build
from tenon.runtime.cuda import nvrtc
from tenon.runtime.lower import options
from tenon.tools import cli

A = np.zeros((128, 256), np.float32)
B = np.zeros((256, 192), np.float32)


def traced(function: Any, *arrays: Any) -> Any:
    """The module of a function of arrays."""
    return tenon.jit(function).trace(*arrays).module


def scheduled(module: Any, target: str) -> Any:
    """A module after the pass that decides."""
    device, _, architecture = target.partition(":")
    known = options(device, architecture or None)
    copy = module.clone()
    (stage, *_) = lower_to_buffers(Context(), copy, known)
    run_passes(Context(), copy, stage.passes[:1])
    return copy


def chosen(explained: Explained) -> Any:
    (option,) = [option for option in explained.options if option.chosen]
    return option


PROGRAMS = {
    "product": (lambda a, b: a @ b, A, B),
    "halves": (lambda a, b: a @ b + 1, A.astype(np.float16), B.astype(np.float16)),
    "rows": (lambda a: tenon.softmax(a), A),
    "strips": (lambda a, b: tenon.softmax(a @ b), A, B),
    "columns": (lambda a: (tenon.sum(a, axis=0), a.T * 2), A),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_chosen_steps_are_those_of_the_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "why_unavailable", lambda: "it is not here")
    module = traced(*PROGRAMS[name])
    explanation = build.explain(module, "cuda:sm_90a")
    assert explanation.notes == ("times are not predicted: it is not here",)
    for explained, kernel in zip(explanation.kernels, kernels_of(scheduled(module, "cuda:sm_90a")), strict=True):
        steps = kernel.attributes["schedule"]
        assert isinstance(steps, ArrayAttr)
        assert chosen(explained).steps == tuple([s.data for s in steps.data if isinstance(s, StringAttr)])
        before = explained.options[: explained.options.index(chosen(explained))]
        assert all(option.obstacle for option in before), "an earlier decider could have been chosen"


ROWS = tenon.ShapeDtype((tenon.dim("n"), 256), np.dtype(np.float32))


@pytest.mark.parametrize("name", [*PROGRAMS, "few rows and many"])
def test_chosen_schedules_are_those_of_the_pass(name: str) -> None:
    module = traced(*PROGRAMS.get(name, (lambda a, b: tenon.relu(a @ b), ROWS, B)))
    for explained, kernel in zip(
        build.explain(module, "cpu").kernels, kernels_of(scheduled(module, "cpu")), strict=True
    ):
        found: list[str] = []
        for op in kernel.body.block.ops:
            given = op.attributes.get("schedule")
            if isinstance(given, DictionaryAttr):
                numbers = [(key, n.value.data) for key, n in given.data.items() if isinstance(n, IntegerAttr)]
                found.append(", ".join(f"{key} {number}" for key, number in numbers))
        told = [line.partition(": ")[2] for line in chosen(explained).steps if line.startswith("statement")]
        assert [line for line in told if line != "scalars"] == found != []
        assert ("strips" in kernel.attributes) == any(line.startswith("strips") for line in chosen(explained).steps)


def test_tiles_are_told_with_what_they_are_predicted_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "why_unavailable", lambda: "it is not here")
    (kernel,) = build.explain(traced(*PROGRAMS["halves"]), "cuda:sm_90a").kernels
    tiles = chosen(kernel).candidates
    assert chosen(kernel).name == "warpgroup instructions"
    assert {"tile", "blocks", "cycles", "bound"} == set(tiles[0])
    assert f"split(i, {str(tiles[0]['tile']).partition('x')[0]}) -> ig, ib" in chosen(kernel).steps
    assert kernel.facts["operations"] == 2 * 128 * 256 * 192 + 128 * 192
    others = {option.name: option.obstacle for option in kernel.options}
    assert others["matrix instructions"] is None
    assert others["elementwise"] == "a statement reduces"


def test_kernels_are_told_with_how_often_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "why_unavailable", lambda: "it is not here")
    module = traced(lambda x: tenon.scan(lambda carry, row: (tenon.sort(carry + row), None), x[0], x)[0], A)
    for target, sort in (("cpu", "tenon.partition_sort"), ("cuda:sm_90", "tiles.sort")):
        *_, added, sorted_ = build.explain(module, target).kernels
        assert (added.computes, sorted_.computes) == ("parallel 256 f32", f"{sort}, as the op writes it")
        assert added.facts["calls"] == sorted_.facts["calls"] == len(A)


def test_the_command_prints_text_or_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.mlir"
    path.write_text(str(traced(*PROGRAMS["rows"])))
    text = CliRunner().invoke(cli.main, ["explain", str(path)]).output
    assert "  shared loop 0: no lanes along it for statement 0" in text
    told = json.loads(CliRunner().invoke(cli.main, ["explain", str(path), "--json"]).output)
    assert told["target"] == "cpu"
    assert [option["name"] for option in told["kernels"][0]["options"] if option["chosen"]] == ["own loops"]
    assert "tenon.max" in told["kernels"][0]["notes"][0]


def test_a_traced_function_explains_itself(machine: Machine) -> None:
    function, *arrays = PROGRAMS["rows"]
    assert str(tenon.jit(function).trace(*arrays).explain()) == str(build.explain(traced(function, *arrays), "cpu"))
    traced_there = tenon.jit(function, device="cuda:1").trace(*arrays)
    assert traced_there.explain().target == "cuda:sm_90a"
    assert [chosen(kernel).name for kernel in traced_there.explain("cuda:sm_80").kernels] == ["rows"]


def test_programs_that_are_loops_are_refused() -> None:
    module = traced(*PROGRAMS["rows"]).clone()
    build.lower_with(module, "cpu", options("cpu"), "main")
    with pytest.raises(ValueError, match="at the stage of loops, where schedules are decided already"):
        build.explain(module, "cpu")


def test_a_given_schedule_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "why_unavailable", lambda: "it is not here")
    steps = ["split(i, 256) -> i0, i1", "bind(i0, grid)", "bind(i1, block)"]
    module = tenon.jit(lambda x: x * 2, device="cuda", schedule={"kernel_0": steps}).trace(A[0]).module
    (kernel,) = build.explain(module, "cuda:sm_90").kernels
    assert (chosen(kernel).name, list(chosen(kernel).steps)) == ("given steps", steps)
