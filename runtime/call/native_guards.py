"""How native calls check that what a program read when it was traced is what is there; see `entry_words`."""

from __future__ import annotations

from tenon.runtime.call.entry_code import code, python
from tenon.runtime.call.layout import CALL_SLOT, GUARD, GUARDS, REF, REFS, TENSOR, Load, Test
from tenon.runtime.call.native_arguments import same
from tenon.runtime.call.native_memory import bytes_of
from tenon.runtime.call.native_tensors import is_tensor, new_reference
from tenon.runtime.cpu.addresses import C_CONTIGUOUS, WRITEABLE
from tenon.runtime.cpu.ir_types import I1, I8, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.python_objects import ARRAY


@code.function(REF, guard=pointer(GUARD))
def loaded(guard: Value) -> Operand:
    """A reference to what a guard compares; null where there is nothing."""
    container, found = guard.container, code.local(REF, None)
    with code.switch(guard.where) as case:
        with case(Load.constant):
            found.set(new_reference(container))
        with case(Load.key):
            found.set(python.PyDict_GetItem(container, guard.key))
            with code.if_(found.is_not_null):
                python.Py_IncRef(found)
        with case(Load.item):
            index = guard.index
            with code.if_(index < python.PyList_Size(container)):
                found.set(new_reference(python.PyList_GetItem(container, index)))
        with case(Load.cell):
            found.set(python.PyCell_Get(container))
        with case(Load.attribute):
            found.set(python.PyObject_GetAttr(container, guard.key))
        with case(Load.mapping):
            found.set(python.PyObject_GetItem(container, guard.key))
    with code.if_(found.is_null), code.if_(python.PyErr_Occurred().is_not_null):
        python.PyErr_Clear()
    return found


@code.function(I1, given=REF, expected=REF)
def is_like(given: Value, expected: Value) -> Operand:
    """Whether an object is an array of the dtype and shape of another."""
    code.return_if(given.type != python.ndarray, False)
    array, other = given.to(pointer(ARRAY)), expected.to(pointer(ARRAY))
    rank = array.rank.to(I64)
    code.return_unless((array.dtype == other.dtype) & (rank == other.rank.to(I64)), False)
    shape, expected_shape = array.shape, other.shape
    with code.each(rank) as i:
        code.return_if(shape[i] != expected_shape[i], False)
    return True


@code.function(I1, given=REF, expected=REF, item_size=I64)
def has_bits_of(given: Value, expected: Value, item_size: Value) -> Operand:
    """Whether an array has the type and the bits of another, both in row-major order."""
    code.return_unless(is_like(given, expected), False)
    array, other = given.to(pointer(ARRAY)), expected.to(pointer(ARRAY))
    code.return_if((array.flags.to(I64) & C_CONTIGUOUS) == 0, False)
    size = bytes_of(array.shape, array.rank.to(I64), item_size)
    return python.memcmp(array.data.to(PTR), other.data.to(PTR), size) == 0


@code.function(I1, given=REF, expected=REF, source=I64)
def is_tensor_like(given: Value, expected: Value, source: Value) -> Operand:
    """Whether an object is an array, or a tensor, of the type of an array, and in gradients what it was."""
    array = code.local(REF, given)
    with code.if_(is_tensor(given)):
        tensor = given.to(pointer(TENSOR))
        array.set(tensor._array)
        has_source = (tensor._source != python.none).to(I64)
        code.return_if(array.is_null | ((source != 0) & (has_source != source - 1)), False)
    return is_like(array, expected)


@code.function(I1, given=REF, expected=REF)
def has_keys(given: Value, expected: Value) -> Operand:
    """Whether a dict has the keys in a tuple, in this order."""
    count = python.PyTuple_Size(expected)
    code.return_if(python.PyDict_Size(given) != count, False)
    position, key, value = code.local(I64, 0), code.local(REF), code.local(REF)
    with code.each(count) as i:
        found = python.PyDict_Next(given, position.address, key.address, value.address)
        code.return_if(found == 0, False)
        code.return_unless(same(key, python.PyTuple_GetItem(expected, i)), False)
    return True


@code.function(I1, given=REF, expected=REF, first=I64)
def has_parts(given: Value, expected: Value, first: Value) -> Operand:
    """Whether an object refers, from a byte on, to what is in a tuple; null counts as `None`."""
    fields = given.to(pointer(I8)).at(first).to(REFS)
    with code.each(python.PyTuple_Size(expected)) as i:
        wanted, held = python.PyTuple_GetItem(expected, i), fields[i]
        is_nothing = held.is_null & (wanted == python.none)
        code.return_unless((held == wanted) | is_nothing, False)
    return True


@code.function(I1, guard=pointer(GUARD), found=REF)
def passes(guard: Value, found: Value) -> Operand:
    """Whether what was loaded is what it was."""
    expected, index = guard.expected, guard.index
    with code.switch(guard.test) as case:
        with case(Test.identity):
            code.return_(found == expected)
        with case(Test.same):
            code.return_(same(found, expected))
        with case(Test.kind):
            code.return_(found.type.to(REF) == expected)
        with case(Test.dict_length):
            code.return_(python.PyDict_Size(found) == index)
        with case(Test.list_length):
            code.return_(python.PyList_Size(found) == index)
        with case(Test.length):
            size = python.PyObject_Size(found)
            with code.if_(size < 0):
                python.PyErr_Clear()
            code.return_(size == index)
        with case(Test.keys):
            code.return_(has_keys(found, expected))
        with case(Test.parts):
            code.return_(has_parts(found, expected, index))
        with case(Test.absent):
            code.return_(False)
        with case(Test.bits):
            code.return_(has_bits_of(found, expected, index))
        with case(Test.fixed):
            is_other = found != expected
            code.return_if(is_other, False)
            code.return_((found.to(pointer(ARRAY)).flags.to(I64) & WRITEABLE) == 0)
        with case(Test.like):
            code.return_(is_tensor_like(found, expected, index))
        with case(Test.true):
            answer = python.PyObject_CallNoArgs(found)
            with code.if_(answer.is_null):
                python.PyErr_Clear()
                code.return_(False)
            python.Py_DecRef(answer)
            code.return_(answer == python.true)
    return False


@code.function(I1, guards=pointer(GUARD), count=I64)
def all_hold(guards: Value, count: Value) -> Operand:
    """Whether guards hold, in their order up to the first that does not."""
    with code.each(count) as i:
        guard = guards[i]
        found = loaded(guard)
        with code.if_(found.is_null):
            code.return_unless(guard.test == Test.absent, False)
        with code.else_():
            holds = passes(guard, found)
            python.Py_DecRef(found)
            code.return_unless(holds, False)
    return True


@code.function(REF, called=REF, arguments=REFS, count_and_flags=I64, names=REF)
def tenon_hold(called: Value, arguments: Value, count_and_flags: Value, names: Value) -> Operand:
    """The vector call of a function that says whether its guards hold."""
    slot = called.to(pointer(I8)).at(called.type.place_of_call).to(pointer(CALL_SLOT))
    guards = slot.table.to(pointer(GUARDS))
    with code.if_(all_hold(guards.first, guards.count)):
        code.return_(new_reference(python.true))
    return new_reference(python.false)
