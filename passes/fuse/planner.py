"""How two fusion groups run as one: which loops they share, and what one iteration of these keeps.

See `grouping` for what a group is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp
from tenon.dialects.families.iteration_space import ACROSS
from tenon.dialects.types.size import Size, estimate, is_at_most
from tenon.dialects.types.types import compute_type, element_of, numpy_dtype, shape_of
from tenon.passes.fuse.cost import is_flat_op
from tenon.passes.fuse.group import Edge, Group, Loops, Plan
from tenon.passes.fuse.later_uses import LaterUses
from tenon.passes.fuse.loop_classes import LoopClasses
from tenon.passes.fuse.row_sums import sum_of_rows
from tenon.passes.iteration import Iteration, shape
from tenon.passes.layout.transposed_operands import wants_panels
from tenon.passes.machine import Machine

MOST_ROW_BYTES = 64 * 1024
LONG_ROW = 1 << 14
"""Elements of a row that is long for one block of a GPU."""
FEWEST_ROWS = 16
"""Fewer iterations of the shared loops leave threads idle, unless there is little to do."""
LITTLE_WORK = 1 << 16
"""Elements of all loops together below which threads do not pay."""
FEWEST_STRIPED_ROWS = 64
"""Rows of a contraction below which cutting them into strips leaves it too little to reuse."""
FEWEST_SUMMED_ROWS = 64
"""Rows from which on sums of them are worth being added up row by row, in memory."""
STRIP_ROWS = 96
"""About as many rows of a contraction run together in a strip."""
MOST_GATHERED_BYTES = 1024
"""That one lane keeps where lanes gather elements for several rows each."""
LEAST_SHRINKING = 2
"""How many times larger than its sum an operand must be for a contraction to add up in memory, strip by strip."""


class Planner:
    """The loops of the ops of one block, those of different ops that are the same one, and plans that share them."""

    def __init__(
        self, block: Block, group_of: Mapping[Operation, Group], machine: Machine, *, strips: bool, long_rows: int = 0
    ):
        self.iterations: dict[Operation, Iteration] = {}
        self.loops_of: dict[Operation, Loops] = {}
        self.classes = LoopClasses()
        self._group_of = group_of
        self._machine = machine
        self._most_reread = 2 * machine.l2  # bytes of an operand that is read again for each strip: more do not stay
        self._most_kept = machine.l2 // 2 if machine.halves else machine.l1  # bytes of one that is read where it is
        self._strips = strips
        self._fewest_long_rows = long_rows
        self._later = LaterUses(block)

    def add(self, op: Operation, iteration: Iteration) -> Loops:
        """The loops of `op`, none of which is that of another op yet."""
        self.iterations[op] = iteration
        loops = tuple([None if extent == 1 else self.classes.add(extent) for extent in iteration.space.extents])
        self.loops_of[op] = loops
        return loops

    def forget_places(self, op: Operation) -> None:
        """`op` reads its operands wherever what uses its results is: its loops are nobody else's."""
        self.iterations[op] = replace(self.iterations[op], operands=(None,) * len(op.operands), windows=())

    def plan(self, left: Group, right: Group) -> Plan | None:
        """Unite the loops of two groups; `None` if they cannot run as one."""
        small, large = (left, right) if len(left.operations) < len(right.operations) else (right, left)
        edges = list(self.edges(small, large))
        if (left.sums_rows and right.contractions) or (right.sums_rows and left.contractions):
            return None
        across = left.across | right.across | set(self._loops_across(edges))
        for value, user, _ in edges:
            added_up = value in left.added_up or value in right.added_up
            if added_up or (isinstance(user, ContractionOp) and self._later.has(value, user)):
                return None
            if isinstance(user, ContractionOp) and self._multiplies_bytes(user):
                return None
        if not self._unite(edges) or not self._are_distinct(small.operations):
            return None
        find = self.classes.find
        if len({find(loop) for loop in large.loops}) < len(large.loops) and not self._are_distinct(large.operations):
            return None
        if not self._strips and (left.contractions or right.contractions):
            plan = self._plan_epilogue(left, right, edges)
        else:
            plan = self._plan_sharing(left, right, edges) or self._plan_adding_up(left, right, edges)
        if plan is None or plan.shared.intersection(map(find, across)):
            return None
        return replace(plan, across=frozenset(across))

    def _multiplies_bytes(self, op: ContractionOp) -> bool:
        """Whether the processor adds up products of bytes in groups, which it reads from memory: much faster than to
        make the bytes of a strip beside it."""
        return "i8" in (*self._machine.dots, *self._machine.tiles) and all(_is_byte(operand) for operand in op.operands)

    def _loops_across(self, edges: Iterable[Edge]) -> Iterator[int]:
        """The loops of values that windows read across."""
        for value, user, index in edges:
            access = self.iterations[user].access(index)
            if access is not None:
                positions = zip(self._value_loops(value), access, strict=True)
                yield from (loop for loop, position in positions if position == ACROSS and loop is not None)

    def _plan_sharing(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        """All loops that are parallel in both groups are shared."""
        find = self.classes.find
        all_loops = {find(loop) for loop in (*left.loops, *right.loops)}
        shared = frozenset(map(find, left.shared)) & frozenset(map(find, right.shared))
        accumulated = frozenset(map(find, (*left.accumulated, *right.accumulated)))
        if not accumulated <= shared:
            return None
        if len(shared) == len(all_loops):
            return Plan(shared, 0, accumulated)
        if not shared or self._waits_for_few(shared, all_loops, edges):
            return None
        if not self._keeps_busy(shared, all_loops) or not self._strips_pay(left, right, shared, edges):
            return None
        row_bytes = self._bytes_of_rows((left, right), shared)
        if row_bytes is None:
            return None
        row_bytes += self._bytes_of_settled(edges, shared, left, right)
        if row_bytes > MOST_ROW_BYTES and (accumulated or not self._is_gone_through(left, right, shared)):
            return None
        return Plan(shared, row_bytes, accumulated)

    def _is_gone_through(self, left: Group, right: Group, shared: frozenset[int]) -> bool:
        """Whether rows that are too long to be kept are many, and all between them and their reductions is computed
        again each time that they are gone through."""
        rows = prod([self.classes.extents[loop] for loop in shared])
        return (
            self._fewest_long_rows > 0
            and is_at_most(self._fewest_long_rows, rows)
            and all(isinstance(op, ElementwiseOp | ReductionOp) for op in (*left.operations, *right.operations))
        )

    def _waits_for_few(self, shared: frozenset[int], all_loops: Collection[int], edges: Sequence[Edge]) -> bool:
        """Whether rows are too few for all that could compute, and so long that each had better be work for many, and
        one group goes through them for a number of each that the other one has: in a kernel of its own a reduction is
        cut into parts, and what goes through rows again is done by all."""
        extents, find = self.classes.extents, self.classes.find
        rows = prod([extents[loop] for loop in shared])
        length = prod([extents[loop] for loop in all_loops if loop not in shared])
        if not self._fewest_long_rows or is_at_most(self._fewest_long_rows, rows) or is_at_most(length, LONG_ROW):
            return False

        def within(loops: Loops) -> bool:
            return shared.issuperset(find(loop) for loop in loops if loop is not None)

        return any(within(self._value_loops(value)) and not within(self.loops_of[user]) for value, user, _ in edges)

    def _plan_epilogue(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        """One group has a contraction, and the other does something to each element of its result, or computes an
        element to be combined with it."""
        contracted, others = (left, right) if left.contractions else (right, left)
        if others.contractions or not all(isinstance(op, ElementwiseOp) for op in others.operations):
            return None
        (contraction,) = contracted.contractions
        find = self.classes.find
        shared = frozenset([find(loop) for loop in self._value_loops(contraction.results[0]) if loop is not None])
        own = frozenset(map(find, contracted.shared))
        is_operand = any(user is contraction for _, user, _ in edges)
        return None if is_operand or not own <= shared or frozenset(map(find, others.loops)) != shared else Plan(shared)

    def _plan_adding_up(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        """`right` is a contraction over loops that the ops of `left` share, and adds up in memory what each iteration
        contributes: in the gradient of an attention, those of keys and values, over the strips of rows. Without a
        contraction that makes tiles of them in `left`, the sums had better stay in registers, in a kernel of `right`.
        """
        (op, *others) = right.operations
        if others or not left.contractions or not isinstance(op, ContractionOp) or None in self.iterations[op].operands:
            return None
        find, iteration = self.classes.find, self.iterations[op]
        loops = [None if loop is None else find(loop) for loop in self.loops_of[op]]
        reduced = {loop for loop, parallel in zip(loops, iteration.space.parallel, strict=True) if not parallel}
        common = frozenset(map(find, left.shared))
        outer = common.intersection(
            *(
                {loops[position] for position in access or () if position is not None}
                for access in (*iteration.operands, *iteration.results)
            )
        )
        accumulated = frozenset(map(find, left.accumulated)) | (common & reduced)
        shared = outer | accumulated
        if not outer or not common & reduced or not accumulated <= common:
            return None
        if not self._strips_pay(left, right, shared, edges):
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

    def plan_sum_of_rows(self, left: Group, right: Group, edges: Sequence[Edge]) -> Plan | None:
        """`right`, a sum of rows that nothing in `left` uses, adds up each row where `left` has it."""
        op, find, extents = right.operations[-1], self.classes.find, self.classes.extents
        if not self._strips or left.contractions or not self._unite(edges):
            return None
        if not self._are_distinct((*left.operations, *right.operations)):
            return None
        found = sum_of_rows(op, self.iterations[op], [None if x is None else find(x) for x in self.loops_of[op]])
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

    def _bytes_of_rows(self, groups: Sequence[Group], shared: frozenset[int]) -> int | None:
        """The bytes of what groups keep of one iteration of the `shared` loops; `None` if these are not outside."""
        total, gathers = 0, self._gather_along([op for group in groups for op in group.operations], shared)
        for group in groups:
            if group.has_rows and frozenset(map(self.classes.find, group.shared)) == shared:
                total += group.row_bytes
                continue
            if not gathers and not all(self._rows_are_innermost(op, shared) for op in group.operations):
                return None
            total += sum(self._row_bytes(value, shared) for value in group.kept if not group.pending[value])
        return None if gathers and total > MOST_GATHERED_BYTES else total

    def _gather_along(self, operations: Sequence[Operation], shared: frozenset[int]) -> bool:
        """Whether neighbours along one of the `shared` loops, the innermost of all ops, read at a computed place each:
        a few vectors of them are gone through for each iteration of the loops around that."""
        if not self._strips or not any(self._gathers(op) for op in operations):
            return False
        if not all(
            isinstance(op, IndexMapOp | IndexingOp) or (isinstance(op, ElementwiseOp) and is_flat_op(op))
            for op in operations
        ):
            return False
        innermost = {loops[-1] if (loops := self.loops_of[op]) else None for op in operations}
        along = {None if loop is None else self.classes.find(loop) for loop in innermost}
        return (
            len(along) == 1
            and None not in along
            and all(
                loop in shared and not isinstance(self.classes.extents[loop], Size)
                for loop in along
                if loop is not None
            )
        )

    def _gathers(self, op: Operation) -> bool:
        return isinstance(op, IndexingOp) and any(self.iterations[op].operands)

    def edges(self, small: Group, large: Group) -> Iterator[Edge]:
        """The uses (value, user, operand index) of values of one group in the other."""
        inside, group_of = large.pending, self._group_of
        for op in small.operations:
            for index, operand in enumerate(op.operands):
                if operand in inside:
                    yield operand, op, index
            for result in op.results:
                for use in result.uses:
                    if group_of.get(use.operation) is large:
                        yield result, use.operation, use.index

    def pairs(
        self, one: Operation, other: Operation, alike: Iterable[tuple[int | None, int | None]]
    ) -> list[tuple[int | None, int | None]]:
        """The loops of two ops at positions that are alike."""

        def loop(op: Operation, position: int | None) -> int | None:
            return None if position is None or position == ACROSS else self.loops_of[op][position]

        return [(loop(one, a), loop(other, b)) for a, b in alike]

    def _unite(self, edges: Iterable[Edge]) -> bool:
        """Make the loops one that index the same dimension of a value where it is produced and where it is used."""
        for value, user, index in edges:
            access = self.iterations[user].access(index)
            if access is None:
                return False
            user_loops = self.loops_of[user]
            for loop, position in zip(self._value_loops(value), access, strict=True):
                if position == ACROSS:
                    continue
                used = None if position is None else user_loops[position]
                if (loop is None) != (used is None):
                    return False
                if loop is not None and used is not None and not self.classes.union(loop, used):
                    return False
        return True

    def _value_loops(self, value: SSAValue) -> Loops:
        op = value.owner
        assert isinstance(op, Operation)
        loops = self.loops_of[op]
        access = self.iterations[op].results[value.index]  # pyright: ignore[reportAttributeAccessIssue]
        return tuple([None if position is None else loops[position] for position in access])

    def _are_distinct(self, operations: Iterable[Operation]) -> bool:
        """Whether no two loops of one op have become the same."""
        for op in operations:
            roots = [self.classes.find(loop) for loop in self.loops_of[op] if loop is not None]
            if len(set(roots)) < len(roots):
                return False
        return True

    def _keeps_busy(self, shared: Iterable[int], all_loops: Iterable[int]) -> bool:
        extents = self.classes.extents
        if estimate(prod([extents[loop] for loop in shared])) >= FEWEST_ROWS:
            return True
        return estimate(prod([extents[loop] for loop in all_loops])) <= LITTLE_WORK

    def _strips_pay(self, left: Group, right: Group, shared: frozenset[int], edges: Iterable[Edge]) -> bool:
        values = {value for value, _, _ in edges}
        passed = sum(estimate(prod(shape_of(value.type) or ())) * _itemsize(value) for value in values)
        return all(self._strip_pays(op, shared, passed) for op in (*left.contractions, *right.contractions))

    def _strip_pays(self, op: Operation, shared: frozenset[int], passed: int) -> bool:
        """Whether a contraction may be done in strips of the `shared` loops, so that the `passed` bytes that flow
        between the groups are not in memory."""
        iteration, extents = self.iterations[op], self.classes.extents
        accesses = [iteration.access(index) for index in range(len(op.operands))]
        if None in accesses:
            return False
        loops = [None if loop is None else self.classes.find(loop) for loop in self.loops_of[op]]
        parallel = {loop for loop, is_parallel in zip(loops, iteration.space.parallel, strict=True) if is_parallel}
        if parallel - {None} <= shared:
            return not wants_panels(op, self._machine)
        rows = estimate(prod([extents[loop] for loop in shared.intersection(loops)]))
        if rows < FEWEST_STRIPED_ROWS:
            return False
        for operand, access in zip(op.operands, accesses, strict=True):
            own = [loops[position] for position in access or () if position not in (None, ACROSS)]
            reread = prod([extents[loop] for loop in own if loop is not None and loop not in shared])
            if not is_at_most(reread * _itemsize(operand), self._most_reread):
                return False
            # It is copied to panels for each strip, or read slower than from panels (`lowering.schedules.packing`): to
            # write what is passed, and to read it, may take less.
            size = estimate(reread) * _itemsize(operand)
            if size > self._most_kept and size * (rows // STRIP_ROWS) > 2 * passed:
                return False
        return True

    def _rows_are_innermost(self, op: Operation, shared: frozenset[int]) -> bool:
        own = self._value_loops(op.results[0]) if isinstance(op, ContractionOp) else self.loops_of[op]
        loops = [self.classes.find(loop) for loop in own if loop is not None]
        return shared.issuperset(loops) or loops[-1] not in shared

    def _row_bytes(self, value: SSAValue, shared: frozenset[int]) -> int:
        loops = [self.classes.find(loop) for loop in self._value_loops(value) if loop is not None]
        elements = prod([self.classes.extents[loop] for loop in loops if loop not in shared])
        if isinstance(elements, Size):
            return MOST_ROW_BYTES + 1  # a row that may have any length
        return elements * _itemsize(value)

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


def _itemsize(value: SSAValue) -> int:
    return numpy_dtype(element_of(value.type)).itemsize


def _is_byte(value: SSAValue) -> bool:
    element = element_of(value.type)
    return isinstance(element, IntegerType) and element.width.data == 8
