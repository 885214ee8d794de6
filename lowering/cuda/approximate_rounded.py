"""`approximate-rounded`: allow approximations whose error is far below that of the rounding to f16 or bf16 behind them.

Before: a grid-mapped module. After: in its kernels, exponentials, hyperbolic tangents, square roots and quotients in
f32 have the flag `afn` (exponentials as powers of two) where all that becomes of them is rounded to f16 or bf16, and no
cancellation on the way makes their relative error larger: there are products, quotients, choices, and sums of what is
not negative, but no products that go on from iteration to iteration.
A quotient has `arcp`, too, where the divisor is known to have a reciprocal that is neither 0 nor infinite.

An instruction of the hardware then takes the place of ten to twenty: its error, 2^-20 at most (of exponentials 2^-17 at
the ends of their range), moves a result by a thousandth of what rounding to bf16 moves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from xdsl.dialects import arith, func, math, memref, scf
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, FloatAttr, ModuleOp, f32
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.upstream.gpu_shuffle import ShuffleOp
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.function_pass import Change, FunctionPass

_LEAST, _MOST = 2.0**-100, 2.0**100
"""Between them a number has a reciprocal with all its digits."""
_ANY = -inf, inf
_GREATER = 2  # the predicate ogt of arith.cmpf
_LOG2_E = 1.4426950408889634

_CANDIDATES = (math.ExpOp, math.Exp2Op, math.TanhOp, math.SqrtOp, arith.DivfOp)
_POSITIVE = (math.AbsFOp, math.ExpOp, math.Exp2Op, math.SqrtOp, math.RsqrtOp)
_PASSED = (
    *(arith.MulfOp, arith.DivfOp, arith.NegfOp, math.AbsFOp, math.SqrtOp, math.RsqrtOp),
    *(arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp, ShuffleOp),
)
"""Ops whose result has about the relative error of an operand."""
_Source = memref.AllocaOp | BlockArgument


class ApproximateRoundedPass(FunctionPass):
    """The pass `approximate-rounded`; see the module docstring."""

    name = "approximate-rounded"

    def change(self, module: ModuleOp) -> Change:
        return approximate_rounded


def approximate_rounded(function: func.FuncOp) -> None:
    """Set the flags in one kernel; those that say so already may be approximated where they are."""
    if not any(isinstance(op.result.type, Float16Type | BFloat16Type) for op in ops_of(function, arith.TruncFOp)):
        return
    candidates = [op for op in all_ops(function) if isinstance(op, _CANDIDATES) and op.results[0].type == f32]
    values = _Values(function)
    rounded = [op for op in candidates if not _is_approximated(op) and values.is_rounded(op.results[0])]
    quotients = [op for op in candidates if isinstance(op, arith.DivfOp) and (op in rounded or _is_approximated(op))]
    limits = _limits(function) if quotients else {}
    by_reciprocal = [op for op in quotients if _has_reciprocal(*limits.get(op.rhs, _ANY))]
    for op in rounded:
        chosen = _as_power_of_two(op) if isinstance(op, math.ExpOp) else op
        chosen.properties["fastmath"] = arith.FastMathFlagsAttr([arith.FastMathFlag.APPROX_FUNC])
    for op in by_reciprocal:
        op.fastmath = arith.FastMathFlagsAttr([*op.fastmath.data, arith.FastMathFlag.ALLOW_RECIP])


def _is_approximated(op: Operation) -> bool:
    flags = op.properties.get("fastmath")
    return isinstance(flags, arith.FastMathFlagsAttr) and arith.FastMathFlag.APPROX_FUNC in flags.data


def _as_power_of_two(op: math.ExpOp) -> math.Exp2Op:
    factor = arith.ConstantOp(FloatAttr(_LOG2_E, f32))
    scaled = arith.MulfOp(op.operand, factor.result)
    power = math.Exp2Op(scaled.result)
    Rewriter.insert_op([factor, scaled], InsertPoint.before(op))
    Rewriter.replace_op(op, power)
    return power


class _Values:
    """What is known of the numbers of a kernel. Those that an array of its own has one after the other, or a loop
    carries, are told by all that are stored there."""

    def __init__(self, function: func.FuncOp) -> None:
        ops = all_ops(function)
        self._stored: dict[_Source, list[SSAValue]] = {}
        for op in ops:
            if isinstance(op, memref.AllocaOp) and (stored := _stored(op)) is not None:
                self._stored[op] = stored
            elif isinstance(op, scf.ForOp):
                last = op.body.block.last_op
                assert last is not None
                for argument, first, next_ in zip(op.body.block.args[1:], op.iter_args, last.operands, strict=True):
                    self._stored[argument] = [first, next_]
        # The largest set in which nothing is negative unless something outside of it is.
        sources = set(self._stored)
        self._positive = _positive(ops, sources)
        while negative := {source for source in sources if not self._positive.issuperset(self._stored[source])}:
            sources -= negative
            self._positive = _positive(ops, sources)

    def is_rounded(self, value: SSAValue) -> bool:
        """Whether all that becomes of a number is rounded, with the relative error that it has."""
        pending, seen = [value], set[SSAValue]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            for use in value.uses:
                results = self._results(use.operation, value)
                if results is None:
                    return False
                pending += results
        return True

    def _results(self, op: Operation, value: SSAValue) -> list[SSAValue] | None:
        """What has the relative error of `value` by an op; None where there may be more of it."""
        if isinstance(op, arith.TruncFOp):
            return [] if isinstance(op.result.type, Float16Type | BFloat16Type) else None
        if isinstance(op, _PASSED):
            return [op.results[0]]
        if isinstance(op, arith.SelectOp):
            return [op.result] if value is not op.cond else None
        if isinstance(op, arith.AddfOp):
            return [op.result] if self._positive.issuperset(op.operands) else None
        if isinstance(op, memref.StoreOp):
            owner = op.memref.owner
            if not isinstance(owner, memref.AllocaOp) or owner not in self._stored or _multiplies(value, owner):
                return None
            return list(_loaded(owner))
        loop = op.parent_op() if isinstance(op, scf.YieldOp) else op
        if isinstance(loop, scf.ForOp):
            given = loop.iter_args if loop is op else op.operands
            pairs = zip(given, loop.body.block.args[1:], loop.results, strict=True)
            carried = [(argument, result) for known, argument, result in pairs if known is value]
            if any(_multiplies(value, argument) for argument, _ in carried):
                return None
            return [known for pair in carried for known in pair]
        return None


def _positive(ops: Sequence[Operation], sources: set[_Source]) -> set[SSAValue]:
    """The numbers that are known not to be negative, unless they are NaN, where those from `sources` are not."""
    found = {source for source in sources if isinstance(source, BlockArgument)}
    positive: set[SSAValue] = {*found}
    for op in ops:
        if isinstance(op, scf.ForOp):
            arguments = zip(op.body.block.args[1:], op.results, strict=True)
            positive.update(result for argument, result in arguments if argument in found)
        elif len(op.results) == 1 and _is_positive(op, positive, sources):
            positive.add(op.results[0])
    return positive


def _is_positive(op: Operation, positive: set[SSAValue], sources: set[_Source]) -> bool:
    """Whether the result of an op is, where that is known of its operands."""
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, FloatAttr) and op.value.value.data >= 0
    if isinstance(op, _POSITIVE):
        return True
    if isinstance(op, memref.LoadOp):
        return op.memref.owner in sources
    if isinstance(op, arith.MulfOp) and op.lhs is op.rhs:
        return True
    if isinstance(op, arith.AddfOp | arith.MulfOp | arith.DivfOp):
        return positive.issuperset(op.operands)
    if isinstance(op, arith.SelectOp):
        return {op.lhs, op.rhs} <= positive
    if isinstance(op, arith.MaximumfOp):
        return op.lhs in positive or op.rhs in positive
    return isinstance(op, ShuffleOp | arith.ExtFOp | arith.TruncFOp) and op.operands[0] in positive


def _multiplies(value: SSAValue, source: _Source) -> bool:
    """Whether a value is what `source` had before, times something: it has the errors of all factors so far."""
    if not isinstance(value.owner, arith.MulfOp | arith.DivfOp):
        return False
    loads = (operand.owner for operand in value.owner.operands if isinstance(operand.owner, memref.LoadOp))
    return source in value.owner.operands or any(load.memref.owner is source for load in loads)


def _stored(array: memref.AllocaOp) -> list[SSAValue] | None:
    """What is stored in an array of f32 that is only read and written element by element."""
    if array.memref.type.element_type != Float32Type():
        return None
    users = [use.operation for use in array.memref.uses]
    if not all(isinstance(user, memref.LoadOp | memref.StoreOp) for user in users):
        return None
    return [user.value for user in users if isinstance(user, memref.StoreOp)]


def _loaded(array: memref.AllocaOp) -> Iterator[SSAValue]:
    return (use.operation.res for use in array.memref.uses if isinstance(use.operation, memref.LoadOp))


def _has_reciprocal(low: float, high: float) -> bool:
    """Whether a number between these is neither large nor small."""
    return low >= _LEAST and high <= _MOST


def _limits(function: func.FuncOp) -> dict[SSAValue, tuple[float, float]]:
    """Between which numbers values of a kernel are, unless they are NaN, where that is known."""
    limits: dict[SSAValue, tuple[float, float]] = {}
    for op in all_ops(function):
        known = [limits.get(operand, _ANY) for operand in op.operands]
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
            limits[op.result] = op.value.value.data, op.value.value.data
        elif isinstance(op, math.AbsFOp):
            limits[op.result] = 0.0, inf
        elif isinstance(op, math.ExpOp | math.Exp2Op):
            limits[op.result] = 0.0, 1.0 if known[0][1] <= 0 else inf
        elif isinstance(op, arith.NegfOp):
            ((low, high),) = known
            limits[op.result] = -high, -low
        elif isinstance(op, arith.AddfOp):
            (a, b), (c, d) = known
            limits[op.result] = a + c, b + d
        elif isinstance(op, arith.SelectOp):
            _, (a, b), (c, d) = known
            limits[op.result] = min(a, c), min(b, d) if _is_smaller_of_two(op) else max(b, d)
    return limits


def _is_smaller_of_two(op: arith.SelectOp) -> bool:
    """Whether a choice is the smaller one of a number and a constant: beside one that may be NaN it is any number."""
    compared, limit = op.cond.owner, op.lhs.owner
    if not isinstance(compared, arith.CmpfOp) or compared.predicate.value.data != _GREATER:
        return False
    other = compared.rhs.owner
    if not isinstance(limit, arith.ConstantOp) or not isinstance(other, arith.ConstantOp):
        return False
    return compared.lhs is op.rhs and limit.value == other.value
