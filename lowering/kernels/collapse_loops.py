"""Collapse neighbouring loops that all operands of a kernel index contiguously into one.

Before: a kernel of the buffered stage. After: the same kernel with fewer loops; arguments are seen through
`memref.collapse_shape`, intermediates have the collapsed shape. Small inner dimensions (8x16x8x8) would otherwise
leave vectors half empty.

Two loops collapse where every operand either ignores both or has them as neighbouring indices; the inner one may go
over its dimension in steps that divide it, as in x[i, 2 * j + 1], and the outer one over a part of its own, as in a
slice of an image, or the image within its padding. All statements must agree on which dimensions of a buffer they see
as one, so the set shrinks until they do; where the outer index is one place, as along an edge, no loop stands against
it. Dimensions of size 1 do not separate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from math import prod

from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, IndexType, IntegerAttr, MemRefType, i32, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.families.linalg_builders import PARALLEL
from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import SizeValues, size_arguments
from tenon.dialects.types.types import i8
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import collapsed_type
from tenon.lowering.kernels.statement import (
    Access,
    Kernel,
    LoopKind,
    Statement,
    buffer_shape,
    read_kernel,
    root_of,
    touched_buffers,
)

Pair = tuple[int, int]
"""Two neighbouring loops of a statement, or dimensions of a buffer; those of size 1 in between do not count."""


def collapse_loops(function: func.FuncOp) -> Kernel | None:
    """Collapse what can be collapsed in a kernel whose items are all generics. The kernel, if that is nothing."""
    kernel = read_kernel(function)
    if not kernel.statements:
        return kernel
    fixed = {root_of(load.memref) for statement in kernel.statements for load in statement.body_loads()}
    for item in kernel.items:
        if isinstance(item, Operation):
            fixed |= touched_buffers(item)
    loops = [_collapsible_loops(statement) for statement in kernel.statements]
    dims = _agree(kernel.statements, loops, fixed)
    if not dims and not any(loops):
        return kernel
    views = {buffer: _collapse_buffer(buffer, merged, function) for buffer, merged in dims.items()}
    for statement, pairs in zip(kernel.statements, loops, strict=True):
        _rewrite(statement, pairs, views)
    return None


def _collapsible_loops(statement: Statement) -> set[Pair]:
    """The neighbouring loops that each operand of `statement` alone would allow to collapse."""
    counted = {op.dim.value.data for op in ops_of(statement.op, linalg.ops.IndexOp)}
    loops = {loop for loop, extent in enumerate(statement.extents) if extent != 1} - counted
    iterators = statement.op.iterator_types.data
    accesses = list(filter(_counts, statement.accesses))
    neighbours = [_neighbours(access, statement) for access in accesses]
    return {
        (outer, inner)
        for outer, inner in dict.fromkeys(chain.from_iterable(neighbours))
        if outer in loops and inner in loops
        if outer != inner  # as they are in the index of a diagonal
        if iterators[outer] == iterators[inner] and _keeps_order(statement, outer, inner)
        if all(map(partial(_allows, (outer, inner)), accesses, neighbours))
    }


def _counts(access: Access) -> bool:
    """Whether `access` is more than a shape that tells extents, which others tell when these loops are one."""
    return access.is_used or any(isinstance(size, Size) for size in access.shape)


def _keeps_order(statement: Statement, outer: int, inner: int) -> bool:
    """Whether reductions still meet their elements in the same order, if it matters: ties in an argmax depend on it."""
    if statement.kinds[outer] is LoopKind.PARALLEL or all(
        combining_monoid(statement.body, accumulator) is not None for accumulator in statement.accumulators
    ):
        return True
    between = range(outer + 1, inner)
    return outer < inner and all(
        statement.kinds[loop] is LoopKind.PARALLEL or statement.extents[loop] == 1 for loop in between
    )


def _neighbours(access: Access, statement: Statement) -> dict[Pair, Pair]:
    """The pairs of loops that are neighbouring indices of `access`, with the dimensions where they are."""
    found: dict[Pair, Pair] = {}
    for outer, inner in pairwise(_long_dims(access)):
        over, along = _loop_over(access, outer, statement), _loop_over(access, inner, statement)
        if over is None or along is None or over.step != 1 or not along.is_whole:
            continue
        if over.is_whole or not any(isinstance(size, Size) for size in (*access.shape, *statement.extents)):
            found[over.loop, along.loop] = outer, inner
    return found


def _at_one_place(access: Access, statement: Statement) -> set[Pair]:
    """The neighbouring dimensions of known sizes that are one to `access` whatever the loops, as it is at one place of
    the outer."""
    return {
        (outer, inner)
        for outer, inner in pairwise(_long_dims(access))
        if not _long_loops(access.subscripts[outer], statement)
        and not any(isinstance(size, Size) for size in (*access.shape, *statement.extents))
    }


def _long_dims(access: Access) -> list[int]:
    return [dim for dim, size in enumerate(access.shape) if size != 1]


@dataclass(frozen=True)
class _Run:
    """A loop that runs over a dimension, or over a part of it."""

    loop: int
    step: int
    is_whole: bool


def _loop_over(access: Access, dim: int, statement: Statement) -> _Run | None:
    """The loop that runs over the dimension `dim`, apart from loops of one iteration."""
    loops = _long_loops(access.subscripts[dim], statement)
    if len(loops) != 1:
        return None
    ((loop, step),) = loops
    is_long = statement.extents[loop] * step == access.shape[dim]
    return _Run(loop, step, is_long and 0 <= access.subscripts[dim].constant < step)


def _long_loops(subscript: Subscript, statement: Statement) -> list[tuple[int, int]]:
    """The loops that an index goes along, without those of one iteration, and their factors."""
    return [(loop, factor) for loop, factor in subscript.factors.items() if statement.extents[loop] != 1]


def _allows(pair: Pair, access: Access, neighbours: Mapping[Pair, Pair]) -> bool:
    uses = sum(loop in subscript.factors for subscript in access.subscripts for loop in pair)
    return uses == 0 or (uses == 2 and pair in neighbours)


def _agree(
    statements: Sequence[Statement], loops: Sequence[set[Pair]], fixed: set[SSAValue]
) -> dict[SSAValue, set[Pair]]:
    """Reduce `loops` until all statements collapse the same dimensions of each buffer; return those dimensions."""
    known = [
        (access.buffer, _neighbours(access, statement), _at_one_place(access, statement), pairs)
        for statement, pairs in zip(statements, loops, strict=True)
        for access in filter(_counts, statement.accesses)
    ]
    while True:
        dims: dict[SSAValue, set[Pair]] = {}
        for buffer, neighbours, places, pairs in known:
            here = {dim for pair, dim in neighbours.items() if pair in pairs} | places
            if buffer in fixed or not isinstance(buffer.owner, Block | memref.AllocOp):
                here = set()
            dims[buffer] = dims.get(buffer, here) & here
        before = sum(map(len, loops))
        for buffer, neighbours, _, pairs in known:
            pairs.difference_update([pair for pair, dim in neighbours.items() if dim not in dims[buffer]])
        if sum(map(len, loops)) == before:
            return {buffer: merged for buffer, merged in dims.items() if merged or _ends_in_one(buffer, fixed)}


def _ends_in_one(buffer: SSAValue, fixed: set[SSAValue]) -> bool:
    """Whether the last dimension hides the contiguous one."""
    shape = buffer_shape(buffer)
    known = isinstance(buffer.owner, Block | memref.AllocOp) and buffer not in fixed
    return known and len(shape) > 1 and shape[-1] == 1 and any(size != 1 for size in shape)


@dataclass(frozen=True)
class _View:
    """A collapsed buffer, and which of the old dimensions each new one consists of."""

    buffer: SSAValue
    groups: tuple[tuple[int, ...], ...]


def _segments(alloc: memref.AllocOp, sizes: Sequence[int]) -> dict[str, Attribute]:
    """The properties of `alloc` for another shape."""
    count = sum(isinstance(size, Size) for size in sizes)
    return {**alloc.properties, "operandSegmentSizes": DenseArrayBase.from_list(i32, [count, 0])}


def _collapse_buffer(buffer: SSAValue, merged: set[Pair], function: func.FuncOp) -> _View:
    entry = function.body.block
    shape = buffer_shape(buffer)
    groups: list[list[int]] = []
    previous: int | None = None
    leading: list[int] = []
    for dim, size in enumerate(shape):
        if size == 1:
            (groups[-1] if groups else leading).append(dim)
            continue
        if previous is not None and (previous, dim) in merged:
            groups[-1].append(dim)
        else:
            groups.append([*leading, dim])
            leading = []
        previous = dim
    sizes = [prod(shape[dim] for dim in group) for group in groups]
    assert isinstance(buffer.type, MemRefType)
    view_type = collapsed_type(buffer.type, sizes)
    if isinstance(old := buffer.owner, memref.AllocOp):
        known = SizeValues(size_arguments(function), lambda op: entry.insert_op_before(op, old))
        alloc = memref.AllocOp.create(
            operands=[known.value(size) for size in sizes if isinstance(size, Size)],
            result_types=(view_type,),
            properties=_segments(buffer.owner, sizes),
            location=buffer.owner.location,
        )
        entry.insert_op_before(alloc, buffer.owner)
        buffer.replace_all_uses_with(alloc.memref)
        entry.erase_op(buffer.owner)
        return _View(alloc.memref, tuple(map(tuple, groups)))
    assert isinstance(buffer, BlockArgument)
    reassociation = ArrayAttr([ArrayAttr([IntegerAttr(dim, i64) for dim in group]) for group in groups])
    collapse = memref.CollapseShapeOp.create(
        operands=(buffer,), result_types=(view_type,), properties={"reassociation": reassociation}
    )
    assert entry.first_op is not None
    entry.insert_op_before(collapse, entry.first_op)
    return _View(collapse.results[0], tuple(map(tuple, groups)))


def _rewrite(statement: Statement, pairs: set[Pair], views: dict[SSAValue, _View]) -> None:
    """Give the generic its fewer loops."""
    if not pairs and not any(access.buffer in views for access in statement.accesses):
        return
    renamed, count = _renamed_loops(statement, pairs)
    expressions: list[AffineExpr] = [AffineConstantExpr(0) if new is None else AffineDimExpr(new) for new in renamed]
    op = statement.op
    operands: list[SSAValue] = []
    indices: list[list[AffineExpr]] = []
    arguments = list(op.body.block.args)
    for access, attribute, argument in zip(statement.accesses, op.indexing_maps.data, arguments, strict=True):
        if not _counts(access):
            op.body.block.erase_arg(argument)
            continue
        view = views.get(access.buffer)
        operands.append(access.buffer if view is None else view.buffer)
        old = [expression.replace_dims_and_symbols(expressions, ()) for expression in attribute.data.results]
        indices.append(old if view is None else [_joined(old, access.shape, group) for group in view.groups])
    kept = [loop for loop, new in enumerate(renamed) if new is not None]
    first = {renamed[loop]: op.iterator_types.data[loop] for loop in reversed(kept)}
    iterators = [first[new] for new in range(count)]
    extents = [prod(statement.extents[loop] for loop in kept if renamed[loop] == new) for new in range(count)]
    if _add_unit_loop(operands, indices, extents):
        iterators.append(PARALLEL)
    _tell_extents(op, operands, indices, extents)
    op.operands = operands
    outputs = len(statement.outputs)
    op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(operands) - outputs, outputs])
    op.properties["indexing_maps"] = ArrayAttr([AffineMapAttr(AffineMap(len(extents), 0, tuple(p))) for p in indices])
    op.properties["iterator_types"] = ArrayAttr(iterators)
    for access in statement.accesses:
        if isinstance(alloc := access.buffer.owner, memref.AllocOp) and not _counts(access) and not alloc.memref.uses:
            alloc.detach()
            alloc.erase()
    _rename_indices(statement, renamed)


def _rename_indices(statement: Statement, renamed: Sequence[int | None]) -> None:
    for inner in list(statement.op.body.walk()):
        if not isinstance(inner, linalg.ops.IndexOp):
            continue
        loop = renamed[inner.dim.value.data]
        if loop is None:
            zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
            statement.body.insert_op_before(zero, inner)
            inner.results[0].replace_all_uses_with(zero.result)
            statement.body.erase_op(inner)
        else:
            inner.properties["dim"] = IntegerAttr(loop, i64)


def _joined(expressions: Sequence[AffineExpr], shape: Sequence[int], group: Sequence[int]) -> AffineExpr:
    """The index of a collapsed dimension: that of its last part that is not of size 1, which may be in steps, behind
    those places at which the parts before it begin."""
    dims = [dim for dim in group if shape[dim] != 1]
    if not dims:
        return AffineConstantExpr(0)
    *outer, last = dims
    places = [Subscript.of(expressions[dim]).constant for dim in outer]
    start = sum(
        place * prod(shape[inner] for inner in dims[number:]) for number, place in enumerate(places, 1) if place != 0
    )
    return expressions[last] + start if start else expressions[last]


def _add_unit_loop(operands: Sequence[SSAValue], indices: Sequence[list[AffineExpr]], extents: list[int]) -> bool:
    """Add a loop of one iteration to indices that are loops, but not over the whole dimension; false if none are."""
    single = AffineExpr.dimension(len(extents))
    added = False
    for buffer, places in zip(operands, indices, strict=True):
        for dim, (place, size) in enumerate(zip(places, buffer_shape(buffer), strict=True)):
            if isinstance(place, AffineDimExpr) and extents[place.position] != size:
                places[dim] = place + single
                added = True
    if added:
        extents.append(1)
    return added


def _tell_extents(
    op: linalg.ops.GenericOp, operands: list[SSAValue], indices: list[list[AffineExpr]], extents: Sequence[int]
) -> None:
    """Add operands whose shape tells the extents of loops that are no index by themselves."""
    told = {place.position for places in indices for place in places if isinstance(place, AffineDimExpr)}
    for loop in sorted(set(range(len(extents))) - told, reverse=True):
        tells = memref.AllocOp.get(i8, shape=[extents[loop]])
        assert op.parent is not None
        op.parent.insert_op_before(tells, op)
        operands.insert(0, tells.memref)
        indices.insert(0, [AffineExpr.dimension(loop)])
        op.body.block.insert_arg(i8, 0)


def _renamed_loops(statement: Statement, pairs: set[Pair]) -> tuple[list[int | None], int]:
    """The new loop of each old one, None for a loop of one iteration, and how many are new."""
    outer_of = {inner: outer for outer, inner in pairs}
    renamed: list[int | None] = [None] * len(statement.extents)
    count = 0
    for loop, extent in enumerate(statement.extents):
        if loop in outer_of or extent == 1:
            continue
        renamed[loop] = count
        count += 1
    for loop in range(len(renamed)):
        head = loop
        while head in outer_of:
            head = outer_of[head]
        if head != loop:
            renamed[loop] = renamed[head]
    return renamed, count
