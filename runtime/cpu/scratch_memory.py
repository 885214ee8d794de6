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

from tenon.dialects.support.forking import made_once
from tenon.passes.machine import GENERIC, HUGE_PAGE
from tenon.runtime.cpu.ir_types import I1, I8, I32, I64, PTR, U64, VOID, Struct
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.native_code import ask_for_huge_pages, load_native, lock_of

LARGEST = 1 << 24
"""Bytes up to which a block is kept."""
SLOTS = 16
_PATIENCE = 1000
"""How often a thread yields to the one that holds the table, which may have to wait for a core."""

code = Module()
locked, unlock = lock_of(code)
_BLOCK = Struct(memory=PTR, length=U64, is_used=I64)
blocks = code.variable("blocks", _BLOCK, count=SLOTS)
_aligned_alloc = code.external("aligned_alloc", PTR, U64, U64)
_free = code.external("free", VOID, PTR)
_yield = code.external("sched_yield", I32)
_fill = code.external("llvm.memset.p0.i64", VOID, PTR, I8, I64, I1)


@code.function(PTR, alignment=U64, size=U64)
def tenon_scratch_allocate(alignment: Value, size: Value) -> Operand:
    """A block that is free and long enough, or else a new one in the place of one that is free and shorter."""
    unit = code.select(size >= HUGE_PAGE, code.number(U64, HUGE_PAGE), GENERIC.page)
    length = (size + unit - 1) & ~(unit - 1)
    with code.if_(length > LARGEST):
        code.return_(_aligned_alloc(alignment, size))
    with code.if_(~locked()):
        code.return_(_aligned_alloc(alignment, size))
    shorter = code.local(I64, -1)
    with code.each(SLOTS) as i:
        block = blocks[i]
        with code.if_(block.is_used == 0):
            with code.if_(block.length >= length):
                block.put(is_used=1)
                kept = block.memory
                unlock()
                code.return_(kept)
            shorter.set(i)
    with code.if_(shorter == -1):
        unlock()
        code.return_(_aligned_alloc(alignment, size))
    chosen = blocks[shorter]
    _free(chosen.memory)
    made = _aligned_alloc(unit, length)
    is_made = made.is_not_null
    chosen.put(memory=made, length=code.select(is_made, length, 0), is_used=is_made.to(I64))
    unlock()
    with code.if_(unit == HUGE_PAGE):
        ask_for_huge_pages(code, made, length)
    return made


@code.function(VOID, memory=PTR)
def give_back(memory: Value) -> None:
    """To the table, or to the system; the table is held."""
    with code.each(SLOTS) as i:
        block = blocks[i]
        with code.if_(block.memory == memory):
            block.put(is_used=0)
            unlock()
            code.return_()
    unlock()
    _free(memory)


@code.function(VOID, memory=PTR)
def tenon_scratch_free(memory: Value) -> None:
    with code.each(_PATIENCE):
        with code.if_(locked()):
            give_back(memory)
            code.return_()
        _yield()


@code.function()
def tenon_scratch_forked() -> None:
    """In a child process no kernel runs: blocks are free. A table that a thread was changing is given up."""
    with code.if_(locked()), code.each(SLOTS) as i:
        blocks[i].put(is_used=0)
    with code.else_():
        _fill(blocks, 0, _BLOCK.size * SLOTS, False)
    unlock()


@made_once
def scratch_functions() -> dict[str, int]:
    """The addresses of the functions that stand in the place of the C library's, by its names."""
    loaded = load_native("scratch memory", code.text, code.exports)
    allocate, free, forked = map(loaded.entry, code.exports)
    os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(forked))
    return {"aligned_alloc": allocate, "free": free}
