"""Whether arrays and tensors can be on a GPU, as programs for PyTorch ask before they choose a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints
from tenon.runtime.cuda.device_cuda import cupy_module, why_unavailable


def is_available() -> bool:
    """Whether there are a GPU, and CuPy and NVRTC, which arrays and programs there need."""
    return why_unavailable() is None


def device_count() -> int:
    """How many GPUs arrays can be on."""
    return int(cupy_module().cuda.runtime.getDeviceCount()) if is_available() else 0


def current_device() -> int:
    """The number of the GPU that `"cuda"` is. Raises `CudaUnavailableError` where there is none."""
    return int(cupy_module().cuda.runtime.getDevice())


def synchronize() -> None:
    """Wait for all work that was given to CuPy's current stream."""
    cupy_module().cuda.get_current_stream().synchronize()


__all__ = ["current_device", "device_count", "is_available", "synchronize"]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
