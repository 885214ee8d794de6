"""Computes ops on constants while compiling, by what their families say they mean.

A result is computed when it is small, or when it is no larger than the constants it replaces (a transposed weight).
An op of equal elements in and out, such as arithmetic on zeros, is computed for one element and takes no memory at
any shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.dialects.definition import signedness
from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.settings import array_of, dense_elements, elements_of
from tenon.dialects.definition.value import InsertionPoint, emit, inserting
from tenon.dialects.families import ElementwiseOp, IndexMapOp, StructuredOp
from tenon.dialects.families.opaque import OpaqueOp
from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.types.types import element_of, is_static, numpy_dtype, shape_of, tensor_type

MOST_RESULT_ELEMENTS = 1024
MOST_OPERAND_ELEMENTS = 1 << 16

Dense = DenseIntOrFPElementsAttr[Any]

# The results of ops on constants; none where they cannot be computed.
_EVALUATED: BoundedCache[tuple[Dense, ...]] = BoundedCache(256)


def constant_attribute(value: SSAValue) -> Dense | None:
    """The elements of `value` where they are known."""
    op = value.owner
    if not isinstance(op, ConstantOp):
        return None
    attribute = op.properties["value"]
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    return attribute


def splat(value: SSAValue) -> np.generic | None:
    """The number that all elements of `value` are, where that is known."""
    attribute = constant_attribute(value)
    return None if attribute is None else _repeated(attribute)


def _repeated(attribute: Dense) -> np.generic | None:
    dtype = numpy_dtype(attribute.type.element_type)
    data = attribute.data.data
    is_splat = len(data) == dtype.itemsize and _elements(attribute.type) > 0
    return elements_of(data, dtype, (1,))[0] if is_splat else None


def splat_constant(number: Any, type_: Attribute) -> ConstantOp:
    """A constant of a static tensor type whose elements are all `number`."""
    dtype = numpy_dtype(element_of(type_))
    return _constant(dense_elements(type_, np.asarray(number, dtype)))  # pyright: ignore[reportArgumentType]


def fold(op: Operation) -> list[ConstantOp] | None:
    """Constants that can take the place of the results of `op`, `None` where it is not to be computed now."""
    if not isinstance(op, StructuredOp) or isinstance(op, ConstantOp | OpaqueOp) or not op.operands:
        return None
    operands: list[Dense] = []
    for value in op.operands:
        attribute = constant_attribute(value)
        if attribute is None:
            return None
        operands.append(attribute)
    types = [result.type for result in op.results]
    if not all(map(is_static, types)):
        return None
    numbers = [_repeated(attribute) for attribute in operands]
    if all(number is not None for number in numbers):
        found = _fold_repeated(op, operands, numbers, types)
        if found is not None:
            return found
    if not _is_worth_it(op, operands, types):
        return None
    arrays = _evaluated(op, operands)
    return None if arrays is None else [_constant(attribute) for attribute in arrays]


def _fold_repeated(
    op: StructuredOp, operands: Sequence[Dense], numbers: Sequence[np.generic | None], types: Sequence[Attribute]
) -> list[ConstantOp] | None:
    if isinstance(op, IndexMapOp | ReshapeOp):
        return [splat_constant(numbers[0], type_) for type_ in types]
    if not isinstance(op, ElementwiseOp):
        return None
    elements = [_dense(tensor_type((), attribute.type.element_type), attribute.data.data) for attribute in operands]
    scalar = _on_elements(op)
    try:
        results = _evaluated(scalar, elements)
    finally:
        scalar.erase()
    if results is None:
        return None
    return [_constant(_dense(type_, result.data.data)) for type_, result in zip(types, results, strict=True)]


def _on_elements(op: ElementwiseOp) -> ElementwiseOp:
    """The same op on tensors of rank 0."""
    result_types = [tensor_type((), element_of(result.type)) for result in op.results]
    return type(op).create(operands=list(op.operands), result_types=result_types, properties=dict(op.properties))


def _is_worth_it(op: Operation, operands: Sequence[Dense], types: Sequence[Attribute]) -> bool:
    """Whether computing `op` now takes little time and leaves no more constants behind than there were."""
    results = sum(map(_elements, types))
    read = sum(_elements(attribute.type) for attribute in operands)
    if read > MOST_OPERAND_ELEMENTS and not isinstance(op, IndexMapOp):
        return False
    if results <= MOST_RESULT_ELEMENTS:
        return True
    freed = sum(
        len(attribute.data.data) // numpy_dtype(attribute.type.element_type).itemsize
        for value, attribute in zip(op.operands, operands, strict=True)
        if value.has_one_use()
    )
    return isinstance(op, IndexMapOp | ReshapeOp) and results <= freed


def _elements(type_: Attribute) -> int:
    return prod(shape_of(type_) or ())


def _constant(attribute: Dense) -> ConstantOp:
    return ConstantOp.create(result_types=[attribute.type], properties={"value": attribute})


def _dense(type_: Attribute, data: bytes) -> Dense:
    assert isinstance(type_, TensorType)
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data))


def _evaluated(op: StructuredOp, operands: Sequence[Dense]) -> tuple[Dense, ...] | None:
    results = tuple([result.type for result in op.results])
    key = (type(op), tuple(operands), results, frozenset(op.properties.items()), generation())
    found = _EVALUATED.get(key)
    if found is None:
        found = _EVALUATED[key] = _run(op, operands) or ()
    return found or None


def _run(op: StructuredOp, operands: Sequence[Dense]) -> tuple[Dense, ...] | None:
    module = _as_function(op, [attribute.type for attribute in operands])
    try:
        results = Interpreter().run(module, "main", [array_of(attribute) for attribute in operands])
    except InterpreterError:
        return None  # what fails on these values fails, if at all, when the program is run
    dense: list[Dense] = []
    for result, type_ in zip(results, op.results, strict=True):
        assert isinstance(type_.type, TensorType)
        dense.append(dense_elements(type_.type, np.ascontiguousarray(result)))
    return tuple(dense)


def _as_function(op: StructuredOp, types: Sequence[Attribute]) -> ModuleOp:
    function = func.FuncOp("main", (types, [result.type for result in op.results]))
    block = function.body.block
    with inserting(InsertionPoint(block)):
        emit(func.ReturnOp(*op.structured(op.group(block.args, op.properties))))
    module = ModuleOp([function])
    signedness.erase(module)
    return module
