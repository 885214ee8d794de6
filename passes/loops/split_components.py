"""`split-components`: vectors of few components are computed component by component, where that is how they are used.

Before: the tensor stage, decomposed. After: what is concatenated of single components along an axis, goes through
elementwise ops and is sliced into components again is computed as so many tensors, and loops carry these:

    %r = tenon.scan init(%s) {                    %r0, %r1 = tenon.scan init(slice(%s), slice(%s)) {
    ^bb0(%c: tensor<1000x2xf32>):                 ^bb0(%x: tensor<1000x1xf32>, %v: tensor<1000x1xf32>):
      %x, %v = slices of %c                         %f = force(%x)
      %d = tenon.concatenate [%v, force(%x)]   ->   %y, %w = %x + %h * %v, %v + %h * %f
      tenon.yield %c + %h * %d                      tenon.yield %y, %w
    }                                             }
                                                  %r = tenon.concatenate [%r0, %r1]

Such are the states of differential equations, points, rotations, colours. Put together, they end a kernel each time,
and the components of neighbouring points lie a few elements apart, so that lanes have to be sorted on each way. Taken
apart, a step is one kernel, however often it is evaluated inside of it.

A value is taken apart where a slice of one component, an extreme of all of them or a loop that does so with what it
carries uses it, and nothing uses it as a whole but what hands it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.families import ElementwiseOp
from tenon.dialects.ops.control.control_flow import WhileLoopOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.move.joining import ConcatenateOp
from tenon.dialects.ops.move.padding import PadOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.ops.move.slicing import SliceOp
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of, tensor_type
from tenon.dialects.upstream.walking import ops_of
from tenon.passes.loops.component_uses import EXTREMES, ComponentUses, Loop, arguments_of, joined_along
from tenon.passes.simplify.dce import Effects, erase_dead_ops
from tenon.passes.simplify.fold import splat_constant


class SplitComponentsPass(ModulePass):
    """Compute vectors of few components component by component, in loops as well."""

    name = "split-components"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp):
                joining = ops_of(function, ConcatenateOp, PadOp)
                for axis, count in sorted({known for inner in joining if (known := joined_along(inner)) is not None}):
                    _Components(axis, count).run(function, Effects(op))


class _Components:
    """Takes values apart that have `count` components along `axis`, which is counted from the end."""

    def __init__(self, axis: int, count: int) -> None:
        self._axis, self._count = axis, count
        self._uses = ComponentUses(axis, count)
        self._parts: dict[SSAValue, Sequence[SSAValue]] = {}
        self._alone: dict[SSAValue, SSAValue] = {}
        """Values of one component without its axis."""

    def run(self, function: func.FuncOp, effects: Effects) -> None:
        """Rewrite the body of `function`."""
        loops = ops_of(function, ScanOp, WhileLoopOp)
        self._uses.choose_carried(loops)
        if not self._replace_uses(function) and not self._uses.carried:
            return
        for loop in reversed(loops):  # those inside of others first
            self._split(loop)
        self._finish(function.body.block, effects)
        self._uses = ComponentUses(self._axis, self._count)
        self._replace_uses(function)  # of what loops gave
        self._finish(function.body.block, effects)

    def _replace_uses(self, function: func.FuncOp) -> bool:
        """Compute the components that are used in `function`. Returns whether there are any."""
        users = [op for op in ops_of(function, SliceOp, *EXTREMES) if self._uses.takes_components(op)]
        known = [op for op in users if self._uses.comes_apart(op.operands[0]) and self._uses.is_wanted(op.operands[0])]
        for op in known:
            self._replace(op, self._parts_of(op.operands[0]))
        return bool(known)

    # Taking apart

    def _parts_of(self, value: SSAValue) -> Sequence[SSAValue]:
        """The components of `value`, which may come apart, without its axis of components."""
        known = self._parts.get(value)
        if known is not None:
            return known
        owner = value.owner
        if self._uses.is_joined(value):
            parts = self._joined_parts(owner)
        elif isinstance(owner, ElementwiseOp):
            given = [
                self._parts_of(operand)
                if self._uses.has_components(operand)
                else [self._without_axis(operand)] * self._count
                for operand in owner.operands
            ]
            new = [
                type(owner).build_from(owner.group([parts[i] for parts in given], owner.properties), owner.settings)
                for i in range(self._count)
            ]
            _insert_behind(value, new)
            parts = [op.results[0] for op in new]
        else:
            taken = self._slices(value)
            _insert_behind(value, taken)
            parts = [op.results[0] for op in taken[1::2]]
        self._parts[value] = parts
        return parts

    def _joined_parts(self, op: Operation | Block) -> list[SSAValue]:
        """What `op` joins."""
        if not isinstance(op, PadOp):
            assert isinstance(op, ConcatenateOp)
            return [self._without_axis(operand) for operand in op.operands]
        alone = self._without_axis(op.x)
        zero = splat_constant(np.zeros((), numpy_dtype(element_of(alone.type))), alone.type)
        _insert_behind(op.x, [zero])
        place = op.settings["low"][self._axis]
        return [alone if number == place else zero.results[0] for number in range(self._count)]

    def _without_axis(self, value: SSAValue) -> SSAValue:
        """`value`, which has one component, if any, without the axis of components."""
        shape = shape_of(value.type) or ()
        if len(shape) < -self._axis:
            return value
        target = self._less(shape)
        if isinstance(value.owner, ReshapeOp) and shape_of(value.owner.x.type) == target:
            return value.owner.x
        known = self._alone.get(value)
        if known is None:
            op = ReshapeOp.build_from([value], {"shape": target})
            _insert_behind(value, [op])
            known = self._alone[value] = op.result
        return known

    def _less(self, shape: Sequence[int]) -> tuple[int, ...]:
        """`shape` without the axis of components."""
        place = len(shape) + self._axis
        return (*shape[:place], *shape[place + 1 :])

    def _slices(self, value: SSAValue) -> list[Operation]:
        """Ops of which every second gives a component of `value`."""
        shape, new = shape_of(value.type) or (), list[Operation]()
        for number in range(self._count):
            starts, limits = [0] * len(shape), list(shape)
            starts[self._axis], limits[self._axis] = number, number + 1
            taken = SliceOp.build_from([value], {"starts": tuple(starts), "limits": tuple(limits)})
            new += [taken, ReshapeOp.build_from([taken.result], {"shape": self._less(shape)})]
        return new

    def _joined(self, parts: Sequence[SSAValue], like: SSAValue) -> list[Operation]:
        """Ops of which the last joins `parts` to what `like` is."""
        shape = list(shape_of(like.type) or ())
        shape[self._axis] = 1
        new = [ReshapeOp.build_from([part], {"shape": tuple(shape)}) for part in parts]
        return [*new, ConcatenateOp.build_from([tuple([op.result for op in new])], {"axis": len(shape) + self._axis})]

    def _replace(self, op: Operation, parts: Sequence[SSAValue]) -> None:
        """Let the component that `op` slices, or the extreme of all, be computed from `parts`."""
        number, new = self._uses.component_of(op), list[Operation]()

        def both(left: SSAValue, right: SSAValue) -> SSAValue:
            new.append(EXTREMES[type(op)].build_from([left, right], {}))
            return new[-1].results[0]

        result = reduce(both, parts) if number is None else parts[number]
        if result.type != op.results[0].type:
            new.append(ReshapeOp.build_from([result], {"shape": shape_of(op.results[0].type)}))
            result = new[-1].results[0]
        Rewriter.insert_op(new, InsertPoint.before(op))
        op.results[0].replace_all_uses_with(result)

    def _split(self, loop: Loop) -> None:
        """Let `loop` carry components."""
        numbers = [n for n in range(len(loop.initial)) if arguments_of(loop, n)[0] in self._uses.carried]
        if not numbers:
            return
        initial, terminator = list(loop.initial), loop.body.block.last_op
        assert terminator is not None
        outputs, firsts = list(terminator.operands), list(loop.operands)
        for number in reversed(numbers):
            outputs[number : number + 1] = self._parts_of(outputs[number])
            firsts[number : number + 1] = self._first_parts(initial[number], loop)
        terminator.operands = outputs
        for argument in [a for number in reversed(numbers) for a in arguments_of(loop, number)]:
            self._split_argument(argument)
        count = len(initial) + len(numbers) * (self._count - 1)
        blocks = [region.detach_block(region.block) for region in loop.regions]
        if isinstance(loop, ScanOp):
            new = ScanOp.of(firsts[:count], firsts[count:], blocks[0], loop.steps, loop.reverse is not None)
        else:
            new = WhileLoopOp.of(firsts, blocks[0], blocks[1])
        new.location = loop.location
        Rewriter.insert_op(new, InsertPoint.before(loop))
        results = iter(new.results)
        for number, old in enumerate(loop.results):
            if number in numbers:
                joined = self._joined([next(results) for _ in range(self._count)], old)
                Rewriter.insert_op(joined, InsertPoint.before(loop))
                old.replace_all_uses_with(joined[-1].results[0])
            else:
                old.replace_all_uses_with(next(results))
        Rewriter.erase_op(loop)

    def _first_parts(self, value: SSAValue, loop: Loop) -> Sequence[SSAValue]:
        """The components of what `loop` begins with, whatever that is."""
        if self._uses.may_come_apart(value):
            return self._parts_of(value)
        new = self._slices(value)
        Rewriter.insert_op(new, InsertPoint.before(loop))
        return [op.results[0] for op in new[1::2]]

    def _split_argument(self, argument: BlockArgument) -> None:
        """Put components in the place of an argument of a region."""
        block, taken = argument.block, self._parts.get(argument, ())
        kind = tensor_type(self._less(shape_of(argument.type) or ()), element_of(argument.type))
        parts = [block.insert_arg(kind, argument.index + 1 + number) for number in range(self._count)]
        for old, new in zip(taken, parts, strict=False):
            old.replace_all_uses_with(new)
        joined = self._joined(parts, argument)
        _insert_behind(argument, joined)
        argument.replace_all_uses_with(joined[-1].results[0])
        block.erase_arg(argument)

    def _finish(self, block: Block, effects: Effects) -> None:
        """Let what is still used as a whole be joined, not computed once more, and erase what nothing uses."""
        for value, parts in self._parts.items():
            if isinstance(value.owner, ElementwiseOp):
                joined = self._joined(parts, value)
                _insert_behind(parts[-1], joined)
                value.replace_all_uses_with(joined[-1].results[0])
        erase_dead_ops(block, effects)
        self._parts.clear()
        self._alone.clear()


def _insert_behind(value: SSAValue, new: Sequence[Operation]) -> None:
    """Insert ops where `value` is there."""
    owner = value.owner
    Rewriter.insert_op(new, InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner))
