"""What tests of tensors on a GPU share: the GPUs that they run on, and comparisons with what the CPU gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_shim import COMPILER

import tenon

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True, params=["stand-in", pytest.param("device", marks=pytest.mark.gpu)])
def gpus(request: pytest.FixtureRequest) -> None:
    """The GPUs that a test runs on."""
    if request.param == "device":
        assert tenon.cuda.is_available()
        return
    if COMPILER is None:
        pytest.skip("g++ is not installed")
    request.getfixturevalue("machine")


def second() -> str:
    """Another GPU than the current one, if there is one."""
    return f"cuda:{tenon.cuda.device_count() - 1}"


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def on_gpu(array: Array, *, requires_grad: bool = False) -> tenon.Tensor:
    return tenon.tensor(array, device="cuda", requires_grad=requires_grad)


def close(found: tenon.Tensor | None, expected: Any, device: str = "cuda:0") -> None:
    assert found is not None
    assert found.device == device
    given = expected.detach().cpu().numpy() if isinstance(expected, tenon.Tensor) else expected
    np.testing.assert_allclose(found.detach().cpu().numpy(), given, rtol=2e-5, atol=2e-5)
