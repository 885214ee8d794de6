"""Which loops of a kernel's statements are one axis, and the names of axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tenon.lowering.kernels.statement import Statement, buffer_shape, root_of

LETTERS = "ijklmnopqrstuvwxyz"

SHORT = 4
"""How often an axis fits into another one beside which it is short."""

LoopOf = tuple[int, int]
"""The number of a statement, and of a loop of it."""


def shared_axes(statements: Sequence[Statement]) -> tuple[list[tuple[str, ...]], dict[str, int]] | None:
    """For each statement the axes that its loops are, and the extents of the axes; None if there are too many.

    Loops of different statements are one axis where they index a buffer alike that one of them writes, then where they
    index another one alike, then so along dimensions of one element. A loop that no other statement has yet is one axis
    with that of the same extent at the same place in the statement with the most loops, or in one that runs it alike.
    """
    groups: dict[LoopOf, set[LoopOf]] = {}
    for number, statement in enumerate(statements):
        for loop in range(len(statement.extents)):
            groups[number, loop] = {(number, loop)}

    def join(first: LoopOf, second: LoopOf) -> bool:
        one, other = groups[first], groups[second]
        if one is other:
            return True
        extents = {statements[number].extents[loop] for number, loop in (first, second)}
        if len(extents) > 1 or {number for number, _ in one} & {number for number, _ in other}:
            return False
        one |= other
        for member in other:
            groups[member] = one
        return True

    written = {root_of(output.buffer) for statement in statements for output in statement.outputs}
    for among_written, of_one in ((True, False), (False, False), (True, True)):
        known: dict[tuple[SSAValue, int], LoopOf] = {}
        for number, statement in enumerate(statements):
            for access in statement.accesses:
                if (root_of(access.buffer) in written) is not among_written:
                    continue
                for dim, loop in enumerate(access.plain_loops()):
                    if loop is None or (buffer_shape(access.buffer)[dim] == 1) is not of_one:
                        continue
                    first = known.setdefault((access.buffer, dim), (number, loop))
                    join(first, (number, loop))
    largest, *others = sorted(range(len(statements)), key=lambda number: -len(statements[number].extents))
    for number, loop in tuple(groups):
        kind = statements[number].kinds[loop]
        for other in (largest, *others):
            if len(groups[number, loop]) > 1 or other == number or loop >= len(statements[other].extents):
                continue
            if other == largest or any(statements[n].kinds[at] is kind for n, at in groups[other, loop]):
                join((other, loop), (number, loop))
    return _named(statements, groups, largest)


def _named(
    statements: Sequence[Statement], groups: dict[LoopOf, set[LoopOf]], largest: int
) -> tuple[list[tuple[str, ...]], dict[str, int]] | None:
    names: dict[int, str] = {}
    extents: dict[str, int] = {}
    for number in sorted(range(len(statements)), key=lambda number: number != largest):
        for loop, extent in enumerate(statements[number].extents):
            group = id(groups[number, loop])
            if group not in names:
                if len(names) == len(LETTERS):
                    return None
                names[group] = LETTERS[len(names)]
                extents[names[group]] = extent
    axes = [
        tuple(names[id(groups[number, loop])] for loop in range(len(statement.extents)))
        for number, statement in enumerate(statements)
    ]
    return axes, extents


def leading_axis(axes: list[str], parallel: set[str], extents: dict[str, int]) -> str | None:
    """The axis that moves within a tile where a subscript is the sum of some: the one that is not reduced, as in a
    convolution, unless all such are short beside the one that is, as in the gradient of its weight."""
    if len(axes) == 1:
        return axes[0]
    chosen, reduced = [[a for a in axes if (a in parallel) is is_parallel] for is_parallel in (True, False)]
    if len(reduced) == 1 and chosen and SHORT * max(extents[axis] for axis in chosen) <= extents[reduced[0]]:
        return reduced[0]
    return chosen[0] if len(chosen) == 1 else None
