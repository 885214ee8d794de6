"""What an update of an element does to it: combine it with something, by a monoid."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import AnyFloat, IntegerType

from tenon.dialects.families.monoid import MONOIDS, Monoid


def combination(load: memref.LoadOp, store: memref.StoreOp) -> Monoid | None:
    """What combines the loaded element with something to the stored one, which may also be the loaded one itself;
    `None` where they are not in one place."""
    if load.memref is not store.memref or tuple(load.indices) != tuple(store.indices):
        return None
    old, value = load.res, store.value
    users = [use.operation for use in old.uses]
    # a single use each rules out that the element decides what is chosen, or what it is combined with
    while value.has_one_use() and isinstance(choice := value.owner, arith.SelectOp) and choice.rhs is old:
        users.remove(choice)
        value = choice.lhs
    is_number = isinstance(old.type, IntegerType | AnyFloat) and value.has_one_use()
    return MONOIDS.get(users[0].name) if is_number and users == [value.owner] else None
