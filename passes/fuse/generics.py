"""Generics of a kernel taken apart: operands with their maps, the body, and what both allow.

A pass reads the generics of a block, changes what it has read, and writes them back.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, tensor
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

from tenon.dialects.definition.scalar import index_constant
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting
from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.families.linalg_builders import PARALLEL, REDUCTION


@dataclass(eq=False, slots=True)
class Generic:
    """A generic while it changes; the arguments of its body are the elements of `inputs`, then of `outputs`, which are
    the operands and results of `space`."""

    op: linalg.ops.GenericOp
    position: int
    block: Block
    inputs: list[SSAValue]
    outputs: list[SSAValue]
    results: list[SSAValue]
    space: IterationSpace
    has_changed: bool = False
    is_gone: bool = False

    @property
    def is_parallel(self) -> bool:
        return all(self.space.parallel)

    @property
    def reads(self) -> list[tuple[SSAValue, AffineMap]]:
        """The inputs with their maps."""
        return list(zip(self.inputs, self.space.operands, strict=True))

    def yielded(self, result: SSAValue) -> SSAValue:
        """The scalar that becomes the elements of `result`."""
        assert self.block.last_op is not None
        return self.block.last_op.operands[self.results.index(result)]

    def is_elementwise(self) -> bool:
        """Whether each iteration writes one element of each result, without reading what was there."""
        arguments = self.block.args[len(self.inputs) :]
        return (
            self.is_parallel
            and all(len(m.results) == m.num_dims and m.is_projected_permutation() for m in self.space.results)
            and all(argument.first_use is None for argument in arguments)
        )

    def rereads(self, index: int) -> bool:
        """Whether some element of this input is read by more than one iteration."""
        type_ = self.inputs[index].type
        return isinstance(type_, TensorType) and self.space.rereads(type_.get_shape())


def read_generic(op: linalg.ops.GenericOp, position: int) -> Generic:
    """`op`, which is number `position` of its block, taken apart."""
    return Generic(
        op=op,
        position=position,
        block=op.body.block,
        inputs=list(op.inputs),
        outputs=list(op.outputs),
        results=list(op.results),
        space=IterationSpace.of(op),
    )


def write_generic(generic: Generic) -> None:
    """Replace the op by one that is as `generic` says."""
    old, space = generic.op, generic.space
    new = linalg.ops.GenericOp.create(
        operands=[*generic.inputs, *generic.outputs],
        result_types=[result.type for result in generic.results],
        properties={
            **old.properties,
            "indexing_maps": ArrayAttr([AffineMapAttr(places) for places in (*space.operands, *space.results)]),
            "iterator_types": ArrayAttr([PARALLEL if parallel else REDUCTION for parallel in space.parallel]),
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


def element_at(generic: Generic, result: SSAValue, indices: Sequence[SSAValue], place: Operation) -> SSAValue:
    """The element of `result`, of an elementwise generic that reads its inputs at loops, computed in front of the op
    `place`."""
    ops: list[Operation] = []

    def added(op: Operation) -> SSAValue:
        ops.append(op)
        return op.results[0]

    loops: dict[int, SSAValue] = {}
    for loop, index in zip(generic.space.results[generic.results.index(result)].results, indices, strict=True):
        assert isinstance(loop, AffineDimExpr)
        loops[loop.position] = index

    def index_of(expr: AffineExpr) -> SSAValue:
        if isinstance(expr, AffineDimExpr):
            return loops[expr.position]
        assert isinstance(expr, AffineConstantExpr)
        return added(arith.ConstantOp.from_int_and_width(expr.value, IndexType()))

    known: dict[SSAValue, SSAValue] = {}
    for argument, (value, places) in zip(generic.block.args, generic.reads, strict=False):
        known[argument] = added(tensor.ExtractOp(value, [index_of(expr) for expr in places.results], argument.type))
    for op in tuple(generic.block.ops)[:-1]:
        if isinstance(op, linalg.ops.IndexOp):
            known[op.result] = loops[op.dim.value.data]
        else:
            known[op.results[0]] = added(op.clone(known))
    found = generic.yielded(result)
    found = known.get(found, found)
    assert place.parent is not None
    place.parent.insert_ops_before(ops, place)
    for op in reversed(ops):
        if op.results[0] is not found and op.results[0].first_use is None:
            erase(op)
    return found


def only_moves(generic: Generic) -> bool:
    """Whether the body takes an element at a place that follows from its loops, as padding does: `split-index-sets`
    leaves nothing else of it."""
    return not generic.inputs and all(
        isinstance(op, linalg.ops.IndexOp | tensor.ExtractOp | linalg.ops.YieldOp)
        or all(isinstance(result.type, IndexType) for result in op.results)
        for op in generic.block.ops
    )


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
        assert inner.parent is not None
        with inserting(InsertionPoint(inner.parent, inner, scalar=True)):
            inner.result.replace_all_uses_with(place_value(Subscript.of(loop)).ssa)
        erase(inner)


def place_value(place: Subscript) -> Value:
    """`place` as a number, in a body."""
    total: Value | None = None
    for loop, factor in place.factors.items():
        index = Value(emit(linalg.ops.IndexOp(loop)).results[0])
        part = index * factor if factor != 1 else index
        total = part if total is None else total + part
    if total is None:
        return index_constant(place.constant)
    return total + place.constant if place.constant else total


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
