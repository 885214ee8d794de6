"""Two products of matrices with a softmax between them, as they are found in tensor IR, and the loops of products."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.dialects.families import ContractionOp, ElementwiseOp, ReductionOp
from tenon.dialects.families.iteration_space import ACROSS
from tenon.dialects.ops.elementwise.arithmetic import DivideOp, SubtractOp
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.elementwise.elementary import ExpOp
from tenon.dialects.types.types import element_of, is_static, shape_of
from tenon.passes.iteration import axes_of, iteration_of

MOST_HEAD = 128
LEAST_ROWS = 16
LEAST_KEYS = 64


@dataclass(frozen=True)
class Softmax:
    """`product` along rows of weights, its operand `index`. They are `numerators` divided by their `sums`, the
    exponentials of distances of `scores` from the largest of a row, `maxima`; `made` are the ops that make the scores,
    the first product before all."""

    product: ContractionOp
    index: int
    weights: DivideOp
    exp: ExpOp
    shifted: SubtractOp
    total: ReductionOp
    largest: ReductionOp
    made: list[Operation]

    @property
    def scores(self) -> SSAValue:
        return self.shifted.operands[0]

    @property
    def maxima(self) -> SSAValue:
        return self.largest.results[0]

    @property
    def numerators(self) -> SSAValue:
        return self.exp.results[0]

    @property
    def sums(self) -> SSAValue:
        return self.total.results[0]

    def in_order_of_results(self) -> tuple[int, ...] | None:
        """The permutation of numbers of rows, such as `sums`, into the order of results; None where they are in it."""
        loops = Loops.of(self.product)
        assert loops is not None
        *rows, _ = loops.operands[self.index]
        order = reordered(rows, loops.result[:-1])
        assert order is not None
        return None if order == tuple(range(len(rows))) else (*order, len(rows))

    @property
    def values(self) -> SSAValue:
        """The other operand of the second product."""
        return self.product.operands[1 - self.index]


def softmax_before(product: ContractionOp) -> Softmax | None:
    """The softmax whose weights a product multiplies, if their scores are a product, too."""
    if len(product.operands) != 2 or not all(is_half(value) for value in (*product.operands, *product.results)):
        return None
    for index, operand in enumerate(product.operands):
        weights = _divided(operand, element_of(operand.type))
        if weights is not None and _multiplies_rows(product, index):
            found = _softmax(product, index, weights)
            if found is not None:
                return found
    return None


def is_half(value: SSAValue) -> bool:
    """Whether a value of known shape is of f16 or bf16."""
    return isinstance(element_of(value.type), Float16Type | BFloat16Type) and is_static(value.type)


def _divided(value: SSAValue, element: Attribute | None) -> DivideOp | None:
    """The division whose result, perhaps cast to `element`, is this value."""
    while isinstance(value.owner, CastOp):
        if not isinstance(known := element_of(value.type), Float32Type) and known != element:
            return None
        value = value.owner.x
    return value.owner if isinstance(value.owner, DivideOp) else None


def _softmax(product: ContractionOp, index: int, weights: DivideOp) -> Softmax | None:
    numerators, sums = weights.operands
    exp, total = numerators.owner, row_reduction(sums, "add")
    if not isinstance(exp, ExpOp) or total is None or total.operands[0] is not numerators:
        return None
    shifted = exp.operands[0].owner
    if not isinstance(shifted, SubtractOp) or not isinstance(element_of(numerators.type), Float32Type):
        return None
    scores, maxima = shifted.operands
    largest = row_reduction(maxima, "maximum")
    if largest is None or largest.operands[0] is not scores:
        return None
    made = _scored(scores)
    return None if made is None else Softmax(product, index, weights, exp, shifted, total, largest, made)


def row_reduction(value: SSAValue, combine: str) -> ReductionOp | None:
    """The op that combines the last dimension to this value, of which it leaves one element."""
    op = value.owner
    if not isinstance(op, ReductionOp) or combine != op.COMBINE or not op.settings["keepdims"]:
        return None
    return op if axes_of(op) == (len(shape_of(op.operands[0].type) or ()) - 1,) else None


def _scored(scores: SSAValue) -> list[Operation] | None:
    """The first product and the elementwise ops that make scores of its result."""
    members: list[Operation] = []
    value = scores
    while isinstance(op := value.owner, ElementwiseOp):
        members.insert(0, op)
        shape = shape_of(value.type)
        made = [v for v in op.operands if shape_of(v.type) == shape and _comes_from_product(v)]
        if len(op.results) != 1 or len(made) != 1:
            return None
        (value,) = made
    return [op, *members] if isinstance(op, ContractionOp) and makes_rows(op) else None


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


def makes_rows(product: ContractionOp) -> bool:
    """Whether the last dimensions of a result are those of its two operands, in either order, and a warp's registers
    hold what it multiplies."""
    if len(product.operands) != 2 or not all(map(is_half, product.operands)):
        return False
    loops = Loops.of(product)
    if loops is None or loops.extents[loops.reduced] > MOST_HEAD:
        return False
    row, column = loops.result[-2:]
    owners = [[index for index in (0, 1) if loop in loops.operands[index]] for loop in (row, column)]
    if sorted(owners) != [[0], [1]] or None in (row, column):
        return False
    return loops.extents[row] >= LEAST_ROWS and loops.extents[column] >= LEAST_KEYS  # pyright: ignore


def _multiplies_rows(product: ContractionOp, index: int) -> bool:
    """Whether a product is along the last dimension of an operand, in whose place it has one of the other operand."""
    loops = Loops.of(product)
    if loops is None:
        return False
    weights, values = loops.operands[index], loops.operands[1 - index]
    row, column = weights[-2:] if len(weights) > 1 else (None, None)
    if column != loops.reduced or row is None or reordered(weights[:-1], loops.result[:-1]) is None:
        return False
    head = loops.result[-1]
    if loops.last_of(index) != row:  # not one that values have, too
        return False
    return head is not None and head in values and head not in weights and loops.extents[head] <= MOST_HEAD


@dataclass(frozen=True)
class Loops:
    """The loops of a product that sums along one of them, `reduced`."""

    operands: tuple[tuple[int | None, ...], ...]
    result: tuple[int | None, ...]
    extents: tuple[int, ...]
    reduced: int

    @staticmethod
    def of(product: ContractionOp) -> Loops | None:
        """Of a product; None where it sums along several, or reads windows."""
        iteration = iteration_of(product)
        if iteration is None or None in iteration.operands or len(iteration.results[0]) < 2:
            return None
        space = iteration.space
        reduced = [loop for loop, parallel in enumerate(space.parallel) if not parallel]
        accesses = tuple([access for access in iteration.operands if access is not None])
        if len(reduced) != 1 or any(ACROSS in access for access in accesses):
            return None
        return Loops(accesses, iteration.results[0], tuple(map(int, space.extents)), reduced[0])

    def last_of(self, index: int) -> int | None:
        """The last loop of the result that one of two operands has alone: what has the rows of matrices."""
        own = [loop for loop in self.result if loop in self.operands[index] and loop not in self.operands[1 - index]]
        return own[-1] if own else None

    def roles(self, scores: tuple[int | None, ...]) -> list[tuple[int | None, ...]]:
        """For each dimension of the operands, then of the result, the dimension of `scores`, from the end, that has the
        same loop, or `OWN`."""
        numbers = {loop: number - len(scores) for number, loop in enumerate(scores) if loop is not None}
        accesses = (*self.operands, self.result)
        return [tuple([None if loop is None else numbers.get(loop, OWN) for loop in access]) for access in accesses]


def reordered(dimensions: Sequence[int | None], wanted: Sequence[int | None]) -> tuple[int, ...] | None:
    """The permutation that brings what is said of `dimensions` into the order of `wanted`, if there is one."""
    left, order = list(range(len(dimensions))), list[int]()
    for one in wanted:
        found = next((number for number in left if dimensions[number] == one), None)
        if found is None:
            return None
        left.remove(found)
        order.append(found)
    return None if left else tuple(order)


def have_one_role(products: Iterable[tuple[ContractionOp, int | None]], made: Container[SSAValue]) -> bool:
    """Whether all products read a value along the same dimensions of scores, but for those `made` for each score. Of a
    product the scores are the operand of this index, or the result."""
    known: dict[SSAValue, tuple[int | None, ...]] = {}
    for product, index in products:
        loops = Loops.of(product)
        assert loops is not None
        roles = loops.roles(loops.result if index is None else loops.operands[index])
        for value, own in zip(product.operands, roles, strict=False):
            if value not in made and known.setdefault(value, own) != own:
                return False
    return True


OWN = 0
"""Stands for the dimension of a product that scores do not have: what they are sums along, or the head of results."""
