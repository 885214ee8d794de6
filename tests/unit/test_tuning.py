"""Tuning: what a record says counts, kernels are told by structure, and what is measured is compared first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tenon
from tenon.lowering.schedules.candidates import other_strips
from tenon.lowering.tuning_record import Decision, TuningRecord
from tenon.runtime.cpu.compile import host_target
from tenon.runtime.lower import machine
from tenon.runtime.tuning import processor_name
from tenon.tools import cli, tune, tune_cpu, tune_search

A = np.random.default_rng(0).standard_normal((20, 33), np.float32)
B = np.random.default_rng(1).standard_normal((33, 48), np.float32)
NARROW = {"vector": 1, "width": 4, "unroll": 2, "jam": 0, "jam_count": 3}


def traced(function: Any, *arrays: Any) -> Any:
    """The module of a function of arrays."""
    return tenon.jit(function).trace(*arrays).module


def keys(function: Any, *arrays: Any) -> list[str]:
    """The keys of its kernels."""
    return list(tune.plans_of(traced(function, *arrays), "cpu"))


def processor() -> str:
    """This one."""
    return processor_name(host_target(), machine().vector_bits)


def write(path: Path, key: str, *schedules: Any, name: str | None = None) -> Path:
    """A record with one decision."""
    decision = Decision("a kernel", schedules, None, 1.5)
    path.write_text(TuningRecord({name or processor(): {key: decision}}).text())
    return path


def test_kernels_are_told_by_structure_not_by_names() -> None:
    (key,) = keys(lambda a, b: a @ b, A, B)
    assert keys(lambda left, right: tenon.matmul(left, right), A, B) == [key]
    assert keys(lambda a, b: a @ b, A[:19], B) != [key]
    assert keys(lambda a, b: a @ b, A.astype(np.float64), B.astype(np.float64)) != [key]
    assert keys(lambda a, b: a + b, A, A) != keys(lambda a, b: a - b, A, A)


def test_text_of_a_record_does_not_depend_on_the_order(tmp_path: Path) -> None:
    first, second = Decision("x", (None,)), Decision("y", (NARROW, None), (32,), 1.1)
    record = TuningRecord({"p": {"1": first, "2": second}, "o": {}})
    assert record.text() == TuningRecord({"o": {}, "p": {"2": second, "1": first}}).text()
    (tmp_path / "record.json").write_text(record.text())
    assert TuningRecord.read(tmp_path / "record.json") == record


@pytest.mark.parametrize("text", ["", "[]", '{"processors": {"p": {"k": {}}}}', '{"processors": 3}'])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is no tuning record"):
        TuningRecord.read(path)


def test_a_record_decides_and_is_part_of_what_is_compiled(tmp_path: Path) -> None:
    (key,) = keys(lambda a, b: a @ b, A, B)
    multiply = tenon.jit(lambda a, b: a @ b)
    before = multiply(A, B)
    with tenon.knobs.override(tuning=write(tmp_path / "record.json", key, NARROW)):
        assert "vector<4xf32>" in str(multiply.lower(A, B))
        (option,) = multiply.trace(A, B).explain().kernels[0].options
        assert (option.name, option.chosen) == ("tuning record, 1.5 times as fast as the model", True)
        assert option.steps == (f"statement 0: {', '.join(f'{key} {number}' for key, number in NARROW.items())}",)
        np.testing.assert_allclose(multiply(A, B), A @ B, rtol=1e-4, atol=1e-5)
        assert "vector<4xf32>" in str(multiply.compile(A, B))
        write(tmp_path / "record.json", key, {**NARROW, "width": 8})
        assert "vector<4xf32>" not in str(multiply.compile(A, B))
    np.testing.assert_array_equal(multiply(A, B), before)
    assert "vector<4xf32>" not in str(multiply.compile(A, B))


def test_a_record_that_is_written_again_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (key,) = keys(lambda a, b: a @ b, A, B)
    multiply, path = tenon.jit(lambda a, b: a @ b), tmp_path / "record.json"
    with tenon.knobs.override(log_compiles=True):
        for width, compiles in ((4, 1), (4, 0), (8, 1)):
            if compiles:
                write(path, key, {**NARROW, "width": width})
            with tenon.knobs.override(tuning=path):
                multiply(A, B)
            assert capsys.readouterr().err.count("compiling") == compiles


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ((NARROW, NARROW), "2 schedules for a kernel of 1 generics"),
        (({"vectors": 1},), "a kernel: .*'vectors'"),
        (({"vector": 7, "width": 4},), "vector is loop 7, but the op has 3 loops"),
    ],
)
def test_decisions_that_do_not_fit_are_errors(tmp_path: Path, schedules: Any, message: str) -> None:
    (key,) = keys(lambda a, b: a @ b, A, B)
    path = write(tmp_path / "record.json", key, *schedules)
    with tenon.knobs.override(tuning=path), pytest.raises(ValueError, match=message):
        tenon.jit(lambda a, b: a @ b).compile(A, B)


def test_a_record_for_another_processor_is_unused_or_refused(tmp_path: Path) -> None:
    (key,) = keys(lambda a, b: a @ b, A, B)
    path = write(tmp_path / "record.json", key, NARROW, name="another 512")
    multiply = tenon.jit(lambda a, b: a @ b)
    with tenon.knobs.override(tuning=path):
        assert "vector<4xf32>" not in str(multiply.lower(A, B))
    with (
        tenon.knobs.override(tuning=path, reproducible=True),
        pytest.raises(ValueError, match=r"is for another 512, and this processor is .*TENON_REPRODUCIBLE=1"),
    ):
        multiply.compile(A, B)
    with tenon.knobs.override(tuning=write(path, key, NARROW), reproducible=True):
        assert "vector<4xf32>" in str(multiply.lower(A, B))


def test_a_record_that_is_missing_is_named_with_its_knob(tmp_path: Path) -> None:
    path = tmp_path / "missing.json"
    with tenon.knobs.override(tuning=path), pytest.raises(FileNotFoundError, match=f"TENON_TUNING: .* {path}"):
        tenon.jit(lambda a, b: a @ b)(A, B)


def test_reproducible_forbids_to_measure() -> None:
    with tenon.knobs.override(reproducible=True), pytest.raises(ValueError, match="forbids to measure"):
        tune.tune(traced(lambda a, b: a @ b, A, B), 0.0, lambda _: None)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a @ b,
        lambda a, b: tenon.softmax(a @ b),
        lambda a, b: tenon.sum(a, axis=0) * 2 + tenon.mean(b),
    ],
    ids=["product", "strips", "sums"],
)
def test_candidates_give_the_same_numbers(function: Any) -> None:
    tried = 0
    for plans in tune.plans_of(traced(function, A, B), "cpu").values():
        right = plans.compiled(plans.default).results()
        for plan in list(plans.near(plans.default))[::4]:
            np.testing.assert_allclose(plans.compiled(plan).results()[0], right[0], rtol=2e-4, atol=1e-5)
            tried += 1
    assert tried


def test_strips_become_half_and_twice_as_long() -> None:
    assert other_strips([32, 1]) == [[16, 1], [64, 1], [32, 2]]
    assert other_strips(None) == []


def test_the_command_keeps_what_was_faster_and_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, path = tmp_path / "product.mlir", tmp_path / "record.json"
    source.write_text(str(traced(lambda a, b: a @ b, A, B)))
    write(path, "other kernel", None, name="another 512")
    monkeypatch.setattr(tune_cpu, "host_seconds", lambda trials: [2e-3, 1e-3][: len(trials)])
    result = CliRunner().invoke(cli.main, ["tune", str(source), "-o", str(path), "--seconds", "0.5"])
    assert result.exit_code == 0, result.output
    assert "parallel 20, parallel 48, reduction 33 f32" in result.output
    kept = json.loads(path.read_text())["processors"]
    assert list(kept) == sorted(["another 512", processor()])
    (decision,) = kept[processor()].values()
    assert decision["gain"] == 2.0
    with tenon.knobs.override(tuning=path):
        np.testing.assert_allclose(tenon.jit(lambda a, b: a @ b)(A, B), A @ B, rtol=1e-4, atol=1e-5)


def test_a_candidate_with_other_numbers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (plans,) = tune.plans_of(traced(lambda a, b: a @ b, A, B), "cpu").values()
    monkeypatch.setattr(tune_cpu, "host_seconds", lambda trials: [2e-3, 1e-3][: len(trials)])
    assert tune_search.search(plans, 0.3).decision is not None
    monkeypatch.setattr(tune_search, "_same", lambda results, expected: False)
    assert tune_search.search(plans, 0.3).decision is None
