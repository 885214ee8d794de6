"""The native code that gives a list of launches, copies and products to a stream, and how the list lies in memory.

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

PRODUCT = Struct(
    first_transposed=I64,
    second_transposed=I64,
    rows=I64,
    columns=I64,
    depth=I64,
    one=I64,
    zero=I64,
    first_element=I64,
    first_line=I64,
    first_between=I64,
    second_element=I64,
    second_line=I64,
    second_between=I64,
    result_element=I64,
    result_line=I64,
    result_between=I64,
    count=I64,
    compute=I64,
)
"""Products of matrices by cuBLAS, column by column; `one` and `zero` are the bits of these numbers."""

_MULTIPLY = (PTR, I32, I32, I32, I32, I32, PTR, PTR, I32, I32, I64, PTR, I32, I32, I64, PTR, PTR, I32, I32, I64, I32)
LIBRARY = Struct(
    cublasSetStream_v2=function_type(I32, PTR, PTR),
    cublasSetWorkspace_v2=function_type(I32, PTR, PTR, I64),
    cublasGemmStridedBatchedEx=function_type(I32, *_MULTIPLY, I32, I32),
    handle=PTR,
    memory=PTR,
    size=I64,
)
"""What is called of cuBLAS, by address, with a handle, and so many bytes of memory to work in."""

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
    product=pointer(PRODUCT),
)
"""A launch; or, without a function, a copy, whose arguments are words: destination, source, and how many bytes; or a
product, whose arguments are the addresses of operands and result."""

LIST = Struct(
    driver=pointer(DRIVER),
    context=PTR,
    bases=pointer(I64),
    place_count=I64,
    places=pointer(PLACE),
    events=pointer(EVENT),
)
"""Events, in order, for the device that has this context; the first base is 0."""

REFUSED_MAP, REFUSED_PRODUCT = 1 << 31, 1 << 30
"""What is added to the status of an event one of whose descriptions the driver refuses, and to one of cuBLAS."""

_DEFAULT_ALGORITHM = -1
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


@code.function(I32, library=pointer(LIBRARY), event=pointer(EVENT), stream=PTR)
def multiply(library: Value, event: Value, stream: Value) -> Operand:
    """Have cuBLAS give a product to the stream. Where a stream is set, it forgets which memory to work in."""
    handle, product = library.handle, event.product
    first, second, result = (event.arguments.to(pointer(I64))[n].to(PTR) for n in range(3))
    status = library.cublasSetStream_v2(handle, stream)
    code.return_if(status != 0, status)
    status = library.cublasSetWorkspace_v2(handle, library.memory, library.size)
    code.return_if(status != 0, status)

    def matrix(name: str, address: Value) -> tuple[Operand, ...]:
        element, line, between = (getattr(product, f"{name}_{what}") for what in ("element", "line", "between"))
        return address, element.to(I32), line.to(I32), between

    return library.cublasGemmStridedBatchedEx(
        handle,
        *[getattr(product, name).to(I32) for name in ("first_transposed", "second_transposed")],
        *[getattr(product, name).to(I32) for name in ("rows", "columns", "depth")],
        product.place("one").to(PTR),
        *matrix("first", first),
        *matrix("second", second),
        product.place("zero").to(PTR),
        *matrix("result", result),
        *[product.count.to(I32), product.compute.to(I32), _DEFAULT_ALGORITHM],
    )


@code.function(I64, given=pointer(LIST), first=I64, end=I64, stream=PTR, library=pointer(LIBRARY))
def tenon_launch(given: Value, first: Value, end: Value, stream: Value, library: Value) -> Operand:
    """Give the events from `first` on to a stream; 0, or the number of the one that the driver refused, times 2^32,
    plus the status. Products need the `library`."""
    driver, bases, places, events = given.driver, given.bases, given.places, given.events
    entered = enter(given)
    code.return_if(entered != 0, (first << 32) | entered.to(I64))
    with code.each(given.place_count) as i:
        place = places[i]
        place.argument.store(bases[place.base] + place.offset)
    with code.each(end, first) as i:
        event = events[i]
        with code.if_(event.product.is_not_null):
            multiplied = multiply(library, event, stream)
            code.return_if(multiplied != 0, (i << 32) | multiplied.to(I64) | REFUSED_PRODUCT)
        with code.else_():
            described = describe(driver, event)
            code.return_if(described != 0, (i << 32) | described.to(I64) | REFUSED_MAP)
            begun = begin(driver, event, stream)
            code.return_if(begun != 0, (i << 32) | begun.to(I64))
    return 0
