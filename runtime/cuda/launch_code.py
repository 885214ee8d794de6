"""The native code that gives a list of launches and copies to a stream, and what the list looks like in memory.

A list has the arguments of its kernels as they are but for addresses, which each run brings along: `PLACE` says what is
added to which of them, and where the sum is an argument. Descriptions of tensors are made anew for other addresses.
"""

from __future__ import annotations

from tenon.runtime.cpu.ir_types import I32, I64, PTR, U32, Struct, function_type, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module

DRIVER = Struct(
    cuCtxGetCurrent=function_type(I32, pointer(PTR)),
    cuCtxSetCurrent=function_type(I32, PTR),
    cuLaunchKernel=function_type(I32, PTR, U32, U32, U32, U32, U32, U32, U32, PTR, PTR, PTR),
    cuMemcpyAsync=function_type(I32, PTR, PTR, I64, PTR),
    cuTensorMapEncodeTiled=function_type(I32, PTR, I32, U32, PTR, PTR, PTR, PTR, PTR, I32, I32, I32, I32),
)
"""What is called of the driver, by address."""

PLACE = Struct(base=I64, offset=I64, argument=pointer(I64))
"""An argument that is the address of this number, and so many bytes."""

MAP = Struct(
    argument=pointer(I64), known=I64, memory=PTR, element=I64, rank=I64, sizes=PTR, strides=PTR, box=PTR, steps=PTR
)
"""A description of the tensor at the address that is an argument; `known` is the address for which it was made."""

EVENT = Struct(
    function=PTR,
    grid_x=I64,
    grid_y=I64,
    grid_z=I64,
    block_x=I64,
    block_y=I64,
    block_z=I64,
    shared=I64,
    arguments=PTR,
    map_count=I64,
    maps=pointer(MAP),
)
"""A launch; or, without a function, a copy, whose arguments are words: destination, source, and how many bytes."""

LIST = Struct(
    driver=pointer(DRIVER),
    context=PTR,
    bases=pointer(I64),
    place_count=I64,
    places=pointer(PLACE),
    events=pointer(EVENT),
)
"""Events, in order, for the device that has this context; the first base is 0."""

REFUSED_MAP = 1 << 31
"""What is added to the status of an event one of whose descriptions the driver refuses."""

_NO_INTERLEAVE, _SWIZZLE_128B, _PROMOTION_256B, _ZEROS = 0, 3, 3, 0

code = Module()


@code.function(I32, given=pointer(LIST))
def enter(given: Value) -> Operand:
    """Have this thread work on the device: it may be a new one, or CuPy may have gone on to the device in name only."""
    current = code.local(PTR, None)
    given.driver.cuCtxGetCurrent(current.address)
    context = given.context
    code.return_if(current == context, 0)
    return given.driver.cuCtxSetCurrent(context)


@code.function(I32, driver=pointer(DRIVER), event=pointer(EVENT))
def describe(driver: Value, event: Value) -> Operand:
    """Make the descriptions of tensors that have moved."""
    maps = event.maps
    with code.each(event.map_count) as i:
        map_ = maps[i]
        address = map_.argument.load()
        with code.if_(address != map_.known):
            status = driver.cuTensorMapEncodeTiled(
                map_.memory,
                map_.element.to(I32),
                map_.rank.to(U32),
                address.to(PTR),
                *(map_.sizes, map_.strides, map_.box, map_.steps),
                *(_NO_INTERLEAVE, _SWIZZLE_128B, _PROMOTION_256B, _ZEROS),
            )
            code.return_if(status != 0, status)
            map_.put(known=address)
    return 0


@code.function(I32, driver=pointer(DRIVER), event=pointer(EVENT), stream=PTR)
def begin(driver: Value, event: Value, stream: Value) -> Operand:
    """Give one event to the stream."""
    arguments = event.arguments
    with code.if_(event.function.is_null):
        destination, source, size = (arguments.to(pointer(I64))[n] for n in range(3))
        code.return_if(destination == source, 0)  # a result in the memory of a donated argument
        code.return_(driver.cuMemcpyAsync(destination.to(PTR), source.to(PTR), size, stream))
    shape = [getattr(event, f"{name}_{axis}").to(U32) for name in ("grid", "block") for axis in "xyz"]
    return driver.cuLaunchKernel(event.function, *shape, event.shared.to(U32), stream, arguments, None)


@code.function(I64, given=pointer(LIST), first=I64, end=I64, stream=PTR)
def tenon_launch(given: Value, first: Value, end: Value, stream: Value) -> Operand:
    """Give the events from `first` on to a stream; 0, or the number of the one that the driver refused, times 2^32,
    plus the status."""
    driver, bases, places, events = given.driver, given.bases, given.places, given.events
    entered = enter(given)
    code.return_if(entered != 0, (first << 32) | entered.to(I64))
    with code.each(given.place_count) as i:
        place = places[i]
        place.argument.store(bases[place.base] + place.offset)
    with code.each(end, first) as i:
        event = events[i]
        described = describe(driver, event)
        code.return_if(described != 0, (i << 32) | described.to(I64) | REFUSED_MAP)
        begun = begin(driver, event, stream)
        code.return_if(begun != 0, (i << 32) | begun.to(I64))
    return 0
