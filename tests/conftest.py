"""What all tests share: a cache of their own, hypothesis without deadlines, and GPU tests that skip by themselves."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import tempfile

import hypothesis
import pytest

hypothesis.settings.register_profile("tenon", deadline=None, print_blob=True)
# A push must not fail by chance: there the examples are the same in every run, elsewhere they vary.
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("tenon"), derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "tenon")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled kernels away from the user's cache and on few threads, and verify what every pass leaves; the
    workers of xdist and subprocesses inherit the variables.
    """
    os.environ.setdefault("TENON_NUM_THREADS", "2")
    os.environ.setdefault("TENON_VERIFY", "1")
    if "TENON_CACHE_DIR" not in os.environ:
        directory = tempfile.mkdtemp(prefix="tenon-test-cache-")
        os.environ["TENON_CACHE_DIR"] = directory

        def clean_up() -> None:
            del os.environ["TENON_CACHE_DIR"]
            shutil.rmtree(directory, ignore_errors=True)

        config.add_cleanup(clean_up)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_tests and not _has_cuda_device():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_collection_finish() -> None:
    """Leave the tests themselves, millions of objects that stay, out of garbage collections from now on."""
    gc.freeze()


def _has_cuda_device() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
