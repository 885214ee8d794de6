"""`TENON_CHECK_MEMORY=1`: what native code does beyond its memory is told, and no program does such a thing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from program_builder import Program
from random_programs import programs
from test_random_programs import assert_agrees, compiled, examples

import tenon
from tenon.runtime import executable_cpu
from tenon.runtime.cpu.addresses import addresses
from tenon.runtime.cpu.compile import compile_object
from tenon.runtime.cpu.guarded_memory import GuardedMemory, MemoryCheckError, guarded
from tenon.runtime.cpu.load import entry_point
from tenon.runtime.cpu.program import load_program
from tenon.runtime.executable_cpu import CpuExecutable
from tenon.runtime.knobs import knobs

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="errors end the process there")

F32 = np.float32


# --- what is found ----------------------------------------------------------------------------------------------------

PLANTED = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
define void @main(ptr %buffers) {{
  %x = load ptr, ptr %buffers
  %y.place = getelementptr ptr, ptr %buffers, i64 1
  %y = load ptr, ptr %y.place
  %arena.place = getelementptr ptr, ptr %buffers, i64 2
  %arena = load ptr, ptr %arena.place
  %panel = call ptr @aligned_alloc(i64 64, i64 100)
  {body}
  ret void
}}
"""


def run_planted(body: str) -> np.ndarray:
    """Run `body` on an input of 10 f32, a result of 10 f32, an arena of 100 bytes and a panel of as many."""
    code = compile_object(PLANTED.format(body=body), optimization=0)
    loaded = load_program([code], scratch=guarded().scratch_functions())
    x, y = np.arange(10, dtype=F32), np.zeros(10, F32)
    entry = entry_point(loaded.entry())
    guarded().call("planted", entry, [x], (), [y], (), guarded().aligned(100, "arena"))
    return y


def store(buffer: str, offset: int, value: str = "float 1.0") -> str:
    return f"%place = getelementptr i8, ptr %{buffer}, i64 {offset}\n  store {value}, ptr %place"


FREE = "call void @free(ptr %panel)"
FOUND = {
    "behind a result": (store("y", 40), r"result 0, float32\[10\]: touched 0 bytes behind its end"),
    "far behind a result": (store("y", 40 + 9000), "result 0, .*: touched 9000 bytes behind its end"),
    "before a result": (store("y", -4), "result 0, .*: written to 1 bytes before its start"),
    "long before a result": (store("y", -5000), "result 0, .*: touched 5000 bytes before its start"),
    "behind an input": (
        "%q = getelementptr i8, ptr %x, i64 40\n  %v = load float, ptr %q\n  store float %v, ptr %y",
        "input 0, .*: touched 0 bytes behind its end",
    ),
    "an input": (store("x", 4), "input 0, .*: written to, though it is only read, touched at byte 4"),
    "behind the arena": (store("arena", 100, "i8 7"), "arena: written to 0 bytes behind its end"),
    "behind a panel": (
        store("panel", 100 + 28) + f"\n  {FREE}",
        "panels of 100 bytes: touched 28 bytes behind its end",
    ),
    "close behind a panel": (store("panel", 120) + f"\n  {FREE}", "panels of 100 bytes: written to 20 bytes behind"),
    "a panel that was freed": (
        f"{FREE}\n  {store('panel', 8)}",
        "panels of 100 bytes: used after it was freed, touched at byte 8",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_native_code_does_beyond_its_memory_is_told(name: str) -> None:
    body, message = FOUND[name]
    with pytest.raises(MemoryCheckError, match=f"^planted: {message}"):
        run_planted(body)
    np.testing.assert_array_equal(run_planted(store("y", 0) + f"\n  {FREE}")[0], 1)


def test_what_is_not_written_is_no_number() -> None:
    np.testing.assert_array_equal(np.isnan(run_planted(f"{store('y', 4)}\n  {FREE}")), [True, False, *[True] * 8])
    read = "%v = load float, ptr %arena\n  store float %v, ptr %y"
    assert np.isnan(run_planted(f"{read}\n  {FREE}")[0])


def test_memory_that_is_freed_before_it_is_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the arena of a preparation once was: only the addresses were kept."""

    def call(
        self: GuardedMemory,
        program: str,
        entry: Any,
        inputs: Sequence[Any],
        prepared: Sequence[Any],
        results: Sequence[Any],
        numbers: Sequence[Any],
        arena: Any,
    ) -> None:
        if prepared:
            return usual(self, program, entry, inputs, prepared, results, numbers, arena)
        pointers, _ = addresses((*inputs, *results, guarded().aligned(arena.nbytes, "arena of the preparation")))
        del pointers.arrays
        entry(pointers)
        return None

    usual = GuardedMemory.call
    monkeypatch.setattr(GuardedMemory, "call", call)
    w, x = np.random.default_rng(0).normal(size=(60, 60)), np.ones((4, 60))
    f = tenon.jit(lambda w, x: x @ (tenon.sort(tenon.sin(w), axis=0) @ tenon.sort(w, axis=0))).freeze(w)
    with (
        tenon.num_threads(2),
        knobs.override(check_memory=True),
        pytest.raises(MemoryCheckError, match=r"^<lambda>: arena of the preparation: used after it was freed"),
    ):
        f(x)


def test_what_is_no_memory_of_ours_ends_the_process_as_before() -> None:
    """With a message of Python's own fault handler, if that is on."""
    import subprocess

    program = """
import faulthandler, ctypes, numpy as np, tenon
faulthandler.enable()
with tenon.knobs.override(check_memory=True):
    tenon.jit(lambda x: x + 1)(np.zeros(3, np.float32))
ctypes.string_at(8)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -11
    assert "Segmentation fault" in done.stderr


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def checked():
    with knobs.override(check_memory=True):
        yield


@examples(25)
@given(programs())
def test_random_programs(program: Program) -> None:
    with knobs.override(check_memory=True):
        assert_agrees(program, compiled(program))


def test_calls_go_through_guarded_memory(checked: None) -> None:
    """Also those of functions that were called before, and no longer afterwards."""
    f, x = tenon.jit(lambda x: x * 3), np.arange(5, dtype=F32)
    with knobs.override(check_memory=False):
        for _ in range(3):
            f(x)
        assert not [c for c in f._compiled.values() if c.executable.memory.is_checked]
    for _ in range(3):
        np.testing.assert_array_equal(f(x), x * 3)
    assert [c for c in f._compiled.values() if c.executable.memory.is_checked]
    assert isinstance(tenon.jit(lambda x: x * 3).compile(x).executable, CpuExecutable)
    assert executable_cpu._launch_memory().is_checked


def test_frozen_functions(checked: None) -> None:
    rng = np.random.default_rng(1)
    image, kernel = rng.normal(size=(2, 8, 12, 11)).astype(F32), rng.normal(size=(16, 8, 3, 3)).astype(F32)
    scale = rng.normal(size=16).astype(F32)

    def f(kernel: Any, scale: Any, image: Any) -> Any:
        return tenon.relu(tenon.conv2d(image, kernel * tenon.reshape(scale, (16, 1, 1, 1)), padding=1))

    frozen = tenon.jit(f).freeze(kernel, scale)
    for count in (2, 1, 2):
        np.testing.assert_allclose(
            frozen(image[:count]), tenon.jit(f)(kernel, scale, image[:count]), rtol=1e-4, atol=1e-4
        )


def test_donated_arguments_and_given_results(checked: None) -> None:
    x, y = np.arange(600, dtype=F32), np.ones(600, F32)
    step = tenon.jit(lambda x, y: (tenon.cumsum(x) + y, y * 2), donate="x")
    given, expected = x.copy(), (np.cumsum(x) + y, y * 2)
    results = step(given, y)
    assert np.shares_memory(results[0], given)
    np.testing.assert_allclose(results, expected, rtol=1e-6)
    kept = x.copy()
    np.testing.assert_allclose(step(kept, kept)[0], np.cumsum(x) + x, rtol=1e-6)
    np.testing.assert_array_equal(kept, x)
    out = (np.empty(600, F32), np.empty(600, F32))
    assert step(x.copy(), y, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_sizes_known_at_launch(checked: None) -> None:
    f = tenon.jit(lambda x, w: tenon.softmax(x @ w, axis=-1).sum(axis=0), dynamic={"x": ("n", None)})
    w = np.random.default_rng(2).normal(size=(13, 7)).astype(F32)
    for n in (1, 3, 64, 65):
        x = np.random.default_rng(n).normal(size=(n, 13)).astype(F32)
        e = np.exp(x.astype(float) @ w)
        np.testing.assert_allclose(f(x, w), (e / e.sum(-1, keepdims=True)).sum(0), rtol=1e-4)


def test_panels_and_threads(checked: None) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(301, 517)).astype(F32), rng.normal(size=(517, 263)).astype(F32)
    multiply = tenon.jit(lambda x, y: tenon.tanh(x @ y) @ tenon.transpose(y))
    expected = np.tanh(x.astype(float) @ y) @ y.T
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(3):
                np.testing.assert_allclose(multiply(x, y), expected, rtol=1e-3, atol=1e-3)
        except BaseException as error:
            wrong.append(error)

    with tenon.num_threads(3):
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_training(checked: None) -> None:
    x = np.random.default_rng(4).normal(size=(9, 6)).astype(F32)
    model = tenon.nn.Sequential(tenon.nn.Linear(6, 5), tenon.nn.GELU(), tenon.nn.Linear(5, 3))
    labels = np.arange(9) % 3
    gradient = tenon.jit(tenon.grad(lambda model: tenon.cross_entropy(model(x), labels)))(model)
    with knobs.override(check_memory=False):
        expected = tenon.jit(tenon.grad(lambda model: tenon.cross_entropy(model(x), labels)))(model)
    for name, value in expected.state_dict().items():
        np.testing.assert_array_equal(gradient.state_dict()[name], value)
