"""Which values come apart into components, and where that is how they are used (`split_components`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from tenon.dialects.families import ElementwiseOp
from tenon.dialects.families.control_flow import ControlFlowOp, YieldOp, yielded
from tenon.dialects.ops.control.control_flow import WhileLoopOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.elementwise.arithmetic import MaximumOp, MinimumOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.joining import ConcatenateOp
from tenon.dialects.ops.move.padding import PadOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.ops.move.slicing import SliceOp
from tenon.dialects.ops.reduce.reduction import MaxOp, MinOp
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.types import is_static, shape_of
from tenon.passes.simplify.equations_shape import padded_axes

MOST = 8
"""Components: so many ops there are for one."""

Loop: TypeAlias = ScanOp | WhileLoopOp
EXTREMES: dict[type[Operation], type[MaximumOp | MinimumOp]] = {MaxOp: MaximumOp, MinOp: MinimumOp}
"""What gives the extreme of two, for reductions to that of all."""
_READ_FROM_MEMORY = (Block, ConstantOp, ControlFlowOp, ReshapeOp, SliceOp)
"""What gives values of which components are taken by slices, where they do not come apart."""


def joined_along(op: Operation) -> tuple[int, int] | None:
    """The axis, from the end, along which `op` joins single components, and how many; or pads one with zeros, as the
    gradient of a slice does."""
    if not isinstance(op, ConcatenateOp | PadOp) or not is_static(op.result.type):
        return None
    shape = shape_of(op.result.type) or ()
    if isinstance(op, PadOp):
        axes = padded_axes(op)
        if len(axes) != 1 or (shape_of(op.x.type) or ())[axes[0]] != 1:
            return None
        (axis,), count = axes, shape[axes[0]]
    else:
        axis, count = op.settings["axis"] % len(shape), len(op.operands)
    return (axis - len(shape), count) if shape[axis] == count and 1 < count <= MOST else None


class ComponentUses:
    """Values that have `count` components along `axis`, which is counted from the end."""

    def __init__(self, axis: int, count: int) -> None:
        self.axis = axis
        self.count = count
        self.carried: set[SSAValue] = set()
        """What loops carry, as their regions are given it, that is taken apart."""
        self._wanted: dict[SSAValue, bool] = {}

    # What has components

    def has_components(self, value: SSAValue) -> bool:
        shape = shape_of(value.type) or ()
        return is_static(value.type) and len(shape) >= -self.axis and shape[self.axis] == self.count

    def is_joined(self, value: SSAValue) -> bool:
        return isinstance(value.owner, Operation) and joined_along(value.owner) == (self.axis, self.count)

    def _operands(self, value: SSAValue) -> list[SSAValue] | None:
        """Those operands of the elementwise op that gives `value` which have components."""
        op = value.owner
        if not isinstance(op, ElementwiseOp) or len(op.results) != 1:
            return None
        return [operand for operand in op.operands if self.has_components(operand)]

    def may_come_apart(self, value: SSAValue) -> bool:
        """Whether elementwise ops alone compute `value` from what is joined or in memory."""
        return all(
            self.is_joined(source) or self._operands(source) is not None or isinstance(source.owner, _READ_FROM_MEMORY)
            for source in self._sources(value)
        )

    def comes_apart(self, value: SSAValue) -> bool:
        """Whether `value` may come apart, and something that it is computed from does."""
        return any(self.is_joined(v) or v in self.carried for v in self._sources(value)) and self.may_come_apart(value)

    def _sources(self, value: SSAValue) -> Iterator[SSAValue]:
        """`value` and all that elementwise ops compute it from."""
        seen, pending = set[SSAValue](), [value]
        while pending:
            current = pending.pop()
            if current not in seen:
                seen.add(current)
                yield current
                pending += self._operands(current) or ()

    # What is used in components

    def takes_components(self, op: Operation) -> bool:
        """Whether components are what `op` needs of its operand: one, or the extreme of all."""
        return self.component_of(op) is not None or self.is_extreme(op)

    def component_of(self, op: Operation) -> int | None:
        """Which component `op` slices, all of it."""
        if not isinstance(op, SliceOp) or not self.has_components(op.x):
            return None
        shape, starts, limits = shape_of(op.x.type) or (), list(op.settings["starts"]), list(op.settings["limits"])
        if any(stride != 1 for stride in op.settings["strides"] or ()):
            return None
        first, last = starts[self.axis], limits[self.axis]
        starts[self.axis], limits[self.axis] = 0, self.count
        is_whole = not any(starts) and limits == list(shape)
        return first if is_whole and last == first + 1 else None

    def is_extreme(self, op: Operation) -> bool:
        """Whether `op` gives the extreme of all components, and of nothing else."""
        if not isinstance(op, MaxOp | MinOp) or not self.has_components(op.x):
            return False
        rank = len(shape_of(op.x.type) or ())
        axis, start = op.settings["axis"], op.settings["start"]
        return start is None and axis is not None and normalize_axes(axis, rank) == (rank + self.axis,)

    def is_wanted(self, value: SSAValue) -> bool:
        """Whether something uses a component of `value`, or of what elementwise ops and loops make of it, and nothing
        uses such a value as a whole."""
        if value not in self._wanted:
            self._wanted[value] = self._find_demand(value)
        return self._wanted[value]

    def _find_demand(self, value: SSAValue) -> bool:
        seen, pending, is_demanded = {value}, [value], False
        while pending:
            for use in pending.pop().uses:
                if self.takes_components(use.operation):
                    is_demanded = True
                    continue
                handed_on = self._handed_on(use)
                if handed_on is None:
                    return False
                pending += [v for v in handed_on if v not in seen]
                seen.update(handed_on)
        return is_demanded

    def _handed_on(self, use: Use) -> Sequence[SSAValue] | None:
        """The values that come apart where what is used does; None where it is used as a whole."""
        op = use.operation
        if isinstance(op, ElementwiseOp):
            comes_apart = len(op.results) == 1 and self.may_come_apart(op.results[0])
            return op.results if comes_apart else None
        if isinstance(op, func.ReturnOp):
            return ()
        if isinstance(op, Loop):
            return () if use.index < len(op.initial) else None
        loop = op.parent_op()
        if not isinstance(op, YieldOp) or not isinstance(loop, Loop) or op.parent is not loop.body.block:
            return None
        return arguments_of(loop, use.index) if use.index < len(loop.initial) else ()

    def choose_carried(self, loops: Sequence[Loop]) -> None:
        """Find what `loops` carry that comes apart in each step, given that what was found does."""
        found = True
        while found:
            found = False
            for loop in loops:
                for number, value in enumerate(yielded(loop.body)[: len(loop.initial)]):
                    arguments = arguments_of(loop, number)
                    if arguments[0] in self.carried or not self.has_components(value):
                        continue
                    if self.comes_apart(value) and any(map(self.is_wanted, arguments)) and self._allow(arguments):
                        self.carried.update(arguments)
                        found = True

    def _allow(self, arguments: Sequence[SSAValue]) -> bool:
        """Whether none of the `arguments` is used as a whole."""
        return all(self.is_wanted(argument) or argument.first_use is None for argument in arguments)


def arguments_of(loop: Loop, number: int) -> list[BlockArgument]:
    """What the regions of `loop` are given of what it carries."""
    regions = [loop.body, *([loop.condition] if isinstance(loop, WhileLoopOp) else [])]
    return [region.block.args[number] for region in regions]
