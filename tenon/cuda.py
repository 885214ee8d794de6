"""Whether tensors can be on a GPU, as programs for PyTorch ask before they choose a device.

Tensors are in the memory of the CPU. Functions run on a GPU by `tenon.jit(device="cuda")`, whatever is said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints


def is_available() -> bool:
    """False: no tensor is in the memory of a GPU. `tenon.jit(device="cuda")` says itself whether there is one."""
    return False


def device_count() -> int:
    """0, the number of GPUs that tensors can be on."""
    return 0


__all__ = ["device_count", "is_available"]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
