"""Children of `os.fork`, which have none of the other threads: nothing in them waits for one of those."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.definition.autocast import PRECISIONS
from tenon.dialects.definition.value import TRACES_IN_PROGRESS, InsertionPoint, inserting
from tenon.dialects.support.forking import new_lock
from tenon.runtime.call.tensors import UNRECORDED
from tenon.runtime.cpu.compile import compile_object
from tenon.runtime.cpu.llvm_lock import LINKING, beside_others
from tenon.runtime.cpu.load import load_objects
from tenon.runtime.python_state import collection_paused, quick_switches

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    # Python 3.12 and later warn of threads
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    # JAX warns of its own threads, where a test of this process has imported it
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
]

CODE = "define void @main(ptr %x) {\n  ret void\n}\n"


def in_child(check: Callable[[], bool], seconds: float = 30) -> str:
    """What became of `check` in a child of this process: "right", "wrong" or "hangs"."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "right" if status == 0 else "wrong"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


@contextmanager
def another_thread_in(block: AbstractContextManager[object], seconds: float | None = None) -> Generator[None]:
    """Another thread is in `block`, until this one ends or `seconds` have passed."""
    entered, left = threading.Event(), threading.Event()

    def stay() -> None:
        with block:
            entered.set()
            left.wait(seconds)

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        left.set()
        thread.join()


def test_a_child_calls_and_compiles_while_others_compile() -> None:
    x = np.arange(5, dtype=np.float32)
    known = tenon.jit(lambda x: x * 2.0)
    for _ in range(3):
        known(x)
    stop = threading.Event()

    def compile_on(first: int) -> None:
        k = first
        while not stop.is_set():
            k += 2
            tenon.jit(lambda x, k=k: x * float(k) + tenon.exp(x))(x)

    def check() -> bool:
        new = tenon.jit(lambda x: x * 7.25)(x)
        return bool((known(x) == 2 * x).all() and (new == x * 7.25).all() and gc.isenabled())

    interval = sys.getswitchinterval()
    threads = [threading.Thread(target=compile_on, args=(first,)) for first in range(2)]
    with tenon.knobs.override(cache=False):
        for thread in threads:
            thread.start()
        try:
            time.sleep(0.3)
            found = [in_child(check) for _ in range(8)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert found == ["right"] * 8
    assert sys.getswitchinterval() == interval


def test_locks_that_others_hold_are_free() -> None:
    lock, own = new_lock(), new_lock()

    def check() -> bool:
        return lock.acquire(timeout=5)

    with another_thread_in(lock):
        assert in_child(check) == "right"
    with own:
        # what the thread that forks holds it can let go
        assert in_child(lambda: own.release() is None) == "right"


def test_what_others_are_in_llvm_for_is_done_before_the_fork() -> None:
    from llvmlite.binding import ffi

    def check() -> bool:
        load_objects([compile_object(CODE)])
        return True

    for block in (beside_others(), LINKING, ffi.lib._lock):
        started = time.monotonic()
        with another_thread_in(block, seconds=0.3):
            assert in_child(check) == "right"
        assert time.monotonic() - started >= 0.29


def test_imports_of_others_are_done_before_the_fork() -> None:
    lock: Any = vars(importlib)["_bootstrap"]._ModuleLockManager

    def check() -> bool:
        with lock("tenon.slow"):
            return True

    started = time.monotonic()
    with another_thread_in(lock("tenon.slow"), seconds=0.3):
        assert in_child(check) == "right"
    assert time.monotonic() - started >= 0.29
    # what users import may take as long as the program
    with another_thread_in(lock("a_module_of_users")):
        assert in_child(lambda: True) == "right"
    # and who forks may import
    with lock("tenon.slow"):
        assert in_child(lambda: True) == "right"


def test_settings_of_blocks_that_others_are_in_have_ended() -> None:
    interval = sys.getswitchinterval()
    with another_thread_in(collection_paused()), another_thread_in(quick_switches()):
        assert not gc.isenabled()
        assert in_child(lambda: gc.isenabled() and sys.getswitchinterval() == interval) == "right"
        with quick_switches():
            assert in_child(lambda: sys.getswitchinterval() != interval) == "right"
        assert not gc.isenabled()
    with collection_paused():
        assert in_child(lambda: not gc.isenabled()) == "right"
    assert gc.isenabled()


def test_what_other_threads_have_set_has_ended() -> None:
    own = threading.get_ident()
    with another_thread_in(tenon.autocast("bf16")), another_thread_in(tenon.no_grad()), tenon.autocast("f16"):
        numbers = [[*table.words[2 : 2 + 2 * table.words[0] : 2]] for table in (PRECISIONS, UNRECORDED)]
        assert (sorted(filter(None, numbers[0])), sum(numbers[1])) == ([1, 2], 1)
        assert in_child(lambda: [*PRECISIONS.words[:5]] == [1, own, 2, 0, 0]) == "right"
        assert in_child(lambda: not any(UNRECORDED.words[2 : 2 + 2 * UNRECORDED.words[0] : 2])) == "right"


def test_what_others_trace_is_done_before_the_fork() -> None:
    """While that goes on, traced values are where the elements of tensors were."""
    x, entered = tenon.tensor(np.ones(3, np.float32)), threading.Event()

    @tenon.trace
    def slow(x: Any) -> Any:
        entered.set()
        time.sleep(0.3)
        return x * 1

    def check() -> bool:
        return tenon.trace(lambda x: x + 1)(x).tolist() == [2, 2, 2]

    thread = threading.Thread(target=slow, args=(x,))
    thread.start()
    assert entered.wait(10)
    assert in_child(check) == "right"
    thread.join()

    @tenon.trace
    def forks(x: Any) -> Any:
        assert in_child(lambda: True) == "right"
        return x * 2

    assert forks(x).tolist() == [2, 2, 2]


def test_traces_of_others_have_ended() -> None:
    from xdsl.ir import Block

    with another_thread_in(inserting(InsertionPoint(Block()))):
        assert TRACES_IN_PROGRESS[0] == 1
        assert in_child(lambda: TRACES_IN_PROGRESS[0] == 0) == "right"
        with inserting(InsertionPoint(Block())):
            assert in_child(lambda: TRACES_IN_PROGRESS[0] == 1) == "right"
    assert TRACES_IN_PROGRESS[0] == 0


def test_memory_is_there_while_others_take_some() -> None:
    """Whatever a thread was doing to the tables of native code."""
    x = np.ones((600, 700), np.float32)
    multiply = tenon.jit(lambda x, y: x @ y)
    expected = multiply(x, x.T)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            multiply(x, x.T)

    def check() -> bool:
        return all((multiply(x, x.T) == expected).all() for _ in range(3))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert [in_child(check) for _ in range(5)] == ["right"] * 5
    finally:
        stop.set()
        thread.join()
