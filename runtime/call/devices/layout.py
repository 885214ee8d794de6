"""How CuPy's arrays and pointers lie in memory. It is not part of an interface that CuPy promises, so it is compared
with what arrays say themselves before native code looks (`arrays.py`)."""

from __future__ import annotations

from tenon.runtime.call.layout import REF
from tenon.runtime.cpu.ir_types import I32, I64, PTR, Struct, function_type, pointer
from tenon.runtime.cpu.python_objects import CLASS, OBJECT

VECTOR = Struct(first=pointer(I64), end=pointer(I64), room=pointer(I64))
"""`std::vector` of numbers."""

DEVICE_MEMORY = Struct(
    references=OBJECT.fields["references"], type=pointer(CLASS), table=PTR, address=I64, ordinal=I32, owner=REF
)
"""`MemoryPointer`: an address on the device of this number, and what it belongs to."""

DEVICE_ARRAY = Struct(
    references=OBJECT.fields["references"],
    type=pointer(CLASS),
    table=PTR,
    weak=PTR,
    size=I64,
    shape=VECTOR,
    strides=VECTOR,
    c_contiguous=I32,
    f_contiguous=I32,
    has_short_indices=I32,
    dtype=REF,
    data=pointer(DEVICE_MEMORY),
    base=REF,
)
"""`ndarray`; `weak` is null where there are no weak references."""

DEVICES = Struct(
    array=REF,
    memory=REF,
    pooled=REF,
    nowhere=REF,
    mark=REF,
    make=function_type(REF, REF, REF, PTR),
    new=function_type(PTR, I64),
)
"""What native code uses of CuPy, all null until it is there and its arrays lie as expected: the classes of arrays, of
pointers, of memory of a pool, and of what arrays that were given away are views of; memory that is nobody's; and the
functions that make an empty array, and memory for a vector."""
