"""Gives ops the layouts that they ask for, and moves transposes to where they cost least.

Before: tensor ops, composites included. After: no op is left that asks for a layout; transposes that follow each
other have cancelled; those next to a contraction or a reduction have become part of its index maps or axes, where
nothing is copied; what is computed between transposes is computed in the order of axes that needs fewest of them
(`axis_orders`); those that remain are copies. A contraction over windows keeps the transposes without which it would
have no neighbours to compute together, in the result or across it.

A memory layout is an order of dimensions: the tensor transposed into that order, in row-major memory. An op class
asks for layouts by `LAYOUTS` and the hook `laid_out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, Value, inserting
from tenon.dialects.families import (
    ContractionOp,
    ElementwiseOp,
    IndexingOp,
    IndexMapOp,
    ReductionOp,
    as_tuple,
)
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.move.shape import ReshapeOp, TransposeOp
from tenon.dialects.support.location import at_line
from tenon.dialects.types.shapes import compatible
from tenon.dialects.types.types import is_known, shape_of
from tenon.passes.layout.axis_orders import reorder_regions, transposed_bytes
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
        canonicalizer = Canonicalizer(Effects(op), _equations(machine))
        canonicalizer.run(op)
        copied = transposed_bytes(op)
        while reorder_regions(op, machine):
            canonicalizer.run(op)
            before, copied = copied, transposed_bytes(op)
            if copied >= before:
                break


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
        if len(results) != len(op.results) or not all(isinstance(value, Value) for value in results):
            given = ", ".join([type(value).__name__ for value in results])
            raise TypeError(
                f"{op.name}: laid_out returns ({given}) where {len(op.results)} traced values are needed{at_line(op)}"
            )
        restored: list[SSAValue] = []
        for name, value, old in zip(op.SIGNATURE.results, results, op.results, strict=True):
            order = layouts.get(name)
            new = value if order is None else _transposed(value, inverse(order))
            if not compatible(old.type, new.type):
                raise TypeError(
                    f"{op.name}: laid_out gives {value.type} for {name}, by which it is {new.type} and not "
                    f"{old.type}{at_line(op)}"
                )
            restored.append(new.ssa)
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


class TransposeIntoReduction(RewritePattern):
    """sum(transpose(x), axis) -> sum(x, permutation[axis]), and so for all reductions, where the rest stays in order"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReductionOp, rewriter: PatternRewriter, /) -> None:
        transpose = op.operands[0].owner
        if not isinstance(transpose, TransposeOp) or (order := axis_order(transpose)) is None:
            return
        axis = reduced_in(op, order)
        if axis is not None:
            settings = {**op.settings, "axis": axis}
            replace_same_type(op, rewriter, type(op).build_from([transpose.x], settings))


@dataclass
class TransposeIntoContraction(RewritePattern):
    """matmul(transpose(x), y) -> contract(x, y), and likewise for all contractions"""

    machine: Machine

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter, /) -> None:
        if not any(isinstance(operand.owner, TransposeOp) for operand in op.operands) or not has_known_shapes(op):
            return
        structure = op.loops([shape_of(operand.type) for operand in op.operands], op.settings)
        factors: list[SSAValue] = []
        maps: list[AffineMap] = []
        for operand, index in zip(op.operands, structure.operands, strict=True):
            if isinstance(operand.owner, TransposeOp) and (order := axis_order(operand.owner)) is not None:
                operand = operand.owner.x
                index = permuted(index, inverse(order))
            factors.append(operand)
            maps.append(index)
        if factors == [*op.operands] or loses_neighbours(structure, (*maps, structure.result_map), self.machine):
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
        if not isinstance(inner, ContractionOp) or not op.x.has_one_use() or not has_known_shapes(inner):
            return
        order = axis_order(op)
        assert order is not None
        structure = inner.loops([shape_of(operand.type) for operand in inner.operands], inner.settings)
        maps = (*structure.operands, permuted(structure.result_map, order))
        if loses_neighbours(structure, maps, self.machine):
            return
        settings = {
            "maps": maps,
            "extents": structure.extents,
            "shape": shape_of(op.result.type),
        }
        replace_same_type(op, rewriter, ContractOp.build_from([tuple(inner.operands)], settings))


class TransposeOfOnes(RewritePattern):
    """transpose(x) -> reshape(x), where only axes of size 1 move and x is in memory in any case"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /) -> None:
        order = axis_order(op)
        if order is None or not is_known(op.x.type) or isinstance(op.x.owner, _FUSED):
            return
        if keeps_memory(shape_of(op.x.type) or (), order):
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
            ((ReshapeOp,), SameShape()),
            ((ReshapeOp,), ReshapeOfReshape()),
        ]
    )
