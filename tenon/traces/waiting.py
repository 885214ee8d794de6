"""Tensors whose elements are computed when something asks for them: results of calls that wait to be run together.

What is not written here asks, so that Python and NumPy see such a tensor as any other, but for its class: it is one of
`Waiting`, so that `type(y) is Tensor` is false in a piece, and `isinstance(y, Tensor)` true.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from tenon.eager.modes import WAITING
from tenon.eager.recording import Stored
from tenon.eager.tape import Array
from tenon.eager.tensor import Tensor
from tenon.eager.views import Step
from tenon.traces.outcomes import looked_at

# The fields of tensors, whatever their classes make of them.
_RAW: dict[str, Any] = {
    name: vars(Stored)[name] for name in ("_array", "_grad", "_keeps_grad", "_memory", "_source", "_view")
}


Awaited = tuple[Any, int, Array, bool]
"""In the place of an array that is not computed yet: calls that wait, which of their results it will be, an array that
lies in memory as that will, and whether gradients go through it."""
awaited: Callable[[Any], Awaited] = _RAW["_array"].__get__
"""What a tensor waits for; the array itself once that is there, which another thread may have computed just now."""
_put: Callable[[Any, Awaited], None] = _RAW["_array"].__set__


def _settle(tensor: Any) -> None:
    what: Any = awaited(tensor)
    if type(what) is tuple:
        what[0].run()


def _asking(name: str) -> Any:
    raw = _RAW[name]

    def get(self: Any) -> Any:
        _settle(self)
        return raw.__get__(self)

    def put(self: Any, value: Any) -> None:
        _settle(self)
        raw.__set__(self, value)

    return property(get, put)


class Waiting(Tensor):
    """A tensor that waits; it is one of class `Tensor` as soon as its elements are there."""

    __slots__ = ()

    _array, _grad, _keeps_grad, _memory, _source, _view = map(_asking, _RAW)

    @property
    def _laid(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        what: Any = awaited(self)
        return what[2] if type(what) is tuple else what

    @property
    def shape(self) -> tuple[int, ...]:
        return self._laid.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._laid.dtype

    @property
    def ndim(self) -> int:
        return self._laid.ndim

    @property
    def requires_grad(self) -> bool:
        return requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def _seen(self, array: Array, make: Callable[..., Step], *given: Any) -> Any:
        what: Any = awaited(self)
        if type(what) is tuple:
            return what[0].look(self, array, (make, given))
        tensor: Any = self
        tensor.__class__ = Tensor  # which the thread that has computed it is about to say, too
        return looked_at(tensor, ((make, given),))

    def reshape(self, *shape: Any) -> Any:
        if not self._laid.flags.c_contiguous:
            _settle(self)
        return super().reshape(*shape)

    view = reshape


def _in_place(name: str) -> Any:
    at_once = getattr(Tensor, f"__i{name}__")

    def change(self: Any, other: Any) -> Any:
        result = getattr(self, f"__{name}__")(other)
        piece = WAITING.piece
        if type(result) is Waiting and piece is not None and piece.replace(self, result):
            return self
        return at_once(self, other)

    return change


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
    setattr(Waiting, f"__i{_name}__", _in_place(_name))


def waiting(what: Awaited) -> Waiting:
    """A tensor that waits."""
    made = object.__new__(Waiting)
    _put(made, what)
    return made


def take_place(tensor: Any, other: Any) -> None:
    """Have a tensor wait for what another one waits for."""
    _put(tensor, awaited(other))


def requires_grad(tensor: Any) -> bool:
    """Whether gradients go through a tensor that waits."""
    what: Any = awaited(tensor)
    return what[3] if type(what) is tuple else _RAW["_source"].__get__(tensor) is not None


def fill(tensor: Any, made: Any) -> Any:
    """Give a tensor that waited the place of another one, which is not needed any more; the first one."""
    for name in reversed(_RAW):  # the array last: what has it is whole for all threads
        _RAW[name].__set__(tensor, _RAW[name].__get__(made))
    tensor.__class__ = Tensor
    memory = tensor._memory
    if memory is not None and memory.tensors is not None:
        memory.tensors.append(ref(tensor))
    return tensor


__all__ = ["Waiting", "awaited", "fill", "requires_grad", "take_place", "waiting"]
