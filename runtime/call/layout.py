"""What entries look like in memory, and what their native code uses of Python and NumPy."""

from __future__ import annotations

# PyObject: ..., type. PyArrayObject: header, `char *data`, `int nd`, dimensions, strides, base, descr, `int flags`.
_HEADER = object.__basicsize__
TYPE = _HEADER - 8
DATA, RANK, SHAPE, DTYPE, FLAGS = [_HEADER + 8 * word for word in (0, 1, 2, 5, 6)]

PLACE_OF_CALL = _HEADER + 8 * 5
"""Where a class says at which offset its instances have their vector call: `tp_vectorcall_offset`."""

FUNCTIONS = {
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
    "PyErr_Clear": ("void", ""),
    "PyErr_Occurred": ("ptr", ""),
    "PyEval_SaveThread": ("ptr", ""),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyTuple_Size": ("i64", "ptr"),
    "PyTuple_GetItem": ("ptr", "ptr, i64"),
    "PyTuple_New": ("ptr", "i64"),
    "PyTuple_SetItem": ("i32", "ptr, i64, ptr"),
    "PyList_Size": ("i64", "ptr"),
    "PyList_GetItem": ("ptr", "ptr, i64"),
    "PyList_New": ("ptr", "i64"),
    "PyList_SetItem": ("i32", "ptr, i64, ptr"),
    "PyDict_Size": ("i64", "ptr"),
    "PyDict_Next": ("i32", "ptr, ptr, ptr, ptr"),
    "PyDict_New": ("ptr", ""),
    "PyDict_SetItem": ("i32", "ptr, ptr, ptr"),
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyLong_AsLongLong": ("i64", "ptr"),
    "PyObject_GetAttr": ("ptr", "ptr, ptr"),
    "PyObject_GenericGetDict": ("ptr", "ptr, ptr"),
    "PyObject_GenericSetAttr": ("i32", "ptr, ptr, ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr, ptr, i32"),
    "PyObject_CallOneArg": ("ptr", "ptr, ptr"),
    "PyObject_Vectorcall": ("ptr", "ptr, ptr, i64, ptr"),
    "PyType_GenericNew": ("ptr", "ptr, ptr, ptr"),
    "PyArray_Empty": ("ptr", "i32, ptr, ptr, i32"),
    "PyDataMem_SetHandler": ("ptr", "ptr"),
}
"""The functions that are called, with the types of results and parameters."""

VALUES = ("ndarray", "float", "int", "str", "true", "no_arguments", "result_memory", "traces", "epoch")
"""Objects, and where two numbers lie: that of traces in progress, and what entries must have been made after."""

ENTRY = (
    *("epoch", "positional", "keywords", "names", "registers", "step_count", "steps", "input_count", "held"),
    *("held_ends", "leaf_count", "result_count", "results", "building_count", "building", "stack", "main", "arena"),
    *("takes_arena", "releases", "takes_over"),
)
"""The words of an entry."""

# What a step of 8 words is: operation, register, and then for an array: leaf, dtype, rank, shape, flags, bytes; for a
# number: leaf; for a constant: -, object; for a node: first register of what is in it, count, keys, class.
STEPS = ("array", "float", "double", "int", "bool", "same", "tuple", "list", "dict", "attributes", "fields")

# What an instruction of 4 words is: operation, count, object or keys, class.
BUILDING = ("result", "constant", "tuple", "list", "dict", "attributes", "fields", "call", "register")

_ADDRESSES = (*FUNCTIONS, *VALUES)
ADDRESS_COUNT = len(_ADDRESSES)


def _place(name: str) -> int:
    """The place of a function or value in the table of addresses."""
    return _ADDRESSES.index(name)


def _loaded(name: str) -> str:
    return f"getelementptr ([{ADDRESS_COUNT} x ptr], ptr @tenon_addresses, i64 0, i64 {_place(name)})"


def function(name: str) -> str:
    """A function that calls the one whose address is in the table."""
    result, types = FUNCTIONS[name]
    named = [f"{type_} %{i}" for i, type_ in enumerate(types.split(", ")) if type_]
    parameters = ", ".join(named)
    call = f"call {result} %f({parameters})"
    body = f"{call}\n  ret void" if result == "void" else f"%r = {call}\n  ret {result} %r"
    return (
        f"define internal {result} @{name}({parameters}) alwaysinline {{\n"
        f"  %f = load ptr, ptr {_loaded(name)}\n  {body}\n}}\n"
    )


def accessor(name: str, type_: str, offset: int) -> str:
    return (
        f"define internal {type_} @{name}(ptr %o) alwaysinline {{\n"
        f"  %p = getelementptr i8, ptr %o, i64 {offset}\n  %v = load {type_}, ptr %p\n  ret {type_} %v\n}}\n"
    )


def value(name: str) -> str:
    return (
        f"define internal ptr @value_{name}() alwaysinline {{\n  %v = load ptr, ptr {_loaded(name)}\n  ret ptr %v\n}}\n"
    )


def field(name: str) -> str:
    return (
        f"define internal i64 @entry_{name}(ptr %entry) alwaysinline {{\n"
        f"  %v = call i64 @word(ptr %entry, i64 {ENTRY.index(name)})\n  ret i64 %v\n}}\n"
    )


def switch(value: str, names: tuple[str, ...], otherwise: str) -> str:
    cases = " ".join(f"i64 {number}, label %{name}" for number, name in enumerate(names))
    return f"switch i64 {value}, label %{otherwise} [ {cases} ]"
