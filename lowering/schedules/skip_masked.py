"""`skip-masked`: mark which iterations a mask leaves out, so that the loops do so as well.

Before: the buffered stage, with schedules. After: the same, where the generics of a kernel that computes rows with a
band for a mask have the attribute `visible`: iterations of `loop` outside of `lower <= loop < upper` change nothing
that is used afterwards.

    visible = {loop = 3 : i64, lower = affine_map<(d0, d1, d2, d3) -> (d2 - 255)>,
               upper = affine_map<(d0, d1, d2, d3) -> (d2 + 1)>}

The bounds are the index of a loop that all statements share, plus a constant; without one, the loop starts or ends
where it does. A strip of rows runs from the first column that one of its rows sees to the last one, and at least one.

It is done for all statements that pass columns on to each other, or for none of them. With `masked_values` saying what
each value is at a masked place,

- what one statement writes there, others read there only, and they leave it out as well;
- what a statement adds up, or takes the maximum of, over masked columns or rows is neutral there.

A row that sees nothing is what it was (NaN, in a softmax): its first columns are computed. If rows are added up, each
must see something, as those that see nothing would reach all columns. What is not exact is said in `masked_values`:
where the mask makes a factor zero, the other one is taken to be finite.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import combining_monoid, combining_op
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.masked_columns import columns_of, masks
from tenon.lowering.kernels.masked_range import VISIBLE, Visible, write_visible
from tenon.lowering.kernels.masked_values import OF_ROW, Band, Masked, masked_values
from tenon.lowering.kernels.shared_loops import SharedLoop, shared_loops
from tenon.lowering.kernels.statement import Access, Kernel, LoopKind, Statement, element_type, read_kernel
from tenon.lowering.schedules.schedule_attribute import read_schedule


@dataclass(frozen=True)
class SkipMaskedPass(FunctionPass):
    """Mark the iterations that a mask leaves out."""

    name = "skip-masked"

    def change(self, module: ModuleOp) -> Change:
        return _mark_selected


def _mark_selected(function: func.FuncOp) -> None:
    if ops_of(function, arith.SelectOp):
        _mark(function)


def _mark(function: func.FuncOp) -> None:
    kernel = read_kernel(function)
    statements = kernel.statements
    shared = shared_loops(kernel)
    for rows, number, band in masks(statements, shared):
        if VISIBLE in statements[number].op.attributes:
            continue
        columns = columns_of(kernel, rows, number, band.column)
        if columns is not None and _changes_nothing(kernel, rows, columns, band):
            for position, column in columns.items():
                statement = statements[position]
                write_visible(statement, Visible(column, rows[position], *band.limits))


def _changes_nothing(kernel: Kernel, rows: SharedLoop, columns: dict[int, int], band: Band) -> bool:
    """Whether all statements with `columns` may leave out what lies outside of `band`."""
    masked: dict[SSAValue, Masked] = {}
    extents = {
        (statement.extents[rows[number]], statement.extents[columns[number]])
        for number, statement in enumerate(kernel.statements)
        if number in columns
    }
    if len(extents) != 1 or not all(type(extent) is int and extent > 0 for extent in next(iter(extents))):
        return False
    sees_all = _each_row_sees(band, *next(iter(extents)))
    for number, column in columns.items():
        if not _is_plain(kernel.statements[number], column):
            return False
    for number, statement in enumerate(kernel.statements):
        if number not in columns:
            continue
        row, column = rows[number], columns[number]
        if statement.kinds[row] is LoopKind.REDUCTION and not sees_all:
            return False
        arguments: dict[SSAValue, Masked] = {
            argument: _masked_element(access, row, column, masked)
            for argument, access in zip(statement.body.args, statement.inputs, strict=False)
        }
        values = masked_values(statement.body, arguments, Band(row, column, band.lower, band.upper))
        for position, output in enumerate(statement.outputs):
            if {row, column} <= output.loops():
                if all(alloc.memref is not output.buffer for alloc in kernel.intermediates):
                    return False  # it is read by others, who do not know what is masked
                yielded = statement.body.last_op.operands[position]  # pyright: ignore[reportOptionalMemberAccess]
                masked[output.buffer] = values.get(yielded) if LoopKind.REDUCTION not in statement.kinds else None
            elif not _is_neutral(statement, position, values):
                return False
    return True


def _each_row_sees(band: Band, rows: int, columns: int) -> bool:
    return band.lower <= band.upper and band.upper >= 0 and band.lower + rows <= columns


def _is_plain(statement: Statement, column: int) -> bool:
    """Whether the nest of a statement can leave out iterations of `column`."""
    schedule = read_schedule(statement)
    if schedule is not None and (schedule.blocked or schedule.rows is not None):
        return False
    if schedule is not None and schedule.vector is not None and statement.selection(schedule.vector) is not None:
        return False
    return LoopKind.SEQUENTIAL not in statement.kinds and statement.kinds[column] is not LoopKind.SEQUENTIAL


def _masked_element(access: Access, row: int, column: int, masked: dict[SSAValue, Masked]) -> Masked:
    if column not in access.loops():
        return OF_ROW if row in access.loops() else None
    return masked.get(access.buffer)


def _is_neutral(statement: Statement, output: int, values: dict[SSAValue, Masked]) -> bool:
    """Whether what is masked leaves an output that it is combined with as it is."""
    accumulator = statement.accumulators[output]
    monoid, op = combining_monoid(statement.body, accumulator), combining_op(statement.body, accumulator)
    if monoid is None or op is None:
        return False
    neutral = monoid.identity(element_type(statement.outputs[output].buffer))
    (combined,) = [operand for operand in op.operands if operand is not accumulator]
    return isinstance(neutral, FloatAttr) and values.get(combined) == neutral.value.data
