"""Integers of a host program: numbers of Python that stay within the bits of their types."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute


def wrapped(value: int, element: Attribute) -> int:
    """`value` in two's complement, with the bits of an integer type."""
    width = element.width.data if isinstance(element, IntegerType) else 64
    if width == 1:
        return value & 1
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def unsigned(value: int, element: Attribute) -> int:
    """`value` with the bits of an integer type read as an unsigned number."""
    return value % (1 << (element.width.data if isinstance(element, IntegerType) else 64))


def _quotient(a: int, b: int) -> int:
    """Division toward zero; `legalize-arith` leaves no division by zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    arith.AddiOp.name: operator.add,
    arith.SubiOp.name: operator.sub,
    arith.MuliOp.name: operator.mul,
    arith.DivSIOp.name: _quotient,
    arith.RemSIOp.name: lambda a, b: a - b * _quotient(a, b),
    arith.AndIOp.name: operator.and_,
    arith.OrIOp.name: operator.or_,
    arith.XOrIOp.name: operator.xor,
    arith.MaxSIOp.name: max,
    arith.MinSIOp.name: min,
}
COMPARISONS: tuple[Callable[[int, int], bool], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)
