"""What an op's rules give is checked when they are used; `test_check.py` has what only `tenon.testing.check` finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, f64

import tenon
from tenon import ANY_TENSOR, FLOAT_TENSOR, CompositeOp, IndexMapOp, UnaryOp, operand_def, result_def, tensor_op
from tenon.dialects.definition.scalar import convert
from tenon.dialects.definition.value import Value, emit

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def with_rule(rule: Callable[..., Any]) -> Any:
    """The function of an op, `x * y * scale` for `x` and one more operand, with the gradient `rule`."""

    @tensor_op
    class RuledOp(CompositeOp):
        """A product."""

        name = "op_rules.ruled"
        x = operand_def(FLOAT_TENSOR)
        y = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)
        vjp = staticmethod(rule)

        @staticmethod
        def decompose(x: Any, y: Any) -> Any:
            return x * y

    return RuledOp.apply


WRONG_RULES: dict[str, tuple[Callable[..., Any], str]] = {
    "no_return": (lambda g, out, x, y: None, "vjp returns None where a tuple of 2 gradients is needed"),
    "a_number": (lambda g, out, x, y: 1.0, "vjp returns a float where a tuple of 2 gradients is needed"),
    "one": (lambda g, out, x, y: (g * y,), "vjp gives 1 gradients for 2 operands"),
    "one_value": (lambda g, out, x, y: g * y, "vjp gives 1 gradients for 2 operands"),
    "array": (lambda g, out, x, y: (np.ones(3), None), "vjp gives a ndarray for x where a traced value or None"),
    "dtype": (lambda g, out, x, y: (g * y, x > 0), "vjp gives a gradient of dtype i1 for y, which is tensor<2x3xf64>"),
    "narrow": (lambda g, out, x, y: (tenon.cast(g, dtype="f32"), None), "vjp gives a gradient of dtype f32 for x, whi"),
    "summed": (lambda g, out, x, y: (tenon.sum(g), None), r"vjp gives a gradient of shape \(\) for x, which has sh"),
    "rows": (lambda g, out, x, y: (g[:1], None), r"vjp gives a gradient of shape \(1, 3\) for x, which has shape "),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_rules_that_give_no_gradients_are_named(name: str) -> None:
    rule, words = WRONG_RULES[name]
    function = with_rule(rule)
    with pytest.raises(tenon.GradientError, match=rf"^op_rules\.ruled: {words}.*test_op_rules\.py"):
        tenon.grad(lambda x, y: tenon.sum(function(x, y)), (0, 1))(X, X)


def test_rules_may_leave_out_gradients_and_sums() -> None:
    function = with_rule(lambda g, out, x, y: [g * y, None])
    slopes = tenon.grad(lambda x, y: tenon.sum(function(x, y)), (0, 1))(X[:1], X)
    np.testing.assert_allclose(slopes[0], X.sum(0, keepdims=True))
    np.testing.assert_array_equal(slopes[1], np.zeros_like(X))


def test_variadic_operands_have_as_many_gradients() -> None:
    @tensor_op
    class TotalOp(CompositeOp):
        """The sum of the operands."""

        name = "op_rules.total"
        parts = tenon.var_operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def decompose(parts: Any) -> Any:
            return parts[0] + parts[1]

        @staticmethod
        def vjp(g: Any, out: Any, parts: Any) -> Any:
            return ((g,),)

    with pytest.raises(tenon.GradientError, match=r"op_rules\.total: vjp gives 1 gradients for parts, which is 2 oper"):
        tenon.grad(lambda x: tenon.sum(TotalOp.apply((x, x))))(X)


def test_declared_results_are_kept_to() -> None:
    @tensor_op
    class LargestOp(CompositeOp):
        """Where the largest entry is, declared as a float."""

        name = "op_rules.largest"
        x = operand_def(FLOAT_TENSOR)
        place = result_def(FLOAT_TENSOR)

        @staticmethod
        def decompose(x: Any) -> Any:
            return tenon.argmax(x)

    words = r"op_rules\.largest: place is tensor<i64>, whose dtype is declared as one of f16, bf16, f32, f64"
    for call in (LargestOp.apply, tenon.jit(LargestOp.apply), tenon.jit(LargestOp.apply).trace):
        with pytest.raises(tenon.InferenceError, match=words):
            call(X)

    @tensor_op
    class PairOp(IndexMapOp):
        """One result, of which two types are inferred."""

        name = "op_rules.pair"
        x = operand_def(ANY_TENSOR)
        result = result_def(ANY_TENSOR)

        @staticmethod
        def infer(x: Any) -> Any:
            return x, x

        @staticmethod
        def source(index: Any, shape: Any, /) -> Any:
            return index

    with pytest.raises(tenon.InferenceError, match=r"op_rules\.pair: 2 results \(.*\) are inferred where 1 are declar"):
        PairOp.apply(X)


def test_bodies_that_convert_elements_have_gradients() -> None:
    @tensor_op
    class WideOp(UnaryOp):
        """The square of `x`, computed in f64."""

        name = "op_rules.wide"

        @staticmethod
        def scalar(x: Any) -> Any:
            wide = convert(x, f64)
            return convert(wide * wide, f32)

    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(tenon.grad(lambda x: tenon.sum(WideOp.apply(x)))(x), 2 * x)


def test_bodies_that_lose_what_is_a_tensor_have_no_gradient() -> None:
    @tensor_op
    class ScalarsOp(UnaryOp):
        """The square of `x`, computed in f64 by an op of scalars."""

        name = "op_rules.scalars"

        @staticmethod
        def scalar(x: Any) -> Any:
            wide = Value(emit(arith.ExtFOp(x.ssa, f64)).results[0])
            return convert(wide * wide, f32)

    with pytest.raises(tenon.GradientError, match=r"op_rules\.scalars: scalar makes a scalar of tensors.*or define"):
        tenon.grad(lambda x: tenon.sum(ScalarsOp.apply(x)))(np.ones(4, np.float32))
