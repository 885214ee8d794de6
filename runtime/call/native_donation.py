"""How native calls give the memory of an argument to a result, and mark the argument's array as one not to be used, or
the argument as changed."""

from __future__ import annotations

from tenon.runtime.call.entry_code import code, python
from tenon.runtime.call.layout import DONATION, ENTRY, MEMORY, REF, REFS, TENSOR
from tenon.runtime.call.native_tensors import ALWAYS, has_tensor_class, new_reference, note_place
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


@code.function(memory=pointer(MEMORY))
def count_change(memory: Value) -> None:
    """Note that memory was changed, by the user's line."""
    version = python.PyLong_FromLongLong(python.PyLong_AsLongLong(memory.version) + 1)
    place, words = python.PyTuple_New(2), code.array(REF, 2)
    with code.if_(version.is_null | place.is_null):
        python.PyErr_Clear()
        code.return_(None)
    note_place(words, words.at(1))
    python.PyTuple_SetItem(place, 0, words[0])
    python.PyTuple_SetItem(place, 1, words[1])
    version_before, place_before = memory.version, memory.changed_at
    memory.put(version=version, changed_at=place)
    python.Py_DecRef(version_before)
    python.Py_DecRef(place_before)


@code.function(entry=pointer(ENTRY), given=REFS)
def count_changes(entry: Value, given: Value) -> None:
    """Note that tensors have changed whose memory results have taken over, where that is what a call does."""
    results = entry.results
    with code.if_(entry.takes_tensors == ALWAYS), code.each(entry.result_count) as i:
        leaf = results[i].leaf
        with code.if_(leaf >= 0), code.if_(has_tensor_class(given[leaf])):
            memory = given[leaf].to(pointer(TENSOR))._memory
            with code.if_(memory != python.none):
                count_change(memory.to(pointer(MEMORY)))
