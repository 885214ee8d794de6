"""Object code in this process: that it goes, and that what it is called with stays."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from tenon.dialects.support.forking import made_once
from tenon.runtime.cpu import addresses as addresses_module
from tenon.runtime.cpu.addresses import addresses
from tenon.runtime.cpu.compile import compile_object
from tenon.runtime.cpu.load import entry_point, load_objects
from tenon.runtime.cpu.native_code import load_native

STORE = """
define void @main(ptr %buffers) {
  %x = load ptr, ptr %buffers
  store float NUMBER.0, ptr %x
  ret void
}
"""


def _resident() -> int:
    """Kilobytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def _code(number: int) -> bytes:
    return compile_object(STORE.replace("NUMBER", str(number)))


@pytest.mark.usefixtures("few_objects")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
def test_programs_that_come_and_go_leave_nothing_behind():
    """LLVM keeps 9 KB of each in the linker, which would be 18 MB here."""
    code = _code(1)
    held = [load_objects([code]) for _ in range(100)]
    for _ in range(200):
        load_objects([code])
    gc.collect()
    before = _resident()
    for _ in range(2000):
        load_objects([code])
    gc.collect()
    assert _resident() - before < 4000
    x = np.zeros(1, np.float32)
    for kept in held:
        entry_point(kept.entry())(addresses([x])[0])
        assert x == 1
        x[:] = 0


def test_programs_of_several_threads_stay_while_others_go():
    codes = [_code(number) for number in range(4)]
    wrong: list[int] = []

    def run(number: int) -> None:
        x = np.zeros(1, np.float32)
        kept = load_objects([codes[number]])
        for turn in range(150):
            if turn % 20 == 0:
                kept = load_objects([codes[number]])
            load_objects([codes[turn % 4]])
            entry_point(kept.entry())(addresses([x])[0])
            if x != number:
                wrong.append(number)
            x[:] = -1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.usefixtures("few_objects")
def test_native_code_that_nothing_refers_to_stays():
    """Programs are linked to it, and nothing tells which."""
    code = load_native("stored number", lambda triple: STORE.replace("NUMBER", "5"), ("main",))
    address, reference = code.entry("main"), weakref.ref(code)
    del code
    gc.collect()
    assert reference() is not None
    x = np.zeros(1, np.float32)
    entry_point(address)(addresses([x])[0])
    assert x == 5


def test_what_several_threads_ask_for_first_is_made_once():
    made: list[object] = []
    start, found = threading.Barrier(4), list[object]()

    @made_once
    def slow() -> object:
        made.append(object())
        time.sleep(0.01)
        return made[-1]

    def ask() -> None:
        start.wait()
        found.append(slow())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == made * 4
    assert len(made) == 1


@pytest.mark.parametrize("read", [addresses, addresses_module._asked])
def test_addresses_keep_the_arrays_that_they_point_to(read):
    arrays = [np.zeros(1000), np.zeros(3)]
    references = [weakref.ref(array) for array in arrays]
    pointers, _ = read((*arrays, np.full(5000, 7.0)))
    arrays.clear()
    assert all(reference() is not None for reference in references)
    assert ctypes.c_double.from_address(pointers[2]).value == 7
    del pointers
    assert all(reference() is None for reference in references)
