"""A loop of a statement in parts of equal length, and a rest.

for j < 1003: f(x[j])      for g < 8: for j < 112: f(x[g * 112 + j])      for j < 107: f(x[896 + j])

Before that, reductions of a kernel over the same loops become one statement with several results, so that what they
read is read once, and what is stored in front of them gets a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
    i32,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.linalg_builders import PARALLEL
from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.types.size import Size
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import require_buffers
from tenon.lowering.kernels.statement import (
    Kernel,
    LoopKind,
    Statement,
    element_type,
    kernels_of,
    read_kernel,
    root_of,
)
from tenon.lowering.loop_ir.nests import index_constant

WHOLE = 16
"""Elements whose multiple a part is: each begins where vectors do."""


def unscheduled_kernels(module: ModuleOp, pass_name: str) -> list[func.FuncOp]:
    """The kernels of whose loops nothing is said yet, which may be split. Raises `PassFailedException` where they work
    on tensors still."""
    found = [kernel for kernel in kernels_of(module) if {"grid", "schedule"}.isdisjoint(kernel.attributes)]
    for kernel in found:
        require_buffers(kernel, pass_name)
    return found


def calls_of(module: ModuleOp, name: str) -> list[func.CallOp]:
    """What calls a kernel, before anything of it is changed."""
    return [call for call in ops_of(module, func.CallOp) if call.callee.string_value() == name]


@dataclass(frozen=True)
class Parts:
    """`count` parts of `length` iterations, and `rest` more."""

    count: int
    length: int
    rest: int

    @staticmethod
    def of(total: int, most: int) -> Parts:
        """About `most` parts of `total` iterations, so that little is left; one, if there are not enough."""
        found = Parts(1, total, 0)
        for count in range(most, max(most - most // 8, 2) - 1, -1):
            length = total // count
            length = length // WHOLE * WHOLE or length
            rest = total - count * length
            if length and (found.count == 1 or rest < found.rest):
                found = Parts(count, length, rest)
        return found


@dataclass(frozen=True)
class Part:
    """Iterations of a statement's `loop`: from `start` on `length`; as `cut`, of all parts, a loop over which is in
    front of it."""

    loop: int
    length: int
    start: int = 0
    cut: bool = False

    def map(self, places: AffineMap) -> AffineMap:
        """Where an access is then."""
        before: list[AffineExpr] = [AffineDimExpr(n + int(self.cut and n > self.loop)) for n in range(places.num_dims)]
        here = AffineDimExpr(self.loop)
        if self.cut:
            before[self.loop] = here * self.length + AffineDimExpr(self.loop + 1)
        elif self.start:
            before[self.loop] = here + self.start
        return places.replace_dims_and_symbols(before, [], places.num_dims + int(self.cut), 0)

    def replace(
        self, op: linalg.ops.GenericOp, outputs: Sequence[tuple[SSAValue, AffineMap]], kept: Sequence[int]
    ) -> linalg.ops.GenericOp:
        """Put these iterations in the place of all of a statement. Of what its body yields, those `kept` are written to
        `outputs`; extents are read off an operand that is allocated for that."""
        inputs, count = len(op.inputs), len(op.iterator_types.data) + int(self.cut)
        region = op.detach_region(op.body)
        block, last = region.block, region.block.last_op
        assert last is not None
        self._move_indices(block)
        written = len(last.operands)
        last.operands = [last.operands[n] for n in kept]
        for n in reversed([n for n in range(written) if n not in kept]):
            block.erase_arg(block.args[inputs + n])
        element = element_type(outputs[0][0])
        extents = memref.AllocOp([], [], MemRefType(element, [self.length]))
        block.insert_arg(element, inputs)
        _drop_unused(block)
        here = AffineMap(count, 0, (AffineDimExpr(self.loop + int(self.cut)),))
        maps = [*[self.map(places.data) for places in op.indexing_maps.data[:inputs]], here]
        kinds = list(op.iterator_types.data)
        if self.cut:
            kinds.insert(self.loop, PARALLEL)
        new = linalg.ops.GenericOp.create(
            operands=[*op.inputs, extents.memref, *[value for value, _ in outputs]],
            properties={
                "indexing_maps": ArrayAttr([AffineMapAttr(m) for m in (*maps, *[places for _, places in outputs])]),
                "iterator_types": ArrayAttr(kinds),
                "operandSegmentSizes": DenseArrayBase.from_list(i32, [inputs + 1, len(outputs)]),
            },
            attributes=op.attributes,
            regions=[region],
            location=op.location,
        )
        assert op.parent is not None
        op.parent.insert_ops_before([extents, new], op)
        op.detach()
        op.erase()
        return new

    def _move_indices(self, body: Block) -> None:
        """Have the indices that a body asks for be those of the whole loop."""
        for op in [op for op in body.walk() if isinstance(op, linalg.ops.IndexOp)]:
            dim = op.dim.value.data
            builder = Builder(InsertPoint.before(op))
            if dim != self.loop:
                value = builder.insert(linalg.ops.IndexOp(dim + int(self.cut and dim > self.loop))).result
            else:
                value = builder.insert(linalg.ops.IndexOp(self.loop + int(self.cut))).result
                before: SSAValue = index_constant(builder, self.start)
                if self.cut:
                    part = builder.insert(linalg.ops.IndexOp(self.loop)).result
                    before = builder.insert(arith.MuliOp(part, index_constant(builder, self.length))).result
                value = builder.insert(arith.AddiOp(before, value)).result
            op.result.replace_all_uses_with(value)
            op.detach()
            op.erase()


def copied_kernel(
    module: ModuleOp, function: func.FuncOp, op: linalg.ops.GenericOp, name: str
) -> tuple[func.FuncOp, linalg.ops.GenericOp]:
    """A kernel in front of another one that does `op` of it alone, whose outputs and what was before are to be set."""
    copy = function.clone()
    twin = next(new for old, new in zip(function.walk(), copy.walk(), strict=True) if old is op)
    assert isinstance(twin, linalg.ops.GenericOp)
    copy.properties["sym_name"] = StringAttr(name)
    copy.attributes.pop("num_inputs", None)
    copy.attributes.pop("num_outputs", None)
    for other in [*copy.body.block.ops]:
        if other is not twin and isinstance(other, linalg.ops.GenericOp | linalg.ops.FillOp | memref.DeallocOp):
            other.detach()
            other.erase()
    module.body.block.insert_op_before(copy, function)
    return copy, twin


def add_arguments(function: func.FuncOp, types: Sequence[MemRefType]) -> list[SSAValue]:
    """Further arguments of a kernel, behind all others."""
    block = function.body.block
    added: list[SSAValue] = [block.insert_arg(type_, len(block.args)) for type_ in types]
    function.function_type = FunctionType.from_lists([argument.type for argument in block.args], [])
    return added


def _drop_unused(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if op.results and not any(result.first_use for result in op.results):
            op.detach()
            op.erase()


def drop_unused(function: func.FuncOp) -> list[int]:
    """Take from a kernel what nothing uses; the numbers of the arguments that are left."""
    block = function.body.block
    _drop_unused(block)
    used = [number for number, argument in enumerate(block.args) if argument.first_use is not None]
    for argument in [argument for argument in block.args if argument.first_use is None]:
        block.erase_arg(argument)
    function.function_type = FunctionType.from_lists([argument.type for argument in block.args], [])
    return used


def join_reductions(function: func.FuncOp, kernel: Kernel) -> Kernel:
    """Make one statement of those that a kernel begins with, if each of them combines, by monoids, what no other one
    computes, along the same loops, and what follows is done for their results alone. The kernel as it is then."""
    joined: list[Statement] = []
    for statement in kernel.statements:
        if not _is_reduction(statement) or (joined and not _fits(joined, statement)):
            break
        joined.append(statement)
    if len(joined) < 2 or len(kernel.statements) != len(kernel.items) or not _nothing_between(joined):
        return kernel
    first = joined[0]
    results = prod(first.extents[loop] for loop in first.loops(LoopKind.PARALLEL))
    if any(prod(other.extents) > results for other in kernel.statements[len(joined) :]):
        return kernel
    _join([statement.op for statement in joined])
    return read_kernel(function)


def separate_elements(module: ModuleOp, function: func.FuncOp, is_long: Callable[[Statement], bool]) -> None:
    """Give a kernel of its own to what is computed element by element, and stored, in front of a reduction that is
    long: that reads it from memory, and can be cut into parts then."""
    kernel = read_kernel(function)
    if len(kernel.statements) != len(kernel.items):
        return
    number = next((n for n, statement in enumerate(kernel.statements) if is_long(statement)), 0)
    ahead, arguments = kernel.statements[:number], function.body.block.args
    for statement in ahead:
        is_elementwise = set(statement.kinds) == {LoopKind.PARALLEL} and not statement.body_loads()
        if not is_elementwise or any(root_of(output.buffer) not in arguments for output in statement.outputs):
            return
        if any(statement.reads_output(n) for n in range(len(statement.outputs))):
            return
    name = function.sym_name.data
    for at, statement in enumerate(ahead):
        copy, _ = copied_kernel(module, function, statement.op, f"{name}_elements{at or ''}")
        kept = drop_unused(copy)
        for call in calls_of(module, name):
            made = func.CallOp(copy.sym_name.data, [call.operands[n] for n in kept], [])
            assert call.parent is not None
            call.parent.insert_op_before(made, call)
        statement.op.detach()
        statement.op.erase()


def _is_reduction(statement: Statement) -> bool:
    monoids = [combining_monoid(statement.body, accumulator) for accumulator in statement.accumulators]
    is_known = not any(isinstance(extent, Size) for extent in statement.extents)
    return (
        is_known and None not in monoids and None not in statement.initial and bool(statement.loops(LoopKind.REDUCTION))
    )


def _fits(joined: Sequence[Statement], statement: Statement) -> bool:
    """Whether a statement runs over the same loops as those before, and reads nothing that these write."""
    first = joined[0]
    written = {root_of(output.buffer) for known in joined for output in known.outputs}
    return (statement.extents, statement.kinds) == (first.extents, first.kinds) and not any(
        root_of(access.buffer) in written for access in statement.accesses
    )


def _nothing_between(joined: Sequence[Statement]) -> bool:
    """Whether all between the statements are new buffers, constants, and initial values of others."""
    op: Operation | None = joined[0].op
    ops = {statement.op for statement in joined}
    while op is not None and op is not joined[-1].op:
        if op not in ops and not isinstance(op, memref.AllocOp | arith.ConstantOp | linalg.ops.FillOp):
            return False
        op = op.next_op
    return True


def _join(ops: Sequence[linalg.ops.GenericOp]) -> None:
    """Put one op in the place of the last one of several; what several of them read is one operand."""
    last = ops[-1]
    inputs: dict[tuple[SSAValue, AffineMapAttr], int] = {}
    for op in ops:
        for value, places in zip(op.inputs, op.indexing_maps.data, strict=False):
            inputs.setdefault((value, places), len(inputs))
    outputs = [value for op in ops for value in op.outputs]
    maps = [places for _, places in inputs]
    body = Block(arg_types=[element_type(value) for value in (*[value for value, _ in inputs], *outputs)])
    written, results = iter(body.args[len(inputs) :]), list[SSAValue]()
    for op in ops:
        count, own = len(op.inputs), op.body.block.args
        maps_of = op.indexing_maps.data
        read = [body.args[inputs[pair]] for pair in zip(op.inputs, maps_of, strict=False)]
        known: dict[SSAValue, SSAValue] = dict(zip(own, (*read, *[next(written) for _ in own[count:]]), strict=True))
        for inner in op.body.block.ops:
            if isinstance(inner, linalg.ops.YieldOp):
                results += [known.get(value, value) for value in inner.operands]
            else:
                body.add_op(inner.clone(known))
    maps += [places for op in ops for places in op.indexing_maps.data[len(op.inputs) :]]
    body.add_op(linalg.ops.YieldOp(*results))
    operands = [value for value, _ in inputs]
    joined = linalg.ops.GenericOp(operands, outputs, Region(body), ArrayAttr(maps), last.iterator_types)
    assert last.parent is not None
    last.parent.insert_op_before(joined, last)
    for op in ops:
        op.detach()
        op.erase()
