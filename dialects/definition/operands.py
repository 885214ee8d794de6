"""What an op is given, as values of the dtypes that it takes: tensors in a trace, scalars in a body."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute

from tenon.dialects.definition.operation import DeclaredOp
from tenon.dialects.definition.promotion import (
    adopted,
    allowed_element,
    common_element,
    exact,
    is_literal,
    own_element,
)
from tenon.dialects.definition.scalar import convert, scalar_constant
from tenon.dialects.definition.settings import array_attribute
from tenon.dialects.definition.signature import Operand, map_grouped, named
from tenon.dialects.definition.value import Value, insertion_point, ops
from tenon.dialects.support.plain_arrays import elements_of, host_array, is_on_gpu, on_gpu_viewed, plain_array
from tenon.dialects.types.shapes import InferenceError, normalize_axis
from tenon.dialects.types.types import is_narrow, numpy_dtype


def operand_elements(cls: type[DeclaredOp], operands: Sequence[Any]) -> list[tuple[str, Attribute]]:
    """For each value of the operands, how errors name it and the dtype that it is converted to: literals adopt their
    peers', promoted operands meet, and what a constraint does not allow becomes what it allows for it."""
    members = [(o, f"{cls.name}: {name}", value) for o, name, value in named(cls.SIGNATURE.operands, operands)]
    own = [None if is_literal(value) else own_element(value, where) for _, where, value in members]
    promoted = [cls.PROMOTED is None or operand.name in cls.PROMOTED for operand, _, _ in members]
    group = [
        (element, value) for element, in_group, (_, _, value) in zip(own, promoted, members, strict=True) if in_group
    ]
    try:
        common = common_element([e for e, _ in group if e is not None], [v for e, v in group if e is None])
    except TypeError as error:
        raise TypeError(f"{cls.name}: {error}") from None
    result: list[tuple[str, Attribute]] = []
    for (operand, where, value), element, in_group in zip(members, own, promoted, strict=True):
        target = common if in_group else common_element([], [value]) if element is None else element
        assert target is not None
        allowed = allowed_element(target, operand.constraint)
        if in_group and not (allowed in operand.constraint.elements or is_narrow(allowed)):
            kept = [(m, e) for m, e, promotes in zip(members, own, promoted, strict=True) if promotes]
            raise InferenceError(_unmet(cls, kept, operand, allowed))
        result.append((where, allowed))
    return result


def _unmet(
    cls: type[DeclaredOp], promoted: Sequence[tuple[Any, Attribute | None]], stopped: Operand, common: Attribute
) -> str:
    """What is wrong where promoted operands meet in the dtype `common`, which `stopped` does not take: one that is of
    a dtype that it does not take itself, or the rule that they meet."""
    for (operand, where, value), element in promoted:
        given = common_element([], [value]) if element is None else element
        assert given is not None
        if allowed_element(given, operand.constraint) not in operand.constraint.elements:
            name = where.removeprefix(f"{cls.name}: ")
            return f"{cls.name}: dtype of {name} is {given} where {operand.constraint.needed(given)}"
    return (
        f"{cls.name}: operands meet in {common}, and for {stopped.name} {stopped.constraint.needed(common)}; "
        "PROMOTED names those that have one dtype"
    )


def is_computed(x: Any) -> bool:
    """Whether `x` is a traced value or a tensor, through which gradients may go."""
    return isinstance(x, Value) or hasattr(type(x), "__tenon_op__")


def shaped(x: Any, where: str = "value") -> Any:
    """`x`, of which a shape can be asked: itself if it is computed or on a GPU, or an array; of a nested sequence with
    what is traced, its items stacked. Raises `TypeError`, which begins with `where`, for what is none of these."""
    if is_computed(x) or is_on_gpu(x):
        return on_gpu_viewed(x)
    return ops.stack(list(map(_item, x))) if _holds_traced(x) else plain_array(x, where)


def _item(x: Any) -> Any:
    return shaped(x) if isinstance(x, list | tuple) else x


def _holds_traced(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_traced, value))
    return isinstance(value, Value) or hasattr(type(value), "__tenon_traced_op__")


def floating(x: Any) -> Any:
    """`x`, of which a shape can be asked, as floats that hold it: integers of 8 and 16 bits and truth values as f32,
    wider ones as f64, so that differences and sums do not wrap."""
    x = shaped(x)
    if x.dtype.kind not in "biu":
        return x
    return ops.cast(x, dtype="f32" if x.dtype.itemsize < 4 else "f64")


def known_elements(x: Any) -> np.ndarray[Any, Any] | None:
    """The elements, in the memory of the CPU, of an array or a tensor that is not traced; `None` of one that is."""
    held = elements_of(x)
    return None if isinstance(held, Value) else host_array(held)


def axis_or_all(function: str, x: Any, axis: int | None) -> tuple[Any, int]:
    """`x` and the axis, counted from the front; without an axis, all elements of `x` in a vector, and theirs."""
    if axis is None:
        return ops.reshape(x, shape=(-1,)), 0
    return x, normalize_axis(axis, x.ndim, f"{function}: axis")


def vector_along(x: Any, axis: int, rank: int) -> Any:
    """A vector as a tensor of that rank, along an axis counted from the front."""
    return ops.reshape(x, shape=tuple([-1 if i == axis else 1 for i in range(rank)]))


def to_value(value: Any, element: Attribute | None = None) -> Value:
    """`value` (traced, array or number) as a traced tensor of dtype `element` at the current insertion point."""
    if not isinstance(value, Value) and (stands_for := getattr(type(value), "__tenon_value__", None)) is not None:
        value = stands_for(value)
    if not isinstance(value, Value):
        array = (
            on_gpu_viewed(value) if is_on_gpu(value) else plain_array(value)
        )  # there an input of what is traced, and no constant
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if element is not None and array.ndim == 0:
            array = array.astype(numpy_dtype(element))
        point = insertion_point()
        captured = None if point is None else point.captured(array)
        value = ops.constant(value=array) if captured is None else captured
    if element is not None and value.element_type != element:
        wide = exact(value)
        value = wide if wide.element_type == element else ops.cast(value, dtype=element)
    return value


def lifted(value: Any, element: Attribute, where: str) -> Value:
    """An operand, which errors call `where`, as a tensor value of dtype `element`."""
    if isinstance(value, Value):
        return value if value.element_type is element else to_value(value, element)
    if is_literal(value):
        number = adopted(value, element, where)
        return ops.constant(value=_number_attribute(type(number), repr(number), element))
    return to_value(value, element)


@lru_cache(maxsize=1024)
def _number_attribute(kind: type[Any], text: str, element: Attribute) -> Attribute:
    """The array of dtype `element` and rank 0 that holds the number of type `kind` that prints as `text`."""
    number = text == "True" if kind is bool else kind(text)
    return array_attribute(np.asarray(number).astype(numpy_dtype(element)))


def checked_number(number: Any, where: str) -> bool | int | float:
    """What a hook gives as a number that is known; raises `TypeError` for anything else, a value included."""
    if isinstance(number, np.generic | np.ndarray) and number.ndim == 0:
        number = number.item()
    if not isinstance(number, bool | int | float):
        raise TypeError(f"{where} is a {type(number).__name__} where a number is needed")
    return number


def check_scalar(value: Any, where: str) -> None:
    """Raise `TypeError` for what is neither a value nor a number."""
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(f"{where} is an array of shape {value.shape} where a value or a number is needed")
    if not isinstance(value, Value | bool | int | float | np.generic | np.ndarray):
        raise TypeError(f"{where} is a {type(value).__name__} where a value or a number is needed")


def to_scalar(value: Any, element: Attribute, where: str) -> Value:
    """`value` (a scalar value or a number) as a scalar of type `element` at the current insertion point."""
    if isinstance(value, Value):
        return convert(value, element)
    check_scalar(value, where)
    number: Any = value  # one of NumPy's converts like one of Python's
    return scalar_constant(adopted(number, element, where), element)


def scalar_operands(cls: type[DeclaredOp], operands: Sequence[Any]) -> list[Any]:
    """Operands inside a body, in groups, as scalars that agree as the op's promotion rule asks."""
    members = [(o, f"{cls.name}: {name}", value) for o, name, value in named(cls.SIGNATURE.operands, operands)]
    given = [v if isinstance(v, Value) else _number(v, where) for _, where, v in members]
    promoted = [cls.PROMOTED is None or o.name in cls.PROMOTED for o, _, _ in members]
    strong = [v.element_type for v, p in zip(given, promoted, strict=True) if p and isinstance(v, Value)]
    weak = [v for v, p in zip(given, promoted, strict=True) if p and not isinstance(v, Value)]
    common = common_element(strong, weak)
    result: list[Value] = []
    for (operand, where, _), value, in_group in zip(members, given, promoted, strict=True):
        own = value.element_type if isinstance(value, Value) else common_element([], [value])
        target = common if in_group else own
        assert target is not None
        if not isinstance(target, IndexType):
            target = allowed_element(target, operand.constraint)
        result.append(to_scalar(value, target, where))
    scalars = iter(result)
    return map_grouped(lambda _: next(scalars), operands)


def _number(value: Any, where: str) -> bool | int | float:
    """What is known of a body's operand as a literal."""
    if is_literal(value):
        return value
    own_element(value, where)
    array = plain_array(value, where)
    if array.ndim:
        raise TypeError(f"{where} has shape {array.shape}, which a scalar body has no use for; index it there")
    return array.item()
