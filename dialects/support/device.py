"""The name of a device, as a text that says what is in it."""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn


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

    def __enter__(self) -> NoReturn:
        raise TypeError(
            f"tenon.device: {str(self)!r} is no context that tensors are made in; tell each function that makes one "
            "(device=...), and bring modules there (model.to(device))"
        )

    def __exit__(self, *_: object) -> None: ...


@lru_cache(maxsize=64)
def device_named(name: str) -> Device:
    """The device of a name."""
    return Device(name)
