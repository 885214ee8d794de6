"""Give the ops on both sides of a reshape the same loops, where it only splits or merges neighbouring dimensions.

A group norm as one writes it takes its statistics on (samples, groups, places), and scales channels on (samples,
channels, height, width). The reshape between them moves nothing, but no loop runs over a dimension of both, so that
`fuse` would make two kernels of them, with all values in memory in between. All run as well over the dimensions that
either side is made of:

    %m = tenon.multiply %d, %s                   %m = tenon.multiply %d, %s       : 16x8x8x56x56
    %r = tenon.reshape %m        16x8x25088  ->  %w = tenon.reshape %weight       : 1x8x8x1x1
    %y = tenon.multiply %r, %w   16x64x56x56     %y = tenon.multiply %m, %w       : 16x8x8x56x56

Before: the tensor stage, decomposed. After: the same values; elementwise ops and reductions run over more, smaller
dimensions, and reshapes stand only where others use them. Kernels run neighbouring loops as one again where all they
read allows it (`lowering.kernels.collapse_loops`).

The rule: dimensions of two values are one if some op runs over both with one loop. A reshape between two such ops
cuts the dimensions on both sides into the same parts, unless

- there are none (6x4 to 4x6), or sizes of 1 differ as well, so that the reshape would stay (where these alone differ,
  see `unit_dimensions`);
- one belongs to an op that is not cut and may share its loops with a neighbour, such as a contraction;
- the innermost part fills less than half a vector, and something else than a reduction along it would run over it, or
  what is done to each element of columns that a concatenation puts side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import KeepsMemory, KnownValue, states
from tenon.dialects.families import ElementwiseOp, IndexingOp, ReductionOp
from tenon.dialects.types.types import is_known
from tenon.passes.fuse.dimensions import Dimension, Dimensions, Reshapes, is_cut, known_shape
from tenon.passes.fuse.unit_dimensions import adopt_unit_dimensions
from tenon.passes.iteration import axes_of, iteration_of
from tenon.passes.machine import Machine
from tenon.passes.simplify.dce import Effects, erase_dead_ops, functions_by_name


@dataclass(frozen=True)
class CommonLoopsPass(ModulePass):
    """Give the ops on both sides of a reshape the same loops, which fill vectors of the `machine` (text, see
    `Machine`)."""

    name = "common-loops"
    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        lanes = Machine.of_option(self.name, self.machine).lanes
        for function in functions_by_name(op).values():
            blocks = [block for inner in function.walk() for region in inner.regions for block in region.blocks]
            for block in blocks:
                if any(states(inner, KeepsMemory) for inner in block.ops):
                    is_cut = _CommonLoops(block, lanes).rewrite()
                    if adopt_unit_dimensions(block) or is_cut:
                        erase_dead_ops(block, effects)


def _innermost(shape: Sequence[int]) -> int | None:
    """The last axis of more than one element."""
    return next((axis for axis in reversed(range(len(shape))) if shape[axis] != 1), None)


def _is_combined(op: Operation) -> bool:
    """Whether all that comes of `op` combines the elements of rows."""
    pending, seen = [op], set[Operation]()
    while pending:
        current = pending.pop()
        if isinstance(current, ReductionOp):
            if _innermost(known_shape(current.operands[0])) not in axes_of(current):
                return False
        elif isinstance(current, ElementwiseOp) or states(current, KeepsMemory):
            users = {use.operation for result in current.results for use in result.uses} - seen
            seen |= users
            pending += users
        else:
            return False
    return True


def _is_reduced(op: Operation) -> bool:
    """Whether elements are combined of what is computed of `op` element by element."""
    pending, seen = [op], set[Operation]()
    while pending:
        current = pending.pop()
        if isinstance(current, ReductionOp):
            return True
        if isinstance(current, ElementwiseOp) or states(current, KeepsMemory):
            users = {use.operation for result in current.results for use in result.uses} - seen
            seen |= users
            pending += users
    return False


def _joins_columns(op: Operation | Block) -> bool:
    """Whether `op` computes the columns of short rows where they go, along the last axis."""
    if not isinstance(op, IndexingOp) or not all(is_known(x.type) for x in (*op.operands, *op.results)):
        return False
    (shape, *_) = map(known_shape, op.results)
    return len(shape) > 1 and all(known_shape(x)[:-1] == shape[:-1] for x in op.operands) and op.moves_columns()


class _CommonLoops:
    """The dimensions of the values of one block, of which vectors have so many `lanes`."""

    def __init__(self, block: Block, lanes: int) -> None:
        self._block = block
        self._lanes = lanes
        self._innermost: list[tuple[Operation, Dimension]] = []
        self._columns: list[Dimension] = []
        """What runs over columns that are put side by side."""
        self._classes = Dimensions()
        self._dimensions: dict[SSAValue, list[Dimension]] = {}
        self._reshapes = Reshapes(block)
        for op in block.ops:
            if is_cut(op):
                self._unite(op)
                loops = self._loops(op)
                axis = _innermost([loop.size for loop in loops])
                if axis is not None:
                    self._innermost.append((op, loops[axis]))
            elif isinstance(op, TensorOp) and not states(op, KeepsMemory):
                self._fix(op)
                if _joins_columns(op):
                    self._columns.append(self._of(op.results[0])[-1])

    def rewrite(self) -> bool:
        """Cut dimensions; whether something changed."""
        reshapes = [op for op in self._block.ops if states(op, KeepsMemory) and self._is_between(op)]
        if not sum(map(self._align, reshapes)):
            return False
        for op, loops in [(op, self._loops(op)) for op in self._block.ops if is_cut(op)]:
            if any(len(self._classes.parts(loop)) > 1 for loop in loops):
                self._rewrite(op, loops)
            else:
                op.operands = [self._reshapes.in_shape(value, known_shape(value)) for value in op.operands]
        return True

    # --- which dimensions are one -------------------------------------------------------------------------------------

    def _of(self, value: SSAValue) -> list[Dimension]:
        known = self._dimensions.get(value)
        if known is None:
            known = self._dimensions[value] = [Dimension(size) for size in known_shape(value)]
        return known

    def _long(self, value: SSAValue) -> list[Dimension]:
        """The dimensions of more than one element."""
        return [dimension for dimension, size in zip(self._of(value), known_shape(value), strict=True) if size != 1]

    def _loops(self, op: Operation) -> list[Dimension]:
        """The dimensions that `op` runs over."""
        return self._of(op.operands[0] if isinstance(op, ReductionOp) else op.results[0])

    def _unite(self, op: Operation) -> None:
        loops = self._loops(op)
        if isinstance(op, ReductionOp):
            axes = () if op.settings["keepdims"] else axes_of(op)
            self._classes.unite(
                zip([d for i, d in enumerate(loops) if i not in axes], self._of(op.results[0]), strict=True)
            )
            return
        for value in (*op.operands, *op.results[1:]):
            # Each op has its own copy of a constant.
            if not states(value.owner, KnownValue):
                self._classes.unite(zip(reversed(loops), reversed(self._of(value)), strict=False))

    def _fix(self, op: TensorOp) -> None:
        """Keep the dimensions of an op that may share its loops."""
        if not all(is_known(value.type) for value in (*op.operands, *op.results)) or iteration_of(op) is None:
            return
        for value in (*op.operands, *op.results):
            if not states(value.owner, KnownValue):
                for dimension in self._of(value):
                    self._classes.fix(dimension)

    def _is_between(self, reshape: Operation) -> bool:
        """Whether ops that can be cut have both the operand and the result of a reshape at hand."""
        (before,), (after,) = reshape.operands, reshape.results
        if not is_known(before.type) or not is_known(after.type) or 0 in known_shape(before):
            return False
        is_near = is_cut(before.owner) or _joins_columns(before.owner) or self._is_used(before)
        return is_near and self._is_used(after)

    def _is_used(self, value: SSAValue) -> bool:
        return any(use.operation.parent is self._block and is_cut(use.operation) for use in value.uses)

    def _align(self, reshape: Operation) -> bool:
        """Cut the dimensions on both sides of a reshape into the same ones; false where that is not to be."""
        (before,), (after,) = reshape.operands, reshape.results
        mark = self._classes.mark()
        if not self._classes.align(self._long(before), self._long(after)):
            return False
        # What adds dimensions of size 1 stays a reshape, between whatever loops.
        is_gone = self._in_parts(before) == self._in_parts(after)
        if not is_gone or (self._classes.has_cut(mark) and not self._fills_vectors()):
            self._classes.undo(mark)
            return False
        return True

    def _in_parts(self, value: SSAValue) -> tuple[int, ...]:
        return self._classes.shape(known_shape(value), self._of(value))

    def _fills_vectors(self) -> bool:
        """Whether the innermost part of each op's innermost loop fills half a vector, is combined, or is columns."""
        columns = set(map(self._classes.find, self._columns))
        for op, loop in self._innermost:
            parts = self._classes.parts(loop)
            if len(parts) < 2 or 2 * parts[-1].size >= self._lanes or _is_combined(op):
                continue
            if self._classes.find(parts[-1]) not in columns or _is_reduced(op):
                return False
        return True

    # --- cutting them -------------------------------------------------------------------------------------------------

    def _rewrite(self, op: Operation, loops: Sequence[Dimension]) -> None:
        """Let `op` run over the parts of its `loops`."""
        assert isinstance(op, TensorOp)
        operands: list[SSAValue] = []
        for value in op.operands:
            shape = known_shape(value)
            cut = self._classes.shape(shape, loops[len(loops) - len(shape) :])
            operands.append(self._reshapes.in_shape(value, cut))
        settings = op.settings
        if isinstance(op, ReductionOp):
            axes, ends = axes_of(op), [0]
            for loop in loops:
                ends.append(ends[-1] + len(self._classes.parts(loop)))
            settings = {**settings, "axis": tuple([i for axis in axes for i in range(ends[axis], ends[axis + 1])])}
        self._reshapes.rebuild(op, operands, settings)
