"""What a block computes from some values alone, and what of that is worth keeping when it need not be computed again.

What is kept takes memory and is read from there. So a value is worth keeping that takes no more bytes than what it is
computed from, or `MOST_GROWTH` times as many if sums are part of that, such as the transformed filters of a
convolution; `LITTLE` bytes always. What is larger, such as a broadcast or a cast of small integers, is not, nor are a
constant and a reshape, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tenon.dialects.definition.traits import KeepsMemory, states
from tenon.dialects.families import ContractionOp, CumulativeOp, ReductionOp, WindowOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.types.types import AnyTensor, element_of, is_static, numpy_dtype, shape_of

MOST_GROWTH = 2
LITTLE = 4096
_SUMS = (ContractionOp, CumulativeOp, ReductionOp, WindowOp)


class DerivedValues:
    """The values of a block that depend on `sources` and constants alone, by ops of which `may_move` is true."""

    def __init__(self, block: Block, sources: Iterable[SSAValue], may_move: Callable[[Operation], bool]) -> None:
        # For each value those that it depends on, and whether sums are on the way.
        self.sources = {value: frozenset((value,)) for value in sources if is_static(value.type)}
        self._has_sums: set[SSAValue] = set()
        self.ops: list[Operation] = []
        for op in block.ops:
            if not op.has_trait(IsTerminator) and may_move(op):
                self._add(op)

    def _add(self, op: Operation) -> None:
        used = used_values(op)
        if not all(value in self.sources for value in used) or not all(is_static(r.type) for r in op.results):
            return
        sources = frozenset[SSAValue]().union(*[self.sources[value] for value in used])
        has_sums = isinstance(op, _SUMS) or any(value in self._has_sums for value in used)
        self.sources.update(dict.fromkeys(op.results, sources))
        if has_sums:
            self._has_sums.update(op.results)
        self.ops.append(op)

    def worth_keeping(self) -> list[SSAValue]:
        """The values to keep, in order: those that others than derived ops use. In the place of one that is not
        worth its memory come the values that it is computed from.
        """
        moved = set(self.ops)
        found: list[SSAValue] = []
        for op in reversed(self.ops):
            kept = [
                result for result in op.results if any(_user(use.operation, op) not in moved for use in result.uses)
            ]
            if all(self._is_worth_keeping(value) for value in kept):
                found += reversed(kept)
            else:
                moved.discard(op)
        return found[::-1]

    def _is_worth_keeping(self, value: SSAValue) -> bool:
        sources, size = self.sources[value], bytes_of(value)
        if not sources or states(value.owner, KeepsMemory):
            return False
        growth = MOST_GROWTH if value in self._has_sums else 1
        return size <= max(LITTLE, growth * sum(map(bytes_of, sources)))

    def needed_for(self, values: Sequence[SSAValue]) -> list[Operation]:
        """The derived ops that compute `values`, in order."""
        needed: set[Operation] = set()
        wanted = set(values)
        for op in reversed(self.ops):
            if not wanted.isdisjoint(op.results):
                needed.add(op)
                wanted.update(used_values(op))
        return [op for op in self.ops if op in needed]


def _user(op: Operation, definition: Operation) -> Operation:
    """The op in the block of `definition` that holds `op`."""
    while op.parent is not definition.parent:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def bytes_of(value: SSAValue) -> int:
    """How much memory `value`, of static shape, takes."""
    type_: AnyTensor = value.type  # pyright: ignore[reportAssignmentType]
    return prod(shape_of(type_) or ()) * numpy_dtype(element_of(type_)).itemsize
