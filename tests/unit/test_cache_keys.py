"""What is compiled differently has another key in the disk cache, and what is compiled alike has the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenon
from tenon.lowering.options import LoweringOptions
from tenon.lowering.tuning_record import TuningRecord
from tenon.passes.machine import Machine
from tenon.runtime import executables, lower
from tenon.runtime.cpu.compile import host_target
from tenon.runtime.cuda import nvrtc
from tenon.runtime.knobs import Knobs, knobs

MODULE = tenon.jit(lambda x: tenon.exp(x)).trace(np.zeros(8, ml_dtypes.bfloat16)).module


@pytest.fixture(autouse=True)
def keys_instead_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executables, "_cpu_executable", lambda module, key, name, options: key)
    monkeypatch.setattr(executables, "_executables", type(executables._executables)(256))


def key() -> Any:
    return executables.executable(MODULE, "cpu")


def other(value: Any) -> Any:
    """A value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case tuple():
            return (*value, "x")
        case _:
            return 12345


@pytest.mark.parametrize("field", dataclasses.fields(LoweringOptions), ids=lambda field: field.name)
def test_each_lowering_option_is_part_of_the_key(
    field: dataclasses.Field[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, before = lower.options("cpu"), key()
    if field.name == "tuning":
        # what a record says counts, not where it lies
        monkeypatch.setattr(executables, "_tuning_key", lambda device, architecture: "a digest")
        assert key() != before
        return
    changed = dataclasses.replace(options, **{field.name: other(getattr(options, field.name))})
    monkeypatch.setattr(lower, "options", lambda *_: changed)
    assert key() != before


@pytest.mark.parametrize("field", dataclasses.fields(Machine), ids=lambda field: field.name)
def test_each_fact_of_the_machine_is_part_of_the_key(
    field: dataclasses.Field[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, before = lower.machine(), key()
    value = getattr(known, field.name)
    changed = dataclasses.replace(known, **{field.name: 2 * value if type(value) is int else other(value)})
    monkeypatch.setattr(lower, "machine", lambda **_: changed)
    assert key() != before


OTHER_CODE: dict[str, Any] = {
    "vector_bits": 128,
    "target_cpu": "x86-64" if host_target().triple.startswith("x86_64") else "generic",
    "target_features": "-fma" if host_target().triple.startswith("x86_64") else "-lse",
    "exact_math": "exp",
    "minimal_filtering": False,
    "skip_masked": False,
    "bf16_dots": False,
    "tuning": "record.json",
}
"""For each knob that changes what is compiled, a value that does."""

OTHER_GPU_CODE: dict[str, Any] = {"tf32": True, "deterministic": False, "cublas": False}
"""The same of knobs that change what is compiled for a GPU alone."""

SAME_CODE: dict[str, Any] = {
    "cuda_graphs": False,
    "cuda_sync": True,
    "debug": 1,
    "log_compiles": True,
    "cache": False,
    "cache_dir": "elsewhere",
    "cache_limit_mb": 1,
    "result_pool_mb": 1,
    "check_memory": True,
    "verify": True,
    "num_threads": 1,
    "reproducible": True,
    "traceback": "full",
}
"""For each other knob a value that is not the default; what is compiled under it serves all."""

OTHER_IR = {"check_results", "check_gradients"}
"""What these change is in the IR that is compiled, which the key is of."""

ASIDE = {"interpret", "dump_ir"}
"""With these nothing is taken from the cache."""


def test_every_knob_is_of_one_kind() -> None:
    kinds = [set(OTHER_CODE), set(OTHER_GPU_CODE), set(SAME_CODE), OTHER_IR, ASIDE]
    assert set().union(*kinds) == {knob.name for knob in Knobs.all()}
    assert sum(map(len, kinds)) == len(Knobs.all())
    assert {knob.name for knob in Knobs.all() if knob.decides_code} >= set(OTHER_CODE | OTHER_GPU_CODE)


@pytest.mark.parametrize("name", OTHER_CODE)
def test_knobs_that_change_code_change_the_key(name: str, tmp_path: Path) -> None:
    value = OTHER_CODE[name]
    if name == "bf16_dots" and "bf16" not in (*host_target().dots, *lower.machine().tiles):
        pytest.skip("this processor has no instruction for bf16")
    if name == "tuning":
        value = tmp_path / value
        value.write_text(TuningRecord({}).text())
    before = key()
    with knobs.override(**{name: value}):
        changed = key()
    assert changed != before
    assert key() == before


@pytest.mark.parametrize("name", OTHER_GPU_CODE)
def test_knobs_that_change_code_for_a_gpu_change_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "version", lambda: (12, 9))
    monkeypatch.setattr("tenon.runtime.cuda.cublas.path", lambda: "libcublas.so")
    before = executables._target_key("cuda", lower.options("cuda", "sm_80"), "sm_80")
    with knobs.override(**{name: OTHER_GPU_CODE[name]}):
        assert executables._target_key("cuda", lower.options("cuda", "sm_80"), "sm_80") != before


@pytest.mark.parametrize("name", sorted(OTHER_IR))
def test_knobs_that_change_the_ir_change_what_the_key_is_of(name: str) -> None:
    x = np.ones(4, np.float32)
    slope = tenon.jit(tenon.grad(lambda x: tenon.log(x).sum()))
    before = str(slope.trace(x).module)
    with knobs.override(**{name: "nan"}):
        assert str(slope.trace(x).module) != before
    assert str(slope.trace(x).module) == before


@pytest.mark.parametrize("name", SAME_CODE)
def test_other_knobs_share_entries(name: str) -> None:
    before = key()
    with knobs.override(**{name: SAME_CODE[name]}):
        assert key() == before


def test_a_tuning_record_counts_by_what_it_says(tmp_path: Path) -> None:
    records = [tmp_path / name for name in ("one.json", "two.json", "three.json")]
    keys = []
    for record, text in zip(records, ("{}", "{}", '{ "x": {}}'), strict=True):
        record.write_text(text)
        with knobs.override(tuning=record):
            keys.append(key())
    assert keys[0] == keys[1] != keys[2]
