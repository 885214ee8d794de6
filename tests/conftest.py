"""What all tests share: a cache of their own, seeds of random tests, and GPU tests that skip by themselves.

Random tests have a known part, the same in every run, and a part that searches: its examples are new with each change
of what is tested, so that a run that is repeated says the same. They follow from `TENON_TEST_SEED`, which the head of
the report and each failure show, and which may be set to search further.

Of the cases that are made by the hundred (`variation`), one in `TENON_TEST_SHARE` runs, drawn by the seed as well: by
default all of them, and in `make test` a sixth.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from typing import Any
from zlib import crc32

import hypothesis.core
import pytest

SEED = "TENON_TEST_SEED"
SHARE = "TENON_TEST_SHARE"

# How fast a machine draws says nothing, and the two parts of a test (below) have an instance of its class each.
hypothesis.settings.register_profile(
    "tenon",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.differing_executors],
)
hypothesis.settings.load_profile("tenon")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled kernels away from the user's cache and on few threads, and verify what every pass leaves; the
    workers of xdist and subprocesses inherit the variables.

    Hundreds of processes import the same sources: they are compiled once, even if the environment wants no bytecode.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("TENON_NUM_THREADS", "2")
    os.environ.setdefault("TENON_VERIFY", "1")
    if "TENON_CACHE_DIR" not in os.environ:
        directory = tempfile.mkdtemp(prefix="tenon-test-cache-")
        os.environ["TENON_CACHE_DIR"] = directory

        def clean_up() -> None:
            del os.environ["TENON_CACHE_DIR"]
            shutil.rmtree(directory, ignore_errors=True)

        config.add_cleanup(clean_up)
    if SEED not in os.environ:
        from tenon.runtime.store.cache import environment_fingerprint

        os.environ[SEED] = str(int(environment_fingerprint()[:8], 16))


def pytest_report_header() -> list[str]:
    lines = [f"{SEED}={os.environ[SEED]}: what random tests draw anew for these sources"]
    if (share := _share()) > 1:
        lines.append(f"{SHARE}={share}: of each {share} variations one runs, drawn by the seed; 1 runs all")
    return lines


def _share() -> int:
    return int(os.environ.get(SHARE, "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of hypothesis twice: on known examples, and on new ones."""
    if hypothesis.is_hypothesis_test(metafunc.function):
        metafunc.fixturenames.append("examples")
        metafunc.parametrize("examples", ["known", "new"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def examples(request: pytest.FixtureRequest) -> str:
    """Which examples a test of hypothesis gets: see `pytest_runtest_call`."""
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Give a test of hypothesis a share of half its examples as they always are, or the other half by the seed of this
    run."""
    part = (
        item.callspec.params.get("examples")
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else None
    )
    if part is None:
        return (yield)
    test: Any = item
    function = getattr(test.obj, "__func__", test.obj)
    usual = function._hypothesis_internal_use_settings
    count = -(-usual.max_examples // 2)
    # What is the same in every run has passed before: of that a share will do, too.
    chosen: dict[str, Any] = (
        {"derandomize": True, "database": None, "max_examples": -(-count // _share())}
        if part == "known"
        else {"max_examples": count}
    )
    function._hypothesis_internal_use_settings = hypothesis.settings(usual, **chosen)
    seed, hypothesis.core.global_force_seed = hypothesis.core.global_force_seed, int(os.environ[SEED])
    try:
        return (yield)
    finally:
        function._hypothesis_internal_use_settings = usual
        hypothesis.core.global_force_seed = seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("how to run it again", f"{SEED}={os.environ[SEED]} pytest '{item.nodeid}'"))
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _share() > 1:
        runs = [not item.get_closest_marker("variation") or _is_drawn(item) for item in items]
        config.hook.pytest_deselected(items=[item for item, is_in in zip(items, runs, strict=True) if not is_in])
        items[:] = [item for item, is_in in zip(items, runs, strict=True) if is_in]
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_tests and not _has_cuda_device():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _is_drawn(item: pytest.Item) -> bool:
    return crc32(f"{os.environ[SEED]} drawn {item.nodeid}".encode()) % _share() == 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage: they are what there is, and looking for others took a quarter of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave the tests themselves, millions of objects that stay, out of garbage collections from now on, which come
    less often than in programs: IR is made and let go all the time."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def _has_cuda_device() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
