"""What is recorded of calls on tensors: a graph from results to what they were computed of.

A `Source` stands for the value that a tensor has at one time. A change in place gives the tensor another source; its
memory counts the changes, so that a gradient that needs what was there before can be refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.dialects.support.user_place import Place, shown, user_place
from tenon.runtime.call.layout import PER_OPERAND, PER_RESULT
from tenon.runtime.tracing.watch import note_once

Array = np.ndarray[Any, Any]
Type = tuple[np.dtype[Any], tuple[int, ...]]
NUMBERS = count()
"""Numbers the nodes."""
CHANGES_OF_HOOKS = np.zeros(1, np.int64)
"""How often a hook was registered on a leaf, or removed: what native code compares first."""
LARGE = 1 << 15
"""The bytes from which on arrays that no gradient needs are not kept: smaller ones cost less than to find that out."""


_MOST_TYPES = 256
"""Kinds of operands of a call for which it is known what a gradient needs of them."""


class Memory:
    """Memory that tensors share, and how often it was changed."""

    __slots__ = ("changed_at", "is_exported", "tensors", "version")

    def __init__(self) -> None:
        self.version = 0
        self.changed_at: Place = None
        self.is_exported: bool | None = None
        """Whether there are arrays of others in this memory."""
        self.tensors: list[ref[Any]] | None = None
        """Where there are views, they and what they are views of."""

    def change(self) -> None:
        """Note a change, made at the user's line."""
        self.version += 1
        self.changed_at = user_place()
        note_once()

    def forget_dead(self) -> None:
        """Forget tensors that are no more: what only one has left is its own."""
        if self.tensors is not None:
            alive = [r for r in self.tensors if r() is not None]
            self.tensors = alive if len(alive) > 1 else None


class Saved:
    """An array as it was when a call read or computed it."""

    __slots__ = ("array", "memory", "version")

    def __init__(self, array: Array, memory: Memory, version: int | None = None) -> None:
        self.array = array
        self.memory = memory
        self.version = memory.version if version is None else version

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
    """The value of a tensor at one time, as something to differentiate with respect to: of a leaf, or a result."""

    __slots__ = ()
    node: Node | None
    index: int

    @property
    def hooks(self) -> dict[int, Callable[[Any], Any]]:
        """What is called with the gradient, in this order; the same for all sources of one result."""
        raise NotImplementedError

    @property
    def has_hooks(self) -> bool:
        """Whether there are any."""
        raise NotImplementedError

    @property
    def first(self) -> Source:
        """What gradients of its tensor are with respect to: the source that the tensor had before it was changed in
        ways that are not recorded, which change its value and not where that came from."""
        raise NotImplementedError

    @property
    def type(self) -> Type:
        """Dtype and shape."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type[1]


class Leaf(Source):
    """The value of a tensor that no call gave, which `tensor` leads to."""

    __slots__ = ("_first", "_hooks", "_type", "tensor")
    node = None
    index = 0

    def __init__(self, type_: Type, tensor: ref[Any] | None) -> None:
        self._type = type_
        self.tensor = tensor
        self._hooks: dict[int, Callable[[Any], Any]] | None = None
        self._first: Leaf | None = None

    @property
    def first(self) -> Leaf:
        return self if self._first is None else self._first

    @property
    def hooks(self) -> dict[int, Callable[[Any], Any]]:
        if self._hooks is None:
            self._hooks = {}
        return self._hooks

    @property
    def has_hooks(self) -> bool:
        return bool(self._hooks)

    @property
    def type(self) -> Type:
        return self._type

    def renewed(self, type_: Type | None = None) -> Leaf:
        """The source of other elements of the tensor, with the same hooks; of another type where one is given."""
        made = Leaf(self._type if type_ is None else type_, self.tensor)
        made._hooks = self.hooks  # those that are registered later as well
        made._first = self.first if type_ is None else None
        return made


Number = bool | int | float
Operand = tuple[Source | None, Saved | Number | Type]
"""What a recorded call was given: where that came from, if that matters, and its elements, or only their type."""


Apply = Callable[[Sequence[Any]], tuple[Any, ...]]
PullBack = Callable[["Node", Sequence[Any]], Sequence[Any]]
"""The gradients of operands, for the node of a call and gradients of its results; `None` where there is none. It is
given its node, and does not hold it, so that the arrays of a call go with its last result."""


@dataclass(frozen=True)
class Kept:
    """What a call keeps for its gradient: behind the results that it gives, its node has others, which nobody sees."""

    given: int
    """How many results are given."""
    reads: tuple[int, ...]
    """Which of all results the gradient reads."""
    apply: Apply
    """The results that are given, for the operands and what is read; their gradient needs no more than these."""


@dataclass(frozen=True)
class Parts:
    """A call taken apart: what makes it again with other settings, which are tuples, slices and plain values."""

    kind: Hashable
    settings: Any
    apply: Callable[[Any], Apply]


class Call:
    """What was called, apart from its operands: `apply` gives the results (a tuple) for traced values.

    Calls of equal `key` on operands of equal types have the same gradient.
    """

    __slots__ = ("apply", "kept", "key", "name", "needed", "parts", "pull_back")

    def __init__(
        self, name: str, key: Hashable, apply: Apply, kept: Kept | None = None, pull_back: PullBack | None = None
    ) -> None:
        self.name = name
        self.key = key
        self.apply = apply
        self.kept = kept
        self.parts: Parts | None = None
        self.pull_back = pull_back
        """For what Python finds the gradients of: a program for them ends before it, and another one begins behind."""
        self.needed: dict[Hashable, tuple[Sequence[bool], Sequence[bool]]] = {}
        """For types met in a gradient, which operands and which results it needed; of the last `_MOST_TYPES` kinds."""

    def note_needed(self, types: Hashable, needed: tuple[Sequence[bool], Sequence[bool]]) -> None:
        """Note which operands and results of such types a gradient needed."""
        while len(self.needed) >= _MOST_TYPES:
            self.needed.pop(next(iter(self.needed)), None)
        self.needed[types] = needed


RENEWED = "renewed"
"""The name of the calls that stand for changes that are not recorded."""


class _OfNode(Source):
    """The value of a result of a call."""

    __slots__ = ()
    node: Node  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def first(self) -> Source:
        source: Source = self
        while source.node is not None and source.node.name == RENEWED:
            source = source.node.operands[0]
        return source

    @property
    def hooks(self) -> dict[int, Callable[[Any], Any]]:
        if self.node.hooks_of is None:
            self.node.hooks_of = {}
        return self.node.hooks_of.setdefault(self.index, {})

    @property
    def has_hooks(self) -> bool:
        return bool(self.node.hooks_of and self.node.hooks_of.get(self.index))

    @property
    def type(self) -> Type:
        return type_of(self.node.results[PER_RESULT * self.index])


class Node(_OfNode):
    """A recorded call, and the source of its first result.

    `operands` has for each its source, elements, memory, and the version of that; `results` have the latter three.
    Where elements are not kept there is their type.
    """

    __slots__ = ("call", "code", "hooks_of", "instruction", "is_released", "number", "operands", "results")
    index = 0
    device = "cpu"
    """Where its arrays are, and its gradient is computed."""
    arrays: ClassVar[tuple[type, ...]] = (np.ndarray,)
    """Classes of these."""

    def __init__(self, call: Call, operands: Sequence[Operand], results: Sequence[Saved | Type]) -> None:
        self.call = call
        self.operands: tuple[Any, ...] = tuple([word for source, s in operands for word in (source, *_words(s))])
        self.results: tuple[Any, ...] = tuple([word for saved in results for word in _words(saved)])
        self.is_released: bool | None = None
        self.hooks_of: dict[int, dict[int, Callable[[Any], Any]]] | None = None
        self.number = next(NUMBERS)
        self.code, self.instruction = user_place() or (None, None)
        forget(self)

    @property
    def node(self) -> Node:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self

    @property
    def place(self) -> Place:
        """The line of the call."""
        return None if self.code is None or self.instruction is None else (self.code, self.instruction)

    @property
    def sources(self) -> tuple[Source | None, ...]:
        """Where the operands came from."""
        return self.operands[::PER_OPERAND]

    @property
    def given(self) -> list[Operand]:
        """The operands."""
        words = self.operands
        return [(words[i], _saved(*words[i + 1 : i + 4])) for i in range(0, len(words), PER_OPERAND)]

    @property
    def computed(self) -> list[Saved | Type]:
        """The results."""
        words = self.results
        return [_saved(*words[i : i + 3]) for i in range(0, len(words), PER_RESULT)]

    @property
    def count(self) -> int:
        """How many results there are."""
        return len(self.results) // PER_RESULT

    def source(self, index: int) -> Source:
        """The source of a result."""
        return self if index == 0 else Result(self, index)

    def keep(self, of_operands: Sequence[bool], of_results: Sequence[bool]) -> None:
        """Let go of all arrays but these."""
        operands, results = [*self.operands], [*self.results]
        for words, kept, size in ((operands, of_operands, PER_OPERAND), (results, of_results, PER_RESULT)):
            for i, is_needed in zip(range(size - 3, len(words), size), kept, strict=True):
                if not is_needed and words[i + 1] is not None:
                    words[i : i + 3] = type_of(words[i]), None, None
        self.operands, self.results = tuple(operands), tuple(results)

    @property
    def signature(self) -> Hashable:
        """The types of all operands, and through which of them there are gradients."""
        words = self.operands
        return tuple([(words[i] is None, type_of(words[i + 1])) for i in range(0, len(words), PER_OPERAND)])

    @property
    def name(self) -> str:
        return self.call.name

    def release(self) -> None:
        """Let go of what only a further `backward` would need: large arrays at once, and small ones with the node."""
        self.is_released = True
        if self.has_large():
            self.keep([False] * (len(self.operands) // PER_OPERAND), [False] * (len(self.results) // PER_RESULT))

    def has_large(self) -> bool:
        """Whether there are arrays that are worth to be let go."""
        return any(isinstance(word, self.arrays) and word.nbytes >= LARGE for word in (*self.operands, *self.results))


class Result(_OfNode):
    """The source of another result of a call than its first."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.node is other.node and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self.node), self.index))


class DeviceNode(Node):
    """A call on a GPU. To native code, which walks tapes of arrays of NumPy, what it gave is an end."""

    __slots__ = ()
    device = "cuda"

    @property
    def arrays(self) -> tuple[type, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.ndarray, sys.modules["cupy"].ndarray


def not_replayed(values: Sequence[Any]) -> Any:
    """The `apply` of calls whose gradients Python finds, which are made again by nobody."""
    raise AssertionError("what Python finds the gradients of is not part of a program")


def forget(node: Node) -> None:
    """Let a new node keep of large arrays only those that the gradient needs, where that is known."""
    needed = node.call.needed.get(node.signature) if node.call.needed and node.has_large() else None
    if needed is not None:
        node.keep(*needed)


def _words(saved: Saved | Number | Type) -> tuple[Any, Any, Any]:
    return (saved.array, saved.memory, saved.version) if isinstance(saved, Saved) else (saved, None, None)


def _saved(elements: Any, memory: Memory | None, version: int | None) -> Any:
    return elements if memory is None else Saved(elements, memory, version)


def type_of(saved: Saved | Array | Number | Type) -> Any:
    """The dtype and shape of an array; the class of a number."""
    if isinstance(saved, Saved):
        return saved.array.dtype, saved.array.shape
    if isinstance(saved, np.ndarray | Value) or is_on_gpu(saved):
        return saved.dtype, saved.shape  # pyright: ignore[reportAttributeAccessIssue]
    return saved if isinstance(saved, tuple) else type(saved)
