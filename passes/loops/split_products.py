"""Makes products of their own of the parts that a step takes a product apart into, such as gates.

Before: the tensor stage, matrices of products in loops in blocks of columns. After: the same values. Where all that
uses a product, or what is computed from it element by element, are slices of columns, each slice has a product with
its blocks of the matrix, and shares its loops with what is done to the slice:

    %p = tenon.contract [%c, %q]  : 4x8x32           %a = tenon.slice %q                   : 4 of 8 blocks
    %r = tenon.reshape %p         : 4x256            ^bb0(%c, %z):
    %s = tenon.add %r, %z         : 4x256      ->      %d = tenon.contract [%c, %a]        : 4x4x32
    %f = tenon.slice %s           : 4x128              %f = tenon.add %d, slice of %z      : 4x128
    %o = tenon.slice %s           : 4x128              ...

The rule: there are `MOST_PARTS` slices at most, each of several whole blocks, and no column is in two of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families import ContractionOp, ElementwiseOp
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.ops.move.slicing import SliceOp
from tenon.dialects.types.types import is_static, shape_of
from tenon.passes.loops.pack_invariants import only_axis, outermost_loop
from tenon.passes.simplify.dce import Effects, erase_dead_ops

MOST_PARTS = 8
"""Products of one kernel, which has a limited number of inputs."""


class SplitProductsPass(ModulePass):
    """Compute the parts of products in loops for themselves."""

    name = "split-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        for product in [inner for inner in op.walk() if isinstance(inner, ContractionOp)]:
            parts = _parts_of(product)
            if parts is not None:
                block = product.parent
                assert block is not None
                parts.compute()
                erase_dead_ops(block, effects)


@dataclass
class _Parts:
    """Slices of `merged`, the product with its blocks and their columns as one axis, or of what comes of it."""

    product: ContractOp
    merged: ReshapeOp
    loop: Operation
    index: int
    """The operand that has the blocks, as its `axis`."""
    axis: int
    chain: list[ElementwiseOp] = field(default_factory=list[ElementwiseOp])
    slices: list[SliceOp] = field(default_factory=list[SliceOp])

    def find(self) -> bool:
        """Find what is computed from the product up to slices; whether the rule wants these to be computed."""
        assert self.merged.parent is not None
        if not self._follow(self.merged.results[0]):
            return False
        sections = self.sections()
        ends = [limit for _, limit in sections]
        is_apart = all(end <= start for end, (start, _) in zip(ends, sections[1:], strict=False))
        block = self.block
        aligned = all(s % block == 0 and e % block == 0 and e - s > block for s, e in sections)
        return is_apart and aligned and 1 < len(sections) <= MOST_PARTS

    @property
    def block(self) -> int:
        return self.product.settings["shape"][-1]

    def sections(self) -> list[tuple[int, int]]:
        """The ranges of columns that slices take."""
        return sorted({(op.settings["starts"][-1], op.settings["limits"][-1]) for op in self.slices})

    def _follow(self, value: SSAValue) -> bool:
        shape = shape_of(value.type)
        for use in value.uses:
            op = use.operation
            if op in self.chain or op in self.slices:
                continue
            if isinstance(op, SliceOp) and _takes_columns(op):
                self.slices.append(op)
            elif isinstance(op, ElementwiseOp) and len(op.results) == 1 and shape_of(op.results[0].type) == shape:
                if op.parent is not self.product.parent:
                    return False
                if not all(is_static(operand.type) for operand in op.operands) or not self._follow(op.results[0]):
                    return False
                self.chain.append(op)
            else:
                return False
        return True

    def compute(self) -> None:
        """Put products of parts, and what comes of them, in the place of slices."""
        block = self.product.parent
        assert block is not None
        assert self.loop.parent is not None
        order = sorted(self.chain, key=block.get_operation_index)
        for start, limit in self.sections():
            blocks = (start // self.block, limit // self.block)
            with inserting(InsertionPoint(self.loop.parent, self.loop)):
                matrix = _range(Value(self.product.operands[self.index]), self.axis, *blocks)
            with inserting(InsertionPoint(block, self.merged)):
                known: dict[SSAValue, SSAValue] = {self.merged.results[0]: self._product(matrix, blocks).ssa}
            for op in order:  # each where it was: a slice may be read by what comes before later ones
                with inserting(InsertionPoint(block, op)):
                    known[op.results[0]] = self._part_of(op, known, start, limit)
            for op in self.slices:
                if (op.settings["starts"][-1], op.settings["limits"][-1]) == (start, limit):
                    op.results[0].replace_all_uses_with(known[op.operands[0]])

    def _product(self, matrix: Value, blocks: tuple[int, int]) -> Value:
        product, settings = self.product, self.product.settings
        count = blocks[1] - blocks[0]
        *outer, _, columns = settings["shape"]
        loop = settings["maps"][-1].results[-2]
        assert isinstance(loop, AffineDimExpr)
        extents = [count if n == loop.position else extent for n, extent in enumerate(settings["extents"])]
        factors = [matrix if n == self.index else Value(v) for n, v in enumerate(product.operands)]
        part = ops.contract(
            tuple(factors), maps=settings["maps"], extents=tuple(extents), shape=(*outer, count, columns)
        )
        return ops.reshape(part, shape=(*outer, count * columns))

    def _part_of(self, op: ElementwiseOp, known: dict[SSAValue, SSAValue], start: int, limit: int) -> SSAValue:
        operands = [known[v] if v in known else self._columns(v, start, limit).ssa for v in op.operands]
        new: TensorOp = type(op).build_from(op.group(operands, op.properties), op.settings)
        new.location = op.location
        return emit(new).results[0]

    def _columns(self, value: SSAValue, start: int, limit: int) -> Value:
        """Those columns of what meets the product, by whole blocks, so that it may have the dimensions of the product
        in its kernel."""
        shape, size = shape_of(value.type), self.block
        assert shape is not None
        if not shape or shape[-1] == 1:
            return Value(value)
        with ExitStack() as stack:
            loop = outermost_loop(self.product, value)
            if loop is not None:
                assert loop.parent is not None
                stack.enter_context(inserting(InsertionPoint(loop.parent, loop)))
            blocks = ops.reshape(Value(value), shape=(*shape[:-1], shape[-1] // size, size))
            part = _range(blocks, len(shape) - 1, start // size, limit // size)
        return ops.reshape(part, shape=(*shape[:-1], limit - start))


def _range(value: Value, axis: int, start: int, limit: int) -> Value:
    """`value` from `start` to `limit` of `axis`."""
    starts, limits = [0] * len(value.shape), [*value.shape]
    starts[axis], limits[axis] = start, limit
    return ops.slice(value, starts=tuple(starts), limits=tuple(limits))


def _takes_columns(op: SliceOp) -> bool:
    """Whether `op` takes a range of columns of all rows."""
    *outer, _ = shape_of(op.x.type) or (0,)
    settings = op.settings
    is_dense = settings["strides"] is None or all(step == 1 for step in settings["strides"])
    return is_dense and not any(settings["starts"][:-1]) and list(settings["limits"][:-1]) == outer


def _parts_of(product: ContractionOp) -> _Parts | None:
    """The parts that are to be computed in place of `product`, if it is one of rows with blocks of a matrix from
    outside of a loop."""
    if not isinstance(product, ContractOp) or not product.results[0].has_one_use() or len(product.operands) != 2:
        return None
    (use,) = product.results[0].uses
    merged, shape = use.operation, shape_of(product.results[0].type)
    if not isinstance(merged, ReshapeOp) or merged.parent is not product.parent or shape is None or len(shape) < 2:
        return None
    if shape_of(merged.results[0].type) != (*shape[:-2], shape[-2] * shape[-1]):
        return None
    *operands, result = product.settings["maps"]
    blocks = result.results[-2]
    if not isinstance(blocks, AffineDimExpr) or only_axis(result, blocks.position) is None:
        return None
    with_blocks = [n for n, places in enumerate(operands) if blocks.position in places.used_dims()]
    if len(with_blocks) != 1:
        return None
    (index,) = with_blocks
    axis = only_axis(operands[index], blocks.position)
    loop = outermost_loop(product, product.operands[index])
    if axis is None or loop is None or result.results[-1] not in operands[index].results:
        return None
    parts = _Parts(product, merged, loop, index, axis)
    return parts if parts.find() else None
