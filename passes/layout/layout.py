"""Gives ops the layouts that they ask for, and moves transposes to where they cost least.

Before: tensor ops, composites included. After: no op is left that asks for a layout; transposes that follow each
other have cancelled; those next to a contraction or a reduction have become part of its index maps or axes, where
nothing is copied; those that remain are copies. A contraction over windows keeps the transposes without which it would
have no neighbours to compute together.

A memory layout is an order of dimensions: the tensor transposed into that order, in row-major memory. An op class
asks for layouts by `LAYOUTS` and the hook `laid_out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, Value, inserting
from tenon.dialects.families import (
    ArgReductionOp,
    ContractionOp,
    ElementwiseOp,
    IndexingOp,
    IndexMapOp,
    ReductionOp,
    as_tuple,
)
from tenon.dialects.families.indexing import LoopStructure
from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.shape import ReshapeOp, TransposeOp
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import is_known, shape_of
from tenon.passes.machine import Machine
from tenon.passes.simplify.canonicalize import Canonicalizer
from tenon.passes.simplify.dce import Effects
from tenon.passes.simplify.equation import by_class, replace_same_type
from tenon.passes.simplify.equations_shape import (
    BroadcastIsImplied,
    IdentityTranspose,
    ReshapeOfReshape,
    SameShape,
    TransposeOfTranspose,
    axis_order,
)

Order = tuple[int, ...]
# How many ops behind a transpose are looked at for one that takes it in.
_FARTHEST = 64


@dataclass(frozen=True)
class LayoutPass(ModulePass):
    """Lay operands out as ops ask for it, and let transposes cancel, move and become index maps, but for those that
    give vectors of the `machine` (text, see `Machine`) neighbours."""

    name = "layout"
    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = Machine.of_option(self.name, self.machine)
        for inner in list(op.walk()):
            if isinstance(inner, TensorOp) and inner.LAYOUTS:
                give_layouts(inner)
        Canonicalizer(Effects(op), _equations(machine)).run(op)


def give_layouts(op: TensorOp) -> None:
    """Replace `op` by what its hook `laid_out` computes on transposed operands, transposed back."""
    layouts = op.LAYOUTS
    block = op.parent
    assert block is not None
    before = op.prev_op
    with inserting(InsertionPoint(block, op)):
        operands = [
            map_grouped(partial(_in_order, layouts.get(declared.name)), (given,))[0]
            for declared, given in zip(op.SIGNATURE.operands, op.grouped_operands(), strict=True)
        ]
        results = as_tuple(op.laid_out(*operands, **op.settings))
        restored: list[SSAValue] = []
        for name, value in zip(op.SIGNATURE.results, results, strict=True):
            order = layouts.get(name)
            restored.append((value if order is None else _transposed(value, _inverse(order))).ssa)
    current = block.first_op if before is None else before.next_op
    while current is not None and current is not op:
        current.location = op.location
        current = current.next_op
    for old, new in zip(op.results, restored, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)


def _in_order(order: Order | None, value: SSAValue) -> Value:
    return Value(value) if order is None else _transposed(Value(value), order)


def _transposed(value: Value, order: Order) -> Value:
    return TransposeOp.apply(value, permutation=order)


def _inverse(order: Order) -> Order:
    return tuple([order.index(axis) for axis in range(len(order))])


def _order_of(value: SSAValue) -> Order | None:
    """The order of axes in which `value` is a transpose of another one, which no one else uses."""
    return axis_order(value.owner) if isinstance(value.owner, TransposeOp) and value.has_one_use() else None


class TransposeAfterElementwise(RewritePattern):
    """f(transpose(x), y) -> transpose(f(x, y)), where the transpose can then cancel or become part of another op"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        if len(op.results) > 1 or not is_known(op.results[0].type):
            return
        order = next((found for value in op.operands if (found := _order_of(value)) is not None), None)
        if order is None or len(order) != len(shape_of(op.results[0].type) or ()):
            return
        if not _can_move(op, order) or not _is_taken_in(op.results[0], order, [_FARTHEST]):
            return
        added: list[Operation] = []
        operands = [_undone(value, order, added) for value in op.operands]
        moved = type(op).build_from(op.group(operands, op.properties), op.settings)
        moved.attributes = dict(op.attributes)
        back = TransposeOp.build_from([moved.results[0]], {"permutation": order})
        replace_same_type(op, rewriter, *added, moved, back)


def _can_move(op: ElementwiseOp, order: Order) -> bool:
    return all(_order_of(value) == order or _is_free_to_undo(value, order) for value in op.operands)


def _is_free_to_undo(value: SSAValue, order: Order) -> bool:
    """Whether `value`, broadcast to the rank of `order`, can be transposed back by a change of its shape alone."""
    if isinstance(value.owner, ConstantOp):
        return True
    shape = shape_of(value.type)
    if shape is None or -1 in shape:
        return False
    return _keeps_memory((1,) * (len(order) - len(shape)) + shape, _inverse(order))


def _keeps_memory(shape: Sequence[int], order: Order) -> bool:
    """Whether a transpose leaves elements where they are, since only axes of size 1 move."""
    moving = [axis for axis in order if shape[axis] != 1]
    return moving == sorted(moving)


def _undone(value: SSAValue, order: Order, added: list[Operation]) -> SSAValue:
    """`value` transposed back: the operand of the transpose that it is, or a reshape of it."""
    if _order_of(value) == order:
        assert isinstance(value.owner, TransposeOp)
        return value.owner.x
    shape = shape_of(value.type) or ()
    if all(size == 1 for size in shape):
        return value
    full = (1,) * (len(order) - len(shape)) + shape
    inverse = _inverse(order)
    if _keeps_memory(full, inverse):
        added.append(ReshapeOp.build_from([value], {"shape": tuple([full[axis] for axis in inverse])}))
        return added[-1].results[0]
    added.append(ReshapeOp.build_from([value], {"shape": full}))
    added.append(TransposeOp.build_from([added[-1].results[0]], {"permutation": inverse}))
    return added[-1].results[0]


def _is_taken_in(value: SSAValue, order: Order, budget: list[int]) -> bool:
    """Whether each use of a transposed `value` is, or leads to, an op that makes the transpose disappear."""
    if value.first_use is None:
        return False
    for use in value.uses:
        budget[0] -= 1
        user = use.operation
        if budget[0] < 0:
            return False
        if isinstance(user, TransposeOp | ContractionOp):
            continue
        if isinstance(user, ReductionOp):
            if _reduced_in(user, order) is None:
                return False
        elif isinstance(user, ElementwiseOp) and len(user.results) == 1:
            others = [operand for operand in user.operands if operand is not value]
            if not all(_is_transposed(other, order, budget) for other in others):
                return False
            if not _is_taken_in(user.results[0], order, budget):
                return False
        else:
            return False
    return True


def _is_transposed(value: SSAValue, order: Order, budget: list[int]) -> bool:
    """Whether `value` can be had transposed back for free, perhaps after other transposes have moved."""
    budget[0] -= 1
    if budget[0] < 0:
        return False
    if _order_of(value) == order or _is_free_to_undo(value, order):
        return True
    op = value.owner
    if not isinstance(op, ElementwiseOp) or not value.has_one_use():
        return False
    return all(_is_transposed(operand, order, budget) for operand in op.operands)


class TransposeIntoReduction(RewritePattern):
    """sum(transpose(x), axis) -> sum(x, permutation[axis]), and so for all reductions, where the rest stays in order"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReductionOp, rewriter: PatternRewriter, /) -> None:
        transpose = op.operands[0].owner
        if not isinstance(transpose, TransposeOp) or (order := axis_order(transpose)) is None:
            return
        axis = _reduced_in(op, order)
        if axis is not None:
            settings = {**op.settings, "axis": axis}
            replace_same_type(op, rewriter, type(op).build_from([transpose.x], settings))


def _reduced_in(op: ReductionOp, order: Order) -> int | tuple[int, ...] | None:
    """The axes that `op` reduces, before the transpose that it reads; `None` where more than the axes would change."""
    settings = op.settings
    given = settings["axis"]
    if isinstance(op, ArgReductionOp) and given is None:
        return None  # counts elements in row-major order
    axes = normalize_axes((given,) if isinstance(given, int) else given, len(order))
    kept = [axis for i, axis in enumerate(order) if i not in axes]
    if settings["keepdims"]:
        in_place = all(i == axis for i, axis in enumerate(order) if i not in axes)
    else:
        in_place = kept == sorted(kept)
    if not in_place:
        return None
    return order[axes[0]] if isinstance(given, int) else tuple(sorted(order[axis] for axis in axes))


@dataclass
class TransposeIntoContraction(RewritePattern):
    """matmul(transpose(x), y) -> contract(x, y), and likewise for all contractions"""

    machine: Machine

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter, /) -> None:
        if not any(isinstance(operand.owner, TransposeOp) for operand in op.operands) or not _has_known_shapes(op):
            return
        structure = op.loops([shape_of(operand.type) for operand in op.operands], op.settings)
        factors: list[SSAValue] = []
        maps: list[AffineMap] = []
        for operand, index in zip(op.operands, structure.operands, strict=True):
            if isinstance(operand.owner, TransposeOp) and (order := axis_order(operand.owner)) is not None:
                operand = operand.owner.x
                index = _permuted(index, _inverse(order))
            factors.append(operand)
            maps.append(index)
        if _loses_neighbours(structure, (*maps, structure.result_map), self.machine):
            return
        settings = {
            "maps": (*maps, structure.result_map),
            "extents": structure.extents,
            "shape": shape_of(op.results[0].type),
        }
        replace_same_type(op, rewriter, ContractOp.build_from([tuple(factors)], settings))


@dataclass
class TransposeOfContraction(RewritePattern):
    """transpose(contract(x, y)) -> contract(x, y), with the result's index transposed"""

    machine: Machine

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /) -> None:
        inner = op.x.owner
        if not isinstance(inner, ContractionOp) or not op.x.has_one_use() or not _has_known_shapes(inner):
            return
        order = axis_order(op)
        assert order is not None
        structure = inner.loops([shape_of(operand.type) for operand in inner.operands], inner.settings)
        maps = (*structure.operands, _permuted(structure.result_map, order))
        if _loses_neighbours(structure, maps, self.machine):
            return
        settings = {
            "maps": maps,
            "extents": structure.extents,
            "shape": shape_of(op.result.type),
        }
        replace_same_type(op, rewriter, ContractOp.build_from([tuple(inner.operands)], settings))


def _loses_neighbours(structure: LoopStructure, after: Sequence[AffineMap], machine: Machine) -> bool:
    """Whether a contraction over windows has neighbours to compute together that it would not have any more.

    A product of matrices is packed; windows overlap, so that a copy that is read for every element of a window pays.
    """
    before = (*structure.operands, structure.result_map)
    slides = any(not isinstance(e, AffineDimExpr | AffineConstantExpr) for m in before[:-1] for e in m.results)
    fewest = machine.lanes * 3 // 4  # along shorter dimensions vectors stay empty
    extents = structure.extents
    return slides and _has_neighbours(before, extents, fewest) and not _has_neighbours(after, extents, fewest)


def _has_neighbours(maps: Sequence[AffineMap], extents: Sequence[int], fewest: int) -> bool:
    """Whether neighbours along the last dimension of the result, which has no fewer than `fewest`, are neighbours in
    each operand that they differ in."""
    last = maps[-1].results[-1] if maps[-1].results else None
    if not isinstance(last, AffineDimExpr) or estimate(extents[last.position]) < fewest:
        return False
    for index in maps[:-1]:
        steps = [Subscript.of(expr).factors.get(last.position, 0) for expr in index.results]
        if any(steps[:-1]) or (steps and steps[-1] not in (0, 1)):
            return False
    return True


def _has_known_shapes(op: Operation) -> bool:
    return all(is_known(value.type) for value in (*op.operands, *op.results))


def _permuted(index: AffineMap, order: Order) -> AffineMap:
    return AffineMap(index.num_dims, index.num_symbols, tuple([index.results[axis] for axis in order]))


class TransposeOfOnes(RewritePattern):
    """transpose(x) -> reshape(x), where only axes of size 1 move and x is in memory in any case"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /) -> None:
        order = axis_order(op)
        if order is None or not is_known(op.x.type) or isinstance(op.x.owner, _FUSED):
            return
        if _keeps_memory(shape_of(op.x.type) or (), order):
            replace_same_type(op, rewriter, ReshapeOp.build_from([op.x], {"shape": shape_of(op.result.type)}))


# What may be computed in the kernel that would also read it transposed.
_FUSED = (ElementwiseOp, IndexMapOp, IndexingOp, ReductionOp)


@cache
def _equations(machine: Machine) -> Mapping[type, Sequence[RewritePattern]]:
    return by_class(
        [
            ((TransposeOp,), IdentityTranspose()),
            ((TransposeOp,), TransposeOfTranspose()),
            ((TransposeOp,), TransposeOfContraction(machine)),
            ((TransposeOp,), TransposeOfOnes()),
            ((ContractionOp,), TransposeIntoContraction(machine)),
            ((ReductionOp,), TransposeIntoReduction()),
            ((ElementwiseOp,), BroadcastIsImplied()),
            ((ElementwiseOp,), TransposeAfterElementwise()),
            ((ReshapeOp,), SameShape()),
            ((ReshapeOp,), ReshapeOfReshape()),
        ]
    )
