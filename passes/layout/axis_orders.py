"""Regions of ops for which all axes are alike are computed with these in the order in which least is transposed.

A region is what elementwise ops, and others that can be stated for any order of axes (`TensorOp.reordered`), compute
from each other, all of one rank: of a network with channels last, whose convolutions have transposes around them, all
that is between these, forward and backward. What enters it and leaves it is transposed, or is not any more; constants
and vectors along one axis only change their shapes, and contractions and sums read and write any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.shape import ReshapeOp, TransposeOp
from tenon.dialects.support.forking import cached_property
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of
from tenon.passes.iteration import iteration_of
from tenon.passes.layout.contraction_axes import (
    Order,
    has_known_shapes,
    inverse,
    keeps_memory,
    loses_neighbours,
    permuted,
    reduced_in,
)
from tenon.passes.machine import Machine
from tenon.passes.simplify.equations_shape import axis_order


def transposed_bytes(module: ModuleOp) -> int:
    """How much is transposed."""
    return sum(_bytes(op.result) for op in module.walk() if isinstance(op, TransposeOp) and has_known_shapes(op))


def reorder_regions(module: ModuleOp, machine: Machine) -> bool:
    """Give each region the order of axes in which least is transposed; whether one has another order than before.

    It is stated with a transpose of all that enters it and leaves it, which are to be simplified before the regions
    behind these transposes are looked at.
    """
    transposes = [op for op in module.walk() if isinstance(op, TransposeOp) and has_known_shapes(op)]
    blocks = dict.fromkeys(op.parent for op in transposes)
    simplified_later: set[Operation] = set()
    for region in [region for block in blocks if block is not None for region in _regions(block)]:
        beside = set(region.transposes_beside())
        if simplified_later.isdisjoint(beside) and _reorder(region, machine):
            simplified_later |= beside
    return bool(simplified_later)


@dataclass
class _Region:
    """Ops of one block, in order, each with one result of rank `rank`."""

    rank: int
    members: list[TensorOp] = field(default_factory=list[TensorOp])

    @cached_property
    def inside(self) -> set[Operation]:
        return set(self.members)

    def entering(self) -> Iterable[SSAValue]:
        """The operands that the region does not compute, each once."""
        return dict.fromkeys(v for op in self.members for v in op.operands if v.owner not in self.inside)

    def leaving(self) -> Iterator[tuple[SSAValue, list[Operation]]]:
        """The results that are used outside of the region, and the ops that use them there."""
        for op in self.members:
            users = list(dict.fromkeys(u.operation for u in op.results[0].uses if u.operation not in self.inside))
            if users:
                yield op.results[0], users

    def transposes_beside(self) -> Iterator[TransposeOp]:
        """Those whose results enter the region, and those that results leave it by."""
        entered = [value.owner for value in self.entering()]
        left = [user for _, users in self.leaving() for user in users]
        return (op for op in (*entered, *left) if isinstance(op, TransposeOp))

    def reads_all_of(self, value: SSAValue) -> bool:
        """Whether nothing outside of the region uses `value`."""
        return all(use.operation in self.inside for use in value.uses)


def _regions(block: Block) -> list[_Region]:
    """The regions of `block` that a transpose enters or leaves."""
    region_of: dict[Operation, _Region] = {}
    for op in block.ops:
        if not isinstance(op, TensorOp) or not _is_member(op):
            continue
        rank = _rank(op.results[0])
        region = _Region(rank)
        region_of[op] = region
        region.members.append(op)
        for operand in op.operands:
            other = region_of.get(operand.owner) if isinstance(operand.owner, Operation) else None
            if other is not None and other is not region and other.rank == rank:
                region, merged = (other, region) if len(other.members) > len(region.members) else (region, other)
                region.members += merged.members
                region_of.update(dict.fromkeys(merged.members, region))
    places = {op: place for place, op in enumerate(block.ops)}
    regions = list({id(region): region for region in region_of.values()}.values())
    for region in regions:
        region.members.sort(key=places.__getitem__)
    return regions


def _is_member(op: TensorOp) -> bool:
    if len(op.results) != 1 or not has_known_shapes(op):
        return False
    rank = _rank(op.results[0])
    return rank > 1 and op.reordered(tuple(range(rank))) is not None


def _reorder(region: _Region, machine: Machine) -> bool:
    """State `region` in the best order; whether that is another than it has."""
    best = min(_orders(region), key=lambda order: _change(region, order, machine), default=None)
    return best is not None and _change(region, best, machine) < 0 and _restate(region, best)


def _orders(region: _Region) -> Iterable[Order]:
    """The orders in which a transpose would become none."""
    entering = [inverse(order) for value in region.entering() if (order := _order_of(value)) is not None]
    leaving = [axis_order(user) for _, users in region.leaving() for user in users if isinstance(user, TransposeOp)]
    return dict.fromkeys(order for order in (*entering, *leaving) if order is not None and len(order) == region.rank)


def _order_of(value: SSAValue) -> Order | None:
    """The order of axes in which `value` is a transpose of another one."""
    return axis_order(value.owner) if isinstance(value.owner, TransposeOp) else None


def _change(region: _Region, order: Order, machine: Machine) -> int:
    """How many bytes more are written and read for transposes where the axes of `region` are in `order`; fewer, where
    negative."""
    change = 0
    for value in region.entering():
        if _is_free_to_reorder(value, region.rank, order):
            continue
        known = _order_of(value)
        source = value.owner.operands[0] if isinstance(value.owner, TransposeOp) else value
        is_computed = isinstance(source.owner, _FUSED) and source.has_one_use() and region.reads_all_of(value)
        is_fused = is_computed and not any(map(_has_in_memory, value.uses))
        cost = _bytes(value) * (1 + is_fused)
        if known is not None and region.reads_all_of(value):
            change -= cost
        if known is not None and len(known) == region.rank and inverse(known) == order:
            continue
        is_free = region.reads_all_of(value) and _writes_any_order(value, order, machine)
        change += 0 if is_free else cost
    back = inverse(order)
    for value, users in region.leaving():
        kept = 0
        for user in users:
            if isinstance(user, TransposeOp):
                change -= _bytes(value) * (1 + _are_fused(user.result.uses)) if axis_order(user) == order else 0
            elif not _reads_any_order(user, value, back, machine):
                outside = [use for use in value.uses if use.operation not in region.inside]
                kept = _bytes(value) * (1 + _are_fused(outside))
        change += kept
    return change


_FUSED = (ElementwiseOp, IndexMapOp, IndexingOp)
"""What computes its values where others need them, unless a transpose is between: then they are in memory on both
sides of it, where an argument, a result or what a contraction takes or gives is in memory anyway."""


def _are_fused(uses: Iterable[Use]) -> bool:
    return all(isinstance(use.operation, _FUSED) and not _has_in_memory(use) for use in uses)


def _has_in_memory(use: Use) -> bool:
    """Whether an op has this operand in memory, whatever computes it: it takes elements of it at computed places, or
    the same ones again in loops around those that index it."""
    op = use.operation
    if isinstance(op, IndexingOp):
        return not op.moves_ranges()
    iteration = iteration_of(op) if isinstance(op, _FUSED) and has_known_shapes(op) else None
    access = None if iteration is None else iteration.operands[use.index]
    if iteration is None or access is None:
        return False
    inner = max([loop for loop in access if loop is not None], default=0)
    return any(extent != 1 and loop not in access for loop, extent in enumerate(iteration.space.extents[:inner]))


def _is_free_to_reorder(value: SSAValue, rank: int, order: Order) -> bool:
    """Whether `value`, broadcast to `rank`, can be had with its axes in `order` by a change of its shape alone."""
    if isinstance(value.owner, ConstantOp):
        return True
    shape = shape_of(value.type)
    return shape is not None and -1 not in shape and keeps_memory(_aligned(shape, rank), order)


def _aligned(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _writes_any_order(value: SSAValue, order: Order, machine: Machine) -> bool:
    """Whether what computes `value` can as well write it with its axes in `order`."""
    op = value.owner
    if not isinstance(op, ContractionOp) or not has_known_shapes(op) or len(order) != _rank(value):
        return False
    structure = op.loops([shape_of(operand.type) for operand in op.operands], op.settings)
    return not loses_neighbours(structure, (*structure.operands, permuted(structure.result_map, order)), machine)


def _reads_any_order(op: Operation, value: SSAValue, back: Order, machine: Machine) -> bool:
    """Whether `op` can read `value` as the transpose by `back` of what is there."""
    if isinstance(op, ContractionOp) and has_known_shapes(op):
        structure = op.loops([shape_of(operand.type) for operand in op.operands], op.settings)
        maps = [
            permuted(index, inverse(back)) if operand is value else index
            for operand, index in zip(op.operands, structure.operands, strict=True)
        ]
        return not loses_neighbours(structure, (*maps, structure.result_map), machine)
    return isinstance(op, ReductionOp) and reduced_in(op, back) is not None


def _restate(region: _Region, order: Order) -> bool:
    """Compute `region` with its axes in `order`, with a transpose of each value that enters or leaves it. Nothing is
    done where an op would give another type."""
    added: list[Operation] = []
    stated: dict[SSAValue, SSAValue] = {}

    def add(op: TensorOp, like: TensorOp) -> SSAValue:
        op.location = like.location
        Rewriter.insert_op(op, InsertPoint.before(like))
        added.append(op)
        return op.results[0]

    def entered(value: SSAValue, user: TensorOp) -> SSAValue:
        shape = shape_of(value.type) or ()
        if all(size == 1 for size in shape) and len(shape) < region.rank:
            return value
        full = _aligned(shape, region.rank)
        if keeps_memory(full, order):
            return add(ReshapeOp.build_from([value], {"shape": tuple([full[axis] for axis in order])}), user)
        if len(shape) < region.rank:
            value = add(ReshapeOp.build_from([value], {"shape": full}), user)
        return add(TransposeOp.build_from([value], {"permutation": order}), user)

    for op in region.members:
        for operand in op.operands:
            if operand not in stated:
                stated[operand] = entered(operand, op)
        settings = op.reordered(order)
        assert settings is not None
        new = type(op).build_from(op.group([stated[v] for v in op.operands], op.properties), settings)
        new.attributes |= op.attributes
        stated[op.results[0]] = result = add(new, op)
        result.name_hint = op.results[0].name_hint
        shape = _aligned(shape_of(op.results[0].type) or (), region.rank)
        is_like = shape_of(result.type) == tuple([shape[axis] for axis in order])
        if not is_like or element_of(result.type) != element_of(op.results[0].type):
            for unused in reversed(added):
                unused.erase()
            return False
    for value, _ in list(region.leaving()):
        op = value.owner
        assert isinstance(op, TensorOp)
        back = add(TransposeOp.build_from([stated[value]], {"permutation": inverse(order)}), op)
        value.replace_uses_with_if(back, lambda use: use.operation not in region.inside)
    for op in reversed(region.members):
        Rewriter.erase_op(op)
    return True


def _rank(value: SSAValue) -> int:
    return len(shape_of(value.type) or ())


def _bytes(value: SSAValue) -> int:
    return prod(map(estimate, shape_of(value.type) or ())) * numpy_dtype(element_of(value.type)).itemsize
