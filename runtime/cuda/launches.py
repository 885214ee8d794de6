"""Launches, copies and products in memory, as native code gives them to a stream, without a line of Python for each."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from tenon.lowering.cuda.bulk_copies import TensorMap
from tenon.runtime.call.entry_words import Place, Words
from tenon.runtime.cpu.load import LoadedCode
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.cuda import cublas
from tenon.runtime.cuda.device import LaunchError
from tenon.runtime.cuda.launch_code import (
    DRIVER,
    EVENT,
    LIST,
    MAP,
    PLACE,
    PRODUCT,
    REFUSED_MAP,
    REFUSED_PRODUCT,
    code,
    tenon_launch,
)
from tenon.runtime.cuda.recording import Copy, Event, Multiply

_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_ELEMENTS = {"f16": 6, "bf16": 9}
"""CUtensorMapDataType."""
_IS_CAPTURED = 1
"""CU_STREAM_CAPTURE_STATUS_ACTIVE."""


class Device(Protocol):
    """What launches need to know of a device and of the kernels that are loaded there."""

    context: int
    functions: dict[str, int]
    maps: dict[str, Sequence[TensorMap]]
    """What kernels are given behind their arguments: descriptions of some of these."""
    waits: bool
    """Whether each launch is waited for, so that its errors are known to be its own."""
    failures: tuple[type[Exception], ...]

    def error(self, status: int) -> Exception:
        """What the driver means by a status."""
        ...


class Launches:
    """Events for buffers at addresses: those of numbers 1 to `given` are those that a run is given, the `fixed` ones
    behind them are the same each time. Events need addresses in order; each is that of a number in `bases` (0: none),
    and so many bytes as `offsets` has.

    Serves one thread at a time.
    """

    def __init__(
        self,
        device: Device,
        events: Sequence[Event],
        bases: Sequence[int],
        offsets: Sequence[int],
        given: int,
        fixed: Sequence[int] = (),
    ) -> None:
        self._device, self._events = device, events
        words = Words()
        addresses = words.add([0] * (1 + given) + list(fixed))
        arguments: list[Place] = []
        listed: list[int | Place] = []
        for event in events:
            listed += _event(words, device, event, arguments)
        places: list[int | Place] = []
        for base, offset, argument in zip(bases, offsets, arguments, strict=True):
            places += PLACE.words({"base": base, "offset": offset, "argument": argument})
        described = {
            "driver": words.add(DRIVER.words({name: _address(name) for name in DRIVER.fields})),
            "context": device.context,
            "bases": addresses,
            "place_count": len(arguments),
            "places": words.add(places),
            "events": words.add(listed),
        }
        start = words.add(LIST.words(described))
        memory, address = words.finished()
        self._memory, self._kept = memory.data.cast("B"), words.kept
        first = 8 * (addresses.index + 1)
        self._list, self._given = address + 8 * start.index, slice(first, first + 8 * given)
        self._launch = _native()[1]

    def run(self, addresses: bytes, stream: Any, scratch: cublas.Scratch | None = None) -> None:
        """Give all events to a stream, for buffers at these addresses (`packed`); products work in memory that nothing
        else uses meanwhile. Raises `LaunchError`, and what copies do."""
        self._memory[self._given] = addresses
        if scratch is None:
            self._run(stream, None)
        else:
            driver().cuCtxSetCurrent(ctypes.c_void_p(self._device.context))  # where a handle may have to be made
            with cublas.handle(self._device.context, scratch) as library:
                self._run(stream, library)

    def _run(self, stream: Any, library: int | None) -> None:
        count, waits = len(self._events), self._device.waits
        step = 1 if waits else max(count, 1)
        for first in range(0, count, step):
            if failed := self._launch(self._list, first, first + step, stream.ptr, library):
                raise self._refused(failed >> 32, failed & ((1 << 32) - 1))
            if waits:
                try:
                    stream.synchronize()
                except self._device.failures as error:
                    raise self._error(first, error) from error

    def _refused(self, number: int, told: int) -> Exception:
        status = told & (REFUSED_PRODUCT - 1)
        if told & REFUSED_PRODUCT:
            return self._error(number, cublas.error(status))
        return self._error(
            number, self._device.error(status), ", a description of a tensor" if told & REFUSED_MAP else ""
        )

    def _error(self, number: int, error: Exception, what: str = "") -> Exception:
        event = self._events[number]
        if isinstance(event, Copy):
            return error
        by = "by cuBLAS" if isinstance(event, Multiply) else f"grid {event.grid}, block {event.block}"
        made = LaunchError(f"kernel @{event.kernel} ({by}){what}: {error}", event.kernel)
        made.__cause__ = error
        return made


def _event(words: Words, device: Device, event: Event, arguments: list[Place]) -> list[int | Place]:
    """The words of an event; where it has addresses is added to `arguments`."""
    described: dict[str, int | Place] = dict.fromkeys(EVENT.fields, 0)
    if isinstance(event, Copy):
        values = words.add([0, 0, event.byte_count])
        arguments += [values, Place(values.index + 1)]
        return EVENT.words(described | {"arguments": values})
    if isinstance(event, Multiply):
        values = words.add([0, 0, 0])
        arguments += [Place(values.index + number) for number in (1, 0, 2)]  # it takes the right operand first
        return EVENT.words(
            described | {"arguments": values, "product": words.add(PRODUCT.words(cublas.described(event.product)))}
        )
    values = words.add([_signed(word(value)) for value in event.arguments])
    places = [Place(values.index + number) for number in range(len(event.arguments))]
    arguments += [places[number] for number in event.pointers]
    maps = device.maps.get(event.kernel, ())
    memory = [_aligned(words) for _ in maps]
    described |= {"function": device.functions[event.kernel], "shared": event.dynamic_shared}
    for name, shape in (("grid", event.grid), ("block", event.block)):
        described |= {f"{name}_{axis}": size for axis, size in zip("xyz", shape, strict=True)}
    map_words: list[int | Place] = []
    for map_, at in zip(maps, memory, strict=True):
        map_words += _map(words, map_, places[map_.argument], at)
    described |= {"arguments": words.add([*places, *memory]), "map_count": len(maps), "maps": words.add(map_words)}
    return EVENT.words(described)


def _map(words: Words, described: TensorMap, argument: Place, memory: int) -> list[int | Place]:
    rank = len(described.sizes)

    def numbers(values: Sequence[int]) -> int:
        words.kept.append(array := np.array(values, np.uint32))
        return array.ctypes.data

    return MAP.words(
        {
            "argument": argument,
            "known": 0,
            "memory": memory,
            "element": _ELEMENTS[described.element],
            "rank": rank,
            "sizes": words.add(described.sizes),
            "strides": words.add(described.strides),
            "box": numbers(described.box),
            "steps": numbers([1] * rank),
        }
    )


def packed(addresses: Sequence[int]) -> bytes:
    """Addresses as they lie in memory."""
    return struct.pack(f"={len(addresses)}Q", *addresses)


def word(value: np.generic) -> int:
    """The bits of an argument of a kernel."""
    return int.from_bytes(value.tobytes().ljust(8, b"\0"), "little")


def current_context() -> int:
    """That of the device which this thread works on, for the driver."""
    found = ctypes.c_void_p()
    driver().cuCtxGetCurrent(ctypes.byref(found))
    return found.value or 0


def capture_of(stream: Any, context: int) -> int | None:
    """The number of the capture that takes what is given to a stream of the device with this context; `None` where
    there is no driver, or where it does not tell."""
    try:
        library = driver()
    except OSError:
        return None
    ask = getattr(library, "cuStreamGetCaptureInfo_v2", None)
    if ask is None:
        return None
    library.cuCtxSetCurrent(ctypes.c_void_p(context))
    status, number = ctypes.c_int(), ctypes.c_uint64()
    if ask(ctypes.c_void_p(stream.ptr), ctypes.byref(status), ctypes.byref(number), None, None, None):
        return None
    return number.value if status.value == _IS_CAPTURED else None


@cache
def driver() -> Any:
    """The library of the driver."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def _address(name: str) -> int:
    found = ctypes.cast(getattr(driver(), name), ctypes.c_void_p).value
    assert found is not None
    return found


@cache
def _native() -> tuple[LoadedCode, Callable[[int, int, int, int, int | None], int]]:
    loaded = load_native("launches", code.text, code.exports)
    words = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int64, *words)(loaded.entry(tenon_launch.name))


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def _aligned(words: Words) -> int:
    """Memory for a description of a tensor."""
    words.kept.append(memory := np.zeros(_MAP_BYTES + _MAP_ALIGNMENT, np.uint8))
    return memory.ctypes.data + -memory.ctypes.data % _MAP_ALIGNMENT
