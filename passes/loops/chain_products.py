"""Mark two products of matrices and the softmax between them, which can be one kernel: softmax(Q Kᵀ) V.

Before: the tensor stage, decomposed, for a GPU. After: the same values, but for rounding; ops that are to be one kernel
have the same number as their attribute `chained`, and `fuse` makes them one. Rows of scores are then gone through in
pieces, whose maxima and sums go on from piece to piece (the step `online`), so that no score is in memory.

What divides the weights is done to the sums of the second product, of which there are fewer, when these are there:

    %p = tenon.divide %e, %l                      %n = tenon.matmul %e, %v {chained = 0}
    %o = tenon.matmul %p, %v              ->      %o = tenon.divide %n, %l {chained = 0}

The rule: the first product is of f16 or bf16; elementwise ops of its shape follow, with any other operands (scales,
masks); rows of what these give are exponentials of their distance from the largest, added up, and divided by that sum;
the second product is along rows. Nothing else uses what is in between, but for numbers of a row that are made of the
largest and of the sum: they are results of the kernel, for what is behind the second product. Both have matrices that a
warp's registers hold the sums of: heads of at most `MOST_HEAD` elements, and at least `LEAST_ROWS` queries and
`LEAST_KEYS` keys.

Where the gradient of such a chain uses the weights, it gets kernels of its own first (`chain_gradients`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp, ElementwiseOp
from tenon.dialects.ops.elementwise.arithmetic import DivideOp
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.move.shape import TransposeOp
from tenon.dialects.types.types import element_of
from tenon.dialects.upstream.walking import ops_of
from tenon.passes.loops.chain_gradients import chain_gradients, multiply_weights, product_of_rounded
from tenon.passes.loops.chained import CHAINED
from tenon.passes.loops.softmax_chains import Softmax, have_one_role, softmax_before


class ChainProductsPass(ModulePass):
    """Mark products of matrices that can be one kernel with the softmax between them."""

    name = "chain-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        multiply_weights(op)
        number = 0
        for product in list(ops_of(op, ContractionOp)):
            # A product whose place a kernel of its own took, as it uses weights of another chain, has no parent.
            softmax = None if product.parent is None else softmax_before(product)
            if softmax is None:
                continue
            chains = chain_gradients(softmax)
            statistics = _used_as_chain(softmax)
            if statistics is not None:
                chains.append(_divided_last(softmax, statistics))
            for members in chains:
                for member in members:
                    member.attributes[CHAINED] = IntegerAttr(number, i64)
                number += 1


def _used_as_chain(softmax: Softmax) -> list[Operation] | None:
    """The ops that make numbers of a row of its largest score and its sum, if nothing else uses what is in between."""
    weights = softmax.product.operands[softmax.index]
    while weights is not softmax.weights.results[0]:
        if not weights.has_one_use() or not isinstance(weights.owner, CastOp):
            return None
        weights = weights.owner.x
    first, last = softmax.made[0], softmax.shifted
    assert isinstance(first, ContractionOp)
    if not weights.has_one_use() or not all(op.results[0].has_one_use() for op in softmax.made[:-1]):
        return None
    statistics = _statistics(softmax)
    users: list[tuple[SSAValue, list[Operation]]] = [
        (softmax.made[-1].results[0], [softmax.largest, last]),
        (softmax.maxima, [last, *statistics]),
        (last.results[0], [softmax.exp]),
        (softmax.numerators, [softmax.total, softmax.weights]),
        (softmax.sums, [softmax.weights, *statistics]),
    ]
    if not all(use.operation in expected for value, expected in users for use in value.uses):
        return None
    if any(_is_needed_before(softmax.product, op, statistics) for op in statistics):
        return None
    products = [(first, None), (softmax.product, softmax.index)]
    return statistics if have_one_role(products, [softmax.product.operands[softmax.index]]) else None


def _is_needed_before(product: ContractionOp, op: Operation, statistics: Sequence[Operation]) -> bool:
    """Whether something but `statistics` uses the result of one of them before the place of the kernel, which is that
    of the product: what is multiplied there may be made of it."""
    block = product.parent
    assert block is not None
    users = [block.find_ancestor_op_in_block(use.operation) for use in op.results[0].uses]
    return not all(user in statistics or (user is not None and product.is_before_in_block(user)) for user in users)


def _statistics(softmax: Softmax) -> list[Operation]:
    """The elementwise ops all of whose operands come from the largest score of a row and from its sum."""
    known, found = {softmax.maxima, softmax.sums}, dict[Operation, None]()
    pending = list(known)
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, ElementwiseOp) and known.issuperset(op.operands) and op not in found:
                found[op] = None
                known.update(op.results)
                pending += op.results
    return list(found)


def _divided_last(softmax: Softmax, statistics: list[Operation]) -> list[Operation]:
    """The ops of a chain, with a product of numerators, divided by their sums, in place of one of weights."""
    old = softmax.product
    before = old.operands[softmax.index]
    made: list[TensorOp] = product_of_rounded(old, softmax.index, softmax.numerators)
    numerators, sums, order = made[-1].results[0], softmax.sums, softmax.in_order_of_results()
    if order is not None:
        made.append(TransposeOp.build_from([sums], {"permutation": order}))
        sums = made[-1].results[0]
    made.append(DivideOp.build_from([numerators, sums], {}))
    made.append(CastOp.build_from([made[-1].results[0]], {"dtype": element_of(old.results[0].type)}))
    for op in made:
        op.location = old.location
    made[-1].results[0].name_hint = old.results[0].name_hint
    Rewriter.replace_op(old, made)
    while before.first_use is None and isinstance(before.owner, CastOp | DivideOp):
        dead, before = before.owner, before.owner.operands[0]
        Rewriter.erase_op(dead)
    return [*softmax.made, softmax.largest, softmax.shifted, softmax.exp, softmax.total, *statistics, *made]
