"""`convert-structured-to-loops`: structured kernels on memrefs become loops.

Before: the buffered stage; generics may carry a `schedule` (`lowering.schedules.schedule_attribute`), which is obeyed.

After: the loop stage. A kernel of several statements has one outermost `scf.parallel` over the loops that all of
them share (`shared_loops`), or none; inside it, the statements' nests in order. A shared loop that some statement
vectorizes or jams is cut into strips (`strips`), and each strip runs all statements; neighbouring statements without
tiles along it do the iterations of a strip one by one. `memref.alloc`
intermediates shrink to a `memref.alloca` of what one iteration of the outer loops needs, or to a scalar; what is too
large for the stack stays a `memref.alloc`. Loops over updates become parallel where these are of different elements
(`distinct_updates`); other scatter loops are unchanged, and so are callers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, product
from math import lcm

from xdsl.dialects import func, linalg, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tenon.dialects.types.size import Size, most
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.intermediates import read_without_padding, reads_padding, unpadded
from tenon.lowering.kernels.masked_range import read_visible, visible_limits
from tenon.lowering.kernels.shared_loops import SharedLoop, is_accumulated, shared_loops
from tenon.lowering.kernels.statement import Kernel, LoopKind, Statement, filling
from tenon.lowering.loop_ir.builder import Limits, LoopBuilder, Position, Span, Steps, rest_steps
from tenon.lowering.nests.blocks import emit_blocks, packed_columns
from tenon.lowering.nests.body import Buffer, Panel
from tenon.lowering.nests.distinct_updates import in_parallel
from tenon.lowering.nests.partial_sums import PartialSums
from tenon.lowering.nests.place_intermediates import keep_in_registers, place_intermediates, release_intermediates
from tenon.lowering.schedules.epilogues import epilogues
from tenon.lowering.schedules.schedule_attribute import along_last, read_schedule
from tenon.lowering.schedules.strips import Ahead, copied_ahead, read_strips, tile_along
from tenon.lowering.schedules.sum_blocks import read_block
from tenon.passes.machine import GENERIC, Machine


@dataclass(frozen=True)
class ConvertStructuredToLoopsPass(FunctionPass):
    """Turn structured kernels into loops for the `machine` (text, see `Machine`), as their schedules say."""

    name = "convert-structured-to-loops"

    machine: str = ""

    def takes(self, function: func.FuncOp) -> bool:
        """Kernels that are the code of a thread already stay as they are."""
        return super().takes(function) and "grid" not in function.attributes

    def change(self, module: ModuleOp) -> Change:
        machine = Machine.of_option(self.name, self.machine)

        def convert(function: func.FuncOp) -> None:
            try:
                convert_kernel(function, machine)
            except ValueError as error:
                raise ValueError(f"kernel @{function.sym_name.data}: {error}") from error

        return convert


def convert_kernel(function: func.FuncOp, machine: Machine = GENERIC) -> None:
    """Replace the statements of a kernel by loops. Raises `ValueError` for a schedule that cannot be obeyed."""
    _KernelLoops(read_without_padding(function), machine).convert()


@dataclass(frozen=True)
class _Strip:
    """A range of a shared loop: `steps` of `extent` iterations each, which count from `origin`."""

    steps: Steps
    extent: int
    origin: Position = field(default_factory=Position)

    def span(self, at: Position) -> Span:
        """The iterations of the step at `at`."""
        return Span(self.origin + at, Position(), self.extent)


@dataclass(frozen=True)
class _Run:
    """Neighbouring statements, the shared loops whose iterations they do one by one, and what flows only in there."""

    statements: tuple[int, ...]
    loops: frozenset[int]
    intermediates: list[memref.AllocOp]


class _KernelLoops:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.statements = kernel.statements
        self.schedules = [read_schedule(statement) for statement in self.statements]
        self.shared = shared_loops(kernel)
        self.epilogues = epilogues(kernel, self.shared, self.schedules)
        self.builder = LoopBuilder(kernel.function.body.block, machine)
        self.sums: dict[SSAValue, Buffer] = {}
        """What stands in the place of outputs that are added up to partial sums."""
        self.ahead: dict[int, dict[int, Panel]] = {}
        """By statement, the columns that were copied before the strip."""

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
                emit_blocks(self.builder, item, next(schedules), spans, buffers)
            else:
                for source, buffer in buffers.items():
                    if buffer.memref is not None:
                        source.replace_uses_with_if(buffer.memref, lambda use, op=item: op.is_ancestor(use.operation))
                for op in in_parallel(item):
                    self.builder.add(op)
        release_intermediates(buffers, self.builder)

    def emit_shared(self) -> None:
        """One nest over the shared loops for each combination of strips along the parallel ones."""
        lengths = read_strips(self.kernel.function, self.shared, self.schedules)
        strips = [self.strips(loop, length) for loop, length in zip(self.shared, lengths, strict=True)]
        count = sum(not is_accumulated(self.statements, loop) for loop in self.shared)
        starts = self.take_initial_values()
        block = read_block(self.kernel.function, self.statements, self.shared)
        if block is not None:
            self.emit_partial_sums(lengths, block, starts)
            return

        ahead = copied_ahead(self.statements, self.schedules, self.shared, lengths)
        if ahead is not None:
            self.emit_with_copies(ahead, lengths)
            return

        def run(outer: Sequence[Span], combination: tuple[_Strip, ...]) -> None:
            def inside(at: list[Position]) -> None:
                spans = [*outer, *map(_Strip.span, combination, at)]
                if count == len(strips):
                    self.emit_strip(spans)
                    return
                self.emit_initial_values(spans, starts)
                self.emit_in_sequence(spans, strips[count:])

            self.builder.parallel([strip.steps for strip in combination], inside)

        def around(at: list[Position]) -> None:
            outer = [strip.span(start) for (strip,), start in zip(strips[:images], at, strict=True)]
            self.builder.side_by_side([partial(run, outer, parts) for parts in product(*strips[images:count])])

        # The edges of an image are computed while it is near.
        has_edges = any(map(reads_padding, self.statements))
        images = next((number for number in range(count) if len(strips[number]) > 1), 0) if has_edges else 0
        self.builder.parallel([strip.steps for (strip,) in strips[:images]], around)

    def emit_with_copies(self, ahead: Ahead, lengths: Sequence[int]) -> None:
        """The strips, after the columns that they share were copied: part by part, for each iteration of the loops that
        these depend on."""
        positions = range(len(self.shared))
        inner = [position for position in positions if position not in ahead.around]
        first = self.statements[0]
        whole = [Span.whole(first.extents[loop[0]]) for loop in self.shared]

        def around(at: list[Position]) -> None:
            spans = list(whole)
            for position, start in zip(ahead.around, at, strict=True):
                spans[position] = Span(start, Position(), 1)
            self.pack_columns(ahead, ahead.statements, spans, lambda part: strips_of(part))

        def strips_of(part: list[Span]) -> None:
            cut = [
                [replace(s, origin=part[p].start) for s in self.strips(self.shared[p], lengths[p], part[p].extent)]
                for p in inner
            ]

            def run(combination: tuple[_Strip, ...]) -> None:
                def inside(at: list[Position]) -> None:
                    spans = list(part)
                    for position, strip, start in zip(inner, combination, at, strict=True):
                        spans[position] = strip.span(start)
                    self.emit_strip(spans)

                self.builder.parallel([strip.steps for strip in combination], inside)

            self.builder.side_by_side([partial(run, combination) for combination in product(*cut)])

        self.builder.parallel([Steps(0, whole[position].extent) for position in ahead.around], around)

    def pack_columns(
        self, ahead: Ahead, numbers: Sequence[int], spans: list[Span], use: Callable[[list[Span]], None]
    ) -> None:
        """What `use` appends for each part of the columns, once those of the statements `numbers` were copied."""
        if not numbers:
            use(spans)
            return
        number, *others = numbers
        statement, schedule = self.statements[number], self.schedules[number]
        assert schedule is not None
        own = [Span.whole(extent) for extent in statement.extents]
        for loop, span in zip(self.shared, spans, strict=True):
            own[loop[number]] = span

        def packed(inner: list[Span], panels: dict[int, Panel]) -> None:
            self.ahead[number] = panels
            part = [inner[loop[number]] for loop in self.shared]
            self.pack_columns(ahead, others, part, use)
            del self.ahead[number]

        size = ahead.part if number == ahead.statements[0] else None
        packed_columns(self.builder, statement, replace(schedule, pack_block=size), own, {}, packed)

    def emit_partial_sums(
        self, lengths: Sequence[int], block: int, starts: Sequence[tuple[int, int, SSAValue]]
    ) -> None:
        """All shared loops in order, but for the outermost: a nest for each `block` iterations of it."""
        first, *others = self.shared
        full, left = divmod(self.statements[0].extents[first[0]], block)
        initial = {(number, output): value for number, output, value in starts}
        outputs = [
            (statement, output, initial.get((number, output)), self.schedules[number])
            for number, statement in enumerate(self.statements)
            if self.adds_up(number)
            for output in range(len(statement.outputs))
        ]
        sums = PartialSums(self.builder, outputs, full + min(left, 1))
        inner = [self.strips(loop, length) for loop, length in zip(others, lengths[1:], strict=True)]
        for steps, rows in ((Steps(0, full), block), (Steps(full, min(left, 1)), left)):

            def inside(at: list[Position], rows: int = rows) -> None:
                (number,) = at
                self.sums = sums.of_block(number)
                sums.emit_start(self.sums)
                strips = [replace(strip, origin=number.scaled(block)) for strip in self.strips(first, lengths[0], rows)]
                self.emit_in_sequence((), [strips, *inner])

            self.builder.parallel([steps], inside)
        self.sums = {}
        sums.emit_total()

    def emit_in_sequence(self, spans: Sequence[Span], remaining: Sequence[Sequence[_Strip]]) -> None:
        """All strips along accumulated loops, in order."""
        if not remaining:
            self.emit_strip(spans)
            return
        for strip in remaining[0]:

            def inside(at: Position, _: list[SSAValue], strip: _Strip = strip) -> Sequence[SSAValue]:
                self.emit_in_sequence([*spans, strip.span(at)], remaining[1:])
                return ()

            self.builder.sequential(strip.steps, (), inside)

    def take_initial_values(self) -> list[tuple[int, int, SSAValue]]:
        """What the outputs start from that are added up strip by strip: statement, output and value."""
        starts: list[tuple[int, int, SSAValue]] = []
        for number, statement in enumerate(self.statements):
            if self.adds_up(number):
                starts += [
                    (number, output, value) for output, value in enumerate(statement.initial) if value is not None
                ]
                statement.initial = [None] * len(statement.initial)
        return starts

    def emit_initial_values(self, spans: Sequence[Span], starts: Sequence[tuple[int, int, SSAValue]]) -> None:
        """Store what the outputs start from that are added up strip by strip."""
        for number, position, value in starts:
            output = self.statements[number].outputs[position]
            fill = filling(output.buffer, value)
            whole = [Span.whole(extent) for extent in fill.extents]
            for known, span in zip(self.shared, spans, strict=False):
                whole[output.plain_loops().index(known[number])] = span
            emit_blocks(self.builder, fill, along_last(fill, self.schedules[number]), whole, {})
            fill.op.erase()

    def adds_up(self, number: int) -> bool:
        """Whether a statement adds up over a shared loop."""
        return any(self.statements[number].kinds[loop[number]] is LoopKind.REDUCTION for loop in self.shared)

    def strips(self, loop: SharedLoop, size: int, extent: int | None = None) -> list[_Strip]:
        """The iterations of a shared loop, or `extent` of them, in strips of `size`, and the rest."""
        extent = self.statements[0].extents[loop[0]] if extent is None else extent
        full, left = divmod(extent, size)
        rest = _Strip(rest_steps(full * size, left, size), left)
        whole = [strip for strip in (_Strip(Steps(0, full, size), size), rest) if strip.steps.count != 0]
        if isinstance(extent, Size):
            return whole
        inner = [unpadded(s, own) for s, own in zip(self.statements, loop, strict=True) if reads_padding(s)]
        for part in inner:
            whole = [replace(s, steps=steps) for s in whole for steps in s.steps.apart(part, s.extent)]
        return whole

    def emit_strip(self, spans: Sequence[Span]) -> None:
        """All statements for one iteration of the outer loops."""
        runs = self.runs(spans)
        limits = self.limits(spans)
        inner = {alloc for run in runs for alloc in run.intermediates}
        kept = {output.buffer for number in self.epilogues for output in self.statements[number].outputs}
        outer = [a for a in self.kernel.intermediates if a not in inner and a.memref not in kept]
        buffers = place_intermediates(self.kernel, self.lengths(spans), self.builder, outer)
        for number, loops in self.epilogues.items():
            keep_in_registers(self.builder, self.statements[number], self.statements[number + 1], loops, buffers)
        for run in runs:
            self.emit_run(run, spans, limits, buffers | self.sums)
        release_intermediates(buffers, self.builder)

    def runs(self, spans: Sequence[Span]) -> list[_Run]:
        """The statements in order; neighbours that have no tiles along a shared loop run its iterations one by one."""
        single = [
            frozenset(
                position
                for position, (loop, span) in enumerate(zip(self.shared, spans, strict=True))
                if span.extent != 1 and tile_along(schedule, loop[number]) == 1 and not self.adds_up(number)
            )
            for number, schedule in enumerate(self.schedules)
        ]
        runs: list[_Run] = []
        own = [number for number in range(len(single)) if number - 1 not in self.epilogues]
        for loops, members in groupby(own, key=single.__getitem__):
            numbers = tuple(members)
            runs.append(_Run(numbers, loops if len(numbers) > 1 else frozenset(), self.only_in(numbers)))
        return runs

    def only_in(self, numbers: Sequence[int]) -> list[memref.AllocOp]:
        """The intermediates that only these statements use."""
        if len(numbers) < 2:
            return []
        inside = {self.statements[number].op for number in numbers}
        return [
            alloc
            for alloc in self.kernel.intermediates
            if all(use.operation in inside or isinstance(use.operation, linalg.ops.FillOp) for use in alloc.memref.uses)
        ]

    def limits(self, spans: Sequence[Span]) -> dict[int, Limits]:
        """For each statement the columns that the rows of a strip see, in whole tiles of all statements."""
        visible = {number: seen for number, seen in enumerate(map(read_visible, self.statements)) if seen is not None}
        tile = lcm(*(tile_along(self.schedules[number], seen.loop) for number, seen in visible.items()))
        found: dict[int, Limits] = {}
        for number, seen in visible.items():
            rows = next((span for loop, span in zip(self.shared, spans, strict=True) if loop[number] == seen.row), None)
            if rows is None:
                raise ValueError(f"visible: the bounds depend on loop {seen.row}, which the statements do not share")
            columns = self.statements[number].extents[seen.loop]
            found[number] = visible_limits(self.builder, seen, rows, columns, tile)
        return found

    def emit_run(
        self, run: _Run, spans: Sequence[Span], limits: Mapping[int, Limits], buffers: dict[SSAValue, Buffer]
    ) -> None:
        """The statements of `run`, inside of loops over what they do one by one."""

        def inside(positions: list[Position]) -> None:
            narrowed = list(spans)
            for position, at in zip(run.loops, positions, strict=True):
                narrowed[position] = Span(spans[position].start + at, spans[position].local + at, 1)
            own = place_intermediates(self.kernel, self.lengths(narrowed), self.builder, run.intermediates)
            for number in run.statements:
                statement = self.statements[number]
                whole = [Span.whole(extent) for extent in statement.extents]
                for known, span in zip(self.shared, narrowed, strict=True):
                    whole[known[number]] = span
                if (seen := read_visible(statement)) is not None:
                    whole[seen.loop] = replace(whole[seen.loop], limits=limits[number])
                panels = self.ahead.get(number)
                emit_blocks(self.builder, statement, self.schedules[number], whole, buffers | own, panels)
            release_intermediates(own, self.builder)

        self.builder.parallel([Steps(0, spans[position].extent) for position in run.loops], inside)

    def lengths(self, spans: Sequence[Span]) -> dict[SharedLoop, int]:
        """How many iterations of each shared loop run together at most."""
        return {loop: int(most(span.extent)) for loop, span in zip(self.shared, spans, strict=True)}
