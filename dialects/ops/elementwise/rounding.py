"""Rounding to whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import math
from xdsl.ir import Attribute

from tenon.dialects.definition.scalar import ScalarForms
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value
from tenon.dialects.families import NumericUnaryOp, PrimitiveOp
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import f64, is_float


class WholeNumberOp(NumericUnaryOp, PrimitiveOp):
    """Floats rounded to whole numbers, which integers are already. The gradient is 0."""

    @classmethod
    def on_scalars(cls, values: Sequence[Value], settings: dict[str, Any]) -> Any:
        return super().on_scalars(values, settings) if is_float(values[0].type) else values[0]

    vjp = staticmethod(lambda g, out, x, **_: (None,))


@tensor_op
class FloorOp(WholeNumberOp):
    """The largest whole number not above `x`. Integers stay as they are. The gradient is 0.

    >>> tenon.floor(np.array([1.5, -1.5]))
    """

    name = "tenon.floor"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.FloorOp)


@tensor_op
class CeilOp(WholeNumberOp):
    """The smallest whole number not below `x`. Integers stay as they are. The gradient is 0.

    >>> tenon.ceil(np.array([1.5, -1.5]))
    """

    name = "tenon.ceil"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.CeilOp)


@tensor_op
class RoundOp(WholeNumberOp):
    """The whole number nearest to `x`, halves to the even one; or, by `decimals`, the nearest number with so many
    places behind the point, or with as many zeros before it if that is negative. Integers stay as they are. The
    gradient is 0.

    >>> tenon.round(np.array([0.5, 1.5, 2.5, -2.7]))
    >>> tenon.round(np.array([1.234, -27.5]), decimals=1)
    """

    name = "tenon.round"
    decimals = setting(int, default=0)
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.RoundEvenOp)

    @classmethod
    def result_element(cls, *elements: Attribute | None, **settings: Any) -> Attribute:
        element, decimals = super().result_element(*elements, **settings), settings["decimals"]
        # The power of ten by which elements are scaled is computed with.
        most = 308 if element == f64 else 38
        if is_float(element) and abs(decimals) > most:
            raise InferenceError(f"decimals is {decimals} where -{most} to {most} is allowed for {element}")
        return element

    @classmethod
    def on_scalars(cls, values: Sequence[Value], settings: dict[str, Any]) -> Any:
        (x,), decimals = values, settings["decimals"]
        if not decimals or not is_float(x.type):
            return super().on_scalars(values, settings)
        scale = 10.0 ** abs(decimals)
        whole = super().on_scalars([x * scale if decimals > 0 else x / scale], settings)
        return whole / scale if decimals > 0 else whole * scale


@tensor_op
class TruncOp(WholeNumberOp):
    """`x` rounded toward zero. Integers stay as they are. The gradient is 0.

    >>> tenon.trunc(np.array([1.5, -1.5]))
    """

    name = "tenon.trunc"
    ALIASES: ClassVar[tuple[str, ...]] = ("fix",)
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.TruncOp)
