"""Which ops of a block become one kernel.

Every op starts as a group of its own; groups along a value are merged as long as the result can be run by one kernel:

- All ops of a group share the group's *shared* loops: each value that flows inside is produced and used at the same
  index of them. Where some op has further loops (a *row* of elements per iteration of the shared ones, as in a
  softmax), those are its innermost, the shared loops are enough to keep a machine busy, and what is kept of a row
  fits on a stack; or, on a GPU, there are many rows, which are gone through several times. What is cheap is not kept:
  each of its users computes it.
- A reduction that cannot be run so (over all elements, or over outer dimensions) takes in the elementwise ops that
  only it uses and is then *closed*; so does an op that only rearranges what was computed, such as a transpose at the
  end.
- An op that moves ranges of elements (a concatenation, padding, a slice) takes in the elementwise ops that it alone
  uses; several in one group what they alone use, each element once. What comes from the same value is taken in if that
  is only moved, too, as is padding of which a stencil reads elements a few times.
- A sum of rows (`row_sums`) is added up by loops that have each of its rows anyway.
- A reduction over no neighbours that stands alone at the end takes in the rows that are read at computed places for it,
  if there are strips.
- A reduction of large rows that stands alone joins loops that read these rows anyway.
- What is read at computed places, one for each element of a row and the same for several rows, shares the loops over
  these places with what computes them, if there are strips: they are gone through for each of the rows.
- No path leaves a group and comes back, so that groups can be called one after the other.
- A kernel has a limited number of inputs and of ops.
- A contraction joins others if its loops may be cut into strips (`lowering.schedules.strips`): along all loops of its
  result, as in an activation behind a layer; or along some, if there are many rows of them and what each strip reads
  again stays in a cache, as in softmax(Q Kᵀ) V, whose scores never are in memory as a whole. It takes no rows of a
  value that what depends on it needs as well (the input of a layer, for the gradient), which is in memory anyway. One
  that copies its operands joins nothing (`transposed_operands.wants_panels`). Without strips, as on a GPU, it shares
  its loops with what is done to each element of its result, and with nothing else; products that `chain-products` marks
  are one kernel before groups are formed.

Maxima of windows, scatters and opaque ops are groups of their own, scheduled as a whole. A scatter takes in
the elementwise ops that only its places and updates come from: all of them on a GPU, and arithmetic on a CPU, which
computes functions in vectors, and one update after the other. A contraction that reads an operand elsewhere than at its
loops takes in what computes that operand only if no two iterations of a parallel loop read the same windows, as in a
convolution of each channel by itself: they share the loops that are indices of the operand. Padding around such an
operand joins the contraction's group at the end, whatever loops that shares: windows are read from what is padded then,
and the padding is in no memory (`lowering.kernels.intermediates`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tenon.dialects.families import ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp, ScatterOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of
from tenon.passes.fuse.cost import are_computed_in_loops, are_read_once, computes_for_rows, is_arithmetic, is_repeated
from tenon.passes.fuse.group import Group, Plan, connect, in_order, take_place, would_make_circle
from tenon.passes.fuse.planner import Planner
from tenon.passes.iteration import (
    Iteration,
    is_indexed,
    iteration_of,
    moves_ranges,
    reader_of_padding,
    readers_of_moved,
    rearranges_results,
    reduces_rows,
    shape,
)
from tenon.passes.machine import Machine

MOST_INPUTS, MOST_OPERATIONS = 24, 256


class Grouping:
    """The groups of one block, found in one walk over it."""

    def __init__(
        self,
        block: Block,
        is_pure: Callable[[Operation], bool],
        is_cloned: Callable[[SSAValue], bool],
        machine: Machine,
        *,
        strips: bool = True,
        ranges: bool = True,
        updates: str = "",
        long_rows: int = 0,
    ) -> None:
        self.group_of: dict[Operation, Group] = {}
        self.positions: dict[Operation, int] = {}
        self._block = block
        self._is_cloned = is_cloned
        self._takes_ranges = ranges
        self._takes_updates = updates
        self._moving: set[Operation] = set()
        """Ops that move ranges."""
        self._near = machine.l2
        self._planner = Planner(block, self.group_of, machine, strips=strips, long_rows=long_rows)
        last_effect: Group | None = None
        for position, op in enumerate(block.ops):
            if op.has_trait(IsTerminator):
                break
            pure = is_pure(op)
            group = self._add(op, position, pure)
            if not pure:
                if last_effect is not None:
                    connect(last_effect, group)
                last_effect = group
        if strips:
            for op in self.positions:
                self._join_reader(op)
            for op in self.positions:
                self._join_windows(op)
                self._join_ranges(op)
            for op in self.positions:
                self._take_in_gathers(op)

    def in_order(self) -> list[Group]:
        """The groups so that each comes after those it depends on; as in the block where that leaves a choice."""
        return in_order(set(self.group_of.values()))

    # --- a group per op ---------------------------------------------------------------------------------------------

    def _add(self, op: Operation, position: int, pure: bool) -> Group:
        group = self.group_of[op] = Group(op, position)
        self.positions[op] = position
        for value in used_values(op):
            producer = value.owner
            if isinstance(producer, Operation) and producer.parent is self._block:
                connect(self.group_of[producer], group)
        iteration = iteration_of(op) if pure else None
        if iteration is None:
            if self._takes_updates and isinstance(op, ScatterOp):
                self._take_in_updates(op)
            return self.group_of[op]
        moves = self._takes_ranges and moves_ranges(op, iteration)
        self._start(group, op, iteration, moves=moves)
        if moves:
            self._moving.add(op)
        else:
            for producer in self._producers(op, everywhere=group.closed):
                repeated = isinstance(op, IndexingOp) and isinstance(producer, IndexMapOp)
                # What places are repeated from has not joined these alone.
                for other in (producer, *(self._producers(producer, everywhere=False) if repeated else ())):
                    self._try_merge(self.group_of[other], self.group_of[op])
        self._take_in_ranges(op)
        return self.group_of[op]

    def _start(self, group: Group, op: Operation, iteration: Iteration, *, moves: bool) -> None:
        loops = self._planner.add(op, iteration)
        group.loops = {loop for loop in loops if loop is not None}
        parallel = iteration.space.parallel
        group.shared = frozenset([loop for loop, p in zip(loops, parallel, strict=True) if loop is not None and p])
        group.inputs = {v for v in op.operands if not self._is_cloned(v)}
        for result in op.results:
            group.pending[result] = len(users := [use.operation for use in result.uses])
            if not isinstance(op, ElementwiseOp) or (len(users) != 1 and not is_repeated(op, users)):
                group.kept.add(result)
        if isinstance(op, ReductionOp):
            group.closed = not reduces_rows(iteration.space)
        else:
            group.closed = not moves and rearranges_results(op, iteration)

    def _producers(self, op: Operation, *, everywhere: bool) -> list[Operation]:
        """The ops in the block whose values `op` uses where its loops are, or `everywhere`, those of the largest values
        first."""
        found: dict[Operation, int] = {}
        iterations = self._planner.iterations
        recomputed = RECOMPUTED in op.attributes
        for index, operand in enumerate(op.operands):
            access = iterations[op].access(index)
            producer = operand.owner
            if self._is_cloned(operand):
                continue  # each kernel has its own
            if recomputed and isinstance(producer, Operation) and RECOMPUTED not in producer.attributes:
                continue  # it belongs to its users, and what it was computed from before is only kept for it
            if (access is not None or everywhere) and isinstance(producer, Operation) and producer in iterations:
                found[producer] = max(found.get(producer, 0), estimate(prod(shape(op, operand.type))))
        return sorted(found, key=lambda producer: -found[producer])

    # --- merging ----------------------------------------------------------------------------------------------------

    def _try_merge(self, left: Group, right: Group) -> None:
        if left is right or left.closed or (inputs := self._inputs_of_both(left, right)) is None:
            return
        if right.closed:
            if self._feeds_only(left, right):
                self._merge(left, right, inputs, None)
            else:
                self._try_to_sum_rows(left, right, inputs)
            return
        mark = self._planner.classes.mark()
        plan = self._planner.plan(left, right)
        if plan is None:
            self._planner.classes.undo(mark)
            # A reduction over rows that does not fit may still take in what only it uses.
            is_reduction = len(right.operations) == 1 and isinstance(right.operations[0], ReductionOp)
            if is_reduction and self._feeds_only(left, right):
                self._merge(left, right, inputs, None)
            return
        self._merge(left, right, inputs, plan)

    def _try_take_in(self, left: Group, right: Group) -> None:
        """Let `right`, which moves ranges of what `left` computes for it alone, compute each element where it goes: the
        loops of `left` are gone."""
        if left is right or left.closed or (inputs := self._inputs_of_both(left, right)) is None:
            return
        if left.has_rows and computes_for_rows(left.operations):
            return
        uses = [(value, user) for user in right.operations for value in user.operands if value in left.pending]
        is_movable = all(
            isinstance(op, ElementwiseOp | IndexMapOp | IndexingOp) for op in (*left.operations, *right.operations)
        )
        if not is_movable or len(uses) != sum(left.pending.values()):
            return
        # Columns of rows share the loops over these with what is computed for several of them.
        are_columns = all(isinstance(user, IndexingOp) and user.moves_columns() for _, user in uses)
        if not are_read_once(uses, left.operations, in_rows=are_columns and not left.has_rows):
            return
        self._take_in(left, right, inputs)

    def _take_in(self, left: Group, right: Group, inputs: set[SSAValue]) -> None:
        loops, kept, taken = right.loops, right.kept, tuple(left.operations)
        self._merge(left, right, inputs, right.plan)
        merged = self.group_of[taken[0]]
        merged.loops, merged.kept = loops, kept
        for op in taken:
            self._planner.forget_places(op)

    def _take_in_ranges(self, op: Operation) -> None:
        """Take in what those ops of the group of `op` use that move ranges, until nothing is left: what two of them use
        is taken in when both are there."""
        count = 0
        while count < len(operations := self.group_of[op].operations):
            count = len(operations)
            for user in [user for user in operations if user in self._moving]:
                for producer in self._producers(user, everywhere=True):
                    self._try_take_in(self.group_of[producer], self.group_of[op])

    def _take_in_updates(self, op: ScatterOp) -> None:
        """Take in what computes places and updates for a scatter alone, whose loops do it where they read them."""
        start, *others = op.operands
        self.group_of[op].inputs = {start}
        count = max(estimate(prod(shape(op, operand.type))) for operand in others)
        for operand in others:
            left, right = self.group_of.get(operand.owner), self.group_of[op]  # pyright: ignore[reportArgumentType]
            if left is None or left is right or left.closed or start in left.pending or left.has_rows:
                continue
            if (
                sum(value in left.pending for value in op.operands) == sum(left.pending.values())
                and are_computed_in_loops(left.operations, count)
                and (self._takes_updates == "any" or all(map(is_arithmetic, left.operations)))
                and (inputs := self._inputs_of_both(left, right)) is not None
            ):
                self._merge(left, right, inputs, None)

    def _inputs_of_both(self, left: Group, right: Group) -> set[SSAValue] | None:
        """What one kernel for both takes; `None` where that or its ops are too many, or where a path would leave it and
        come back."""
        if len(left.operations) + len(right.operations) > MOST_OPERATIONS:
            return None
        inputs = {v for v in left.inputs | right.inputs if v not in left.pending and v not in right.pending}
        return None if len(inputs) > MOST_INPUTS or would_make_circle(left, right) else inputs

    def _take_in_gathers(self, op: Operation) -> None:
        """Let a reduction that stands alone, over no neighbours, take in what reads rows at computed places for it."""
        right, iteration = self.group_of[op], self._planner.iterations.get(op)
        if not isinstance(op, ReductionOp) or len(right.operations) > 1 or iteration is None:
            return
        if not any(iteration.space.parallel[-1:]):
            return
        for producer in self._producers(op, everywhere=True):
            left = self.group_of[producer]
            if left is right or left.closed or not self._feeds_only(left, right, gathers=True):
                continue
            if (inputs := self._inputs_of_both(left, right)) is not None:
                self._merge(left, right, inputs, None)

    def _feeds_only(self, left: Group, right: Group, *, gathers: bool = False) -> bool:
        """Whether `left` can join the loops of the one op in `right`, since nothing else uses what it computes; with
        `gathers`, what it reads of rows at computed places as well."""
        (user,) = right.operations
        outside = sum(left.pending.values())
        used = sum(1 for operand in user.operands if operand in left.pending)
        same_loops = not left.has_rows and all(
            isinstance(op, ElementwiseOp | IndexMapOp) or (gathers and isinstance(op, IndexingOp) and op.reads_rows())
            for op in left.operations
        )
        if isinstance(user, IndexMapOp) and not all(map(is_indexed, left.operations)):
            return False  # what asks for its place cannot move to another one
        return outside == used and same_loops

    def _join_reader(self, op: Operation) -> None:
        """Let a sum of rows, or rows of a large value, that stands alone join a group that reads an operand of it row
        by row anyway."""
        group = self.group_of.get(op)
        if not isinstance(op, ReductionOp) or group is None or op not in self._planner.iterations:
            return
        if not group.closed and (len(group.operations) > 1 or not self._is_large(op.operands[0])):
            return
        readings = [(value, user, index) for user in group.operations for index, value in enumerate(user.operands)]
        for value, user, index in readings:
            access = self._planner.iterations[user].access(index)
            for use in () if access is None or self._is_cloned(value) else list(value.uses):
                other, theirs = self.group_of.get(use.operation), self._planner.iterations.get(use.operation)
                if other is None or theirs is None or other is group or other.closed:
                    continue
                if (RECOMPUTED in op.attributes) != (RECOMPUTED in use.operation.attributes):
                    continue
                alike = zip(access or (), theirs.access(use.index) or (), strict=False)
                inputs = self._inputs_of_both(other, group)
                if inputs is not None and self._try_to_read_once(
                    other, group, inputs, self._planner.pairs(user, use.operation, alike)
                ):
                    return

    def _join_windows(self, op: Operation) -> None:
        """Let padding that stands alone join the group of the one contraction whose windows read it."""
        group, reader = self.group_of[op], self.group_of.get(user) if (user := reader_of_padding(op)) else None
        if reader is None or len(group.operations) > 1 or op not in self._planner.iterations:
            return
        if (inputs := self._inputs_of_both(group, reader)) is not None:
            closed = reader.closed
            self._merge(group, reader, inputs, reader.plan)
            self.group_of[op].closed = closed

    def _join_ranges(self, op: Operation) -> None:
        """Let padding that stands alone join those who each take a range of it, if none of them chooses by place as
        well: together they would cut loops into too many pieces."""
        left, users = self.group_of[op], readers_of_moved(op)
        right, *others = {self.group_of.get(user) for user in users} or {None}
        if right is None or others or right.closed or len(left.operations) > 1 or not self._moving.issuperset(users):
            return
        inputs = self._inputs_of_both(left, right)
        if inputs is not None and not any(isinstance(other, IndexingOp) for other in right.operations):
            self._take_in(left, right, inputs)

    def _is_large(self, value: SSAValue) -> bool:
        """Whether `value` does not stay in a core's cache from one kernel to the next."""
        return estimate(prod(shape_of(value.type) or ())) * numpy_dtype(element_of(value.type)).itemsize > self._near

    def _try_to_read_once(
        self, left: Group, right: Group, inputs: set[SSAValue], alike: Sequence[tuple[int | None, int | None]]
    ) -> bool:
        """Let `right`, which reads what `left` reads, run in its loops: those `alike` are one."""
        if right.closed:
            return self._try_to_sum_rows(left, right, inputs, alike)
        if left.contractions:
            return False
        mark = self._planner.classes.mark()
        plan = self._planner.plan(left, right) if self._are_one(alike) else None
        if plan is None or plan.shared != frozenset(map(self._planner.classes.find, left.shared)):
            self._planner.classes.undo(mark)
            return False
        self._merge(left, right, inputs, plan)
        return True

    def _are_one(self, alike: Iterable[tuple[int | None, int | None]]) -> bool:
        """Make the loops of each pair one; false if some cannot be. Along dimensions of size 1 there are none."""
        union = self._planner.classes.union
        return all(a == b if a is None or b is None else union(a, b) for a, b in alike)

    def _try_to_sum_rows(
        self,
        left: Group,
        right: Group,
        inputs: set[SSAValue],
        alike: Sequence[tuple[int | None, int | None]] = (),
    ) -> bool:
        """Let `right`, a sum of rows that nothing in `left` uses, add up each row where `left` has it. The loops
        `alike` are one."""
        mark = self._planner.classes.mark()
        plan = None
        if self._are_one(alike):
            plan = self._planner.plan_sum_of_rows(left, right, list(self._planner.edges(right, left)))
        if plan is None:
            self._planner.classes.undo(mark)
            return False
        self._merge(left, right, inputs, plan)
        return True

    def _merge(self, left: Group, right: Group, inputs: set[SSAValue], plan: Plan | None) -> None:
        small, large = (left, right) if len(left.operations) < len(right.operations) else (right, left)
        for value, _, _ in list(self._planner.edges(small, large)):
            (left if value in left.pending else right).pending[value] -= 1
        large.pending.update(small.pending)
        large.operations += small.operations
        large.kept |= small.kept
        large.inputs = inputs
        large.position = max(small.position, large.position)
        large.loops = {self._planner.classes.find(loop) for loop in (*large.loops, *small.loops)}
        if plan is None:
            large.closed = True
        else:
            large.shared, large.row_bytes, large.accumulated = plan.shared, plan.row_bytes, plan.accumulated
            large.across = set(plan.across)
            large.added_up |= small.added_up | set(plan.added_up)
            large.closed = False
        for op in small.operations:
            self.group_of[op] = large
        take_place(small, large)
