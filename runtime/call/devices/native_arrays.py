"""How native calls read arrays of a GPU, and make them; see `entry_code`."""

from __future__ import annotations

from tenon.passes.machine import GPU
from tenon.runtime.call.devices.layout import DEVICE_ARRAY, DEVICES, VECTOR
from tenon.runtime.call.entry_code import code, place_inputs, python, release
from tenon.runtime.call.layout import DONATION, ENTRY, REF, REFS, STEP
from tenon.runtime.call.native_tensors import new_reference, note_place
from tenon.runtime.cpu.ir_types import I1, I8, I64, PTR, VOID, pointer
from tenon.runtime.cpu.ir_values import Operand, Value

devices = code.variable("tenon_devices", DEVICES)
_copy_bytes = code.external("llvm.memcpy.p0.p0.i64", VOID, PTR, PTR, I64, I1)


@code.function(I1, given=REF)
def is_given_to_result(given: Value) -> Operand:
    """Whether the memory of an array of a GPU is a result's by now, or may be: what was given away has a weak
    reference."""
    code.return_if(given.to(pointer(DEVICE_ARRAY)).weak.is_null, False)
    key = python.PyLong_FromLongLong(given.to(I64))
    with code.if_(key.is_null):
        python.PyErr_Clear()
        code.return_(True)
    known = python.PyDict_GetItem(devices.given, key)
    python.Py_DecRef(key)
    code.return_if(known.is_null, False)
    # of an array that is gone, in whose place this one is, the reference gives nothing
    marked = python.PyObject_CallNoArgs(python.PyTuple_GetItem(known, 0))
    with code.if_(marked.is_null):
        python.PyErr_Clear()
        code.return_(True)
    python.Py_DecRef(marked)
    return marked == given


@code.function(I1, given=REF, step=pointer(STEP))
def fits_on_device(given: Value, step: Value) -> Operand:
    """Whether an object is an array of a GPU of a step's dtype and shape, which is used where it is."""
    code.return_if(given.type.to(REF) != devices.array, False)
    array, expected = given.to(pointer(DEVICE_ARRAY)), step.device
    code.return_if((array.dtype != expected.dtype) | (array.c_contiguous == 0), False)
    sizes, wanted, rank = array.shape.first, expected.shape, expected.rank
    code.return_if(array.shape.end.to(I64) - sizes.to(I64) != rank << 3, False)
    with code.each(rank) as i:
        code.return_if(sizes[i] != wanted[i], False)
    data = array.data
    code.return_if(data.type.to(REF) != devices.memory, False)
    is_elsewhere = data.ordinal.to(I64) != expected.ordinal
    code.return_if(is_elsewhere | ((data.address & (GPU.access - 1)) != 0), False)
    return ~is_given_to_result(given)


@code.function(I1, given=REF)
def is_pooled(given: Value) -> Operand:
    """Whether an array has memory of a pool, of which no part is anybody's who has other memory."""
    owner = given.to(pointer(DEVICE_ARRAY)).data.owner
    return owner.type.to(REF) == devices.pooled


@code.function(I1, given=REF)
def is_its_own(given: Value) -> Operand:
    """Whether memory of a pool is that of this array alone."""
    data = given.to(pointer(DEVICE_ARRAY)).data
    return (data.references.word_0 == 1) & (data.owner.references.word_0 == 1)


@code.function(I1, entry=pointer(ENTRY), objects=REFS)
def are_pooled(entry: Value, objects: Value) -> Operand:
    """Whether all leaves of an entry are arrays of a GPU with memory of a pool."""
    code.return_if(entry.launch.is_null, False)
    with code.each(entry.leaf_count) as i:
        code.return_unless(is_pooled(objects[i]), False)
    return True


@code.function(made=pointer(VECTOR), like=pointer(VECTOR))
def copy_vector(made: Value, like: Value) -> None:
    """Give an empty vector the numbers of another one."""
    size = like.end.to(I64) - like.first.to(I64)
    with code.if_(size != 0):
        memory = devices.new(size)
        _copy_bytes(memory, like.first.to(PTR), size, False)
        end = memory.to(pointer(I8)).at(size).to(pointer(I64))
        made.put(first=memory.to(pointer(I64)), end=end, room=end)


def _replace(place: Value, value: Value) -> None:
    before = place.load()
    place.store(new_reference(value))
    with code.if_(before.to(REF).is_not_null):
        python.Py_DecRef(before.to(REF))


@code.function(REF, like=REF, data=REF)
def array_like(like: Value, data: Value) -> Operand:
    """A new array of the dtype, shape and strides of another one, in this memory; null with an exception."""
    made = devices.make(devices.array, python.no_arguments, None)
    code.return_if(made.is_null, None)
    array, other = made.to(pointer(DEVICE_ARRAY)), like.to(pointer(DEVICE_ARRAY))
    copy_vector(array.place("shape"), other.place("shape"))
    copy_vector(array.place("strides"), other.place("strides"))
    array.put(size=other.size, c_contiguous=other.c_contiguous, f_contiguous=other.f_contiguous)
    array.put(has_short_indices=other.has_short_indices)
    _replace(array.place("dtype"), other.dtype)
    _replace(array.place("data"), data.to(array.data.kind))
    _replace(array.place("base"), python.none)
    return made


@code.function(REF, like=REF, data=REF)
def tenon_array_like(like: Value, data: Value) -> Operand:
    return array_like(like, data)


@code.function(I1, entry=pointer(ENTRY), objects=REFS, arrays=REFS)
def allocate_on_device(entry: Value, objects: Value, arrays: Value) -> Operand:
    """Arrays for the results: in the memory of leaves, or in new; false with an exception."""
    results = entry.results
    with code.each(entry.result_count) as i:
        result = results[i]
        leaf, made = result.leaf, code.local(REF, None)
        with code.if_(leaf >= 0):
            made.set(array_like(objects[leaf], objects[leaf].to(pointer(DEVICE_ARRAY)).data.to(REF)))
        with code.else_():
            memory = python.PyObject_CallOneArg(entry.allocate, result.byte_count)
            with code.if_(memory.is_not_null):
                made.set(array_like(result.like, memory))
                python.Py_DecRef(memory)
        with code.if_(made.is_null):
            release(arrays, 0, i)
            code.return_(False)
        arrays[i] = made
    return True


@code.function(REF, entry=pointer(ENTRY), objects=REFS)
def tuple_of_leaves(entry: Value, objects: Value) -> Operand:
    """The leaves, for what is told where a launch fails; null with an exception."""
    made = python.PyTuple_New(entry.leaf_count)
    with code.if_(made.is_not_null), code.each(entry.leaf_count) as i:
        python.PyTuple_SetItem(made, i, new_reference(objects[i]))
    return made


@code.function(I1, entry=pointer(ENTRY), data=pointer(PTR), objects=REFS, arrays=REFS)
def launch_on_device(entry: Value, data: Value, objects: Value, arrays: Value) -> Operand:
    """Have Python launch the program, by the addresses of inputs and results; false with an exception."""
    inputs, outputs = entry.input_count, entry.result_count
    addresses = python.PyBytes_FromStringAndSize(None, (inputs + outputs) << 3)
    code.return_if(addresses.is_null, False)
    words = python.PyBytes_AsString(addresses).to(pointer(PTR))
    place_inputs(entry, data, words)
    with code.each(outputs) as i:
        words[inputs + i] = arrays[i].to(pointer(DEVICE_ARRAY)).data.address.to(PTR)
    given, count, answer = code.array(REF, 2), code.local(I64, 1), code.local(REF, None)
    given[0] = addresses
    with code.if_(entry.takes_over != 0):
        leaves = tuple_of_leaves(entry, objects)
        with code.if_(leaves.is_null):
            python.Py_DecRef(addresses)
            code.return_(False)
        given[1] = leaves
        count.set(2)
    answer.set(python.PyObject_Vectorcall(entry.launch, given, count, None))
    release(given, 0, count)
    code.return_if(answer.is_null, False)
    python.Py_DecRef(answer)
    return True


@code.function(I1, array=REF, donation=REF)
def mark(array: Value, donation: Value) -> Operand:
    """Say of an array that its memory is a result's by now; false with an exception."""
    pair, key = python.PyTuple_New(2), python.PyLong_FromLongLong(array.to(I64))
    reference, is_marked = python.PyWeakref_NewRef(array, None), code.local(I1, False)
    with code.if_(pair.is_not_null & key.is_not_null & reference.is_not_null):
        python.PyTuple_SetItem(pair, 0, new_reference(reference))
        python.PyTuple_SetItem(pair, 1, new_reference(donation))
        is_marked.set(python.PyDict_SetItem(devices.given, key, pair) == 0)
    for made in (pair, key, reference):
        with code.if_(made.is_not_null):
            python.Py_DecRef(made)
    return is_marked


@code.function(entry=pointer(ENTRY), objects=REFS)
def give_away_on_device(entry: Value, objects: Value) -> None:
    """Mark the arrays of leaves whose memory results have taken over."""
    results, place = entry.results, code.array(REF, 2)
    code.return_if(entry.takes_over == 0, None)
    note_place(place, place.at(1))
    with code.each(entry.result_count) as i:
        argument, leaf = results[i].argument, results[i].leaf
        with code.if_(leaf >= 0):
            made = python.PyType_GenericAlloc(python.donation, 0)
            with code.if_(made.is_not_null):
                donation = made.to(pointer(DONATION))
                donation.put(argument=new_reference(argument), function=new_reference(entry.function))
                donation.put(held=new_reference(python.none))
                donation.put(code=new_reference(place[0]), instruction=new_reference(place[1]))
                with code.if_(~mark(objects[leaf], made)):
                    python.PyErr_Clear()
                python.Py_DecRef(made)
            with code.else_():
                python.PyErr_Clear()
    release(place, 0, 2)
