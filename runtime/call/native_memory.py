"""Where native calls get memory: which arrays programs can read where they are, copies of others, and new arrays; see
`entry_code`."""

from __future__ import annotations

from tenon.passes.machine import ALIGNMENT
from tenon.runtime.call.entry_code import code, python
from tenon.runtime.call.layout import REF, STEP
from tenon.runtime.cpu.addresses import ALIGNED, USABLE
from tenon.runtime.cpu.ir_types import I1, I32, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.python_objects import ARRAY
from tenon.runtime.cpu.result_memory import LEAST


@code.function(I64, shape=pointer(I64), rank=I64, item_size=I64)
def bytes_of(shape: Value, rank: Value, item_size: Value) -> Operand:
    """The bytes of an array."""
    size = code.local(I64, item_size)
    with code.each(rank) as i:
        size.set(size * shape[i])
    return size


@code.function(I1, given=REF, step=pointer(STEP))
def is_usable(given: Value, step: Value) -> Operand:
    """Whether an array has a step's flags, or lies in memory as the step says."""
    array, expected, distances = given.to(pointer(ARRAY)), step.array.flags, step.array.strides
    flags = array.flags.to(I64)
    code.return_if(distances.is_null, (flags & expected) == expected)
    code.return_if((flags & ALIGNED) == 0, False)
    shape, strides, whole = array.shape, array.strides, step.array.whole
    with code.each(step.array.rank) as i:
        code.return_if((shape[i] != 1) & (strides[i] != distances[i]), False)
    code.return_if(whole == 0, True)
    base = array.base.to(REF)
    code.return_if(base.is_null, False)
    code.return_if(base.type != python.ndarray, False)
    owner = base.to(pointer(ARRAY))
    code.return_if(owner.dtype != step.array.dtype, False)
    code.return_if((owner.flags.to(I64) & USABLE) != USABLE, False)
    size = bytes_of(owner.shape, owner.rank.to(I64), step.array.item_size)
    return (array.data.to(I64) + whole) <= (owner.data.to(I64) + size)


@code.function(REF, shape=pointer(I64), rank=I64, dtype=REF, item_size=I64)
def empty(shape: Value, rank: Value, dtype: Value, item_size: Value) -> Operand:
    """A new array, not filled, whose memory comes from the pool if it is large; null with an exception."""

    def allocated() -> Value:
        python.Py_IncRef(dtype)
        return python.PyArray_Empty(rank.to(I32), shape, dtype, 0)

    with code.if_((bytes_of(shape, rank, item_size) < LEAST) | python.result_memory.is_null):
        code.return_(allocated())
    before = python.PyDataMem_SetHandler(python.result_memory)
    code.return_if(before.is_null, None)
    made = allocated()
    ours = python.PyDataMem_SetHandler(before)
    python.Py_DecRef(before)
    with code.if_(ours.is_not_null):
        python.Py_DecRef(ours)
    return made


@code.function(REF, given=REF, item_size=I64)
def copied(given: Value, item_size: Value) -> Operand:
    """The elements of an array in row-major order; null where there is no memory for them."""
    array = given.to(pointer(ARRAY))
    made = empty(array.shape, array.rank.to(I64), array.dtype, item_size)
    with code.if_(made.is_not_null):
        code.return_if(python.PyArray_CopyInto(made, given) == 0, made)
        python.Py_DecRef(made)
    python.PyErr_Clear()
    return None


@code.function(REF, size=I64, byte=REF, start=pointer(PTR))
def scratch(size: Value, byte: Value, start: Value) -> Operand:
    """An array with so many bytes from an aligned address on, which is stored; null where there is no memory."""
    shape = code.array(I64)
    shape[0] = size + ALIGNMENT
    made = empty(shape, 1, byte, 1)
    with code.if_(made.is_null):
        python.PyErr_Clear()
        code.return_(None)
    first = made.to(pointer(ARRAY)).data.to(I64)
    start.store(((first + (ALIGNMENT - 1)) & -ALIGNMENT).to(PTR))
    return made
