"""What a host program asks of a device: buffers in its memory, and the protocol `Backend`.

Addresses are integers, as the launch interfaces take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
)
from xdsl.ir import Attribute

from tenon.lowering.steps.library import Multiplication


class HostProgramError(ValueError):
    """An op in `main`, or an argument, that the host cannot deal with."""


class ArgumentError(ValueError):
    """An argument that a program on a device cannot be called with: which one, and what is wrong with it."""

    def __init__(self, position: int, problem: str, name: str = "") -> None:
        super().__init__(f"{name or f'argument {position}'} {problem}")
        self.position, self.problem = position, problem


class LaunchError(RuntimeError):
    """The device refused a launch, or a kernel failed: which one, where that is known."""

    def __init__(self, message: str, kernel: str = "") -> None:
        super().__init__(message)
        self.kernel = kernel


def element_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy type of an element type. An i1 is a bool of one byte."""
    if isinstance(element, IntegerType):
        return np.dtype("bool" if element.width.data == 1 else f"int{element.width.data}")
    kinds: dict[type[Attribute], Any] = {
        Float16Type: np.float16,
        BFloat16Type: ml_dtypes.bfloat16,
        Float32Type: np.float32,
        Float64Type: np.float64,
        IndexType: np.int64,
    }
    if type(element) not in kinds:
        raise HostProgramError(f"main: {element} has no numpy type")
    return np.dtype(kinds[type(element)])


def static_array(buffer: Attribute) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the NumPy type of a buffer type."""
    if not isinstance(buffer, MemRefType):
        raise HostProgramError(f"main: argument of type {buffer} is not a buffer")
    return buffer.get_shape(), element_dtype(buffer.element_type)


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """An array on the device, row-major without gaps unless `strides` (in elements) are given.

    `owner` keeps its memory alive.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: object
    strides: tuple[int, ...] | None = None

    @property
    def byte_count(self) -> int:
        """The size of the elements, without gaps between them."""
        return prod(self.shape) * self.dtype.itemsize


class Backend(Protocol):
    """What a device does for a host program. All calls take effect in order."""

    def allocate(self, byte_count: int) -> tuple[int, object]:
        """New memory, aligned to 64 bytes: its address and its owner."""
        ...

    def copy(self, destination: int, source: int, byte_count: int) -> None:
        """Copy within the device."""
        ...

    def read(self, address: int, byte_count: int) -> bytes:
        """Copy from the device, after everything before it is done."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copy to the device."""
        ...

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.generic],
        dynamic_shared: int = 0,
    ) -> None:
        """Run a kernel with so many bytes of shared memory besides what it declares; a pointer is passed as a
        `numpy.uint64`."""
        ...

    def multiply(self, kernel: str, product: Multiplication, addresses: Sequence[int]) -> None:
        """Have cuBLAS compute a kernel, of the matrices at these addresses: the operands, and the result."""
        ...
