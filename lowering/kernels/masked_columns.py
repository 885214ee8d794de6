"""Which rows and columns of a kernel a mask is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenon.lowering.kernels.masked_values import Band, bands_of, oriented
from tenon.lowering.kernels.shared_loops import SharedLoop
from tenon.lowering.kernels.statement import Kernel, Statement


def masks(statements: Sequence[Statement], shared: Sequence[SharedLoop]) -> Iterator[tuple[SharedLoop, int, Band]]:
    """The bands that select in some statement, each with the shared loop that is its row."""
    for number, statement in enumerate(statements):
        for band in bands_of(statement.body):
            for rows in shared:
                if rows[number] in (band.row, band.column):
                    found = oriented(band, rows[number])
                    if all(loop[number] != found.column for loop in shared):
                        yield rows, number, found


def columns_of(kernel: Kernel, rows: SharedLoop, start: int, column: int) -> dict[int, int] | None:
    """For each statement that has columns, which of its loops they are; None if they are not the same everywhere."""
    buffers = {alloc.memref for alloc in kernel.intermediates}
    found, pending = {start: column}, [start]
    while pending:
        number = pending.pop()
        for access in kernel.statements[number].accesses:
            if access.buffer not in buffers or found[number] not in access.loops():
                continue
            dims = [dim for dim, s in enumerate(access.subscripts) if found[number] in s.factors]
            for other, statement in enumerate(kernel.statements):
                for use in statement.accesses:
                    if use.buffer is not access.buffer:
                        continue
                    loop = use.plain_loops()[dims[0]]
                    if len(dims) != 1 or loop is None or loop == rows[other] or found.get(other, loop) != loop:
                        return None
                    if other not in found:
                        found[other] = loop
                        pending.append(other)
    return found
