"""How native calls make results and put them together; see `entry_code`."""

from __future__ import annotations

from tenon.runtime.call.devices.native_arrays import are_pooled, is_its_own
from tenon.runtime.call.entry_code import code, python, release
from tenon.runtime.call.layout import ENTRY, MAKE, REF, REFS, RESULT, SET_ITEM, SET_KEY, Build
from tenon.runtime.call.native_donation import same_memory
from tenon.runtime.call.native_memory import empty
from tenon.runtime.cpu.ir_types import I1, I64, U64, pointer
from tenon.runtime.cpu.ir_values import Operand, Value


@code.function(I64, start=U64, stop=U64, starts=pointer(U64), ends=pointer(U64), count=I64)
def overlaps(start: Value, stop: Value, starts: Value, ends: Value, count: Value) -> Operand:
    """How many pieces of memory overlap one."""
    found = code.local(I64, 0)
    with code.each(count) as i:
        found.set(found + ((starts[i] < stop) & (start < ends[i])).to(I64))
    return found


@code.function(I1, entry=pointer(ENTRY), objects=REFS, data=pointer(U64), ends=pointer(U64))
def alone(entry: Value, objects: Value, data: Value, ends: Value) -> Operand:
    """Whether memory that is to be written is nobody else's: of no other leaf, and not held from call to call."""
    code.return_if(entry.takes_over == 0, True)
    results, held, held_ends = entry.results, entry.held, entry.held_ends
    is_pooled = are_pooled(entry, objects)
    with code.each(entry.result_count) as i:
        leaf, is_compared = results[i].leaf, code.local(I1, False)
        with code.if_(leaf >= 0):
            is_compared.set(True)
            with code.if_(is_pooled):
                is_compared.set(~is_its_own(objects[leaf]))
        with code.if_(is_compared):
            start, stop = data[leaf], ends[leaf]
            among_leaves = overlaps(start, stop, data, ends, entry.leaf_count)
            among_held = overlaps(start, stop, held, held_ends, entry.input_count)
            # an array shares its memory with itself
            code.return_if(among_leaves + among_held > 1, False)
    return True


@code.function(REF, result=pointer(RESULT), slots=pointer(I64))
def new_array(result: Value, slots: Value) -> Operand:
    """A new array for a result; null with an exception."""
    shape, rank, words = code.array(I64, result.rank), result.rank, result.shape
    with code.each(rank) as i:
        word = words[i]
        with code.if_(word < 0):
            shape[i] = slots[~word]
        with code.else_():
            shape[i] = word
    return empty(shape, rank, result.dtype, result.item_size)


@code.function(I1, entry=pointer(ENTRY), objects=REFS, slots=pointer(I64), arrays=REFS)
def allocate(entry: Value, objects: Value, slots: Value, arrays: Value) -> Operand:
    """Arrays for the results: those that are taken over, and new ones; false with an exception."""
    results = entry.results
    with code.each(entry.result_count) as i:
        result = results[i]
        leaf = result.leaf
        with code.if_(leaf >= 0):
            taken = code.local(REF, objects[leaf])
            with code.if_(result.argument.is_null):
                python.Py_IncRef(taken)
            with code.else_():
                taken.set(same_memory(taken))
                with code.if_(taken.is_null):
                    release(arrays, 0, i)
                    code.return_(False)
            arrays[i] = taken
        with code.else_():
            made = new_array(result, slots)
            with code.if_(made.is_null):
                release(arrays, 0, i)
                code.return_(False)
            arrays[i] = made
    return True


# Nodes take their elements from the top of the stack; null with an exception, the elements released.


@code.function(REF, elements=REFS, count=I64, make=MAKE, put=SET_ITEM)
def new_sequence(elements: Value, count: Value, make: Value, put: Value) -> Operand:
    made = make(count)
    with code.if_(made.is_null):
        release(elements, 0, count)
        code.return_(None)
    with code.each(count) as i:
        put(made, i, elements[i])
    return made


@code.function(I1, holder=REF, keys=REFS, elements=REFS, count=I64, put=SET_KEY)
def fill(holder: Value, keys: Value, elements: Value, count: Value, put: Value) -> Operand:
    """Give an object elements by their keys; false with an exception."""
    with code.each(count) as i:
        code.return_if(put(holder, keys[i], elements[i]) != 0, False)
    return True


@code.function(REF, made=REF, is_whole=I1, elements=REFS, count=I64)
def finished(made: Value, is_whole: Value, elements: Value, count: Value) -> Operand:
    """An object that its elements were given to; null, and it is released, if that failed."""
    release(elements, 0, count)
    code.return_if(is_whole, made)
    with code.if_(made.is_not_null):
        python.Py_DecRef(made)
    return None


@code.function(REF, keys=REFS, elements=REFS, count=I64)
def new_dict(keys: Value, elements: Value, count: Value) -> Operand:
    made = python.PyDict_New()
    with code.if_(made.is_null):
        code.return_(finished(made, False, elements, count))
    return finished(made, fill(made, keys, elements, count, python.PyDict_SetItem), elements, count)


@code.function(REF, class_=REF, names=REFS, elements=REFS, count=I64, has_fields=I1)
def new_object(class_: Value, names: Value, elements: Value, count: Value, has_fields: Value) -> Operand:
    made = python.PyType_GenericNew(class_, python.no_arguments, None)
    is_whole = code.local(I1, False)
    with code.if_(made.is_not_null):
        with code.if_(has_fields):
            is_whole.set(fill(made, names, elements, count, python.PyObject_GenericSetAttr))
        with code.else_():
            attributes = python.PyObject_GenericGetDict(made, None)
            with code.if_(attributes.is_not_null):
                is_whole.set(fill(attributes, names, elements, count, python.PyDict_SetItem))
                python.Py_DecRef(attributes)
    return finished(made, is_whole, elements, count)


@code.function(REF, function=REF, elements=REFS, count=I64)
def call_with_list(function: Value, elements: Value, count: Value) -> Operand:
    values = new_sequence(elements, count, python.PyList_New, python.PyList_SetItem)
    code.return_if(values.is_null, None)
    made = python.PyObject_CallOneArg(function, values)
    python.Py_DecRef(values)
    return made


@code.function(REF, entry=pointer(ENTRY), arrays=REFS, registers=REFS)
def put_together(entry: Value, arrays: Value, registers: Value) -> Operand:
    """The result of a call from its arrays, which it takes; null with an exception."""
    building, array_count = entry.building, entry.result_count
    stack = code.array(REF, entry.stack)
    height, used, made = code.local(I64, 0), code.local(I64, 0), code.local(REF)
    with code.each(entry.building_count) as i:
        step = building[i]
        count, keys = step.taken, step.object.to(REFS)
        rest = height - count
        elements = stack.at(rest)
        with code.switch(step.operation) as case:
            with case(Build.result):
                made.set(arrays[used])
                used.set(used + 1)
            with case(Build.part):
                made.set(arrays[step.object.to(I64)])
                python.Py_IncRef(made)
            with case(Build.constant):
                made.set(step.object)
                python.Py_IncRef(made)
            with case(Build.register):
                made.set(registers[step.object.to(I64)])
                python.Py_IncRef(made)
            with case(Build.tuple):
                made.set(new_sequence(elements, count, python.PyTuple_New, python.PyTuple_SetItem))
            with case(Build.list):
                made.set(new_sequence(elements, count, python.PyList_New, python.PyList_SetItem))
            with case(Build.dict):
                made.set(new_dict(keys, elements, count))
            with case(Build.attributes):
                made.set(new_object(step.type, keys, elements, count, False))
            with case(Build.fields):
                made.set(new_object(step.type, keys, elements, count, True))
            with case(Build.call):
                made.set(call_with_list(step.object, elements, count))
        with code.if_(made.is_null):
            release(stack, 0, rest)
            release(arrays, used, array_count)
            code.return_(None)
        stack[rest] = made
        height.set(rest + 1)
    release(arrays, used, array_count)
    return stack[0]
