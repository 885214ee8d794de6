"""Memory for the intermediates of a kernel: in a scalar, on the stack or from the heap, as `intermediates` tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i32
from xdsl.ir import Block, SSAValue

from tenon.dialects.types.size import Size, is_at_most
from tenon.dialects.types.types import dimensions
from tenon.lowering.kernels.intermediates import LARGEST_STACK_BUFFER, LARGEST_STRIP_BUFFER, Strips, needs
from tenon.lowering.kernels.statement import Kernel, Statement, element_type
from tenon.lowering.loop_ir.builder import LoopBuilder, Position
from tenon.lowering.nests.body import BodyEmitter, Buffer, Lanes, Point, Reads


def place_intermediates(
    kernel: Kernel, strips: Strips, builder: LoopBuilder, chosen: Sequence[memref.AllocOp] | None = None
) -> dict[SSAValue, Buffer]:
    """Make room for the intermediates, or for the `chosen` ones, at the current place: on the stack, and in a
    `memref.alloc` for what is too large for it; `release_intermediates` gives that back. Raises `ValueError` if it
    depends on a size that is known at launch whether one of a strip fits."""
    buffers: dict[SSAValue, Buffer] = {}
    largest = LARGEST_STACK_BUFFER if all(size == 1 for size in strips.values()) else LARGEST_STRIP_BUFFER
    for need in needs(kernel, strips, chosen):
        alloc = need.alloc
        if need.is_scalar:
            buffers[alloc.memref] = Buffer(None, ())
            continue
        if need.taken is not None and (known := buffers[need.taken.memref]).memref is not None:
            buffers[alloc.memref] = Buffer(known.memref, known.dims, shrunken=True)
            continue
        on_stack = is_at_most(need.bytes, largest)
        if not on_stack and isinstance(need.bytes, Size) and strips:
            raise ValueError(
                f"the intermediate {alloc.memref.type} needs {need.bytes} bytes in one iteration of the loops that all "
                f"statements share, and only {largest} are allowed; it belongs in a buffer of the caller"
            )
        told = [builder.index_constant(size) for size in need.sizes.values() if isinstance(size, Size)]
        op = (memref.AllocaOp if on_stack else memref.AllocOp).create(
            operands=told,
            result_types=(MemRefType(element_type(alloc.memref), dimensions(need.sizes.values())),),
            properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(told), 0])},
        )
        buffers[alloc.memref] = Buffer(builder.value(op), tuple(need.sizes), shrunken=True)
    return buffers


def keep_in_registers(
    builder: LoopBuilder,
    first: Statement,
    following: Statement,
    loops: Mapping[int, int],
    buffers: dict[SSAValue, Buffer],
) -> None:
    """Add to `buffers` the outputs of `first`, of which `following` takes each element as soon as it is there:
    `loops` has that of the first one for each of its own."""
    body = BodyEmitter(builder, following, buffers, fuse_products=True)
    own = {loop: number for number, loop in loops.items()}
    known: dict[Block, Reads] = {}

    def go_on(at: Point, lanes: Lanes) -> None:
        places = [loops.get(loop) for loop in range(len(following.extents))]
        indices, local = [
            tuple([Position() if loop is None else positions[loop] for loop in places])
            for positions in (at.indices, at.local)
        ]
        point, along = (
            Point(indices, local),
            Lanes(own[lanes.loop] if lanes.loop is not None else None, lanes.count, lanes.active),
        )
        if builder.block not in known:
            known.clear()
        results = body.evaluate(point, [None] * len(following.outputs), along, known.setdefault(builder.block, {}))
        for value, output in zip(results, following.outputs, strict=True):
            body.store(value, output, point, along)

    buffers.update({output.buffer: Buffer(None, ()) for output in first.outputs})
    buffers[first.outputs[-1].buffer].then = go_on


def release_intermediates(buffers: Mapping[SSAValue, Buffer], builder: LoopBuilder) -> None:
    """Give back what `place_intermediates` took from the heap."""
    for memory in dict.fromkeys(buffer.memref for buffer in buffers.values()):
        if memory is not None and isinstance(memory.owner, memref.AllocOp):
            builder.add(memref.DeallocOp.create(operands=(memory,)))
