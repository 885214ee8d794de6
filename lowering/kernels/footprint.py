"""What the accesses of a statement touch: how many bytes, for how many rows, and in what pieces. A loop whose length
only the launch tells counts with an estimate."""

from __future__ import annotations

from math import prod

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, Stride


def sharing_rows(statement: Statement, access: Access, vector: int) -> int:
    """How many iterations of other parallel loops use the same elements."""
    used = access.loops()
    return prod(
        estimate(statement.extents[loop])
        for loop in statement.loops(LoopKind.PARALLEL)
        if loop not in used and loop != vector
    )


def batch_bytes(statement: Statement, access: Access) -> int:
    """What one batch reads of an input."""
    batches = {loop for loop in access.loops() if all(loop in other.loops() for other in statement.accesses)}
    elements = prod(estimate(statement.extents[loop]) for loop in access.loops() - batches)
    return elements * access.element_bytes


def next_row(statement: Statement, vector: int) -> int | None:
    """The loop around rows along `vector`: the last parallel one that has further iterations."""
    loops = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop != vector and statement.extents[loop] != 1]
    return loops[-1] if loops else None


def in_pieces(statement: Statement, vector: int) -> list[Access]:
    """The inputs whose rows along `vector` are pieces of memory, as far apart as they are long or farther."""
    loop, length = next_row(statement, vector), statement.extents[vector]
    if loop is None or isinstance(length, Size):
        return []
    inputs = [access for access in statement.inputs if access.stride(vector) is Stride.UNIT]
    return [access for access in inputs if elements_apart(access, loop) >= 2 * length]


def elements_apart(access: Access, loop: int) -> int:
    """How many elements lie between one iteration of `loop` and the next; 0 if only the launch tells."""
    shape = access.shape
    if any(isinstance(size, Size) for size in shape):
        return 0
    return sum(
        subscript.factors.get(loop, 0) * prod(shape[dim + 1 :]) for dim, subscript in enumerate(access.subscripts)
    )
