"""How much of an intermediate buffer one iteration of the shared loops needs, and where it lives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import linalg, memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i32
from xdsl.ir import Attribute, SSAValue

from tenon.dialects.types.size import Size, estimate, is_at_most
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.shared_loops import SharedLoop
from tenon.lowering.kernels.statement import Kernel, LoopKind, Statement, buffer_shape, element_type
from tenon.lowering.loop_ir.builder import LoopBuilder
from tenon.lowering.nests.body import Buffer

LARGEST_STACK_BUFFER = 64 * 1024
"""Bytes of an intermediate that may live on the stack of a thread for one iteration of the shared loops."""
LARGEST_STRIP_BUFFER = 512 * 1024
"""Bytes of one that a strip of several iterations needs."""

Strips = Mapping[SharedLoop, int]
"""For each shared loop how many of its iterations one iteration of the outer loop does; 1 drops the dimension."""


def place_intermediates(
    kernel: Kernel, strips: Strips, builder: LoopBuilder, chosen: Sequence[memref.AllocOp] | None = None
) -> dict[SSAValue, Buffer]:
    """Make room for the intermediates, or for the `chosen` ones, at the current place: on the stack, and in a
    `memref.alloc` for what is too large for it; `release_intermediates` gives that back. Raises `ValueError` if it
    depends on a size that is known at launch whether one fits."""
    buffers: dict[SSAValue, Buffer] = {}
    allocs = [alloc for alloc in kernel.intermediates if chosen is None or alloc in chosen]
    largest = LARGEST_STACK_BUFFER if all(size == 1 for size in strips.values()) else LARGEST_STRIP_BUFFER
    for need in _needs(kernel, strips, filter(_holds_elements, allocs)):
        alloc = need.alloc
        if not need.sizes and _is_scalar(kernel, alloc, strips):
            buffers[alloc.memref] = Buffer(None, ())
            continue
        if need.taken is not None and (known := buffers[need.taken.memref]).memref is not None:
            buffers[alloc.memref] = Buffer(known.memref, known.dims, shrunken=True)
            continue
        on_stack = is_at_most(need.bytes, largest)
        if not on_stack and isinstance(need.bytes, Size):
            raise ValueError(
                f"the intermediate {alloc.memref.type} needs {need.bytes} bytes in one iteration of the loops that all "
                f"statements share, and only {largest} are allowed; it belongs in a buffer of the caller"
            )
        op = (memref.AllocaOp if on_stack else memref.AllocOp).create(
            result_types=(MemRefType(element_type(alloc.memref), list(need.sizes.values())),),
            properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])},
        )
        buffers[alloc.memref] = Buffer(builder.value(op), tuple(need.sizes), shrunken=True)
    return buffers


def release_intermediates(buffers: Mapping[SSAValue, Buffer], builder: LoopBuilder) -> None:
    """Give back what `place_intermediates` took from the heap."""
    for memory in dict.fromkeys(buffer.memref for buffer in buffers.values()):
        if memory is not None and isinstance(memory.owner, memref.AllocOp):
            builder.add(memref.DeallocOp.create(operands=(memory,)))


def intermediate_bytes(kernel: Kernel, strips: Strips) -> int:
    """The bytes that `place_intermediates` makes room for."""
    needs = _needs(kernel, strips, filter(_holds_elements, kernel.intermediates))
    return sum(estimate(need.bytes) for need in needs if need.taken is None)


@dataclass(frozen=True)
class _Need:
    """What one intermediate needs of its dimensions, and the earlier one whose memory it can take."""

    alloc: memref.AllocOp
    sizes: dict[int, int]
    taken: memref.AllocOp | None

    @property
    def bytes(self) -> int:
        return needed_bytes(self.sizes, element_type(self.alloc.memref))


def _needs(kernel: Kernel, strips: Strips, allocs: Iterable[memref.AllocOp]) -> list[_Need]:
    """In the order of their first uses: an intermediate takes the memory of an equal one that nothing uses any more."""
    ranges = {alloc: _statements_using(kernel, alloc) for alloc in allocs}
    free: list[tuple[memref.AllocOp, object, memref.AllocOp]] = []  # last in the memory, its layout, whose memory it is
    needs: list[_Need] = []
    for alloc, uses in sorted(ranges.items(), key=lambda item: item[1][:1] or [0]):
        sizes = needed_sizes(kernel, alloc, strips)
        layout = _layout(kernel, alloc, sizes)
        taken = None
        for number, (last, other, owner) in enumerate(free):
            if uses and layout is not None and layout == other and _follows(kernel, ranges[last], last, uses, alloc):
                taken = owner
                del free[number]
                break
        needs.append(_Need(alloc, sizes, taken))
        free.append((alloc, layout, taken or alloc))
    return needs


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
    return all(
        is_at_most(needed_bytes(needed_sizes(kernel, alloc, strips), element_type(alloc.memref)), LARGEST_STACK_BUFFER)
        for alloc in kernel.intermediates
        if _holds_elements(alloc)
    )


def needed_sizes(kernel: Kernel, alloc: memref.AllocOp, strips: Strips) -> dict[int, int]:
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


def needed_bytes(sizes: Mapping[int, int], element: Attribute) -> int:
    """The bytes of a buffer of these sizes."""
    return prod(sizes.values()) * element_bytes(element)


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
