"""`tenon.testing.check` finds faults that were put into ops, each by the check that is meant for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_shim import COMPILER, run_on_shim
from xdsl.irdl import opt_operand_def, traits_def, var_operand_def
from xdsl.traits import Pure

import tenon
from tenon import (
    ANY_TENSOR,
    FLOAT_TENSOR,
    NUMERIC_TENSOR,
    CompositeOp,
    Kernel,
    operand_def,
    result_def,
    setting,
    tensor_op,
)
from tenon.runtime.cpu.guarded_memory import MemoryCheckError
from tenon.testing import CheckError, Report, check

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
Y = np.array([[1.0, 0.5, -0.25], [2.0, -1.5, 0.75]])


def composite(decomposed: Callable[..., Any], **members: Any) -> Any:
    """An op of two operands."""

    @tensor_op
    class PlantedOp(tenon.CompositeOp):
        """An op with a fault."""

        name = "planted.composite"
        x = operand_def(FLOAT_TENSOR)
        y = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)
        decompose = staticmethod(decomposed)
        vjp = staticmethod(members.get("vjp", lambda g, out, x, y: (g * y, g * x)))

        @classmethod
        def batch(cls, size: int, batched: Any, /, *operands: Any, **settings: Any) -> Any:
            rule = members.get("batch")
            return NotImplemented if rule is None else rule(*operands)

    return PlantedOp


def elementwise(formula: Callable[..., Any], derivative: Callable[..., Any] | None = None) -> Any:
    """An op of one operand."""
    own = {} if derivative is None else {"vjp": staticmethod(derivative)}
    members = {
        "__doc__": "An op with a fault.",
        "__module__": __name__,
        "name": "planted.elementwise",
        "x": operand_def(FLOAT_TENSOR),
        "result": result_def(FLOAT_TENSOR),
        "scalar": staticmethod(formula),
        **own,
    }
    return tensor_op(type("ElementwisePlantedOp", (tenon.ElementwiseOp,), members))


def opaque(body: str, reference_: Callable[..., Any], needs: Callable[..., bool], kind: str = "double") -> Any:
    """An op with a kernel of LLVM text for `kind`: `body` is in a loop over elements `%v` at `%at`, for `%to`."""

    def text(symbol: str, types: Any, *_: Any) -> str:
        count = int(np.prod(types[0].get_shape()))
        return f"""
declare double @llvm.minnum.f64(double, double)
define void @{symbol}(ptr %x, ptr %out) {{
entry:
  %none = icmp eq i64 {count}, 0
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr {kind}, ptr %x, i64 %i
  %to = getelementptr {kind}, ptr %out, i64 %i
  %v = load {kind}, ptr %at
  %d = fadd {kind} %v, %v
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

    @tensor_op
    class OpaquePlantedOp(tenon.OpaqueOp):
        """Twice a number."""

        name = "planted.opaque"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)
        traits = traits_def(Pure(), tenon.CpuOnly())
        KERNELS = (Kernel("doubled", "llvm", text, needs),)

        @classmethod
        def infer(cls, x: Any) -> Any:
            return x

        @staticmethod
        def reference(x: Any) -> Any:
            return reference_(x)

    return OpaquePlantedOp


IS_F64 = lambda types, settings: types[0].element_type == tenon.element_type("f64")  # noqa: E731


def found(op: Any, *operands: Any, **options: Any) -> str:
    with pytest.raises(CheckError) as raised:
        check(op, *operands, **options)
    return str(raised.value)


# --- ops that agree -------------------------------------------------------------------------------


def test_ops_and_functions_that_agree_pass() -> None:
    report = check(tenon.softmax, X, reference=lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis, keepdims=True))
    assert isinstance(report, Report)
    assert report.compared["dtype"] == 3
    for name in ("text", "results", "layout", "no elements", "extremes", "jvp", "kinks", "cuda text"):
        assert report.compared[name], name
    check(tenon.concatenate, (X[:1], X[1:]), axis=0)
    check(tenon.argmax, X[0])
    check(lambda x, y: {"product": tenon.tanh(x) @ y}, X[0], X[1])


def test_several_operands_behind_one_that_may_be_absent() -> None:
    @tensor_op
    class TotalOp(CompositeOp):
        """`x` and `bias` and all of `others`."""

        name = "check.total"
        x = operand_def(FLOAT_TENSOR)
        bias = opt_operand_def(FLOAT_TENSOR)
        others = var_operand_def(FLOAT_TENSOR)
        scale = setting(float, default=2.0)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def decompose(x: Any, bias: Any, others: Any, *, scale: float) -> Any:
            return sum(others, x if bias is None else x + bias) * scale

    check(TotalOp, X, None, (X, X), reference=lambda x, _, others, scale=2.0: scale * sum(others, x))
    check(TotalOp, X, X[0], (), reference=lambda x, bias, _, scale=2.0: scale * (x + bias))
    np.testing.assert_allclose(TotalOp.apply(X, others=(X,), scale=1.0), 2 * X)


def test_operands_that_broadcast_already() -> None:
    report = check(tenon.add, np.ones((3, 4)), np.ones(4))
    assert report.compared["broadcasting"] == 2


@pytest.mark.skipif(COMPILER is None, reason="no g++")
def test_integers_repeated_operands_and_a_device() -> None:
    integers = np.array([[7, -3, 0], [1, 2, 100]])
    report = check(tenon.add, integers, integers[::-1].copy(), reference=np.add, device=run_on_shim)
    assert report.compared["broadcasting"] == 4
    assert report.compared["dtype"] >= 7
    assert report.compared["cuda"] == 1
    assert str(report).startswith("tenon.add: text 1, results 1, ")


def test_an_element_that_is_not_there_is_refused() -> None:
    def from_first(x: Any) -> Any:
        return tenon.scan(lambda c, v: (tenon.tanh(c + v), c), x[0], x)[1]

    report = check(from_first, X)
    assert any("index 0 is out of bounds for axis 0 of size 0" in each for each in report.left_out)


def test_what_is_refused_is_told() -> None:
    report = check(tenon.max, X, axis=1)
    assert any("no elements (dimensions of size 3 empty" in why for why in report.left_out)


def test_a_kernel_for_f32_alone() -> None:
    is_f32 = lambda types, settings: types[0].element_type == tenon.element_type("f32")  # noqa: E731
    doubled = opaque("  store float %d, ptr %to", lambda x: x + x, is_f32, "float")
    report = check(doubled, X.astype(np.float32))
    assert report.compared["results"] == 1
    assert any(why.startswith("gradient in f64 (") and "no kernel for llvm takes" in why for why in report.left_out)


def test_what_cannot_be_checked() -> None:
    with pytest.raises(TypeError, match=r"^check: a int is given where an op or a function is needed$"):
        check(3, X)
    with pytest.raises(TypeError, match=r"^check: tenon\.exp has 1 operands, and 2 are given$"):
        check(tenon.exp, X, X)


# --- faults ---------------------------------------------------------------------------------------


def test_fault_1_a_gradient_that_is_a_little_wrong() -> None:
    said = found(composite(lambda x, y: x * y, vjp=lambda g, out, x, y: (g * y, g * x * 1.001)), X, Y)
    assert said.startswith("planted.composite: gradient of operand 1 (as given: float64[2, 3], float64[2, 3]): [")
    assert "by the rules and" in said
    assert "gradient of operand 0" not in said


def test_fault_2_a_gradient_of_the_wrong_sign_through_jvp() -> None:
    said = found(composite(lambda x, y: x * y, vjp=lambda g, out, x, y: (-g * y, g * x)), X, Y)
    assert "planted.composite: gradient of operand 0" in said
    assert "planted.composite: jvp (as given" in said


def test_fault_3_no_gradient_where_one_is_promised() -> None:
    with pytest.raises(tenon.GradientError, match=r"^planted\.composite: vjp returns None where a tuple of 2"):
        check(composite(lambda x, y: x * y, vjp=lambda g, out, x, y: None), X, Y)


def test_fault_4_a_gradient_of_another_shape() -> None:
    with pytest.raises(tenon.GradientError, match=r"^planted\.composite: vjp gives a gradient of shape \(1, 3\) for x"):
        check(composite(lambda x, y: x * y, vjp=lambda g, out, x, y: (g[:1], None)), X, Y)


def test_fault_5_a_second_derivative_that_is_cut_off() -> None:
    rule = lambda g, out, x: g * tenon.stop_gradient(2 * x)  # noqa: E731
    said = found(elementwise(lambda x: x * x, rule), X)
    assert said.startswith("planted.elementwise: second derivative of operand 0")
    assert "is 0.0 by the rules" in said


def test_fault_6_a_gradient_outside_of_the_slopes_at_a_kink() -> None:
    rule = lambda g, out, x: tenon.select(x > 0, g, tenon.select(x < 0, -g, 5 * g))  # noqa: E731
    said = found(elementwise(lambda x: tenon.select(x > 0, x, -x), rule), X)
    assert said.startswith("planted.elementwise: kinks (zeros")
    assert "slopes are" in said


def test_fault_7_a_value_that_is_not_that_of_the_reference() -> None:
    said = found(elementwise(lambda x: tenon.exp(x) - 1.0), X, reference=lambda x: np.expm1(x) + 1e-9)
    assert said.startswith("planted.elementwise: reference (as given: float64[2, 3]): [")
    assert "compiled and" in said
    assert "of the reference" in said


def test_fault_8_a_value_that_is_wrong_in_one_dtype() -> None:
    narrow = lambda x: x * (2.0 if x.element_type != tenon.element_type("f32") else 2.001)  # noqa: E731
    said = found(elementwise(narrow), X, reference=lambda x: 2 * x)
    assert "planted.elementwise: reference (in float32" in said
    assert "(in float16" not in said


def test_fault_9_a_rule_for_examples_that_mixes_them() -> None:
    said = found(composite(lambda x, y: x * y, batch=lambda x, y: tenon.flip(x * y, axis=0)), X, Y)
    assert "planted.composite: vmap of operands (0, 1)" in said
    assert "for all examples and" in said


def test_fault_10_a_kernel_that_is_not_its_reference() -> None:
    said = found(opaque("  store double %d, ptr %to", lambda x: 3 * x, IS_F64), X)
    assert said.startswith("planted.opaque: results (as given: float64[2, 3]): ")
    assert "compiled and" in said


def test_fault_11_a_kernel_that_drops_nan() -> None:
    body = "  %m = call double @llvm.minnum.f64(double %d, double 8.0)\n  store double %m, ptr %to"
    said = found(opaque(body, lambda x: np.minimum(2 * x, 8.0), IS_F64), X)
    assert said.startswith("planted.opaque: extremes (nan in operand 0")
    assert "is 8.0 compiled and nan interpreted" in said


def test_fault_12_a_kernel_that_changes_its_operand() -> None:
    op = opaque("  store double %d, ptr %to\n  store double %d, ptr %at", lambda x: 2 * x, IS_F64)
    with pytest.raises(MemoryCheckError, match=r"input 0, float64\[2, 3\]: written to, though it is only read"):
        check(op, X)


def test_fault_13_a_kernel_that_takes_other_dtypes_than_it_says() -> None:
    said = found(opaque("  store double %d, ptr %to", lambda x: 2 * x, lambda *_: True), X)
    assert "planted.opaque: dtype (in float32" in said or "planted.opaque: dtype (in float16" in said


def test_fault_14_text_that_loses_a_setting() -> None:
    @tensor_op
    class ScaledOp(tenon.CompositeOp):
        """A product with a setting, which is not printed."""

        name = "planted.scaled"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)
        factor = tenon.setting(float, default=1.0)

        @staticmethod
        def decompose(x: Any, factor: float) -> Any:
            return x * factor

        def print(self, printer: Any) -> None:
            properties, self.properties = self.properties, {}
            super().print(printer)
            self.properties = properties

    with pytest.raises(CheckError, match=r"planted\.scaled: text .*: printed and parsed, its IR differs"):
        check(ScaledOp, X, factor=3.0)


def test_fault_15_a_result_of_another_dtype_than_declared() -> None:
    @tensor_op
    class PlaceOp(tenon.CompositeOp):
        """Where the largest entry is, declared as a float."""

        name = "planted.place"
        x = operand_def(ANY_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def decompose(x: Any) -> Any:
            return tenon.argmax(x)

    with pytest.raises(tenon.InferenceError, match=r"planted\.place: result is tensor<i64>, whose dtype is declared"):
        check(PlaceOp, X)


def test_fault_16_integers_that_saturate_in_one_form() -> None:
    @tensor_op
    class NextOp(tenon.HostOp):
        """The next integer, of which the function forgets that the last one has none."""

        name = "planted.next"
        x = operand_def(NUMERIC_TENSOR)
        result = result_def(NUMERIC_TENSOR)

        @classmethod
        def infer(cls, x: Any) -> Any:
            return x

        @staticmethod
        def reference(x: Any) -> Any:
            return (x.astype(np.float64) + 1).astype(x.dtype) if KEPT else x + 1

    KEPT: list[int] = []
    check(NextOp, np.array([1, 2]), gradient=False)
    KEPT.append(1)
    with pytest.raises(CheckError, match=r"planted\.next"):
        check(NextOp, np.array([2**53 + 1, 2]), gradient=False, reference=lambda x: x + 1)


def test_fault_17_a_function_that_remembers_its_first_call() -> None:
    def remembered(x: Any) -> Any:
        calls.append(1)
        return x * float(len(calls))

    calls: list[int] = []
    with pytest.raises(CheckError, match=r"remembered: (reference|dtype|layout|gradient|jvp|vmap)"):
        check(remembered, X, reference=lambda x: x)


@pytest.mark.parametrize(
    "op", [tenon.sort, tenon.median, lambda x: tenon.top_k(x, k=2)[0]], ids=["sort", "median", "top_k"]
)
def test_equal_elements_may_be_told_apart_by_their_places(op: Any) -> None:
    assert check(op, X).compared["kinks"] > 0
