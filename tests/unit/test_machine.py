"""The machine that programs are compiled for: as text, and programs for machines that are not there."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower as lower_module
from tenon.passes.machine import GENERIC, MACHINES, Machine
from tenon.runtime import lower, processor_facts

FACTS = [
    {"vector_bits": 256, "registers": 16},
    {"l1": 1 << 16, "l2": 1 << 19, "l3": 1 << 23},
    {"line": 128, "page": 1 << 14, "part_bits": 256},
    {"scaling": True, "multiply_add": False, "dots": ("bf16", "i8")},
    {"packs": ("32", "64"), "tiles": ("bf16", "i8")},
]


@pytest.mark.quick
@pytest.mark.parametrize("machine", [*MACHINES.values(), *(dataclasses.replace(GENERIC, **facts) for facts in FACTS)])
def test_text_says_what_differs(machine: Machine) -> None:
    assert Machine.parse(machine.text()) == machine


@pytest.mark.quick
def test_names_and_facts() -> None:
    assert Machine.parse("") == GENERIC
    assert Machine.parse("neon") == MACHINES["neon"]
    assert Machine.parse("avx2 l2=262144 dots=") == dataclasses.replace(MACHINES["avx2"], l2=262144)
    for text, error in {
        "avx3": "machine is 'avx3', none of",
        "l2=1 avx2": "machine has no fact 'avx2'",
        "scaling=1": "machine has scaling=1, expected true or false",
        "vector-bits=500": "vector-bits is 500, neither 0 nor a power of two",
        "l1=0": "l1 is 0, expected at least 256",
        "part-bits=96": "part-bits is 96, expected a power of two",
        "line=48": "line is 48, expected a power of two",
        "line=512": "line is 512, expected at most 256",
    }.items():
        with pytest.raises(ValueError, match=error):
            Machine.parse(text)


@pytest.mark.quick
def test_what_the_system_does_not_tell_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "index0": {"level": "1", "type": "Data", "size": "48K"},
        "index1": {"level": "1", "type": "Instruction", "size": "32K"},
        "index2": {"level": "2", "type": "Unified", "size": "2M", "coherency_line_size": "64"},
        "index3": {"level": "3", "type": "Unified", "coherency_line_size": "64"},
    }
    for folder, texts in told.items():
        (tmp_path / folder).mkdir()
        for name, text in texts.items():
            (tmp_path / folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(processor_facts, "_FOLDER", tmp_path)
    sizes = {**processor_facts.known_sizes.__wrapped__()}
    assert sizes.pop("page") > 0
    assert sizes == {"l1": 48 << 10, "l2": 2 << 20}


def _layer(x: Any, w: Any, b: Any) -> Any:
    return tenon.softmax(tenon.tanh(x @ w + b), axis=-1), tenon.sum(x, axis=0), tenon.transpose(w) * 2


ELSEWHERE = [
    "avx2",
    "sse",
    "neon",
    "l1=4096 l2=16384 l3=65536",
    "neon l1=65536 l2=4194304 l3=4194304",
    "avx2 line=128 page=16384 part-bits=256",
    "sse registers=4 part-bits=8 l1=256 l2=256 l3=256 line=8 page=256",
]


@pytest.mark.parametrize("text", ELSEWHERE)
def test_programs_for_machines_that_are_not_there(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is decided by the machine, numbers are right."""
    monkeypatch.setattr(lower, "machine", lambda **_: Machine.parse(text))
    rng = np.random.default_rng(0)
    x, w, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((150, 70), (70, 133), (133,)))
    ours = tenon.jit(_layer)(x, w, b)
    e = np.exp(np.tanh(x.astype(np.float64) @ w + b))
    for result, expected in zip(ours, (e / e.sum(-1, keepdims=True), x.sum(0, dtype=np.float64), 2 * w.T), strict=True):
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-5)


def _loops(function: Any, arrays: list[Any], machine: Machine) -> str:
    module = tenon.jit(function).trace(*arrays).module.clone()
    return str(lower_module(lower.new_context(), module, LoweringOptions(machine)))


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ({"vector_bits": 256, "registers": 16}, True),
        ({"vector_bits": 128}, True),
        ({"l2": 1 << 16}, True),
        ({"l3": 1 << 18}, True),
        ({"multiply_add": False}, False),
    ],
)
def test_loops_follow_the_machine(facts: dict[str, Any], changes: bool) -> None:
    """A product of matrices of 256 KiB; it holds no functions that are made of multiply-adds."""
    arrays = [np.zeros((256, 256), np.float32)] * 2
    there, here = (_loops(tenon.matmul, arrays, m) for m in (dataclasses.replace(GENERIC, **facts), GENERIC))
    assert (there != here) is changes
