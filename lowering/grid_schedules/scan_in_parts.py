"""`scan-in-parts`: long scans of few rows, for a GPU (text, see `Gpu`), in three phases.

Before: the buffered stage. After: a kernel that is nothing but a scan (see `kernels.scans`) whose rows leave
multiprocessors without work is three, with parts of equal length: `@k_parts` reduces each, `@k_starts` scans these, and
the kernel itself scans each part from the state that is before it. What is left over is scanned by `@k_rest`.

    total[g] = f(x[g * 4096 + j] for all j)    start[g] = f(total[h] for h < g)    y[g * 4096 + j] = f(start[g], x[...])

Parts depend on sizes and the machine alone, so results are the same from launch to launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.linalg_builders import PARALLEL, REDUCTION
from tenon.dialects.types.size import Size
from tenon.lowering.grid_schedules.parts import (
    Part,
    Parts,
    add_arguments,
    calls_of,
    copied_kernel,
    drop_unused,
    unscheduled_kernels,
)
from tenon.lowering.kernels.scans import Scan, scan_of
from tenon.lowering.kernels.statement import (
    LoopKind,
    Statement,
    buffer_shape,
    element_type,
    read_kernel,
)
from tenon.passes.machine import Gpu

LEAST_ELEMENTS = 1 << 17
"""That two more launches are worth."""
SHORTEST_ROW, SHORTEST_COLUMN = 2048, 64
"""Elements of a part: what its threads have at a time."""
PARTS = 2
"""Blocks for each multiprocessor."""


@dataclass(frozen=True)
class ScanInPartsPass(ModulePass):
    """Make several kernels of long scans of few rows."""

    name = "scan-in-parts"

    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = Gpu.of_option(self.name, self.machine)
        for function in unscheduled_kernels(op, self.name):
            found = _find(function, machine)
            if found is not None:
                found.split(op)


def _find(function: func.FuncOp, machine: Gpu) -> _LongScan | None:
    """How a kernel is to be split, if it is."""
    kernel = read_kernel(function)
    if not kernel.statements or len(kernel.statements) != len(kernel.items):
        return None
    *others, last = kernel.statements
    scan = scan_of(last)
    if scan is None or LoopKind.SEQUENTIAL not in last.kinds or any(isinstance(e, Size) for e in last.extents):
        return None
    starts = [_filled(last.outputs[n].buffer, others) for n in scan.states]
    if None in starts or len(others) != len(starts):
        return None
    for access in last.accesses:
        type_ = access.buffer.type
        if not isinstance(type_, MemRefType) or type_.layout != NoneAttr():
            return None
    for state in (last.outputs[n] for n in scan.states):
        if any(loop is None and size != 1 for loop, size in zip(state.plain_loops(), state.shape, strict=True)):
            return None
    length, total = last.extents[scan.loop], prod(last.extents)
    is_row = any(abs(access.step(scan.loop)) == 1 for access in last.inputs if access.is_used)
    rows = total // max(length, 1)
    blocks = rows if is_row else -(-rows // machine.warp)
    if total < LEAST_ELEMENTS or 3 * blocks > 2 * machine.multiprocessors:
        return None
    shortest = SHORTEST_ROW if is_row else SHORTEST_COLUMN
    parts = Parts.of(length, min(PARTS * machine.multiprocessors // max(blocks, 1), length // shortest))
    initial = [value for value in starts if value is not None]
    return _LongScan(function, last, scan, parts, initial) if parts.count > 1 else None


def _filled(state: SSAValue, statements: Sequence[Statement]) -> Operation | None:
    """The constant that a state starts from."""
    if not isinstance(state.owner, memref.AllocOp):
        return None
    for statement in statements:
        last = statement.body.last_op
        if len(statement.outputs) == 1 and statement.outputs[0].buffer is state and last is not None:
            value = last.operands[0].owner
            return value if isinstance(value, arith.ConstantOp) else None
    return None


@dataclass(frozen=True)
class _LongScan:
    """A kernel that does a scan and nothing else, which is to be done in `parts`; `initial` are the constants that its
    states start from."""

    function: func.FuncOp
    statement: Statement
    scan: Scan
    parts: Parts
    initial: Sequence[Operation]

    def split(self, module: ModuleOp) -> None:
        """Make several kernels of the function, and change what calls it."""
        name, states = self.function.sym_name.data, self._states()
        ends = [MemRefType(element_type(state), buffer_shape(state)) for state in states]
        each = [MemRefType(element_type(state), [*buffer_shape(state), self.parts.count]) for state in states]
        calls = [self._reduce(module, f"{name}_parts", each), self._scan_parts(module, f"{name}_starts", each, ends)]
        rest = self._rest(module, f"{name}_rest", ends) if self.parts.rest else None
        self._scan_each(each)
        for call in calls_of(module, name):
            builder = Builder(InsertPoint.before(call))
            operands = list(call.operands)
            made = [[builder.insert(memref.AllocOp([], [], t)).memref for t in types] for types in (each, each, ends)]
            totals, starts, end = made
            for (kernel, numbers), values in zip(calls, ([*operands, *totals], [*totals, *starts, *end]), strict=True):
                builder.insert(func.CallOp(kernel, [values[number] for number in numbers], []))
            call.operands = (*operands, *starts)
            if rest is not None:
                kernel, numbers = rest
                values = [*operands, *end]
                behind = Builder(InsertPoint.after(call))
                behind.insert(func.CallOp(kernel, [values[number] for number in numbers], []))

    def _states(self) -> list[SSAValue]:
        return [self.statement.outputs[n].buffer for n in self.scan.states]

    def _places(self, part: Part, op: linalg.ops.GenericOp, number: int) -> AffineMap:
        """Where an output of `op` is written by a part: a state has a place for each."""
        places = part.map(op.indexing_maps.data[len(op.inputs) + number].data)
        if part.cut and number in self.scan.states:
            return AffineMap(places.num_dims, 0, (*places.results, AffineDimExpr(part.loop)))
        return places

    def _reduce(self, module: ModuleOp, name: str, each: Sequence[MemRefType]) -> tuple[str, list[int]]:
        """The kernel that reduces each part."""
        function, op = copied_kernel(module, self.function, self.statement.op, name)
        part = Part(self.scan.loop, self.parts.length, cut=True)
        outputs: list[tuple[SSAValue, AffineMap]] = []
        for n, total in zip(self.scan.states, add_arguments(function, each), strict=True):
            builder = Builder(InsertPoint.before(op))
            start = builder.insert(self._neutral(n, element_type(total)))
            builder.insert(linalg.ops.FillOp([start.results[0]], [total], []))
            outputs.append((total, self._places(part, op, n)))
        part.replace(op, outputs, self.scan.states)
        return name, drop_unused(function)

    def _neutral(self, output: int, element: Attribute) -> Operation:
        """What a part starts from."""
        number = self.scan.states.index(output)
        monoid = self.scan.monoids[number]
        return self.initial[number].clone() if monoid is None else arith.ConstantOp(monoid.identity(element))

    def _scan_parts(
        self, module: ModuleOp, name: str, each: Sequence[MemRefType], ends: Sequence[MemRefType]
    ) -> tuple[str, list[int]]:
        """The kernel that scans what parts come to: the states before each, and at the end."""
        body = Block(arg_types=[*each, *each, *ends])
        count, builder = len(each), Builder(InsertPoint.at_end(body))
        totals, starts, end = (body.args[n * count : (n + 1) * count] for n in range(3))
        states: list[SSAValue] = []
        for type_, initial in zip(ends, self.initial, strict=True):
            states.append(builder.insert(memref.AllocOp([], [], type_)).memref)
            start = builder.insert(initial.clone())
            builder.insert(linalg.ops.FillOp([start.results[0]], [states[-1]], []))
        elements = [element_type(value) for value in (*totals, *states, *starts)]
        step = Block(arg_types=elements)
        before = list(step.args[count : 2 * count])
        known: dict[SSAValue, SSAValue] = dict(zip(self.scan.elements, step.args[:count], strict=True))
        known |= {self.statement.accumulators[n]: value for n, value in zip(self.scan.states, before, strict=True)}
        for op in self.scan.combining:
            copy = op.clone(known)
            step.add_op(copy)
            known.update(zip(op.results, copy.results, strict=True))
        assert self.statement.body.last_op is not None
        after = [known[self.statement.body.last_op.operands[n]] for n in self.scan.states]
        step.add_op(linalg.ops.YieldOp(*after, *before))
        rank = len(each[0].get_shape())
        whole, kept = AffineMap.identity(rank), AffineMap(rank, 0, tuple(map(AffineDimExpr, range(rank - 1))))
        generic = linalg.ops.GenericOp(
            totals,
            [*states, *starts],
            Region(step),
            ArrayAttr([AffineMapAttr(m) for m in (*[whole] * count, *[kept] * count, *[whole] * count)]),
            ArrayAttr([*[PARALLEL] * (rank - 1), REDUCTION]),
        )
        generic.attributes |= self.statement.op.attributes
        builder.insert(generic)
        for state, last in zip(states, end, strict=True):
            builder.insert(memref.CopyOp(state, last))
        builder.insert(func.ReturnOp())
        function = func.FuncOp(name, FunctionType.from_lists(body.arg_types, []), Region(body), StringAttr("private"))
        function.attributes["kernel"] = UnitAttr()
        module.body.block.insert_op_before(function, self.function)
        return name, list(range(3 * count))

    def _rest(self, module: ModuleOp, name: str, ends: Sequence[MemRefType]) -> tuple[str, list[int]]:
        """The kernel that scans what is behind all parts."""
        function, op = copied_kernel(module, self.function, self.statement.op, name)
        part = Part(self.scan.loop, self.parts.rest, self.parts.count * self.parts.length)
        outputs = [(value, self._places(part, op, n)) for n, value in enumerate(op.outputs)]
        builder = Builder(InsertPoint.before(op))
        for n, end in zip(self.scan.states, add_arguments(function, ends), strict=True):
            builder.insert(memref.CopyOp(end, op.outputs[n]))
        part.replace(op, outputs, range(len(outputs)))
        return name, drop_unused(function)

    def _scan_each(self, each: Sequence[MemRefType]) -> None:
        """Have the function scan each part from its start."""
        op, part = self.statement.op, Part(self.scan.loop, self.parts.length, cut=True)
        outputs = [(value, self._places(part, op, n)) for n, value in enumerate(op.outputs)]
        builder = Builder(InsertPoint.before(op))
        for n, start in zip(self.scan.states, add_arguments(self.function, each), strict=True):
            state = builder.insert(memref.AllocOp([], [], start.type)).memref
            builder.insert(memref.CopyOp(start, state))
            outputs[n] = (state, outputs[n][1])
        states = self._states()
        part.replace(op, outputs, range(len(outputs)))
        for old in states:
            for use in list(old.uses):  # the fills
                use.operation.detach()
                use.operation.erase()
            assert isinstance(old.owner, memref.AllocOp)
            old.owner.detach()
            old.owner.erase()
