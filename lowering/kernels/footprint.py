"""What the accesses of a statement touch: how many bytes, and for how many rows."""

from __future__ import annotations

from math import prod

from tenon.lowering.kernels.statement import Access, LoopKind, Statement


def sharing_rows(statement: Statement, access: Access, vector: int) -> int:
    """How many iterations of other parallel loops use the same elements."""
    used = access.loops()
    return prod(
        statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL) if loop not in used and loop != vector
    )


def batch_bytes(statement: Statement, access: Access) -> int:
    """What one batch reads of an input."""
    batches = {loop for loop in access.loops() if all(loop in other.loops() for other in statement.accesses)}
    elements = prod(statement.extents[loop] for loop in access.loops() - batches)
    return elements * access.element_bytes
