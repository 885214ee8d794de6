"""The gradient of a softmax between two products as kernels that compute the scores again, piece by piece.

The gradient of O = softmax(f(Q Kᵀ)) V is products of matrices of which one operand is computed for each score:

    P = exp(f(Q Kᵀ) - L)     dV = Pᵀ dO     D = sum of dO ∘ O     dS = f'(P ∘ (dO Vᵀ - D))     dQ = dS K     dK = dSᵀ Q

L, the logarithm of the sum of exponentials of a row, is a number of a row that the forward kernel gives as well. So is
D, the sum of P ∘ dO Vᵀ along a row: it is had of O, which is computed for that where only gradients are wanted. Then
each product needs Q, K, V, dO and numbers of rows alone: those that sum along rows of scores are one kernel, those
along columns another one, and in neither is a score in memory. (T. Dao, "FlashAttention-2", 2023.)

The rule: all that uses the weights, but for the product of the chain, are elementwise ops of their shape; sums along
rows of weights times a product of what is multiplied with the values; and products along rows or columns of f16 or
bf16. What else these ops use is in memory anyway, or is such a product. Weights and what follows are not rounded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import ComputedByUsers, KnownValue, states
from tenon.dialects.families import ContractionOp, ReductionOp
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.elementwise.arithmetic import AddOp, DivideOp, MultiplyOp, SubtractOp
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.elementwise.elementary import ExpOp, LogOp
from tenon.dialects.ops.move.shape import TransposeOp
from tenon.dialects.types.types import compute_type, element_of, shape_of
from tenon.dialects.upstream.walking import ops_of
from tenon.passes.iteration import iteration_of
from tenon.passes.loops.softmax_chains import (
    Loops,
    Softmax,
    have_one_role,
    makes_rows,
    row_reduction,
    softmax_before,
)
from tenon.passes.loops.weight_uses import Exit, WeightUses, without_casts


def chain_gradients(softmax: Softmax) -> list[list[Operation]]:
    """Give the gradient kernels of its own; the ops of each, in order. None where nothing uses the weights but the
    product, or something needs them in memory."""
    found = WeightUses.of(softmax)
    if found is None:
        return []
    positions = {op: number for number, op in enumerate(found.block.ops)}
    plans = [_Plan(exits, _place(found.block, exits, positions)) for exits in found.by_axis()]
    known_at = positions | {known.product: positions[plan.place] for plan in plans for known in plan.exits}
    if not all(plan.is_possible(found, known_at) for plan in plans):
        return []
    builder = _Builder(found)
    chains = [builder.chain(plan) for plan in sorted(plans, key=lambda plan: positions[plan.place])]
    found.erase_dead()
    return chains


def multiply_weights(module: ModuleOp) -> None:
    """Compute the results whose gradients a module has, where it has no use for them: sums along rows are had of
    these, from which no kernel has to compute scores."""
    for op in ops_of(module, ReductionOp):
        terms = op.operands[0].owner if row_reduction(op.results[0], "add") is op else None
        if not isinstance(terms, MultiplyOp):
            continue
        for index in (0, 1):
            weights, other = (without_casts(terms.operands[n]).owner for n in (index, 1 - index))
            if isinstance(weights, DivideOp) and isinstance(other, ContractionOp) and makes_rows(other):
                _multiply(weights, other)


def _multiply(weights: DivideOp, gradient: ContractionOp) -> None:
    """Add the product of weights and values of which `gradient` is that of the weights, unless there is one."""
    (result,), block = weights.results, gradient.parent
    loops, iteration = Loops.of(gradient), iteration_of(gradient)
    values = [result, *[use.operation.results[0] for use in result.uses if isinstance(use.operation, CastOp)]]
    users = [use.operation for value in values for use in value.uses]
    if any(isinstance(op, ContractionOp) and softmax_before(op) is not None for op in users):
        return
    if block is None or loops is None or iteration is None or weights.parent is not block:
        return
    if shape_of(result.type) != shape_of(gradient.results[0].type):  # one is broadcast: no gradient of the other
        return
    index = next(n for n, roles in enumerate(loops.roles(loops.result)[:2]) if -1 in roles)
    value, given = gradient.operands[index], gradient.operands[1 - index]
    space, shape = iteration.space, shape_of(given.type)
    cast = CastOp.build_from([result], {"dtype": element_of(value.type)})
    maps = (*space.results, space.operands[index], space.operands[1 - index])
    settings = {"maps": maps, "extents": space.extents, "shape": shape}
    product = ContractOp.build_from([(cast.result, value)], settings)
    if softmax_before(product) is None:
        product.erase()
        cast.erase()
        return
    is_later = (
        isinstance(value.owner, Operation) and value.owner.parent is block and weights.is_before_in_block(value.owner)
    )
    for op in (product, cast):
        op.location = gradient.location
        block.insert_op_after(op, value.owner if is_later else weights)  # pyright: ignore[reportArgumentType]


def product_of_rounded(product: ContractionOp, index: int, operand: SSAValue) -> list[TensorOp]:
    """Ops that compute a product in f32, of `operand` of f32 rounded in the place of the one at `index`; the last one
    is the product."""
    rounded = CastOp.build_from([operand], {"dtype": element_of(product.operands[index].type)})
    operands = list(product.operands)
    operands[index] = rounded.result
    factors = [CastOp.build_from([value], {"dtype": f32}) for value in operands]
    return [rounded, *factors, _with_operands(product, [cast.result for cast in factors])]


def _with_operands(op: TensorOp, operands: Sequence[SSAValue]) -> TensorOp:
    return type(op).build_from(op.group(operands, op.properties), op.settings)


@dataclass(frozen=True)
class _Plan:
    """A kernel that computes `exits`, before `place`."""

    exits: list[Exit]
    place: Operation

    def is_possible(self, found: WeightUses, positions: dict[Operation, int]) -> bool:
        """Whether the place, before all that needs the kernel, is behind all that it needs; `positions` has those of
        exits where kernels give their results."""
        exits, place = self.exits, self.place
        needed = _needed(found, [known.operand for known in exits])
        products = [(op, None) for op in needed if isinstance(op, ContractionOp)]
        products += [(known.product, known.index) for known in exits]
        given = [v for op in (*needed, *[e.product for e in exits]) for v in op.operands if not found.is_made(v)]
        has_sums = any(value in found.sums for value in given)
        rows = found.softmax.product if has_sums else found.softmax.total
        if has_sums and found.gradient is not None:
            given += found.gradient.operands
        if positions[rows] >= positions[place] or not have_one_role(products, [e.operand for e in exits]):
            return False
        late = [v.owner for v in given if v not in found.sums and _position(positions, v) >= positions[place]]
        return all(map(_is_cloned, late))


def _place(block: Block, exits: Iterable[Exit], positions: dict[Operation, int]) -> Operation:
    """The first op of a block that needs a result of `exits`, or its last one."""
    users = [block.find_ancestor_op_in_block(use.operation) for e in exits for use in e.product.results[0].uses]
    place = min((user for user in users if user is not None), key=positions.__getitem__, default=block.last_op)
    assert place is not None
    return place


def _position(positions: dict[Operation, int], value: SSAValue) -> int:
    """Where in the block a value is defined, or before all of it."""
    return positions.get(value.owner, -1) if isinstance(value.owner, Operation) else -1


def _is_cloned(owner: Operation | Block) -> bool:
    """Whether an op needs nothing, and costs little where it is needed."""
    return (
        isinstance(owner, Operation)
        and not owner.operands
        and (states(owner, KnownValue) or states(owner, ComputedByUsers))
    )


def _needed(found: WeightUses, values: Iterable[SSAValue]) -> dict[Operation, None]:
    """The ops that values which are made for each score are computed by again."""
    needed, pending = dict[Operation, None](), list(values)
    while pending:
        value = pending.pop()
        if not found.is_made(value):
            continue
        made = found.softmax.made if value in found.weights else [value.owner]
        for op in made:
            if isinstance(op, Operation) and op not in needed:
                needed[op] = None
                pending += op.operands
    return needed


class _Builder:
    """Writes the kernels of a gradient, in order, and what they need of rows before the first that needs some."""

    def __init__(self, found: WeightUses) -> None:
        self.found, self.block = found, found.block
        softmax = found.softmax
        log = LogOp.build_from([softmax.sums], {})
        self.logarithms = AddOp.build_from([softmax.maxima, log.results[0]], {})
        for op in (self.logarithms, log):
            op.location = softmax.total.location
            self.block.insert_op_after(op, softmax.total)
        self._sum: SSAValue | None = None

    def sum_before(self, first: Operation) -> SSAValue:
        """The sums along rows, which are computed before `first` if they are not yet."""
        if self._sum is None:
            ops = self.found.row_numbers()
            self.block.insert_ops_before(ops, first)
            for op in ops:
                op.location = self.found.softmax.product.location
            self._sum = ops[-1].results[0]
        return self._sum

    def chain(self, plan: _Plan) -> list[Operation]:
        """Put the ops of a kernel in front of its place; these."""
        kernel = _Kernel(self, plan.place)
        results = [kernel.product(known) for known in plan.exits]
        for known, result in zip(plan.exits, results, strict=True):
            result.name_hint = known.product.results[0].name_hint
            known.product.results[0].replace_all_uses_with(result)
        return kernel.made


class _Kernel:
    """The ops of one kernel, while they are made."""

    def __init__(self, builder: _Builder, place: Operation) -> None:
        self.found, self.builder, self.place = builder.found, builder, place
        self.made: list[Operation] = []
        self._exact: dict[SSAValue, SSAValue] = {}
        """Scores as the forward kernel has them, and constants."""
        self._wide: dict[SSAValue, SSAValue] = {}
        """The others, in f32."""

    def _add(self, op: Operation, like: Operation) -> SSAValue:
        op.location = like.location
        self.builder.block.insert_op_before(op, self.place)
        self.made.append(op)
        return op.results[0]

    def product(self, known: Exit) -> SSAValue:
        """The result of an exit."""
        product = known.product
        operand = self.wide(known.operand)
        for op in product_of_rounded(product, known.index, operand):
            self._add(op, product)
        element = element_of(product.results[0].type)
        return self._add(CastOp.build_from([self.made[-1].results[0]], {"dtype": element}), product)

    def wide(self, value: SSAValue) -> SSAValue:
        """A value as an operand of what is computed in f32."""
        if value not in self._wide:
            self._wide[value] = self._computed(value)
        return self._wide[value]

    def _computed(self, value: SSAValue) -> SSAValue:
        found = self.found
        if value in found.weights:
            first = next(iter(found.weights))
            return self._weights() if value is first else self.wide(first)
        if value in found.sums:
            known = self.builder.sum_before(self.made[0] if self.made else self.place)
            order = found.softmax.in_order_of_results()
            if order is None:
                return known
            back = {"permutation": tuple(order.index(number) for number in range(len(order)))}
            return self._add(TransposeOp.build_from([known], back), self.place)
        op = value.owner
        if op not in found.members:
            exact = self.exact(value)
            return self._cast(exact, element_of(exact.type), self.place)
        assert isinstance(op, TensorOp)
        if isinstance(op, CastOp):
            return self._cast(self.wide(op.x), element_of(op.result.type), op)
        if isinstance(op, ContractionOp):
            factors = [self._add(CastOp.build_from([given], {"dtype": f32}), op) for given in op.operands]
            return self._add(_with_operands(op, factors), op)
        return self._add(_with_operands(op, [self.wide(given) for given in op.operands]), op)

    def _cast(self, value: SSAValue, element: Attribute, like: Operation) -> SSAValue:
        """A value in the type in which `element` is computed: what only rounds, to 4 bytes or less, does nothing."""
        wanted = compute_type(element)
        if element_of(value.type) == wanted:
            return value
        return self._add(CastOp.build_from([value], {"dtype": wanted}), like)

    def _weights(self) -> SSAValue:
        """Exponentials of distances from the logarithm of the sum of all."""
        softmax = self.found.softmax
        distances = SubtractOp.build_from([self.exact(softmax.scores), self.builder.logarithms.results[0]], {})
        return self._add(ExpOp.build_from([self._add(distances, softmax.shifted)], {}), softmax.exp)

    def exact(self, value: SSAValue) -> SSAValue:
        """A value as it is, or as the forward kernel computes it."""
        op = value.owner
        is_made = op in self.found.softmax.made
        if not isinstance(op, Operation) or not (is_made or _is_cloned(op)):
            return value
        if value not in self._exact:
            clone = op.clone({given: self.exact(given) for given in op.operands})
            if is_made:
                self._add(clone, op)
            else:
                self.builder.block.insert_op_before(clone, self.place)
            self._exact[value] = clone.results[0]
        return self._exact[value]
