"""Work beside other work, and how long threads wait for each other."""

from __future__ import annotations

import sys
import threading

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
