"""Turn the short rows of a kernel: what its statements see as rows lies in memory as columns.

    for each row i: m = max x[i, :]            for each j, i: t[j, i] = x[i, j]
                                          ->   for each row i: m = max t[:, i]

Before: a kernel of the buffered stage. After: the same kernel; inputs are copied to new intermediates whose last two
dimensions are exchanged, intermediates have them exchanged, and outputs are copied from such ones. All that reads or
writes the buffers then has unit stride along the rows, which are many, in place of the columns, which are few. What a
contraction computes is left to it in rows, and copied behind it.

`copy_across` does the same with parts of arguments, which are read alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import linalg, memref
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, MemRefType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.families.linalg_builders import generic_op
from tenon.lowering.kernels.shared_loops import is_contraction
from tenon.lowering.kernels.statement import Access, Kernel, Statement, buffer_shape, element_type, root_of


def turn_rows(kernel: Kernel, buffers: Sequence[SSAValue]) -> None:
    """Exchange the last two dimensions of `buffers`, which statements alone access, or copies of them."""
    block = kernel.function.body.block
    first = next(op for op in block.ops if isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp))
    last = block.last_op
    assert last is not None
    for buffer in buffers:
        shape = [*buffer_shape(buffer)]
        shape[-2:] = shape[:-3:-1]
        turned = _new_buffer(buffer, shape, first)
        reads = writes = False
        contraction = contraction_of(kernel.statements, buffer)
        for statement in kernel.statements:
            if statement is contraction:
                continue
            reads |= any(access.buffer is buffer for access in statement.inputs)
            writes |= any(access.buffer is buffer for access in statement.outputs)
            _exchange(statement.op, statement.accesses, buffer)
        if contraction is not None:
            kept = {
                contraction.op,
                *(use.operation for use in buffer.uses if isinstance(use.operation, linalg.ops.FillOp)),
            }
            buffer.replace_uses_with_if(turned, lambda use, kept=kept: use.operation not in kept)
            block.insert_op_after(_copy(buffer, turned), contraction.op)
            continue
        buffer.replace_uses_with_if(turned, lambda use: _is_structured(use.operation))
        if (root := root_of(buffer)) is not buffer:  # which may be filled as a whole
            root.replace_uses_with_if(turned, lambda use: isinstance(use.operation, linalg.ops.FillOp))
        if isinstance(buffer.owner, memref.AllocOp):
            block.erase_op(buffer.owner)
        elif writes:
            block.insert_op_before(_copy(turned, buffer), last)
        elif reads:
            block.insert_op_before(_copy(buffer, turned), first)


@dataclass(frozen=True)
class Part:
    """Of the last two dimensions of a buffer: how many elements along each, how far they are apart, and the first."""

    sizes: tuple[int, int]
    steps: tuple[int, int]
    starts: tuple[int, int]


def copy_across(kernel: Kernel, parts: Mapping[SSAValue, Part]) -> None:
    """Let all statements that read `parts` of arguments read copies with their last two dimensions exchanged."""
    first = next(
        op for op in kernel.function.body.block.ops if isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp)
    )
    for buffer, part in parts.items():
        turned = _new_buffer(buffer, (*buffer_shape(buffer)[:-2], *reversed(part.sizes)), first)
        for statement in kernel.statements:
            _exchange(statement.op, statement.accesses, buffer, plain=True)
        buffer.replace_uses_with_if(turned, lambda use: isinstance(use.operation, linalg.ops.GenericOp))
        Rewriter.insert_op(_copy(buffer, turned, part), InsertPoint.before(first))


def _new_buffer(like: SSAValue, shape: Sequence[int], place: Operation) -> SSAValue:
    """A buffer of the element type of another one, made in front of the op `place`."""
    made = memref.AllocOp.create(
        result_types=(MemRefType(element_type(like), shape),),
        properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])},
    )
    Rewriter.insert_op(made, InsertPoint.before(place))
    return made.memref


def contraction_of(statements: Sequence[Statement], buffer: SSAValue) -> Statement | None:
    """The contraction that computes `buffer`, if one does."""
    found = (s for s in statements if any(output.buffer is buffer for output in s.outputs) and is_contraction(s))
    return next(found, None)


def prime_factors(length: int) -> list[int]:
    """The steps in which vectors that hold rows of `length` come apart into columns, the least prime first."""
    p = next((p for p in range(2, length + 1) if length % p == 0), None)
    return [] if p is None else [p, *prime_factors(length // p)]


def shuffles(length: int) -> int:
    """How many shuffles each vector of rows of that length goes through."""
    return sum(p - 1 for p in prime_factors(length))


def _is_structured(op: Operation) -> bool:
    return isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp)


def _exchange(op: linalg.ops.GenericOp, accesses: Sequence[Access], buffer: SSAValue, *, plain: bool = False) -> None:
    """Exchange the last two indices by which `op` accesses `buffer`; `plain` ones are their loops alone."""
    maps = list(op.indexing_maps.data)
    for number, access in enumerate(accesses):
        if access.buffer is buffer:
            known = maps[number].data
            *outer, row, column = known.results
            if plain:
                row, column = (AffineExpr.dimension(next(iter(s.factors))) for s in access.subscripts[-2:])
            maps[number] = AffineMapAttr(AffineMap(known.num_dims, 0, (*outer, column, row)))
    op.properties["indexing_maps"] = ArrayAttr(maps)


def _copy(source: SSAValue, target: SSAValue, part: Part | None = None) -> linalg.ops.GenericOp:
    """Rows to columns, or columns to rows, of the whole source or a part of it; the loops are those of the target."""
    rank = len(buffer_shape(target))
    identity = AffineMap.identity(rank)
    last = identity.results[:-3:-1]
    if part is not None:
        last = tuple([d * step + start for d, step, start in zip(last, part.steps, part.starts, strict=True)])
    exchanged = AffineMap(rank, 0, (*identity.results[:-2], *last))
    body = Block(arg_types=[element_type(source), element_type(target)])
    body.add_op(linalg.ops.YieldOp(body.args[0]))
    return generic_op([(source, exchanged)], [(target, identity)], [False] * rank, body)
