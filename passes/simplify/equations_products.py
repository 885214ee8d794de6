"""The equation that divides a product of normalized rows rather than the rows.

A softmax divides each row by its sum. Where all that uses it is a product that adds up along the rows, such as that of
the scores of an attention with its values, the smaller result can be divided instead. That differs in rounding, and
where a value times the length of a row overflows: the numbers of a row are between 0 and 1 before they are divided, and
one of them is 1. Where the largest number is that of more than a row, all of a row may be as small as subnormal, and
products with them 0.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from tenon.dialects.families import ContractionOp, ReductionOp
from tenon.dialects.ops.elementwise.arithmetic import DivideOp, SubtractOp
from tenon.dialects.ops.elementwise.elementary import ExpOp
from tenon.dialects.ops.reduce.reduction import MaxOp, SumOp
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import compute_type, element_of, is_float, is_static, shape_of
from tenon.passes.iteration import Access, iteration_of
from tenon.passes.simplify.equation import by_class, defined_by, replace_same_type


class DivideProduct(RewritePattern):
    """matmul(x / sum(x), y) -> matmul(x, y) / sum(x), where x is exp(z - max(z)), with the maximum along no more axes
    than the sum, and the result is smaller than x"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, ContractionOp) or not all(is_static(v.type) for v in (*op.operands, *op.results)):
            return
        element = element_of(op.results[0].type)
        if not is_float(element) or element != compute_type(element):
            return
        for index, operand in enumerate(op.operands):
            division = defined_by(operand, DivideOp)
            if division is None or not operand.has_one_use() or not _is_normalization(division):
                continue
            weights, total = division.operands
            iteration = iteration_of(op)
            if iteration is None or not _is_of_rows(iteration.operands[index], iteration.results[0], operand, total):
                continue
            if _elements(op.results[0]) >= _elements(operand):
                continue
            operands = [weights if number == index else value for number, value in enumerate(op.operands)]
            product = type(op).build_from(op.group(operands, op.properties), op.settings)
            product.attributes = dict(op.attributes)
            replace_same_type(op, rewriter, product, DivideOp.build_from([product.results[0], total], {}))
            return


def _is_normalization(division: DivideOp) -> bool:
    """Whether `division` divides exp(z - max(z)) by sums of it, each over elements of which one is 1."""
    weights, total = division.operands
    exp, added = defined_by(weights, ExpOp), defined_by(total, SumOp)
    if exp is None or added is None or added.operands[0] is not weights:
        return False
    difference = defined_by(exp.operands[0], SubtractOp)
    if difference is None:
        return False
    largest = defined_by(difference.operands[1], MaxOp)
    return largest is not None and largest.operands[0] is difference.operands[0] and _axes(largest) <= _axes(added)


def _axes(reduction: ReductionOp) -> set[int]:
    return set(normalize_axes(reduction.settings["axis"], len(shape_of(reduction.operands[0].type) or ())))


def _is_of_rows(access: Access | None, result: Access, operand: SSAValue, total: SSAValue) -> bool:
    """Whether `total`, which is broadcast to `operand`, is as well broadcast to the result."""
    sizes, full = shape_of(total.type), shape_of(operand.type)
    if access is None or sizes is None or full is None or not len(sizes) == len(full) == len(result):
        return False
    return all(size == 1 or loop == known for size, loop, known in zip(sizes, access, result, strict=True))


def _elements(value: SSAValue) -> int:
    return estimate(prod(shape_of(value.type) or ()))


NORMALIZED_PRODUCTS = by_class([((ContractionOp,), DivideProduct())])
