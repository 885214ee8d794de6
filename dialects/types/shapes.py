"""Shapes as far as they are known: the one lattice behind inference, verifiers and launch guards.

A shape is `None` (unknown rank) or a tuple whose entries are sizes or -1 (unknown dimension). Unknowns never raise; two
known sizes that disagree do, naming both and where they came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from xdsl.ir import Attribute

from tenon.dialects.types.types import element_of, numpy_dtype, shape_of

Shape = tuple[int, ...] | None
_MOST_ELEMENTS = 1 << 60
"""Elements of which no memory holds more: a tensor is at most as many bytes as 63 bits count."""


class InferenceError(ValueError):
    """Operands or settings that no result type can be inferred from; the message names rule, values and arguments.

    `sizes` are two sizes that differ and would have to be equal, where that is the reason.
    """

    def __init__(self, message: str, sizes: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.sizes = sizes


def show(shape: Shape) -> str:
    """A shape as errors print it: `(2, ?, 3)`, or `unknown rank`."""
    if shape is None:
        return "unknown rank"
    inner = ", ".join("?" if dim < 0 else str(dim) for dim in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def broadcast(named: Iterable[tuple[str, Shape]]) -> Shape:
    """NumPy's broadcasting of the named shapes. A dimension that is unknown in one and above 1 in another is the
    latter."""
    result: list[int] = []
    origin: list[str] = []
    unranked = False
    for name, shape in named:
        if shape is None:
            unranked = True
            continue
        if len(shape) > len(result):
            extra = len(shape) - len(result)
            result[:0] = [1] * extra
            origin[:0] = [name] * extra
        for position in range(1, len(shape) + 1):
            size, known = shape[-position], result[-position]
            if size == known or size == 1:
                continue
            if known == 1 or (known < 0 and size > 1):
                result[-position], origin[-position] = size, name
            elif known >= 0 and size >= 0:
                sizes = f"{known} in {origin[-position]} and {size} in {name}"
                raise InferenceError(f"shapes do not broadcast: dimension -{position} is {sizes}", (known, size))
            elif known == 0 or size == 0:
                result[-position] = 0
    return None if unranked else tuple(result)


def refine(left: Shape, right: Shape) -> Shape:
    """What is known of a shape of which both `left` and `right` are true; raises where they contradict each other."""
    if left is None or right is None:
        return right if left is None else left
    if len(left) != len(right):
        raise InferenceError(f"rank is {len(left)} in {show(left)} and {len(right)} in {show(right)}")
    for axis, (a, b) in enumerate(zip(left, right, strict=True)):
        if a >= 0 and b >= 0 and a != b:
            raise InferenceError(f"dimension {axis} is {a} in {show(left)} and {b} in {show(right)}", (a, b))
    return tuple([b if a < 0 else a for a, b in zip(left, right, strict=True)])


def join(left: Shape, right: Shape) -> Shape:
    """What is known of a shape that is one of `left` and `right`; raises where sizes with names differ."""
    if left is None or right is None or len(left) != len(right):
        return None
    for axis, (a, b) in enumerate(zip(left, right, strict=True)):
        if a >= 0 and b >= 0 and a != b and not type(a) is type(b) is int:
            raise InferenceError(f"dimension {axis} is {a} in {show(left)} and {b} in {show(right)}", (a, b))
    return tuple([a if a >= 0 and b >= 0 and a == b else -1 for a, b in zip(left, right, strict=True)])


def compatible(declared: Attribute, inferred: Attribute) -> bool:
    """Whether a value declared as `declared` may be what inference says is `inferred`: equal where both are known."""
    if element_of(declared) != element_of(inferred):
        return False
    try:
        refine(shape_of(declared), shape_of(inferred))
    except InferenceError:
        return False
    return True


def check_addressable(type_: Attribute) -> None:
    """Raise unless the bytes of a result, as far as its size is known, can be counted in 63 bits."""
    shape = shape_of(type_)
    if shape is None or not all(type(size) is int and size >= 0 for size in shape):
        return
    count = prod(shape)
    if count >= _FEWEST_TOO_MANY and count * numpy_dtype(element_of(type_)).itemsize >= 1 << 63:
        raise InferenceError(f"the result {type_} has {count} elements, more than can be addressed")


_FEWEST_TOO_MANY = 1 << 59
"""The least number of elements, of 16 bytes at most, that can be too many."""


def check_sizes(function: str, shape: Any) -> None:
    """Raise unless `shape`, an argument of a function, is a tuple or list of sizes."""
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise TypeError(f"{function}: shape is {shape!r} where a tuple of sizes is needed")
    for size in shape:
        if isinstance(size, bool | float | str):
            raise TypeError(f"{function}: shape is {tuple(shape)} where integers are needed")
        if hasattr(size, "__index__") and int(size.__index__()) < 0:
            raise InferenceError(f"{function}: shape is {tuple(shape)} where sizes of at least 0 are needed")
    if prod([int(size.__index__()) for size in shape if hasattr(size, "__index__")]) > _MOST_ELEMENTS:
        raise InferenceError(f"{function}: shape is {tuple(shape)}, of more elements than any memory holds")


def check_count(function: str, name: str, count: Any) -> None:
    """Raise unless `count`, the argument of this name of a function, is an integer of at least 0."""
    if isinstance(count, float) or (hasattr(count, "__index__") and int(count.__index__()) < 0):
        kind = TypeError if isinstance(count, float) else InferenceError
        raise kind(f"{function}: {name} is {count!r} where an integer of at least 0 is needed")


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; raises when it is outside [-rank, rank), or no number."""
    try:
        is_inside = -rank <= axis < rank
    except TypeError:
        raise TypeError(f"{what} is {axis!r} where an integer is needed") from None
    if not is_inside:
        raise InferenceError(f"{what} is {axis} but the rank is {rank}")
    return axis % rank


@lru_cache(maxsize=256)
def exchanged(rank: int, first: int, second: int) -> tuple[int, ...]:
    """The order of `rank` axes in which two have changed places."""
    order = [*range(rank)]
    first, second = (normalize_axis(axis, rank, "an axis to transpose") for axis in (first, second))
    order[first], order[second] = second, first
    return tuple(order)


def flattened(shape: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, ...]:
    """`shape` with the sizes from `start_dim` to `end_dim`, both included, made one."""
    if not shape:
        return (1,)
    first, last = (normalize_axis(axis, len(shape), "flatten: axis") for axis in (start_dim, end_dim))
    if first > last:
        raise InferenceError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}")
    return (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])


def normalize_axes(axes: Sequence[int] | None, rank: int, what: str = "axis") -> tuple[int, ...]:
    """Sorted axes counted from the front, each once; `None` is every axis."""
    if axes is None:
        return tuple(range(rank))
    normal = sorted(normalize_axis(axis, rank, what) for axis in axes)
    if len(set(normal)) != len(normal):
        raise InferenceError(f"{what} {tuple(axes)} names a dimension twice at rank {rank}")
    return tuple(normal)
