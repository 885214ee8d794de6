"""A loop of a statement in parts of equal length, and a rest.

for j < 1003: f(x[j])      for g < 8: for j < 112: f(x[g * 112 + j])      for j < 107: f(x[896 + j])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.linalg_builders import PARALLEL
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import require_buffers
from tenon.lowering.kernels.statement import element_type, kernels_of
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
