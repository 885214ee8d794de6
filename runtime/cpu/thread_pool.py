"""The code of the pool of threads: a module in LLVM IR over POSIX threads and atomics.

- The thread that calls takes part. Chunks are claimed one by one from `@ticket`, which holds the number of the launch
  in its upper half and the chunks left in its lower half; a worker that wakes up late finds another number, or nothing
  left, and claims nothing.
- Workers start with the first launch that has use for them. One that finds no work looks out for some for 50
  microseconds, then sleeps. One that finds itself on the core of its launch's caller leaves it (Linux): the scheduler
  may wake a thread on the core of whoever wakes it while others are idle, and both would take turns from then on.
- A launch that meets another one (a nested call, another Python thread) runs its chunks by itself: nothing waits for a
  lock. So does each launch with one thread, or of one chunk.
- A child of `os.fork` has none of the threads; it starts its own.
"""

from __future__ import annotations

import signal
import sys

PARALLEL_FOR = "tenon_parallel_for"

_SPIN_NANOSECONDS = 50_000
_STACK_BYTES = 8 << 20

# Where POSIX leaves the numbers to the system: CLOCK_MONOTONIC, SIG_SETMASK, PTHREAD_CREATE_DETACHED.
_CLOCK, _SET_MASK, _DETACHED = (6, 3, 2) if sys.platform == "darwin" else (1, 2, 1)

_FAULTS = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
_BLOCKED = ~sum(1 << (number - 1) for number in _FAULTS)
"""The first 64 signals but those that a thread raises itself: where they are blocked, no handler tells of a fault."""

_SOURCE = f"""
@ticket = internal global i64 0, align 128
@done = internal global i64 0, align 128
@busy = internal global i32 0, align 128
@sleepers = internal global i32 0, align 128
@function = internal global ptr null, align 128
@context = internal global ptr null
@chunks = internal global i64 0
@core = internal global i32 -1
@threads = internal global i32 1
@workers = internal global i32 0
@mutex = internal global [128 x i8] zeroinitializer, align 128
@condition = internal global [128 x i8] zeroinitializer, align 128

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
PAUSE_DECLARATION
CORES

; Run chunks of the launch %epoch as long as there are any.
define internal void @take_chunks(i64 %epoch) {{
entry:
  %first = load atomic i64, ptr @ticket acquire, align 8
  br label %look
look:
  %seen = phi i64 [ %first, %entry ], [ %current, %claim ], [ %again, %run ]
  %of = and i64 %seen, -4294967296
  %left = and i64 %seen, 4294967295
  %same = icmp eq i64 %of, %epoch
  %any = icmp ne i64 %left, 0
  %open = and i1 %same, %any
  br i1 %open, label %claim, label %out
claim:
  %fewer = sub i64 %seen, 1
  %exchange = cmpxchg weak ptr @ticket, i64 %seen, i64 %fewer acq_rel acquire, align 8
  %current = extractvalue {{ i64, i1 }} %exchange, 0
  %claimed = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %claimed, label %run, label %look
run:
  %function = load ptr, ptr @function, align 8
  %context = load ptr, ptr @context, align 8
  %chunks = load i64, ptr @chunks, align 8
  %chunk = sub i64 %chunks, %left
  call void %function(ptr %context, i64 %chunk)
  %before = atomicrmw add ptr @done, i64 1 release, align 8
  %again = load atomic i64, ptr @ticket acquire, align 8
  br label %look
out:
  ret void
}}

define internal i64 @nanoseconds() {{
  %time = alloca [2 x i64], align 8
  %status = call i32 @clock_gettime(i32 {_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %rest, align 8
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}}

; A worker: take part in launches, look out for the next one for a while, then sleep; leave when there are too many.
define internal ptr @work(ptr %unused) {{
entry:
  %now = load atomic i64, ptr @ticket acquire, align 8
  br label %join
join:
  %ticket = phi i64 [ %now, %entry ], [ %seen, %spin ], [ %found, %awake ]
  %epoch = and i64 %ticket, -4294967296
  call void @leave_core_of_caller()
  call void @take_chunks(i64 %epoch)
  %started = call i64 @nanoseconds()
  br label %spin
spin:
  %turn = phi i32 [ 0, %join ], [ %next, %wait ], [ %next, %time ]
  %next = add i32 %turn, 1
  %seen = load atomic i64, ptr @ticket acquire, align 8
  %seen.epoch = and i64 %seen, -4294967296
  %same = icmp eq i64 %seen.epoch, %epoch
  br i1 %same, label %wait, label %join
wait:
  PAUSE
  %part = and i32 %next, 63
  %due = icmp eq i32 %part, 0
  br i1 %due, label %time, label %spin
time:
  %passed.to = call i64 @nanoseconds()
  %passed = sub i64 %passed.to, %started
  %long = icmp ugt i64 %passed, {_SPIN_NANOSECONDS}
  br i1 %long, label %sleep, label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %others = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  br label %sleeping
sleeping:
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %threads = load atomic i32, ptr @threads monotonic, align 4
  %surplus = icmp sge i32 %workers, %threads
  br i1 %surplus, label %leave, label %check
check:
  %found = load atomic i64, ptr @ticket seq_cst, align 8
  %found.epoch = and i64 %found, -4294967296
  %nothing = icmp eq i64 %found.epoch, %epoch
  br i1 %nothing, label %rest, label %awake
rest:
  %woken = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %sleeping
awake:
  %asleep = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %join
leave:
  %fewer = sub i32 %workers, 1
  store atomic i32 %fewer, ptr @workers monotonic, align 4
  %gone = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  %opened = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret ptr null
}}

; Start workers until there are %wanted; where the system refuses, what there is has to do.
define internal void @hire(i32 %wanted) noinline {{
entry:
  %attributes = alloca [128 x i8], align 16
  %all = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %thread = alloca ptr, align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  store i64 {_BLOCKED}, ptr %all, align 8
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %blocked = call i32 @pthread_sigmask(i32 {_SET_MASK}, ptr %all, ptr %before)
  %initialized = call i32 @pthread_attr_init(ptr %attributes)
  %detached = call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 {_DETACHED})
  %sized = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {_STACK_BYTES})
  br label %count
count:
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %few = icmp slt i32 %workers, %wanted
  br i1 %few, label %start, label %out
start:
  %status = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @work, ptr null)
  %refused = icmp ne i32 %status, 0
  %more = add i32 %workers, 1
  br i1 %refused, label %limit, label %started
started:
  store atomic i32 %more, ptr @workers monotonic, align 4
  br label %count
limit:
  store atomic i32 %more, ptr @threads monotonic, align 4
  br label %out
out:
  %destroyed = call i32 @pthread_attr_destroy(ptr %attributes)
  %restored = call i32 @pthread_sigmask(i32 {_SET_MASK}, ptr %before, ptr null)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}}

; Wake %count of those that sleep. Whoever is about to sleep holds the mutex until it can be woken.
define internal void @wake(i64 %count) noinline {{
entry:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %woken = call i32 @pthread_cond_signal(ptr @condition)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}}

define void @{PARALLEL_FOR}(ptr %function, ptr %context, i64 %chunks) {{
entry:
  %threads = load atomic i32, ptr @threads monotonic, align 4
  %alone = icmp slt i32 %threads, 2
  %beyond = sub i64 %chunks, 2
  %uncut = icmp ugt i64 %beyond, 2147483647
  %single = or i1 %alone, %uncut
  br i1 %single, label %serial, label %enter
enter:
  %was.busy = atomicrmw xchg ptr @busy, i32 1 acquire, align 4
  %meets = icmp ne i32 %was.busy, 0
  br i1 %meets, label %serial, label %staff
staff:
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %wanted = sub i32 %threads, 1
  %few = icmp slt i32 %workers, %wanted
  br i1 %few, label %start, label %publish
start:
  call void @hire(i32 %wanted)
  br label %publish
publish:
  store ptr %function, ptr @function, align 8
  store ptr %context, ptr @context, align 8
  store i64 %chunks, ptr @chunks, align 8
  %core = call i32 @current_core()
  store atomic i32 %core, ptr @core monotonic, align 4
  store atomic i64 0, ptr @done monotonic, align 8
  %last = load atomic i64, ptr @ticket monotonic, align 8
  %last.epoch = and i64 %last, -4294967296
  %epoch = add i64 %last.epoch, 4294967296
  %ticket = or i64 %epoch, %chunks
  store atomic i64 %ticket, ptr @ticket seq_cst, align 8
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp sgt i32 %sleepers, 0
  br i1 %any, label %rouse, label %share
rouse:
  %asleep = zext i32 %sleepers to i64
  %others = sub i64 %chunks, 1
  %smaller = icmp slt i64 %asleep, %others
  %count = select i1 %smaller, i64 %asleep, i64 %others
  call void @wake(i64 %count)
  br label %share
share:
  call void @take_chunks(i64 %epoch)
  br label %finish
finish:
  %turn = phi i32 [ 0, %share ], [ %next, %pause ], [ 4096, %yield ]
  %finished = load atomic i64, ptr @done acquire, align 8
  %complete = icmp eq i64 %finished, %chunks
  br i1 %complete, label %leave, label %unfinished
unfinished:
  %next = add i32 %turn, 1
  %patient = icmp slt i32 %turn, 4096
  br i1 %patient, label %pause, label %yield
pause:
  PAUSE
  br label %finish
yield:
  %yielded = call i32 @sched_yield()
  br label %finish
leave:
  store atomic i32 0, ptr @busy release, align 4
  ret void
serial:
  %none = icmp slt i64 %chunks, 1
  br i1 %none, label %out, label %loop
loop:
  %chunk = phi i64 [ 0, %serial ], [ %following, %loop ]
  call void %function(ptr %context, i64 %chunk)
  %following = add i64 %chunk, 1
  %more = icmp slt i64 %following, %chunks
  br i1 %more, label %loop, label %out
out:
  ret void
}}

define void @tenon_set_threads(i32 %threads) {{
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i32 %threads, ptr @threads monotonic, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr @condition)
  ret void
}}

define i32 @tenon_workers() {{
  %workers = load atomic i32, ptr @workers monotonic, align 4
  ret i32 %workers
}}

; Before the first use, and in a forked process, which has one thread.
define void @tenon_reset_threads() {{
  %mutex = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %condition = call i32 @pthread_cond_init(ptr @condition, ptr null)
  store i32 0, ptr @workers, align 4
  store i32 0, ptr @sleepers, align 4
  store i32 0, ptr @busy, align 4
  %ticket = load i64, ptr @ticket, align 8
  %epoch = and i64 %ticket, -4294967296
  store i64 %epoch, ptr @ticket, align 8
  ret void
}}
"""

# A mask of the processors has room for 8,192 of them; the system refuses one that is too short for its own.
_CORES_OF_LINUX = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i32 @current_core() {
  %core = call i32 @sched_getcpu()
  ret i32 %core
}

; If this is the core of the launch's caller, let the system move this thread to another one it may run on.
define internal void @leave_core_of_caller() noinline {
entry:
  %allowed = alloca [1024 x i8], align 8
  %core = call i32 @sched_getcpu()
  %of.caller = load atomic i32, ptr @core monotonic, align 4
  %same = icmp eq i32 %core, %of.caller
  %in.mask = icmp ult i32 %core, 8192
  %shared = and i1 %same, %in.mask
  br i1 %shared, label %look, label %out
look:
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 1024, i1 false)
  %read = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %allowed)
  %known = icmp eq i32 %read, 0
  br i1 %known, label %move, label %out
move:
  %index = lshr i32 %core, 6
  %place = zext i32 %index to i64
  %word = getelementptr i64, ptr %allowed, i64 %place
  %before = load i64, ptr %word, align 8
  %low = and i32 %core, 63
  %shift = zext i32 %low to i64
  %bit = shl i64 1, %shift
  %others = xor i64 %before, %bit
  store i64 %others, ptr %word, align 8
  %moved = call i32 @sched_setaffinity(i32 0, i64 1024, ptr %allowed)
  store i64 %before, ptr %word, align 8
  %restored = call i32 @sched_setaffinity(i32 0, i64 1024, ptr %allowed)
  br label %out
out:
  ret void
}
"""

_CORES_ELSEWHERE = """
define internal i32 @current_core() {
  ret i32 -1
}

define internal void @leave_core_of_caller() {
  ret void
}
"""


def pool_source(triple: str) -> str:
    """The pool as LLVM IR text: how to wait is up to the processor, how to change cores up to the system."""
    if triple.startswith(("x86_64", "i686")):
        declaration, pause = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    elif triple.startswith(("aarch64", "arm64")):
        # the hint `yield` does nothing on most of them; a barrier takes about as long as the pause of x86
        declaration, pause = "declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"
    else:
        declaration, pause = "", ""
    cores = _CORES_OF_LINUX if "linux" in triple else _CORES_ELSEWHERE
    return _SOURCE.replace("PAUSE_DECLARATION", declaration).replace("PAUSE", pause).replace("CORES", cores)
