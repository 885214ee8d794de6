"""Arguments that a function is given once, and that are the same at every call."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import copied, elements_of, is_on_gpu
from tenon.passes.machine import ALIGNMENT
from tenon.runtime.arguments.arguments import Parameters, Static, WideFloat, as_array, is_array
from tenon.runtime.arguments.tree import Structure, unflatten


class _Freezing(threading.local):
    is_on = False

    def __enter__(self) -> None:
        self.is_on = True

    def __exit__(self, *_: object) -> None:
        self.is_on = False


FREEZING = _Freezing()
"""Whether arguments are taken apart in this thread to be the same at all calls, and not as they are now."""


@dataclass(frozen=True, eq=False)
class FrozenArguments:
    """The first positional arguments, and keyword arguments by name."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None

    @classmethod
    def of(cls, parameters: Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FrozenArguments:
        """The arguments, arrays in them as contiguous arrays of NumPy, but for those on a GPU; of tensors, which
        are there to be changed, it has copies.

        Raises `TypeError` for a traced value, for an argument that is donated, for `out`, and for what is no argument.
        """
        if "out" in kwargs and parameters.take_out:
            raise TypeError(f"{parameters.name}: out cannot be frozen; give it at each call")
        parameters.check_given(args, kwargs)
        with FREEZING:
            leaves, structure = parameters.take_apart(args, kwargs)
        names = parameters.leaf_names(structure)
        for name, is_donated in zip(names, parameters.donations(structure), strict=True):
            if is_donated:
                raise TypeError(
                    f"{parameters.name}: argument {name} is donated and cannot be frozen: results would take over its "
                    "memory"
                )
        leaves = [
            leaf if is_on_gpu(leaf) else _held(leaf, f"{parameters.name}: argument {name}")
            for leaf, name in zip(leaves, names, strict=True)
        ]
        positional, keywords = unflatten(structure, leaves)
        return cls(tuple(map(_plain, positional)), {name: _plain(value) for name, value in keywords.items()})

    def joined(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments of a call of the function called `name`; raises `TypeError` for one that is given again."""
        frozen = self.kwargs or {}
        if again := sorted(frozen.keys() & kwargs.keys()):
            raise TypeError(f"{name}: argument {again[0]} is frozen and cannot be given again")
        return (*self.args, *args), {**frozen, **kwargs}

    def removed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a call gave, out of all arguments."""
        frozen = self.kwargs or {}
        return args[len(self.args) :], {name: value for name, value in kwargs.items() if name not in frozen}

    def flags(self, structure: Structure) -> list[bool]:
        """For each leaf of the arguments of a call whether it is frozen."""
        positional, keywords = structure.children
        flags: list[bool] = []
        for position, child in enumerate(positional.children):
            flags += [position < len(self.args)] * child.size
        for name, child in zip(keywords.names, keywords.children, strict=True):
            flags += [name in (self.kwargs or {})] * child.size
        return flags


NONE = FrozenArguments()

_PREPARED: WeakValueDictionary[Any, np.ndarray[Any, Any]] = WeakValueDictionary()
"""What was computed from frozen arguments and is in use, by a checksum and all that it must have beside its bits."""


def held_once(prepared: Sequence[Any]) -> list[Any]:
    """Arrays that nobody writes to; in the place of each, one of the same bits that is in use already.

    Other kinds of calls of a function, such as those with more images, need many of the same.
    """
    return [_known(array) if isinstance(array, np.ndarray) else array for array in prepared]


def _known(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    is_aligned = array.ctypes.data % ALIGNMENT == 0
    key = (array.shape, array.dtype, is_aligned, zlib.crc32(_bits(array).data))
    known = _PREPARED.setdefault(key, array)
    return known if known is array or np.array_equal(_bits(known), _bits(array)) else array


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _held(leaf: Any, where: str) -> Any:
    elements = elements_of(leaf)
    if isinstance(elements, Value):
        raise TypeError(
            f"{where} is a traced value ({elements.type}), which cannot be frozen: there are no gradients with respect "
            "to frozen arguments, and no examples of them; pass it at each call"
        )
    if elements is not leaf:
        return copied(elements) if is_on_gpu(elements) else np.array(elements, order="C")
    if isinstance(leaf, WideFloat):
        return float(leaf)
    if isinstance(leaf, Static | float) or not is_array(leaf):
        return leaf  # what a float becomes is decided by the arrays of each call
    array = as_array(leaf, where)
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Static) else value
