"""What uses the weights of a softmax between two products beside the second one: what its gradient is."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp, ElementwiseOp
from tenon.dialects.ops.elementwise.arithmetic import MultiplyOp
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.move.shape import TransposeOp
from tenon.dialects.ops.reduce.reduction import SumOp
from tenon.dialects.types.types import compute_type, element_of, shape_of
from tenon.passes.loops.softmax_chains import MOST_HEAD, Loops, Softmax, is_half, makes_rows, reordered, row_reduction


@dataclass(frozen=True)
class Exit:
    """A product with `operand` as the one at `index`, which is computed for each score; `along` is the dimension of
    scores that it sums along, from the end."""

    product: ContractionOp
    index: int
    along: int

    @property
    def operand(self) -> SSAValue:
        return self.product.operands[self.index]


def _exit(product: ContractionOp, operand: SSAValue) -> Exit | None:
    """How a product uses scores, if a kernel may: along rows or columns, in whose place it has a short head."""
    loops = Loops.of(product)
    if loops is None or len(product.operands) != 2 or not all(map(is_half, (*product.operands, *product.results))):
        return None
    index = list(product.operands).index(operand)
    scores, other = loops.operands[index], loops.operands[1 - index]
    if loops.reduced not in scores[-2:] or None in scores[-2:] or operand is product.operands[1 - index]:
        return None
    if isinstance(without_casts(operand).owner, CastOp):  # of something that instructions do not multiply
        return None
    along = -1 if scores[-1] == loops.reduced else -2
    own = scores[-3 - along]
    heads = [loop for loop in other if loop not in scores and loop in loops.result and loop is not None]
    around = set(scores[:-2]) - {None}
    if loops.last_of(index) != own or len(heads) != 1 or loops.extents[heads[0]] > MOST_HEAD:
        return None
    return Exit(product, index, along) if set(loops.result) - {None} == {*around, own, heads[0]} else None


@dataclass
class WeightUses:
    """What uses the `weights` of a softmax, a value and its casts: `members` are elementwise ops and the products that
    they use, `sums` what is added up along rows, `exits` what uses values of members."""

    softmax: Softmax
    block: Block
    weights: dict[SSAValue, None] = field(default_factory=dict)
    members: dict[Operation, None] = field(default_factory=dict)
    sums: dict[SSAValue, Operation] = field(default_factory=dict)
    exits: list[Exit] = field(default_factory=list)
    gradient: ContractionOp | None = None
    """The product that is multiplied with weights and added up along rows."""

    @staticmethod
    def of(softmax: Softmax) -> WeightUses | None:
        """None where nothing uses the weights, or something that needs them in memory."""
        block = softmax.product.parent
        assert block is not None
        found = WeightUses(softmax, block)
        is_known = found._follow() and bool(found.exits) and found._take_sources(list(found.members))
        return found if is_known and all(map(found._tell_sum, found.sums.values())) else None

    def by_axis(self) -> list[list[Exit]]:
        """The exits that sum along rows, and those that do along columns."""
        kinds = [[known for known in self.exits if known.along == along] for along in (-1, -2)]
        return [kind for kind in kinds if kind]

    def is_made(self, value: SSAValue) -> bool:
        """Whether kernels of the gradient compute a value, for each score."""
        return value in self.weights or value.owner in self.members or value.owner in self.softmax.made

    def _is_scored(self, op: Operation) -> bool:
        """Whether an op computes one number for each score by itself."""
        shape = shape_of(self.softmax.numerators.type)
        return isinstance(op, ElementwiseOp) and len(op.results) == 1 and shape_of(op.results[0].type) == shape

    def _follow(self) -> bool:
        """Find what uses the weights, and what is made of them."""
        self.weights[self.softmax.weights.results[0]] = None
        pending, seen = list(self.weights), set[Operation]()
        while pending:
            value = pending.pop()
            for op in dict.fromkeys([use.operation for use in value.uses]):
                if op is self.softmax.product or op in seen:
                    continue
                seen.add(op)
                if op.parent is not self.block or not self._take(op, value):
                    return False
                if not isinstance(op, ContractionOp):
                    pending += op.results
        return True

    def _take(self, op: Operation, value: SSAValue) -> bool:
        """Take in a user of a value."""
        if isinstance(op, ContractionOp):
            found = _exit(op, value)
            if found is not None:
                self.exits.append(found)
            return found is not None
        if self._is_scored(op):
            if isinstance(op, CastOp) and only_rounds(op) and value in self.weights:
                self.weights[op.result] = None
            else:
                self.members[op] = None
            return True
        if not op.results or row_reduction(op.results[0], "add") is not op:
            return False
        self.sums[op.results[0]] = op
        return True

    def _take_sources(self, users: list[Operation]) -> bool:
        """Take in what else members are computed of for each score, and nothing else uses."""
        for user in users:
            for value in user.operands:
                op = value.owner
                if self.is_made(value) or not isinstance(op, Operation) or op.parent is not self.block:
                    continue
                is_alone = all(use.operation in self.members for use in value.uses)
                if not is_alone or shape_of(value.type) != shape_of(self.softmax.numerators.type):
                    continue
                if isinstance(op, ContractionOp):
                    if not makes_rows(op):
                        return False
                    self.members[op] = None
                elif self._is_scored(op) and op.operands:
                    self.members[op] = None
                    if not self._take_sources([op]):
                        return False
        return True

    def _tell_sum(self, op: Operation) -> bool:
        """Whether a sum along rows is one of weights times the product of what is multiplied with the values."""
        terms = op.operands[0].owner
        if not isinstance(terms, MultiplyOp):
            return False
        others = [value for value in terms.operands if value not in self.weights]
        product = without_casts(others[0]).owner if len(others) == 1 else None
        if not isinstance(product, ContractionOp) or product not in self.members:
            return False
        loops, values = Loops.of(product), self.softmax.values
        if loops is None or values not in product.operands or self.gradient not in (None, product):
            return False
        self.gradient = product
        index = list(product.operands).index(values)
        roles, (*of_operands, of_results) = loops.roles(loops.result), self._roles_of_results()
        same_values = roles[index] == of_operands[1 - self.softmax.index]
        return same_values and reordered(roles[1 - index], of_results) is not None

    def _roles_of_results(self) -> list[tuple[int | None, ...]]:
        loops = Loops.of(self.softmax.product)
        assert loops is not None
        return loops.roles(loops.operands[self.softmax.index])

    def row_numbers(self) -> list[TensorOp]:
        """Ops that compute the sums along rows as those of dO ∘ O, which the last one gives, in the order of O."""
        product = self.gradient
        assert product is not None
        loops = Loops.of(product)
        assert loops is not None
        index = 1 - list(product.operands).index(self.softmax.values)
        order = reordered(loops.roles(loops.result)[index], self._roles_of_results()[2])
        made: list[TensorOp] = []
        given, results = product.operands[index], self.softmax.product.results[0]
        if order != tuple(range(len(order or ()))):
            made.append(TransposeOp.build_from([given], {"permutation": order}))
            given = made[-1].results[0]
        casts = [CastOp.build_from([value], {"dtype": f32}) for value in (given, results)]
        terms = MultiplyOp.build_from([cast.result for cast in casts], {})
        return [*made, *casts, terms, SumOp.build_from([terms.results[0]], {"axis": (-1,), "keepdims": True})]

    def erase_dead(self) -> None:
        """Erase what nothing uses any more."""
        dead = {*self.members, *self.sums.values(), *[known.product for known in self.exits]}
        dead |= {value.owner for value in self.weights if value.owner is not self.softmax.weights}
        for op in reversed([op for op in self.block.ops if op in dead]):
            if not any(result.first_use for result in op.results):
                Rewriter.erase_op(op)


def without_casts(value: SSAValue) -> SSAValue:
    """What a value is, but for rounding."""
    while isinstance(op := value.owner, CastOp) and only_rounds(op):
        value = op.x
    return value


def only_rounds(op: CastOp) -> bool:
    """Whether a cast is between floats of which kernels of the gradient have the values in f32."""
    return all(compute_type(element_of(value.type)) == f32 for value in (op.x, op.result))
