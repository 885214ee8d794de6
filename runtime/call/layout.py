"""What entries look like in memory, for Python, which writes them, and for native code, which reads them; and the table
of what native code uses of Python and NumPy. All words have 64 bits.
"""

from __future__ import annotations

from enum import IntEnum

from tenon.runtime.cpu.ir_types import F64, I32, I64, PTR, VOID, Struct, Union, function_type, pointer
from tenon.runtime.cpu.python_objects import OBJECT, slotted

REF = pointer(OBJECT)
REFS = pointer(REF)

# The types of functions that do the same for several classes.
SIZE = function_type(I64, REF)
ITEM = function_type(REF, REF, I64)
MAKE = function_type(REF, I64)
SET_ITEM = function_type(I32, REF, I64, REF)
SET_KEY = function_type(I32, REF, REF, REF)

PYTHON = Struct(
    # functions
    Py_IncRef=function_type(VOID, REF),
    Py_DecRef=function_type(VOID, REF),
    PyErr_Clear=function_type(VOID),
    PyErr_Occurred=function_type(REF),
    PyErr_Fetch=function_type(VOID, REFS, REFS, REFS),
    PyErr_Restore=function_type(VOID, REF, REF, REF),
    PyEval_SaveThread=function_type(PTR),
    PyEval_RestoreThread=function_type(VOID, PTR),
    PyTuple_Size=SIZE,
    PyTuple_GetItem=ITEM,
    PyTuple_New=MAKE,
    PyTuple_SetItem=SET_ITEM,
    PyList_Size=SIZE,
    PyList_GetItem=ITEM,
    PyList_New=MAKE,
    PyList_SetItem=SET_ITEM,
    PyDict_Size=SIZE,
    PyObject_Size=SIZE,
    PyDict_Next=function_type(I32, REF, pointer(I64), REFS, REFS),
    PyDict_New=function_type(REF),
    PyDict_SetItem=SET_KEY,
    PyDict_GetItem=function_type(REF, REF, REF),
    PyCell_Get=function_type(REF, REF),
    PyList_Append=function_type(I32, REF, REF),
    PyBytes_FromStringAndSize=function_type(REF, PTR, I64),
    PyBytes_AsString=function_type(PTR, REF),
    PyBytes_Size=SIZE,
    PyMem_RawRealloc=function_type(PTR, PTR, I64),
    PyMem_RawFree=function_type(VOID, PTR),
    PyFloat_AsDouble=function_type(F64, REF),
    PyLong_AsLongLong=function_type(I64, REF),
    PyObject_GetAttr=function_type(REF, REF, REF),
    PyObject_GetItem=function_type(REF, REF, REF),
    PyObject_CallNoArgs=function_type(REF, REF),
    PyObject_GenericGetDict=function_type(REF, REF, PTR),
    PyObject_GenericSetAttr=SET_KEY,
    PyObject_RichCompareBool=function_type(I32, REF, REF, I32),
    PyObject_CallOneArg=function_type(REF, REF, REF),
    PyObject_Vectorcall=function_type(REF, REF, REFS, I64, REF),
    PySequence_Concat=function_type(REF, REF, REF),
    PyWeakref_NewRef=function_type(REF, REF, REF),
    PyType_GenericNew=function_type(REF, REF, REF, REF),
    PyType_GenericAlloc=function_type(REF, REF, I64),
    PyLong_FromLongLong=function_type(REF, I64),
    PyIter_Next=function_type(REF, REF),
    PyEval_GetFrame=function_type(REF),
    PyFrame_GetBack=function_type(REF, REF),
    PyFrame_GetCode=function_type(REF, REF),
    PyFrame_GetLasti=function_type(I32, REF),
    PyThread_get_thread_ident=function_type(I64),
    memcmp=function_type(I32, PTR, PTR, I64),
    PyArray_CopyInto=function_type(I32, REF, REF),
    PyArray_Empty=function_type(REF, I32, pointer(I64), REF, I32),
    PyArray_NewFromDescr=function_type(REF, REF, REF, I32, pointer(I64), pointer(I64), PTR, I32, REF),
    PyDataMem_SetHandler=function_type(REF, REF),
    # objects
    ndarray=REF,
    float=REF,
    int=REF,
    str=REF,
    true=REF,
    false=REF,
    none=REF,
    no_arguments=REF,
    result_memory=REF,
    is_own=REF,
    donation=REF,
    raise_pending=REF,
    # where numbers lie: that of traces in progress, the precisions of threads, what entries must have been made after,
    # and that of errors pending
    traces=pointer(I64),
    precisions=pointer(I64),
    epoch=pointer(I64),
    pending=pointer(I64),
)
"""What native code uses of Python and NumPy, by address."""

Step = IntEnum(
    "Step",
    "array device scalar float double bfloat int float_of_int double_of_int bfloat_of_int bool same tuple list dict "
    "attributes fields constant add multiply divide remainder equal positive",
)
"""What steps do."""

STEP = Union(
    head=Struct(operation=I64, register=I64),
    array=Struct(
        operation=I64,
        register=I64,
        leaf=I64,
        dtype=REF,
        rank=I64,
        shape=pointer(I64),
        flags=I64,
        item_size=I64,
        strides=pointer(I64),
        whole=I64,
        is_copied=I64,
        class_=REF,
        source=I64,
        is_changed=I64,
        is_inside=I64,
    ),
    device=Struct(
        operation=I64,
        register=I64,
        leaf=I64,
        dtype=REF,
        rank=I64,
        shape=pointer(I64),
        byte_count=I64,
        ordinal=I64,
    ),
    scalar=Struct(operation=I64, register=I64, leaf=I64, type=REF, bytes=I64),
    number=Struct(operation=I64, register=I64, leaf=I64),
    same=Struct(operation=I64, register=I64, object=REF),
    node=Struct(operation=I64, register=I64, first=I64, count=I64, keys=REFS, type=REF),
    size=Struct(operation=I64, register=I64, slot=I64, left=I64, right=I64),
)
"""A step takes apart, or compares, what is in a register. What is in a node comes into registers from `first` on. An
array that lacks the flags is copied if it may be; one with strides has these, and where it is the first part of `whole`
bytes, all of them are in the array that it is a view of; one that is inside is that of an object of the class, which
counts as an array. Steps of sizes compute with numbered slots, or compare them.

A step of an array may want an object of one class, from a source (2) or from none (1), and where its elements are
changed, one that nobody else has. A step of a device wants an array of CuPy on the one of this number.

A word of a shape is a number, or `~slot`: a step of an array puts the size there, results take it from there."""

Build = IntEnum("Build", "result constant tuple list dict attributes fields call register part")
"""What instructions push."""

INSTRUCTION = Struct(operation=I64, taken=I64, object=REF, type=REF)
"""An instruction takes so many objects off the stack and pushes one, which is made of them. `object` may be that of the
keys, or the number of a register or of a result (`part`), which others may have as well."""

RESULT = Struct(
    leaf=I64,
    dtype=REF,
    rank=I64,
    shape=pointer(I64),
    item_size=I64,
    argument=REF,
    is_plain=I64,
    like=REF,
    byte_count=REF,
)
"""A result takes over the memory of a leaf, or is new (-1). With the name of an argument, the array of the leaf must
not be used after the call; without one, it is the result. A plain one is no tensor, whatever is given. On a GPU it is
one like an array, of so many bytes, or the memory's array must never be used after the call."""

DONATION = slotted("argument", "code", "function", "held", "instruction")
"""What is said of an array that must not be used."""

Load = IntEnum("Load", "constant key item cell attribute mapping")
"""Where a guard finds what it compares: its container itself, a key of a dict, an item of a list, what is in a cell, an
attribute, or an item of anything else."""

Test = IntEnum("Test", "identity same kind dict_length list_length length keys parts absent bits fixed like true")
"""How a guard compares: with an object; with an equal constant; the class; how many items a dict, a list, or anything
has; the keys of a dict in their order, with a tuple; what a function is made of, with a tuple; whether there is
nothing; an array with one that must have the same bits, or with itself, which nobody may write to; the type of an array
or of a tensor with that of an array; or what a function of Python gives with `True`."""

GUARD = Struct(where=I64, test=I64, container=REF, key=REF, index=I64, expected=REF)
"""A check of what a program read when it was traced. `index` is that of an item, or of the byte where it is, the
length, the bytes of an element, or what there must be of the source of a tensor: anything (0), nothing (1), something
(2)."""

GUARDS = Struct(count=I64, first=pointer(GUARD))
"""Guards that are asked by themselves."""

ANY_PRECISION = -1
"""What an entry says that holds under any `autocast`."""

ENTRY = Struct(
    epoch=I64,
    precision=I64,
    calls_left=I64,
    positional=I64,
    keywords=I64,
    names=REFS,
    guard_count=I64,
    guards=pointer(GUARD),
    extra_count=I64,
    extras=pointer(GUARD),
    mode=I64,
    registers=I64,
    step_count=I64,
    steps=pointer(STEP),
    input_count=I64,
    held=pointer(PTR),
    held_ends=pointer(PTR),
    leaf_count=I64,
    slots=I64,
    number_count=I64,
    numbers=pointer(I64),
    result_count=I64,
    results=pointer(RESULT),
    function=REF,
    building_count=I64,
    building=pointer(INSTRUCTION),
    stack=I64,
    main=function_type(VOID, pointer(PTR)),
    launch=REF,
    allocate=REF,
    marks=REF,
    lost=REF,
    spares=REF,
    arena=PTR,
    takes_arena=I64,
    arena_slot=I64,
    byte=REF,
    releases=I64,
    takes_over=I64,
    takes_tensors=I64,
    call=REF,
    gradients=I64,
)
"""One way to call: what the arguments must look like, what is run, and what the result is. The program takes sizes from
the slots that `numbers` has; where one says how large the arena is, there is a new one at each call (-1: none does).
It serves calls as long as its guards hold. `function` is its name, for arguments that must not be used after the call.
`byte` is a dtype. Where it takes tensors, their arrays are leaves, and results are tensors if any leaf is, or always
(2); `call` is what the tape calls that, or null, and `gradients` has a bit for each result whose elements change
continuously. It serves so many calls as are left (-1: any number), under the `autocast` of a number
(`ANY_PRECISION`), where calls are recorded (`mode` 1), or are not (2).
On a GPU, functions of Python do it: `launch` takes in place of `main` the addresses of inputs and results, as bytes,
and `allocate` gives memory of so many bytes. Where memory is taken over, `marks` gives for a line of the user's what
each array that was given away is a view of from then on, result by result, and `lost` is told the leaves where a
launch fails; `spares` is a list with the arrays that were given away last, which become results once nobody else has
them.
Behind the arguments, it is given what lies in the places of the extras."""

TABLE = Struct(general=REF, count=I64, entries=pointer(ENTRY))
"""The Python function of a callable and its entries, `count` of them, of which `entries` is the first."""

CALL_SLOT = Struct(call=PTR, table=pointer(TABLE))
"""What an instance of a `native_class` ends with."""

TENSOR = slotted("_array", "_grad", "_keeps_grad", "_memory", "_source", "_view")
"""A tensor: its array, and, or `None`, where its value came from and the memory that it shares."""

VIEW = slotted("base", "links")
"""What a tensor shows of another one: that one, and what makes the steps to it."""

MEMORY = slotted("changed_at", "is_exported", "tensors", "version")
"""Memory that tensors share; its version, a number, counts changes."""

NODE = slotted("call", "code", "hooks_of", "instruction", "is_released", "number", "operands", "results")
"""A recorded call, which is the source of its first result. For each operand there are its source, elements, memory,
and the version of that; for each result the latter three."""

RESULT_SOURCE = slotted("index", "node")
"""The source of another result of a node."""

PER_OPERAND, PER_RESULT = 4, 3

TENSORS = Struct(
    tensor=REF,
    parameter=REF,
    memory=REF,
    node=REF,
    result=REF,
    view=REF,
    forget=REF,
    numbers=REF,
    least=I64,
    unrecorded=pointer(I64),
    waiting=pointer(I64),
)
"""What native code uses of tensors, all null until there are any: classes; the functions that let a node forget what no
gradient needs (called where an array has at least so many bytes); what numbers the nodes; and the threads that do not
record, behind their number (-1: too many); and how many threads have calls wait, so that all go through Python."""
