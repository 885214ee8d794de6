"""Parts and views of tensors: indexing, and other shapes of the same memory."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tenon.dialects.definition.both_faces import sizes_of
from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import Value, insertion_point, ops
from tenon.dialects.ops.move.functional_update import PartUpdates, Updates
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.plain_arrays import copied, is_on_gpu, on_host, put
from tenon.dialects.types.shapes import exchanged, flattened
from tenon.eager.changes import can_write_at_once, share, write
from tenon.eager.interchange import Interchange
from tenon.eager.modes import MODE, run_waiting
from tenon.eager.recording import Stored, call_of, note, wants_gradient
from tenon.eager.tape import Array, Call
from tenon.eager.views import (
    Step,
    View,
    axes_step,
    basic_key,
    call_of_link,
    index_step,
    read_key,
    shape_step,
    spread_step,
)
from tenon.runtime.arguments.arguments import traced_face_of
from tenon.runtime.call.loaded import tape_functions
from tenon.runtime.cuda.arrays import as_data
from tenon.runtime.evaluate import find_function
from tenon.runtime.jit import JitFunction, jit
from tenon.runtime.tracing.watch import note_once

_NATIVE: list[Callable[..., Any]] = []
"""What makes views natively, once that is known to work."""


def _native() -> list[Callable[..., Any]]:
    native = tape_functions()
    if native is not None:
        _NATIVE.append(native.look)
    return _NATIVE


@lru_cache
def _reverse(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))[::-1]


class Parts(Interchange):
    """A tensor as something to take parts of."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        basic = (key, ...) if type(key) is int else basic_key(key)
        if basic is not None:
            return self._seen(self._laid[basic], index_step, basic)
        if insertion_point() is not None and _has_value(key):
            return to_value(self)[key]
        if _is_truth_value(key):
            return self.reshape(1, *self.shape)[_rows(key)]
        found = read_key(key)
        if not found.arrays:
            return self[found.written(())]
        call = call_of("index", ("index", found.entries), lambda v: (v[0][found.written(v[1:])],))
        if is_on_gpu(self._array):
            array = run_on_gpu(call, (self._array, *found.arrays))
        else:
            array = self._array[found.written(found.arrays)]
        return self._computed((self, *found.arrays), array, call)

    def __setitem__(self, key: Any, values: Any) -> None:
        note_once()
        if can_write_at_once(self, values):
            basic = (key, ...) if type(key) is int else basic_key(key)
            if basic is not None:
                run_waiting()
                put(self._array, values if type(values) is float else self._beside(values._array), basic)
                if self._memory is not None:
                    self._memory.change()
                return
        if type(values) is int and self._array.dtype.kind in "iu":
            most = np.iinfo(self._array.dtype).max
            if not -most - 1 <= values <= most:
                raise OverflowError(f"x[key] = {values}: {self._array.dtype} has no such number")
        array = values._array if isinstance(values, Stored) else _array_of(values, "what is assigned")
        array = self._beside(array)
        basic = basic_key(key)
        if basic is None and _is_truth_value(key):
            self.reshape(1, *self.shape)[_rows(key)] = values
            return
        read = read_key(key) if basic is None else None
        arrays = () if read is None else read.arrays
        written = basic if read is None else read.written(arrays)

        def store() -> None:
            if arrays and is_on_gpu(self._array):
                put(self._array, run_on_gpu(call(), (self._array, array, *arrays)))
            else:
                put(self._array, array, written)

        def call() -> Call:
            found = read_key(key) if read is None else read

            def update(traced: Sequence[Any]) -> tuple[Any, ...]:
                x, given, *arrays = traced
                return (x.at[found.written(arrays)].set(given.astype(x.dtype)),)

            return call_of("set", ("set", found.entries), update)

        operands = (self, values if isinstance(values, Stored) else array, *arrays)
        write(self, store, call, operands, "x[key] = values")

    @property
    def at(self) -> Updates:
        """`x.at[key].set(values)` and relatives: a new tensor, with the part `x[key]` replaced, or combined with
        `values`, as traced values have it."""
        return Updates(self, _Part)

    def _seen(self, array: Array, make: Callable[..., Step], *given: Any) -> Any:
        """What a step, that `make` makes of what is given, shows of this tensor: `array`."""
        link = (make, given)
        native = _NATIVE or _native()
        made = native[0](self, array, (link,)) if native else None
        if made is None:
            made, view = self._new(array), self._view
            base = self if view is None else view.base
            made._view = View(base, (link,) if view is None else (*view.links, link))
            share(made, base)
        if self._source is not None and MODE.records:
            note(call_of_link(self, link), (self,), made)
        return made

    def reshape(self, *shape: Any) -> Any:
        """The elements in another shape, of which one size may be -1; a view where the memory allows it."""
        laid = self._laid
        array = laid.reshape(sizes_of(shape))
        if laid.flags.c_contiguous or np.may_share_memory(array, laid):
            return self._seen(array, shape_step, "reshape", array.shape, laid.shape)
        step = shape_step, ("reshape", array.shape, laid.shape)
        return self._computed((self,), array, View(self, (step,)).call())

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """The axes from `start_dim` to `end_dim`, both included, made one; a view where the memory allows it."""
        return self.reshape(flattened(self.shape, start_dim, end_dim))

    def ravel(self) -> Any:
        """All axes made one; a view where the memory allows it."""
        return self.reshape(-1)

    def transpose(self, *permutation: Any, dim0: int | None = None, dim1: int | None = None) -> Any:
        """The axes in the order of a tuple, or in reverse order, or two of them exchanged; a view."""
        permutation = (*permutation, *[axis for axis in (dim0, dim1) if axis is not None])
        if len(permutation) == 2:
            return self.swapaxes(*permutation)
        order = permutation[0] if len(permutation) == 1 and not hasattr(permutation[0], "__index__") else permutation
        order = _reverse(self.ndim) if order is None or not len(order) else order
        array = self._laid.transpose(order)
        return self._seen(array, axes_step, tuple([axis % self.ndim for axis in order]))

    def permute(self, *axes: Any, dims: Any = None) -> Any:
        """The axes in the order `axes`, integers or one tuple of them; a view."""
        axes = axes if dims is None else (tuple(dims),)
        return self.transpose(axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes)

    @property
    def T(self) -> Any:
        """The axes in reverse order; a view."""
        array = self._laid
        return self._seen(array.T, axes_step, _reverse(array.ndim))

    def swapaxes(self, first: int, second: int) -> Any:
        """Two axes exchanged; a view."""
        laid = self._laid
        order = exchanged(laid.ndim, first, second)
        return self._seen(laid.transpose(order), axes_step, order)

    def squeeze(self, axis: Any = None, *, dim: Any = None) -> Any:
        """Without axes of size 1: all of them, or those named; a view."""
        array = self._laid.squeeze(axis if dim is None else dim)
        return self._seen(array, shape_step, "squeeze", array.shape, self.shape)

    def expand_dims(self, axis: Any = None, *, dim: Any = None) -> Any:
        """With an axis of size 1 before `axis`; a view."""
        axis = dim if axis is None else axis
        if axis is None:
            raise TypeError("expand_dims: axis is missing")
        array = np.expand_dims(self._laid, axis)  # CuPy's own for its arrays, as is what follows
        return self._seen(array, shape_step, "expand_dims", array.shape, self.shape)

    unsqueeze = expand_dims

    def broadcast_to(self, *shape: Any) -> Any:
        """Repeated to a shape that it broadcasts to, of which -1 keeps a size; a view that cannot be changed."""
        sizes = sizes_of(shape)
        array = np.broadcast_to(self._laid, kept_sizes(sizes, self._laid.shape) if -1 in sizes else sizes)
        return self._seen(array, spread_step, array.shape)

    def clone(self) -> Any:
        """A copy, through which gradients go."""
        return self._computed((self,), copied(self._array), call_of("clone", "clone", lambda v: (ops.identity(v[0]),)))

    def contiguous(self) -> Any:
        """The tensor itself where it is in row-major order, otherwise a copy that is."""
        if self._laid.flags.c_contiguous:
            return self
        if self._is_traced:
            return self.clone()
        return self._computed((self,), copied(self._array), call_of("clone", "clone", lambda v: (ops.identity(v[0]),)))

    def fill_(self, value: Any) -> Any:
        """Set all elements to a number."""
        self[...] = value
        return self

    def zero_(self) -> Any:
        """Set all elements to 0."""
        return self.fill_(0)

    def copy_(self, src: Any) -> Any:
        """Set the elements to those of another tensor, which is broadcast and converted."""
        self[...] = src
        return self

    def masked_fill(self, mask: Any, value: Any) -> Any:
        """A tensor of the same dtype with `value` where `mask`, which is broadcast, is true."""
        return find_function("select")(mask, value, self).astype(self.dtype)

    def nonzero(self, *, as_tuple: bool = True) -> Any:
        """For each axis, the places of the elements that are not zero; without `as_tuple`, as a row for each."""
        places = np.atleast_1d(on_host(self._array)).nonzero()
        return tuple(map(self._placed, places)) if as_tuple else self._placed(np.stack(places, axis=-1))

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """The distinct elements, or parts along `dim`, in order; with more, as `tenon.unique` gives it."""
        found = unique_parts(on_host(self._array), return_inverse, return_counts, dim)
        return tuple(map(self._placed, found)) if isinstance(found, tuple) else self._placed(found)

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The elements, or parts along `dim`, of which each differs from the one before; with more, as
        `tenon.unique_consecutive` gives it."""
        found = runs_of(on_host(self._array), return_inverse, return_counts, dim)
        return tuple(map(self._placed, found)) if isinstance(found, tuple) else self._placed(found)

    def _placed(self, array: Array) -> Any:
        """A tensor of what was found on the host, where this one is."""
        return self._new(self._beside(array))

    def _computed(self, operands: Sequence[Any], array: Array, call: Call) -> Any:
        made = self._new(array)
        if wants_gradient(operands):
            note(call, operands, made)
        return made


_ON_GPU: BoundedCache[JitFunction] = BoundedCache(256)


def run_on_gpu(call: Call, arrays: Sequence[Any]) -> Any:
    """The first result of a call of arrays of which the first is on a GPU, by a program."""
    program = _ON_GPU.get(call.key)
    if program is None:
        program = _ON_GPU[call.key] = jit(lambda *values: call.apply(values)[0])
    return program(*arrays)


def unique_parts(array: np.ndarray[Any, Any], return_inverse: bool, return_counts: bool, axis: int | None) -> Any:
    """What `unique` gives of an array: its distinct elements, or parts along an axis, and what is wanted besides."""
    if axis is not None and not -array.ndim <= axis < array.ndim:
        raise ValueError(f"unique: dim is {axis!r}, which is no axis of shape {array.shape}")
    if array.dtype.kind in "iu" and axis is None and not return_inverse and not return_counts:
        # NumPy has them in a table first, which for many different ones takes 15 times as long as to sort all.
        ordered = np.sort(array, axis=None)
        return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if ordered.size else ordered
    found = np.unique(array, return_inverse=return_inverse, return_counts=return_counts, axis=axis)
    if not return_inverse:
        return found
    inverse = found[1].reshape(array.shape if axis is None else -1)
    return (found[0], inverse, *found[2:])


def runs_of(array: np.ndarray[Any, Any], return_inverse: bool, return_counts: bool, axis: int | None) -> Any:
    """What `unique_consecutive` gives of an array."""
    if axis is not None and not -array.ndim <= axis < array.ndim:
        raise ValueError(f"unique_consecutive: dim is {axis!r}, which is no axis of shape {array.shape}")
    parts = array.reshape(-1) if axis is None else np.moveaxis(array, axis, 0)
    begins = np.ones(len(parts), np.bool_)
    begins[1:] = (parts[1:] != parts[:-1]).any(axis=tuple(range(1, parts.ndim)))
    found: list[Any] = [parts[begins] if axis is None else np.moveaxis(parts[begins], 0, axis)]
    if return_inverse:
        inverse = np.cumsum(begins) - 1
        found.append(inverse.reshape(array.shape) if axis is None else inverse)
    if return_counts:
        found.append(np.diff(np.append(np.flatnonzero(begins), len(parts))))
    return found[0] if len(found) == 1 else tuple(found)


def kept_sizes(sizes: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    """`sizes` to broadcast to, with those of a shape where they are -1."""
    new = len(sizes) - len(own)
    if new < 0 or -1 in sizes[:new]:
        raise ValueError(f"broadcast_to: the shape is {sizes}, and -1 has to stand for a size of {own}")
    return tuple([own[axis - new] if size == -1 else size for axis, size in enumerate(sizes)])


_UFUNCS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class _Part(PartUpdates):
    """The part `key` of a tensor; values may be traced where it is not."""

    def get(self) -> Any:
        return self.x[self.key]

    def _updated(self, values: Any, reduction: str) -> Any:
        x: Any = self.x
        face = traced_face_of((x, self.key, values), {})
        if face is not None or _has_value((values, *self.key) if isinstance(self.key, tuple) else (values, self.key)):
            return (face or _call)(_updated_value, (x, self.key, values, reduction), {})
        if reduction == "none":
            made = x.clone()
            made[self.key] = values
            return made
        if _is_truth_value(self.key):
            return _Part(x.reshape(1, *x.shape), _rows(self.key))._updated(values, reduction).reshape(x.shape)
        found = read_key(self.key)
        given = values if isinstance(values, Stored) else _array_of(values, "x.at[key]: what is given")
        held = given._array if isinstance(given, Stored) else given
        call = call_of(
            "at",
            ("at", reduction, found.entries),
            lambda v: (PartUpdates(v[0], found.written(v[2:]))._updated(v[1], reduction),),
        )
        if is_on_gpu(x._array):
            array = run_on_gpu(call, (x._array, x._beside(held), *found.arrays))
            return x._computed((x, given, *found.arrays), array, call)
        array, places = x._array.copy(), found.written(found.arrays)
        shape = array[places].shape
        try:
            put = np.broadcast_to(held, shape).astype(array.dtype)
        except ValueError:
            problem = f"values have shape {held.shape}, which does not broadcast to {shape}, that of x[key]"
            raise ValueError(f"x.at[key]: {problem}") from None
        _UFUNCS[reduction].at(array, places, put)
        return x._computed((x, given, *found.arrays), array, call)


def _updated_value(x: Any, key: Any, values: Any, reduction: str) -> Any:
    return PartUpdates(to_value(x), key)._updated(values, reduction)


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _array_of(values: Any, name: str) -> Array:
    """What elements are to become; a float of Python's loses nothing before it has their dtype."""
    return np.asarray(values) if type(values) is float else as_data(values, name)


def _is_truth_value(key: Any) -> bool:
    array = key._array if isinstance(key, Stored) else key
    return isinstance(array, bool | np.bool_) or (
        (isinstance(array, np.ndarray) or is_on_gpu(array)) and not array.ndim and array.dtype == bool
    )


def _rows(key: Any) -> Array:
    """Which rows of one a single truth value takes."""
    return np.zeros(int(bool(key)), np.int64)


def _has_value(key: Any) -> bool:
    return any(isinstance(entry, Value) for entry in (key if isinstance(key, tuple) else (key,)))
