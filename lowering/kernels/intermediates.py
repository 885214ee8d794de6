"""How much of an intermediate buffer one iteration of the shared loops needs, and which can share memory.

A padded copy needs none (`without_padding`): what reads it reads what it was copied from, and the padding outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith, func, linalg, memref
from xdsl.ir import BlockArgument, Operation, TypedAttribute

from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.types.size import Size, estimate, is_at_most
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.shared_loops import SharedLoop
from tenon.lowering.kernels.statement import (
    Access,
    Kernel,
    LoopKind,
    Statement,
    buffer_shape,
    element_type,
    read_kernel,
    root_of,
)

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


@dataclass(frozen=True)
class _Padded:
    """An intermediate that has, from `low` on, the elements of `source`, whose dimensions are `dims` of it, and
    `padding` around them, as the statements `writers` say."""

    source: Access
    dims: tuple[int | None, ...]
    low: tuple[int, ...]
    padding: TypedAttribute
    writers: list[Statement]

    def read(self, access: Access) -> Access:
        """Where `access`, to the intermediate, finds its elements in `source`."""
        places = [
            Subscript({}, 0)
            if dim is None
            else replace(access.subscripts[dim], constant=access.subscripts[dim].constant - self.low[dim])
            for dim in self.dims
        ]
        return Access(self.source.buffer, tuple(places), padding=self.padding)


def read_without_padding(function: func.FuncOp) -> Kernel:
    """The kernel that becomes loops on the CPU, which is the one that schedules are for."""
    return without_padding(read_kernel(function))


def without_padding(kernel: Kernel) -> Kernel:
    """`kernel` without the intermediates that are something else with a constant around it, and without the statements
    that write them: others read that where it is, with `Access.padding`."""
    for alloc in kernel.intermediates:
        padded = _padded(kernel, alloc)
        if padded is None:
            continue
        items: list[Statement | Operation] = []
        for item in kernel.items:
            if not isinstance(item, Statement):
                items.append(item)
            elif item not in padded.writers:
                inputs = [padded.read(a) if a.buffer is alloc.memref and a.is_used else a for a in item.inputs]
                items.append(replace(item, inputs=tuple(inputs)))
        kernel = Kernel(kernel.function, items, [other for other in kernel.intermediates if other is not alloc])
    return kernel


def reads_padding(statement: Statement) -> bool:
    """Whether an input has padding."""
    return any(access.padding is not None for access in statement.inputs)


def unpadded(statement: Statement, loop: int) -> range:
    """The iterations of `loop`, so many as a number says, that read no padding, wherever the other loops are."""
    extents = statement.extents
    first, end = 0, extents[loop]
    for access in statement.inputs:
        for subscript, size in zip(access.subscripts, access.shape, strict=True):
            step = subscript.factors.get(loop, 0)
            is_told = not any(isinstance(extents[known], Size) for known in subscript.factors)
            if access.padding is None or step <= 0 or not is_told:
                continue
            last = subscript.end(extents) - 1 - step * (extents[loop] - 1)
            first = max(first, -(subscript.least(extents) // step))
            end = min(end, (size - 1 - last) // step + 1)
    return range(first, max(first, end))


def _padded(kernel: Kernel, alloc: memref.AllocOp) -> _Padded | None:
    """What `alloc` is made of, if it is a padded copy."""
    buffer, statements = alloc.memref, kernel.statements
    writers = [s for s in statements if any(output.buffer is buffer for output in s.outputs)]
    readers = [s for s in statements if any(a.buffer is buffer and a.is_used for a in s.inputs)]
    if not _only_statements_use(kernel, alloc) or not writers or not readers:
        return None
    if statements.index(writers[-1]) >= statements.index(readers[0]):
        return None
    constants = [_constant_written(statement) for statement in writers]
    copies = [number for number, constant in enumerate(constants) if constant is None]
    known = {constant for constant in constants if constant is not None}
    if len(copies) != 1 or len(known) != 1:
        return None
    copied = _copied(writers[copies[0]])
    written = {root_of(output.buffer) for statement in statements for output in statement.outputs}
    if copied is None or root_of(copied[0].buffer) in written:
        return None
    (padding,) = known
    padded = _Padded(*copied, padding, writers)
    later = writers[copies[0] + 1 :]
    return padded if all(_writes_beside(statement, padded) for statement in later) else None


def _writes_all_once(statement: Statement) -> bool:
    """Whether a statement writes each element of one output once, without a look at what was there."""
    is_plain = len(statement.outputs) == 1 and set(statement.kinds) == {LoopKind.PARALLEL}
    return is_plain and statement.accumulators[0].first_use is None


def _constant_written(statement: Statement) -> TypedAttribute | None:
    """The constant that a statement writes to all elements."""
    assert statement.body.last_op is not None
    owner = statement.body.last_op.operands[0].owner
    return owner.value if isinstance(owner, arith.ConstantOp) and _writes_all_once(statement) else None


def _copied(statement: Statement) -> tuple[Access, tuple[int | None, ...], tuple[int, ...]] | None:
    """What a statement copies as a whole, the dimensions of its output that it is at (`None` for one of size 1), and
    the place of its first element there; `None` unless that is all that it does."""
    assert statement.body.last_op is not None
    (value,) = statement.body.last_op.operands[:1]
    if not isinstance(value, BlockArgument) or value.owner is not statement.body or len(statement.body.ops) != 1:
        return None
    if not _writes_all_once(statement):
        return None
    source, (output,) = statement.inputs[value.index], statement.outputs
    loops = [_single_loop(subscript, statement) for subscript in output.subscripts]
    dims: list[int | None] = []
    for size, place in zip(source.shape, source.subscripts, strict=True):
        loop = _single_loop(place, statement)
        if place.constant != 0 or (loop is None) != (size == 1):
            return None
        if loop is not None and (statement.extents[loop] != size or loops.count(loop) != 1):
            return None
        if isinstance(size, Size) and (loop is None or output.shape[loops.index(loop)] != size):
            return None  # what lies inside is to be told without it
        dims.append(None if loop is None else loops.index(loop))
    low = tuple([subscript.constant for subscript in output.subscripts])
    others = [dim for dim in range(len(low)) if dim not in dims]
    if len({*dims} - {None}) != len([d for d in dims if d is not None]) or any(output.shape[d] != 1 for d in others):
        return None
    return source, tuple(dims), low


def _single_loop(place: Subscript, statement: Statement) -> int | None:
    """The loop of several iterations that `place` goes along by ones; `None` if it stays where it is, -1 if it goes
    otherwise."""
    moving = [(loop, factor) for loop, factor in place.factors.items() if statement.extents[loop] != 1]
    if not moving:
        return None
    return moving[0][0] if len(moving) == 1 and moving[0][1] == 1 else -1


def _writes_beside(statement: Statement, padded: _Padded) -> bool:
    """Whether a statement writes nothing where the copy is."""
    (output,) = statement.outputs
    for dim, subscript in enumerate(output.subscripts):
        size = padded.source.shape[padded.dims.index(dim)] if dim in padded.dims else 1
        if isinstance(size, Size):
            continue
        first, end = subscript.least(statement.extents), subscript.end(statement.extents)
        if is_at_most(end, padded.low[dim]) or first >= padded.low[dim] + size:
            return True
    return False
