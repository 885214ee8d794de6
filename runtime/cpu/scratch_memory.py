"""Memory for the scratch of kernels, kept between their calls.

The C library gives large memory back to the system when it is freed, and the system hands it out page by page, cleared,
at the first access to each: a kernel that copies an operand to panels of megabytes would wait for that in each call.
Here blocks stay in a table, in use or not, and those of huge pages and more consist of such.

The functions are native code with the signatures of `aligned_alloc` and `free`, and are linked in their place. Any
thread may call them: one that finds the table in use, or full, takes memory of the system.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from tenon.passes.machine import GENERIC, HUGE_PAGE
from tenon.runtime.cpu.native_code import LOCK, load_native

LARGEST = 1 << 24
"""Bytes up to which a block is kept."""
SLOTS = 16
_ADVICE = 14  # MADV_HUGEPAGE
_EXPORTS = ("tenon_scratch_allocate", "tenon_scratch_free", "tenon_scratch_forked")
_PATIENCE = 1000
"""How often a thread yields to the one that holds the table, which may have to wait for a core."""

_SOURCE = f"""
%block = type {{ ptr, i64, i64 }}
@blocks = internal global [{SLOTS} x %block] zeroinitializer
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @sched_yield()
{"declare i32 @madvise(ptr, i64, i32)" if sys.platform == "linux" else ""}

{LOCK}
; A block that is free and long enough, or else a new one in the place of one that is free and shorter.
define ptr @tenon_scratch_allocate(i64 %alignment, i64 %size) {{
entry:
  %is.large = icmp uge i64 %size, {HUGE_PAGE}
  %unit = select i1 %is.large, i64 {HUGE_PAGE}, i64 {GENERIC.page}
  %least = sub i64 %unit, 1
  %more = add i64 %size, %least
  %mask = sub i64 0, %unit
  %length = and i64 %more, %mask
  %is.kept = icmp ule i64 %length, {LARGEST}
  br i1 %is.kept, label %try, label %system
try:
  %taken = call i1 @locked()
  br i1 %taken, label %search, label %system
system:
  %other = call ptr @aligned_alloc(i64 %alignment, i64 %size)
  ret ptr %other
search:
  %i = phi i64 [ 0, %try ], [ %following, %next ]
  %shorter = phi i64 [ -1, %try ], [ %shorter.now, %next ]
  %block = getelementptr [{SLOTS} x %block], ptr @blocks, i64 0, i64 %i
  %length.place = getelementptr %block, ptr %block, i64 0, i32 1
  %use.place = getelementptr %block, ptr %block, i64 0, i32 2
  %there = load i64, ptr %length.place
  %use = load i64, ptr %use.place
  %is.free = icmp eq i64 %use, 0
  %is.enough = icmp uge i64 %there, %length
  %fits = and i1 %is.free, %is.enough
  br i1 %fits, label %found, label %next
found:
  store i64 1, ptr %use.place
  %kept = load ptr, ptr %block
  call void @unlock()
  ret ptr %kept
next:
  %shorter.now = select i1 %is.free, i64 %i, i64 %shorter
  %following = add i64 %i, 1
  %is.end = icmp eq i64 %following, {SLOTS}
  br i1 %is.end, label %none, label %search
none:
  %is.full = icmp eq i64 %shorter.now, -1
  br i1 %is.full, label %full, label %new
full:
  call void @unlock()
  br label %system
new:
  %chosen = getelementptr [{SLOTS} x %block], ptr @blocks, i64 0, i64 %shorter.now
  %old = load ptr, ptr %chosen
  call void @free(ptr %old)
  %made = call ptr @aligned_alloc(i64 %unit, i64 %length)
  %failed = icmp eq ptr %made, null
  %new.length = select i1 %failed, i64 0, i64 %length
  %new.use = select i1 %failed, i64 0, i64 1
  store ptr %made, ptr %chosen
  %chosen.length = getelementptr %block, ptr %chosen, i64 0, i32 1
  store i64 %new.length, ptr %chosen.length
  %chosen.use = getelementptr %block, ptr %chosen, i64 0, i32 2
  store i64 %new.use, ptr %chosen.use
  call void @unlock()
  %is.huge = icmp ne i64 %unit, 4096
  br i1 %is.huge, label %advise, label %done
advise:
  {f"%ignored = call i32 @madvise(ptr %made, i64 %length, i32 {_ADVICE})" if sys.platform == "linux" else ""}
  br label %done
done:
  ret ptr %made
}}

define void @tenon_scratch_free(ptr %memory) {{
entry:
  br label %try
try:
  %tries = phi i64 [ 0, %entry ], [ %more, %wait ]
  %taken = call i1 @locked()
  br i1 %taken, label %search, label %wait
wait:
  %ignored = call i32 @sched_yield()
  %more = add i64 %tries, 1
  %is.vain = icmp eq i64 %more, {_PATIENCE}
  br i1 %is.vain, label %left, label %try
search:
  %i = phi i64 [ 0, %try ], [ %following, %next ]
  %block = getelementptr [{SLOTS} x %block], ptr @blocks, i64 0, i64 %i
  %known = load ptr, ptr %block
  %is.it = icmp eq ptr %known, %memory
  br i1 %is.it, label %found, label %next
found:
  %use.place = getelementptr %block, ptr %block, i64 0, i32 2
  store i64 0, ptr %use.place
  call void @unlock()
  ret void
next:
  %following = add i64 %i, 1
  %is.end = icmp eq i64 %following, {SLOTS}
  br i1 %is.end, label %none, label %search
none:
  call void @unlock()
  call void @free(ptr %memory)
  ret void
left:
  ret void
}}

; In a child process no kernel runs: blocks are free. A table that a thread was changing is given up.
define void @tenon_scratch_forked() {{
entry:
  %taken = call i1 @locked()
  br i1 %taken, label %loop, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr @blocks, i8 0, i64 {24 * SLOTS}, i1 false)
  br label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %following, %loop ]
  %use.place = getelementptr [{SLOTS} x %block], ptr @blocks, i64 0, i64 %i, i32 2
  store i64 0, ptr %use.place
  %following = add i64 %i, 1
  %is.end = icmp eq i64 %following, {SLOTS}
  br i1 %is.end, label %done, label %loop
done:
  call void @unlock()
  ret void
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


@cache
def scratch_functions() -> dict[str, int]:
    """The addresses of the functions that stand in the place of the C library's, by its names."""
    code = load_native("scratch memory", lambda _: _SOURCE, _EXPORTS)
    _loaded.append(code)
    allocate, free, forked = map(code.entry, _EXPORTS)
    os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(forked))
    return {"aligned_alloc": allocate, "free": free}


_loaded: list[object] = []
"""Code that must stay, as kernels call it until the process ends."""
