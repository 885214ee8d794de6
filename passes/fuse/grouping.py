"""Which ops of a block become one kernel.

Every op starts as a group of its own; groups along a value are merged as long as the result can be run by one kernel:

- All ops of a group share the group's *shared* loops: each value that flows inside is produced and used at the same
  index of them. Where some op has further loops (a *row* of elements per iteration of the shared ones, as in a
  softmax), those are its innermost, the shared loops are enough to keep a machine busy, and what is kept of a row
  fits on a stack.
- A reduction that cannot be run so (over all elements, or over outer dimensions) takes in the elementwise ops that
  only it uses and is then *closed*; so does an op that only rearranges what was computed, such as a transpose at the
  end.
- A sum of rows (`row_sums`) is added up by loops that have each of its rows anyway.
- No path leaves a group and comes back, so that groups can be called one after the other.
- A kernel has a limited number of inputs and of ops.
- A contraction joins others if its loops may be cut into strips (`lowering.schedules.strips`): along all loops of its
  result, as in an activation behind a layer; or along some, if there are many rows of them and what each strip reads
  again stays in a cache, as in softmax(Q Kᵀ) V, whose scores never are in memory as a whole. It takes no rows of a
  value that what depends on it needs as well (the input of a layer, for the gradient), which is in memory anyway. One
  that copies its operands joins nothing (`transposed_operands.wants_panels`).

Windows, scatters and opaque ops are groups of their own, since their loops are scheduled as a whole. A contraction that
reads an operand elsewhere than at its loops takes in what computes that operand only if no two iterations of a parallel
loop read the same windows, as in a convolution of each channel by itself: they share the loops that are indices of the
operand, so that a padded image is in memory one channel at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexMapOp, ReductionOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.types.size import Size, estimate, is_at_most
from tenon.dialects.types.types import compute_type, element_of, numpy_dtype
from tenon.passes.fuse.group import Edge, Group, Loops, Plan, connect, in_order, take_place, would_make_circle
from tenon.passes.fuse.later_uses import LaterUses
from tenon.passes.fuse.loop_classes import LoopClasses
from tenon.passes.fuse.row_sums import sum_of_rows
from tenon.passes.iteration import ACROSS, Iteration, is_indexed, iteration_of, rearranges_results, shape
from tenon.passes.layout.transposed_operands import wants_panels
from tenon.passes.machine import Machine

MOST_INPUTS, MOST_OPERATIONS, MOST_ROW_BYTES = 24, 256, 64 * 1024
FEWEST_ROWS = 16
"""Fewer iterations of the shared loops leave threads idle, unless there is little to do."""
LITTLE_WORK = 1 << 16
"""Elements of all loops together below which threads do not pay."""
FEWEST_STRIPED_ROWS = 64
"""Rows of a contraction below which cutting them into strips leaves it too little to reuse."""
FEWEST_SUMMED_ROWS = 64
"""Rows from which on sums of them are worth being added up row by row, in memory."""
LEAST_SHRINKING = 2
"""How many times larger than its sum an operand must be for a contraction to add up in memory, strip by strip."""


class Grouping:
    """The groups of one block, found in one walk over it."""

    def __init__(
        self,
        block: Block,
        is_pure: Callable[[Operation], bool],
        is_cloned: Callable[[SSAValue], bool],
        machine: Machine,
        *,
        contractions: bool = True,
    ) -> None:
        self.group_of: dict[Operation, Group] = {}
        self.positions: dict[Operation, int] = {}
        self._block = block
        self._is_cloned = is_cloned
        self._machine = machine
        self._most_reread = 2 * machine.l2  # bytes of an operand that is read again for each strip: more do not stay
        self._fuses_contractions = contractions
        self._iterations: dict[Operation, Iteration] = {}
        self._loops_of: dict[Operation, Loops] = {}
        self._classes = LoopClasses()
        self._later = LaterUses(block)
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
        if contractions:
            for op in self.positions:
                self._join_reader(op)

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
        is_scheduled_alone = isinstance(op, ContractionOp) and not self._fuses_contractions
        iteration = iteration_of(op) if pure and not is_scheduled_alone else None
        if iteration is None:
            return group
        self._iterations[op] = iteration
        self._start(group, op, iteration)
        for producer in self._producers(op):
            self._try_merge(self.group_of[producer], self.group_of[op])
        return self.group_of[op]

    def _start(self, group: Group, op: Operation, iteration: Iteration) -> None:
        loops = tuple([None if extent == 1 else self._classes.add(extent) for extent in iteration.extents])
        self._loops_of[op] = loops
        group.loops = {loop for loop in loops if loop is not None}
        parallel = iteration.parallel
        group.shared = frozenset([loop for loop, p in zip(loops, parallel, strict=True) if loop is not None and p])
        group.inputs = {v for v in op.operands if not self._is_cloned(v)}
        for result in op.results:
            uses = sum(1 for _ in result.uses)
            group.pending[result] = uses
            if uses != 1 or not isinstance(op, ElementwiseOp):
                group.kept.add(result)
        if isinstance(op, ReductionOp):
            group.closed = not self._reduces_rows(op)
        else:
            group.closed = rearranges_results(op, iteration)

    def _reduces_rows(self, op: Operation) -> bool:
        """Whether a reduction combines along the innermost loop and leaves some loop to share."""
        loops = [
            parallel
            for loop, parallel in zip(self._loops_of[op], self._iterations[op].parallel, strict=True)
            if loop is not None
        ]
        return bool(loops) and not loops[-1] and any(loops)

    def _producers(self, op: Operation) -> list[Operation]:
        """The ops in the block whose values `op` uses where its loops are, those of the largest values first."""
        found: dict[Operation, int] = {}
        closed = self.group_of[op].closed
        recomputed = RECOMPUTED in op.attributes
        for index, operand in enumerate(op.operands):
            access = self._iterations[op].access(index)
            producer = operand.owner
            if self._is_cloned(operand):
                continue  # each kernel has its own
            if recomputed and isinstance(producer, Operation) and RECOMPUTED not in producer.attributes:
                continue  # it belongs to its users, and what it was computed from before is only kept for it
            if (access is not None or closed) and isinstance(producer, Operation) and producer in self._iterations:
                found[producer] = max(found.get(producer, 0), estimate(prod(shape(op, operand.type))))
        return sorted(found, key=lambda producer: -found[producer])

    # --- merging ----------------------------------------------------------------------------------------------------

    def _try_merge(self, left: Group, right: Group) -> None:
        if left is right or left.closed or len(left.operations) + len(right.operations) > MOST_OPERATIONS:
            return
        inputs = self._merged_inputs(left, right)
        if len(inputs) > MOST_INPUTS or would_make_circle(left, right):
            return
        if right.closed:
            if self._feeds_only(left, right):
                self._merge(left, right, inputs, None)
            else:
                self._try_to_sum_rows(left, right, inputs)
            return
        mark = self._classes.mark()
        plan = self._plan(left, right)
        if plan is None:
            self._classes.undo(mark)
            # A reduction over rows that does not fit may still take in what only it uses.
            is_reduction = len(right.operations) == 1 and isinstance(right.operations[0], ReductionOp)
            if is_reduction and self._feeds_only(left, right):
                self._merge(left, right, inputs, None)
            return
        self._merge(left, right, inputs, plan)

    def _merged_inputs(self, left: Group, right: Group) -> set[SSAValue]:
        return {v for v in left.inputs | right.inputs if v not in left.pending and v not in right.pending}

    def _feeds_only(self, left: Group, right: Group) -> bool:
        """Whether `left` can join the loops of the one op in `right`, since nothing else uses what it computes."""
        (user,) = right.operations
        outside = sum(left.pending.values())
        used = sum(1 for operand in user.operands if operand in left.pending)
        same_loops = all(isinstance(op, ElementwiseOp | IndexMapOp) for op in left.operations) and not left.has_rows
        if isinstance(user, IndexMapOp) and not all(map(is_indexed, left.operations)):
            return False  # what asks for its place cannot move to another one
        return outside == used and same_loops

    def _plan(self, left: Group, right: Group) -> Plan | None:
        """Unite the loops of two groups; `None` if they cannot run as one."""
        small, large = (left, right) if len(left.operations) < len(right.operations) else (right, left)
        edges = list(self._edges(small, large))
        if (left.sums_rows and right.contractions) or (right.sums_rows and left.contractions):
            return None
        across = left.across | right.across | set(self._loops_across(edges))
        for value, user, _ in edges:
            added_up = value in left.added_up or value in right.added_up
            if added_up or (isinstance(user, ContractionOp) and self._later.has(value, user)):
                return None
        if not self._unite(edges) or not self._are_distinct(small.operations):
            return None
        find = self._classes.find
        if len({find(loop) for loop in large.loops}) < len(large.loops) and not self._are_distinct(large.operations):
            return None
        plan = self._plan_sharing(left, right, edges) or self._plan_adding_up(left, right, edges)
        if plan is None or plan.shared.intersection(map(find, across)):
            return None
        return replace(plan, across=frozenset(across))

    def _loops_across(self, edges: Iterable[Edge]) -> Iterator[int]:
        """The loops of values that windows read across."""
        for value, user, index in edges:
            access = self._iterations[user].access(index)
            if access is not None:
                positions = zip(self._value_loops(value), access, strict=True)
                yield from (loop for loop, position in positions if position == ACROSS and loop is not None)

    def _plan_sharing(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        """All loops that are parallel in both groups are shared."""
        find = self._classes.find
        all_loops = {find(loop) for loop in (*left.loops, *right.loops)}
        shared = frozenset(map(find, left.shared)) & frozenset(map(find, right.shared))
        accumulated = frozenset(map(find, (*left.accumulated, *right.accumulated)))
        if not accumulated <= shared:
            return None
        if len(shared) == len(all_loops):
            return Plan(shared, 0, accumulated)
        if not shared or not self._keeps_busy(shared, all_loops) or not self._strips_pay(left, right, shared):
            return None
        row_bytes = self._bytes_of_rows((left, right), shared)
        if row_bytes is None:
            return None
        row_bytes += self._bytes_of_settled(edges, shared, left, right)
        return None if row_bytes > MOST_ROW_BYTES else Plan(shared, row_bytes, accumulated)

    def _plan_adding_up(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        """`right` is a contraction over loops that the ops of `left` share, and adds up in memory what each iteration
        contributes: in the gradient of an attention, those of keys and values, over the strips of rows."""
        (op, *others) = right.operations
        if others or not isinstance(op, ContractionOp) or None in self._iterations[op].operands:
            return None
        find, iteration = self._classes.find, self._iterations[op]
        loops = [None if loop is None else find(loop) for loop in self._loops_of[op]]
        reduced = {loop for loop, parallel in zip(loops, iteration.parallel, strict=True) if not parallel}
        common = frozenset(map(find, left.shared))
        outer = common.intersection(
            *(
                {loops[position] for position in access or () if position is not None}
                for access in (*iteration.operands, *iteration.results)
            )
        )
        accumulated = frozenset(map(find, left.accumulated)) | (common & reduced)
        shared = outer | accumulated
        if not outer or not common & reduced or not accumulated <= common or not self._strips_pay(left, right, shared):
            return None
        (result,) = op.results
        element = element_of(result.type)  # half floats are added up in f32, which takes a buffer besides
        elements = LEAST_SHRINKING * estimate(prod(shape(op, result.type)))
        if all(estimate(prod(shape(op, value.type))) < elements for value, _, _ in edges):
            return None
        if element != compute_type(element) or not is_at_most(self._row_bytes(result, outer), self._most_reread):
            return None
        row_bytes = self._bytes_of_rows((left,), shared)
        if row_bytes is None:
            return None
        row_bytes += self._bytes_of_settled(edges, shared, left, right)
        return None if row_bytes > MOST_ROW_BYTES else Plan(shared, row_bytes, accumulated, (result,))

    def _join_reader(self, op: Operation) -> None:
        """Let a sum of rows that stands alone join a group that reads an operand of it row by row anyway."""
        group = self.group_of.get(op)
        if not isinstance(op, ReductionOp) or group is None or not group.closed or op not in self._iterations:
            return
        readings = [(value, user, index) for user in group.operations for index, value in enumerate(user.operands)]
        for value, user, index in readings:
            access = self._iterations[user].access(index)
            for use in () if access is None or self._is_cloned(value) else list(value.uses):
                other, theirs = self.group_of.get(use.operation), self._iterations.get(use.operation)
                if other is None or theirs is None or other is group or other.closed:
                    continue
                if (RECOMPUTED in op.attributes) != (RECOMPUTED in use.operation.attributes):
                    continue
                alike = zip(access or (), theirs.access(use.index) or (), strict=False)
                inputs = self._merged_inputs(other, group)
                if (
                    len(inputs) <= MOST_INPUTS
                    and len(other.operations) + len(group.operations) <= MOST_OPERATIONS
                    and not would_make_circle(other, group)
                    and self._try_to_sum_rows(other, group, inputs, self._pairs(user, use.operation, alike))
                ):
                    return

    def _pairs(
        self, one: Operation, other: Operation, alike: Iterable[tuple[int | None, int | None]]
    ) -> list[tuple[int | None, int | None]]:
        """The loops of two ops at positions that are alike."""

        def loop(op: Operation, position: int | None) -> int | None:
            return None if position is None or position == ACROSS else self._loops_of[op][position]

        return [(loop(one, a), loop(other, b)) for a, b in alike]

    def _try_to_sum_rows(
        self,
        left: Group,
        right: Group,
        inputs: set[SSAValue],
        alike: Sequence[tuple[int | None, int | None]] = (),
    ) -> bool:
        """Let `right`, a sum of rows that nothing in `left` uses, add up each row where `left` has it. The loops
        `alike` are one."""
        mark = self._classes.mark()
        plan = None
        if all(a is not None and b is not None and self._classes.union(a, b) for a, b in alike):
            plan = self._plan_sum_of_rows(left, right, list(self._edges(right, left)))
        if plan is None:
            self._classes.undo(mark)
            return False
        self._merge(left, right, inputs, plan)
        return True

    def _plan_sum_of_rows(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        op, find, extents = right.operations[-1], self._classes.find, self._classes.extents
        if not self._fuses_contractions or left.contractions or not self._unite(edges):
            return None
        if not self._are_distinct((*left.operations, *right.operations)):
            return None
        found = sum_of_rows(op, self._iterations[op], [None if x is None else find(x) for x in self._loops_of[op]])
        if found is None or any(value in left.added_up or value.owner in right.operations for value, _, _ in edges):
            return None
        accumulated = frozenset(map(find, left.accumulated))
        all_loops = {find(loop) for loop in (*left.loops, *right.loops)}
        size = estimate(prod([extents[loop] for loop in all_loops]))
        if not found.shared <= frozenset(map(find, left.shared)) or accumulated - found.reduced or size <= LITTLE_WORK:
            return None
        if estimate(prod([extents[loop] for loop in found.shared])) < FEWEST_SUMMED_ROWS:
            return None
        row_bytes = self._bytes_of_rows((left, right), found.shared)
        if row_bytes is None:
            return None
        row_bytes += self._row_bytes(op.results[0], found.shared)
        row_bytes += self._bytes_of_settled(edges, found.shared, left, right)
        across = frozenset(left.across)
        if row_bytes > MOST_ROW_BYTES or found.shared.intersection(map(find, across)):
            return None
        return Plan(found.shared, row_bytes, found.reduced, (op.results[0],), across)

    def _bytes_of_rows(self, groups: Iterable[Group], shared: frozenset[int]) -> int | None:
        """The bytes of what groups keep of one iteration of the `shared` loops; `None` if these are not outside."""
        total = 0
        for group in groups:
            if group.has_rows and frozenset(map(self._classes.find, group.shared)) == shared:
                total += group.row_bytes
                continue
            if not all(self._rows_are_innermost(op, shared) for op in group.operations):
                return None
            total += sum(self._row_bytes(value, shared) for value in group.kept if not group.pending[value])
        return total

    def _edges(self, small: Group, large: Group) -> Iterator[Edge]:
        """The uses (value, user, operand index) of values of one group in the other."""
        inside, group_of = large.pending, self.group_of
        for op in small.operations:
            for index, operand in enumerate(op.operands):
                if operand in inside:
                    yield operand, op, index
            for result in op.results:
                for use in result.uses:
                    if group_of.get(use.operation) is large:
                        yield result, use.operation, use.index

    def _unite(self, edges: Iterable[Edge]) -> bool:
        """Make the loops one that index the same dimension of a value where it is produced and where it is used."""
        for value, user, index in edges:
            access = self._iterations[user].access(index)
            if access is None:
                return False
            user_loops = self._loops_of[user]
            for loop, position in zip(self._value_loops(value), access, strict=True):
                if position == ACROSS:
                    continue
                used = None if position is None else user_loops[position]
                if (loop is None) != (used is None):
                    return False
                if loop is not None and used is not None and not self._classes.union(loop, used):
                    return False
        return True

    def _value_loops(self, value: SSAValue) -> Loops:
        op = value.owner
        assert isinstance(op, Operation)
        loops = self._loops_of[op]
        access = self._iterations[op].results[value.index]  # pyright: ignore[reportAttributeAccessIssue]
        return tuple([None if position is None else loops[position] for position in access])

    def _are_distinct(self, operations: Iterable[Operation]) -> bool:
        """Whether no two loops of one op have become the same."""
        for op in operations:
            roots = [self._classes.find(loop) for loop in self._loops_of[op] if loop is not None]
            if len(set(roots)) < len(roots):
                return False
        return True

    def _keeps_busy(self, shared: Iterable[int], all_loops: Iterable[int]) -> bool:
        extents = self._classes.extents
        if estimate(prod([extents[loop] for loop in shared])) >= FEWEST_ROWS:
            return True
        return estimate(prod([extents[loop] for loop in all_loops])) <= LITTLE_WORK

    def _strips_pay(self, left: Group, right: Group, shared: frozenset[int]) -> bool:
        return all(self._strip_pays(op, shared) for op in (*left.contractions, *right.contractions))

    def _strip_pays(self, op: Operation, shared: frozenset[int]) -> bool:
        """Whether a contraction may be done in strips of the `shared` loops."""
        iteration, extents = self._iterations[op], self._classes.extents
        accesses = [iteration.access(index) for index in range(len(op.operands))]
        if None in accesses:
            return False
        loops = [None if loop is None else self._classes.find(loop) for loop in self._loops_of[op]]
        parallel = {loop for loop, is_parallel in zip(loops, iteration.parallel, strict=True) if is_parallel}
        if parallel - {None} <= shared:
            return not wants_panels(op, self._machine)
        if estimate(prod([extents[loop] for loop in shared.intersection(loops)])) < FEWEST_STRIPED_ROWS:
            return False
        for operand, access in zip(op.operands, accesses, strict=True):
            own = [loops[position] for position in access or () if position not in (None, ACROSS)]
            reread = prod([extents[loop] for loop in own if loop is not None and loop not in shared])
            if not is_at_most(reread * numpy_dtype(element_of(operand.type)).itemsize, self._most_reread):
                return False
        return True

    def _rows_are_innermost(self, op: Operation, shared: frozenset[int]) -> bool:
        own = self._value_loops(op.results[0]) if isinstance(op, ContractionOp) else self._loops_of[op]
        loops = [self._classes.find(loop) for loop in own if loop is not None]
        return shared.issuperset(loops) or loops[-1] not in shared

    def _row_bytes(self, value: SSAValue, shared: frozenset[int]) -> int:
        loops = [self._classes.find(loop) for loop in self._value_loops(value) if loop is not None]
        elements = prod([self._classes.extents[loop] for loop in loops if loop not in shared])
        if isinstance(elements, Size):
            return MOST_ROW_BYTES + 1  # a row that may have any length
        return elements * numpy_dtype(element_of(value.type)).itemsize

    def _bytes_of_settled(self, edges: Sequence[Edge], shared: frozenset[int], left: Group, right: Group) -> int:
        """The bytes of the values whose last uses outside of their group are these edges."""
        uses: dict[SSAValue, int] = {}
        for value, _, _ in edges:
            uses[value] = uses.get(value, 0) + 1
        total = 0
        for value, count in uses.items():
            group = left if value in left.pending else right
            if group.pending[value] == count and value in group.kept:
                total += self._row_bytes(value, shared)
        return total

    def _merge(self, left: Group, right: Group, inputs: set[SSAValue], plan: Plan | None) -> None:
        small, large = (left, right) if len(left.operations) < len(right.operations) else (right, left)
        for value, _, _ in list(self._edges(small, large)):
            (left if value in left.pending else right).pending[value] -= 1
        large.pending.update(small.pending)
        large.operations += small.operations
        large.kept |= small.kept
        large.inputs = inputs
        large.position = max(small.position, large.position)
        large.loops = {self._classes.find(loop) for loop in (*large.loops, *small.loops)}
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
