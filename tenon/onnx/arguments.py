"""What a model is given: tensors by name, of which sequences and optionals are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.types.types import numpy_dtype
from tenon.onnx.graph import TensorInfo
from tenon.onnx.node import NOTHING, Content, OnnxError
from tenon.runtime.arguments.arguments import ShapeDtype, as_array

Array = np.ndarray[Any, Any]
Specification = Any
"""What `trace` takes for an input: an array, a `ShapeDtype`, or a shape with -1 or `None` for unknown sizes; for a
sequence a list of these, and `None` for an optional without a value."""


class Abstract(NamedTuple):
    """An argument of which only dtype and shape are known; -1 is an unknown size."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Arguments:
    """Tensors by name; `trees` has the names of those of each sequence, and `None` for an optional without a value."""

    tensors: Mapping[str, Any]
    trees: tuple[tuple[str, tuple[str, ...] | None], ...]

    def with_tensors(self, function: Callable[[str, Any], Any]) -> Arguments:
        """The same, with `function(name, tensor)` for each of the tensors."""
        return Arguments({name: function(name, tensor) for name, tensor in self.tensors.items()}, self.trees)

    @property
    def contents(self) -> dict[str, Content]:
        """What the names of a graph stand for."""
        found: dict[str, Content] = dict(self.tensors)
        for name, names in self.trees:
            found[name] = NOTHING if names is None else [self.tensors[each] for each in names]
        return found


def gathered(given: Mapping[str, Any], inputs: Sequence[TensorInfo], where: str) -> Arguments:
    """The arguments for what is `given` by name: a list for a sequence, and `None` for an optional without a value."""
    structured = {info.name for info in inputs if info.is_sequence or info.is_optional}
    tensors: dict[str, Any] = {}
    trees: list[tuple[str, tuple[str, ...] | None]] = []
    for name, value in given.items():
        if name not in structured or not (value is None or isinstance(value, list)):
            tensors[name] = value
            continue
        elements: list[Any] = value or []
        names = tuple([f"{name}[{position}]" for position in range(len(elements))])
        if taken := given.keys() & set(names):
            raise OnnxError(f"{where}: {min(taken)!r} is an input or a weight, and a tensor of input {name!r}")
        tensors.update(zip(names, elements, strict=True))
        trees.append((name, None if value is None else names))
    return Arguments(tensors, tuple(trees))


def bound(info: TensorInfo, value: Any, where: str) -> Any:
    """`value` for the input that `info` declares, in which numbers, and lists that stand for a tensor, are arrays."""
    if value is None and info.is_optional:
        return None
    if info.is_sequence:
        return [_tensor(info, each, where) for each in _elements(info, value, where)]
    return _tensor(info, value, where)


def specified(info: TensorInfo, given: Mapping[str, Specification], where: str) -> Any:
    """What `trace` is given for an input, with arrays or `Abstract` as tensors; what is left out is as declared."""
    value = given.get(info.name)
    if value is None and info.is_optional and info.name in given:
        return None
    if not info.is_sequence:
        return _abstract(info, value, where)
    if value is None:
        raise OnnxError(f"{where}: input {info} has no declared length, so give a list of its tensors")
    return [_abstract(info, each, where) for each in _elements(info, value, where)]


def _elements(info: TensorInfo, value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{where}: input {info} is given as {type(value).__name__} where a list is needed")
    return value


def _tensor(info: TensorInfo, value: Any, where: str) -> Any:
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return _number(value, info, where)
    return _listed(value, info, where) if isinstance(value, list | tuple) else value


def _number(value: float, info: TensorInfo, where: str) -> Array:
    """A number of Python's as the input that `info` declares."""
    try:
        with np.errstate(invalid="ignore"):
            array = np.asarray(value).astype(info.dtype)
    except OverflowError:
        array = None
    if array is None or (array.dtype.kind in "iub" and array != value):
        raise TypeError(f"{where}: input {info} is given as {value}")
    return array


def _listed(values: Sequence[Any], info: TensorInfo, where: str) -> Array:
    """Nested lists of numbers as the input that `info` declares."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError(f"{where}: input {info} is given as lists of different lengths") from None
    array = given if info.dtype is None or given.dtype.kind not in "iufb" else given.astype(info.dtype)
    if array.dtype.kind in "iub" and (array != given).any():
        raise TypeError(f"{where}: input {info} is given as {given.dtype}{list(given.shape)}")
    return array


def _abstract(info: TensorInfo, given: Specification, where: str) -> Array | Abstract:
    """What `trace` is given for an input: an array, or a shape and dtype; the declared ones without anything."""
    if isinstance(given, ShapeDtype):
        return Abstract(numpy_dtype(given.dtype), given.shape)
    if given is not None and not isinstance(given, list | tuple):
        return as_array(given, f"{where}: input {info.name}")
    if info.dtype is None or (given is None and info.shape is None):
        raise OnnxError(f"{where}: input {info} has no declared {'shape' if info.dtype else 'dtype'}, so give one")
    shape: Any = info.shape if given is None else given
    return Abstract(info.dtype, tuple([size if isinstance(size, int) else -1 for size in shape]))


def check(inputs: Sequence[TensorInfo], arguments: Arguments, where: str) -> None:
    """Raise unless dtypes and shapes are those declared, names of sizes standing for one size everywhere.

    In each tensor of a sequence they stand for sizes of its own.
    """
    sizes: dict[str, int] = {}
    trees = dict(arguments.trees)
    for info in inputs:
        if info.name not in trees:
            _check_tensor(info, arguments.tensors[info.name], sizes, where)
        for name in trees.get(info.name) or ():
            _check_tensor(info, arguments.tensors[name], {}, where)


def _check_tensor(info: TensorInfo, array: Any, sizes: dict[str, int], where: str) -> None:
    if info.dtype is not None and array.dtype != info.dtype:
        raise TypeError(f"{where}: input {info} is given as {array.dtype}{list(array.shape)}")
    fits = info.shape is None or (
        len(info.shape) == len(array.shape)
        and all(
            size is None or n < 0 or (sizes.setdefault(size, n) if isinstance(size, str) else size) == n
            for size, n in zip(info.shape, array.shape, strict=True)
        )
    )
    if not fits:
        bound = f" (with {', '.join(f'{k} = {v}' for k, v in sizes.items())})" if sizes else ""
        raise ValueError(f"{where}: input {info}{bound} is given as {array.dtype}{list(array.shape)}")
