"""The environment variables: what each accepts, defaults to, and says when it is set wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenon.runtime.knobs import Knob, Knobs, knobs, render_table


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for knob in Knobs.all():
        monkeypatch.delenv(knob.variable, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


def test_defaults() -> None:
    assert {knob.name: getattr(knobs, knob.name) for knob in Knobs.all()} == {
        "debug": 0,
        "dump_ir": None,
        "verify": False,
        "log_compiles": False,
        "interpret": False,
        "cache": True,
        "cache_dir": Path("~/.cache/tenon").expanduser(),
        "cache_limit_mb": 1024,
        "result_pool_mb": 512,
        "check_results": "",
        "check_gradients": "",
        "check_memory": False,
        "vector_bits": None,
        "target_cpu": None,
        "target_features": None,
        "exact_math": "",
        "minimal_filtering": True,
        "skip_masked": True,
        "bf16_dots": True,
        "tf32": False,
        "deterministic": True,
        "cublas": True,
        "cuda_graphs": True,
        "cuda_sync": False,
        "traceback": "user",
        "num_threads": None,
        "tuning": None,
        "reproducible": False,
    }


@pytest.mark.parametrize(
    ("variable", "text", "name", "expected"),
    [
        ("TENON_DEBUG", "4", "debug", 4),
        ("TENON_DUMP_IR", "stages", "dump_ir", Path("stages")),
        ("TENON_DUMP_IR", "~/stages", "dump_ir", Path("~/stages").expanduser()),
        ("TENON_VERIFY", "1", "verify", True),
        ("TENON_LOG_COMPILES", "1", "log_compiles", True),
        ("TENON_INTERPRET", "True", "interpret", True),
        ("TENON_INTERPRET", "on", "interpret", True),
        ("TENON_INTERPRET", "off", "interpret", False),
        ("TENON_CACHE", "0", "cache", False),
        ("TENON_CACHE_DIR", "kernels", "cache_dir", Path("kernels")),
        ("TENON_CACHE_LIMIT_MB", "0", "cache_limit_mb", 0),
        ("TENON_VECTOR_BITS", "256", "vector_bits", 256),
        ("TENON_TARGET_CPU", "znver4", "target_cpu", "znver4"),
        ("TENON_TARGET_FEATURES", "+avx2,-avx512f", "target_features", "+avx2,-avx512f"),
        ("TENON_EXACT_MATH", "tanh, exp", "exact_math", "exp,tanh"),
        ("TENON_MINIMAL_FILTERING", "0", "minimal_filtering", False),
        ("TENON_SKIP_MASKED", "0", "skip_masked", False),
        ("TENON_BF16_DOTS", "0", "bf16_dots", False),
        ("TENON_TF32", "1", "tf32", True),
        ("TENON_DETERMINISTIC", "0", "deterministic", False),
        ("TENON_CUBLAS", "0", "cublas", False),
        ("TENON_CUDA_GRAPHS", "0", "cuda_graphs", False),
        ("TENON_CUDA_SYNC", "1", "cuda_sync", True),
        ("TENON_NUM_THREADS", "2", "num_threads", 2),
        ("TENON_DEBUG", "", "debug", 0),
    ],
)
def test_reads_the_environment_at_each_access(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, expected: object
) -> None:
    default = getattr(knobs, name)
    monkeypatch.setenv(variable, text)
    assert getattr(knobs, name) == expected
    monkeypatch.delenv(variable)
    assert getattr(knobs, name) == default


@pytest.mark.parametrize(
    ("variable", "text", "name", "message"),
    [
        ("TENON_DEBUG", "loud", "debug", "TENON_DEBUG is 'loud', expected an integer from 0 to 4"),
        ("TENON_DEBUG", "5", "debug", "TENON_DEBUG is '5', expected an integer from 0 to 4"),
        (
            "TENON_CACHE",
            "2",
            "cache",
            "TENON_CACHE is '2', expected 1, 0, true, false, yes, no, on or off",
        ),
        ("TENON_VECTOR_BITS", "384", "vector_bits", "TENON_VECTOR_BITS is '384', expected 128, 256 or 512"),
        (
            "TENON_TARGET_FEATURES",
            "avx2",
            "target_features",
            "TENON_TARGET_FEATURES is 'avx2', expected names of LLVM's features, each with + or - in front, such as "
            "`+avx2,-avx512f`",
        ),
    ],
)
def test_bad_values(monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, message: str) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared below
        getattr(knobs, name)
    assert str(error.value) == message


def test_cache_dir_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert knobs.cache_dir == tmp_path / "tenon"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert knobs.cache_dir == Path("~/.cache/tenon").expanduser()


def test_override_nests_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENON_DEBUG", "1")
    monkeypatch.setenv("TENON_VECTOR_BITS", "256")
    with knobs.override(debug=2, vector_bits=None):
        assert (knobs.debug, knobs.vector_bits) == (2, None)
        with knobs.override(debug=3, interpret=True):
            assert (knobs.debug, knobs.interpret, knobs.vector_bits) == (3, True, None)
        assert (knobs.debug, knobs.interpret) == (2, False)
    assert (knobs.debug, knobs.vector_bits) == (1, 256)


def test_override_ends_with_an_error() -> None:
    with pytest.raises(KeyError), knobs.override(debug=4):
        raise KeyError
    assert knobs.debug == 0


def test_override_refuses_before_it_changes_anything() -> None:
    with (
        pytest.raises(ValueError, match="TENON_VECTOR_BITS is '99', expected 128, 256 or 512"),
        knobs.override(debug=1, vector_bits=99),
    ):
        pass
    assert knobs.debug == 0
    with (
        pytest.raises(TypeError, match=r"no knob is named verbose(, did you mean .*)?; there are debug, dump_ir"),
        knobs.override(verbose=1),
    ):
        pass


def test_assignment_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"set TENON_DEBUG or use knobs\.override"):
        knobs.debug = 2


@pytest.mark.parametrize("knob", Knobs.all(), ids=lambda knob: knob.name)
def test_table_lists_each_knob(knob: Knob[Any]) -> None:
    row = next(line for line in render_table().splitlines() if line.startswith(f"| `{knob.variable}` "))
    assert row == (
        f"| `{knob.variable}` | `knobs.{knob.name}` | {knob.accepts} | {knob.default_text} | {knob.effect} |"
    )
