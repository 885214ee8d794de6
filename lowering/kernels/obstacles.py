"""Why what a schedule asks for cannot be done with a statement: what decides asks the same as what obeys."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, linalg, math, memref
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.types.size import Size
from tenon.dialects.upstream.float_remainder import RemFOp
from tenon.lowering.kernels.scans import scan_of
from tenon.lowering.kernels.statement import (
    Access,
    LoopKind,
    Statement,
    Stride,
    element_type,
    is_index_of,
    once,
    root_of,
)


def lies_across(access: Access, vector: int, across: int | None) -> bool:
    """Whether an access goes by single elements, or a few, along `across` and not along `vector`: a tile of it can be
    transposed."""
    is_across = access.stride(vector) is Stride.OTHER and access.padding is None
    return across is not None and is_across and access.stride(across) in (Stride.UNIT, Stride.STEPPED)


def stored_across(statement: Statement, vector: int, across: int | None) -> list[Access]:
    """The outputs of sums that have unit stride along `across`, a parallel loop, and none along `vector`: a tile of
    sums is transposed in registers before it is stored."""
    loops = (vector,) if across is None else (vector, across)
    if LoopKind.REDUCTION not in statement.kinds or any(statement.kinds[k] is not LoopKind.PARALLEL for k in loops):
        return []
    if isinstance(statement.extents[vector], Size):
        return []
    found = (a for a in statement.outputs if lies_across(a, vector, across) and element_type(a.buffer) != i1)
    return [access for access in found if across is not None and access.stride(across) is Stride.UNIT]


def holds_rows(access: Access, vector: int, across: int | None, extents: Sequence[int]) -> bool:
    """Whether the iterations of `across` are the elements of a row, and those of `vector` the rows, which follow each
    other in memory: their columns can be shuffled out of vectors, and back."""
    *outer, rows, columns = (None, None, *access.plain_loops())
    return (
        across is not None
        and (rows, columns) == (vector, across)
        and not any({vector, across} & subscript.factors.keys() for subscript in access.subscripts[: len(outer) - 2])
        and access.is_used
        and access.padding is None
        and access.shape[-1] == extents[across]
        and element_type(access.buffer) != i1
    )


@once
def row_accesses(statement: Statement, vector: int, across: int | None) -> list[Access]:
    """What a tile of all iterations of `across` can read and write in rows (`holds_rows`): neither reductions nor
    outputs that are read before."""
    if LoopKind.REDUCTION in statement.kinds or isinstance(statement.extents[vector], Size):
        return []
    written = [output for number, output in enumerate(statement.outputs) if not statement.reads_output(number)]
    return [a for a in (*statement.inputs, *written) if holds_rows(a, vector, across, statement.extents)]


@once
def vector_obstacle(
    statement: Statement,
    loop: int,
    across: int | None = None,
    packed: tuple[int, ...] = (),
    *,
    whole_rows: bool = False,
    gathers: bool = False,
) -> str | None:
    """Why the iterations of `loop` cannot be the lanes of vectors; None if they can.

    Inputs that have unit stride along `across` instead, a parallel loop, are no obstacle, nor are outputs of sums
    (`stored_across`), nor inputs at the positions `packed`, which are copied to where they are contiguous. With
    `whole_rows`, all iterations of `across` are computed together, and inputs and outputs may have a row for each
    iteration of `loop` (`row_accesses`). Lanes may read at places of their own along the last dimension, which is one
    instruction; with `gathers` at any others, too (`_can_gather`), without where that is worth it for a statement by
    itself (`_computes_more`).
    """
    in_rows = row_accesses(statement, loop, across) if whole_rows else []
    turned = stored_across(statement, loop, across)
    kind = statement.kinds[loop]
    for number, access in enumerate(statement.accesses):
        if number in packed:
            continue
        is_turned = number >= len(statement.inputs) and access in turned
        stride = Stride.UNIT if is_turned else access.stride(loop)
        if access in in_rows or (access in statement.inputs and lies_across(access, loop, across)):
            if isinstance(statement.extents[loop], Size) or LoopKind.REDUCTION in statement.kinds:
                return f"tiles of {access.buffer.type} are not transposed where sizes are open or loops reduce"
            is_open = across is not None and isinstance(statement.extents[across], Size)
            steps = across is not None and access.stride(across) is Stride.STEPPED
            if steps and (is_open or element_type(access.buffer) == i1):
                return f"tiles of {access.buffer.type} step over elements, bits of a vector or as often as is open"
            stride = Stride.UNIT
        if stride is Stride.OTHER:
            return f"an access to {access.buffer.type} has no unit stride along it"
        if stride is Stride.STEPPED and isinstance(statement.extents[loop], Size):
            return f"an access to {access.buffer.type} steps over elements, as often as only the launch tells"
        if stride is Stride.STEPPED and element_type(access.buffer) == i1:
            return "an i1 element is a byte in memory and a bit in a vector"
    if kind is LoopKind.REDUCTION:
        for accumulator in () if statement.selection(loop) else statement.accumulators:
            if combining_monoid(statement.body, accumulator) is None:
                return "an output is not combined by one associative op"
    elif is_scanned(statement, loop):
        if across is not None or packed:
            return "a scan goes along it, which has neither rows beside it nor panels"
    elif any(o.stride(loop) is not Stride.UNIT and o not in (*in_rows, *turned) for o in statement.outputs):
        return "an output does not advance along it"
    written = {root_of(output.buffer): output.subscripts for output in statement.outputs}
    if any(written.get(root_of(a.buffer), a.subscripts) != a.subscripts for a in statement.inputs):
        return "the op reads a buffer that it writes at another index"
    return _body_obstacle(statement, loop, anywhere=gathers or _computes_more(statement))


@once
def is_scanned(statement: Statement, loop: int) -> bool:
    """Whether `loop` is what a scan goes along, whose lanes can be combined with those before them."""
    if statement.kinds[loop] is not LoopKind.SEQUENTIAL or statement.divides_integers():
        return False
    scan = scan_of(statement)
    if scan is None or scan.loop != loop or len({*scan.elements}) < len(scan.elements):
        return False
    if any(monoid is not None and monoid.op_type is arith.MulfOp for monoid in scan.monoids):
        return False  # what a part overflows to makes NaN of a 0 before it
    results = [statement.outputs[n] for n in scan.results]
    return all(
        access.stride(loop) is Stride.UNIT or (access.step(loop) == -1 and element_type(access.buffer) != i1)
        for access in results
    )


def _body_obstacle(statement: Statement, loop: int, *, anywhere: bool) -> str | None:
    varying: set[SSAValue] = {
        argument
        for argument, access in zip(statement.body.args, statement.accesses, strict=True)
        if access.stride(loop) is not Stride.INVARIANT
    }
    if statement.kinds[loop] is LoopKind.REDUCTION or is_scanned(statement, loop):
        varying.update(statement.accumulators)
    can_gather = _can_gather(statement, loop)
    for op in statement.body.ops:
        depends = any(operand in varying for operand in op.operands)
        match op:
            case linalg.ops.YieldOp():
                continue
            case linalg.ops.IndexOp():
                depends = op.dim.value.data == loop
            case memref.LoadOp():
                last = op.indices[-1] if op.indices else None
                is_anywhere = any(i in varying for i in op.indices[:-1])
                if is_anywhere and not (can_gather and anywhere):
                    return "the body reads at an index that varies along it, and not the last one alone"
                if last in varying and not is_index_of(last, loop) and not can_gather:
                    return "the body reads at an index that varies along it"
            case _:
                if op.regions or op.name.partition(".")[0] not in ("arith", "math"):
                    return f"the body contains {op.name}"
        if depends:
            varying.update(op.results)
    return None


_FEW_INSTRUCTIONS = (math.AbsFOp, math.FmaOp, math.SqrtOp, math.CopySignOp, math.FloorOp, math.CeilOp, math.AbsIOp)


def _can_gather(statement: Statement, loop: int) -> bool:
    """Whether lanes along `loop` may read at an index of their own."""
    if LoopKind.REDUCTION in statement.kinds:
        return False
    written = {root_of(output.buffer) for output in statement.outputs}
    return not any(root_of(load.memref) in written for load in statement.body_loads())


def _computes_more(statement: Statement) -> bool:
    """Whether functions of many instructions are computed of what is read at places of lanes or beside it, which would
    be computed lane by lane as well."""
    ops = statement.body.ops
    return any(
        isinstance(op, RemFOp) or (op.name.startswith("math.") and not isinstance(op, _FEW_INSTRUCTIONS)) for op in ops
    )


def next_rows_obstacle(statement: Statement, number: int, jam: int | None, vector: int | None) -> str | None:
    """Why input `number` cannot be fetched tile by tile along the loop `jam`; None if it can."""
    if not 0 <= number < len(statement.inputs):
        return f"the op has {len(statement.inputs)} inputs"
    access = statement.inputs[number]
    loops = access.plain_loops()
    if jam is None or jam not in loops or vector in access.loops():
        return "no other loop may go along its rows than the jammed one"
    first = loops.index(jam) + 1
    inner = [
        (loop, size)
        for loop, size in zip(loops[first:], access.shape[first:], strict=True)
        if size != 1 or loop is not None
    ]
    reductions = [(loop, statement.extents[loop]) for loop in statement.loops(LoopKind.REDUCTION)]
    if not reductions or inner != reductions:
        return "its rows are not what the reduction goes along"
    return None


@once
def parts_obstacle(statement: Statement) -> str | None:
    """Why parts of a reduction cannot be added up apart, to be combined behind; None if they can."""
    for output in statement.outputs:
        loops = output.plain_loops()
        if None in loops or len(set(loops)) < len(loops):
            return "the indices of its outputs are not loops, one each"
        if any(isinstance(size, Size) for size in output.shape):
            return f"the shape of {output.buffer.type} is not known"
    if any(combining_monoid(statement.body, a) is None for a in statement.accumulators):
        return "what it adds up cannot be combined"
    return None
