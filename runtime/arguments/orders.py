"""Arrays whose dimensions lie in memory in another order than row-major: programs read large ones where they are.

Such an array, a transposed one say, is a contiguous array with its dimensions in another order. A program compiled for
the order takes that array and begins with the transposition, which the compiler joins with what follows. Others, and
small ones, for which another program is not worth it, are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEAST = 1 << 20
"""Bytes from which on an array is not copied."""

Order = tuple[int, ...]
Orders = Mapping[int, Order]
"""The orders of leaves, by position; none for those that lie as usual."""


def order_of(leaf: Any, least: int = LEAST) -> Order | None:
    """The dimensions of an array of at least so many bytes in the order of memory; `None` if that is usual, or if there
    are gaps."""
    if type(leaf) is not np.ndarray or leaf.flags.c_contiguous or leaf.nbytes < least or not leaf.flags.aligned:
        return None
    order = tuple(sorted(range(leaf.ndim), key=lambda axis: -leaf.strides[axis]))
    return order if leaf.transpose(order).flags.c_contiguous else None


def orders_of(leaves: Sequence[Any], donated: Sequence[bool] = (), least: int = LEAST) -> Orders:
    """The orders of the leaves of a call, but for those whose memory is given away to row-major results."""
    found = {position: order for position, leaf in enumerate(leaves) if (order := order_of(leaf, least)) is not None}
    return {p: order for p, order in found.items() if not donated[p]} if found and donated else found


def inverse(order: Order) -> Order:
    """The order that brings dimensions back."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
