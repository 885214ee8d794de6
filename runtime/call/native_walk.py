"""What a tape looks like, found natively: the calls that a result depends on, and a key that equal tapes have.

The calls are numbered as they are found from the result on, breadth first; the key says of each what was called, where
its operands came from, and the types of leaves, constants and results, and which of them are kept.

This is a library of its own beside that of calls (`entry_code`): a process that records nothing does without it, and a
new installation takes a quarter less long until the first call is native.
"""

from __future__ import annotations

from tenon.runtime.call.layout import (
    MEMORY,
    NODE,
    PER_OPERAND,
    PER_RESULT,
    PYTHON,
    REF,
    REFS,
    RESULT_SOURCE,
    TENSORS,
)
from tenon.runtime.cpu.addresses import USABLE
from tenon.runtime.cpu.ir_types import I1, I64, PTR, Struct, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.python_objects import ARRAY

walk_code = Module()
python = walk_code.variable("tenon_addresses", PYTHON)
tensors = walk_code.variable("tenon_tensors", TENSORS)

_WORDS = Struct(data=pointer(I64), count=I64, room=I64)
"""Words that a key is made of."""
_WALK = Struct(nodes=REF, leaves=REF, numbers=REF, constants=I64, words=_WORDS)
"""The calls and leaves that were found, in lists; the numbers of them and of constants, in a dict; and the key."""
_FIRST_ROOM = 256
_LOST = 4


def _new_reference(given: Value) -> Value:
    python.Py_IncRef(given)
    return given


@walk_code.function(I1, words=pointer(_WORDS), word=I64)
def push(words: Value, word: Value) -> Operand:
    """Append a word; false without memory."""
    count = words.count
    with walk_code.if_(count == words.room):
        room = count * 2 + _FIRST_ROOM
        data = python.PyMem_RawRealloc(words.data.to(PTR), room * 8)
        walk_code.return_if(data.is_null, False)
        words.put(data=data.to(pointer(I64)), room=room)
    words.data[count] = word
    words.put(count=count + 1)
    return True


def _push(words: Value, *given: Operand) -> None:
    for word in given:
        walk_code.return_unless(push(words, word), False)


@walk_code.function(I64, walk=pointer(_WALK), key=REF, value=I64)
def numbered(walk: Value, key: Value, value: Value) -> Operand:
    """The number of something, which is `value` if it has none yet; -1 with an exception."""
    numbers = walk.numbers
    known = python.PyDict_GetItem(numbers, key)
    with walk_code.if_(known.is_not_null):
        walk_code.return_(python.PyLong_AsLongLong(known))
    number = python.PyLong_FromLongLong(value)
    walk_code.return_if(number.is_null, -1)
    status = python.PyDict_SetItem(numbers, key, number)
    python.Py_DecRef(number)
    walk_code.return_if(status != 0, -1)
    return value


@walk_code.function(I64, walk=pointer(_WALK), list_=REF, found=REF)
def listed(walk: Value, list_: Value, found: Value) -> Operand:
    """The place of a call or leaf in its list, to which it is added if it is new; -1 with an exception."""
    count = python.PyList_Size(list_)
    place = numbered(walk, found, count)
    with walk_code.if_(place == count):
        walk_code.return_if(python.PyList_Append(list_, found) != 0, -1)
    return place


@walk_code.function(I1, walk=pointer(_WALK), source=REF)
def push_source(walk: Value, source: Value) -> Operand:
    """Say where an operand came from."""
    words, kind = walk.place("words"), source.type.to(REF)
    with walk_code.if_(source == python.none):
        _push(words, 0)
        walk_code.return_(True)
    node, list_ = walk_code.local(REF, source), walk_code.local(REF, walk.nodes)
    tag, index = walk_code.local(I64, 1), walk_code.local(I64, 0)
    with walk_code.if_(kind == tensors.result):
        result = source.to(pointer(RESULT_SOURCE))
        node.set(result.node)
        tag.set(2)
        index.set(python.PyLong_AsLongLong(result.index))
    with walk_code.else_(), walk_code.if_(kind != tensors.node):
        tag.set(3)
        list_.set(walk.leaves)
    place = listed(walk, list_, node)
    walk_code.return_if(place < 0, False)
    _push(words, (place << 2) | tag, index)
    return True


@walk_code.function(I1, words=pointer(_WORDS), numbers=pointer(I64), count=I64)
def push_all(words: Value, numbers: Value, count: Value) -> Operand:
    with walk_code.each(count) as i:
        _push(words, numbers[i])
    return True


@walk_code.function(I1, words=pointer(_WORDS), elements=REF, has_type=I1)
def push_array(words: Value, elements: Value, has_type: Value) -> Operand:
    """Say what a kept array is, with its strides where it is not in row-major order."""
    array = elements.to(pointer(ARRAY))
    rank = array.rank.to(I64)
    is_plain = (array.flags.to(I64) & USABLE) == USABLE
    _push(words, is_plain.to(I64) + 1)
    with walk_code.if_(has_type):
        _push(words, array.dtype.to(I64), rank)
        walk_code.return_unless(push_all(words, array.shape, rank), False)
    with walk_code.if_(~is_plain):
        walk_code.return_unless(push_all(words, array.strides, rank), False)
    return True


@walk_code.function(I1, words=pointer(_WORDS), elements=REF, has_type=I1)
def push_lost(words: Value, elements: Value, has_type: Value) -> Operand:
    """Say what an array was that is not kept: its dtype, and its shape."""
    _push(words, _LOST)
    walk_code.return_unless(has_type, True)
    shape = python.PyTuple_GetItem(elements, 1)
    rank = python.PyTuple_Size(shape)
    _push(words, python.PyTuple_GetItem(elements, 0).to(I64), rank)
    with walk_code.each(rank) as i:
        _push(words, python.PyLong_AsLongLong(python.PyTuple_GetItem(shape, i)))
    return True


@walk_code.function(I1, walk=pointer(_WALK), saved=REF, place=I64, has_type=I1, is_constant=I1)
def push_elements(walk: Value, saved: Value, place: Value, has_type: Value, is_constant: Value) -> Operand:
    """Say what the elements are in a tuple from a place on; false where they were changed."""
    words, elements = walk.place("words"), python.PyTuple_GetItem(saved, place)
    memory = python.PyTuple_GetItem(saved, place + 1)
    with walk_code.if_(memory == python.none):
        kind = elements.type.to(REF)
        with walk_code.if_(kind == python.no_arguments.type.to(REF)):
            walk_code.return_(push_lost(words, elements, has_type))
        _push(words, kind.to(I64))
        walk_code.return_(True)
    walk_code.return_if(memory.to(pointer(MEMORY)).version != python.PyTuple_GetItem(saved, place + 2), False)
    with walk_code.if_(is_constant):
        address = python.PyLong_FromLongLong(elements.to(I64))
        walk_code.return_if(address.is_null, False)
        number = numbered(walk, address, walk.constants)
        python.Py_DecRef(address)
        walk_code.return_if(number < 0, False)
        walk.put(constants=walk.constants + 1)
        _push(words, number)
    return push_array(words, elements, has_type)


@walk_code.function(I1, walk=pointer(_WALK), node=pointer(NODE))
def push_node(walk: Value, node: Value) -> Operand:
    """Say what a call is, and go on to the calls that it depends on; false where that is for Python."""
    words, operands, results = walk.place("words"), node.operands, node.results
    walk_code.return_if((node.is_released != python.none) | (node.hooks_of != python.none), False)
    count, made = python.PyTuple_Size(operands), python.PyTuple_Size(results)
    _push(words, node.call.to(I64), count, made)
    with walk_code.each(count // PER_OPERAND) as i:
        place = i * PER_OPERAND
        source = python.PyTuple_GetItem(operands, place)
        kind = source.type.to(REF)
        is_inner = (kind == tensors.node) | (kind == tensors.result)
        walk_code.return_unless(push_source(walk, source), False)
        walk_code.return_unless(push_elements(walk, operands, place + 1, ~is_inner, source == python.none), False)
    with walk_code.each(made // PER_RESULT) as i:
        walk_code.return_unless(push_elements(walk, results, i * PER_RESULT, True, False), False)
    return True


@walk_code.function(REF, walk=pointer(_WALK), root=REF)
def walked(walk: Value, root: Value) -> Operand:
    """The key, with the calls and leaves in lists; null where that is for Python, or with an exception."""
    walk_code.return_if((walk.nodes.is_null | walk.leaves.is_null) | walk.numbers.is_null, None)
    walk_code.return_if(listed(walk, walk.nodes, root) < 0, None)
    i = walk_code.local(I64, 0)
    with walk_code.loop():
        walk_code.break_if(i >= python.PyList_Size(walk.nodes))
        walk_code.return_unless(push_node(walk, python.PyList_GetItem(walk.nodes, i).to(pointer(NODE))), None)
        i.set(i + 1)
    words = walk.place("words")
    key = python.PyBytes_FromStringAndSize(words.data.to(PTR), words.count * 8)
    walk_code.return_if(key.is_null, None)
    made = python.PyTuple_New(3)
    with walk_code.if_(made.is_null):
        python.Py_DecRef(key)
        walk_code.return_(None)
    python.PyTuple_SetItem(made, 0, key)
    python.PyTuple_SetItem(made, 1, _new_reference(walk.nodes))
    python.PyTuple_SetItem(made, 2, _new_reference(walk.leaves))
    return made


@walk_code.function(REF, called=REF, arguments=REFS, count=I64, names=REF)
def tenon_walk(called: Value, arguments: Value, count: Value, names: Value) -> Operand:
    """A vector call with a node: its key, the calls and the leaves that it depends on, or `None` where hooks, changed
    or released values make that a matter of Python's."""
    walk = walk_code.array(I64, _WALK.size // 8).to(pointer(_WALK))
    walk.put(nodes=python.PyList_New(0), leaves=python.PyList_New(0), numbers=python.PyDict_New(), constants=0)
    walk.place("words").put(data=None, count=0, room=0)
    result = walk_code.local(REF, None)
    with walk_code.if_(arguments[0].type.to(REF) == tensors.node):
        result.set(walked(walk, arguments[0]))
    with walk_code.if_(walk.place("words").data.is_not_null):
        python.PyMem_RawFree(walk.place("words").data.to(PTR))
    for held in ("nodes", "leaves", "numbers"):
        with walk_code.if_(walk.place(held).load().is_not_null):
            python.Py_DecRef(walk.place(held).load())
    with walk_code.if_(result.is_null), walk_code.if_(python.PyErr_Occurred().is_null):
        result.set(_new_reference(python.none))
    return result


@walk_code.function(REF, called=REF, arguments=REFS, count=I64, names=REF)
def tenon_gather(called: Value, arguments: Value, count: Value, names: Value) -> Operand:
    """A vector call with the calls that `tenon_walk` found, and a plan in bytes: for each of the values that a program
    reads the call, whether it is a result, and the place among its words. Gives these values, and behind them the
    further arguments."""
    nodes, plan = arguments[0], arguments[1]
    given = (count & ((1 << 63) - 1)) - 2
    read = python.PyBytes_Size(plan) // 24
    words = python.PyBytes_AsString(plan).to(pointer(I64))
    made = python.PyTuple_New(read + given)
    walk_code.return_if(made.is_null, None)
    with walk_code.each(read) as i:
        node = python.PyList_GetItem(nodes, words[i * 3]).to(pointer(NODE))
        saved = walk_code.select(words[i * 3 + 1] != 0, node.results, node.operands)
        python.PyTuple_SetItem(made, i, _new_reference(python.PyTuple_GetItem(saved, words[i * 3 + 2])))
    with walk_code.each(given) as i:
        python.PyTuple_SetItem(made, read + i, _new_reference(arguments[i + 2]))
    return made
