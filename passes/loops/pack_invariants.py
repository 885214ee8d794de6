"""Puts the matrices that products in loops read in each step into the order in which these read them.

Before: the tensor stage, decomposed, what is the same in each step hoisted, layouts chosen. After: the same sums in the
same order. A product of rows with a matrix from outside of the loop goes through blocks of columns; a block lies in one
piece of memory, as a copy made in front of the loop has it:

    %r = tenon.scan init(%h) {                       %t = tenon.reshape %w                      : 8x32x256
    ^bb0(%c):                                        %q = tenon.transpose %t                    : 8x256x32
      %p = tenon.contract [%c, %w]    : 4x256    ->  %r = tenon.scan init(%h) {
      ...                                            ^bb0(%c):
                                                       %b = tenon.contract [%c, %q]             : 4x8x32
                                                       %p = tenon.reshape %b                    : 4x256

Without, each step copies the blocks itself, or reads pieces of rows that lie apart, which compete for the same places
of the nearest cache and which the processor does not fetch ahead.

The rule: a block has the columns of so many vectors as `BLOCK_VECTORS` says, the first number that divides them. A
matrix is copied that outgrows the nearest cache and is read by a loop of `LEAST_STEPS` steps, or of an unknown number
of them, for `LEAST_ROWS` rows in each. Elements are floats of 32 or 64 bits; narrower ones are widened, or multiplied
in groups, on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.families import ContractionOp
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.families.indexing import LoopStructure
from tenon.dialects.types.types import element_of, is_static, shape_of
from tenon.passes.machine import Machine
from tenon.passes.transform.derived_values import bytes_of

BLOCK_VECTORS = (2, 3, 4)
"""Vectors of a block of columns: with `LEAST_ROWS` rows, as many products as hide the latency of each other."""
LEAST_ROWS = 8
"""Rows that share a block, below which a step does little but read the matrix, in whatever order."""
LEAST_STEPS = 8
"""Steps that make up for one more pass over the matrix."""


@dataclass(frozen=True)
class PackInvariantsPass(ModulePass):
    """Copy what products in loops read in each step, in blocks for the vectors of the `machine` (text, see
    `Machine`)."""

    name = "pack-invariants"
    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = Machine.of_option(self.name, self.machine)
        if machine.vector_bits == 0:
            return
        for product in [inner for inner in op.walk() if isinstance(inner, ContractionOp)]:
            matrix = _matrix_to_pack(product, machine)
            if matrix is not None:
                matrix.pack()


@dataclass(frozen=True)
class _Matrix:
    """The operand `index` of `product`, which is the same in each step of `loop`.

    Its `axis` is the loop `columns` of the product, in blocks of `block`. The axes before it in a copy are `outer`,
    those that are summed over `inner`.
    """

    product: ContractionOp
    structure: LoopStructure
    index: int
    loop: Operation
    axis: int
    columns: int
    block: int
    outer: tuple[int, ...]
    inner: tuple[int, ...]

    def pack(self) -> None:
        """Let the product read blocks of a copy."""
        product, columns, block = self.product, self.columns, self.block
        shape = shape_of(product.results[0].type)
        assert shape is not None
        assert self.loop.parent is not None
        assert product.parent is not None
        with inserting(InsertionPoint(self.loop.parent, self.loop)):
            packed = self._packed(Value(product.operands[self.index]))
        factors = [packed if i == self.index else Value(v) for i, v in enumerate(product.operands)]
        extents = self.structure.extents
        cut = (extents[columns] // block, block)
        with inserting(InsertionPoint(product.parent, product)):
            blocks = ops.contract(
                tuple(factors),
                maps=self._maps(),
                extents=(*extents[:columns], *cut, *extents[columns + 1 :]),
                shape=(*shape[:-1], *cut),
            )
            result = ops.reshape(blocks, shape=shape)
        for new in (blocks, result):
            assert isinstance(new.ssa.owner, Operation)
            new.ssa.owner.location = product.location
        product.results[0].replace_all_uses_with(result.ssa)
        Rewriter.erase_op(product)

    def _packed(self, value: Value) -> Value:
        shape, axis = value.shape, self.axis
        cut = ops.reshape(value, shape=(*shape[:axis], shape[axis] // self.block, self.block, *shape[axis + 1 :]))
        outer, inner = [[a if a < axis else a + 1 for a in axes] for axes in (self.outer, self.inner)]
        return ops.transpose(cut, permutation=(*outer, axis, *inner, axis + 1))

    def _maps(self) -> tuple[AffineMap, ...]:
        """Where the loops are in operands and result, with one over blocks and one in a block in place of columns."""
        count, columns = self.structure.result_map.num_dims + 1, self.columns
        moved = [AffineExpr.dimension(loop if loop < columns else loop + 1) for loop in range(count - 1)]
        over, inside = AffineExpr.dimension(columns), AffineExpr.dimension(columns + 1)
        *operands, result = [
            [expr.replace_dims_and_symbols(moved, ()) for expr in places.results]
            for places in (*self.structure.operands, self.structure.result_map)
        ]
        matrix = operands[self.index]
        operands[self.index] = [*[matrix[a] for a in self.outer], over, *[matrix[a] for a in self.inner], inside]
        return tuple([AffineMap(count, 0, tuple(places)) for places in (*operands, [*result[:-1], over, inside])])


def _matrix_to_pack(product: ContractionOp, machine: Machine) -> _Matrix | None:
    """The operand of `product` that is to be copied, if there is one."""
    values = (*product.operands, *product.results)
    element = element_of(values[0].type)
    if len(values) != 3 or not isinstance(element, Float32Type | Float64Type):
        return None
    if any(element_of(value.type) != element or not is_static(value.type) for value in values):
        return None
    structure = type(product).loops([shape_of(value.type) for value in product.operands], product.settings)
    *_, last = structure.result_map.results or (None,)
    if not isinstance(last, AffineDimExpr):
        return None
    with_columns = [i for i, places in enumerate(structure.operands) if last.position in _loops(places)]
    if len(with_columns) != 1:
        return None
    (index,) = with_columns
    places, extents = structure.operands[index], structure.extents
    loop = outermost_loop(product, product.operands[index])
    if loop is None or not all(isinstance(expr, AffineDimExpr) for expr in places.results):
        return None
    axis = only_axis(places, last.position)
    if axis is None or only_axis(structure.result_map, last.position) is None:
        return None
    rows = prod([extent for number, extent in enumerate(extents) if number not in _loops(places)])
    lanes = machine.vector_bits // element.bitwidth
    sizes = [vectors * lanes for vectors in BLOCK_VECTORS]
    block = next((size for size in sizes if extents[last.position] % size == 0), None)
    if block is None or block == extents[last.position] or rows < LEAST_ROWS or bytes_of(values[index]) <= machine.l1:
        return None
    kept = _loops(structure.result_map)
    others = [(axis, expr) for axis, expr in enumerate(places.results) if expr != last]
    outer = tuple([axis for axis, expr in others if not kept.isdisjoint(expr.used_dims())])
    inner = tuple([axis for axis, expr in others if kept.isdisjoint(expr.used_dims())])
    return _Matrix(product, structure, index, loop, axis, last.position, block, outer, inner)


def _loops(places: AffineMap) -> set[int]:
    return {loop for expr in places.results for loop in expr.used_dims()}


def only_axis(places: AffineMap, loop: int) -> int | None:
    """The axis that `loop` indexes by itself, if it takes part in no other index."""
    axes = [axis for axis, expr in enumerate(places.results) if loop in expr.used_dims()]
    return axes[0] if len(axes) == 1 and isinstance(places.results[axes[0]], AffineDimExpr) else None


def outermost_loop(op: Operation, value: SSAValue) -> Operation | None:
    """The outermost loop around `op`, of enough steps, in front of which `value` is known."""
    found = None
    around = op.parent_op()
    defined_in = value.owner.parent_region() if isinstance(value.owner, Operation) else value.owner.parent
    while isinstance(around, ControlFlowOp) and defined_in not in around.regions:
        least, most = around.runs
        if most is None or least >= LEAST_STEPS:
            found = around
        around = around.parent_op()
    return found
