"""Arguments of blocks are erased together: xDSL numbers all that are left again for each one that goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.ir import Block, BlockArgument


def erase_arguments(arguments: Iterable[BlockArgument]) -> None:
    """Erase arguments, of one block or several, that nothing uses."""
    of_blocks: dict[Block, set[BlockArgument]] = {}
    for argument in arguments:
        of_blocks.setdefault(argument.block, set()).add(argument)
    for block, gone in of_blocks.items():
        changed: Any = block
        changed._args = kept = tuple([argument for argument in block.args if argument not in gone])
        for number, argument in enumerate(kept):
            argument.index = number
        for argument in gone:
            argument.erase()
