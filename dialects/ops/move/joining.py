"""Ops that join tensors and cut them apart: concatenate, stack, split, unstack."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, var_operand_def, var_result_def

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import LARGE
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import also_function, tensor_function
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, IndexingOp
from tenon.dialects.families.along_axis import reordered_axes
from tenon.dialects.families.batching import all_batched, shifted_axes
from tenon.dialects.families.index_map_gather_scatter import SHORTEST_RUN, are_columns
from tenon.dialects.families.linalg_builders import Reader, static_shape
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis, refine
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import STORED_TENSOR, element_of, shape_of, tensor_type

MOST_PARTS = 16
"""Tensors that each have loops of their own."""


def _shape(operand: Any) -> tuple[int, ...]:
    """Also of an array of a GPU, which NumPy does not ask."""
    return tuple(operand.shape) if hasattr(operand, "shape") else np.shape(operand)


def _parts(tensors: Sequence[Any], axis: int) -> list[Sequence[Any]]:
    """`tensors` in runs of few, so that their number alone takes no code of its own, where so many small ones are
    alike, the last one but for its size along `axis`; else none."""
    if len(tensors) <= MOST_PARTS or not hasattr(first := tensors[0], "itemsize"):
        return []
    if first.size * first.itemsize * len(tensors) >= LARGE:  # which would be copied twice
        return []
    alike = {(type(x), getattr(x, "dtype", None)) for x in tensors}
    shapes = {_shape(x) for x in tensors[:-1]} if len(alike) == 1 else set[Any]()
    last = list(tensors[-1].shape) if len(shapes) == 1 else []
    if last and -len(last) <= axis < len(last) == first.ndim:
        last[axis] = first.shape[axis]
    if tuple(last) not in shapes:
        return []
    return [tensors[start : start + MOST_PARTS] for start in range(0, len(tensors), MOST_PARTS)]


@tensor_op
class ConcatenateOp(IndexingOp):
    """The `tensors` one behind the other along `axis`. They have one rank and agree in all other sizes.

    >>> tenon.concatenate((np.array([[1, 2]]), np.array([[3, 4], [5, 6]])))
    >>> tenon.concatenate((np.array([[1, 2]]), np.array([[3]])), axis=1)
    """

    name = "tenon.concatenate"
    tensors = var_operand_def(STORED_TENSOR)
    axis = setting(int, default=0)
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("concat", "cat")

    @staticmethod
    def in_parts(*operands: Any, **settings: Any) -> Any:
        (tensors,), axis = operands, settings.get("axis", 0)
        joined = [ops.concatenate(part, axis=axis) for part in _parts(tensors, axis)]
        return ops.concatenate(joined, axis=axis) if joined else None

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (tensors,) = operands
        if not tensors:
            raise InferenceError("tensors is empty where one tensor or more is needed")
        element = element_of(tensors[0])
        shapes = [shape_of(t) for t in tensors]
        known = [(position, shape) for position, shape in enumerate(shapes) if shape is not None]
        if not known:
            return tensor_type(None, element)
        rank = len(known[0][1])
        axis = normalize_axis(settings["axis"], rank)
        common: Shape = (-1,) * rank
        for position, shape in known:
            try:
                common = refine(common, tuple([-1 if i == axis else size for i, size in enumerate(shape)]))
            except InferenceError as error:
                message = f"tensors[{position}] does not fit those before it: {error}"
                raise InferenceError(message, error.sizes) from None
        assert common is not None
        sizes = [-1 if shape is None else shape[axis] for shape in shapes]
        total = -1 if -1 in sizes else sum(sizes)
        return tensor_type(tuple([total if i == axis else size for i, size in enumerate(common)]), element)

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any]:
        return {"axis": reordered_axes(self.settings["axis"], order)}

    def moves_ranges(self) -> bool:
        shape = static_shape(self.results[0])
        axis = normalize_axis(self.settings["axis"], len(shape))
        is_known = not any(isinstance(size, Size) for size in shape)
        if not is_known or len(self.operands) > MOST_PARTS:
            return False
        runs = [static_shape(x)[axis] * prod(shape[axis + 1 :]) for x in self.operands]
        return self.moves_columns() or 2 * sum(run for run in runs if run < SHORTEST_RUN) <= sum(runs)

    def moves_columns(self) -> bool:
        shape = static_shape(self.results[0])
        axis = normalize_axis(self.settings["axis"], len(shape))
        is_known = not any(isinstance(size, Size) for size in shape)
        return is_known and are_columns(prod(shape[:axis]), prod(shape[axis:]))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Any, **settings: Any) -> Any:
        (tensors,) = operands
        axis = normalize_axis(settings["axis"], len(index))
        parts: list[tuple[int, Reader]] = []
        offset = 0
        for reader in tensors:
            if reader.shape[axis] != 0:
                parts.append((offset, reader))
            offset += reader.shape[axis]
        along = index[axis]
        result: Value | None = None
        for start, reader in reversed(parts or [(0, tensors[0])]):
            place = along - start if start != 0 else along
            read = reader.read(*index[:axis], place, *index[axis + 1 :])
            result = read if result is None else ops.select(along < start + reader.shape[axis], read, result)
        return result

    @staticmethod
    def vjp(g: Value, out: Value, tensors: tuple[Value, ...], *, axis: int) -> tuple[Any, ...]:
        axis = normalize_axis(axis, g.ndim)
        gradients: list[Value] = []
        start = 0
        for x in tensors:
            limit = start + x.shape[axis]
            starts = tuple([start if i == axis else 0 for i in range(g.ndim)])
            limits = tuple([limit if i == axis else size for i, size in enumerate(g.shape)])
            gradients.append(ops.slice(g, starts=starts, limits=limits))
            start = limit
        return (tuple(gradients),)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        tensors = all_batched(size, batched[0], operands[0])
        return ops.concatenate(tensors, axis=shifted_axes(settings["axis"], tensors[0].ndim - 1))


@tensor_op
class StackOp(CompositeOp):
    """The `tensors`, all of one shape, along a new axis at position `axis` of the result.

    >>> tenon.stack((np.array([1, 2]), np.array([3, 4])))
    >>> tenon.stack((np.array([1, 2]), np.array([3, 4])), axis=1)
    """

    name = "tenon.stack"
    tensors = var_operand_def(STORED_TENSOR)
    axis = setting(int, default=0)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def in_parts(*operands: Any, **settings: Any) -> Any:
        (tensors,), axis = operands, settings.get("axis", 0)
        if len({_shape(x) for x in tensors[-2:]}) > 1:
            return None
        joined = [ops.stack(part, axis=axis) for part in _parts(tensors, axis)]
        return ops.concatenate(joined, axis=axis) if joined else None

    @staticmethod
    def decompose(tensors: tuple[Value, ...], *, axis: int) -> Value:
        return ops.concatenate([ops.expand_dims(x, axis=axis) for x in tensors], axis=axis)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (tensors,) = operands
        if not tensors:
            raise InferenceError("tensors is empty where one tensor or more is needed")
        common = shape_of(tensors[0])
        for position, type_ in enumerate(tensors):
            try:
                common = refine(common, shape_of(type_))
            except InferenceError as error:
                message = f"tensors[{position}] does not fit those before it: {error}"
                raise InferenceError(message, error.sizes) from None
        element = element_of(tensors[0])
        if common is None:
            return tensor_type(None, element)
        axis = normalize_axis(settings["axis"], len(common) + 1)
        return tensor_type((*common[:axis], len(tensors), *common[axis:]), element)


@tensor_op
class SplitOp(CompositeOp):
    """`x` cut along `axis` into `sections` parts of equal size, or into parts of the given `sizes`.

    >>> tenon.split(np.array([1, 2, 3, 4, 5, 6]), 3)
    >>> tenon.split(np.array([1, 2, 3, 4, 5, 6]), sizes=(1, 5))
    """

    name = "tenon.split"
    x = operand_def(STORED_TENSOR)
    sections = setting(int, default=None)
    axis = setting(int, default=0)
    sizes = setting(tuple, default=None)
    parts = var_result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        sections, sizes = settings["sections"], settings["sizes"]
        if (sections is None) == (sizes is None):
            raise InferenceError("either sections or sizes is needed, and not both")
        if sections is not None and sections < 1:
            raise InferenceError(f"sections is {sections} where 1 or more is needed")
        if sizes is not None and (not sizes or min(sizes) < 0):
            raise InferenceError(f"sizes is {sizes} where one size or more of at least 0 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        sections, sizes, shape = settings["sections"], settings["sizes"], shape_of(x)
        if shape is None:
            return (tensor_type(None, element_of(x)),) * (len(sizes) if sections is None else sections)
        axis = normalize_axis(settings["axis"], len(shape))
        parts = part_sizes(shape[axis], axis, sections, sizes)
        return tuple([tensor_type((*shape[:axis], size, *shape[axis + 1 :]), element_of(x)) for size in parts])

    @staticmethod
    def decompose(x: Value, *, sections: int | None, axis: int, sizes: tuple[int, ...] | None) -> tuple[Value, ...]:
        axis = normalize_axis(axis, x.ndim)
        parts: list[Value] = []
        start = 0
        for size in part_sizes(x.shape[axis], axis, sections, sizes):
            starts = tuple([start if i == axis else 0 for i in range(x.ndim)])
            limits = tuple([start + size if i == axis else extent for i, extent in enumerate(x.shape)])
            parts.append(ops.slice(x, starts=starts, limits=limits))
            start += size
        return tuple(parts)


def part_sizes(size: int, axis: int, sections: int | None, sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The sizes of the parts of an axis of `size` elements, which may be unknown."""
    if sizes is not None:
        if size >= 0 and sum(sizes) != size:
            raise InferenceError(f"sizes {sizes} add up to {sum(sizes)}, and dimension {axis} of x is {size}")
        return sizes
    assert sections is not None
    if size >= 0 and size % sections:
        raise InferenceError(f"dimension {axis} of x is {size}, which is no multiple of sections {sections}")
    return (-1 if size < 0 else size // sections,) * sections


@tensor_function
@also_called(dim="axis", input="x")
def unstack(x: Any, axis: int = 0) -> Any:
    """The parts of `x` at each index of `axis`, without that axis; of a `Tensor`, views.

    >>> tenon.unstack(np.array([[1, 2], [3, 4]]), axis=1)
    """
    tensor = shaped(x)
    axis = normalize_axis(axis, tensor.ndim, "unstack: axis")
    count = tensor.shape[axis]
    if not isinstance(tensor, Value | np.ndarray):
        return tuple([tensor[(*[slice(None)] * axis, i)] for i in range(count)])
    return tuple(
        [ops.squeeze(part, axis=axis) for part in ops.split(tensor, sections=count, axis=axis)] if count else []
    )


also_function(unstack, "unbind")


def _equal_parts(function: str, x: Any, given: Any, axis: int) -> tuple[Any, ...]:
    """`tensor_split`, where a number of parts is one that they are equal for."""
    size = x.shape[axis]
    if isinstance(given, int | np.integer) and given > 0 and size % given:
        raise ValueError(f"{function}: {given} parts of {size} elements along axis {axis} are not equal")
    return ops.tensor_split(x, given, axis)


@tensor_function
@also_called(input="x")
def hsplit(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """`x` cut along its second axis, vectors along their only one: before each of the places of a sequence, or into a
    number of equal parts.

    >>> tenon.hsplit(np.arange(4), 2)
    """
    x = _of_rank("hsplit", x, 1)
    return _equal_parts("hsplit", x, indices_or_sections, min(x.ndim, 2) - 1)


@tensor_function
@also_called(input="x")
def vsplit(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """`x`, of rank 2 at least, cut along its first axis: before each of the places of a sequence, or into a number of
    equal parts.

    >>> tenon.vsplit(np.array([[1, 2], [3, 4]]), 2)
    """
    return _equal_parts("vsplit", _of_rank("vsplit", x, 2), indices_or_sections, 0)


@tensor_function
@also_called(input="x")
def dsplit(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """`x`, of rank 3 at least, cut along its third axis: before each of the places of a sequence, or into a number of
    equal parts.

    >>> [part.shape for part in tenon.dsplit(np.zeros((2, 2, 4)), (1,))]
    """
    return _equal_parts("dsplit", _of_rank("dsplit", x, 3), indices_or_sections, 2)


def _of_rank(function: str, x: Any, least: int) -> Any:
    x = shaped(x)
    if x.ndim < least:
        raise ValueError(f"{function}: x has rank {x.ndim} where {least} or more is needed")
    return x
