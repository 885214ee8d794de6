"""Which values are needed again by what depends on one of their users."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue


class LaterUses:
    """The answers for one block, each found once."""

    def __init__(self, block: Block) -> None:
        self._order = {op: position for position, op in enumerate(block.ops)}
        self._known: dict[tuple[SSAValue, Operation], bool] = {}

    def has(self, value: SSAValue, user: Operation) -> bool:
        """Whether another use of `value` depends on a result of its `user`."""
        known = self._known.get((value, user))
        if known is None:
            known = self._known[value, user] = self._search(value, user)
        return known

    def _search(self, value: SSAValue, user: Operation) -> bool:
        others = {use.operation for use in value.uses} - {user}
        last = max((self._order[op] for op in others if op in self._order), default=-1)
        reached, pending = {user}, [user]
        while pending and not reached & others:
            for result in pending.pop().results:
                users = {use.operation for use in result.uses} - reached
                ahead = [op for op in users if self._order.get(op, last + 1) <= last]
                reached.update(ahead)
                pending += ahead
        return bool(reached & others)
