"""`convert-structured-to-loops`: structured kernels on memrefs become loops.

Before: the buffered stage; generics may carry a `schedule` (see `loop_schedule`), which is obeyed.

After: the loop stage. A kernel of several statements has one outermost `scf.parallel` over the loops that all of
them share (`shared_loops`), or none; inside it, the statements' nests in order. A shared loop that some statement
vectorizes or jams is cut into strips of that statement's tile, and each strip runs all statements. `memref.alloc`
intermediates shrink to a `memref.alloca` of what one iteration of the outer loops needs, or to a scalar. Callers
and scatter loops are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.context import Context
from xdsl.dialects import func, linalg, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tenon.dialects.size import Size
from tenon.lowering.kernel_intermediates import place_intermediates
from tenon.lowering.kernel_statements import Kernel, Statement, kernels_of, read_kernel
from tenon.lowering.loop_builder import LoopBuilder, Position, Steps
from tenon.lowering.loop_schedule import Schedule, read_schedule
from tenon.lowering.shared_loops import SharedLoop, shared_loops
from tenon.lowering.statement_loops import Span, emit_statement


@dataclass(frozen=True)
class ConvertStructuredToLoopsPass(ModulePass):
    """Turn structured kernels into loops, as their schedules say."""

    name = "convert-structured-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels_of(op):
            try:
                convert_kernel(function)
            except ValueError as error:
                raise ValueError(f"kernel @{function.sym_name.data}: {error}") from error


def convert_kernel(function: func.FuncOp) -> None:
    """Replace the statements of a kernel by loops. Raises `ValueError` for a schedule that cannot be obeyed."""
    _KernelLoops(read_kernel(function)).convert()


@dataclass(frozen=True)
class _Strip:
    """A range of a shared loop: `steps` of `extent` iterations each."""

    steps: Steps
    extent: int


class _KernelLoops:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.statements = kernel.statements
        self.schedules = [read_schedule(statement) for statement in self.statements]
        self.shared = shared_loops(self.statements) if kernel.runs_together() else []
        self.builder = LoopBuilder(kernel.function.body.block)

    def convert(self) -> None:
        """Rewrite the function's block: what precedes the first statement stays, then come the loops."""
        entry = self.kernel.function.body.block
        returned = entry.last_op
        assert isinstance(returned, func.ReturnOp)
        replaced: list[Operation] = []
        for op in list(entry.ops):
            if isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp | memref.AllocOp | memref.DeallocOp):
                op.detach()
                replaced.append(op)
        for op in (returned, *self.kernel.items):
            if isinstance(op, Operation):
                op.detach()
        if self.shared:
            self.emit_shared()
        else:
            self.emit_in_order()
        entry.add_op(returned)
        for op in reversed(replaced):
            op.erase()

    def emit_in_order(self) -> None:
        """Nests without a common loop."""
        buffers = place_intermediates(self.kernel, {}, self.builder)
        schedules = iter(self.schedules)
        for item in self.kernel.items:
            if isinstance(item, Statement):
                spans = [Span.whole(extent) for extent in item.extents]
                emit_statement(self.builder, item, next(schedules), spans, buffers)
            else:
                for source, buffer in buffers.items():
                    if buffer.memref is not None:
                        source.replace_uses_with_if(buffer.memref, lambda use, op=item: op.is_ancestor(use.operation))
                self.builder.add(item)

    def emit_shared(self) -> None:
        """One nest over the shared loops for each combination of strips."""
        strips = [self.strips(loop) for loop in self.shared]
        for combination in product(*strips):
            self.builder.parallel([s.steps for s in combination], lambda at, c=combination: self.emit_strip(c, at))

    def strips(self, loop: SharedLoop) -> list[_Strip]:
        """A shared loop in strips as long as the longest tile of a statement along it, and the rest."""
        extent = self.statements[0].extents[loop[0]]
        size = max(map(_tile_along, self.schedules, loop))
        full, left = divmod(extent, size)
        rest = (
            _Strip(Steps(full * size, left), 1)
            if isinstance(left, Size)
            else _Strip(Steps(full * size, min(left, 1)), left)
        )
        return [strip for strip in (_Strip(Steps(0, full, size), size), rest) if strip.steps.count != 0]

    def emit_strip(self, strips: Sequence[_Strip], starts: Sequence[Position]) -> None:
        """All statements for one iteration of the outer loops."""
        extents = {known: strip.extent for known, strip in zip(self.shared, strips, strict=True)}
        buffers = place_intermediates(self.kernel, extents, self.builder)
        for number, (statement, schedule) in enumerate(zip(self.statements, self.schedules, strict=True)):
            spans = [Span.whole(extent) for extent in statement.extents]
            for known, strip, start in zip(self.shared, strips, starts, strict=True):
                spans[known[number]] = Span(start, Position(), strip.extent)
            emit_statement(self.builder, statement, schedule, spans, buffers)


def _tile_along(schedule: Schedule | None, loop: int) -> int:
    """How many iterations of `loop` a tile of `schedule` takes."""
    if schedule is None:
        return 1
    if loop == schedule.vector:
        return schedule.width * schedule.unroll
    return schedule.jam_count if loop == schedule.jam else 1
