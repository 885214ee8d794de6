"""How much of an intermediate buffer one iteration of the shared loops needs, and which can share memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import linalg, memref

from tenon.dialects.types.size import estimate, is_at_most
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.shared_loops import SharedLoop
from tenon.lowering.kernels.statement import Kernel, LoopKind, Statement, buffer_shape, element_type

LARGEST_STACK_BUFFER = 64 * 1024
"""Bytes of an intermediate that may live on the stack of a thread for one iteration of the shared loops."""
LARGEST_STRIP_BUFFER = 128 * 1024
"""Bytes of one that a strip of several iterations needs. A kernel has several, for whole strips and for the last."""

Strips = Mapping[SharedLoop, int]
"""For each shared loop how many of its iterations one iteration of the outer loop does; 1 drops the dimension."""


def intermediate_bytes(kernel: Kernel, strips: Strips) -> int:
    """The bytes that `place_intermediates` makes room for."""
    return sum(estimate(need.bytes) for need in needs(kernel, strips) if need.taken is None)


@dataclass(frozen=True)
class Need:
    """What one intermediate needs of its dimensions, and the earlier one whose memory it can take; `is_scalar` if no
    memory has to hold it."""

    alloc: memref.AllocOp
    sizes: dict[int, int]
    taken: memref.AllocOp | None
    is_scalar: bool

    @property
    def bytes(self) -> int:
        return prod(self.sizes.values()) * element_bytes(element_type(self.alloc.memref))


def needs(kernel: Kernel, strips: Strips, chosen: Collection[memref.AllocOp] | None = None) -> list[Need]:
    """What the intermediates, or the `chosen` ones, need, in the order of their first uses: each takes the memory of an
    equal one that nothing uses any more."""
    allocs = kernel.intermediates if chosen is None else [a for a in kernel.intermediates if a in chosen]
    ranges = {alloc: _statements_using(kernel, alloc) for alloc in allocs if _holds_elements(alloc)}
    free: list[tuple[memref.AllocOp, object, memref.AllocOp]] = []  # last in the memory, its layout, whose memory it is
    found: list[Need] = []
    for alloc, uses in sorted(ranges.items(), key=lambda item: item[1][:1] or [0]):
        sizes = _needed_sizes(kernel, alloc, strips)
        layout = _layout(kernel, alloc, sizes)
        taken = None
        for number, (last, other, owner) in enumerate(free):
            if uses and layout is not None and layout == other and _follows(kernel, ranges[last], last, uses, alloc):
                taken = owner
                del free[number]
                break
        found.append(Need(alloc, sizes, taken, not sizes and _is_scalar(kernel, alloc, strips)))
        free.append((alloc, layout, taken or alloc))
    return found


def _statements_using(kernel: Kernel, alloc: memref.AllocOp) -> list[int]:
    buffer = alloc.memref
    return [
        number
        for number, statement in enumerate(kernel.statements)
        if any(access.buffer is buffer for access in statement.accesses)
    ]


def _layout(kernel: Kernel, alloc: memref.AllocOp, sizes: Mapping[int, int]) -> object:
    """What two intermediates must agree in to share memory; None if this one cannot share."""
    if not _only_statements_use(kernel, alloc) or not sizes:
        return None
    return element_type(alloc.memref), buffer_shape(alloc.memref), tuple(sizes.items())


def _follows(
    kernel: Kernel, before: Sequence[int], old: memref.AllocOp, uses: Sequence[int], new: memref.AllocOp
) -> bool:
    """Whether the first statement that uses `new` comes after all uses of `old`, or replaces it element by element."""
    if before[-1] != uses[0]:
        return before[-1] < uses[0]
    statement = kernel.statements[uses[0]]
    places = [access.subscripts for access in statement.accesses if access.buffer in (old.memref, new.memref)]
    return set(statement.kinds) == {LoopKind.PARALLEL} and all(place == places[0] for place in places)


def intermediates_fit(kernel: Kernel, strips: Strips) -> bool:
    """Whether `place_intermediates` would find room for all."""
    return all(is_at_most(need.bytes, LARGEST_STACK_BUFFER) for need in needs(kernel, strips))


def _needed_sizes(kernel: Kernel, alloc: memref.AllocOp, strips: Strips) -> dict[int, int]:
    """The dimensions of an intermediate that one iteration of the shared loops needs, with their sizes."""
    buffer = alloc.memref
    shape = buffer_shape(buffer)
    sizes = dict(enumerate(shape))
    user = next(
        (
            (number, access)
            for number, statement in enumerate(kernel.statements)
            for access in statement.accesses
            if access.buffer is buffer
        ),
        None,
    )
    if user is None or not _only_statements_use(kernel, alloc):
        return sizes
    number, access = user
    by_loop = {shared[number]: size for shared, size in strips.items()}
    for dim, loop in enumerate(access.plain_loops()):
        if shape[dim] == 1 or (loop is not None and by_loop.get(loop) == 1):
            del sizes[dim]
        elif loop is not None and loop in by_loop:
            sizes[dim] = by_loop[loop]
    return sizes


def _holds_elements(alloc: memref.AllocOp) -> bool:
    """Whether an intermediate is read or written, and does not just tell the extents of loops."""
    return not all(
        isinstance(use.operation, linalg.ops.GenericOp)
        and use.index < len(use.operation.inputs)
        and use.operation.body.block.args[use.index].first_use is None
        for use in alloc.memref.uses
    )


def _only_statements_use(kernel: Kernel, alloc: memref.AllocOp) -> bool:
    """Whether an intermediate is only ever an operand of statements, so that it may change its shape."""
    generics = {statement.op for statement in kernel.statements}
    return all(use.operation in generics or isinstance(use.operation, linalg.ops.FillOp) for use in alloc.memref.uses)


def _is_scalar(kernel: Kernel, alloc: memref.AllocOp, strips: Strips) -> bool:
    """Whether an intermediate of one element is written before it is read, and always outside of any further loop."""
    if not _only_statements_use(kernel, alloc):
        return False  # reads at computed indices take memory
    buffer = alloc.memref
    written = False
    for number, statement in enumerate(kernel.statements):
        if not written and any(access.buffer is buffer for access in statement.inputs):
            return False
        for position, output in enumerate(statement.outputs):
            if output.buffer is not buffer:
                continue
            reads = statement.reads_output(position) and statement.initial[position] is None
            if (reads and not written) or _has_other_loops(statement, number, strips):
                return False
            written = True
    return written


def _has_other_loops(statement: Statement, number: int, strips: Strips) -> bool:
    dropped = {shared[number] for shared, size in strips.items() if size == 1}
    return any(
        kind is not LoopKind.REDUCTION and extent != 1 and loop not in dropped
        for loop, (kind, extent) in enumerate(zip(statement.kinds, statement.extents, strict=True))
    )
