"""Sums over the rows that a kernel's statements share, in blocks of rows that threads take.

A loop that adds up rows in memory runs in order. The attribute `sum_block` of the kernel, `64 : i64`, cuts it into
blocks of as many rows: each adds up in a row of its own, and behind them these are combined in their order, so that the
result does not depend on threads.

    partial = alloc(blocks x columns)
    parallel over blocks:
      partial[block] = neutral
      for each row of the block: all statements, with partial[block] in the place of the sums
    sums = initial + partial[0] + partial[1] + ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i32
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.lowering.kernels.statement import (
    Statement,
    buffer_shape,
    element_type,
    filling,
)
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span
from tenon.lowering.nests.blocks import emit_blocks
from tenon.lowering.nests.body import Buffer
from tenon.lowering.nests.row_blocks import combining_rows
from tenon.lowering.schedules.schedule_attribute import Schedule


@dataclass(frozen=True)
class _Sum:
    """An output that rows are added up to: how, what it starts from, and where its partial sums are."""

    output: SSAValue
    monoid: Monoid
    initial: SSAValue | None
    partial: SSAValue
    schedule: Schedule | None


class PartialSums:
    """The partial sums of all `outputs`: (statement, output, initial value, schedule)."""

    def __init__(
        self,
        builder: LoopBuilder,
        outputs: Sequence[tuple[Statement, int, SSAValue | None, Schedule | None]],
        blocks: int,
    ) -> None:
        self._builder = builder
        self._sums: list[_Sum] = []
        for statement, position, initial, schedule in outputs:
            monoid = combining_monoid(statement.body, statement.accumulators[position])
            assert monoid is not None, "what cannot be combined is not cut into blocks"
            output = statement.outputs[position].buffer
            shape = [blocks, *buffer_shape(output)]
            op = memref.AllocOp.create(
                result_types=(MemRefType(element_type(output), shape),),
                properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])},
            )
            self._sums.append(_Sum(output, monoid, initial, builder.value(op), schedule))

    def of_block(self, block: Position) -> dict[SSAValue, Buffer]:
        """What stands in the place of the outputs in a block, for the statements there."""
        return {
            known.output: Buffer(known.partial, tuple(range(len(buffer_shape(known.output)))), row=block)
            for known in self._sums
        }

    def emit_start(self, buffers: Mapping[SSAValue, Buffer]) -> None:
        """Store what changes nothing to the sums of a block."""
        for known in self._sums:
            element = element_type(known.output)
            neutral = self._builder.constant(known.monoid.identity(element), element)
            self._emit(filling(known.output, neutral), known.schedule, dict(buffers))

    def emit_total(self) -> None:
        """Combine the sums of all blocks, in their order."""
        for known in self._sums:
            total = combining_rows(known.output, known.partial, known.monoid, known.initial)
            self._emit(total, known.schedule, {})
            self._builder.add(memref.DeallocOp.create(operands=(known.partial,)))

    def _emit(self, statement: Statement, schedule: Schedule | None, buffers: dict[SSAValue, Buffer]) -> None:
        last = len(statement.extents) - 1
        wide = schedule is not None and schedule.vector is not None and statement.extents[last] >= schedule.width
        plain = Schedule(last, schedule.width, schedule.unroll) if schedule is not None and wide else None
        emit_blocks(self._builder, statement, plain, [Span.whole(extent) for extent in statement.extents], buffers)
        statement.op.erase()
