"""Functions of integers that take as many steps as the elements need."""

from __future__ import annotations

from typing import Any

from tenon.control_flow import while_loop
from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import ops


def _met(function: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in the shape and the dtype in which they meet."""
    for name, given in (("x", x), ("y", y)):
        if (dtype := shaped(given).dtype).kind not in "iu":
            raise TypeError(f"{function}: {name} is {dtype} where integers are needed")
    met = ops.bitwise_or(x, y)
    return tuple([ops.broadcast_to(ops.asarray(given, met.dtype), shape=tuple(met.shape)) for given in (x, y)])


def _common(x: Any, y: Any) -> Any:
    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        is_done = ops.equal(b, 0)
        rest = ops.fmod(a, ops.select(is_done, 1, b))
        return ops.select(is_done, a, b), ops.select(is_done, b, rest)

    found, _ = while_loop(lambda state: ops.any(ops.not_equal(state[1], 0)), step, (ops.abs(x), ops.abs(y)))
    return ops.abs(found)


@also_called(input="x", other="y")
def gcd(x: Any, y: Any) -> Any:
    """The greatest common divisors of integers, by Euclid's algorithm; those of 0 and a number are its magnitude."""
    return _common(*_met("gcd", x, y))


@also_called(input="x", other="y")
def lcm(x: Any, y: Any) -> Any:
    """The least common multiples of integers, 0 where one is 0. They wrap where the dtype does not hold them."""
    x, y = _met("lcm", x, y)
    common = _common(x, y)
    return ops.abs(ops.multiply(ops.truncate_divide(x, ops.select(ops.equal(common, 0), 1, common)), y))
