"""How native calls go: by the first entry that fits, or by the Python function."""

from __future__ import annotations

from tenon.runtime.call.layout import ENTRY

# The program itself, on the memory of leaves, results and arena, with what the entry holds between the leaves.
_RUN = """
define internal void @run(ptr %entry.words, ptr %data, ptr %arrays, ptr %arena) {
entry:
  %inputs = call i64 @entry_input_count(ptr %entry.words)
  %outputs = call i64 @entry_result_count(ptr %entry.words)
  %buffers = add i64 %inputs, %outputs
  %room = add i64 %buffers, 1
  %pointers = alloca ptr, i64 %room
  %held.word = call i64 @entry_held(ptr %entry.words)
  %held = inttoptr i64 %held.word to ptr
  br label %given
given:
  %i = phi i64 [ 0, %entry ], [ %i.next, %give ]
  %leaf = phi i64 [ 0, %entry ], [ %leaf.next, %give ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %look, label %made
look:
  %constant = call ptr @pointer(ptr %held, i64 %i)
  %is.leaf = icmp eq ptr %constant, null
  br i1 %is.leaf, label %take, label %give
take:
  %from.leaf = call ptr @pointer(ptr %data, i64 %leaf)
  br label %give
give:
  %memory = phi ptr [ %constant, %look ], [ %from.leaf, %take ]
  call void @put(ptr %pointers, i64 %i, ptr %memory)
  %taken = zext i1 %is.leaf to i64
  %leaf.next = add i64 %leaf, %taken
  %i.next = add i64 %i, 1
  br label %given
made:
  %o = phi i64 [ 0, %given ], [ %o.next, %make ]
  %o.more = icmp slt i64 %o, %outputs
  br i1 %o.more, label %make, label %launch
make:
  %array = call ptr @pointer(ptr %arrays, i64 %o)
  %result.memory = call ptr @data_of(ptr %array)
  %position = add i64 %inputs, %o
  call void @put(ptr %pointers, i64 %position, ptr %result.memory)
  %o.next = add i64 %o, 1
  br label %made
launch:
  call void @put(ptr %pointers, i64 %buffers, ptr %arena)
  %main.word = call i64 @entry_main(ptr %entry.words)
  %main = inttoptr i64 %main.word to ptr
  %releases = call i64 @entry_releases(ptr %entry.words)
  %is.long = icmp ne i64 %releases, 0
  br i1 %is.long, label %long, label %short
short:
  call void %main(ptr %pointers)
  ret void
long:
  %thread = call ptr @PyEval_SaveThread()
  call void %main(ptr %pointers)
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}
"""

# A call by one entry: its result; null with status 0 where it does not fit, and with 1 and an exception.
_TRY = f"""
define internal i1 @names_fit(ptr %entry.words, i64 %count, ptr %given) {{
entry:
  %names.word = call i64 @entry_names(ptr %entry.words)
  %names = inttoptr i64 %names.word to ptr
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %name = call ptr @PyTuple_GetItem(ptr %given, i64 %i)
  %expected = call ptr @pointer(ptr %names, i64 %i)
  %same = call i1 @same(ptr %name, ptr %expected)
  %next = add i64 %i, 1
  br i1 %same, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
define internal ptr @call_by_entry(ptr %entry.words, ptr %arguments, i64 %total, ptr %status) {{
entry:
  %register.count = call i64 @entry_registers(ptr %entry.words)
  %leaf.count = call i64 @entry_leaf_count(ptr %entry.words)
  %result.count = call i64 @entry_result_count(ptr %entry.words)
  %registers = alloca ptr, i64 %register.count
  %objects = alloca ptr, i64 %leaf.count
  %data = alloca ptr, i64 %leaf.count
  %ends = alloca ptr, i64 %leaf.count
  %numbers = alloca i64, i64 %leaf.count
  %arrays = alloca ptr, i64 %result.count
  %end = alloca i64
  store i64 %total, ptr %end
  store i32 0, ptr %status
  br label %copy
copy:
  %i = phi i64 [ 0, %entry ], [ %next, %copy.one ]
  %more = icmp slt i64 %i, %total
  br i1 %more, label %copy.one, label %open
copy.one:
  %argument = call ptr @pointer(ptr %arguments, i64 %i)
  call void @put(ptr %registers, i64 %i, ptr %argument)
  %next = add i64 %i, 1
  br label %copy
open:
  %fits = call i1 @take_apart(ptr %entry.words, ptr %registers, ptr %end, ptr %objects, ptr %data, ptr %ends,
                              ptr %numbers)
  br i1 %fits, label %memory, label %leave
memory:
  %alone = call i1 @alone(ptr %entry.words, ptr %data, ptr %ends)
  br i1 %alone, label %scratch, label %leave
scratch:
  %arena.slot = getelementptr ptr, ptr %entry.words, i64 {ENTRY.index("arena")}
  %arena = load ptr, ptr %arena.slot
  %in.use = icmp eq ptr %arena, null
  br i1 %in.use, label %leave, label %results
results:
  ; taken before anything else: to allocate may run finalizers, which may call the same, or let other threads do so
  %takes = call i64 @entry_takes_arena(ptr %entry.words)
  %is.taken = icmp ne i64 %takes, 0
  %meanwhile = select i1 %is.taken, ptr null, ptr %arena
  store ptr %meanwhile, ptr %arena.slot
  %made = call i1 @allocate(ptr %entry.words, ptr %objects, ptr %arrays)
  br i1 %made, label %go, label %unmade
unmade:
  store ptr %arena, ptr %arena.slot
  br label %failed
go:
  call void @run(ptr %entry.words, ptr %data, ptr %arrays, ptr %arena)
  store ptr %arena, ptr %arena.slot
  %result = call ptr @put_together(ptr %entry.words, ptr %arrays, ptr %registers)
  %wrong = icmp eq ptr %result, null
  br i1 %wrong, label %failed, label %leave
failed:
  store i32 1, ptr %status
  br label %leave
leave:
  %returned = phi ptr [ null, %open ], [ null, %memory ], [ null, %scratch ], [ %result, %go ], [ null, %failed ]
  %held = load i64, ptr %end
  call void @release(ptr %registers, i64 %total, i64 %held)
  ret ptr %returned
}}
"""

# The vector call of a callable (PEP 590): the first entry that fits, else the Python function.
_CALL = """
define ptr @tenon_call(ptr %self, ptr %arguments, i64 %count.flags, ptr %names) {
entry:
  %status = alloca i32
  %count = and i64 %count.flags, 9223372036854775807
  %has.names = icmp ne ptr %names, null
  br i1 %has.names, label %named, label %start
named:
  %name.count = call i64 @PyTuple_Size(ptr %names)
  br label %start
start:
  %keywords = phi i64 [ 0, %entry ], [ %name.count, %named ]
  %total = add i64 %count, %keywords
  %class = call ptr @class_of(ptr %self)
  %offset = call i64 @place_of_call(ptr %class)
  %call.slot = getelementptr i8, ptr %self, i64 %offset
  %table = call ptr @pointer(ptr %call.slot, i64 1)
  %traces.cell = call ptr @value_traces()
  %traces = call i64 @word(ptr %traces.cell, i64 0)
  %epoch.cell = call ptr @value_epoch()
  %epoch = call i64 @word(ptr %epoch.cell, i64 0)
  %traced = icmp ne i64 %traces, 0
  br i1 %traced, label %general, label %loop
loop:
  %i = phi i64 [ 2, %start ], [ %next, %continue ]
  %entries = call i64 @word(ptr %table, i64 1)
  %past = add i64 %entries, 2
  %more = icmp slt i64 %i, %past
  br i1 %more, label %one, label %general
one:
  %candidate = call ptr @pointer(ptr %table, i64 %i)
  %candidate.epoch = call i64 @entry_epoch(ptr %candidate)
  %candidate.count = call i64 @entry_positional(ptr %candidate)
  %candidate.keywords = call i64 @entry_keywords(ptr %candidate)
  %same.epoch = icmp eq i64 %epoch, %candidate.epoch
  %same.count = icmp eq i64 %count, %candidate.count
  %same.keywords = icmp eq i64 %keywords, %candidate.keywords
  %alike.1 = and i1 %same.epoch, %same.count
  %alike = and i1 %alike.1, %same.keywords
  br i1 %alike, label %check.names, label %continue
check.names:
  %fit = call i1 @names_fit(ptr %candidate, i64 %keywords, ptr %names)
  br i1 %fit, label %try, label %continue
try:
  %result = call ptr @call_by_entry(ptr %candidate, ptr %arguments, i64 %total, ptr %status)
  %done = icmp ne ptr %result, null
  br i1 %done, label %return, label %failed
failed:
  %error = load i32, ptr %status
  %is.error = icmp ne i32 %error, 0
  br i1 %is.error, label %return, label %continue
continue:
  %next = add i64 %i, 1
  br label %loop
return:
  ret ptr %result
general:
  %all = add i64 %total, 1
  %objects = alloca ptr, i64 %all
  store ptr %self, ptr %objects
  %after = getelementptr ptr, ptr %objects, i64 1
  %bytes = shl i64 %total, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %after, ptr %arguments, i64 %bytes, i1 false)
  %function = call ptr @pointer(ptr %table, i64 0)
  %positional = add i64 %count, 1
  %general.result = call ptr @PyObject_Vectorcall(ptr %function, ptr %objects, i64 %positional, ptr %names)
  ret ptr %general.result
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
; what the first call of all is checked with: one number from the first buffer to the second
define void @tenon_copy(ptr %buffers) {
  %from = call ptr @pointer(ptr %buffers, i64 0)
  %to = call ptr @pointer(ptr %buffers, i64 1)
  %value = load float, ptr %from
  store float %value, ptr %to
  ret void
}
"""

CALL = _RUN + _TRY + _CALL
"""LLVM IR; see `entry_code`."""
