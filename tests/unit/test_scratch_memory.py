"""Memory for kernels' scratch: kept, handed out once at a time, and the system's where the table does not help."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

import numpy as np
import pytest

import tenon
from tenon.runtime.cpu import scratch_memory
from tenon.runtime.cpu.scratch_memory import LARGEST, SLOTS, scratch_functions
from tenon.runtime.executable_cpu import _load_runtime  # pyright: ignore[reportPrivateUsage]

_allocate = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)(scratch_functions()["aligned_alloc"])
_free = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(scratch_functions()["free"])


@contextmanager
def blocks(*sizes: int) -> Generator[list[int]]:
    """Blocks in use."""
    made = [_allocate(64, size) for size in sizes]
    yield made
    for block in made:
        _free(block)


def test_a_block_that_is_free_is_used_again() -> None:
    with blocks(300_000) as first:
        pass
    with blocks(300_000) as second:
        assert second == first


def test_blocks_in_use_do_not_overlap() -> None:
    sizes = [100, 5000, 1 << 20, (1 << 21) + 1, 1 << 22, LARGEST, LARGEST + 1] * 4
    assert len(sizes) > SLOTS
    with blocks(*sizes) as made:
        for number, (block, size) in enumerate(zip(made, sizes, strict=True)):
            assert block % 64 == 0
            ctypes.memset(block, number, size)
        for number, (block, size) in enumerate(zip(made, sizes, strict=True)):
            assert {*ctypes.string_at(block, 64), *ctypes.string_at(block + size - 64, 64)} == {number}


def test_huge_blocks_begin_at_huge_pages() -> None:
    with blocks(1 << 21, 3 << 20) as made:
        assert [block % (1 << 21) for block in made] == [0, 0]


def test_memory_that_the_table_does_not_know_goes_to_the_system() -> None:
    for _ in range(64):
        with blocks(1 << 30) as (block,):
            assert block


def test_threads_have_blocks_of_their_own() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for size in [1 << 12, 1 << 16, 1 << 18] * 100:
            block = _allocate(64, size)
            ctypes.memset(block, number, size)
            if ctypes.string_at(block, size) != bytes([number]) * size:
                wrong.append(number)
            _free(block)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_panels_are_not_taken_from_the_system_in_each_call() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((600, 1100), np.float32) for _ in range(2))
    product = tenon.jit(lambda a, b: tenon.transpose(a) @ b)
    out = np.empty((1100, 1100), np.float32)
    np.testing.assert_allclose(product(a, b, out=out), a.T @ b, rtol=1e-3, atol=1e-3)
    product(a, b, out=out)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        product(a, b, out=out)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 200


@pytest.mark.parametrize("is_large", [True, False])
def test_large_programs_have_it_loaded_while_they_are_compiled(is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []
    monkeypatch.setattr(scratch_memory, "scratch_functions", lambda: loaded.append(True))
    _load_runtime(is_large)
    assert bool(loaded) == is_large
