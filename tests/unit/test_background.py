"""Work beside other work, and how long threads wait for each other."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.call import loaded
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import SHORT, in_background, quick_switches


def test_a_job_is_done_when_the_block_ends():
    done = []
    with in_background(lambda: done.append(threading.current_thread().name)):
        assert sys.getswitchinterval() == pytest.approx(SHORT)
    assert done == ["tenon-background"]


def test_the_code_of_calls_is_made_beside_the_first_program(monkeypatch):
    made = list[str]()
    monkeypatch.setattr(loaded, "native_call", lambda: made.append(threading.current_thread().name))
    for threads, names in ((1, []), (2, ["tenon-background"])):
        with tenon.num_threads(threads), knobs.override(cache=False):
            tenon.jit(tenon.exp).compile(np.zeros(threads, np.float32))
        assert made == names


@pytest.mark.parametrize("is_frozen", [False, True])
def test_what_imports_make_is_old_and_collected_with_what_is_old(monkeypatch, is_frozen):
    class Node:
        content: Any = None

    kept, gone = Node(), list[weakref.ref[Node]]()

    unknown = "found_by_an_import"

    def imported(name):
        kept.content = [[] for _ in range(20_000)]
        cycle = Node()
        cycle.content = cycle
        gone.append(weakref.ref(cycle))

    monkeypatch.setattr(tenon, "_find", imported)
    # the suite froze what was there
    (gc.freeze if is_frozen else gc.unfreeze)()
    try:
        before = gc.get_freeze_count()
        getattr(tenon, unknown)
        assert gc.isenabled()
        # what a user froze stays so
        assert gc.get_freeze_count() == before
        assert any(known is kept.content for known in gc.get_objects(generation=2)) != is_frozen
        gc.collect()
        assert gone[0]() is None
    finally:
        gc.freeze()


def test_what_a_job_raises_is_left_to_who_needs_it():
    def fail():
        raise ValueError

    with in_background(fail):
        pass
    with pytest.raises(ZeroDivisionError), in_background(fail):
        raise ZeroDivisionError
    assert not any(thread.name == "tenon-background" for thread in threading.enumerate())


def test_where_no_thread_can_be_started_the_block_runs_alone(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []
    with in_background(lambda: done.append(1)):
        pass
    assert done == []


def test_the_last_block_that_ends_restores_the_interval():
    usual = sys.getswitchinterval()
    first, second = quick_switches(), quick_switches()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SHORT)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual
