"""`cond`, `while_loop` and `scan`: results, gradients, text form, errors."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pytest
from test_transform import assert_gradients, doubles
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

import tenon
from tenon.runtime.lower import new_context

# --- cond -----------------------------------------------------------------------------------------


def test_cond_takes_one_branch() -> None:
    choose = tenon.jit(lambda p, x: tenon.cond(p, lambda x: {"y": x * 2.0}, lambda x: {"y": x - 1.0}, x))
    x = doubles(3)
    np.testing.assert_array_equal(choose(True, x)["y"], x * 2)
    np.testing.assert_array_equal(choose(False, x)["y"], x - 1)


def test_cond_at_once_and_on_numbers() -> None:
    assert float(tenon.cond(np.bool_(True), lambda: 1.0, lambda: 2.0)) == 1.0
    assert float(tenon.cond(0, lambda: 1.0, lambda: 2.0)) == 2.0


@pytest.mark.parametrize("value", [-0.7, 0.9])
def test_gradient_of_cond_with_captured_values(value: float) -> None:
    def loss(x: Any, w: Any) -> Any:
        y = tenon.sin(w) * x
        return tenon.cond(x > 0, lambda: tenon.sum(y * w), lambda: tenon.sum(tenon.exp(w)) * x)

    assert_gradients(loss, np.array(value), doubles(3))


def test_nested_cond() -> None:
    def sign(x: Any) -> Any:
        return tenon.cond(x > 0, lambda: 1, lambda: tenon.cond(x < 0, lambda: -1, lambda: 0))

    assert [int(tenon.jit(sign)(v)) for v in (-2.0, 0.0, 3.0)] == [-1, 0, 1]


# --- while_loop -----------------------------------------------------------------------------------


def test_while_loop_carries_a_tree() -> None:
    @tenon.jit
    def power_of_two_above(limit: Any) -> Any:
        return tenon.while_loop(
            lambda s: s["n"] < limit, lambda s: {"n": s["n"] * 2, "steps": s["steps"] + 1}, {"n": 1, "steps": 0}
        )

    result = power_of_two_above(1000)
    assert (int(result["n"]), int(result["steps"])) == (1024, 10)
    assert int(power_of_two_above(0)["steps"]) == 0


def test_while_loop_on_tensors() -> None:
    x = np.abs(doubles(4, 3)) + 0.1
    expected = x.copy()
    while expected.sum() < 1000:
        expected = expected * 1.5
    result = tenon.jit(lambda x: tenon.while_loop(lambda v: tenon.sum(v) < 1000.0, lambda v: v * 1.5, x))(x)
    np.testing.assert_allclose(result, expected)


def test_while_loop_has_no_gradient() -> None:
    with pytest.raises(TypeError, match=r"while_loop: has no reverse-mode gradient.*use tenon.scan \(.*py:\d+\)"):
        tenon.grad(lambda x: tenon.while_loop(lambda v: v < 10.0, lambda v: v * 2.0, x))(1.0)


def test_while_loop_that_the_gradient_does_not_reach() -> None:
    def loss(x: Any) -> Any:
        n = tenon.while_loop(lambda n: n < 10, lambda n: n * 2, 1)
        return x * tenon.cast(n, dtype="f64")

    assert float(tenon.grad(loss)(np.float64(1.0))) == 16.0


# --- scan -----------------------------------------------------------------------------------------


def reference_scan(body: Any, carry: Any, xs: np.ndarray, reverse: bool) -> tuple[Any, np.ndarray]:
    outputs: dict[int, Any] = {}
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry, outputs[i] = body(carry, xs[i])
    return carry, np.stack([outputs[i] for i in range(len(xs))])


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_agrees_with_a_loop(reverse: bool) -> None:
    def body(c: Any, x: Any) -> Any:
        return c * 0.5 + x, c - x

    c, xs = doubles(3), doubles(5, 3, seed=1)
    carry, outputs = tenon.jit(lambda c, xs: tenon.scan(body, c, xs, reverse=reverse))(c, xs)
    expected = reference_scan(body, c, xs, reverse)
    np.testing.assert_allclose(carry, expected[0])
    np.testing.assert_allclose(outputs, expected[1])


def test_scan_over_trees_with_an_integer_carried() -> None:
    def body(carry: Any, item: Any) -> Any:
        n, total = carry
        return (n + 1, total + item["x"] * tenon.cast(n, dtype="f64")), (n, {"twice": item["x"] * 2.0})

    xs = doubles(4, 2)
    (n, total), (counts, doubled) = tenon.scan(body, (0, np.zeros(2)), {"x": xs})
    assert int(n) == 4
    np.testing.assert_allclose(total, (xs * np.arange(4)[:, None]).sum(0))
    np.testing.assert_array_equal(counts, np.arange(4))
    np.testing.assert_array_equal(doubled["twice"], xs * 2)


def test_scan_by_length_alone_and_without_steps() -> None:
    carry, outputs = tenon.scan(lambda c, _: (c * 2, c), 1, None, 6)
    assert int(carry) == 64
    assert outputs.tolist() == [1, 2, 4, 8, 16, 32]
    carry, outputs = tenon.scan(lambda c, x: (c + x, x), np.float64(3.0), np.zeros(0))
    assert float(carry) == 3.0
    assert outputs.shape == (0,)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradient_of_scan(reverse: bool) -> None:
    def loss(c: Any, xs: Any, w: Any) -> Any:
        carry, outputs = tenon.scan(lambda c, x: (tenon.tanh(c @ w) + x, tenon.sum(c * x)), c, xs, reverse=reverse)
        return tenon.sum(carry * carry) + tenon.sum(tenon.sin(outputs))

    assert_gradients(loss, doubles(3), doubles(4, 3, seed=1), doubles(3, 3, seed=2))


def test_gradient_of_scan_with_integers_and_unused_parts() -> None:
    def loss(c: Any, xs: Any) -> Any:
        (_, carry), (_, outputs) = tenon.scan(
            lambda s, x: ((s[0] + 1, s[1] * x + tenon.cast(s[0], dtype="f64")), (s[0], s[1])), (0, c), xs
        )
        return carry + outputs[2]

    assert_gradients(loss, np.array(0.7), doubles(5))


def test_gradient_of_nested_scan() -> None:
    def loss(x: Any, table: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner, _ = tenon.scan(lambda a, b: (a * b + tenon.sin(a) + x, None), c, row)
            return inner, inner * x

        carry, outputs = tenon.scan(outer, x, table)
        return carry + tenon.sum(outputs)

    assert_gradients(loss, np.array(0.3), doubles(3, 2))


def test_gradient_of_scan_of_cond() -> None:
    def loss(x: Any, xs: Any) -> Any:
        carry, _ = tenon.scan(lambda c, a: (tenon.cond(a > 0, lambda: c * a * x, lambda: c - a), None), x, xs)
        return carry

    assert_gradients(loss, np.array(1.3), doubles(6))


def test_second_order_through_scan() -> None:
    xs = doubles(4)

    def slope(x: Any) -> Any:
        return tenon.grad(lambda x: tenon.scan(lambda c, a: (tenon.sin(c * a) + x, None), x, xs)[0])(x)

    assert_gradients(slope, np.array(0.4))


def test_jvp_through_scan_and_cond() -> None:
    def function(x: Any) -> Any:
        y = tenon.cond(x > 0, lambda: x * x, lambda: -x)
        return tenon.scan(lambda c, a: (c * y + a, c), y, np.arange(3.0))[0]

    step = 1e-6
    expected = (tenon.jit(function)(0.8 + step * np.ones(())) - tenon.jit(function)(0.8 - step * np.ones(()))) / (
        2 * step
    )
    _, tangent = tenon.jvp(function, (np.array(0.8),), (np.ones(()),))
    assert float(tangent) == pytest.approx(float(expected), rel=1e-6)


def test_gradients_interpreted() -> None:
    with tenon.knobs.override(interpret=True):
        test_gradient_of_scan_of_cond()


# --- errors of the functions ----------------------------------------------------------------------


def test_errors_of_cond() -> None:
    x = doubles(3)
    with pytest.raises(TypeError, match=r"cond: predicate has shape \(3,\) where a scalar is needed"):
        tenon.cond(x > 0, lambda: 1.0, lambda: 2.0)
    with pytest.raises(TypeError, match=r"cond: result y is tensor<3xf64> in one branch and tensor<f64> in the other"):
        tenon.cond(True, lambda x: {"y": x}, lambda x: {"y": tenon.sum(x)}, x)
    with pytest.raises(TypeError, match=r"cond: the branches return different trees: \(0, 1\) and \(value\)"):
        tenon.cond(True, lambda: (1, 2), lambda: 1)


def test_errors_of_while_loop() -> None:
    with pytest.raises(TypeError, match=r"while_loop: condition returns \(tensor<f32>\) where tensor<i1> is needed"):
        tenon.while_loop(lambda v: v, lambda v: v, 1.0)
    with pytest.raises(TypeError, match="while_loop: value is tensor<i64> before the body and tensor<f32> after it"):
        tenon.while_loop(lambda v: v < 3, lambda v: v * 1.5, 1)
    with pytest.raises(TypeError, match=r"while_loop: body returns the tree \(0, 1\) where \(value\) is carried"):
        tenon.while_loop(lambda v: v < 3, lambda v: (v, v), 1)


def test_errors_of_scan() -> None:
    xs = doubles(4, 2)
    with pytest.raises(TypeError, match=r"scan: body must return \(carry, output\)"):
        tenon.scan(lambda c, x: c, 0.0, xs)
    with pytest.raises(TypeError, match="scan: carry value is tensor<f32> before the body and tensor<2xf64> after it"):
        tenon.scan(lambda c, x: (c + x, None), 0.0, xs)
    with pytest.raises(ValueError, match="scan: lengths differ: a has 4, b has 3"):
        tenon.scan(lambda c, x: (c, None), 0.0, {"a": xs, "b": xs[:3]})
    with pytest.raises(ValueError, match="scan: length is -1, which is negative"):
        tenon.scan(lambda c, _: (c, c), np.ones(2), None, length=-1)
    with pytest.raises(TypeError, match="scan: length is needed when there are no sequences"):
        tenon.scan(lambda c, x: (c, None), 0.0)
    with pytest.raises(TypeError, match="scan: a sequence has rank 0, so it has no slices"):
        tenon.scan(lambda c, x: (c, None), 0.0, 1.0)


def test_value_of_a_branch_is_not_to_be_used_outside() -> None:
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        tenon.cond(x > 0, lambda: kept.append(x * 2.0) or 1.0, lambda: 2.0)
        return kept[0] + 1.0

    with pytest.raises(
        tenon.TracedValueError, match=r"traced in another function, branch or step.*test_control_flow.py:\d+"
    ):
        tenon.jit(leak)(1.0)


# --- text form ------------------------------------------------------------------------------------

TEXT = """\
builtin.module {
  func.func @main(%p: tensor<i1>, %x: tensor<3xf32>, %xs: tensor<5x3xf32>, %n: tensor<i64>) \
-> (tensor<3xf32>, tensor<i64>, tensor<5x3xf32>, tensor<i64>) {
    %0 = tenon.cond %p -> (tensor<3xf32>) {
      tenon.yield %x : tensor<3xf32>
    } else {
      %1 = tenon.negative %x : tensor<3xf32> -> tensor<3xf32>
      tenon.yield %1 : tensor<3xf32>
    }
    tenon.cond %p -> () attributes {note = "nothing"} {
      tenon.yield
    } else {
      tenon.yield
    }
    %2 = tenon.while_loop init(%n : tensor<i64>) {
    ^bb0(%3: tensor<i64>):
      %4 = tenon.less %3, %n : tensor<i64>, tensor<i64> -> tensor<i1>
      tenon.yield %4 : tensor<i1>
    } do {
    ^bb0(%5: tensor<i64>):
      tenon.yield %5 : tensor<i64>
    }
    %6, %7 = tenon.scan init(%0 : tensor<3xf32>) slices(%xs : tensor<5x3xf32>) length 5 reverse \
-> (tensor<3xf32>, tensor<5x3xf32>) {
    ^bb0(%8: tensor<3xf32>, %9: tensor<3xf32>):
      %10 = tenon.add %8, %9 : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
      tenon.yield %10, %8 : tensor<3xf32>, tensor<3xf32>
    }
    %11 = tenon.scan init(%n : tensor<i64>) length 2 -> (tensor<i64>) {
    ^bb0(%12: tensor<i64>):
      tenon.yield %12 : tensor<i64>
    }
    func.return %6, %2, %7, %11 : tensor<3xf32>, tensor<i64>, tensor<5x3xf32>, tensor<i64>
  }
}"""


def parsed(text: str) -> ModuleOp:
    module = Parser(new_context(), text).parse_module()
    module.verify()
    return module


def test_text_round_trip() -> None:
    assert str(parsed(TEXT)) == TEXT


def test_generic_text_round_trip() -> None:
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(parsed(TEXT))
    assert '"tenon.scan"' in stream.getvalue()
    assert str(parsed(stream.getvalue())) == TEXT


def test_traced_programs_round_trip() -> None:
    def function(x: Any, xs: Any) -> Any:
        return tenon.grad(
            lambda x: tenon.scan(lambda c, a: (tenon.cond(a > 0, lambda: c * a, lambda: c), c), x, xs)[0]
        )(x)

    text = str(tenon.jit(function).trace(1.0, np.ones(3, np.float32)))
    assert text.count("tenon.scan") == 2
    assert str(parsed(text)) == text


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("cond %p ->", "cond %n ->", "operand is used with type tensor<i1>"),
        ("} else {\n      %1", "} otherwise {\n      %1", "Expected 'else'"),
        ("length 5 reverse", "reverse", "Expected 'length'"),
        ("init(%n : tensor<i64>) {", "init(%n) {", "Expected ':'"),
    ],
)
def test_syntax_errors(before: str, after: str, message: str) -> None:
    assert before in TEXT
    with pytest.raises(ParseError, match=message):
        parsed(TEXT.replace(before, after, 1))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "tenon.yield %x : tensor<3xf32>",
            "tenon.yield %n : tensor<i64>",
            "then yields tensor<i64> as value 0 where tensor<3xf32> is",
        ),
        ("tenon.yield %x : tensor<3xf32>", "tenon.yield", "tenon.cond: then yields 0 values where 1 are needed"),
        (
            "tenon.yield %4 : tensor<i1>",
            "tenon.yield %3 : tensor<i64>",
            "condition yields tensor<i64> as value 0 where tensor<i1>",
        ),
        (
            "^bb0(%5: tensor<i64>):",
            "^bb0(%5: tensor<i64>, %55: tensor<i1>):",
            r"body takes \(tensor<i64>, tensor<i1>\) where",
        ),
        ("length 5 reverse", "length 4 reverse", r"sequence 0 has shape \(5, 3\) where 4 slices are needed"),
        ("length 2 -> (tensor<i64>)", "length -2 -> (tensor<i64>)", "length is -2, which is negative"),
        ("tenon.yield %10, %8 :", "tenon.yield %10, %p :", None),
    ],
)
def test_verify_errors(before: str, after: str, message: str | None) -> None:
    assert before in TEXT
    with pytest.raises((VerifyException, ParseError), match=message or "tensor<i1>"):
        parsed(TEXT.replace(before, after, 1))


def test_results_of_another_type_than_what_is_carried() -> None:
    text = TEXT.replace("length 2 -> (tensor<i64>)", "length 2 -> (tensor<i32>)").replace("%7, %11 :", "%7, %2 :")
    with pytest.raises(VerifyException, match=r"tenon.scan: results and carried values differ in type"):
        parsed(text)
    text = TEXT.replace("reverse -> (tensor<3xf32>, tensor<5x3xf32>)", "reverse -> (tensor<3xf32>, tensor<4x3xf32>)")
    with pytest.raises(VerifyException, match="output 0 is tensor<4x3xf32> where a first dimension of 5 is needed"):
        parsed(text.replace("%6, %2, %7, %11 :", "%6, %2, %xs, %11 :"))


def test_copies_print_the_same() -> None:
    assert str(parsed(TEXT).clone()) == TEXT
