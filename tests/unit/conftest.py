"""What tests of numbers share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from zlib import crc32

import cupy_stand_in
import driver_stand_in
import pytest
from random_numbers import restart
from variations import mark_variations

from tenon.dialects.definition.registry import _start_generation
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.runtime import executables
from tenon.runtime.call import entry
from tenon.runtime.cuda import cublas, device_cuda, launches, nvrtc
from tenon.runtime.knobs import knobs


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_variations(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the test random numbers of its own."""
    restart(item.name)


@pytest.fixture(autouse=True)
def verification(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Verify what passes leave in what is compiled, as `TENON_VERIFY` says; where a share of the variations runs, in a
    third of the tests, drawn by the seed of the run: it takes a sixth of their time. Tests that run passes themselves
    and those on IR text always do."""
    name = f"{os.environ['TENON_TEST_SEED']} {request.node.nodeid}"
    if int(os.environ.get("TENON_TEST_SHARE", "1")) > 1 and crc32(name.encode()) % 3:
        with pytest.MonkeyPatch.context() as patch:  # not an override, which would hide what tests set themselves
            patch.setenv("TENON_VERIFY", "0")
            yield
    else:
        yield


@pytest.fixture
def few_objects() -> None:
    """Let collections of garbage look at what the test makes, not at all that others have left, which takes seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def new_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls of ops begin anew, with room for entries, whatever calls other tests made: what serves calls of all
    sizes by then is counted now and then, in Python, and an op that has many entries gets no more."""
    monkeypatch.setattr(entry, "MADE", 1 << 20)
    _start_generation()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Generator[cupy_stand_in.Machine]:
    """Two GPUs that are none: the stand-in for CuPy, with kernels under the shim. Nothing made for them is kept."""
    made = cupy_stand_in.Machine()
    monkeypatch.setitem(sys.modules, "cupy", cupy_stand_in.stand_in(made))
    driver = driver_stand_in.Driver(made)
    monkeypatch.setattr(launches, "driver", lambda: driver)
    monkeypatch.setattr(cublas, "path", lambda: None)
    monkeypatch.setattr(nvrtc, "compile_kernels", lambda source, _: nvrtc.Compiled(source.encode(), {}))
    monkeypatch.setattr(nvrtc, "version", lambda: (12, 9))
    monkeypatch.setattr(nvrtc, "why_unavailable", lambda: None)
    monkeypatch.setattr(executables, "_executables", BoundedCache(8))
    device_cuda._why_no_device.cache_clear()
    _start_generation()
    with knobs.override(cache=False):
        yield made
    device_cuda._why_no_device.cache_clear()
    _start_generation()
