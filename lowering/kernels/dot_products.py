"""Sums of products: of one at a time (`product_of_sum`), and of narrow numbers that processors add up a few at a time:
pairs of bf16 into f32, fours of i8 into i32.

A statement whose body is `accumulator + extend(a) * extend(b)` may take `depth` iterations of a reduction loop at once:
as many as have 32 bits together. Each lane of a vector is then a *group* of so many neighbours along that loop, in
registers `vector<lanes x depth x element>`, and `vector.contract` adds the products of a group to its lane.

The groups of the operand of the columns lie in a panel, side by side; a group of the operand of the rows is read where
its elements are neighbours anyway, or from a panel, and broadcast. What is missing in the last group is 0.

Processors multiply an unsigned i8 by a signed one. Where both operands have one sign, that of the rows changes its own
on the way into its panel: with the highest bit flipped, an unsigned x is x - 128 as a signed number, and a signed x is
x + 128 as an unsigned one. The sum is then off by 128 times the sum of the other operand's elements, which is computed
with the panel of columns, and what accumulators start from is corrected by it. Integers wrap around: this is exact.

Processors with tiles multiply matrices of groups, `TILE` rows by `TILE` groups by `TILE` columns, of either sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import BFloat16Type, Float32Type, Float64Type, i8, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation

from tenon.dialects.families.monoid import combining_op
from tenon.dialects.types.size import Size
from tenon.dialects.upstream.amx import MOST_ROWS
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, Stride, element_type

GROUP_BITS = 32
TILE = MOST_ROWS
"""Rows of a tile of the processor; a row has as many groups."""
ELEMENTS: dict[str, tuple[Attribute, Attribute]] = {"bf16": (BFloat16Type(), Float32Type()), "i8": (i8, i32)}
"""By the name that the option `dots` of `schedule` gives them: elements of groups, and of what they are added to."""

_SUMS = ((arith.AddfOp, arith.MulfOp, (arith.ExtFOp,)), (arith.AddiOp, arith.MuliOp, (arith.ExtSIOp, arith.ExtUIOp)))


@dataclass(frozen=True)
class Factor:
    """An input and what extends its elements."""

    input: int
    extension: type[Operation]

    @property
    def flipped(self) -> type[Operation]:
        """What extends its elements once their highest bits are flipped."""
        return arith.ExtUIOp if self.extension is arith.ExtSIOp else arith.ExtSIOp


@dataclass(frozen=True)
class DotProduct:
    """A body that adds a product of two extended inputs; `name` is that of the elements in `ELEMENTS`."""

    name: str
    factors: tuple[Factor, Factor]
    takes_signs: bool = False
    """Whether what multiplies them takes factors of either sign, as tiles do."""

    @property
    def depth(self) -> int:
        """Elements of a group."""
        return GROUP_BITS // getattr(ELEMENTS[self.name][0], "bitwidth", GROUP_BITS)

    @property
    def flips(self) -> bool:
        """Whether both factors have one sign, of which one has to change."""
        is_alike = self.factors[0].extension is self.factors[1].extension
        return self.name == "i8" and is_alike and not self.takes_signs

    def factor(self, number: int) -> Factor:
        """The factor that is the input `number`."""
        return next(factor for factor in self.factors if factor.input == number)


def product_of_sum(body: Block, accumulator: BlockArgument) -> tuple[Operation, Operation] | None:
    """The addition and the multiplication of an accumulation `accumulator + a * b` that one instruction can do."""
    op = combining_op(body, accumulator)
    if not isinstance(op, arith.AddfOp) or not isinstance(accumulator.type, Float32Type | Float64Type):
        return None
    product = next(operand.owner for operand in op.operands if operand is not accumulator)
    if isinstance(product, arith.MulfOp) and product.parent is body and product.result.has_one_use():
        return op, product
    return None


def dot_product(statement: Statement, *, tiles: bool = False) -> DotProduct | None:
    """What `statement` adds up, if its body is nothing but a sum of products of two narrow inputs; with `tiles`, in
    instructions on tiles."""
    if len(statement.outputs) != 1 or len(statement.inputs) != 2:
        return None
    (accumulator,) = statement.accumulators
    total = combining_op(statement.body, accumulator)
    for sum_op, product_op, extensions in _SUMS:
        if not isinstance(total, sum_op):
            continue
        product = next((v.owner for v in total.operands if v is not accumulator), None)
        if not isinstance(product, product_op):
            return None
        factors = tuple(_factor(value.owner, extensions) for value in product.operands)
        ops = [op for op in statement.body.ops if not isinstance(op, linalg.ops.YieldOp)]
        if None in factors or {f.input for f in factors if f is not None} != {0, 1} or len(ops) != 4:
            return None
        types = {element_type(access.buffer) for access in statement.inputs}
        for name, (narrow, wide) in ELEMENTS.items():
            if types == {narrow} and accumulator.type == wide:
                first, second = (factor for factor in factors if factor is not None)
                return DotProduct(name, (first, second), takes_signs=tiles)
    return None


def _factor(owner: object, extensions: tuple[type[Operation], ...]) -> Factor | None:
    for extension in extensions:
        if isinstance(owner, extension) and isinstance(argument := owner.operands[0], BlockArgument):
            return Factor(argument.index, extension)
    return None


def has_groups(access: Access, loop: int) -> bool:
    """Whether neighbours along `loop` are neighbours in memory, so that groups are read from there."""
    return access.stride(loop) is Stride.UNIT


def groups_obstacle(
    statement: Statement,
    loop: int,
    depth: int,
    vector: int | None,
    packed: Mapping[int, int],
    tile: int | None = None,
) -> str:
    """Why lanes along `vector` cannot take `depth` iterations of `loop` at once, where the inputs `packed` are copied,
    each along the loop that is given; "" if they can. With `tile`, so many groups are taken together."""
    found = dot_product(statement, tiles=tile is not None)
    if found is None:
        return "the op is no sum of products of two narrow inputs"
    if depth != found.depth:
        return f"groups of {found.name} have {found.depth} elements"
    if not 0 <= loop < len(statement.kinds) or statement.kinds[loop] is not LoopKind.REDUCTION:
        return f"loop {loop} is no reduction"
    if isinstance(statement.extents[loop], Size):
        return f"loop {loop} has {statement.extents[loop]} iterations, and groups need a number"
    reductions = statement.loops(LoopKind.REDUCTION)
    for number, access in enumerate(statement.inputs):
        along = packed.get(number)
        if loop not in access.loops():
            return f"input {number} does not advance along loop {loop}"
        if vector in access.loops():
            if along != vector:
                return f"input {number} advances along the lanes, and is not packed so"
            if found.flips and not access.loops().issuperset(reductions):
                return f"input {number} does not advance along all reductions"
        elif along is None and (found.flips or not has_groups(access, loop)):
            return f"the groups of input {number} are not in memory as they are taken, and it is not packed"
        elif along is None and tile is not None and statement.extents[loop] % (tile * depth):
            return f"loop {loop} has {statement.extents[loop]} iterations, no multiple of {tile} groups of {depth}"
    return ""
