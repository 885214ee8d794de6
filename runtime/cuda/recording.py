"""`main` as a list of launches, where it does the same at each call but for the addresses of its buffers.

The steps of a host program are run once against a `Recorder`, which stands for a device: buffers have made-up
addresses, each in a range of its own, so that what a launch is given tells which buffer it is and where in it. A call
then says at which addresses they are. What asks the device for values, or calls Python, cannot be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, NoReturn, TypeAlias

import numpy as np

from tenon.lowering.buffers.memory_plan import Lifetime, plan_memory
from tenon.lowering.steps.library import Multiplication
from tenon.runtime.cuda.device import DeviceBuffer
from tenon.runtime.cuda.host_program import HostProgram

_RANGE_BITS = 44
_FIRST = 1 << 62
"""Made-up addresses begin here, where no device has memory."""

_MOST_EVENTS = 10_000
"""Launches and copies of a recording: loops that are longer than that are run as loops."""

_ALIGNMENT = 256
"""Of the buffers that `main` allocates itself."""


class NotRecordableError(Exception):
    """`main` does not do the same at each call; the message says why."""


@dataclass(frozen=True)
class Launch:
    """A kernel that is launched. `pointers` are the places of addresses among its arguments."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[np.generic, ...]
    pointers: tuple[int, ...]
    dynamic_shared: int

    @property
    def addresses(self) -> int:
        """How many addresses it needs."""
        return len(self.pointers)


@dataclass(frozen=True)
class Copy:
    """A copy within the device."""

    byte_count: int
    addresses: ClassVar[int] = 2


@dataclass(frozen=True)
class Multiply:
    """What cuBLAS computes in place of a kernel, of the matrices at three addresses: the operands, and the result."""

    kernel: str
    product: Multiplication
    addresses: ClassVar[int] = 3


Event: TypeAlias = Launch | Copy | Multiply


@dataclass
class Recorder:
    """The device of a recording."""

    events: list[Event] = field(default_factory=list["Event"])
    addresses: list[int] = field(default_factory=list[int])
    """Made-up or real, in the order in which events need them."""
    sizes: list[int] = field(default_factory=list[int])
    """Of the buffers that have made-up addresses."""

    def allocate(self, byte_count: int) -> tuple[int, object]:
        if byte_count >= 1 << _RANGE_BITS or len(self.sizes) >= 1 << (60 - _RANGE_BITS):
            raise NotRecordableError("it has too many buffers")
        self.sizes.append(byte_count)
        return _FIRST + ((len(self.sizes) - 1) << _RANGE_BITS), self

    def copy(self, destination: int, source: int, byte_count: int) -> None:
        self._add(Copy(byte_count), (destination, source))

    def read(self, address: int, byte_count: int) -> NoReturn:
        raise NotRecordableError("it reads values on the host")

    def write(self, address: int, data: bytes) -> NoReturn:
        raise NotRecordableError("it writes values from the host")

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.generic],
        dynamic_shared: int = 0,
    ) -> None:
        pointers = tuple([place for place, value in enumerate(arguments) if value.dtype == np.uint64])
        event = Launch(kernel, grid, block, tuple(arguments), pointers, dynamic_shared)
        self._add(event, [int(arguments[place]) for place in pointers])

    def multiply(self, kernel: str, product: Multiplication, addresses: Sequence[int]) -> None:
        self._add(Multiply(kernel, product), addresses)

    def _add(self, event: Event, addresses: Sequence[int]) -> None:
        if len(self.events) >= _MOST_EVENTS:
            raise NotRecordableError(f"it launches more than {_MOST_EVENTS} kernels")
        self.events.append(event)
        self.addresses += addresses


class Recording:
    """The launches of a program. Buffers are numbered: so many that are `given` (inputs, outputs, the arena), and those
    that `main` allocates, which share memory where they are not in use at the same time: events are in order."""

    def __init__(self, recorder: Recorder, given: int) -> None:
        self.events = recorder.events
        parts = [divmod(a - _FIRST, 1 << _RANGE_BITS) if a >= _FIRST else (-1, a) for a in recorder.addresses]
        self.bases = [number + 1 for number, _ in parts]
        """For each address that events need, the buffer that it is in, from 1 on; 0 for one that is the same at each
        call."""
        self.offsets = [offset for _, offset in parts]
        """Where it is there."""
        plan = plan_memory(_lifetimes(recorder, [number for number, _ in parts], given), _ALIGNMENT)
        self.places = [buffer.offset for buffer in plan.buffers]
        """Of the buffers that `main` allocates, in memory of so many bytes:"""
        self.scratch = plan.peak_bytes

    @property
    def launches(self) -> int:
        """How many kernels are launched, or computed by cuBLAS."""
        return sum(not isinstance(event, Copy) for event in self.events)

    @property
    def multiplies(self) -> bool:
        """Whether cuBLAS computes some."""
        return any(isinstance(event, Multiply) for event in self.events)


def _lifetimes(recorder: Recorder, numbers: Sequence[int], given: int) -> list[Lifetime]:
    """The first and the last event that uses each buffer that is not given; `numbers` tells the buffers of events."""
    used: dict[int, tuple[int, int]] = {}
    rest = iter(numbers)
    for position, event in enumerate(recorder.events):
        for number in islice(rest, event.addresses):
            used[number] = used.get(number, (position, position))[0], position
    return [
        Lifetime(f"buffer {number}", size if number in used else 0, *used.get(number, (0, 0)))
        for number, size in enumerate(recorder.sizes[given:], given)
    ]


def record(program: HostProgram) -> Recording | str:
    """The launches of a program that nobody runs yet, or why they are not the same at each call."""
    recorder = Recorder()
    actual, program.backend = program.backend, recorder
    try:
        described = [*program.inputs, *program.outputs, program.arena]
        buffers: list[DeviceBuffer] = [program.allocate(*one) for one in described]
        split = len(program.inputs)
        program(buffers[:split], buffers[split:-1], buffers[-1])
    except NotRecordableError as error:
        return str(error)
    finally:
        program.backend = actual
    return Recording(recorder, len(described))
