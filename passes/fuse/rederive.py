"""Compute values again in the groups that use them, where that takes less memory traffic than to keep them.

The gradient of a norm uses `x - mean` in three kernels: what writes it, and two that read it. All three have `x` and
the means at hand:

    %d = tenon.subtract %x, %m           %d = tenon.subtract %x, %m
    ... %d ...              kernel 0     ... %d ...
    ---                           ->     ---
    ... tenon.multiply %d, %g            %e = tenon.subtract %x, %m
                            kernel 1     ... tenon.multiply %e, %g

The rule: a value of `machine.l2` bytes or more that leaves its group, made by quick elementwise ops from what is in
memory anyway (arguments, values that stay, small ones), and used elsewhere by elementwise ops and reductions of its own
size only, is computed where it is used, provided that these groups read no more large values than they did. Groups with
contractions read what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tenon.dialects.families import ElementwiseOp, ReductionOp
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of
from tenon.passes.fuse.cost import is_cheap_op, is_quick_op
from tenon.passes.fuse.group import Group, connect

SMALL = 4
"""A value of so many times fewer elements than another costs little to read beside it."""
MOST_OPS = 16
"""That one value is computed from."""
MOST_DIVISIONS = 1
"""Among these: several take longer than memory does."""


@dataclass(frozen=True)
class _Derivation:
    """The ops that a value is computed by, in order, and what they read."""

    operations: tuple[ElementwiseOp, ...]
    leaves: frozenset[SSAValue]


class Rederivation:
    """Which values of a block are computed where they are used."""

    def __init__(
        self,
        group_of: dict[Operation, Group],
        positions: dict[Operation, int],
        is_cloned: Callable[[SSAValue], bool],
        least_bytes: int,
        most_inputs: int,
    ) -> None:
        self._group_of, self._positions, self._is_cloned = group_of, positions, is_cloned
        self._least_bytes, self._most_inputs = least_bytes, most_inputs
        self._chosen: dict[SSAValue, set[Group]] = {}
        """The values, in the order of the block, and the groups that use them."""

    def run(self) -> None:
        """Clone what is chosen into the groups that use it."""
        for op in sorted(self._group_of, key=self._positions.__getitem__):
            if (users := self._users_elsewhere(op)) is not None:
                self._chosen[op.results[0]] = users
        while refused := [value for value, users in self._chosen.items() if not self._pays(value, users)]:
            del self._chosen[refused[-1]]
        self._clone()

    # --- what may be chosen -------------------------------------------------------------------------------------------

    def _users_elsewhere(self, op: Operation) -> set[Group] | None:
        """The other groups that use the result of `op`, if all of them could compute it themselves."""
        group = self._group_of[op]
        if not self._is_repeatable(op) or group.contractions or self._is_cloned(result := op.results[0]):
            return None
        if estimate(prod(_shape(result))) * numpy_dtype(element_of(result.type)).itemsize < self._least_bytes:
            return None
        users = {use.operation for use in result.uses if self._group_of.get(use.operation) is not group}
        groups = {self._group_of[user] for user in users if self._reads_in_order(user, result)}
        are_all = all(self._reads_in_order(user, result) for user in users)
        return groups if groups and are_all and not any(other.contractions for other in groups) else None

    def _is_repeatable(self, op: Operation) -> bool:
        return (
            isinstance(op, ElementwiseOp)
            and len(op.results) == 1
            and RECOMPUTED not in op.attributes
            and is_quick_op(op)
        )

    def _reads_in_order(self, user: Operation, value: SSAValue) -> bool:
        if user not in self._group_of or RECOMPUTED in user.attributes:
            return False
        if isinstance(user, ReductionOp):
            return True
        return isinstance(user, ElementwiseOp) and _shape(user.results[0]) == _shape(value)

    # --- what pays ----------------------------------------------------------------------------------------------------

    def _pays(self, value: SSAValue, users: Iterable[Group]) -> bool:
        derivation = self._derivation(value)
        if derivation is None:
            return False
        large = {leaf for leaf in derivation.leaves if not _is_small(leaf, value)}
        added = 0
        for group in users:
            others = self._reads(group, but=value)
            if len(others | derivation.leaves) > self._most_inputs:
                return False
            # What the value itself was is read no more.
            added += len(large - others) - 1
        return added <= 0

    def _reads(self, group: Group, but: SSAValue) -> set[SSAValue]:
        """What a group reads of memory besides `but`."""
        found: set[SSAValue] = set()
        for op in group.operations:
            for operand in op.operands:
                if operand is but or self._group_of.get(operand.owner) is group or self._is_cloned(operand):  # pyright: ignore[reportArgumentType]
                    continue
                derivation = self._derivation(operand) if operand in self._chosen else None
                found |= {operand} if derivation is None else derivation.leaves
        return found

    def _derivation(self, value: SSAValue) -> _Derivation | None:
        """How a chosen value is computed; `None` if that takes too many ops, or what is not in memory."""
        operations: dict[ElementwiseOp, None] = {}
        leaves: set[SSAValue] = set()

        def visit(wanted: SSAValue) -> bool:
            op = wanted.owner
            if self._is_cloned(wanted) or op in operations:
                return True
            if wanted is not value and (_is_small(wanted, value) or self._is_in_memory(wanted)):
                leaves.add(wanted)
                return True
            if isinstance(op, Block) or not self._is_repeatable(op) or len(operations) >= MOST_OPS:
                return False
            assert isinstance(op, ElementwiseOp)
            if not all(map(visit, op.operands)):
                return False
            operations[op] = None
            return True

        if not visit(value) or sum(not is_cheap_op(op) for op in operations) > MOST_DIVISIONS:
            return None
        return _Derivation(tuple(operations), frozenset(leaves))

    def _is_in_memory(self, value: SSAValue) -> bool:
        op = value.owner
        group = None if isinstance(op, Block) else self._group_of.get(op)
        if group is None or len(group.operations) == 1:
            return value not in self._chosen
        return value not in self._chosen and any(self._group_of.get(use.operation) is not group for use in value.uses)

    # --- what is done -------------------------------------------------------------------------------------------------

    def _clone(self) -> None:
        clones: dict[Group, dict[SSAValue, SSAValue]] = {}
        left_over: list[Operation] = []
        for value, users in self._chosen.items():
            derivation = self._derivation(value)
            assert derivation is not None
            for group in users:
                known = clones.setdefault(group, {})
                for op in derivation.operations:
                    if op.results[0] not in known:
                        self._clone_into(group, op, known)
                for leaf in derivation.leaves:
                    if (producer := self._group_of.get(leaf.owner)) is not None:  # pyright: ignore[reportArgumentType]
                        connect(producer, group)
        for value, users in self._chosen.items():
            left_over.append(value.owner)  # pyright: ignore[reportArgumentType]
            for group in users:
                copy = clones[group][value]
                value.replace_uses_with_if(copy, lambda use, group=group: self._group_of.get(use.operation) is group)
        self._erase_unused(left_over)

    def _clone_into(self, group: Group, op: Operation, known: dict[SSAValue, SSAValue]) -> None:
        copy = op.clone(dict(known))
        copy.location = op.location
        assert op.parent is not None
        op.parent.insert_op_after(copy, op)
        known[op.results[0]] = copy.results[0]
        self._positions[copy] = self._positions[op]
        self._group_of[copy] = group
        group.operations.append(copy)

    def _erase_unused(self, operations: list[Operation]) -> None:
        while operations:
            op = operations.pop()
            group = self._group_of.get(op)
            if group is None or op.results[0].first_use is not None or not self._is_repeatable(op):
                continue
            operations += [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
            del self._group_of[op]
            group.operations.remove(op)
            Rewriter.erase_op(op)
            if not group.operations:
                for other in group.successors:
                    other.predecessors.discard(group)
                for other in group.predecessors:
                    other.successors.discard(group)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type) or ()


def _is_small(value: SSAValue, beside: SSAValue) -> bool:
    return SMALL * estimate(prod(_shape(value))) <= estimate(prod(_shape(beside)))
