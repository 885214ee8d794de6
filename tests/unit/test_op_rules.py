"""What an op's rules give is checked when they are used, and `tenon.testing.check_op` finds rules that disagree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import ANY_TENSOR, FLOAT_TENSOR, CompositeOp, IndexMapOp, operand_def, result_def, tensor_op
from tenon.testing import check_op

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


# --- the checker ----------------------------------------------------------------------------------


def test_ops_that_agree_pass() -> None:
    check_op(tenon.softmax, X)
    check_op(tenon.matmul, X.astype(np.float32), X.T.astype(np.float32))
    check_op(tenon.gather, X, np.array([1, 0, 1]), axis=1)
    check_op(tenon.concatenate, (X, X[:1]), axis=0)
    check_op(tenon.split, X, sections=3, axis=1)
    check_op(tenon.argmax, X, axis=1)
    check_op(with_rule(lambda g, out, x, y: (g * y, g * x)).__self__, X, X[:1])


def test_a_wrong_gradient_is_found() -> None:
    op = with_rule(lambda g, out, x, y: (g * y, g * x * 1.001)).__self__
    with pytest.raises(AssertionError, match=r"op_rules\.ruled: gradient of operand 1 and central differences"):
        check_op(op, X, X)
    with pytest.raises(tenon.GradientError, match=r"op_rules\.ruled: vjp returns None"):
        check_op(with_rule(lambda g, out, x, y: None).__self__, X, X)


def test_a_wrong_rule_for_examples_is_found() -> None:
    @tensor_op
    class ReversedOp(IndexMapOp):
        """The rows in reverse order; its rule reverses the examples, too."""

        name = "op_rules.reversed"
        x = operand_def(ANY_TENSOR)
        result = result_def(ANY_TENSOR)

        @staticmethod
        def infer(x: Any) -> Any:
            return x

        @staticmethod
        def source(index: Any, shape: Any, /) -> Any:
            return (shape[0] - 1 - index[0], *index[1:])

        @staticmethod
        def batch(size: Any, batched: Any, x: Any) -> Any:
            return tenon.flip(x, axis=(0, 1))

    with pytest.raises(AssertionError, match=r"op_rules\.reversed: result 0 for many examples of operands \(0,\)"):
        check_op(ReversedOp, X)


def test_kernels_that_differ_from_their_reference_are_found() -> None:
    def doubled(symbol: str, *_: Any) -> str:
        return (
            f"define void @{symbol}(ptr %x, ptr %out) {{\n"
            "  %v = load double, ptr %x\n  %d = fadd double %v, %v\n  store double %d, ptr %out\n  ret void\n}\n"
        )

    @tensor_op
    class TripledOp(tenon.OpaqueOp):
        """Three times a number; its kernel gives two times."""

        name = "op_rules.tripled"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)
        KERNELS = (tenon.Kernel("doubled", "llvm", doubled),)

        @classmethod
        def infer(cls, x: Any) -> Any:
            return x

        @staticmethod
        def reference(x: Any) -> Any:
            return 3 * x

    with pytest.raises(AssertionError, match=r"op_rules\.tripled: result 0, compiled and interpreted"):
        check_op(TripledOp, np.float64(1.5))


def test_only_ops_are_checked() -> None:
    with pytest.raises(TypeError, match="check_op: a function is given where an op or its class is needed"):
        check_op(lambda x: x, X)
    with pytest.raises(TypeError, match=r"check_op: tenon.exp has 1 operands, and 2 are given"):
        check_op(tenon.exp, X, X)
