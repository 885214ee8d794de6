"""How native calls read arrays of a GPU, and make them; see `entry_code`."""

from __future__ import annotations

from tenon.passes.machine import GPU
from tenon.runtime.call.devices.layout import DEVICE_ARRAY, DEVICE_MEMORY, DEVICES, VECTOR
from tenon.runtime.call.entry_code import code, place_inputs, python, release
from tenon.runtime.call.layout import ENTRY, REF, REFS, STEP
from tenon.runtime.call.native_tensors import new_reference, note_place
from tenon.runtime.cpu.ir_types import I1, I8, I64, PTR, VOID, pointer
from tenon.runtime.cpu.ir_values import Operand, Value

devices = code.variable("tenon_devices", DEVICES)
_copy_bytes = code.external("llvm.memcpy.p0.p0.i64", VOID, PTR, PTR, I64, I1)


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
    # where it was given away, it is a view of what says so
    return array.base.type.to(REF) != devices.mark


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


@code.function(I1, entry=pointer(ENTRY), arrays=REFS)
def allocate_on_device(entry: Value, arrays: Value) -> Operand:
    """Arrays for the results in new memory, null for others; false with an exception."""
    results = entry.results
    with code.each(entry.result_count) as i:
        result = results[i]
        leaf, made = result.leaf, code.local(REF, None)
        with code.if_(leaf < 0):
            memory = python.PyObject_CallOneArg(entry.allocate, result.byte_count)
            with code.if_(memory.is_not_null):
                made.set(array_like(result.like, memory))
                python.Py_DecRef(memory)
            with code.if_(made.is_null):
                release(arrays, 0, i)
                code.return_(False)
        arrays[i] = made
    return True


@code.function(entry=pointer(ENTRY), objects=REFS)
def note_lost(entry: Value, objects: Value) -> None:
    """Tell of the leaves where a launch has failed, by an exception that stays."""
    error = code.array(REF, 3)
    python.PyErr_Fetch(error, error.at(1), error.at(2))
    leaves, answer = python.PyTuple_New(entry.leaf_count), code.local(REF, None)
    with code.if_(leaves.is_not_null):
        with code.each(entry.leaf_count) as i:
            python.PyTuple_SetItem(leaves, i, new_reference(objects[i]))
        answer.set(python.PyObject_CallOneArg(entry.lost, leaves))
        python.Py_DecRef(leaves)
    with code.if_(answer.is_not_null):
        python.Py_DecRef(answer)
    python.PyErr_Restore(error[0], error[1], error[2])


@code.function(I1, entry=pointer(ENTRY), data=pointer(PTR), objects=REFS, arrays=REFS)
def launch_on_device(entry: Value, data: Value, objects: Value, arrays: Value) -> Operand:
    """Have Python launch the program, by the addresses of inputs and results; false with an exception."""
    inputs, outputs = entry.input_count, entry.result_count
    addresses = python.PyBytes_FromStringAndSize(None, (inputs + outputs) << 3)
    code.return_if(addresses.is_null, False)
    words = python.PyBytes_AsString(addresses).to(pointer(PTR))
    place_inputs(entry, data, words)
    with code.each(outputs) as i:
        leaf, array = entry.results[i].leaf, code.local(REF, arrays[i])
        with code.if_(leaf >= 0):
            array.set(objects[leaf])
        words[inputs + i] = array.to(pointer(DEVICE_ARRAY)).data.address.to(PTR)
    answer = python.PyObject_CallOneArg(entry.launch, addresses)
    python.Py_DecRef(addresses)
    code.return_if(answer.is_null, False)
    python.Py_DecRef(answer)
    return True


@code.function(I1, made=pointer(VECTOR), like=pointer(VECTOR))
def is_equal(made: Value, like: Value) -> Operand:
    """Whether two vectors have the same numbers."""
    size, numbers, others = like.end.to(I64) - like.first.to(I64), made.first, like.first
    code.return_if(made.end.to(I64) - numbers.to(I64) != size, False)
    with code.each(size >> 3) as i:
        code.return_if(numbers[i] != others[i], False)
    return True


@code.function(I1, spare=REF, given=REF)
def is_spare(spare: Value, given: Value) -> Operand:
    """Whether nobody but the list of spares has an array that was given away, and it lies as another one."""
    array, other = spare.to(pointer(DEVICE_ARRAY)), given.to(pointer(DEVICE_ARRAY))
    code.return_if(spare.type.to(REF) != devices.array, False)
    code.return_unless((spare.references.word_0 == 1) & array.weak.is_null, False)
    code.return_if(array.dtype != other.dtype, False)
    code.return_unless(is_equal(array.place("shape"), other.place("shape")), False)
    return is_equal(array.place("strides"), other.place("strides"))


@code.function(REF, given=pointer(DEVICE_MEMORY))
def loose(given: Value) -> Operand:
    """A pointer to where another one points, which does not hold the memory; null with an exception."""
    made = python.PyType_GenericAlloc(devices.memory, 0)
    with code.if_(made.is_not_null):
        memory = made.to(pointer(DEVICE_MEMORY))
        memory.put(table=given.table, address=given.address, ordinal=given.ordinal)
        memory.put(owner=new_reference(devices.nowhere))
    return made


@code.function(REF, given=REF, spares=REF, i=I64)
def taken_over(given: Value, spares: Value, i: Value) -> Operand:
    """An array of the memory of another one, which then does not hold that any more, and is the spare of this number;
    null with an exception."""
    array, spare, made = given.to(pointer(DEVICE_ARRAY)), python.PyList_GetItem(spares, i), code.local(REF)
    data, pointer_ = array.data, code.local(REF)
    with code.if_(is_spare(spare, given)):
        other = spare.to(pointer(DEVICE_ARRAY))
        held = other.data
        held.put(address=data.address, ordinal=data.ordinal)
        pointer_.set(held.to(REF))
        other.put(data=data)
        _replace(other.place("base"), python.none)
        made.set(new_reference(spare))
    with code.else_():
        pointer_.set(loose(data))
        code.return_if(pointer_.is_null, None)
        made.set(array_like(given, data.to(REF)))
        with code.if_(made.is_null):
            python.Py_DecRef(pointer_)
            code.return_(None)
        python.Py_DecRef(data.to(REF))
    array.put(data=pointer_.to(pointer(DEVICE_MEMORY)))
    python.PyList_SetItem(spares, i, new_reference(given))
    return made


@code.function(I1, entry=pointer(ENTRY), objects=REFS, arrays=REFS)
def take_over_on_device(entry: Value, objects: Value, arrays: Value) -> Operand:
    """Arrays for the results that take over the memory of leaves, which are marked; false with an exception."""
    results, place = entry.results, code.array(REF, 2)
    code.return_if(entry.takes_over == 0, True)
    note_place(place, place.at(1))
    marks = python.PyObject_Vectorcall(entry.marks, place, 2, None)
    release(place, 0, 2)
    code.return_if(marks.is_null, False)
    with code.each(entry.result_count) as i:
        leaf = results[i].leaf
        with code.if_(leaf >= 0):
            made = taken_over(objects[leaf], entry.spares, i)
            with code.if_(made.is_null):
                python.Py_DecRef(marks)
                code.return_(False)
            arrays[i] = made
            _replace(objects[leaf].to(pointer(DEVICE_ARRAY)).place("base"), python.PyTuple_GetItem(marks, i))
    python.Py_DecRef(marks)
    return True
