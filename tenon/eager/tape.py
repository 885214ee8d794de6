"""What is recorded of calls on tensors: a graph from results to what they were computed of.

A `Source` stands for the value that a tensor has at one time. A change in place gives the tensor another source; its
memory counts the changes, so that a gradient that needs what was there before can be refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np

Array = np.ndarray[Any, Any]
Type = tuple[np.dtype[Any], tuple[int, ...]]
Place = tuple[CodeType, int] | None
"""A line of the user's program: code, and the instruction in it."""

_NUMBERS = count()
_LARGE = 1 << 15
"""The bytes from which on arrays that no gradient needs are not kept: smaller ones cost less than to find that out."""


def user_place() -> Place:
    """The innermost line that is not Tenon's own."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name[:6] != "tenon." and name != "tenon":
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def shown(place: Place) -> str:
    """` (file:line)`, or nothing."""
    if place is None:
        return ""
    code, instruction = place
    lines = [line for start, end, line in code.co_lines() if start <= instruction < end and line is not None]
    return f" ({code.co_filename}:{lines[0]})" if lines else ""


class Memory:
    """Memory that tensors share, and how often it was changed."""

    __slots__ = ("changed_at", "is_exported", "tensors", "version")

    def __init__(self) -> None:
        self.version = 0
        self.changed_at: Place = None
        self.is_exported = False
        """Whether there are arrays of others in this memory."""
        self.tensors: list[ref[Any]] = []
        """Where there are views, they and what they are views of."""

    def change(self) -> None:
        """Note a change, made at the user's line."""
        self.version += 1
        self.changed_at = user_place()


class Saved:
    """An array as it was when a call read or computed it."""

    __slots__ = ("array", "memory", "version")

    def __init__(self, array: Array, memory: Memory) -> None:
        self.array = array
        self.memory = memory
        self.version = memory.version

    @property
    def is_stale(self) -> bool:
        """Whether the array was changed since."""
        return self.memory.version != self.version

    def check(self, node: Node | None) -> None:
        """Raise `RuntimeError` if the array was changed since; `node` is a call that read or computed it."""
        if not self.is_stale:
            return
        what = "a tensor" if node is None else f"what {node.name} read or computed{shown(node.place)}"
        raise RuntimeError(
            f"backward needs {what}, of shape {self.array.shape}, which was changed in place"
            f"{shown(self.memory.changed_at)}; compute out of place there, or clone it before"
        )


class Source:
    """The value of a tensor at one time, as something to differentiate with respect to.

    It is result number `index` of `node`, or, without a node, that of a leaf, which `tensor` leads to.
    """

    __slots__ = ("_hooks", "dtype", "index", "node", "shape", "tensor")

    def __init__(
        self,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        node: Node | None,
        index: int = 0,
        tensor: ref[Any] | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.node = node
        self.index = index
        self.tensor = tensor
        self._hooks: dict[int, Callable[[Any], Any]] | None = None

    @property
    def hooks(self) -> dict[int, Callable[[Any], Any]]:
        """What is called with the gradient, in this order; the same for all sources of one result."""
        if self.node is not None:
            if self.node.hooks is None:
                self.node.hooks = {}
            return self.node.hooks.setdefault(self.index, {})
        if self._hooks is None:
            self._hooks = {}
        return self._hooks

    @property
    def type(self) -> Type:
        return self.dtype, self.shape

    @property
    def number(self) -> int:
        """Sources with higher numbers do not go into this one; leaves have none."""
        return -1 if self.node is None else self.node.number

    def __eq__(self, other: object) -> bool:
        if self.node is None or not isinstance(other, Source):
            return self is other
        return self.node is other.node and self.index == other.index

    def __hash__(self) -> int:
        return id(self) if self.node is None else hash((id(self.node), self.index))


Number = bool | int | float
Operand = tuple[Source | None, Saved | Number | Type]
"""What a recorded call was given: where that came from, if that matters, and its elements, or only their type."""


class Call:
    """What was called, apart from its operands: `apply` gives the results (a tuple) for traced values.

    Calls of equal `key` on operands of equal types have the same gradient.
    """

    __slots__ = ("apply", "key", "name", "needed")

    def __init__(self, name: str, key: Hashable, apply: Callable[[Sequence[Any]], tuple[Any, ...]]) -> None:
        self.name = name
        self.key = key
        self.apply = apply
        self.needed: dict[Hashable, tuple[Sequence[bool], Sequence[bool]]] = {}
        """For types met in a gradient, which operands and which results it needed."""


class Node:
    """A recorded call: `operands` gave results, of which there are the elements or only the types."""

    __slots__ = ("call", "hooks", "is_released", "number", "operands", "place", "results")

    def __init__(self, call: Call, operands: Sequence[Operand], results: Sequence[Saved | Type]) -> None:
        self.call = call
        self.operands = operands
        self.results = results
        self.is_released = False
        self.hooks: dict[int, dict[int, Callable[[Any], Any]]] | None = None
        self.number = next(_NUMBERS)
        self.place = user_place()
        if call.needed:
            self._forget_unneeded(call)

    def _forget_unneeded(self, call: Call) -> None:
        """Keep of large arrays only those that the gradient needs, where that is known."""
        needed = call.needed.get(self.signature) if self._has_large() else None
        if needed is not None:
            self._keep(*needed)

    def _keep(self, of_operands: Sequence[bool], of_results: Sequence[bool]) -> None:
        self.operands = [(source, _kept(s, n)) for (source, s), n in zip(self.operands, of_operands, strict=True)]
        self.results = [_kept(s, n) for s, n in zip(self.results, of_results, strict=True)]

    @property
    def signature(self) -> Hashable:
        """The types of all operands, and through which of them there are gradients."""
        return tuple([(source is None, type_of(saved)) for source, saved in self.operands])

    @property
    def name(self) -> str:
        return self.call.name

    def release(self) -> None:
        """Let go of what only a further `backward` would need: large arrays at once, and small ones with the node."""
        self.is_released = True
        if self._has_large():
            self._keep([False] * len(self.operands), [False] * len(self.results))

    def _has_large(self) -> bool:
        return any(map(_is_large, self.results)) or any(_is_large(saved) for _, saved in self.operands)


def _is_large(saved: Any) -> bool:
    return type(saved) is Saved and saved.array.nbytes >= _LARGE


def type_of(saved: Saved | Number | Type) -> Any:
    """The dtype and shape of an array; the class of a number."""
    if isinstance(saved, Saved):
        return saved.array.dtype, saved.array.shape
    return saved if isinstance(saved, tuple) else type(saved)


def _kept(saved: Any, is_needed: bool) -> Any:
    return saved if is_needed or not isinstance(saved, Saved) else type_of(saved)
