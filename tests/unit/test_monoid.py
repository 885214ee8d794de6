"""Monoids: what changes nothing, what ops get from the name of one, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64

import tenon
from tenon.dialects.families.monoid import MONOIDS, Monoid, of_nothing
from tenon.dialects.interpreter.arith import BINARY
from tenon.dialects.interpreter.interpreter import constant_value
from tenon.dialects.types.types import i8, i32, numpy_dtype, ui8

FLOATS = [0.0, -0.0, 1.5, -np.inf, np.inf]


def elements(monoid: Monoid) -> list[Any]:
    return [f32, f64] if monoid.op_type.name.endswith("f") else [IntegerType(1), IntegerType(8), IntegerType(64)]


@pytest.mark.parametrize("monoid", MONOIDS.values(), ids=MONOIDS.keys())
def test_the_identity_changes_no_bit(monoid: Monoid) -> None:
    for element in elements(monoid):
        dtype = numpy_dtype(element)
        x = np.array(FLOATS if isinstance(element, AnyFloat) else [0, 1, 77, 127], dtype)
        if dtype.kind == "i":
            x = np.concatenate([x, ~x])
        identity = np.array(constant_value(monoid.identity(element)), dtype)
        for found in (BINARY[monoid.op_type](identity, x), BINARY[monoid.op_type](x, identity)):
            assert found.dtype == dtype
            assert found.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    ("name", "element", "expected"),
    [
        ("add", f32, 0.0),
        ("multiply", i32, 1),
        ("maximum", f64, -np.inf),
        ("maximum", i8, -128),
        ("maximum", ui8, 0),
        ("minimum", f32, np.inf),
        ("minimum", i8, 127),
        ("minimum", ui8, 255),
        ("bitwise_or", IntegerType(1), 0),
        ("bitwise_and", IntegerType(1), 1),
    ],
)
def test_what_there_is_without_elements(name: str, element: Any, expected: float) -> None:
    found = of_nothing(name, element)
    assert (found, np.signbit(found)) == (expected, np.signbit(expected))


class ExtentOp(tenon.ReductionOp):
    """The largest element."""

    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    axis = tenon.setting(tuple, default=None)
    keepdims = tenon.setting(bool, default=False)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    COMBINE = "maximum"


def test_an_op_has_its_hooks_from_the_name_of_one() -> None:
    @tenon.tensor_op
    class LargestOp(ExtentOp):
        """The largest element."""

        name = "monoid_test.largest"

    x = np.array([[-3.0, -1.0], [-np.inf, -5.0]], np.float32)
    np.testing.assert_array_equal(LargestOp.apply(x, axis=(1,)), [-1, -5])
    np.testing.assert_array_equal(LargestOp.apply(x[:0], axis=(0,)), [-np.inf, -np.inf])


def test_a_hook_of_its_own_stays() -> None:
    @tenon.tensor_op
    class LargestPositiveOp(ExtentOp):
        """The largest element, or 0."""

        name = "monoid_test.largest_positive"
        COMBINE = "maximum"

        @staticmethod
        def initial(element: Any) -> float:
            return 0.0

    np.testing.assert_array_equal(LargestPositiveOp.apply(np.array([[-3.0, 4.0], [-2.0, -1.0]]), axis=(1,)), [4, 0])


@pytest.mark.parametrize("name", ["subtract", "exp", "bitwise_and", "nothing_of_that_name"])
def test_what_is_no_monoid_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=f"COMBINE is '{name}', which is no associative op with an identity on f32"):
        of_nothing(name, f32)
