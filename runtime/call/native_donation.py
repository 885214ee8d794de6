"""How native calls give the memory of an argument to a result, and mark the argument's array as one not to be used."""

from __future__ import annotations

from tenon.runtime.call.entry_code import code, python
from tenon.runtime.call.layout import DONATION, ENTRY, REF, REFS
from tenon.runtime.call.native_tensors import new_reference, note_place
from tenon.runtime.cpu.addresses import ALIGNED, C_CONTIGUOUS, OWNS_DATA, WRITEABLE
from tenon.runtime.cpu.ir_types import I1, I32, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.python_objects import ARRAY


@code.function(I1, given=REF)
def is_given_away(given: Value) -> Operand:
    """Whether the memory of an array is a result's by now."""
    base = given.to(pointer(ARRAY)).base.to(REF)
    code.return_if(base.is_null, False)
    return base.type.to(REF) == python.donation


@code.function(REF, given=REF)
def same_memory(given: Value) -> Operand:
    """Another array of the memory of an array; null with an exception."""
    array = given.to(pointer(ARRAY))
    flags = array.flags.to(I64)
    dtype = new_reference(array.dtype)
    kept = (flags & (C_CONTIGUOUS | ALIGNED | WRITEABLE)).to(I32)
    made = python.PyArray_NewFromDescr(
        python.ndarray, dtype, array.rank, array.shape, array.strides, array.data.to(PTR), kept, None
    )
    code.return_if(made.is_null, None)
    owner = code.local(REF, given)
    base = array.base.to(REF)
    with code.if_(((flags & OWNS_DATA) == 0) & base.is_not_null):
        owner.set(base)
    made.to(pointer(ARRAY)).put(base=new_reference(owner).to(PTR))
    return made


@code.function(entry=pointer(ENTRY), objects=REFS)
def give_away(entry: Value, objects: Value) -> None:
    """Mark the arrays of leaves whose memory results have taken over."""
    results, function = entry.results, entry.function
    with code.each(entry.result_count) as i:
        result = results[i]
        argument, leaf = result.argument, result.leaf
        with code.if_(argument.is_not_null & (leaf >= 0)):
            made = python.PyType_GenericAlloc(python.donation, 0)
            with code.if_(made.is_null):
                python.PyErr_Clear()
            with code.else_():
                array, donation = objects[leaf].to(pointer(ARRAY)), made.to(pointer(DONATION))
                base = code.local(REF, array.base.to(REF))
                with code.if_(base.is_null):
                    base.set(new_reference(python.none))
                donation.put(argument=new_reference(argument), function=new_reference(function), held=base)
                note_place(donation.place("code"), donation.place("instruction"))
                flags = array.flags.to(I64) & ~WRITEABLE
                array.put(base=made.to(PTR), flags=flags.to(I32))
