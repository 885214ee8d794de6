"""Constants, and conversion between dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.keywords import Meaning, on_cpu, one_of
from tenon.dialects.definition.promotion import exact
from tenon.dialects.definition.scalar import convert, emit_scalar, to_compute
from tenon.dialects.definition.settings import array_of, setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import KnownValue, NoGradient
from tenon.dialects.definition.value import Value, emit, insertion_point, ops
from tenon.dialects.families import ElementwiseOp, StructuredOp
from tenon.dialects.families.linalg_builders import converted, elementwise, filled, static_shape
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import (
    CODED_TENSOR,
    STORED_TENSOR,
    array_type,
    element_of,
    f64,
    is_float,
    significant_bits,
)

LARGEST_CONSTANT = (1 << 31) - 1
"""The bytes of an array that is part of a program: code reaches its data by offsets of 32 bits."""


@tensor_op
class ConstantOp(StructuredOp):
    """The array `value`, known when the program is compiled.

    >>> tenon.constant(value=np.array([1.5, 2.5])) * 2
    """

    name = "tenon.constant"
    traits = traits_def(Pure(), NoGradient(), KnownValue())
    value = setting("array")
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return array_type(settings["value"])

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        attribute = self.properties["value"]
        assert isinstance(attribute, DenseIntOrFPElementsAttr)
        array = array_of(attribute)
        # In a kernel the one number of a splat becomes part of the loops; outside of kernels there are none.
        if _in_kernel() and (array.size == 1 or (array.size > 1 and not any(array.strides))):
            number = array[(0,) * array.ndim].item()
            return [filled(static_shape(self.results[0]), element_of(self.results[0].type), number)]
        if array.nbytes > LARGEST_CONSTANT:
            what = f"{self.results[0].type} takes {array.nbytes} bytes"
            raise InferenceError(f"{what}, and a program holds constants of up to {LARGEST_CONSTANT}")
        return [emit(arith.ConstantOp(attribute)).result]


def _in_kernel() -> bool:
    point = insertion_point()
    parent = None if point is None else point.block.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    return parent is not None and "kernel" in parent.attributes


@tensor_op
class CastOp(ElementwiseOp):
    """`x` converted to `dtype`.

    Floats become integers by truncation, limited to the range of the integer, NaN becoming 0 (NumPy leaves both open);
    integers that do not fit wrap; what is not zero becomes True. Floats become narrower ones by rounding once, ties to
    even; what is too large becomes an infinity, or NaN in a format without one, or the largest number in f4E2M1FN,
    which has neither. f8E8M0FNU is powers of two: ties go up, and what is not positive is NaN. For other rules, `clip`
    to the range of the format first.

    >>> tenon.cast(np.array([1.7, -1.7, 300.0, np.nan]), "i8")
    >>> tenon.cast(np.array([0, 1, 256]), "i8")
    >>> tenon.cast(np.array([1.7, 0.3, 500.0]), "f8E4M3FN")
    """

    name = "tenon.cast"
    x = operand_def(STORED_TENSOR)
    dtype = setting("dtype")
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("astype",)
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"copy": one_of("copy", None, True, False), "device": on_cpu}
    KEEPS_WEAK: ClassVar[bool] = False

    @classmethod
    def lift(cls, operands: Sequence[Any]) -> list[Any]:
        return super().lift(list(map(exact, operands)))

    @classmethod
    def operand_elements(cls, operands: Sequence[Any]) -> list[tuple[str, Attribute]]:
        (x,) = operands
        # What is converted is the number that Python gave.
        return [(f"{cls.name}: x", f64)] if isinstance(x, float) else super().operand_elements(operands)

    @classmethod
    def result_element(cls, *elements: Attribute | None, **settings: Any) -> Attribute:
        return settings["dtype"]

    scalar = staticmethod(lambda x, *, dtype: convert(x, dtype))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        return [converted(operands[0], element_of(self.results[0].type))]

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, dtype: Attribute) -> tuple[Any, ...]:
        return (ops.cast(g, dtype=x.element_type) if is_float(dtype) and is_float(x.element_type) else None,)


@tensor_op
class BitcastOp(ElementwiseOp):
    """The bits of `x` taken as an element of `dtype`, which has the same width. Truth values have none.

    >>> tenon.bitcast(np.array([1.0, -0.0], np.float32), "i32")
    """

    name = "tenon.bitcast"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(CODED_TENSOR)
    dtype = setting("dtype")
    result = result_def(CODED_TENSOR)
    KEEPS_WEAK: ClassVar[bool] = False

    @classmethod
    def result_element(cls, *elements: Attribute | None, **settings: Any) -> Attribute:
        (source,), target = elements, settings["dtype"]
        assert source is not None
        _check_width(source, target)
        return target

    @staticmethod
    def scalar(x: Value, *, dtype: Attribute) -> Value:
        _check_width(x.type, dtype)
        return to_compute(_bitcast(x, dtype))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        # f16 and bf16 are not taken as f32 here: it is their own bits that count.
        shape, element = static_shape(operands[0]), element_of(self.results[0].type)
        inputs = [(operands[0], AffineMap.identity(len(shape)))]
        return elementwise(inputs, shape, [element], lambda values: [_bitcast(values[0], element)])


def _check_width(source: Attribute, target: Attribute) -> None:
    if target not in CODED_TENSOR.elements or significant_bits(source) != significant_bits(target):
        raise InferenceError(f"tenon.bitcast: dtype is {target}, which has not as many bits as {source} of x")


def _bitcast(x: Value, element: Attribute) -> Value:
    return emit_scalar(lambda bits: arith.BitcastOp(bits, element), x)
