"""Reductions in two phases whose parts are ranges of an index, for lengths that no number of parts divides, and for
selections; see `reduce_in_parts`.

    parts[g] = sum over j < 112 of f(x[g * 112 + j])    parts[8] = sum over j < 107 of f(x[896 + j])
    out = sum over g < 9 of parts[g]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, MemRefType, ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.linalg_builders import ASSOCIATIVE, PARALLEL, REDUCTION
from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.lowering.buffers.memref_facts import row_major_strides
from tenon.lowering.grid_schedules.parts import (
    Part,
    Parts,
    add_arguments,
    calls_of,
    copied_kernel,
    drop_unused,
)
from tenon.lowering.kernels.selection import Selection, slice_of
from tenon.lowering.kernels.statement import LoopKind, Statement, buffer_shape, element_type


@dataclass(frozen=True)
class UnevenReduction:
    """A kernel whose `first` statement reduces along `loop`, and others inside of it, which is to be done in `parts`;
    `selection` is what it selects, if it does not combine by monoids."""

    function: func.FuncOp
    first: Statement
    loop: int
    parts: Parts
    selection: Selection | None

    def split(self, module: ModuleOp) -> None:
        """Make kernels of the parts, of the rest and of what combines them, and change what calls the old one."""
        shapes = [buffer_shape(output.buffer) for output in self.first.outputs]
        elements = [element_type(output.buffer) for output in self.first.outputs]
        total = self.parts.count + int(self.parts.rest > 0)
        name = self.function.sym_name.data
        kernels = [self._kernel(module, f"{name}_parts", Part(self.loop, self.parts.length, cut=True))]
        if self.parts.rest:
            start = self.parts.count * self.parts.length
            kernels.append(self._kernel(module, f"{name}_rest", Part(self.loop, self.parts.rest, start)))
        types = [MemRefType(element, [total, *shape]) for element, shape in zip(elements, shapes, strict=True)]
        combine_parts(self.function, self.first, types, self.selection or self._monoids())
        for call in calls_of(module, name):
            builder = Builder(InsertPoint.before(call))
            made = [builder.insert(memref.AllocOp([], [], type_)).memref for type_ in types]
            operands = list(call.operands)
            for n, (kernel, numbers) in enumerate(kernels):
                count, first = ([self.parts.count], 0) if n == 0 else ([], self.parts.count)
                views = [
                    _view(builder, buffer, [*count, *shape], first * prod(shape))
                    for buffer, shape in zip(made, shapes, strict=True)
                ]
                everything = [*operands, *views]
                builder.insert(func.CallOp(kernel, [everything[number] for number in numbers], []))
            call.operands = (*operands, *made)

    def _monoids(self) -> list[Monoid | None]:
        return [combining_monoid(self.first.body, accumulator) for accumulator in self.first.accumulators]

    def _kernel(self, module: ModuleOp, name: str, part: Part) -> tuple[str, list[int]]:
        """A kernel of one part, or of each; its name, and which of the old arguments and new buffers it takes."""
        function, op = copied_kernel(module, self.function, self.first.op, name)
        leading = [self.parts.count] if part.cut else []
        shapes = [[*leading, *buffer_shape(output.buffer)] for output in self.first.outputs]
        types = [
            MemRefType(element_type(output.buffer), shape)
            for output, shape in zip(self.first.outputs, shapes, strict=True)
        ]
        outputs = add_arguments(function, types)
        for number, (output, monoid) in enumerate(zip(outputs, self._monoids(), strict=True)):
            builder = Builder(InsertPoint.before(op))
            if self.selection is None:
                assert monoid is not None
                start: Operation = arith.ConstantOp(monoid.identity(element_type(output)))
            else:
                initial = self.first.initial[number]
                assert initial is not None
                assert isinstance(initial.owner, Operation)
                start = initial.owner.clone()
            builder.insert(start)
            builder.insert(linalg.ops.FillOp([start.results[0]], [output], []))
        places: list[tuple[SSAValue, AffineMap]] = []
        for value, attribute in zip(outputs, op.indexing_maps.data[len(op.inputs) :], strict=True):
            inner = part.map(attribute.data)
            front: list[AffineExpr] = [AffineDimExpr(self.loop)] if part.cut else []
            places.append((value, AffineMap(inner.num_dims, 0, (*front, *inner.results))))
        part.replace(op, places, range(len(outputs)))
        return name, drop_unused(function)


def _view(builder: Builder, buffer: SSAValue, shape: Sequence[int], offset: int) -> SSAValue:
    type_ = MemRefType(element_type(buffer), list(shape))
    cast = memref.ReinterpretCastOp(buffer, [], [], [], [offset], list(shape), row_major_strides(shape), type_)
    return builder.insert(cast).result


def combine_parts(
    function: func.FuncOp, first: Statement, parts: Sequence[MemRefType], how: Sequence[Monoid | None] | Selection
) -> None:
    """Have a kernel reduce parts, further arguments, along their first dimension in place of its first statement."""
    op, count = first.op, len(parts)
    arguments = add_arguments(function, parts)
    kept = first.loops(LoopKind.PARALLEL)
    places = {loop: AffineDimExpr(1 + number) for number, loop in enumerate(kept)}
    body = Block(arg_types=[element_type(value) for value in (*arguments, *op.outputs)])
    if isinstance(how, Selection):
        combined = _better(first, how, body)
    else:
        combined = []
        for number, monoid in enumerate(how):
            assert monoid is not None
            total = monoid.combine(body.args[count + number], body.args[number], reordered=True)
            body.add_op(total)
            combined.append(total.results[0])
    body.add_op(linalg.ops.YieldOp(*combined))
    results = [[places[loop] for loop in output.plain_loops() if loop is not None] for output in first.outputs]
    maps = [AffineMap(1 + len(kept), 0, (AffineDimExpr(0), *result)) for result in results]
    maps += [AffineMap(1 + len(kept), 0, tuple(result)) for result in results]
    combining = linalg.ops.GenericOp(
        arguments,
        list(op.outputs),
        Region(body),
        ArrayAttr([AffineMapAttr(map_) for map_ in maps]),
        ArrayAttr([REDUCTION, *[PARALLEL] * len(kept)]),
    )
    if isinstance(how, Selection):
        combining.attributes[ASSOCIATIVE] = UnitAttr()
    function.body.block.insert_op_before(combining, op)
    op.detach()
    op.erase()


def _better(first: Statement, selection: Selection, body: Block) -> list[SSAValue]:
    """The best so far, or a part's if that is better: of parts that are as good the first one stays."""
    count = len(first.outputs)
    known: dict[SSAValue, SSAValue] = {
        selection.new: body.args[selection.output],
        selection.accumulator: body.args[count + selection.output],
    }
    ops = slice_of([selection.condition], (selection.new, selection.accumulator))
    for op in first.body.ops:
        if op in ops:
            copy = op.clone(known)
            body.add_op(copy)
            known.update(zip(op.results, copy.results, strict=True))
    condition = known[selection.condition]
    chosen = [arith.SelectOp(condition, body.args[n], body.args[count + n]) for n in range(count)]
    body.add_ops(chosen)
    return [op.result for op in chosen]
