"""Elementwise ops of as many operands as a call gives, and families that have a fixed number of them."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon
from tenon import FLOAT_TENSOR, INTEGER_TENSOR, operand_def, opt_operand_def, result_def, setting, tensor_op
from tenon.testing import check

RANDOM = np.random.default_rng(0)


@tensor_op
class LogSumOp(tenon.ElementwiseOp):
    """The logarithm of the sum of the exponentials of all `parts`."""

    name = "several.sum_of_exponentials"
    parts = tenon.var_operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(parts: Any) -> Any:
        first, *others = parts
        for part in others:
            first = tenon.logaddexp(first, part)
        return first


@tensor_op
class LogSumOfOp(tenon.ElementwiseOp):
    """`sum_of_exponentials` in a body, of an operand that may be absent."""

    name = "several.body_of_exponentials"
    x = operand_def(FLOAT_TENSOR)
    y = opt_operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Any, y: Any) -> Any:
        return tenon.sum_of_exponentials([x, 2.0] if y is None else [x, y, 2.0])


def test_any_number_of_operands_broadcast() -> None:
    parts = [RANDOM.standard_normal(shape) for shape in ((2, 1, 3), (5, 1), (3,))]
    expected = np.log(sum(np.exp(part) for part in parts))
    np.testing.assert_allclose(tenon.sum_of_exponentials(parts), expected)
    np.testing.assert_allclose(tenon.sum_of_exponentials(parts[:1]), parts[0])
    check(tenon.sum_of_exponentials, parts, reference=lambda parts: np.logaddexp.reduce(np.broadcast_arrays(*parts)))


def test_they_may_have_examples_of_several_ranks() -> None:
    x, y = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((2, 1))
    batched = tenon.vmap(tenon.sum_of_exponentials, in_axes=([0, None],))([x, y])
    np.testing.assert_allclose(batched, [np.logaddexp(row, y) for row in x])


def test_they_are_scalars_in_a_body() -> None:
    x, y = RANDOM.standard_normal((2, 4))
    np.testing.assert_allclose(tenon.body_of_exponentials(x), np.logaddexp(x, 2.0))
    np.testing.assert_allclose(tenon.body_of_exponentials(x, y), np.logaddexp(np.logaddexp(x, y), 2.0))
    check(tenon.body_of_exponentials, x, y=y)


def test_errors_name_the_operand() -> None:
    with pytest.raises(
        ValueError, match=r"^several\.sum_of_exp.* dimension -1 is 3 in parts\[0\] and 4 in parts\[1\]$"
    ):
        tenon.sum_of_exponentials([np.ones(3), np.ones(4)])
    with pytest.raises(ValueError, match=r"^several\.sum_of_exponentials: no operand is given"):
        tenon.sum_of_exponentials([])


REDUCTION = {"axis": setting(tuple, default=None), "keepdims": setting(bool, default=False)}
COMBINING = {
    "initial": staticmethod(lambda element: 0.0),  # pyright: ignore[reportUnknownLambdaType]
    "scalar": staticmethod(lambda accumulator, x: accumulator + x),  # pyright: ignore[reportUnknownLambdaType]
}


@pytest.mark.parametrize(
    ("family", "declared", "members", "message"),
    [
        (
            tenon.ReductionOp,
            operand_def,
            {**REDUCTION, **COMBINING},
            "2 operands are declared (x, y)",
        ),
        (tenon.CumulativeOp, operand_def, {"axis": setting(int, default=0), **COMBINING}, "and its family has 1"),
        (
            tenon.IndexMapOp,
            opt_operand_def,
            {"infer": staticmethod(lambda x, y: x), "source": staticmethod(lambda index, shape, /: index)},
            "and its family has 1",
        ),
        (
            tenon.ContractionOp,
            opt_operand_def,
            {"indexing": staticmethod(lambda i: ((i,), (i,), (i,)))},
            "operand 'y' is optional, and its family needs one tensor",
        ),
    ],
)
def test_a_family_with_a_number_of_operands_says_so_where_the_op_is_defined(
    family: Any, declared: Any, members: dict[str, Any], message: str
) -> None:
    body = {"x": operand_def(FLOAT_TENSOR), "y": declared(FLOAT_TENSOR), "result": result_def(FLOAT_TENSOR), **members}
    with pytest.raises(TypeError) as caught:
        tensor_op(type("PairOp", (family,), {"__module__": __name__, "name": "several.pair", **body}))
    assert message in str(caught.value)


@tensor_op
class SpacedOp(tenon.ContractionOp):
    """Products of `w` with the elements of `x` that are `spacing` apart."""

    name = "several.spaced"
    x = operand_def(FLOAT_TENSOR)
    w = operand_def(FLOAT_TENSOR)
    spacing = setting(int)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def indexing(place: Any, tap: Any, *, spacing: int) -> Any:
        return (place * spacing + tap,), (tap,), (place,)


@tensor_op
class LargestOfOp(tenon.WindowOp):
    """The largest of each `width` neighbours."""

    name = "several.peaks"
    x = operand_def(FLOAT_TENSOR)
    width = setting(int)
    result = result_def(FLOAT_TENSOR)
    COMBINE = "maximum"

    @staticmethod
    def indexing(place: Any, tap: Any, *, width: int) -> Any:
        return (place + tap,), (place,)

    @staticmethod
    def extents(*, width: int) -> dict[str, int]:
        return {"tap": width}


def test_a_loop_whose_length_nothing_tells_is_named() -> None:
    with pytest.raises(ValueError, match=r"^several\.spaced: x does not tell how far loop place runs"):
        tenon.spaced(np.ones(8), np.ones(3), spacing=0)
    with pytest.raises(ValueError, match=r"^several\.peaks: extents is -1 for loop tap where an"):
        tenon.peaks(np.ones(8), width=-1)


@tensor_op
class BinMaximumOp(tenon.ScatterOp):
    """`x` with elements replaced by larger ones of `updates`; dtypes of indices and floats are to meet, a mistake."""

    name = "several.bin_maximum"
    x = operand_def(FLOAT_TENSOR)
    places = operand_def(INTEGER_TENSOR)
    updates = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def target(index: Any, x: Any, places: Any, updates: Any) -> Any:
        return (places.read(*index),)

    @staticmethod
    def combine(current: Any, update: Any) -> Any:
        return tenon.maximum(current, update)


def test_of_operands_that_do_not_meet_the_wrong_one_is_named() -> None:
    integers, floats = np.arange(3), np.ones(3)
    with pytest.raises(ValueError, match=r"^tenon\.bitwise_and: dtype of y is f64 where one of i8"):
        tenon.bitwise_and(integers, floats)
    with pytest.raises(ValueError, match=r"^tenon\.shift_left: dtype of y is f32 where one of i8"):
        tenon.jit(lambda x: x << 1.5)(integers)
    with pytest.raises(ValueError, match=r"^several\.bin_maximum: operands meet in f64, and for places one of i8"):
        tenon.bin_maximum(floats, integers, floats)
