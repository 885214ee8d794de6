"""How native calls make results and put them together."""

from __future__ import annotations

from tenon.runtime.call.layout import BUILDING, switch

# Whether memory that is to be written is nobody else's: of no other leaf, and not held from call to call.
_ALONE = """
define internal i64 @overlaps(i64 %start, i64 %stop, ptr %starts, ptr %ends, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %found = phi i64 [ 0, %entry ], [ %found.next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %all
one:
  %other.start = call i64 @word(ptr %starts, i64 %i)
  %other.stop = call i64 @word(ptr %ends, i64 %i)
  %before = icmp ult i64 %other.start, %stop
  %after = icmp ult i64 %start, %other.stop
  %both = and i1 %before, %after
  %one.more = zext i1 %both to i64
  %found.next = add i64 %found, %one.more
  %next = add i64 %i, 1
  br label %loop
all:
  ret i64 %found
}
define internal i1 @alone(ptr %entry.words, ptr %data, ptr %ends) {
entry:
  %takes = call i64 @entry_takes_over(ptr %entry.words)
  %any = icmp ne i64 %takes, 0
  br i1 %any, label %check, label %yes
check:
  %leaves = call i64 @entry_leaf_count(ptr %entry.words)
  %inputs = call i64 @entry_input_count(ptr %entry.words)
  %held.word = call i64 @entry_held(ptr %entry.words)
  %held = inttoptr i64 %held.word to ptr
  %held.ends.word = call i64 @entry_held_ends(ptr %entry.words)
  %held.ends = inttoptr i64 %held.ends.word to ptr
  %results.word = call i64 @entry_results(ptr %entry.words)
  %results = inttoptr i64 %results.word to ptr
  %count = call i64 @entry_result_count(ptr %entry.words)
  br label %loop
loop:
  %i = phi i64 [ 0, %check ], [ %next, %continue ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %offset = shl i64 %i, 2
  %result = getelementptr i64, ptr %results, i64 %offset
  %leaf = call i64 @word(ptr %result, i64 0)
  %next = add i64 %i, 1
  %given = icmp sge i64 %leaf, 0
  br i1 %given, label %compare, label %continue
compare:
  %start = call i64 @word(ptr %data, i64 %leaf)
  %stop = call i64 @word(ptr %ends, i64 %leaf)
  %by.leaves = call i64 @overlaps(i64 %start, i64 %stop, ptr %data, ptr %ends, i64 %leaves)
  %by.held = call i64 @overlaps(i64 %start, i64 %stop, ptr %held, ptr %held.ends, i64 %inputs)
  %shared = add i64 %by.leaves, %by.held
  ; an array shares its memory with itself
  %is.shared = icmp ugt i64 %shared, 1
  br i1 %is.shared, label %no, label %continue
continue:
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}
"""

# Arrays for the results: those that are taken over, and new ones; null with an exception.
_ALLOCATE = """
define internal i1 @allocate(ptr %entry.words, ptr %objects, ptr %arrays) {
entry:
  %results.word = call i64 @entry_results(ptr %entry.words)
  %results = inttoptr i64 %results.word to ptr
  %count = call i64 @entry_result_count(ptr %entry.words)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %offset = shl i64 %i, 2
  %result = getelementptr i64, ptr %results, i64 %offset
  %leaf = call i64 @word(ptr %result, i64 0)
  %given = icmp sge i64 %leaf, 0
  br i1 %given, label %take, label %make
take:
  %object = call ptr @pointer(ptr %objects, i64 %leaf)
  call void @Py_IncRef(ptr %object)
  br label %store
make:
  %dtype = call ptr @pointer(ptr %result, i64 1)
  %rank = call i64 @word(ptr %result, i64 2)
  %rank.32 = trunc i64 %rank to i32
  %shape = call ptr @pointer(ptr %result, i64 3)
  %is.large = icmp eq i64 %leaf, -2
  br i1 %is.large, label %large, label %small
small:
  call void @Py_IncRef(ptr %dtype)
  %made.small = call ptr @PyArray_Empty(i32 %rank.32, ptr %shape, ptr %dtype, i32 0)
  br label %made
large:
  %ours = call ptr @value_result_memory()
  %before = call ptr @PyDataMem_SetHandler(ptr %ours)
  %is.set = icmp ne ptr %before, null
  br i1 %is.set, label %pooled, label %no
pooled:
  call void @Py_IncRef(ptr %dtype)
  %made.large = call ptr @PyArray_Empty(i32 %rank.32, ptr %shape, ptr %dtype, i32 0)
  %set = call ptr @PyDataMem_SetHandler(ptr %before)
  call void @Py_DecRef(ptr %before)
  %is.reset = icmp ne ptr %set, null
  br i1 %is.reset, label %reset, label %made
reset:
  call void @Py_DecRef(ptr %set)
  br label %made
made:
  %new = phi ptr [ %made.small, %small ], [ %made.large, %pooled ], [ %made.large, %reset ]
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no, label %store
store:
  %array = phi ptr [ %object, %take ], [ %new, %made ]
  call void @put(ptr %arrays, i64 %i, ptr %array)
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  call void @release(ptr %arrays, i64 0, i64 %i)
  ret i1 false
}
"""


def _fill(name: str, setter: str) -> str:
    """A function that gives an object elements by their keys through `setter`; false with an exception."""
    return f"""
define internal i1 @{name}(ptr %object, ptr %keys, ptr %elements, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %continue ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %key = call ptr @pointer(ptr %keys, i64 %i)
  %element = call ptr @pointer(ptr %elements, i64 %i)
  %status = call i32 @{setter}(ptr %object, ptr %key, ptr %element)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %no, label %continue
continue:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


# A node from the top of the stack, whose elements it takes; null with an exception, the elements released.
_NODES = """
define internal ptr @new_sequence(ptr %elements, i64 %count, i1 %is.tuple) {
entry:
  br i1 %is.tuple, label %make.tuple, label %make.list
make.tuple:
  %tuple = call ptr @PyTuple_New(i64 %count)
  br label %made
make.list:
  %list = call ptr @PyList_New(i64 %count)
  br label %made
made:
  %node = phi ptr [ %tuple, %make.tuple ], [ %list, %make.list ]
  %failed = icmp eq ptr %node, null
  br i1 %failed, label %no, label %loop
loop:
  %i = phi i64 [ 0, %made ], [ %next, %continue ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %element = call ptr @pointer(ptr %elements, i64 %i)
  br i1 %is.tuple, label %put.tuple, label %put.list
put.tuple:
  %in.tuple = call i32 @PyTuple_SetItem(ptr %node, i64 %i, ptr %element)
  br label %continue
put.list:
  %in.list = call i32 @PyList_SetItem(ptr %node, i64 %i, ptr %element)
  br label %continue
continue:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret ptr %node
no:
  call void @release(ptr %elements, i64 0, i64 %count)
  ret ptr null
}
define internal ptr @new_dict(ptr %keys, ptr %elements, i64 %count) {
entry:
  %dict = call ptr @PyDict_New()
  %failed = icmp eq ptr %dict, null
  br i1 %failed, label %no, label %fill
fill:
  %filled = call i1 @fill_dict(ptr %dict, ptr %keys, ptr %elements, i64 %count)
  br i1 %filled, label %yes, label %drop
drop:
  call void @Py_DecRef(ptr %dict)
  br label %no
yes:
  call void @release(ptr %elements, i64 0, i64 %count)
  ret ptr %dict
no:
  call void @release(ptr %elements, i64 0, i64 %count)
  ret ptr null
}
define internal ptr @new_object(ptr %class, ptr %names, ptr %elements, i64 %count, i1 %has.fields) {
entry:
  %none = call ptr @value_no_arguments()
  %object = call ptr @PyType_GenericNew(ptr %class, ptr %none, ptr null)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %no, label %made
made:
  br i1 %has.fields, label %fields, label %attributes
fields:
  %set = call i1 @fill_fields(ptr %object, ptr %names, ptr %elements, i64 %count)
  br i1 %set, label %yes, label %drop
attributes:
  %dict = call ptr @PyObject_GenericGetDict(ptr %object, ptr null)
  %lacks = icmp eq ptr %dict, null
  br i1 %lacks, label %drop, label %fill
fill:
  %filled = call i1 @fill_dict(ptr %dict, ptr %names, ptr %elements, i64 %count)
  call void @Py_DecRef(ptr %dict)
  br i1 %filled, label %yes, label %drop
drop:
  call void @Py_DecRef(ptr %object)
  br label %no
yes:
  call void @release(ptr %elements, i64 0, i64 %count)
  ret ptr %object
no:
  call void @release(ptr %elements, i64 0, i64 %count)
  ret ptr null
}
define internal ptr @call_with_list(ptr %function, ptr %elements, i64 %count) {
entry:
  %list = call ptr @new_sequence(ptr %elements, i64 %count, i1 false)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %no, label %run
run:
  %made = call ptr @PyObject_CallOneArg(ptr %function, ptr %list)
  call void @Py_DecRef(ptr %list)
  ret ptr %made
no:
  ret ptr null
}
"""

# The result of a call from its arrays, which it takes; null with an exception.
_PUT_TOGETHER = f"""
define internal ptr @put_together(ptr %entry.words, ptr %arrays, ptr %registers) {{
entry:
  %count = call i64 @entry_building_count(ptr %entry.words)
  %building.word = call i64 @entry_building(ptr %entry.words)
  %building = inttoptr i64 %building.word to ptr
  %array.count = call i64 @entry_result_count(ptr %entry.words)
  %room = call i64 @entry_stack(ptr %entry.words)
  %stack = alloca ptr, i64 %room
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %push ]
  %height = phi i64 [ 0, %entry ], [ %higher, %push ]
  %used = phi i64 [ 0, %entry ], [ %used.next, %push ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %offset = shl i64 %i, 2
  %step = getelementptr i64, ptr %building, i64 %offset
  %operation = call i64 @word(ptr %step, i64 0)
  %taken = call i64 @word(ptr %step, i64 1)
  %first = call ptr @pointer(ptr %step, i64 2)
  %class = call ptr @pointer(ptr %step, i64 3)
  %rest = sub i64 %height, %taken
  %elements = getelementptr ptr, ptr %stack, i64 %rest
  {switch("%operation", BUILDING, "unreached")}
result:
  %array = call ptr @pointer(ptr %arrays, i64 %used)
  %used.more = add i64 %used, 1
  br label %check
constant:
  call void @Py_IncRef(ptr %first)
  br label %check
register:
  %number = call i64 @word(ptr %step, i64 2)
  %given = call ptr @pointer(ptr %registers, i64 %number)
  call void @Py_IncRef(ptr %given)
  br label %check
tuple:
  %tuple.made = call ptr @new_sequence(ptr %elements, i64 %taken, i1 true)
  br label %check
list:
  %list.made = call ptr @new_sequence(ptr %elements, i64 %taken, i1 false)
  br label %check
dict:
  %dict.made = call ptr @new_dict(ptr %first, ptr %elements, i64 %taken)
  br label %check
attributes:
  %instance = call ptr @new_object(ptr %class, ptr %first, ptr %elements, i64 %taken, i1 false)
  br label %check
fields:
  %record = call ptr @new_object(ptr %class, ptr %first, ptr %elements, i64 %taken, i1 true)
  br label %check
call:
  %called = call ptr @call_with_list(ptr %first, ptr %elements, i64 %taken)
  br label %check
check:
  %made = phi ptr [ %array, %result ], [ %first, %constant ], [ %given, %register ], [ %tuple.made, %tuple ],
    [ %list.made, %list ], [ %dict.made, %dict ], [ %instance, %attributes ], [ %record, %fields ], [ %called, %call ]
  %used.next = phi i64 [ %used.more, %result ], [ %used, %constant ], [ %used, %register ], [ %used, %tuple ],
    [ %used, %list ], [ %used, %dict ], [ %used, %attributes ], [ %used, %fields ], [ %used, %call ]
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %no, label %push
push:
  call void @put(ptr %stack, i64 %rest, ptr %made)
  %higher = add i64 %rest, 1
  %next = add i64 %i, 1
  br label %loop
yes:
  call void @release(ptr %arrays, i64 %used, i64 %array.count)
  %whole = load ptr, ptr %stack
  ret ptr %whole
no:
  call void @release(ptr %stack, i64 0, i64 %rest)
  call void @release(ptr %arrays, i64 %used.next, i64 %array.count)
  ret ptr null
unreached:
  unreachable
}}
"""

_FILLS = _fill("fill_dict", "PyDict_SetItem") + _fill("fill_fields", "PyObject_GenericSetAttr")

RESULTS = _ALONE + _ALLOCATE + _FILLS + _NODES + _PUT_TOGETHER
"""LLVM IR; see `entry_code`."""
