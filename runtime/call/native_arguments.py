"""How native calls take arguments apart; see `entry_code`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tenon.runtime.arguments.orders import LEAST
from tenon.runtime.call.devices.layout import DEVICE_ARRAY
from tenon.runtime.call.devices.native_arrays import fits_on_device
from tenon.runtime.call.entry_code import code, python
from tenon.runtime.call.layout import ENTRY, ITEM, MEMORY, REF, REFS, SIZE, STEP, TENSOR, Step
from tenon.runtime.call.native_donation import is_given_away
from tenon.runtime.call.native_memory import bytes_of, copied, is_usable
from tenon.runtime.call.native_tensors import HAS_SOURCE, HAS_TENSOR, is_tensor, tensors
from tenon.runtime.cpu.ir_types import F32, F64, I1, I8, I32, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.python_objects import ARRAY, SCALAR

_absolute = code.external("llvm.fabs.f64", F64, F64)


@code.function(I1, given=REF, expected=REF)
def same(given: Value, expected: Value) -> Operand:
    """Whether an object is a constant, or an equal one of a class whose equal objects are alike."""
    code.return_if(given == expected, True)
    type_ = given.type
    code.return_if(type_ != expected.type, False)
    with code.if_(type_ == python.float):
        code.return_(python.PyFloat_AsDouble(given).bits(I64) == python.PyFloat_AsDouble(expected).bits(I64))
    code.return_if((type_ != python.str) & (type_ != python.int), False)
    return python.PyObject_RichCompareBool(given, expected, 2) == 1


@code.function(I1, given=REF, step=pointer(STEP), slots=pointer(I64))
def fits(given: Value, step: Value, slots: Value) -> Operand:
    """Whether an object is an array of a step's dtype and shape; sizes come into their slots."""
    code.return_if(given.type != python.ndarray, False)
    array, expected = given.to(pointer(ARRAY)), step.array
    rank = array.rank.to(I64)
    code.return_unless((array.dtype == expected.dtype) & (rank == expected.rank), False)
    shape, expected_shape = array.shape, expected.shape
    with code.each(rank) as i:
        size, word = shape[i], expected_shape[i]
        with code.if_(word < 0):
            slots[~word] = size
        with code.else_():
            code.return_if(size != word, False)
    return True


@code.function(I32, given=REF, step=pointer(STEP), slots=pointer(I64))
def tenon_fits(given: Value, step: Value, slots: Value) -> Operand:
    code.return_unless(fits(given, step, slots), 0)
    return is_usable(given, step).to(I32)


# Nodes: what is in one comes into the registers from `step.node.first` on, as references that are released from
# the first one on up to `end`.
_node = {"given": REF, "step": pointer(STEP), "registers": REFS, "end": pointer(I64)}


def _keep(registers: Value, register: Value, value: Value, end: Value) -> None:
    registers[register] = value
    end.store(register + 1)


@code.function(I1, **_node)
def open_dict(given: Value, step: Value, registers: Value, end: Value) -> Operand:
    """Take the values of a dict, in order, if its keys are the expected ones."""
    first, count, keys = step.node.first, step.node.count, step.node.keys
    code.return_if(python.PyDict_Size(given) != count, False)
    position, key, value = code.local(I64, 0), code.local(REF), code.local(REF)
    with code.each(count) as i:
        found = python.PyDict_Next(given, position.address, key.address, value.address)
        code.return_if(found == 0, False)
        code.return_unless(same(key, keys[i]), False)
        taken = value.address.load()
        python.Py_IncRef(taken)
        _keep(registers, first + i, taken, end)
    return True


@code.function(I1, **_node, size=SIZE, item=ITEM)
def open_sequence(given: Value, step: Value, registers: Value, end: Value, size: Value, item: Value) -> Operand:
    """Take the elements of a tuple or list."""
    first, count = step.node.first, step.node.count
    code.return_if(size(given) != count, False)
    with code.each(count) as i:
        taken = item(given, i)
        python.Py_IncRef(taken)
        _keep(registers, first + i, taken, end)
    return True


@code.function(I1, **_node)
def open_fields(given: Value, step: Value, registers: Value, end: Value) -> Operand:
    """Take the fields of an object."""
    first, names = step.node.first, step.node.keys
    with code.each(step.node.count) as i:
        taken = python.PyObject_GetAttr(given, names[i])
        with code.if_(taken.is_null):
            python.PyErr_Clear()
            code.return_(False)
        _keep(registers, first + i, taken, end)
    return True


@code.function(I1, **_node)
def open_attributes(given: Value, step: Value, registers: Value, end: Value) -> Operand:
    """Take what is in an object's `__dict__`."""
    attributes = python.PyObject_GenericGetDict(given, None)
    with code.if_(attributes.is_null):
        python.PyErr_Clear()
        code.return_(False)
    is_open = open_dict(attributes, step, registers, end)
    python.Py_DecRef(attributes)
    return is_open


# Numbers: each is read into a word, or the function that is being written returns False.


def _expect(type_: Value, expected: Value) -> None:
    code.return_if(type_ != expected, False)


def _read_float(given: Value, word: Value) -> None:
    word.to(pointer(F32)).store(_float(given))


def _float(given: Value) -> Value:
    """As f32; not if it is out of range."""
    _expect(given.type, python.float)
    wide = python.PyFloat_AsDouble(given)
    narrow = wide.to(F32)
    code.return_if((_absolute(narrow.to(F64)) == inf) & (_absolute(wide) != inf), False)
    return narrow


def _store_bfloat(narrow: Value, word: Value) -> None:
    """An f32 as bf16, to the nearest, of two the even one; not if it is NaN."""
    code.return_if(narrow != narrow, False)
    bits = narrow.bits(I32).to(I64)
    word.store((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16)


def _read_bfloat(given: Value, word: Value) -> None:
    _store_bfloat(_float(given), word)


def _read_double(given: Value, word: Value) -> None:
    _expect(given.type, python.float)
    word.to(pointer(F64)).store(python.PyFloat_AsDouble(given))


def _integer(given: Value) -> Value:
    """What an i64 holds; nothing else fits."""
    _expect(given.type, python.int)
    number = python.PyLong_AsLongLong(given)
    with code.if_(number == -1), code.if_(python.PyErr_Occurred().is_not_null):
        python.PyErr_Clear()
        code.return_(False)
    return number


def _read_int(given: Value, word: Value) -> None:
    word.store(_integer(given))


def _read_float_of_int(given: Value, word: Value) -> None:
    """As f32, by way of f64 as where Python makes it a float."""
    word.to(pointer(F32)).store(_integer(given).to(F64).to(F32))


def _read_bfloat_of_int(given: Value, word: Value) -> None:
    _store_bfloat(_integer(given).to(F64).to(F32), word)


def _read_double_of_int(given: Value, word: Value) -> None:
    word.to(pointer(F64)).store(_integer(given).to(F64))


def _read_bool(given: Value, word: Value) -> None:
    _expect(given.type, python.true.type)
    word.store((given == python.true).to(I64))


_NUMBERS: dict[int, Callable[[Value, Value], None]] = {
    Step.float: _read_float,
    Step.double: _read_double,
    Step.bfloat: _read_bfloat,
    Step.int: _read_int,
    Step.float_of_int: _read_float_of_int,
    Step.double_of_int: _read_double_of_int,
    Step.bfloat_of_int: _read_bfloat_of_int,
    Step.bool: _read_bool,
}

_NODES: dict[int, Callable[[Value, Value, Value, Value], Value]] = {
    Step.tuple: lambda *node: open_sequence(*node, python.PyTuple_Size, python.PyTuple_GetItem),
    Step.list: lambda *node: open_sequence(*node, python.PyList_Size, python.PyList_GetItem),
    Step.dict: open_dict,
    Step.attributes: open_attributes,
    Step.fields: open_fields,
}


# What is known of leaves, by their numbers: objects, where their memory begins and ends, the values of numbers, and
# what was given, which may be a tensor in the place of its array.
LEAVES = {"objects": REFS, "data": pointer(PTR), "ends": pointer(PTR), "numbers": pointer(I64), "given": REFS}


def _floored(left: Value, right: Value) -> tuple[Value, Value]:
    """Quotient and remainder of sizes as Python has them, or the function that is being written returns False."""
    code.return_if(right == 0, False)
    rest = code.local(I64, left % right)
    with code.if_((rest != 0) & ((rest ^ right) < 0)):
        rest.set(rest + right)
    return (left - rest) // right, rest


_SIZES: dict[int, Callable[[Value, Value], Operand]] = {
    Step.add: lambda left, right: left + right,
    Step.multiply: lambda left, right: left * right,
    Step.divide: lambda left, right: _floored(left, right)[0],
    Step.remainder: lambda left, right: _floored(left, right)[1],
}


@code.function(I1, step=pointer(STEP), slots=pointer(I64))
def compute_size(step: Value, slots: Value) -> Operand:
    """A step of sizes; whether they fit."""
    size = step.size
    with code.switch(size.operation) as case:
        with case(Step.constant):
            slots[size.slot] = size.left
        for operation, compute in _SIZES.items():
            with case(operation):
                slots[size.slot] = compute(slots[size.left], slots[size.right])
        with case(Step.equal):
            code.return_if(slots[size.left] != slots[size.right], False)
        with case(Step.positive):
            code.return_if(slots[size.left] <= 0, False)
    return True


@code.function(I1, given=REF)
def is_changed_alone(given: Value) -> Operand:
    """Whether nobody notices that the elements of a tensor or of an array change but those who have it from where it
    is."""
    with code.if_(is_tensor(given)):
        tensor = given.to(pointer(TENSOR))
        source, is_alone = tensor._source, code.local(I1, True)
        with code.if_(source != python.none):
            is_alone.set(source.references.word_0 == 1)
        memory = tensor._memory
        with code.if_(memory != python.none):
            is_alone.set(is_alone & (memory.to(pointer(MEMORY)).tensors == python.none))
        code.return_(is_alone)
    code.return_if(given.type != python.ndarray, False)
    # Of an array that nobody else has, a container and a register have it.
    return (given.references.word_0 == 2) & given.to(pointer(ARRAY)).base.to(REF).is_null


@code.function(
    REF,
    entry=pointer(ENTRY),
    given=REF,
    step=pointer(STEP),
    registers=REFS,
    copies=pointer(I64),
    slots=pointer(I64),
    state=pointer(I64),
)
def open_array(
    entry: Value, given: Value, step: Value, registers: Value, copies: Value, slots: Value, state: Value
) -> Operand:
    """The array that is a leaf: what is given, that of a tensor, or a copy; null where it does not fit."""

    def own(made: Value) -> None:
        registers[copies.load()] = made
        copies.store(copies.load() + 1)

    used = code.local(REF, given)
    wanted_class = step.array.class_
    code.return_if(wanted_class.is_not_null & (given.type.to(REF) != wanted_class), None)
    with code.if_(step.array.is_inside != 0):
        code.return_if(tensors.waiting[0] != 0, None)
        inside = given.to(pointer(TENSOR))._array
        code.return_if(inside.is_null, None)
        python.Py_IncRef(inside)
        own(inside)
        used.set(inside)
    with code.if_(step.array.is_changed != 0):
        code.return_unless(is_changed_alone(given), None)
    with code.if_(entry.takes_tensors != 0), code.if_(is_tensor(given)):
        tensor = given.to(pointer(TENSOR))
        held = tensor._array
        code.return_if(held.is_null, None)
        # another thread may give the tensor other memory meanwhile
        python.Py_IncRef(held)
        own(held)
        used.set(held)
        has_source = (tensor._source != python.none).to(I64)
        wanted = step.array.source
        code.return_if((wanted != 0) & (has_source != wanted - 1), None)
        state.store(state.load() | (has_source * HAS_SOURCE) | HAS_TENSOR)
    code.return_unless(fits(used, step, slots), None)
    code.return_if(is_given_away(used), None)
    with code.if_(~is_usable(used, step)):
        array = used.to(pointer(ARRAY))
        size = bytes_of(array.shape, step.array.rank, step.array.item_size)
        code.return_if((step.array.is_copied == 0) | (size >= LEAST), None)
        made = copied(used, step.array.item_size)
        code.return_if(made.is_null, None)
        own(made)
        used.set(made)
    return used


@code.function(
    I1,
    entry=pointer(ENTRY),
    registers=REFS,
    end=pointer(I64),
    copies=pointer(I64),
    slots=pointer(I64),
    **LEAVES,
    state=pointer(I64),
)
def take_apart(
    entry: Value,
    registers: Value,
    end: Value,
    copies: Value,
    slots: Value,
    objects: Value,
    data: Value,
    ends: Value,
    numbers: Value,
    given: Value,
    state: Value,
) -> Operand:
    """All steps of an entry; whether the arguments fit it. Arrays of tensors, and copies, come into registers behind
    all others. The `state` says what tensors there are among the leaves."""

    def found(leaf: Value, leaf_object: Value, start: Value, stop: Value) -> None:
        objects[leaf], data[leaf], ends[leaf] = leaf_object, start, stop
        given[leaf] = known

    steps = entry.steps
    with code.each(entry.step_count) as i:
        step = steps[i]
        known = registers[step.head.register]
        with code.switch(step.head.operation) as case:
            with case(Step.array):
                used = open_array(entry, known, step, registers, copies, slots, state)
                code.return_if(used.is_null, False)
                array = used.to(pointer(ARRAY))
                memory = array.data
                size = code.local(I64, step.array.whole)
                with code.if_(size == 0):
                    size.set(bytes_of(array.shape, step.array.rank, step.array.item_size))
                found(step.array.leaf, used, memory, memory.at(size))
            with case(Step.device):
                code.return_unless(fits_on_device(known, step), False)
                memory = known.to(pointer(DEVICE_ARRAY)).data.address.to(PTR).to(pointer(I8))
                found(step.device.leaf, known, memory.to(PTR), memory.at(step.device.byte_count).to(PTR))
            with case(Step.scalar):
                _expect(known.type, step.scalar.type)
                memory = known.to(pointer(SCALAR)).place("number")
                found(step.scalar.leaf, known, memory, memory.at(step.scalar.bytes))
            for operation, read in _NUMBERS.items():
                with case(operation):
                    leaf = step.number.leaf
                    word = numbers.at(leaf)
                    read(known, word)
                    found(leaf, known, word, word)
            with case(Step.same):
                code.return_unless(same(known, step.same.object), False)
            for operation, open_ in _NODES.items():
                with case(operation):
                    _expect(known.type, step.node.type)
                    code.return_unless(open_(known, step, registers, end), False)
            with case(Step.constant, Step.equal, Step.positive, *_SIZES):
                code.return_unless(compute_size(step, slots), False)
    return True
