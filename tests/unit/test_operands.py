"""What ops make of numbers, lists and other operands that are no arrays: on arrays, in traces and in bodies alike."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import FLOAT_TENSOR, NUMERIC_TENSOR, ElementwiseOp, operand_def, result_def, setting, tensor_op

SMALL = np.array([5, -3], np.int8)


@tensor_op
class AddNumberOp(ElementwiseOp):
    """`x` and a number that the body holds, added."""

    name = "operands_test.add_number"
    x = operand_def(NUMERIC_TENSOR)
    number = setting(int)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def scalar(x: Any, *, number: int) -> Any:
        return x + number


@tensor_op
class TimesLogTwoOp(ElementwiseOp):
    """`x` and the logarithm of two, multiplied."""

    name = "operands_test.times_log_two"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Any) -> Any:
        return x * tenon.log(2)


@tensor_op
class AddHalfOp(ElementwiseOp):
    """`x` and a number of NumPy that the body holds, added."""

    name = "operands_test.add_half"
    x = operand_def(NUMERIC_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def result_element(cls, *elements: Any, **settings: Any) -> Any:
        return tenon.element_type("f32")

    @staticmethod
    def scalar(x: Any) -> Any:
        return x + np.float32(0.5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x + 300, "tenon.add: y is 300, which does not fit into i8"),
        (lambda x: -129 - x, "tenon.subtract: x is -129, which does not fit into i8"),
        (lambda x: tenon.select(x > 1000, 1, 0), "tenon.greater: y is 1000, which does not fit into i8"),
        (lambda x: tenon.bitwise_and(x, 255), "tenon.bitwise_and: y is 255, which does not fit into i8"),
        (lambda x: tenon.add_number(x, 300), "tenon.add: y is 300, which does not fit into i8"),
        (lambda x: x.astype("i64") + 2**63, f"tenon.add: y is {2**63}, which does not fit into i64"),
        (lambda x: x.astype("f32") * 10**400, "tenon.multiply: y is an integer too large for f32"),
    ],
)
def test_an_integer_that_its_dtype_does_not_hold_is_an_error(function: Any, message: str) -> None:
    with pytest.raises(OverflowError, match=re.escape(message)):
        tenon.jit(function)(SMALL)


def test_integers_on_arrays_are_checked_as_in_a_trace() -> None:
    with pytest.raises(OverflowError, match=r"tenon\.add: y is 300, which does not fit into i8"):
        tenon.add(SMALL, 300)
    with pytest.raises(OverflowError, match=rf"tenon\.add: x is {2**70}, which does not fit into i64"):
        tenon.add(2**70, 1)
    np.testing.assert_array_equal(tenon.add(SMALL, -128), SMALL + np.int8(-128))
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.maximum(x, 127))(SMALL), [127, 127])


@pytest.mark.parametrize("jitted", [False, True], ids=["array", "trace"])
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: tenon.exp("a"), TypeError, "tenon.exp: x: a str is neither a number nor an array"),
        (lambda x: tenon.add(x, "a"), TypeError, "tenon.add: y: a str is neither a number nor an array"),
        (lambda x: tenon.concatenate((x, "a")), TypeError, r"tenon.concatenate: tensors\[1\]: a str is neither"),
        (lambda x: tenon.exp([[1, 2], [3]]), ValueError, "tenon.exp: x: .*inhomogeneous shape"),
        (lambda x: tenon.add(x, object()), TypeError, "tenon.add: y: a object is neither a number nor an array"),
    ],
)
def test_what_is_no_operand_is_named(function: Any, error: type[Exception], message: str, jitted: bool) -> None:
    with pytest.raises(error, match=message):
        (tenon.jit(function) if jitted else function)(SMALL)


def test_sequences_of_numbers_are_operands() -> None:
    np.testing.assert_array_equal(tenon.negative((1.0, 2.0)), [-1, -2])
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.add(x, (1.0, 2.0)))(SMALL), SMALL + np.array([1.0, 2.0]))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_an_op_of_literals_in_a_body_has_the_precision_of_the_body(dtype: str) -> None:
    x = np.array([1.0, 3.0], dtype)
    found = tenon.times_log_two(x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, x * math.log(2), rtol=float(2 * np.finfo(dtype).eps))
    gradient = tenon.grad(lambda x: tenon.sum(tenon.times_log_two(x)))(x)
    assert gradient.dtype == x.dtype
    np.testing.assert_allclose(gradient, np.full(2, math.log(2)), rtol=float(2 * np.finfo(dtype).eps))


def test_a_number_of_numpy_in_a_body_is_not_truncated() -> None:
    np.testing.assert_array_equal(tenon.add_half(np.array([1, 2], np.int32)), [1.5, 2.5])


def test_an_array_in_a_body_is_an_error() -> None:
    @tensor_op
    class AddArrayOp(ElementwiseOp):
        """`x` and an array, which a body cannot add."""

        name = "operands_test.add_array"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def scalar(x: Any) -> Any:
            return x + np.ones(3, np.float32)

    with pytest.raises(TypeError, match=r"tenon.add: y has shape \(3,\), which a scalar body has no use for"):
        AddArrayOp.apply(np.ones(3, np.float32))


IMPORTS = """
import numpy as np
from {source} import tensor_op
from {families} import ElementwiseOp
from {types} import FLOAT_TENSOR
from xdsl.irdl import operand_def, result_def

@tensor_op
class TwiceOp(ElementwiseOp):
    name = "operands_test.twice"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x):
        return x + x

print(TwiceOp.apply(np.float32([1, 2])))
"""


def test_an_op_defined_with_the_front_door_alone_runs_on_arrays() -> None:
    script = IMPORTS.format(source="tenon", families="tenon", types="tenon")
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout == "[2. 4.]\n"


def test_without_the_runtime_an_op_on_arrays_says_what_to_import() -> None:
    script = IMPORTS.format(
        source="tenon.dialects.definition.tensor_op",
        families="tenon.dialects.families",
        types="tenon.dialects.types.types",
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    wanted = "RuntimeError: operands_test.twice: nothing runs ops on arrays yet; import tenon.runtime.evaluate"
    assert completed.stderr.splitlines()[-1] == wanted


AXES_OF_NUMBERS: dict[str, Any] = {
    **dict.fromkeys(
        ("sum", "mean", "prod", "max", "min", "cumsum", "cumprod", "sort", "flip", "logsumexp", "norm"), 2.0
    ),
    **dict.fromkeys(("softmax", "all", "any"), 1),
    **dict.fromkeys(("log_softmax", "var", "std", "argmax", "argmin", "argsort"), 0),
    "cummax": (2.0, 0),
}


@pytest.mark.parametrize("name", AXES_OF_NUMBERS)
def test_axis_of_a_number(name: str) -> None:
    """An array of rank 0 has the axes 0 and -1 of one with one element, as in PyTorch."""
    op = getattr(tenon, name)
    x = np.array(True) if name in ("all", "any") else np.array(2.0)
    for axis in (0, -1):
        for result in (op(x, axis=axis), tenon.jit(lambda x, axis=axis: op(x, axis=axis))(x)):
            np.testing.assert_array_equal(result, AXES_OF_NUMBERS[name])
            assert all(np.shape(part) == () for part in (result if isinstance(result, tuple) else (result,)))
    with pytest.raises(ValueError, match="axis is 1 but the rank is 0"):
        op(x, axis=1)
