"""Memory of large results: used again when nobody shows it any more, never before, and not without bound."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator

import numpy as np
import pytest

import tenon
from tenon.runtime.cpu.result_memory import LEAST, empty, is_large, pool

COUNT = LEAST // 4


@pytest.fixture(autouse=True)
def _pool_has_room() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Room beyond what tests before these have left in the pool."""
    known = pool()
    if known is None:
        pytest.skip("this NumPy has no handlers of memory")
    with known.limited_to(known.held + (256 << 20)):
        yield


def held() -> int:
    known = pool()
    assert known is not None
    return known.held


def test_memory_is_used_again_when_its_array_is_gone() -> None:
    array = empty((3 * COUNT,), np.dtype(np.float32))
    before = held()
    assert array.ctypes.data % 64 == 0
    assert array.flags.owndata
    del array
    after = held()
    assert after > before
    again = empty((COUNT, 3), np.dtype(np.float32))
    assert held() <= after - again.nbytes  # of several that fit, the pool may give any


def test_memory_that_a_view_shows_is_in_use() -> None:
    part = empty((5 * COUNT,), np.dtype(np.float32))[7:9]
    part[:] = 3
    other = empty((5 * COUNT,), np.dtype(np.float32))
    other.fill(1)
    assert not np.shares_memory(part, other)
    np.testing.assert_array_equal(part, 3)


def test_only_large_results_come_from_the_pool() -> None:
    assert is_large((COUNT,), np.dtype(np.float32))
    assert not is_large((COUNT - 1,), np.dtype(np.float32))
    assert not is_large((COUNT, 0), np.dtype(np.float32))


def test_results_of_calls_keep_their_numbers() -> None:
    """The first calls go through Python, later ones through native code."""
    double = tenon.jit(lambda x: x + x)
    x = np.arange(COUNT, dtype=np.float32)
    results = [double(x + number) for number in range(6)]
    assert all(result.ctypes.data % 64 == 0 for result in results)
    for number in range(6):
        np.testing.assert_array_equal(results[number], 2 * (x + number))
    addresses = {result.ctypes.data for result in results}
    results.clear()
    assert double(x).ctypes.data in addresses


def test_an_array_may_be_resized() -> None:
    array = empty((COUNT,), np.dtype(np.float32))
    array[:] = np.arange(COUNT)
    array.resize(4 * COUNT, refcheck=False)
    np.testing.assert_array_equal(array[:COUNT], np.arange(COUNT))
    array[:] = 1


def test_the_pool_is_bounded() -> None:
    known = pool()
    assert known is not None
    with known.limited_to(8 * LEAST):
        for count in (1, 2, 3, 5, 7, 40):
            arrays = [empty((count * COUNT,), np.dtype(np.float32)) for _ in range(3)]
            del arrays
            assert held() <= 8 * LEAST


def test_threads_share_the_pool() -> None:
    failures: list[int] = []

    def work(number: int) -> None:
        for round_ in range(200):
            array = empty((COUNT + round_ % 3 * COUNT,), np.dtype(np.float32))
            array[::4096] = number
            if not (array[::4096] == number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arrays_may_outlive_the_interpreter() -> None:
    code = (
        "import builtins, numpy as np, tenon\n"
        f"builtins.kept = tenon.jit(lambda x: x + x)(np.ones({COUNT}, np.float32))\n"
        "assert builtins.kept[5] == 2"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), timeout=100)


def test_without_a_pool_memory_is_numpys() -> None:
    code = "from tenon.runtime.cpu.result_memory import pool; assert pool() is None"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "TENON_RESULT_POOL_MB": "0"}, timeout=100
    )


def test_a_copy_that_does_not_fit_names_the_op() -> None:
    with pytest.raises(MemoryError, match=r"exp: a copy of array 0 of shape \(1099511627776,\)"):
        tenon.exp(np.broadcast_to(np.float32(1), (1 << 40,)))
