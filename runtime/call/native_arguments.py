"""How native calls take arguments apart."""

from __future__ import annotations

from tenon.runtime.call.layout import STEPS, switch

# Whether an object is the expected constant: it itself, or an equal one of a class whose equal objects are alike.
_SAME = """
define internal i1 @same(ptr %given, ptr %expected) {
entry:
  %identical = icmp eq ptr %given, %expected
  br i1 %identical, label %yes, label %classes
classes:
  %class = call ptr @class_of(ptr %given)
  %other = call ptr @class_of(ptr %expected)
  %alike = icmp eq ptr %class, %other
  br i1 %alike, label %kinds, label %no
kinds:
  %float.class = call ptr @value_float()
  %is.float = icmp eq ptr %class, %float.class
  br i1 %is.float, label %number, label %plain
number:
  %x = call double @PyFloat_AsDouble(ptr %given)
  %y = call double @PyFloat_AsDouble(ptr %expected)
  %x.bits = bitcast double %x to i64
  %y.bits = bitcast double %y to i64
  %same.bits = icmp eq i64 %x.bits, %y.bits
  ret i1 %same.bits
plain:
  %str.class = call ptr @value_str()
  %int.class = call ptr @value_int()
  %is.str = icmp eq ptr %class, %str.class
  %is.int = icmp eq ptr %class, %int.class
  %is.plain = or i1 %is.str, %is.int
  br i1 %is.plain, label %compare, label %no
compare:
  %equal = call i32 @PyObject_RichCompareBool(ptr %given, ptr %expected, i32 2)
  %is.equal = icmp eq i32 %equal, 1
  ret i1 %is.equal
yes:
  ret i1 true
no:
  ret i1 false
}
"""

# Whether an object is an array of a step's dtype, shape and flags.
_ARRAY = """
define internal i1 @fits(ptr %object, ptr %step) {
entry:
  %class = call ptr @class_of(ptr %object)
  %expected.class = call ptr @value_ndarray()
  %is.array = icmp eq ptr %class, %expected.class
  br i1 %is.array, label %look, label %no
look:
  %dtype = call ptr @dtype_of(ptr %object)
  %expected.dtype = call ptr @pointer(ptr %step, i64 3)
  %same.dtype = icmp eq ptr %dtype, %expected.dtype
  %rank.32 = call i32 @rank_of(ptr %object)
  %rank = sext i32 %rank.32 to i64
  %expected.rank = call i64 @word(ptr %step, i64 4)
  %same.rank = icmp eq i64 %rank, %expected.rank
  %flags.32 = call i32 @flags_of(ptr %object)
  %flags = sext i32 %flags.32 to i64
  %expected.flags = call i64 @word(ptr %step, i64 6)
  %common = and i64 %flags, %expected.flags
  %usable = icmp eq i64 %common, %expected.flags
  %alike = and i1 %same.dtype, %same.rank
  %all = and i1 %alike, %usable
  br i1 %all, label %sizes, label %no
sizes:
  %shape = call ptr @shape_of(ptr %object)
  %expected.shape = call ptr @pointer(ptr %step, i64 5)
  br label %loop
loop:
  %i = phi i64 [ 0, %sizes ], [ %next, %one ]
  %more = icmp slt i64 %i, %rank
  br i1 %more, label %one, label %yes
one:
  %size = call i64 @word(ptr %shape, i64 %i)
  %expected = call i64 @word(ptr %expected.shape, i64 %i)
  %next = add i64 %i, 1
  %equal = icmp eq i64 %size, %expected
  br i1 %equal, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
define i32 @tenon_fits(ptr %object, ptr %step) {
  %r = call i1 @fits(ptr %object, ptr %step)
  %v = zext i1 %r to i32
  ret i32 %v
}
"""

# The values of a dict, in order, if its keys are the expected ones.
_DICT = """
define internal i1 @open_dict(ptr %dict, ptr %step, ptr %registers, ptr %end) {
entry:
  %position = alloca i64
  %key = alloca ptr
  %value = alloca ptr
  store i64 0, ptr %position
  %first = call i64 @word(ptr %step, i64 2)
  %count = call i64 @word(ptr %step, i64 3)
  %keys = call ptr @pointer(ptr %step, i64 4)
  %size = call i64 @PyDict_Size(ptr %dict)
  %same.size = icmp eq i64 %size, %count
  br i1 %same.size, label %loop, label %no
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %take ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %found = call i32 @PyDict_Next(ptr %dict, ptr %position, ptr %key, ptr %value)
  %is.found = icmp ne i32 %found, 0
  br i1 %is.found, label %compare, label %no
compare:
  %given = load ptr, ptr %key
  %expected = call ptr @pointer(ptr %keys, i64 %i)
  %same = call i1 @same(ptr %given, ptr %expected)
  br i1 %same, label %take, label %no
take:
  %object = load ptr, ptr %value
  %register = add i64 %first, %i
  call void @Py_IncRef(ptr %object)
  call void @put(ptr %registers, i64 %register, ptr %object)
  %next = add i64 %i, 1
  %past = add i64 %register, 1
  store i64 %past, ptr %end
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}
"""

# The elements of a tuple or list, and the fields of an object, into registers.
_SEQUENCE = """
define internal i1 @open_sequence(ptr %sequence, ptr %step, i1 %is.tuple, ptr %registers, ptr %end) {
entry:
  %first = call i64 @word(ptr %step, i64 2)
  %count = call i64 @word(ptr %step, i64 3)
  br i1 %is.tuple, label %size.tuple, label %size.list
size.tuple:
  %tuple.size = call i64 @PyTuple_Size(ptr %sequence)
  br label %sized
size.list:
  %list.size = call i64 @PyList_Size(ptr %sequence)
  br label %sized
sized:
  %size = phi i64 [ %tuple.size, %size.tuple ], [ %list.size, %size.list ]
  %same.size = icmp eq i64 %size, %count
  br i1 %same.size, label %loop, label %no
loop:
  %i = phi i64 [ 0, %sized ], [ %next, %take ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  br i1 %is.tuple, label %of.tuple, label %of.list
of.tuple:
  %tuple.item = call ptr @PyTuple_GetItem(ptr %sequence, i64 %i)
  br label %take
of.list:
  %list.item = call ptr @PyList_GetItem(ptr %sequence, i64 %i)
  br label %take
take:
  %item = phi ptr [ %tuple.item, %of.tuple ], [ %list.item, %of.list ]
  %register = add i64 %first, %i
  call void @Py_IncRef(ptr %item)
  call void @put(ptr %registers, i64 %register, ptr %item)
  %next = add i64 %i, 1
  %past = add i64 %register, 1
  store i64 %past, ptr %end
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}
define internal i1 @open_fields(ptr %object, ptr %step, ptr %registers, ptr %end) {
entry:
  %first = call i64 @word(ptr %step, i64 2)
  %count = call i64 @word(ptr %step, i64 3)
  %names = call ptr @pointer(ptr %step, i64 4)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %take ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %name = call ptr @pointer(ptr %names, i64 %i)
  %item = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %lacks = icmp eq ptr %item, null
  br i1 %lacks, label %no, label %take
take:
  %register = add i64 %first, %i
  call void @put(ptr %registers, i64 %register, ptr %item)
  %next = add i64 %i, 1
  %past = add i64 %register, 1
  store i64 %past, ptr %end
  br label %loop
yes:
  ret i1 true
no:
  call void @PyErr_Clear()
  ret i1 false
}
define internal i1 @open_attributes(ptr %object, ptr %step, ptr %registers, ptr %end) {
entry:
  %dict = call ptr @PyObject_GenericGetDict(ptr %object, ptr null)
  %lacks = icmp eq ptr %dict, null
  br i1 %lacks, label %no, label %open
open:
  %fits = call i1 @open_dict(ptr %dict, ptr %step, ptr %registers, ptr %end)
  call void @Py_DecRef(ptr %dict)
  ret i1 %fits
no:
  call void @PyErr_Clear()
  ret i1 false
}
"""

# All steps of an entry. `%leaves` are objects, addresses, ends of memory and the values of numbers, by leaf.
_TAKE_APART = f"""
define internal i1 @take_apart(ptr %entry.words, ptr %registers, ptr %end, ptr %objects, ptr %data, ptr %ends,
                               ptr %numbers) {{
entry:
  %count = call i64 @entry_step_count(ptr %entry.words)
  %steps = call i64 @entry_steps(ptr %entry.words)
  %first = inttoptr i64 %steps to ptr
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %continue ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %offset = shl i64 %i, 3
  %step = getelementptr i64, ptr %first, i64 %offset
  %operation = call i64 @word(ptr %step, i64 0)
  %register = call i64 @word(ptr %step, i64 1)
  %leaf = call i64 @word(ptr %step, i64 2)
  %object = call ptr @pointer(ptr %registers, i64 %register)
  %class = call ptr @class_of(ptr %object)
  %number.slot = getelementptr i64, ptr %numbers, i64 %leaf
  {switch("%operation", STEPS, "no")}
array:
  %fits = call i1 @fits(ptr %object, ptr %step)
  br i1 %fits, label %array.found, label %no
array.found:
  %memory = call ptr @data_of(ptr %object)
  %bytes = call i64 @word(ptr %step, i64 7)
  %memory.end = getelementptr i8, ptr %memory, i64 %bytes
  call void @put(ptr %objects, i64 %leaf, ptr %object)
  call void @put(ptr %data, i64 %leaf, ptr %memory)
  call void @put(ptr %ends, i64 %leaf, ptr %memory.end)
  br label %continue
float:
  %float.class = call ptr @value_float()
  %is.float = icmp eq ptr %class, %float.class
  br i1 %is.float, label %float.found, label %no
float.found:
  %wide = call double @PyFloat_AsDouble(ptr %object)
  %narrow = fptrunc double %wide to float
  %back = fpext float %narrow to double
  %magnitude = call double @llvm.fabs.f64(double %back)
  %overflows = fcmp oeq double %magnitude, 0x7FF0000000000000
  br i1 %overflows, label %no, label %float.held
float.held:
  store float %narrow, ptr %number.slot
  br label %number.held
double:
  %double.class = call ptr @value_float()
  %is.double = icmp eq ptr %class, %double.class
  br i1 %is.double, label %double.held, label %no
double.held:
  %exact = call double @PyFloat_AsDouble(ptr %object)
  store double %exact, ptr %number.slot
  br label %number.held
int:
  %int.class = call ptr @value_int()
  %is.int = icmp eq ptr %class, %int.class
  br i1 %is.int, label %int.found, label %no
int.found:
  %integer = call i64 @PyLong_AsLongLong(ptr %object)
  %perhaps.failed = icmp eq i64 %integer, -1
  br i1 %perhaps.failed, label %int.check, label %int.held
int.check:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %clear, label %int.held
int.held:
  store i64 %integer, ptr %number.slot
  br label %number.held
bool:
  %true = call ptr @value_true()
  %true.class = call ptr @class_of(ptr %true)
  %is.bool = icmp eq ptr %class, %true.class
  br i1 %is.bool, label %bool.held, label %no
bool.held:
  %is.true = icmp eq ptr %object, %true
  %truth = zext i1 %is.true to i64
  store i64 %truth, ptr %number.slot
  br label %number.held
number.held:
  call void @put(ptr %objects, i64 %leaf, ptr %object)
  call void @put(ptr %data, i64 %leaf, ptr %number.slot)
  call void @put(ptr %ends, i64 %leaf, ptr %number.slot)
  br label %continue
same:
  %constant = call ptr @pointer(ptr %step, i64 3)
  %is.same = call i1 @same(ptr %object, ptr %constant)
  br i1 %is.same, label %continue, label %no
tuple:
  br label %node
list:
  br label %node
dict:
  br label %node
attributes:
  br label %node
fields:
  br label %node
node:
  %expected.class = call ptr @pointer(ptr %step, i64 5)
  %same.class = icmp eq ptr %class, %expected.class
  br i1 %same.class, label %open, label %no
open:
  switch i64 %operation, label %no [
    i64 {STEPS.index("tuple")}, label %sequence
    i64 {STEPS.index("list")}, label %sequence
    i64 {STEPS.index("dict")}, label %mapping
    i64 {STEPS.index("attributes")}, label %instance
    i64 {STEPS.index("fields")}, label %record
  ]
sequence:
  %is.tuple = icmp eq i64 %operation, {STEPS.index("tuple")}
  %opened.sequence = call i1 @open_sequence(ptr %object, ptr %step, i1 %is.tuple, ptr %registers, ptr %end)
  br i1 %opened.sequence, label %continue, label %no
mapping:
  %opened.dict = call i1 @open_dict(ptr %object, ptr %step, ptr %registers, ptr %end)
  br i1 %opened.dict, label %continue, label %no
instance:
  %opened.attributes = call i1 @open_attributes(ptr %object, ptr %step, ptr %registers, ptr %end)
  br i1 %opened.attributes, label %continue, label %no
record:
  %opened.fields = call i1 @open_fields(ptr %object, ptr %step, ptr %registers, ptr %end)
  br i1 %opened.fields, label %continue, label %no
continue:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
clear:
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}}
declare double @llvm.fabs.f64(double)
"""

ARGUMENTS = _SAME + _ARRAY + _DICT + _SEQUENCE + _TAKE_APART
"""LLVM IR; see `entry_code`."""
