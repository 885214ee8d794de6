"""Generics of a kernel taken apart: operands with their maps, the body, and what both allow.

A pass reads the generics of a block, changes what it has read, and writes them back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.families.iteration_space import IterationSpace
from tenon.dialects.types.size import is_at_most


@dataclass(eq=False, slots=True)
class Generic:
    """A generic while it changes; the arguments of its body are the elements of `inputs`, then of `outputs`."""

    op: linalg.ops.GenericOp
    position: int
    block: Block
    inputs: list[tuple[SSAValue, AffineMap]]
    outputs: list[tuple[SSAValue, AffineMap]]
    results: list[SSAValue]
    extents: tuple[int, ...]
    is_parallel: bool
    has_changed: bool = False
    is_gone: bool = False

    def yielded(self, result: SSAValue) -> SSAValue:
        """The scalar that becomes the elements of `result`."""
        assert self.block.last_op is not None
        return self.block.last_op.operands[self.results.index(result)]

    def is_elementwise(self) -> bool:
        """Whether each iteration writes one element of each result, without reading what was there."""
        arguments = self.block.args[len(self.inputs) :]
        return (
            self.is_parallel
            and all(len(m.results) == m.num_dims and m.is_projected_permutation() for _, m in self.outputs)
            and all(argument.first_use is None for argument in arguments)
        )

    def rereads(self, index: int) -> bool:
        """Whether some element of this input is read by more than one iteration."""
        type_ = self.inputs[index][0].type
        return isinstance(type_, TensorType) and not is_at_most(prod(self.extents), prod(type_.get_shape()))


def read_generic(op: linalg.ops.GenericOp, position: int) -> Generic:
    """`op`, which is number `position` of its block, taken apart."""
    space = IterationSpace.of(op)
    return Generic(
        op=op,
        position=position,
        block=op.body.block,
        inputs=list(zip(op.inputs, space.operands, strict=True)),
        outputs=list(zip(op.outputs, space.results, strict=True)),
        results=list(op.results),
        extents=space.extents,
        is_parallel=all(space.parallel),
    )


def write_generic(generic: Generic) -> None:
    """Replace the op by one that is as `generic` says."""
    old = generic.op
    operands = [*generic.inputs, *generic.outputs]
    new = linalg.ops.GenericOp.create(
        operands=[value for value, _ in operands],
        result_types=[result.type for result in generic.results],
        properties={
            **old.properties,
            "indexing_maps": ArrayAttr([AffineMapAttr(map_) for _, map_ in operands]),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(generic.inputs), len(generic.outputs)]),
        },
        attributes=old.attributes,
        location=old.location,
        regions=[old.detach_region(old.body)],
    )
    assert old.parent is not None
    old.parent.insert_op_before(new, old)
    for before, after in zip(generic.results, new.results, strict=True):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    erase(old)


def erase(op: Operation) -> None:
    """Take an op out of its block and erase it."""
    op.detach()
    op.erase()


def loops_of_producer(producer: Generic, value: SSAValue, map_: AffineMap) -> list[AffineExpr]:
    """The loops of `producer` in terms of those of a consumer that reads its result `value` through `map_`."""
    _, out_map = producer.outputs[producer.results.index(value)]
    loops = list(map_.results)
    for expression, index in zip(out_map.results, map_.results, strict=True):
        assert isinstance(expression, AffineDimExpr)
        loops[expression.position] = index
    return loops


def composed(
    operands: Iterable[tuple[SSAValue, AffineMap]], loops: Sequence[AffineExpr], loop_count: int
) -> list[tuple[SSAValue, AffineMap]]:
    """Operands of a generic whose loops are `loops` of one with `loop_count` of them, as operands of that one."""
    return [(value, map_.replace_dims_and_symbols(loops, (), loop_count, 0)) for value, map_ in operands]


def tell_extents(maps: Iterable[AffineMap], outputs: Sequence[tuple[SSAValue, AffineMap]]) -> bool:
    """Whether each loop is an index of some operand as it stands, so that the operand's shape gives its extent."""
    told = {
        expression.position
        for map_ in (*maps, *(m for _, m in outputs))
        for expression in map_.results
        if isinstance(expression, AffineDimExpr)
    }
    return len(told) == outputs[0][1].num_dims


def indices_are_known(block: Block, loops: Sequence[AffineExpr]) -> bool:
    """Whether `map_indices` can replace all indices that the body asks for."""
    return all(
        isinstance(loops[op.dim.value.data], AffineDimExpr | AffineConstantExpr)
        for op in block.walk()
        if isinstance(op, linalg.ops.IndexOp)
    )


def map_indices(op: Operation, loops: Sequence[AffineExpr]) -> None:
    """Replace the loop indices that `op` or the ops in it ask for by those of the loops around them now."""
    for inner in tuple(op.walk()):
        if not isinstance(inner, linalg.ops.IndexOp):
            continue
        loop = loops[inner.dim.value.data]
        if isinstance(loop, AffineDimExpr):
            inner.properties["dim"] = IntegerAttr(loop.position, i64)
            continue
        assert isinstance(loop, AffineConstantExpr)
        assert inner.parent is not None
        constant = arith.ConstantOp(IntegerAttr(loop.value, IndexType()))
        inner.parent.insert_op_before(constant, inner)
        inner.result.replace_all_uses_with(constant.result)
        erase(inner)


def tidy_body(block: Block) -> None:
    """Merge equal ops and erase those whose results nothing uses; the ops in a body have no effects."""
    known: dict[Hashable, Operation] = {}
    for op in tuple(block.ops):
        if op.regions or not op.results:
            continue
        attributes = (tuple(op.properties.items()), tuple(op.attributes.items()), tuple(op.result_types))
        first = known.setdefault((op.name, tuple(op.operands), attributes), op)
        if first is not op:
            for result, kept in zip(op.results, first.results, strict=True):
                result.replace_all_uses_with(kept)
    for op in reversed(tuple(block.ops)):
        if op.results and all(result.first_use is None for result in op.results):
            erase(op)
