"""`alternate-buffers`: loops whose state cannot be computed in its own place take two steps at a time.

Before: structured IR on tensors; functions that are no kernels carry state around `scf.for`. After: the same, with
loops of a known number of steps unrolled by two where a carried tensor is still read when its next value is there.

What a loop carries has one place in memory. A stencil, a product or a roll of the state reads all of it while the next
state is written, so that this needs a place of its own, and is copied back in each step: a third of what a step of a
finite-difference scheme moves. In two steps the state goes to the second place and comes back, and nothing is copied.
Of an odd number of steps the first is taken before the loop, where it reads what the loop would be given a copy of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tenon.lowering.buffers.kernel_operands import elementwise_operands, updated_operands
from tenon.lowering.buffers.memref_facts import RESHAPES, without_reshapes


@dataclass(frozen=True)
class AlternateBuffersPass(ModulePass):
    """Let state that cannot be computed in its own place alternate between two."""

    name = "alternate-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Unroll such loops in the functions that call kernels."""
        functions = [function for function in op.body.block.ops if isinstance(function, func.FuncOp)]
        kernels = {function.sym_name.data: function for function in functions if "kernel" in function.attributes}
        for function in functions:
            if function.sym_name.data not in kernels:
                loops = [inner for inner in function.walk() if isinstance(inner, scf.ForOp)]
                for loop in reversed(loops):  # those inside of another first, which is replaced by copies
                    if any(_is_read_too_late(*pair, kernels) for pair in _carried(loop)):
                        _take_two_steps(loop)


def _carried(loop: scf.ForOp) -> Iterator[tuple[BlockArgument, SSAValue]]:
    """The tensors that `loop` carries: what a step is given, and what it hands on."""
    body = loop.body.block
    assert body.last_op is not None
    for given, handed_on in zip(body.args[1:], body.last_op.operands, strict=True):
        if isinstance(given.type, TensorType):
            yield given, handed_on


def _is_read_too_late(given: BlockArgument, handed_on: SSAValue, kernels: Mapping[str, func.FuncOp]) -> bool:
    """Whether `given` is needed when `handed_on` is written, so that both cannot be in one place."""
    body = given.block
    if isinstance(handed_on, BlockArgument):
        return handed_on.block is body and handed_on is not given
    call = without_reshapes(handed_on).owner
    if not isinstance(call, func.CallOp) or call.parent is not body:
        return False
    kernel = kernels.get(call.callee.string_value())
    soft = elementwise_operands(kernel) | updated_operands(kernel).keys() if kernel is not None else frozenset[int]()
    for user, index in _uses(given):
        at = body.find_ancestor_op_in_block(user)
        assert at is not None
        if (at is call and index not in soft) or (at is not call and call.is_before_in_block(at)):
            return True
    return False


def _uses(value: SSAValue) -> Iterator[tuple[Operation, int]]:
    """The ops that use `value` or a reshape of it, and as which operand."""
    for use in value.uses:
        if isinstance(use.operation, RESHAPES) and use.index == 0:
            yield from _uses(use.operation.results[0])
        else:
            yield use.operation, use.index


def _take_two_steps(loop: scf.ForOp) -> None:
    """Unroll `loop` by two, if it is known how often it runs, and that is twice at least."""
    numbers = [_constant(value) for value in (loop.lb, loop.ub, loop.step)]
    if None in numbers:
        return
    lower, upper, step = (number or 0 for number in numbers)
    steps = -(-(upper - lower) // step) if step > 0 else 0
    if steps < 2:
        return
    before: list[Operation] = []
    state: Sequence[SSAValue] = loop.iter_args
    start = loop.lb
    if steps % 2:
        state = _step(loop, before, start, state)
        before.append(_index(lower + step))
        start = before[-1].results[0]
    before += (ahead := _index(step), by := _index(2 * step))
    types = [argument.type for argument in loop.body.block.args]
    body = Block(arg_types=types)
    for old, new in zip(loop.body.block.args, body.args, strict=True):
        new.name_hint = old.name_hint
    index, *carried = body.args
    second = arith.AddiOp(index, ahead)
    ops: list[Operation] = [second]
    carried = _step(loop, ops, index, carried)
    carried = _step(loop, ops, second.result, carried)
    body.add_ops([*ops, scf.YieldOp(*carried)])
    new = scf.ForOp(start, loop.ub, by, state, Region(body))
    new.location = loop.location
    for old, result in zip(loop.results, new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    assert loop.parent is not None
    loop.parent.insert_ops_before([*before, new], loop)
    loop.detach()
    loop.erase()


def _step(loop: scf.ForOp, ops: list[Operation], index: SSAValue, state: Sequence[SSAValue]) -> list[SSAValue]:
    """Add to `ops` what a step of `loop` does with `state`; the state after it."""
    body = loop.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, (index, *state), strict=True))
    assert body.last_op is not None
    ops += (op.clone(values) for op in body.ops if op is not body.last_op)
    return [values.get(value, value) for value in body.last_op.operands]


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _index(number: int) -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr(number, IndexType()))
