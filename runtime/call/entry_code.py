"""The native code behind calls of compiled functions, as LLVM IR: one interpreter of call descriptions for all of them.

A callable has a table: `[Python function, count of entries, address of an entry, ...]`. An entry (see `entry`) says
what a call must look like and what is then done, all in words of 64 bits:

- `ENTRY` names them: counts, and addresses of the tables that follow;
- steps take the arguments apart and compare them with what is expected (`STEPS`): objects lie in numbered registers,
  the arguments in the first ones, and leaves are numbered as they come;
- results say which leaf's memory an output takes over (-1: none, it is allocated), and its dtype and shape;
- building puts the results together (`BUILDING`), on a stack.

A call that fits no entry, and everything unusual (memory that is shared, read-only or in use by another thread), goes
to the Python function of the callable, so that errors and rare features are written once, there. What is called of
Python and NumPy comes from a table of addresses that is filled after loading: the code is the same in every process.
"""

from __future__ import annotations

from tenon.runtime.call.layout import (
    ADDRESS_COUNT,
    DATA,
    DTYPE,
    ENTRY,
    FLAGS,
    FUNCTIONS,
    PLACE_OF_CALL,
    RANK,
    SHAPE,
    TYPE,
    VALUES,
    accessor,
    field,
    function,
    value,
)
from tenon.runtime.call.native_arguments import ARGUMENTS
from tenon.runtime.call.native_call import CALL
from tenon.runtime.call.native_results import RESULTS

_WORDS = """
define internal i64 @word(ptr %words, i64 %index) alwaysinline {
  %p = getelementptr i64, ptr %words, i64 %index
  %v = load i64, ptr %p
  ret i64 %v
}
define internal ptr @pointer(ptr %words, i64 %index) alwaysinline {
  %p = getelementptr ptr, ptr %words, i64 %index
  %v = load ptr, ptr %p
  ret ptr %v
}
define internal void @put(ptr %words, i64 %index, ptr %value) alwaysinline {
  %p = getelementptr ptr, ptr %words, i64 %index
  store ptr %value, ptr %p
  ret void
}
define internal void @release(ptr %objects, i64 %first, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %one, label %done
one:
  %object = call ptr @pointer(ptr %objects, i64 %i)
  call void @Py_DecRef(ptr %object)
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}
"""

EXPORTS = ("tenon_addresses", "tenon_call", "tenon_copy", "tenon_fits")

SOURCE = "".join(
    [
        f"@tenon_addresses = global [{ADDRESS_COUNT} x ptr] zeroinitializer, align 8\n",
        *map(function, FUNCTIONS),
        *map(value, VALUES),
        accessor("class_of", "ptr", TYPE),
        accessor("data_of", "ptr", DATA),
        accessor("rank_of", "i32", RANK),
        accessor("shape_of", "ptr", SHAPE),
        accessor("dtype_of", "ptr", DTYPE),
        accessor("flags_of", "i32", FLAGS),
        accessor("place_of_call", "i64", PLACE_OF_CALL),
        _WORDS,
        *map(field, ENTRY),
        *(ARGUMENTS, RESULTS, CALL),
    ]
)
"""LLVM IR of all of it."""
