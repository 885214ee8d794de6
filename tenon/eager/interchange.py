"""What other libraries and Python do with tensors: numbers, arrays of NumPy, DLPack, and how they are printed."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import UFUNC_OPS, TracedValueError, Value
from tenon.dialects.support.device import Device, device_named
from tenon.dialects.support.plain_arrays import is_on_gpu, on_host
from tenon.eager.modes import TRACING, run_waiting
from tenon.eager.operators import Operators
from tenon.eager.recording import Stored, is_learned, read_around, record, wants_gradient
from tenon.eager.tape import Array, Call, not_replayed
from tenon.runtime.arguments.tree import flatten, unflatten
from tenon.runtime.cuda.arrays import brought, place_of
from tenon.runtime.evaluate import find_function
from tenon.runtime.tracing.trace import is_tracing_for_later, note_holder
from tenon.runtime.tracing.watch import note_once

_USUAL = ("float32", "int64", "bool")
"""Dtypes that are not printed."""


class Interchange(Operators):
    """A tensor as an array of others."""

    __slots__ = ()

    __array_priority__ = 1000

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes between neighbours along each axis."""
        return self._array.strides

    @property
    def nbytes(self) -> int:
        return self._array.size * self.dtype.itemsize

    @property
    def device(self) -> Device:
        """Where the memory is: `"cpu"`, or `"cuda:0"` and so on."""
        return device_named(TRACING.session.device if self._is_traced else place_of(self._array))

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is that of a GPU."""
        return self.device != "cpu"

    def _on(self, device: str) -> Any:
        """The tensor on a device: itself where it is there, otherwise a copy, through which gradients go."""
        here = self.device
        if TRACING.session is not None:
            TRACING.session.check_device(device)
            return self
        array = brought(self._array, device)
        if array is self._array:
            return self
        run_waiting()
        made = self._new(array)
        if wants_gradient((self,)):

            def back(_: Any, gradients: Sequence[Any]) -> list[Any]:
                return [None if gradient is None else gradient._on(here) for gradient in gradients]

            call = Call("to", ("to", device), not_replayed, pull_back=back)
            record(call, [(self._source, (self.dtype, self.shape))], (made,))
        return made

    def numpy(self) -> Array:
        """The elements as a NumPy array that shares the memory; raises `RuntimeError` for what requires a gradient,
        and `TypeError` for what is on a GPU.

        What was computed of parameters that nothing learns so far counts as requiring none.
        """
        if self._source is not None and is_learned(self._source):
            raise RuntimeError("a tensor that requires a gradient would lose it as an array; write x.detach().numpy()")
        if is_on_gpu(self._array):
            raise TypeError(f"a tensor on {self.device} has no NumPy array of its memory; write x.cpu().numpy()")
        return self._exported()

    def __tenon_value__(self) -> Value:
        """The tensor in a function of values that reads it from around."""
        self._check_is_read_again()
        array = self._shared_array()
        if wants_gradient((self,)) and is_learned(self._source):
            return read_around(self)
        value = to_value(array)
        note_holder(array, self)
        return value

    def _exported(self) -> Array:
        """The array, for who may keep it."""
        self._note_read()
        return self._shared_array()

    def _shared_array(self) -> Array:
        run_waiting()
        self._own_memory().is_exported = True
        return self._array

    def _check_is_read_again(self) -> None:
        """Raise `TracedValueError` in the function of a `jit`, in whose program the elements would be constant."""
        if is_tracing_for_later():
            raise TracedValueError(
                f"a tensor of shape {self.shape} is read from around a function of jit, in whose program it would be "
                "constant; give it as an argument, or make a program of the whole with tenon.trace"
            )

    def _note_read(self) -> None:
        """`_check_is_read_again`, where Python gets elements: what it does with them holds for one call alone."""
        self._check_is_read_again()
        note_once()

    def item(self) -> bool | int | float:
        """The number in a tensor of one element."""
        self._note_read()
        if self.size != 1:
            raise ValueError(f"only a tensor of one element is a number, and this one has shape {self.shape}")
        return on_host(self._array).item()

    def tolist(self) -> Any:
        """The elements as nested lists of numbers."""
        self._note_read()
        return on_host(self._array).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **settings: Any) -> Any:
        return (self._exported() if self.is_cuda else self.numpy()).__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of shape {self.shape} is not known; use all() or any()")
        self._note_read()
        return bool(on_host(self._array))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError(f"a tensor of {self.dtype}{list(self.shape)} is no index; one integer is needed")
        self._note_read()
        return int(on_host(self._array))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))  # pyright: ignore[reportIndexIssue]

    def __contains__(self, element: Any) -> bool:
        self._note_read()
        return element in on_host(self._array)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's element-by-element functions are those of Tenon; with `out`, an array of NumPy's gets the result."""
        own = find_function(UFUNC_OPS.get(str(ufunc.__name__), str(ufunc.__name__)))
        if method != "__call__" or own is None or options.keys() - {"out"}:
            asked = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise TypeError(f"numpy.{asked} is not for tensors with these options; use tenon, or x.numpy()")
        result = own(*inputs)
        if "out" not in options:
            return result
        (target,) = options["out"]
        run_waiting()
        np.copyto(target, _array_of(result), casting="same_kind")
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions are those of Tenon, where it has one of the name; others get arrays."""
        if function in (np.shape, np.ndim, np.size):
            return function.__wrapped__(*args, **kwargs)
        own = find_function(function.__name__) if function.__module__ == "numpy" else None
        if own is not None:
            return own(*args, **{name: value for name, value in kwargs.items() if value is not None})
        leaves, structure = flatten((args, kwargs))
        given, named = unflatten(structure, [_array_of(leaf) if isinstance(leaf, Stored) else leaf for leaf in leaves])
        return function(*given, **named)

    def __repr__(self) -> str:
        note_once()
        prefix = "tensor("
        text = np.array2string(on_host(self._array), separator=", ", prefix=prefix, threshold=1000)
        facts = [] if self.dtype.name in _USUAL and self.size else [f"dtype={self.dtype}"]
        if self.is_cuda:
            facts.insert(0, f"device='{self.device}'")
        if self.size == 0 and self.ndim > 1:
            facts.insert(0, f"shape={self.shape}")
        if self._source is not None:
            node = self._source.node
            facts.append("requires_grad=True" if node is None else f"grad_fn=<{node.name.rpartition('.')[2]}>")
        return f"{prefix}{', '.join([text, *facts])})"

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the elements, those in the middle left out where there are many."""
        source = self._source
        facts = f"{self.dtype}{list(self.shape)} on {self.device}{'' if source is None else ', requires a gradient'}"
        array = on_host(self._array)
        if array.ndim not in (1, 2) or not array.size:
            return f"<div>{facts}<pre>{escape(repr(self))}</pre></div>"
        rows = [
            "<tr>" + "".join([f"<td>{escape(cell)}</td>" for cell in _edges(row, _cell)]) + "</tr>"
            for row in _edges(np.atleast_2d(array), lambda row: row)
        ]
        return f"<div>{facts}<table>{''.join(rows)}</table></div>"

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification) if specification else repr(self)


_EDGE = 5
"""How many elements are shown at each end of a row, and rows at each end of a table."""


def _cell(element: Any) -> str:
    return f"{element:.6g}" if np.issubdtype(np.asarray(element).dtype, np.floating) else str(element)


def _edges(items: Any, shown: Callable[[Any], Any]) -> list[Any]:
    """Items, as they are shown, with an ellipsis in the place of those in the middle of many."""
    if len(items) <= 2 * _EDGE + 1:
        return [shown(item) for item in items]
    ends = [shown(item) for item in (*items[:_EDGE], *items[-_EDGE:])]
    between = ["…"] if not isinstance(ends[0], np.ndarray) else [np.full(items.shape[1], "…", object)]
    return [*ends[:_EDGE], *between, *ends[_EDGE:]]


def _array_of(tensor: Any) -> Array:
    return tensor.numpy()
