"""Decides which tensor values of a structured function are kept in the same memory.

Before: a function on tensors of known shapes and structured control flow. After: each tensor value has a storage,
and each place where a value is handed on between storages that stay apart holds its copies, in an order in which none
overwrites the source of a later one. The IR is not changed.

Each value starts in a storage of its own (`value_lifetimes`). The storages at the two ends of a copy are merged, the
costliest copy first, if no position in the program needs both contents. Then slices become part of the storage around
them, and last, elementwise kernels write over operands that die there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects import func, tensor
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.lowering.buffers.memory_plan import Scope, Storage, intervals_meet, merged_intervals, try_merge
from tenon.lowering.buffers.memref_facts import SliceOp, is_one_run, without_reshapes
from tenon.lowering.buffers.passed_slices import is_passed_to_kernels
from tenon.lowering.buffers.value_lifetimes import Copy, ValueLifetimes


class StorageAssignment:
    """Decides which values of a function on tensors are kept in the same memory."""

    def __init__(self, function: func.FuncOp, kernels: dict[str, func.FuncOp], *, has_arena: bool):
        self._kernels = kernels
        self._values = ValueLifetimes(function, kernels)
        self._has_arena = has_arena
        self.outputs = self._values.outputs
        self.copies = self._values.copies
        self.element_reads = self._values.element_reads

    def run(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        donations: Sequence[int],
        updated: Mapping[int, int],
    ) -> None:
        """Assign storages; `inputs` and `outputs` are the memrefs that the caller passes, and `updated` the arguments
        that are in the memory of an output, by number."""
        self._values.run(inputs, outputs, donations, updated)
        self._resolve_intervals()
        self._merge_copies()
        if self._has_arena:
            self._take_views()
        self._merge_elementwise()
        self._order_copies()

    def storage(self, value: SSAValue) -> Storage:
        """The storage that keeps `value`."""
        return self._values.definitions[value].storage.root

    def updated(self, call: func.CallOp) -> Mapping[int, int]:
        """Which operands of `call` its kernel has in the memory of which results."""
        return self._values.updated[call.callee.string_value()]

    def temporaries(self) -> list[Storage]:
        """The storages that need memory of their own, each once, in the order of their first definition."""
        found: dict[Storage, None] = {}
        for storage in (*(definition.storage for definition in self._values.all), *self._values.extra):
            root = storage.root
            if root.is_temporary and (root.reads or root.writes):
                found[root] = None
        return list(found)

    def _resolve_intervals(self) -> None:
        for definition in self._values.all:
            definition.storage.intervals += definition.live_intervals()
        for storage in (*(definition.storage for definition in self._values.all), *self._values.extra):
            storage.intervals = merged_intervals(storage.intervals)

    def _merge_copies(self) -> None:
        copies = [copy for copies in self.copies.values() for copy in copies]
        for copy in sorted(copies, key=lambda copy: -copy.weight):
            try_merge(copy.target, copy.source)

    def _merge_elementwise(self) -> None:
        """Let elementwise kernels write over operands that die there."""
        for op, soft in self._values.elementwise_calls:
            for result in op.results:
                any(try_merge(self.storage(op.operands[index]), self.storage(result)) for index in sorted(soft))

    def _take_views(self) -> None:
        """Let slices be part of the storage they are taken from or inserted into, in the arena or passed by the caller.

        The slice's storage must be a temporary that is not shared with other values, and its elements contiguous, so
        that a kernel can read or write it.
        """
        for op in self._values.slices:
            base, part = self.storage(op.source), self.storage(op.result)
            if self._may_be_part(op, op.result, base) and not _any_within(base.writes, part.intervals):
                _become_part(op, part, base)
        for op, scope in self._values.inserts:
            base, part = self.storage(op.result), self.storage(op.source)
            if self._may_be_part(op, op.source, base) and self._can_produce_in_place(op, scope):
                _become_part(op, part, base)

    def _may_be_part(self, op: SliceOp, value: SSAValue, base: Storage) -> bool:
        """Whether the slice `value` of `op` may lie in `base`, but for what is read and written there."""
        part = self.storage(value)
        if part is base or not part.is_temporary or part.is_shared or not is_one_run(op):
            return False
        if base.home is None:
            return base.is_temporary
        if isinstance(part.bytes, Size):
            return False
        return is_passed_to_kernels(value, self._kernels, (op,)) and self._has_memory_to_itself(base, part.intervals)

    def _has_memory_to_itself(self, base: Storage, intervals: Sequence[tuple[int, int]]) -> bool:
        """Whether nothing that is donated memory, or donates it, is needed where `base` is now needed as well."""
        donors = [] if base.donor is None else [base.donor]
        given = [output.root for output in self.outputs if output.root.donor is base]
        return not any(intervals_meet(other.intervals, intervals) for other in (*donors, *given))

    def _can_produce_in_place(self, op: tensor.InsertSliceOp, scope: Scope) -> bool:
        """Whether the call that computes the source of `op`, or what it reshapes, may write it straight into the
        destination.

        The destination must not be read between the call and `op`, which replaces nothing else, and the offsets must be
        known at the call.
        """
        definition = self._values.definitions[op.source]
        call = without_reshapes(op.source).owner
        if not isinstance(call, func.CallOp) or definition.scope is not scope:
            return False
        positions = self._values.positions
        base, start, end = self.storage(op.result), positions[call], positions[op]
        if self.storage(op.dest) is not base and not self._values.definitions[op.dest].is_undefined:
            return False
        if any(start <= read < end for read in base.reads) or any(start < write <= end for write in base.writes):
            return False
        if any(last > end + 1 for _, last in definition.storage.root.intervals):
            return False
        return all(isinstance(offset.owner, Block) or positions[offset.owner] < start for offset in op.offsets)

    # What remains to be copied

    def _order_copies(self) -> None:
        """Put the copies of each place into an order in which none overwrites the source of a later one."""
        for op, copies in self.copies.items():
            pending = [copy for copy in copies if copy.source.root is not copy.target.root]
            self.copies[op] = self._sequence(pending) if len(pending) > 1 else pending

    def _sequence(self, pending: list[Copy]) -> list[Copy]:
        ordered: list[Copy] = []
        while pending:
            ready = next(
                (copy for copy in pending if not any(_clobbers(copy, other) for other in pending if other is not copy)),
                None,
            )
            if ready is not None:
                ordered.append(ready)
                pending.remove(ready)
                continue
            # Every copy waits for another one: save what the first would overwrite.
            saved = next(copy for copy in pending if copy is not pending[0] and _clobbers(pending[0], copy))
            position = saved.position
            spare = Storage(saved.target.bytes, saved.target.element_type, f"swap_{len(self._values.extra)}")
            spare.intervals, spare.writes = [(position, position + 1)], [position]
            self._values.extra.append(spare)
            ordered.append(Copy(saved.source, spare, saved.type, position, saved.weight))
            saved.source = spare
        return ordered


def _clobbers(copy: Copy, other: Copy) -> bool:
    """Whether `copy` writes to memory that `other` still has to read."""
    target, source = copy.target.root, other.source.base
    return target is source or (target.donor is not None and target.donor is source)


def _any_within(positions: Iterable[int], intervals: Sequence[tuple[int, int]]) -> bool:
    return intervals_meet(merged_intervals((position, position) for position in positions), intervals)


def _become_part(op: Operation, part: Storage, base: Storage) -> None:
    part.slice_op, part.slice_base, part.read_only = op, base, True
    base.intervals = merged_intervals(base.intervals + part.intervals)
    base.reads += part.reads
    base.writes += part.writes
    base.is_shared = base.has_slices = True
