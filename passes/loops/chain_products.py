"""Mark two products of matrices and the softmax between them, which can be one kernel: softmax(Q Kᵀ) V.

Before: the tensor stage, decomposed, for a GPU. After: the same values, but for rounding; ops that are to be one kernel
have the same number as their attribute `chained`, and `fuse` makes them one. Rows of scores are then gone through in
pieces, whose maxima and sums go on from piece to piece (the step `online`), so that no score is in memory.

What divides the weights is done to the sums of the second product, of which there are fewer, when these are there:

    %p = tenon.divide %e, %l                      %n = tenon.matmul %e, %v {chained = 0}
    %o = tenon.matmul %p, %v              ->      %o = tenon.divide %n, %l {chained = 0}

The rule: the first product is of f16 or bf16; elementwise ops of its shape follow, with any other operands (scales,
masks); rows of what these give are exponentials of their distance from the largest, added up, and divided by that sum;
the second product is along rows. Nothing else uses what is in between. Both have matrices that a warp's registers hold
the sums of: heads of at most `MOST_HEAD` elements, and at least `LEAST_ROWS` queries and `LEAST_KEYS` keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerAttr, ModuleOp, f32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp, ElementwiseOp, ReductionOp
from tenon.dialects.families.iteration_space import ACROSS
from tenon.dialects.ops.elementwise.arithmetic import DivideOp, SubtractOp
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.elementwise.elementary import ExpOp
from tenon.dialects.types.types import element_of, is_static, shape_of
from tenon.dialects.upstream.walking import ops_of
from tenon.passes.iteration import axes_of, iteration_of

CHAINED = "chained"
"""The attribute."""
MOST_HEAD = 128
LEAST_ROWS = 16
LEAST_KEYS = 64


class ChainProductsPass(ModulePass):
    """Mark products of matrices that can be one kernel with the softmax between them."""

    name = "chain-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        number = 0
        for product in ops_of(op, ContractionOp):
            chain = _chain(product)
            if chain is not None:
                for member in chain.rewritten():
                    member.attributes[CHAINED] = IntegerAttr(number, i64)
                number += 1


@dataclass(frozen=True)
class _Chain:
    """`product` of weights, which are its operand `index`, divided by `sums` only behind `numerators`; `members` are
    all ops before it."""

    product: ContractionOp
    index: int
    numerators: SSAValue
    sums: SSAValue
    members: list[Operation]

    def rewritten(self) -> list[Operation]:
        """The ops that take the place of the chain."""
        half = element_of(self.product.results[0].type)
        rounded = CastOp.build_from([self.numerators], {"dtype": half})
        operands = list(self.product.operands)
        operands[self.index] = rounded.result
        factors = [CastOp.build_from([value], {"dtype": f32}) for value in operands]
        product = type(self.product).build_from([cast.result for cast in factors], dict(self.product.settings))
        divided = DivideOp.build_from([product.results[0], self.sums], {})
        result = CastOp.build_from([divided.results[0]], {"dtype": half})
        made: list[TensorOp] = [rounded, *factors, product, divided, result]
        for op in made:
            op.location = self.product.location
        result.results[0].name_hint = self.product.results[0].name_hint
        before = self.product.operands[self.index]
        Rewriter.replace_op(self.product, made)
        while before.first_use is None and isinstance(before.owner, CastOp | DivideOp):
            old, before = before.owner, before.owner.operands[0]
            Rewriter.erase_op(old)
        return [*self.members, *made]


def _chain(product: ContractionOp) -> _Chain | None:
    """The chain whose second product this is."""
    if len(product.operands) != 2 or not all(_is_half(value) for value in (*product.operands, *product.results)):
        return None
    for index, operand in enumerate(product.operands):
        weights = _divided(operand, element_of(operand.type))
        if weights is not None and _multiplies_rows(product, index):
            numerators, sums = weights.operands
            members = _softmax(numerators, sums, weights)
            if members is not None:
                return _Chain(product, index, numerators, sums, members)
    return None


def _is_half(value: SSAValue) -> bool:
    return isinstance(element_of(value.type), Float16Type | BFloat16Type) and is_static(value.type)


def _divided(value: SSAValue, element: Attribute | None) -> DivideOp | None:
    """The division whose result, perhaps cast to `element`, is this value, which nothing else uses."""
    while isinstance(value.owner, CastOp) and value.has_one_use():
        if not isinstance(known := element_of(value.type), Float32Type) and known != element:
            return None
        value = value.owner.x
    return value.owner if isinstance(value.owner, DivideOp) and value.has_one_use() else None


def _softmax(numerators: SSAValue, sums: SSAValue, weights: DivideOp) -> list[Operation] | None:
    """The ops from the first product on to `numerators` and their `sums`, whose quotients `weights` are."""
    exp, total = numerators.owner, _row_reduction(sums, "add")
    if not isinstance(exp, ExpOp) or total is None or total.operands[0] is not numerators:
        return None
    shifted = exp.operands[0].owner
    if not isinstance(shifted, SubtractOp) or not isinstance(element_of(numerators.type), Float32Type):
        return None
    scores, maxima = shifted.operands
    largest = _row_reduction(maxima, "maximum")
    if largest is None or largest.operands[0] is not scores:
        return None
    before = _scored(scores)
    users: list[tuple[SSAValue, list[Operation]]] = [
        (scores, [largest, shifted]),
        (maxima, [shifted]),
        (shifted.results[0], [exp]),
        (numerators, [total, weights]),
        (sums, [weights]),
    ]
    if before is None or not all(_uses_are(value, expected) for value, expected in users):
        return None
    return [*before, largest, shifted, exp, total]


def _uses_are(value: SSAValue, users: list[Operation]) -> bool:
    found = [use.operation for use in value.uses]
    return len(found) == len(users) and all(user in users for user in found)


def _row_reduction(value: SSAValue, combine: str) -> ReductionOp | None:
    """The op that combines the last dimension to this value, of which it leaves one element."""
    op = value.owner
    if not isinstance(op, ReductionOp) or combine != op.COMBINE or not op.settings["keepdims"]:
        return None
    return op if axes_of(op) == (len(shape_of(op.operands[0].type) or ()) - 1,) else None


def _scored(scores: SSAValue) -> list[Operation] | None:
    """The first product and the elementwise ops that make scores of its result, which nothing else uses."""
    members: list[Operation] = []
    value = scores
    while isinstance(op := value.owner, ElementwiseOp):
        if value is not scores and not value.has_one_use():
            return None
        members.insert(0, op)
        shape = shape_of(value.type)
        made = [v for v in op.operands if shape_of(v.type) == shape and _comes_from_product(v)]
        if len(op.results) != 1 or len(made) != 1:
            return None
        (value,) = made
    if not isinstance(op, ContractionOp) or not value.has_one_use() or not _makes_rows(op):
        return None
    return [op, *members]


def _comes_from_product(value: SSAValue) -> bool:
    pending, seen = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        if isinstance(value.owner, ContractionOp):
            return True
        if isinstance(value.owner, ElementwiseOp) and value not in seen:
            seen.add(value)
            shape = shape_of(value.type)
            pending += [operand for operand in value.owner.operands if shape_of(operand.type) == shape]
    return False


def _makes_rows(product: ContractionOp) -> bool:
    """Whether the last dimensions of a result are those of its two operands, in either order."""
    if len(product.operands) != 2 or not all(map(_is_half, product.operands)):
        return False
    loops = _Loops.of(product)
    if loops is None or loops.extents[loops.reduced] > MOST_HEAD:
        return False
    row, column = loops.result[-2:]
    owners = [[index for index in (0, 1) if loop in loops.operands[index]] for loop in (row, column)]
    if sorted(owners) != [[0], [1]] or None in (row, column):
        return False
    return loops.extents[row] >= LEAST_ROWS and loops.extents[column] >= LEAST_KEYS  # pyright: ignore


def _multiplies_rows(product: ContractionOp, index: int) -> bool:
    """Whether a product is along the last dimension of an operand, in whose place it has one of the other operand."""
    loops = _Loops.of(product)
    if loops is None:
        return False
    weights, values = loops.operands[index], loops.operands[1 - index]
    row, column = weights[-2:] if len(weights) > 1 else (None, None)
    if column != loops.reduced or row is None or row in values or loops.result[:-1] != weights[:-1]:
        return False
    head = loops.result[-1]
    return head is not None and head in values and head not in weights and loops.extents[head] <= MOST_HEAD


@dataclass(frozen=True)
class _Loops:
    """The loops of a product that sums along one of them, `reduced`."""

    operands: tuple[tuple[int | None, ...], ...]
    result: tuple[int | None, ...]
    extents: tuple[int, ...]
    reduced: int

    @staticmethod
    def of(product: ContractionOp) -> _Loops | None:
        iteration = iteration_of(product)
        if iteration is None or None in iteration.operands or len(iteration.results[0]) < 2:
            return None
        space = iteration.space
        reduced = [loop for loop, parallel in enumerate(space.parallel) if not parallel]
        accesses = tuple([access for access in iteration.operands if access is not None])
        if len(reduced) != 1 or any(ACROSS in access for access in accesses):
            return None
        return _Loops(accesses, iteration.results[0], tuple(map(int, space.extents)), reduced[0])


def chained(block: Block) -> Iterator[list[Operation]]:
    """The ops of a block that are to be one kernel, in order; their attributes are gone then."""
    found: dict[int, list[Operation]] = {}
    for op in block.ops:
        number = op.attributes.pop(CHAINED, None)
        if isinstance(number, IntegerAttr):
            found.setdefault(number.value.data, []).append(op)
    yield from found.values()
