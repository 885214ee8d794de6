"""The ops that `chain-products` marks and `fuse` puts together: those with the same number as an attribute."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation

CHAINED = "chained"
"""The attribute."""


def chained(block: Block) -> Iterator[list[Operation]]:
    """The ops of a block that are to be one kernel, in order; their attributes are gone then."""
    found: dict[int, list[Operation]] = {}
    for op in block.ops:
        number = op.attributes.pop(CHAINED, None)
        if isinstance(number, IntegerAttr):
            found.setdefault(number.value.data, []).append(op)
    yield from found.values()
