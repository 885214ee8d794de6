"""The code of the pool of threads, over POSIX threads and atomics.

- The thread that calls takes part. Each thread has a part of the chunks, the same in each launch: what one kernel has
  written for the next is near it then. Whoever is done with its own goes on with those of others.
- Chunks are claimed one by one from the word of their part, which holds the number of the launch in its upper half and
  the chunks left in its lower half; a worker that wakes up late finds another number, or nothing left, and claims
  nothing.
- Workers start with the first launch that has use for them. One that finds no work looks out for some for 50
  microseconds, then sleeps. One that finds itself on the core of its launch's caller leaves it (Linux): the scheduler
  may wake a thread on the core of whoever wakes it while others are idle, and both would take turns from then on.
- A launch that meets another one (a nested call, another Python thread) runs its chunks by itself: nothing waits for a
  lock. So does each launch with one thread, or of one chunk.
- A worker computes as the thread that calls does: it takes over the control word of that thread's floating-point
  arithmetic, by which the processor rounds and flushes subnormal numbers or not. Else results were up to chance.
- A child of `os.fork` has none of the threads; it starts its own.
"""

from __future__ import annotations

import signal
import sys

from tenon.runtime.cpu.ir_types import I1, I8, I32, I64, PTR, U32, U64, VOID, Struct, function_type, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module

PARALLEL_FOR = "tenon_parallel_for"

_SPIN_NANOSECONDS = 50_000
_STACK_BYTES = 8 << 20
_PATIENCE = 4096
"""How often a caller pauses for its workers before it yields."""

# Where POSIX leaves the numbers to the system: CLOCK_MONOTONIC, SIG_SETMASK, PTHREAD_CREATE_DETACHED.
_CLOCK, _SET_MASK, _DETACHED = (6, 3, 2) if sys.platform == "darwin" else (1, 2, 1)

_FAULTS = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
_BLOCKED = ~sum(1 << (number - 1) for number in _FAULTS)
"""The first 64 signals but those that a thread raises itself: where they are blocked, no handler tells of a fault."""

_NUMBER, _LEFT = -1 << 32, 0xFFFFFFFF
"""The halves of the word of a part."""

_MOST_PARTS = 64
"""Parts of a launch; of more threads some share one."""

TASK = function_type(VOID, PTR, I64, PTR)
"""Functions of a context, the number of a chunk, and a run: the chunks that the thread goes on with. Those that keep
something from one chunk to the next ask the run for it until there is none; of others the pool asks it, and they need
not take it."""

FOLLOWING = function_type(I64, PTR)
"""Gives the next chunk of a run, or -1; the first word of each run."""

SHARED_RUN = Struct(following=FOLLOWING, number=U64, part=I64)
SERIAL_RUN = Struct(following=FOLLOWING, chunk=I64, chunks=I64)

code = Module()

# Each on cache lines of its own, since several threads change it.
ticket = code.variable("ticket", U64, align=128)
done = code.variable("done", I64, align=128)
busy = code.variable("busy", I32, align=128)
sleepers = code.variable("sleepers", I32, align=128)
parts = code.variable("parts", U64, count=_MOST_PARTS, align=128)
launch = code.variable("launch", Struct(function=TASK, context=PTR, chunks=I64, control=U64), align=128)
part_count = code.variable("part_count", I64)
core = code.variable("core", I32, initial=-1)
threads = code.variable("threads", I32, initial=1)
workers = code.variable("workers", I32)
mutex = code.variable("mutex", I8, count=128, align=128)
condition = code.variable("condition", I8, count=128, align=128)

_mutex_init = code.external("pthread_mutex_init", I32, PTR, PTR)
_lock = code.external("pthread_mutex_lock", I32, PTR)
_unlock = code.external("pthread_mutex_unlock", I32, PTR)
_condition_init = code.external("pthread_cond_init", I32, PTR, PTR)
_wait = code.external("pthread_cond_wait", I32, PTR, PTR)
_signal = code.external("pthread_cond_signal", I32, PTR)
_broadcast = code.external("pthread_cond_broadcast", I32, PTR)
_attributes_init = code.external("pthread_attr_init", I32, PTR)
_set_detached = code.external("pthread_attr_setdetachstate", I32, PTR, I32)
_set_stack_size = code.external("pthread_attr_setstacksize", I32, PTR, I64)
_attributes_destroy = code.external("pthread_attr_destroy", I32, PTR)
_create = code.external("pthread_create", I32, PTR, PTR, PTR, PTR)
_set_signals = code.external("pthread_sigmask", I32, I32, PTR, PTR)
_yield = code.external("sched_yield", I32)
_clock_gettime = code.external("clock_gettime", I32, I32, PTR)
_fill = code.external("llvm.memset.p0.i64", VOID, PTR, I8, I64, I1)
_pause_of_x86 = code.external("llvm.x86.sse2.pause", VOID)
_barrier_of_arm = code.external("llvm.aarch64.isb", VOID, I32)
_store_control_of_x86 = code.external("llvm.x86.sse.stmxcsr", VOID, PTR)
_load_control_of_x86 = code.external("llvm.x86.sse.ldmxcsr", VOID, PTR)
_get_control_of_arm = code.external("llvm.aarch64.get.fpcr", U64)
_set_control_of_arm = code.external("llvm.aarch64.set.fpcr", VOID, U64)
_current_core = code.external("sched_getcpu", I32)
_allowed_cores = code.external("sched_getaffinity", I32, I32, I64, PTR)
_set_allowed_cores = code.external("sched_setaffinity", I32, I32, I64, PTR)


# Bits of the control word by which subnormal results become 0, and subnormal operands count as 0.
_FLUSH_OF_X86, _FLUSH_OF_ARM = 0x8040, 1 << 24


def _is_x86() -> bool:
    return code.triple.startswith(("x86_64", "i686"))


def _is_arm() -> bool:
    return code.triple.startswith(("aarch64", "arm64"))


def _control() -> Value:
    """The control word of this thread's floating-point arithmetic; 0 where it is not known how to ask for it."""
    if _is_x86():
        word = code.array(U32)
        _store_control_of_x86(word)
        return word.load().to(U64)
    return _get_control_of_arm() if _is_arm() else code.number(U64, 0)


def _set_control(control: Value) -> None:
    if _is_x86():
        word = code.array(U32)
        word.store(control.to(U32))
        _load_control_of_x86(word)
    elif _is_arm():
        _set_control_of_arm(control)


def _pause() -> None:
    """Tell the processor that this thread waits."""
    if _is_x86():
        _pause_of_x86()
    elif _is_arm():
        # the hint `yield` does nothing on most of them; a barrier takes about as long as the pause of x86
        _barrier_of_arm(15)


@code.function(I32)
def current_core() -> Operand:
    """Where the system tells it."""
    return _current_core() if "linux" in code.triple else -1


@code.function(VOID, "noinline")
def leave_core_of_caller() -> None:
    """If this is the core of the launch's caller, let the system move this thread to another one it may run on."""
    if "linux" not in code.triple:
        return
    # A mask has room for 8,192 processors; the system refuses one that is too short for its own.
    mask = code.array(U64, 128)
    here = current_core().to(U32)
    code.return_unless((here == core.load("monotonic")) & (here < 8192))
    _fill(mask, 0, 1024, False)
    code.return_if(_allowed_cores(0, 1024, mask) != 0)
    word = mask.at((here >> 6).to(I64))
    before = word.load()
    word.store(before ^ (code.number(U64, 1) << (here & 63).to(U64)))
    _set_allowed_cores(0, 1024, mask)
    word.store(before)
    _set_allowed_cores(0, 1024, mask)


@code.function(VOID, number=U64, own=I64)
def take_chunks(number: Value, own: Value) -> None:
    """Run chunks of a launch as long as there are any: those of the part `own`, then those of the next ones."""
    # Where it is that of another launch, nothing is left of this one.
    count = part_count.load("monotonic")
    with code.each(count) as turn:
        take_part(number, (own + turn) % count)


@code.function(VOID, number=U64, part=I64)
def take_part(number: Value, part: Value) -> None:
    """Run chunks of one part of a launch as long as there are any."""
    run = code.record(SHARED_RUN)
    run.put(following=following_chunk.address, number=number, part=part)
    chunk = code.local(I64, claimed_chunk(number, part))
    with code.loop():
        code.return_if(chunk < 0)
        _set_control(launch.control)
        launch.function(launch.context, chunk, run)
        done.fetch("add", 1, "release")
        chunk.set(claimed_chunk(number, part))


@code.function(I64, run=pointer(SHARED_RUN))
def following_chunk(run: Value) -> Operand:
    """Of a run in one part of a launch. The last chunk is done when the function returns, and not before."""
    chunk = claimed_chunk(run.number, run.part)
    with code.if_(chunk >= 0):
        done.fetch("add", 1, "release")
    return chunk


@code.function(I64, number=U64, part=I64)
def claimed_chunk(number: Value, part: Value) -> Operand:
    """A chunk of one part of a launch that no thread runs, or -1."""
    word = parts.at(part)
    seen = code.local(U64, word.load("acquire"))
    with code.loop():
        left = seen & _LEFT
        code.return_unless(((seen & _NUMBER) == number) & (left != 0), -1)
        current, is_claimed = word.exchange(seen, seen - 1, "acq_rel acquire", weak=True)
        seen.set(current)
        with code.if_(is_claimed):
            end = end_of_part(part, launch.chunks, part_count.load("monotonic"))
            code.return_(end - left.to(I64))


@code.function(I64, part=I64, chunks=I64, count=I64)
def end_of_part(part: Value, chunks: Value, count: Value) -> Operand:
    """The chunk behind those of a part."""
    return (part + 1) * chunks // count


@code.function(U64)
def nanoseconds() -> Operand:
    time = code.array(U64, 2)
    _clock_gettime(_CLOCK, time)
    return time[0] * 1_000_000_000 + time[1]


@code.function(PTR, own=PTR)
def work(own: Value) -> Operand:
    """A worker: take part in launches, at first in the part `own` of each, look out for the next one for a while, then
    sleep; leave when there are too many. Those with the last parts do, so that no two have the same part."""
    now = code.local(U64, ticket.load("acquire"))
    with code.loop() as next_launch:
        number = now.address.load()
        leave_core_of_caller()
        take_chunks(number, own.to(I64))
        started, turn = nanoseconds(), code.local(I32, 0)
        with code.loop():
            turn.set(turn + 1)
            seen = ticket.load("acquire")
            with code.if_(seen != number):
                now.set(seen)
                code.continue_(next_launch)
            _pause()
            with code.if_((turn & 63) == 0):
                code.break_if(nanoseconds() - started > _SPIN_NANOSECONDS)
        _lock(mutex)
        sleepers.fetch("add", 1, "seq_cst")
        with code.loop():
            with code.if_(own.to(I64) >= threads.load("monotonic").to(I64)):
                workers.store(workers.load("monotonic") - 1, "monotonic")
                sleepers.fetch("sub", 1, "seq_cst")
                _unlock(mutex)
                code.return_(None)
            now.set(ticket.load("seq_cst"))
            code.break_if(now != number)
            _wait(condition, mutex)
        sleepers.fetch("sub", 1, "seq_cst")
        _unlock(mutex)


@code.function(VOID, "noinline", wanted=I32)
def hire(wanted: Value) -> None:
    """Start workers until there are so many; where the system refuses, what there is has to do."""
    attributes, blocked, before = [code.array(U64, 16, align=16) for _ in range(3)]
    thread = code.array(PTR)
    _fill(blocked, -1, 128, False)
    blocked[0] = _BLOCKED
    _lock(mutex)
    _set_signals(_SET_MASK, blocked, before)
    _attributes_init(attributes)
    _set_detached(attributes, _DETACHED)
    _set_stack_size(attributes, _STACK_BYTES)
    with code.loop():
        count = workers.load("monotonic")
        code.break_if(count >= wanted)
        own = (count + 1).to(I64).to(PTR)
        with code.if_(_create(thread, attributes, work.address, own) != 0):
            threads.store(count + 1, "monotonic")
            code.break_()
        workers.store(count + 1, "monotonic")
    _attributes_destroy(attributes)
    _set_signals(_SET_MASK, before, None)
    _unlock(mutex)


@code.function(VOID, "noinline", count=I64)
def wake(count: Value) -> None:
    """Wake so many of those that sleep. Whoever is about to sleep holds the mutex until it can be woken."""
    _lock(mutex)
    _unlock(mutex)
    with code.each(count):
        _signal(condition)


@code.function(VOID, function=TASK, context=PTR, chunks=I64, count=I64)
def share(function: Value, context: Value, chunks: Value, count: Value) -> None:
    """Run a launch with the workers, in so many parts."""
    launch.put(function=function, context=context, chunks=chunks, control=_control())
    core.store(current_core(), "monotonic")
    done.store(0, "monotonic")
    number = ticket.load("monotonic") + (1 << 32)
    part_count.store(count, "monotonic")
    start = code.local(I64, 0)
    with code.each(count) as part:
        end = end_of_part(part, chunks, count)
        parts.at(part).store(number | (end - start).to(U64), "release")
        start.set(end)
    ticket.store(number, "seq_cst")
    asleep = sleepers.load("seq_cst").to(I64)
    with code.if_(asleep > 0):
        wake(code.select(asleep < chunks - 1, asleep, chunks - 1))
    take_chunks(number, 0)
    turn = code.local(I32, 0)
    with code.loop():
        code.break_if(done.load("acquire") == chunks)
        with code.if_(turn < _PATIENCE):
            turn.set(turn + 1)
            _pause()
        with code.else_():
            _yield()


@code.function(VOID, function=TASK, context=PTR, chunks=I64)
def tenon_parallel_for(function: Value, context: Value, chunks: Value) -> None:
    count = threads.load("monotonic")
    is_cut = (chunks - 2).to(U64) <= 0x7FFFFFFF
    with code.if_((count >= 2) & is_cut), code.if_(busy.fetch("xchg", 1, "acquire") == 0):
        with code.if_(workers.load("monotonic") < count - 1):
            hire(count - 1)
        most = code.select(chunks < _MOST_PARTS, chunks, _MOST_PARTS)
        share(function, context, chunks, code.select(count.to(I64) < most, count.to(I64), most))
        busy.store(0, "release")
        code.return_()
    run = code.record(SERIAL_RUN)
    run.put(following=chunk_in_turn.address, chunk=0, chunks=chunks)
    with code.loop():
        code.break_if(run.chunk >= chunks)
        function(context, run.chunk, run)
        chunk_in_turn(run)


@code.function(I64, run=pointer(SERIAL_RUN))
def chunk_in_turn(run: Value) -> Operand:
    """Of a run of all chunks."""
    following = run.chunk + 1
    run.put(chunk=following)
    return code.select(following < run.chunks, following, -1)


@code.function(VOID, count=I32)
def tenon_set_threads(count: Value) -> None:
    _lock(mutex)
    threads.store(count, "monotonic")
    _unlock(mutex)
    _broadcast(condition)


@code.function(I32, is_set=I32)
def tenon_set_flush_denormal(is_set: Value) -> Operand:
    """For the thread that calls; whether the processor has done so."""
    flush = code.number(U64, _FLUSH_OF_X86 if _is_x86() else _FLUSH_OF_ARM)
    wanted = code.select(is_set != 0, flush, 0)
    _set_control((_control() & (flush ^ -1)) | wanted)
    return ((_control() & flush) == wanted).to(I32)


@code.function(I32)
def tenon_workers() -> Operand:
    return workers.load("monotonic")


@code.function()
def tenon_reset_threads() -> None:
    """Before the first use, and in a forked process, which has one thread."""
    _mutex_init(mutex, None)
    _condition_init(condition, None)
    for count in (workers, sleepers, busy):
        count.store(0)
    with code.each(_MOST_PARTS) as part:
        parts.at(part).store(0)


pool_source = code.text
"""Gives the pool as LLVM IR for a target: how to wait is up to its processor, how to change cores up to its system."""
