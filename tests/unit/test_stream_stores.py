"""Results stored past the caches: the numbers are the same wherever arrays begin, and the instructions are there."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.runtime import lower
from tenon.runtime.cpu.compile import host_target, native_assembly
from tenon.runtime.processor_facts import known_sizes


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose caches are outgrown by two kilobytes."""
    monkeypatch.setattr(lower, "known_sizes", lambda: {"l3": 4096})


def _at(shape: tuple[int, ...], dtype: Any, offset: int) -> np.ndarray[Any, Any]:
    """An array that begins `offset` bytes behind a line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(size + 128, 255, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def _doubled(x: Any) -> Any:
    return x + x


PROGRAMS = {
    "elementwise": (_doubled, lambda x: x + x),
    "transpose": (tenon.transpose, np.transpose),
    "running-sum": (lambda x: tenon.cumsum(x, axis=0), lambda x: np.cumsum(x, 0)),
    "rows": (
        lambda x: x - tenon.max(x, axis=-1, keepdims=True),
        lambda x: x - np.max(x, -1, keepdims=True, initial=-np.inf),
    ),
}


@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(64, 64), (37, 113), (1024, 16), (1, 4099), (3, 1024), (128, 33)])
def test_numbers_are_the_same_wherever_results_begin(name: str, shape: tuple[int, ...], bits: int) -> None:
    ours, expected = PROGRAMS[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 251
    with tenon.knobs.override(vector_bits=min(bits, host_target().vector_bits)):
        function = tenon.jit(ours)
        for offset in (0, 4, 16, 32):
            out = _at(expected(x).shape, np.float32, offset)
            function(x, out=out)
            np.testing.assert_array_equal(out, expected(x))


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float16, np.float64, np.int64])
def test_elements_of_any_size(dtype: Any) -> None:
    x = (np.arange(100 * 64).reshape(100, 64) % 3).astype(dtype)
    for offset in (0, 8, 32):
        out = _at(x.shape, dtype, offset)
        tenon.jit(lambda x: tenon.select(x > 1, x, 1).astype(x.dtype))(x, out=out)
        np.testing.assert_array_equal(out, np.where(x > 1, x, 1).astype(dtype))


def test_results_that_are_read_again_are_whole() -> None:
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    function = tenon.jit(lambda x: (y := tenon.transpose(x), tenon.sum(tenon.sin(y) @ y)))
    transposed, total = function(x)
    np.testing.assert_array_equal(transposed, x.T)
    np.testing.assert_allclose(total, (np.sin(x.T.astype(np.float64)) @ x.T).sum(), rtol=1e-3)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="the instructions are x86's")
def test_instructions() -> None:
    lowered = tenon.jit(_doubled).trace(np.ones(4096, np.float32)).lower()
    assembly = native_assembly(emit_llvm(lowered.module, native_f16=host_target().native_f16))
    assert "movntps" in assembly
    assert "mfence" in assembly or "lock" in assembly


def test_the_system_tells_sizes_of_caches() -> None:
    known = {"l1": 1 << 12, "l2": 1 << 12, "l3": 1 << 12, "line": 16, "page": 1 << 12, **known_sizes()}
    assert 1 << 12 <= known["l1"] <= 1 << 20
    assert 1 << 12 <= known["l2"] <= 1 << 28
    assert 1 << 12 <= known["l3"] <= 1 << 33
    assert known["line"] in (16, 32, 64, 128, 256)
    assert known["page"] % (1 << 12) == 0
