"""What a view shows of the tensor that it is a view of, for arrays and for traced values."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from tenon.dialects.definition.registry import generation, watch_generation
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import as_stored, on_host
from tenon.eager.recording import Stored, call_of
from tenon.eager.tape import Apply, Array, Call, Parts


@dataclass(frozen=True)
class Step:
    """One way to look at a tensor."""

    name: str
    of: Callable[[Value], Value]
    put: Callable[[Value, Value], Value]
    """The tensor with other elements where the step looks."""


Link = tuple[Callable[..., Step], tuple[Any, ...]]
"""What makes a step, and of what."""

_KNOWN: dict[Hashable, Call] = {}
watch_generation(_KNOWN.clear)
_MOST = 4096


class View:
    """A tensor that shows part of the memory of `base`, by steps one after the other, which `links` make."""

    __slots__ = ("base", "links")

    def __init__(self, base: Stored, links: tuple[Link, ...]) -> None:
        self.base = base
        self.links = links

    @property
    def _steps(self) -> list[Step]:
        return [make(*given) for make, given in self.links]

    @property
    def _key(self) -> Hashable:
        return tuple([(make, _fixed(given)) for make, given in self.links])

    def call(self) -> Call:
        """What gives the view of its base."""
        key = self._key
        known = _KNOWN.get(key)
        if known is None:
            if len(_KNOWN) >= _MOST:
                _KNOWN.clear()
            makes = [make for make, _ in self.links]

            def apply(given: Sequence[tuple[Any, ...]]) -> Apply:
                steps = [make(*each) for make, each in zip(makes, given, strict=True)]
                return lambda v: (_look(v[0], steps)[-1],)

            given = tuple([each for _, each in self.links])
            parts = Parts(("view", *makes, generation()), given, apply)
            known = _KNOWN[key] = call_of(self._steps[-1].name, ("view", key), apply(given), parts=parts)
        return known

    def update_call(self) -> Call:
        """What gives the base with the elements of a view put in their places."""
        steps = self._steps

        def update(values: Sequence[Any]) -> tuple[Any, ...]:
            base, put = values
            for step, inner in zip(reversed(steps), reversed(_look(base, steps[:-1])), strict=True):
                put = step.put(inner, put)
            return (put,)

        return call_of("update", ("update", self._key), update)


_OF_LINKS: dict[Any, Call] = {}
watch_generation(_OF_LINKS.clear)


def call_of_link(tensor: Stored, link: Link) -> Call:
    """What gives the view of a tensor that one step shows."""
    try:
        known = _OF_LINKS.get(link)
    except TypeError:  # of a slice, which is no key
        return View(tensor, (link,)).call()
    if known is None:
        if len(_OF_LINKS) >= _MOST:
            _OF_LINKS.clear()
        known = _OF_LINKS[link] = View(tensor, (link,)).call()
    return known


def _fixed(value: Any) -> Hashable:
    """What a step is made of, as a key."""
    if type(value) is tuple:
        return tuple([_fixed(inner) for inner in value])
    return ("slice", value.start, value.stop, value.step) if type(value) is slice else value


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
    arrays: list[Any] = []
    for entry in key if isinstance(key, tuple) else (key,):
        if entry is None or type(entry) is int:
            entries.append(entry)
        elif entry is Ellipsis:
            entries.append("...")
        elif isinstance(entry, slice):
            entries.append(
                ("slice", tuple([None if p is None else index(p) for p in (entry.start, entry.stop, entry.step)]))
            )
        else:
            array: Any = entry._array if isinstance(entry, Stored) else on_host(entry)
            if isinstance(array, Value):
                entries.append("array")
                arrays.append(array)
                continue
            array = as_stored(array)
            if array.dtype == bool:
                if not array.ndim:
                    raise IndexError("a single truth value is an index alone, and not beside others")
                found = on_host(array).nonzero()
                entries += ["array"] * len(found)
                arrays += found
            elif array.size == 0 and isinstance(entry, list):
                entries.append("array")
                arrays.append(np.zeros(0, np.int64))
            elif array.dtype.kind not in "iu":
                what = f"an index is of {array.dtype}" if array.ndim else f"index {entry!r} is a {type(entry).__name__}"
                raise IndexError(f"{what} where integers or truth values are needed")
            elif array.ndim == 0:
                entries.append(int(on_host(array)))
            else:
                entries.append("array")
                arrays.append(array)
    return Key(tuple(entries), tuple(arrays))


BASIC = frozenset([int, slice, type(None), type(Ellipsis)])
"""Classes of what is between the commas of an index that gives a view."""
_BOUND = frozenset([int, type(None)])


def basic_key(key: Any) -> tuple[Any, ...] | None:
    """The key of a view, with a `...` in it, so that NumPy gives an array in any case; `None` for another key."""
    entries = key if type(key) is tuple else (key,)
    has_rest = key is Ellipsis
    if type(key) is slice:
        is_known = type(key.start) in _BOUND and type(key.stop) in _BOUND and type(key.step) in _BOUND
        return (key, Ellipsis) if is_known else None
    for entry in entries:
        kind = type(entry)
        if kind is slice:
            if type(entry.start) not in _BOUND or type(entry.stop) not in _BOUND or type(entry.step) not in _BOUND:
                return None
        elif kind not in BASIC:
            return None
        has_rest = has_rest or entry is Ellipsis
    return entries if has_rest else (*entries, Ellipsis)


def index_step(key: tuple[Any, ...]) -> Step:
    """A view by integers, slices, `None` and `...`."""
    return Step("index", lambda x: x[key], lambda x, values: x.at[key].set(values))


def shape_step(name: str, shape: tuple[int, ...], inner: tuple[int, ...]) -> Step:
    """A view of the same elements in another shape; `inner` is the shape of what is looked at."""
    return Step(
        name,
        lambda x: ops.reshape(x, shape=shape),
        lambda _, values: ops.reshape(values, shape=inner),
    )


def axes_step(order: tuple[int, ...]) -> Step:
    """A view with the axes in another order."""
    inverse = tuple(np.argsort(order).tolist())
    return Step(
        "transpose",
        lambda x: ops.transpose(x, permutation=order),
        lambda _, values: ops.transpose(values, permutation=inverse),
    )


def spread_step(shape: tuple[int, ...]) -> Step:
    """A view that repeats elements; it cannot be changed."""

    def refuse(x: Value, values: Value) -> Value:
        raise RuntimeError("a tensor that repeats elements of another one cannot be changed in place; clone it before")

    return Step("broadcast_to", lambda x: ops.broadcast_to(x, shape=shape), refuse)
