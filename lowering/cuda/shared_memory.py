"""Where the arrays of a kernel lie in the memory that the threads of a block share: each in a declaration of its own,
or, where all of them are more than a kernel gets without asking, at offsets of memory that its launch asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue

from tenon.dialects.upstream.bulk_copies import BARRIER_BYTES, MBarrierCreateOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.passes.machine import GPU

SHARED_MEMORY = IntegerAttr(3, i64)
SHARED_BYTES = "tn_shared_bytes"
"""The variable that is the memory which a launch asks for."""
ALIGNMENT = 128
"""Of arrays at offsets: as many bytes as all banks."""


@dataclass(frozen=True)
class SharedMemory:
    """What a launch asks for, and where arrays begin in it; nothing where declarations do."""

    byte_count: int
    offsets: Mapping[SSAValue, int]


def alignment_of(op: memref.AllocaOp, least: int) -> int:
    """At multiples of how many bytes an array begins."""
    return max(least, op.alignment.value.data if op.alignment is not None else 0)


def shared_memory(function: func.FuncOp) -> SharedMemory:
    """The shared memory of a kernel."""
    offsets: dict[SSAValue, int] = {}
    end = 0
    for op in ops_of(function, memref.AllocaOp, MBarrierCreateOp):
        if isinstance(op, MBarrierCreateOp):
            offsets[op.barriers] = end
            end += -(-op.count * BARRIER_BYTES // ALIGNMENT) * ALIGNMENT
            continue
        buffer = op.memref.type
        assert isinstance(buffer, MemRefType)
        if buffer.memory_space == SHARED_MEMORY:
            aligned = alignment_of(op, ALIGNMENT)
            end = -(-end // aligned) * aligned
            offsets[op.memref] = end
            byte_count = max(1, prod(buffer.get_shape())) * element_bytes(buffer.element_type)
            end += -(-byte_count // ALIGNMENT) * ALIGNMENT
    return SharedMemory(end, offsets) if end > GPU.shared else SharedMemory(0, {})
