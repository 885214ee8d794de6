"""What devices are called: `cpu`; `cuda`, the GPU that arguments are on or else the current one; `cuda:1`, that GPU."""

from __future__ import annotations

import re

DEVICES = ("cpu", "cuda", "cuda:N")


def checked_device(device: object, where: str = "") -> str:
    """The name of a device; raises `ValueError` for another text."""
    if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"{where}device {device!r} is not one of {', '.join(DEVICES)}")
    return device


def kind_of(device: str) -> str:
    """`cpu` or `cuda`."""
    return device.partition(":")[0]


def ordinal_of(device: str) -> int | None:
    """The number of the GPU; `None` for whichever it is."""
    number = device.partition(":")[2]
    return int(number) if number else None
