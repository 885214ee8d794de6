"""What a view shows of the tensor that it is a view of, for arrays and for traced values."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.dialects.definition.value import Value, ops
from tenon.eager.recording import Stored, call_of
from tenon.eager.tape import Array, Call


@dataclass(frozen=True)
class Step:
    """One way to look at a tensor."""

    name: str
    key: Hashable
    """Steps of equal names and keys do the same to tensors of equal shapes."""
    of: Callable[[Value], Value]
    put: Callable[[Value, Value], Value]
    """The tensor with other elements where the step looks."""


@dataclass(frozen=True)
class View:
    """A tensor that shows part of the memory of `base`, by `steps` one after the other."""

    base: Stored
    steps: tuple[Step, ...]

    @property
    def _key(self) -> Hashable:
        return tuple([(step.name, step.key) for step in self.steps])

    def call(self) -> Call:
        """What gives the view of its base."""
        steps = self.steps
        return call_of(steps[-1].name, ("view", self._key), lambda values: (_look(values[0], steps)[-1],))

    def update_call(self) -> Call:
        """What gives the base with the elements of a view put in their places."""
        steps = self.steps

        def update(values: Sequence[Any]) -> tuple[Any, ...]:
            base, put = values
            for step, inner in zip(reversed(steps), reversed(_look(base, steps[:-1])), strict=True):
                put = step.put(inner, put)
            return (put,)

        return call_of("update", ("update", self._key), update)


def _look(value: Value, steps: Sequence[Step]) -> list[Value]:
    """`value`, and what each of the steps shows of the one before."""
    seen = [value]
    for step in steps:
        seen.append(step.of(seen[-1]))
    return seen


@dataclass(frozen=True)
class Key:
    """A key of indexing: what is known of it, and its index arrays in their order."""

    entries: tuple[Hashable, ...]
    arrays: tuple[Array, ...]

    def written(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The key as it is written, with `arrays` in the place of its own."""
        rest = iter(arrays)
        return tuple([_entry(entry, rest) for entry in self.entries])


def _entry(entry: Any, rest: Any) -> Any:
    if entry == "array":
        return next(rest)
    return slice(*entry[1]) if isinstance(entry, tuple) else Ellipsis if entry == "..." else entry


def read_key(key: Any) -> Key:
    """Take a key apart; masks become the places of their true elements."""
    entries: list[Hashable] = []
    arrays: list[Array] = []
    for entry in key if isinstance(key, tuple) else (key,):
        if entry is None or type(entry) is int:
            entries.append(entry)
        elif entry is Ellipsis:
            entries.append("...")
        elif isinstance(entry, slice):
            entries.append(
                ("slice", tuple([None if p is None else int(p) for p in (entry.start, entry.stop, entry.step)]))
            )
        else:
            array = entry._array if isinstance(entry, Stored) else np.asarray(entry)
            if array.dtype == bool:
                if not array.ndim:
                    raise IndexError("a single truth value is an index alone, and not beside others")
                found = array.nonzero()
                entries += ["array"] * len(found)
                arrays += found
            elif array.size == 0 and isinstance(entry, list):
                entries.append("array")
                arrays.append(np.zeros(0, np.int64))
            elif array.dtype.kind not in "iu":
                raise IndexError(f"an index is of {array.dtype} where integers or truth values are needed")
            elif array.ndim == 0:
                entries.append(int(array))
            else:
                entries.append("array")
                arrays.append(array)
    return Key(tuple(entries), tuple(arrays))


def index_step(key: Key) -> Step:
    """A view by integers, slices, `None` and `...`."""
    written = key.written(())
    return Step("index", key.entries, lambda x: x[written], lambda x, values: x.at[written].set(values))


def shape_step(name: str, shape: tuple[int, ...], inner: tuple[int, ...]) -> Step:
    """A view of the same elements in another shape; `inner` is the shape of what is looked at."""
    return Step(
        name,
        (shape, inner),
        lambda x: ops.reshape(x, shape=shape),
        lambda _, values: ops.reshape(values, shape=inner),
    )


def axes_step(order: tuple[int, ...]) -> Step:
    """A view with the axes in another order."""
    inverse = tuple(np.argsort(order).tolist())
    return Step(
        "transpose",
        order,
        lambda x: ops.transpose(x, permutation=order),
        lambda _, values: ops.transpose(values, permutation=inverse),
    )


def spread_step(shape: tuple[int, ...]) -> Step:
    """A view that repeats elements; it cannot be changed."""

    def refuse(x: Value, values: Value) -> Value:
        raise RuntimeError("a tensor that repeats elements of another one cannot be changed in place; clone it before")

    return Step("broadcast_to", shape, lambda x: ops.broadcast_to(x, shape=shape), refuse)
