"""Which parallel loops the statements of a kernel have in common.

A loop is shared when every buffer that one statement writes and another uses is indexed by it in the same
dimension, as a plain index, by all of them: then each iteration of the shared loop only needs what the same
iteration made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import combining_monoid, combining_op
from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.dot_products import dot_product, product_of_sum
from tenon.lowering.kernels.statement import Access, Kernel, LoopKind, Statement, root_of

SHORT_ROW = 8
"""Elements of a row below which its lanes are too few by themselves."""

SharedLoop = tuple[int, ...]
"""For each statement, in order, its loop that is shared."""

Uses = dict[SSAValue, list[tuple[int, Access]]]
"""By buffer, the accesses to it with the positions of their statements."""


def shared_loops(kernel: Kernel) -> list[SharedLoop]:
    """The largest set of loops that all statements share, outermost first: those that are parallel in all of them, as
    they index the first output, then accumulated ones; none where the statements have a nest each. One statement shares
    its parallel loops. Where rows are added up, the loops inside of these rows are not shared."""
    if not kernel.runs_together():
        return []
    statements = kernel.statements
    connecting = _buffers_by_role(statements)
    if connecting is None:
        return []
    written, _ = connecting
    if not any(map(is_contraction, statements)):
        summing = [
            sums_rows(statement) and not any(root_of(output.buffer) in written for output in statement.outputs)
            for statement in statements
        ]
        if any(summing) and not summing[0]:
            found = _find(statements, connecting, summing)
            rows = [number for number, loop in enumerate(found) if is_accumulated(statements, loop)]
            if rows:
                around = found[: rows[-1] + 1]
                return sorted(around, key=lambda loop: is_accumulated(statements, loop))
    adding = [
        is_contraction(statement) and not any(root_of(output.buffer) in written for output in statement.outputs)
        for statement in statements
    ]
    found = _find(statements, connecting, adding)
    if not _flows(statements, connecting[0]):
        return _outermost(statements[0], found)
    parallel = [loop for loop in found if not is_accumulated(statements, loop)]
    if len(parallel) == len(found):
        return found
    if not parallel:
        return _find(statements, connecting, [False] * len(statements))
    return [*parallel, *(loop for loop in found if loop not in parallel and _is_contracted_along(statements, loop))]


def _flows(statements: Sequence[Statement], written: Uses) -> bool:
    """Whether some statement reads what another writes, or reduces."""
    if any(kind is not LoopKind.PARALLEL for statement in statements for kind in statement.kinds):
        return True
    return any(access in statements[user].inputs for uses in written.values() for user, access in uses)


def _outermost(first: Statement, found: Sequence[SharedLoop]) -> list[SharedLoop]:
    """Those of the loops `found` that no other loop of the statement `first` is around: where nothing flows, statements
    had better follow each other than take turns within rows."""
    own = {loop[0]: loop for loop in found}
    outermost: list[SharedLoop] = []
    for loop in first.outputs[0].plain_loops():
        if loop is not None and first.extents[loop] == 1:
            continue
        if loop is None or loop not in own:
            break
        outermost.append(own[loop])
    return outermost


def is_accumulated(statements: Sequence[Statement], loop: SharedLoop) -> bool:
    """Whether some statement adds up over the shared `loop`, which therefore runs in order."""
    return any(s.kinds[own] is LoopKind.REDUCTION for s, own in zip(statements, loop, strict=True))


def _is_contracted_along(statements: Sequence[Statement], loop: SharedLoop) -> bool:
    """Whether some contraction computes what is added up over the shared `loop`, a tile of iterations at a time.

    What is made element by element had better be there for all of them: a contraction that shares the loop writes its
    sums to memory and reads them again after each iteration, where it keeps them in registers otherwise.
    """
    return any(s.kinds[own] is LoopKind.PARALLEL and is_contraction(s) for s, own in zip(statements, loop, strict=True))


def is_contraction(statement: Statement) -> bool:
    """Whether a statement adds up products of two operands each of which is read again along a loop of the other."""
    if LoopKind.REDUCTION not in statement.kinds:
        return False
    fused = all(product_of_sum(statement.body, accumulator) for accumulator in statement.accumulators)
    if not fused and dot_product(statement) is None:
        return False
    parallel = {loop for loop in statement.loops(LoopKind.PARALLEL) if statement.extents[loop] != 1}
    reread = [parallel - access.loops() for access in statement.inputs]
    return any(a - b and b - a for number, a in enumerate(reread) for b in reread[:number])


def has_windows(statement: Statement) -> bool:
    """Whether a statement adds up windows that overlap, or of short rows, or products of windows with one operand, each
    window by itself."""
    if not all(isinstance(combining_op(statement.body, sums), arith.AddfOp) for sums in statement.accumulators):
        return False
    suits = all(product_of_sum(statement.body, accumulator) for accumulator in statement.accumulators)
    (*_, columns) = statement.outputs[0].subscripts or (None,)
    suits |= columns is not None and any(estimate(statement.extents[loop]) < SHORT_ROW for loop in columns.factors)
    summed, kept = (
        {loop for loop in statement.loops(kind) if statement.extents[loop] != 1}
        for kind in (LoopKind.REDUCTION, LoopKind.PARALLEL)
    )
    return any(
        suits or factors[along] < factors[tap] * estimate(statement.extents[tap])
        for access in statement.inputs
        for factors in [subscript.factors for subscript in access.subscripts]
        for tap in summed & factors.keys()
        for along in kept & factors.keys()
    )


def sums_rows(statement: Statement) -> bool:
    """Whether a statement combines rows: over loops of known length that are around the columns that it keeps."""
    reductions = statement.loops(LoopKind.REDUCTION)
    if not reductions or statement.loops(LoopKind.SEQUENTIAL):
        return False
    columns = range(reductions[-1] + 1, len(statement.extents))
    return (
        any(statement.extents[loop] != 1 for loop in columns)
        and not any(isinstance(statement.extents[loop], Size) for loop in reductions)
        and all(combining_monoid(statement.body, accumulator) for accumulator in statement.accumulators)
    )


def _find(statements: Sequence[Statement], connecting: tuple[Uses, Uses], adding: Sequence[bool]) -> list[SharedLoop]:
    """The shared loops, where statements for which `adding` holds may add up over some."""
    first = statements[0]
    order = first.outputs[0].plain_loops()
    shared: list[SharedLoop] = []
    # A loop of one iteration is no loop at all, and one that is only part of an index is in no other statement.
    parallel = [loop for loop in first.loops(LoopKind.PARALLEL) if first.extents[loop] != 1 and loop in order]
    for loop in sorted(parallel, key=order.index):
        taken = [{known[position] for known in shared} for position in range(len(statements))]
        match = _match(statements, loop, connecting, taken, adding)
        if match is not None:
            shared.append(match)
    return shared


def _buffers_by_role(
    statements: Sequence[Statement],
) -> tuple[Uses, Uses] | None:
    """The accesses to each buffer that some statement writes, and to each other; None if a written one has two views
    or is read at computed indices."""
    written_roots = {root_of(output.buffer) for statement in statements for output in statement.outputs}
    written: dict[SSAValue, list[tuple[int, Access]]] = {}
    read_only: dict[SSAValue, list[tuple[int, Access]]] = {}
    views: dict[SSAValue, SSAValue] = {}
    for position, statement in enumerate(statements):
        if any(root_of(load.memref) in written_roots for load in statement.body_loads()):
            return None
        for access in statement.accesses:
            root = root_of(access.buffer)
            if root in written_roots and views.setdefault(root, access.buffer) is not access.buffer:
                return None
            (written if root in written_roots else read_only).setdefault(root, []).append((position, access))
    connecting = {root: uses for root, uses in written.items() if len({position for position, _ in uses}) > 1}
    return connecting, read_only


def _match(
    statements: Sequence[Statement],
    loop: int,
    connecting: tuple[Uses, Uses],
    taken: Sequence[set[int]],
    adding: Sequence[bool],
) -> SharedLoop | None:
    written, read_only = connecting
    extent = statements[0].extents[loop]
    chosen = {0: loop}

    def fits(position: int, candidate: int) -> bool:
        statement = statements[position]
        kind = statement.kinds[candidate]
        is_fit = kind is LoopKind.PARALLEL or (kind is LoopKind.REDUCTION and adding[position])
        return is_fit and statement.extents[candidate] == extent and candidate not in taken[position]

    if not fits(0, loop) or not _spread(chosen, written, fits):
        return None
    for position, statement in enumerate(statements):
        if position in chosen:
            continue
        # Nothing flows between this statement and those before: any loop of the extent is right, one that reads
        # the same data along is better.
        candidates = [
            *_loops_reading_alike(position, chosen, read_only),
            *(candidate for candidate in statement.loops(LoopKind.PARALLEL)),
        ]
        for candidate in candidates:
            attempt = {**chosen, position: candidate}
            if fits(position, candidate) and _spread(attempt, written, fits):
                chosen = attempt
                break
        else:
            return None
    return tuple(chosen[position] for position in range(len(statements)))


def _spread(
    chosen: dict[int, int],
    written: Uses,
    fits: Callable[[int, int], bool],
) -> bool:
    """Extend `chosen` to all statements that buffers connect; False if some buffer is used at another index."""
    pending = list(chosen)
    while pending:
        position = pending.pop()
        for uses in written.values():
            own = [access.plain_loops() for user, access in uses if user == position]
            if not own:
                continue
            if chosen[position] not in own[0]:
                return False
            dim = own[0].index(chosen[position])
            for user, access in uses:
                other = access.plain_loops()[dim]
                if other is None or chosen.get(user, other) != other or not fits(user, other):
                    return False
                if sum(other in subscript.factors for subscript in access.subscripts) != 1:
                    return False
                if user not in chosen:
                    chosen[user] = other
                    pending.append(user)
    return True


def _loops_reading_alike(position: int, chosen: dict[int, int], read_only: Uses) -> list[int]:
    """Loops of a statement that index a buffer where a chosen loop of another statement does."""
    alike: list[int] = []
    for uses in read_only.values():
        dims = {
            dim
            for user, access in uses
            if user in chosen
            for dim, loop in enumerate(access.plain_loops())
            if loop == chosen[user]
        }
        for user, access in uses:
            if user == position:
                alike += [loop for dim in dims if (loop := access.plain_loops()[dim]) is not None]
    return alike
