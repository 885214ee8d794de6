"""The name of a device, as a text that says what is in it, and the one on which things are made unless one is named."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Self


class Device(str):
    """`"cpu"`, `"cuda"` or `"cuda:1"`: a text, with what PyTorch's devices have."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """`"cpu"` or `"cuda"`."""
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The number of the GPU; `None` for the CPU, and for whichever GPU it is."""
        number = self.partition(":")[2]
        return int(number) if number else None

    def __enter__(self) -> Self:
        """What is made in the block, and no device is named for, is on this one."""
        for check in _CHECKS:
            check(self)
        DEFAULT_DEVICE.insert(0, self)
        _BLOCKS[0] += 1
        return self

    def __exit__(self, *_: object) -> None:
        DEFAULT_DEVICE.pop(0)
        _BLOCKS[0] -= 1


DEFAULT_DEVICE: list[Device] = []
"""Where what functions and modules create is, if no device is named: the devices of blocks, the innermost one's first,
and that which is set for all; none for arrays."""
_BLOCKS: list[int] = [0]
"""How many of these are of blocks."""
_CHECKS: list[Callable[[Device], None]] = []


def install_device_check(check: Callable[[Device], None]) -> None:
    """Set what raises for a device that is not there."""
    _CHECKS.append(check)


def set_default(device: Device | None) -> None:
    """Set the device outside of blocks; `None`: what is made there are arrays."""
    DEFAULT_DEVICE[_BLOCKS[0] :] = [] if device is None else [device]


def default_gpu() -> Device | None:
    """The GPU on which things are made if no device is named, if it is one."""
    return DEFAULT_DEVICE[0] if DEFAULT_DEVICE and DEFAULT_DEVICE[0].type == "cuda" else None


@lru_cache(maxsize=64)
def device_named(name: str) -> Device:
    """The device of a name."""
    return Device(name)
