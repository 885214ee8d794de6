"""How native calls see tensors, make them, and note on the tape what was computed of them; see `entry_code`."""

from __future__ import annotations

from tenon.runtime.call.entry_code import code, number_of_thread, python, release
from tenon.runtime.call.layout import (
    ENTRY,
    MEMORY,
    NODE,
    PER_OPERAND,
    PER_RESULT,
    REF,
    REFS,
    RESULT_SOURCE,
    TENSOR,
    TENSORS,
    VIEW,
)
from tenon.runtime.call.native_memory import bytes_of
from tenon.runtime.cpu.ir_types import I1, I64, Struct, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.python_objects import ARRAY

ALWAYS = 2
"""What an entry says whose results are tensors whatever is given."""
UNRECORDED = 2
"""Where an entry holds that is for calls that are not recorded; 1 for those that are."""
HAS_TENSOR, HAS_SOURCE, IS_RECORDED, IS_LARGE = 1, 2, 4, 8
"""What a call finds among its leaves, and that it is noted on the tape."""

tensors = code.variable("tenon_tensors", TENSORS)
_CODES = 1 << 9
_KNOWN_CODE = Struct(ran=REF, is_own=I64)
_known_codes = code.variable("known_codes", _KNOWN_CODE, count=_CODES)


@code.function(I1, given=REF)
def has_tensor_class(given: Value) -> Operand:
    """Whether an object is a tensor, of the class itself or a parameter. Where a call is native already, this is what
    tells tensors: while a kernel ran, another thread may have had further calls go through Python."""
    kind = given.type.to(REF)
    return (kind == tensors.tensor) | (kind == tensors.parameter)


@code.function(I1, given=REF)
def is_tensor(given: Value) -> Operand:
    """Whether an object is a tensor that native code may take, which is asked before a call is native."""
    code.return_unless(has_tensor_class(given), False)
    return tensors.waiting[0] == 0


@code.function(REF, given=REF)
def new_reference(given: Value) -> Operand:
    """An object, with another reference."""
    python.Py_IncRef(given)
    return given


def _none() -> Value:
    return new_reference(python.none)


@code.function(I64)
def records() -> Operand:
    """Whether this thread records calls on tensors; -1 where that is not known here."""
    is_off = number_of_thread(tensors.unrecorded)
    code.return_if(is_off < 0, is_off)
    return is_off ^ 1


@code.function(I1, given=REFS, count=I64)
def can_be_noted(given: Value, count: Value) -> Operand:
    """Whether operands are tensors and numbers: arrays, which could change unnoticed, are a matter of Python's."""
    with code.each(count) as i:
        kind = given[i].type.to(REF)
        is_number = (kind == python.float) | (kind == python.int) | (kind == python.true.type.to(REF))
        code.return_unless(is_tensor(given[i]) | is_number, False)
    return True


@code.function(I1, entry=pointer(ENTRY), given=REFS, state=pointer(I64))
def decide(entry: Value, given: Value, state: Value) -> Operand:
    """Find out whether a call on tensors with sources is noted; false where that is not for native code."""
    mode = entry.mode
    with code.if_(mode != 0):  # programs that know of no tensors run where nothing says what is recorded
        code.return_if(records() + mode != UNRECORDED, False)
    code.return_if((state.load() & HAS_SOURCE) == 0, True)
    code.return_if(entry.gradients == 0, True)
    is_asked = records()
    code.return_if(is_asked == 0, True)
    code.return_if((is_asked < 0) | entry.call.is_null, False)
    code.return_unless(can_be_noted(given, entry.leaf_count), False)
    state.store(state.load() | IS_RECORDED)
    return True


@code.function(REF)
def new_memory() -> Operand:
    """Memory that was never changed; null with an exception."""
    made = python.PyType_GenericAlloc(tensors.memory, 0)
    code.return_if(made.is_null, None)
    version = python.PyLong_FromLongLong(0)
    made.to(pointer(MEMORY)).put(changed_at=_none(), is_exported=_none(), tensors=_none(), version=version)
    return made


@code.function(REF, tensor=REF)
def memory_of(tensor: Value) -> Operand:
    """The memory of a tensor, borrowed; null with an exception."""
    fields = tensor.to(pointer(TENSOR))
    code.return_if(fields._memory != python.none, fields._memory)
    made = new_memory()
    code.return_if(made.is_null, None)
    python.Py_DecRef(fields._memory)
    fields.put(_memory=made)
    return made


@code.function(REF, array=REF)
def new_tensor(array: Value) -> Operand:
    """A tensor that takes an array; null with an exception, and the array is released."""
    made = python.PyType_GenericAlloc(tensors.tensor, 0)
    with code.if_(made.is_null):
        python.Py_DecRef(array)
        code.return_(None)
    made.to(pointer(TENSOR)).put(
        _array=array, _grad=_none(), _keeps_grad=_none(), _memory=_none(), _source=_none(), _view=_none()
    )
    return made


@code.function(I1, holder=REF, place=I64, array=REF, memory=REF, state=pointer(I64))
def save(holder: Value, place: Value, array: Value, memory: Value, state: Value) -> Operand:
    """Put an array, its memory and the version of that into a tuple; false with an exception."""
    code.return_if(memory.is_null, False)
    python.PyTuple_SetItem(holder, place, new_reference(array))
    python.PyTuple_SetItem(holder, place + 1, new_reference(memory))
    python.PyTuple_SetItem(holder, place + 2, new_reference(memory.to(pointer(MEMORY)).version))
    fields = array.to(pointer(ARRAY))
    size = bytes_of(fields.shape, fields.rank.to(I64), 1)
    with code.if_(size >= tensors.least):
        state.store(state.load() | IS_LARGE)
    return True


@code.function(REF, given=REFS, count=I64, state=pointer(I64))
def operands_of(given: Value, count: Value, state: Value) -> Operand:
    """What a node keeps of the leaves of a call; null with an exception."""
    made = python.PyTuple_New(count * PER_OPERAND)
    code.return_if(made.is_null, None)
    with code.each(count) as i:
        leaf, place = given[i], i * PER_OPERAND
        with code.if_(has_tensor_class(leaf)):
            fields = leaf.to(pointer(TENSOR))
            python.PyTuple_SetItem(made, place, new_reference(fields._source))
            with code.if_(~save(made, place + 1, fields._array, memory_of(leaf), state)):
                python.Py_DecRef(made)
                code.return_(None)
        with code.else_():
            python.PyTuple_SetItem(made, place, _none())
            python.PyTuple_SetItem(made, place + 1, new_reference(leaf))
            python.PyTuple_SetItem(made, place + 2, _none())
            python.PyTuple_SetItem(made, place + 3, _none())
    return made


@code.function(REF, made=REFS, count=I64, state=pointer(I64))
def kept_results(made: Value, count: Value, state: Value) -> Operand:
    """What a node keeps of the results of a call; null with an exception."""
    kept = python.PyTuple_New(count * PER_RESULT)
    code.return_if(kept.is_null, None)
    with code.each(count) as i:
        fields = made[i].to(pointer(TENSOR))
        with code.if_(~save(kept, i * PER_RESULT, fields._array, memory_of(made[i]), state)):
            python.Py_DecRef(kept)
            code.return_(None)
    return kept


@code.function(I1, frame=REF, code_=REF)
def is_own(frame: Value, code_: Value) -> Operand:
    """Whether a frame, which runs this code, is Tenon's own."""
    address = code_.to(I64)
    known = _known_codes.at(((address >> 4) ^ (address >> 13)) & (_CODES - 1))
    code.return_if(known.ran == code_, known.is_own != 0)
    answer = python.PyObject_CallOneArg(python.is_own, frame)
    with code.if_(answer.is_null):
        python.PyErr_Clear()
        code.return_(False)
    python.Py_DecRef(answer)
    before = known.ran
    known.put(ran=new_reference(code_), is_own=(answer == python.true).to(I64))
    with code.if_(before.is_not_null):
        python.Py_DecRef(before)
    return answer == python.true


@code.function(code_=REFS, instruction=REFS)
def note_place(code_: Value, instruction: Value) -> None:
    """Store the innermost line that is not Tenon's own: code, and the instruction in it."""
    frame, found = code.local(REF, python.PyEval_GetFrame()), code.local(REF, None)
    with code.if_(frame.is_not_null):
        python.Py_IncRef(frame)
    with code.loop():
        code.break_if(frame.is_null)
        found.set(python.PyFrame_GetCode(frame))
        code.break_if(~is_own(frame, found))
        python.Py_DecRef(found)
        found.set(None)
        back = python.PyFrame_GetBack(frame)
        python.Py_DecRef(frame)
        frame.set(back)
    with code.if_(found.is_null):
        code_.store(_none())
        instruction.store(_none())
    with code.else_():
        code_.store(found)
        instruction.store(python.PyLong_FromLongLong(python.PyFrame_GetLasti(frame).to(I64)))
        python.Py_DecRef(frame)


@code.function(REF, call=REF, operands=REF, results=REF)
def new_node(call: Value, operands: Value, results: Value) -> Operand:
    """A node that takes operands and results; null with an exception, and they are released."""
    made = python.PyType_GenericAlloc(tensors.node, 0)
    with code.if_(made.is_null):
        python.Py_DecRef(operands)
        python.Py_DecRef(results)
        code.return_(None)
    node = made.to(pointer(NODE))
    node.put(call=new_reference(call), operands=operands, results=results, hooks_of=_none(), is_released=_none())
    node.put(number=python.PyIter_Next(tensors.numbers))
    note_place(node.place("code"), node.place("instruction"))
    return made


@code.function(REF, node=REF, index=I64)
def source_of(node: Value, index: Value) -> Operand:
    """The source of a result of a node; null with an exception."""
    with code.if_(index == 0):
        code.return_(new_reference(node))
    made = python.PyType_GenericAlloc(tensors.result, 0)
    code.return_if(made.is_null, None)
    made.to(pointer(RESULT_SOURCE)).put(index=python.PyLong_FromLongLong(index), node=new_reference(node))
    return made


@code.function(I1, call=REF, given=REFS, taken=I64, made=REFS, count=I64, gradients=I64)
def record(call: Value, given: Value, taken: Value, made: Value, count: Value, gradients: Value) -> Operand:
    """Note a call, and give its results, tensors, their sources; false with an exception."""
    state = code.local(I64, 0).address
    operands = operands_of(given, taken, state)
    code.return_if(operands.is_null, False)
    kept = kept_results(made, count, state)
    with code.if_(kept.is_null):
        python.Py_DecRef(operands)
        code.return_(False)
    node = new_node(call, operands, kept)
    code.return_if(node.is_null, False)
    is_whole = code.local(I1, True)
    with code.each(count) as i, code.if_(((gradients >> i) & 1) != 0):
        source = source_of(node, i)
        with code.if_(source.is_null):
            is_whole.set(False)
        with code.else_():
            fields = made[i].to(pointer(TENSOR))
            python.Py_DecRef(fields._source)
            fields.put(_source=source)
    with code.if_((state.load() & IS_LARGE) != 0), code.if_(is_whole):
        answer = python.PyObject_CallOneArg(tensors.forget, node)
        is_whole.set(answer.is_not_null)
        with code.if_(answer.is_not_null):
            python.Py_DecRef(answer)
    python.Py_DecRef(node)
    return is_whole


@code.function(I1, entry=pointer(ENTRY), given=REFS, arrays=REFS, state=pointer(I64))
def as_tensors(entry: Value, given: Value, arrays: Value, state: Value) -> Operand:
    """Make tensors of the results, where a leaf was one, and note the call; false with an exception, all released."""
    code.return_if(((state.load() & HAS_TENSOR) == 0) & (entry.takes_tensors != ALWAYS), True)
    count, results = entry.result_count, entry.results
    with code.each(count) as i, code.if_(results[i].is_plain == 0):
        made = new_tensor(arrays[i])
        with code.if_(made.is_null):
            release(arrays, 0, i)
            release(arrays, i + 1, count)
            code.return_(False)
        arrays[i] = made
    code.return_if((state.load() & IS_RECORDED) == 0, True)
    code.return_if(record(entry.call, given, entry.leaf_count, arrays, count, entry.gradients), True)
    release(arrays, 0, count)
    return False


@code.function(REF, called=REF, arguments=REFS, count=I64, names=REF)
def tenon_record(called: Value, arguments: Value, count: Value, names: Value) -> Operand:
    """A vector call with what was called, its result, and operands: true if it is noted here; if not, Python must.

    The result is a tensor whose elements change continuously; operands are to be tensors and numbers.
    """
    made, given = code.array(REF), arguments.at(2)
    taken = (count & ((1 << 63) - 1)) - 2
    made[0] = arguments[1]
    with code.if_(~(can_be_noted(given, taken) & is_tensor(made[0]))):
        code.return_(new_reference(python.none))
    code.return_unless(record(arguments[0], given, taken, made, 1, 1), None)
    return new_reference(python.true)


_TENSORS_BETWEEN_CLEANINGS = 64
"""How many tensors may share memory before Python looks for those that are no more."""


@code.function(I1, memory=pointer(MEMORY), base=REF, made=REF)
def join(memory: Value, base: Value, made: Value) -> Operand:
    """Note that two tensors share memory; false where that is for Python, or with an exception."""
    with code.if_(memory.tensors == python.none):
        held, first = python.PyList_New(1), python.PyWeakref_NewRef(base, None)
        with code.if_(held.is_null | first.is_null):
            python.PyErr_Clear()
            code.return_(False)
        python.PyList_SetItem(held, 0, first)
        python.Py_DecRef(memory.tensors)
        memory.put(tensors=held)
    code.return_if((python.PyList_Size(memory.tensors) & (_TENSORS_BETWEEN_CLEANINGS - 1)) == 0, False)
    other = python.PyWeakref_NewRef(made, None)
    with code.if_(other.is_null):
        python.PyErr_Clear()
        code.return_(False)
    status = python.PyList_Append(memory.tensors, other)
    python.Py_DecRef(other)
    with code.if_(status != 0):
        python.PyErr_Clear()
        code.return_(False)
    return True


@code.function(REF, base=REF, links=REF)
def new_view(base: Value, links: Value) -> Operand:
    """What a tensor shows of `base`; takes the links, and is null with an exception."""
    code.return_if(links.is_null, None)
    made = python.PyType_GenericAlloc(tensors.view, 0)
    with code.if_(made.is_null):
        python.Py_DecRef(links)
        code.return_(None)
    made.to(pointer(VIEW)).put(base=new_reference(base), links=links)
    return made


@code.function(REF, called=REF, arguments=REFS, count=I64, names=REF)
def tenon_look(called: Value, arguments: Value, count: Value, names: Value) -> Operand:
    """A vector call with a tensor, an array that shows part of its memory, and a tuple of the step to it: a tensor that
    is a view; `None` where that is for Python."""
    given = arguments[0]
    code.return_unless(is_tensor(given), new_reference(python.none))
    before = given.to(pointer(TENSOR))._view
    base, links = code.local(REF, given), code.local(REF, None)
    with code.if_(before == python.none):
        links.set(new_reference(arguments[2]))
    with code.else_():
        base.set(before.to(pointer(VIEW)).base)
        links.set(python.PySequence_Concat(before.to(pointer(VIEW)).links, arguments[2]))
    view = new_view(base, links)
    code.return_if(view.is_null, None)
    memory, made = memory_of(base), new_tensor(new_reference(arguments[1]))
    with code.if_(memory.is_null | made.is_null):
        python.Py_DecRef(view)
        code.return_(None)
    with code.if_(~join(memory.to(pointer(MEMORY)), base, made)):
        python.Py_DecRef(view)
        python.Py_DecRef(made)
        code.return_(new_reference(python.none))
    fields = made.to(pointer(TENSOR))
    python.Py_DecRef(fields._memory)
    python.Py_DecRef(fields._view)
    fields.put(_memory=new_reference(memory), _view=view)
    return made
