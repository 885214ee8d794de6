"""Splits a gradient in two: what runs before the cotangents are known, and what runs then.

Before: the tensor stage; `@main_vjp` is what `differentiate` made of `@main`, both or `@main_vjp` alone simplified
since. After: in its place `@main_forward` and `@main_backward`:

    func.func @main_vjp(%x, %g) {               func.func @main_forward(%x) {
      %p = tenon.matmul %x, %x                    %p = tenon.matmul %x, %x
      %y = tenon.exp %p                           %y = tenon.exp %p
      %d = tenon.multiply %g, %y                  return %y, %x ...
      ...                                   ->  func.func @main_backward(%x, %y, %g) {
      return %y, %gx                              %d = tenon.multiply %g, %y

The first takes the arguments and gives the results and, behind them, what is *kept*. The second takes arguments,
results, what is kept and cotangents, and gives the gradients. What is kept takes the least memory of all from which,
with arguments and results, elementwise ops and those that move elements compute what depends on no cotangent and the
gradients need: a `least_cut`. What was marked as `recomputed` is not kept either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.traits import KeepsMemory, KnownValue, states
from tenon.dialects.families import ElementwiseOp, IndexingOp, IndexMapOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.types.types import is_static
from tenon.passes.simplify.dce import Effects, erase_dead_ops, functions_by_name
from tenon.passes.transform.derived_values import bytes_of
from tenon.passes.transform.least_cut import least_cut


@dataclass(frozen=True)
class Halves:
    """A gradient in two functions."""

    forward: func.FuncOp
    backward: func.FuncOp


class SplitGradientPass(ModulePass):
    """Let `@main_forward` and `@main_backward` take the place of `@main_vjp`."""

    name = "split-gradient"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_by_name(op)
        main, joint = functions.get("main"), functions.get("main_vjp")
        if main is None or joint is None:
            raise PassFailedException("split-gradient: there are no functions @main and @main_vjp")
        inputs, outputs = len(main.function_type.inputs), len(main.function_type.outputs)
        halves = split_gradient(joint, inputs, outputs, Effects(op))
        for half in (halves.forward, halves.backward):
            op.body.block.insert_op_before(half, joint)
        Rewriter.erase_op(joint)


def split_gradient(joint: func.FuncOp, inputs: int, outputs: int, effects: Effects) -> Halves:
    """The two functions for one that takes so many arguments, then cotangents, and gives so many results, then
    gradients."""
    block = joint.body.block
    terminator = block.last_op
    assert isinstance(terminator, func.ReturnOp)
    results, gradients = terminator.operands[:outputs], terminator.operands[outputs:]
    late = _dependents(block, block.args[inputs:])
    again, kept = _kept(block, late, results, gradients, effects)
    arguments = block.args[:inputs]
    early = [op for op in block.ops if op not in late and op is not terminator]
    forward = _function("main_forward", arguments, early, [*results, *kept])
    # One value may be several results, or an argument.
    backward_ops = [op for op in block.ops if op in late or op in again]
    given = [*arguments, *results, *kept, *block.args[inputs:]]
    backward = _function("main_backward", given, backward_ops, gradients)
    for half in (forward, backward):
        erase_dead_ops(half.body.block, effects)
    return Halves(forward, backward)


def _dependents(block: Block, seeds: Iterable[SSAValue]) -> set[Operation]:
    """The ops that depend on `seeds`, and those that are to compute again."""
    found, known = set[Operation](), set[SSAValue](seeds)
    for op in block.ops:
        is_late = RECOMPUTED in op.attributes or not known.isdisjoint(used_values(op))
        if is_late and op is not block.last_op:
            found.add(op)
            known.update(op.results)
    return found


def _kept(
    block: Block, late: set[Operation], results: Sequence[SSAValue], gradients: Sequence[SSAValue], effects: Effects
) -> tuple[set[Operation], list[SSAValue]]:
    """The early ops to run again, and the values to keep, in order."""
    had = {*block.args, *results}
    used = {value for op in late for value in used_values(op)}
    needed = {value for value in (*used, *gradients) if value.owner not in late and value not in had}
    early = [op for op in block.ops if op not in late and op is not block.last_op]
    cheap = {op for op in early if effects.is_pure(op) and _is_cheap(op)}
    weights: dict[SSAValue, int] = {value: bytes_of(value) for op in early for value in op.results if value not in had}
    edges = [(operand, result) for op in cheap for operand in op.operands for result in op.results]
    kept = least_cut(weights, edges, [v for v in weights if v.owner not in cheap], needed)
    again: set[Operation] = set()
    for op in reversed(early):
        if any(result in needed and result not in kept for result in op.results):
            again.add(op)
            needed.update([value for value in op.operands if value not in had])
    return again, [value for value in weights if value in kept]


def _is_cheap(op: Operation) -> bool:
    is_static_op = all(is_static(value.type) for value in (*op.operands, *op.results))
    is_known = states(op, KnownValue) or states(op, KeepsMemory)
    return is_static_op and (is_known or isinstance(op, ElementwiseOp | IndexMapOp | IndexingOp))


def _function(
    name: str, arguments: Sequence[SSAValue], operations: Sequence[Operation], results: Sequence[SSAValue]
) -> func.FuncOp:
    """A function of copies of `operations`; of arguments that are one value the first is used."""
    types: list[Attribute] = [value.type for value in arguments]
    function = func.FuncOp(name, (types, [value.type for value in results]))
    block, mapper = function.body.block, dict[SSAValue, SSAValue]()
    for old, new in zip(arguments, block.args, strict=True):
        new.name_hint = old.name_hint
        mapper.setdefault(old, new)
    for op in operations:
        block.add_op(op.clone(mapper))
    block.add_op(func.ReturnOp(*[mapper[value] for value in results]))
    return function
