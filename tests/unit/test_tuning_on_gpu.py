"""Tuning for a GPU: what is tried and in which order, what is kept, and what a record does; on the stand-in, whose
times are given."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from cupy_stand_in import Machine

import tenon
from tenon.lowering.tuning_record import Decision, TuningRecord
from tenon.runtime.build import explain
from tenon.tools import cli, tune, tune_cuda, tune_search

X = np.arange(1000, dtype=np.float32)
HALVES = np.ones((128, 128), np.float16)
NAME = "sm_90a Stand-in 90"
BY_FOURS = ("split(i, 4) -> i_, iv", "vectorize(iv)", "split(i_, 8) -> ig, it", "bind(ig, grid)", "bind(it, block)")


def doubled(x: Any) -> Any:
    """A program of one kernel."""
    return x * 2


def traced(function: Any, *arrays: Any) -> Any:
    """The module of a function of arrays."""
    return tenon.jit(function).trace(*arrays).module


def record(path: Path, *steps: str, name: str = NAME) -> Path:
    """One for the kernel of `doubled`."""
    (key,) = tune.plans_of(traced(doubled, X), "cuda")
    path.write_text(TuningRecord({name: {key: Decision("a kernel", gain=1.5, steps=steps)}}).text())
    return path


def test_tiles_are_tried_in_the_order_of_their_predictions(machine: Machine) -> None:
    module = traced(lambda x, y: x @ y, HALVES, HALVES)
    (kernel,) = explain(module, "cuda:sm_90a").kernels
    tiles = [row for option in kernel.options for row in option.candidates]
    assert len([option for option in kernel.options if option.candidates]) == 4
    (plans,) = tune.plans_of(module, "cuda").values()
    by_cycles = sorted(tiles, key=lambda row: float(row["cycles"] or 0))
    for tile, plan in zip(by_cycles, plans.near(plans.default), strict=False):
        assert f"split(i, {str(tile['tile']).partition('x')[0]}) -> ig, ib" in plan
        if plan == plans.default:
            break
    else:
        pytest.fail("what the model chooses is not tried")


def test_what_is_measured_to_be_fastest_is_kept_and_used(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times fall up to blocks of 64 threads."""

    def seconds(trials: Sequence[tune_search.Trial]) -> list[float]:
        sizes = [int(re.findall(r"split\(i_, (\d+)\)", " ".join(trial.plan))[0]) for trial in trials]
        return [1e-3 * (64 / size if size <= 64 else 2) for size in sizes]

    monkeypatch.setattr(tune_cuda, "device_seconds", seconds)
    source, path = tmp_path / "double.mlir", tmp_path / "record.json"
    source.write_text(str(traced(doubled, X)))
    command = ["tune", str(source), "--target", "cuda", "-o", str(path), "--seconds", "60"]
    result = CliRunner().invoke(cli.main, command)
    assert result.exit_code == 0, result.output
    assert re.search(r"1000.0 us, was 2000.0 \(\d+ tried\): parallel 1000 f32", result.output)
    (decision,) = json.loads(path.read_text())["processors"][NAME].values()
    assert decision["gain"] == 2.0
    assert "split(i_, 64) -> ig, it" in decision["steps"]
    function = tenon.jit(doubled, device="cuda")
    threads = "block = array<i64: 64, 1, 1>"
    assert threads not in str(function.compile(X))
    with tenon.knobs.override(tuning=path):
        (kernel,) = explain(traced(doubled, X), "cuda:sm_90a").kernels
        assert list(kernel.options[0].steps) == decision["steps"]
        np.testing.assert_array_equal(function(X).get(), X * 2)
        assert threads in str(function.compile(X))


def test_a_record_of_an_architecture_goes_for_the_only_gpu_of_it(machine: Machine, tmp_path: Path) -> None:
    path = record(tmp_path / "record.json", *BY_FOURS)
    with tenon.knobs.override(tuning=path):
        machine.architectures = ["80"]  # another GPU is there than code is compiled for
        assert explain(traced(doubled, X), "cuda:sm_90a").kernels[0].options[0].steps == BY_FOURS
        assert explain(traced(doubled, X), "cuda:sm_80").kernels[0].options[0].steps == ()
    several = TuningRecord({NAME: {}, "sm_90a Other": {}})
    assert several.of("sm_90a") is None
    assert several.of("sm_90a Other") == {}
    longer = TuningRecord({"sm_90a Other Ti": {}})
    assert longer.of("sm_90a Other") is None
    assert longer.of("sm_90a") == {}


def test_steps_that_do_not_fit_are_errors(machine: Machine, tmp_path: Path) -> None:
    path = record(tmp_path / "record.json", "bind(i, block)", "bind(j, grid)")
    with (
        tenon.knobs.override(tuning=path),
        pytest.raises(ValueError, match=r"tuning record: a kernel: bind\(j, grid\)"),
    ):
        tenon.jit(doubled, device="cuda")(X)


def test_a_record_for_another_gpu_is_unused_or_refused(machine: Machine, tmp_path: Path) -> None:
    path = record(tmp_path / "record.json", *BY_FOURS, name="sm_80 Other")
    function = tenon.jit(doubled, device="cuda")
    with tenon.knobs.override(tuning=path):
        np.testing.assert_array_equal(function(X).get(), X * 2)
    with (
        tenon.knobs.override(tuning=path, reproducible=True),
        pytest.raises(ValueError, match="is for sm_80 Other, and this processor is sm_90a Stand-in 90"),
    ):
        function.compile(X)


def test_times_are_those_of_launches_on_the_device(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_cuda, "MOST_LAUNCHES", 2)
    (plans,) = tune.plans_of(traced(doubled, X), "cuda").values()
    trial = plans.compiled(plans.default)
    before = machine.graph_launches
    assert min(plans.seconds([trial, trial])) > 0
    assert machine.graph_launches - before == 2 * (1 + tune_search.ROUNDS + 1)


def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    source = tmp_path / "double.mlir"
    source.write_text(str(traced(doubled, X)))
    result = CliRunner().invoke(cli.main, ["tune", str(source), "--target", "cuda"])
    assert result.exit_code == 1
    assert "tenon: error: tune measures on cuda, and there is none: " in result.output
    assert not (tmp_path / "double.tuning.json").exists()
