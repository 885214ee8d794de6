"""Prints and checks inside of compiled programs: on every target, in order, through every transformation."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from cuda_shim import COMPILER, run_on_shim
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import MemoryWriteEffect

import tenon
from tenon.runtime.executables import executable
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import lower_module

X = np.array([[1.0, -2.0], [0.5, 4.0]], np.float32)


def here() -> int:
    """The line after that of the call."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno + 1


def noisy(x: Any) -> Any:
    y = tenon.exp(x)
    tenon.debug.print("y = {}\nsum {total:.3f}", y, total=y.sum())
    z = y * 2
    tenon.debug.print("z[0] = {}", z[0])
    return z.sum()


def said(x: Any) -> str:
    y = np.exp(x)
    return f"y = {y}\nsum {y.sum():.3f}\nz[0] = {2 * y[0]}\n"


@pytest.mark.parametrize("interpret", [False, True])
def test_compiled_programs_print_as_numpy_does_at_every_call(interpret: bool, capsys: Any) -> None:
    function = tenon.jit(noisy)
    with knobs.override(interpret=interpret), np.printoptions(precision=3):
        function(np.ones((2, 2), np.float32))
        capsys.readouterr()
        for x in (X, X + 1, X):
            function(x)
            assert capsys.readouterr().out == said(x)


def test_a_program_from_the_disk_cache_prints(capsys: Any) -> None:
    for _ in range(2):
        tenon.jit(lambda x: noisy(x))(X)  # the second one is found there
        with np.printoptions(precision=8):
            assert capsys.readouterr().out.startswith("y = ")


@pytest.mark.skipif(COMPILER is None, reason="no g++")
def test_the_host_of_a_gpu_prints_and_checks(capsys: Any) -> None:
    traced = tenon.jit(noisy).trace(X)
    with np.printoptions(precision=3):
        (result,) = run_on_shim(lower_module(traced.module, "cuda"), [X])
        assert capsys.readouterr().out == said(X)
    np.testing.assert_allclose(result, 2 * np.exp(X).sum(), rtol=1e-6)

    def checked(x: Any) -> Any:
        return tenon.debug.check_finite(tenon.log(x), "its logarithm") + 1

    with pytest.raises(FloatingPointError, match=r"^its logarithm is nan at \[0, 1\], 1 of 4 elements of float32"):
        run_on_shim(lower_module(tenon.jit(checked).trace(X).module, "cuda"), [X])


def test_values_keep_their_dtypes(capsys: Any) -> None:
    values = [np.array([200], np.uint8), np.array([True]), np.array([1.5], np.float16), np.array(7, np.int64)]
    tenon.jit(lambda *v: tenon.debug.print("{} {} {} {:d}", *v) or v[0])(*values)
    assert capsys.readouterr().out == "[200] [ True] [1.5] 7\n"


def test_gradients_print_nothing_again(capsys: Any) -> None:
    def step(total: Any, x: Any) -> Any:
        tenon.debug.print("{}", x)
        tenon.cond(x > 0, lambda: tenon.debug.print("positive") or x, lambda: x)
        return total + tenon.checkpoint(lambda x: tenon.debug.print("once") or tenon.sin(x))(x), total

    def looped(x: Any) -> Any:
        return tenon.scan(step, tenon.asarray(np.float32(0)), x)[0]

    x = np.array([1, -2], np.float32)
    np.testing.assert_allclose(tenon.grad(looped)(x), np.cos(x), rtol=1e-6)
    assert capsys.readouterr().out == "1.0\npositive\nonce\n-2.0\nonce\n"
    _, slope = tenon.jvp(looped, (x,), (x,))
    np.testing.assert_allclose(slope, (x * np.cos(x)).sum(), rtol=1e-6)
    assert capsys.readouterr().out == "1.0\npositive\nonce\n-2.0\nonce\n"


def test_tensors_print_when_they_are_computed_and_not_in_backward(capsys: Any) -> None:
    x = tenon.tensor([1.0, 2.0], requires_grad=True)
    y = tenon.jit(lambda x: tenon.debug.print("within {}", x) or x * x)(x)
    tenon.debug.print("{} {:.1f}", y, y.sum())
    assert capsys.readouterr().out == "within [1. 2.]\n[1. 4.] 5.0\n"
    y.sum().backward()
    assert capsys.readouterr().out == ""
    assert x.grad.tolist() == [2.0, 4.0]


def test_vmap_prints_for_one_example_after_the_other(capsys: Any) -> None:
    tenon.vmap(lambda x: tenon.debug.print("first {}", x) or tenon.debug.print("then {}", x[0]) or x)(X)
    assert capsys.readouterr().out == "first [ 1. -2.]\nfirst [0.5 4. ]\nthen 1.0\nthen 0.5\n"


def test_vmap_refuses_effects_that_only_some_examples_reach() -> None:
    def chosen(x: Any) -> Any:
        return tenon.cond(x.sum() > 0, lambda: tenon.debug.print("{}", x) or x, lambda: -x)

    assert np.array_equal(tenon.jit(chosen)(X[0]), -X[0])
    with pytest.raises(TypeError, match=r"^debug\.print: has effects, and only some of the examples reach it in tenon"):
        tenon.vmap(chosen)(X)


def test_effects_stay_in_order_in_large_programs_and_are_not_merged(capsys: Any) -> None:
    def program(x: Any) -> Any:
        for i in range(30):
            x = tenon.tanh(x @ x)
            tenon.debug.print(f"{i} {{}}", x[0, 0])
            tenon.debug.print("same")
        return tenon.debug.print("same") or x

    tenon.jit(program)(X)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [w for i in range(30) for w in (str(i), "same")] + ["same"]


def test_dynamic_sizes_frozen_arguments_and_empty_arrays(capsys: Any) -> None:
    sized = tenon.jit(lambda x: tenon.debug.print("{}", x) or x * 2, dynamic={"x": ("n",)})
    for count in (3, 0, 2):
        assert sized(np.arange(count)).shape == (count,)
    assert capsys.readouterr().out == "[0 1 2]\n[]\n[0 1]\n"
    frozen = tenon.jit(lambda w, x: tenon.debug.print("{}", w @ w) or (w @ w) * x).freeze(X)
    for _ in range(2):
        frozen(X)
    assert capsys.readouterr().out == 2 * f"{X @ X}\n"


def test_bad_templates_and_values_are_refused_where_they_are_written() -> None:
    with pytest.raises(TypeError, match=r"^debug\.print: value 0 is a str, which is no array or number; write what"):
        tenon.debug.print("{}", "text")
    with pytest.raises(TypeError, match=r"^debug\.print: the template is a ndarray where a string is needed$"):
        tenon.debug.print(X)  # pyright: ignore[reportArgumentType]
    for template in ("{} {}", "{name}", "{1}"):
        with pytest.raises(IndexError, match=r"^debug\.print: the template asks for '.*' where there are 1 values, x$"):
            tenon.jit(lambda v, t=template: tenon.debug.print(t, v, x=v) or v)(X)


@pytest.mark.parametrize("interpret", [False, True])
def test_check_finite_names_line_value_and_place(interpret: bool) -> None:
    line = here()
    function = tenon.jit(lambda x: tenon.debug.check_finite(tenon.log(x), "loss").sum())
    with knobs.override(interpret=interpret):
        assert function(X * X) == pytest.approx(float(np.log(X * X).sum()), rel=1e-6)
        for _ in range(2):
            with pytest.raises(FloatingPointError) as caught:
                function(X)
            text = str(caught.value)
            assert text == f"loss is nan at [0, 1], 1 of 4 elements of float32 ({__file__}:{line})"
    assert function(X * X) == pytest.approx(float(np.log(X * X).sum()), rel=1e-6)


def test_check_finite_returns_what_it_is_given() -> None:
    x = tenon.tensor([1.0, 2.0], requires_grad=True)
    assert tenon.debug.check_finite(x) is x
    assert tenon.debug.check_finite(3) == 3
    assert tenon.debug.check_finite(np.inf, infinities=True) == np.inf
    with pytest.raises(FloatingPointError, match=r"^x is nan, a number of float64 \("):
        tenon.debug.check_finite(np.float64(np.nan), infinities=True)
    tenon.debug.check_finite(tenon.log(x) * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 + np.log([1.0, 2.0]), rtol=1e-6)


def test_nothing_is_printed_after_a_check_that_failed(capsys: Any) -> None:
    def function(x: Any) -> Any:
        tenon.debug.print("before")
        tenon.debug.check_finite(x)
        return tenon.debug.print("after") or x * 1

    with pytest.raises(FloatingPointError):
        tenon.jit(function)(np.array([np.nan]))
    assert capsys.readouterr().out == "before\n"


def test_every_op_is_checked_on_request() -> None:
    @tenon.jit
    def function(x: Any) -> Any:
        y = tenon.scan(lambda total, row: (total + tenon.log(row).sum(), row), x.sum(), tenon.exp(x))[0]
        return tenon.sqrt(y)

    function(X)
    with tenon.debug.check_results(), pytest.raises(FloatingPointError) as caught:
        function(np.array([[-200.0, 0.0]], np.float32))
    line = function.function.__code__.co_firstlineno + 2
    assert str(caught.value) == f"tenon.log is -inf at [0], 1 of 2 elements of float32 ({__file__}:{line})"
    with tenon.debug.check_results(infinities=True):
        with pytest.raises(FloatingPointError, match=r"^tenon\.sqrt is nan, a number of float32"):
            function(np.array([[-3.0, -3.0]], np.float32))
        tenon.log(tenon.tensor([0.0]))
    with tenon.debug.check_results(), pytest.raises(FloatingPointError, match=r"^tenon\.log is -inf at \[0\]"):
        tenon.log(tenon.tensor([0.0]))
    function(np.array([[-200.0, 0.0]], np.float32))


def test_anomalies_of_gradients_name_the_line_of_the_forward_pass() -> None:
    def loss(w: Any) -> Any:
        return (tenon.sqrt(w) * tenon.exp(w)).sum()

    bad, good = np.array([4.0, 0.0]), np.array([4.0, 1.0])
    line = loss.__code__.co_firstlineno + 1
    found = rf"^the gradient of tenon\.sqrt with respect to operand 0 is inf at \[1\].*test_debug\.py:{line}\)$"
    gradient = tenon.grad(loss)
    compiled = tenon.jit(gradient)
    for function in (gradient, compiled):
        assert np.isinf(function(bad)).any()
        with tenon.debug.detect_anomaly():
            function(good)
            with pytest.raises(FloatingPointError, match=found):
                function(bad)
        with tenon.debug.detect_anomaly(infinities=True):
            assert np.isinf(function(bad)).any()


def test_anomalies_of_a_tape_name_the_line_of_the_forward_pass() -> None:
    lines: list[str] = []
    for offset in (0.0, 1.0):
        w = tenon.tensor([4.0, -offset], requires_grad=True)
        # two lines, one tape: the program of the first must not name the wrong line for the second
        if offset:
            line, y = here() - 1, tenon.sqrt(w + offset)
        else:
            line, y = here() - 1, tenon.sqrt(w + offset)
        with (
            tenon.debug.detect_anomaly(),
            pytest.raises(FloatingPointError, match=r"^the gradient of tenon\.sqrt") as e,
        ):
            (y * 2).sum().backward()
        assert str(e.value).endswith(f"{__file__}:{line})")
        assert w.grad is None
        lines.append(str(e.value))
    assert lines[0] != lines[1]


@tenon.tensor_op
class TallyOp(tenon.HostOp):
    """The number of calls so far, and its operand."""

    name = "tests.tally"
    x = operand_def(tenon.FLOAT_TENSOR)
    count = result_def(tenon.INTEGER_TENSOR)
    copy = result_def(tenon.FLOAT_TENSOR)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return tenon.tensor_type((), tenon.element_type("i64")), operands[0]

    @staticmethod
    def reference(*operands: Any, **settings: Any) -> Any:
        CALLS.append(np.array(operands[0]))
        return np.array(len(CALLS)), operands[0] + 1


CALLS: list[Any] = []


@pytest.mark.parametrize("target", ["cpu", "interpret", "cuda"])
def test_a_host_op_of_a_user_gives_results(target: str) -> None:
    def function(x: Any) -> Any:
        first, y = tenon.tally(tenon.exp(x))
        second, _ = tenon.tally(tenon.exp(x))
        return second - first, tenon.log(y)

    CALLS.clear()
    traced = tenon.jit(function).trace(X)
    if target == "cuda":
        if COMPILER is None:
            pytest.skip("no g++")
        difference, y = run_on_shim(lower_module(traced.module, "cuda"), [X])
    else:
        with knobs.override(interpret=target == "interpret"):
            difference, y = executable(traced.module, "cpu").run([X])
    assert int(difference) == 1  # equal ops with effects are not merged
    assert len(CALLS) == 2
    np.testing.assert_allclose(y, np.log(np.exp(X) + 1), rtol=1e-6)


def test_a_number_between_tensors_keeps_its_dtype_in_backward() -> None:
    w = tenon.tensor([4.0, 1.0], requires_grad=True)
    (tenon.sqrt(w + 1.0) * 2).sum().backward()  # the sum is not read, and the number not either
    np.testing.assert_allclose(w.grad.numpy(), 1 / np.sqrt([5.0, 2.0]), rtol=1e-6)


def test_traced_functions_of_tensors_print_with_their_backward_pass_inside(capsys: Any) -> None:
    w = tenon.tensor([1.0, 2.0], requires_grad=True)

    @tenon.trace
    def step(x: Any) -> Any:
        loss = tenon.debug.check_finite((w * x).sum(), "loss")
        tenon.debug.print("loss {}", loss)
        loss.backward()
        gradient = w.grad
        w.grad = None
        return gradient

    for x in ([3.0, 4.0], [5.0, 4.0]):
        assert step(tenon.tensor(x)).tolist() == x
    assert capsys.readouterr().out == "loss 11.0\nloss 13.0\n"
    with pytest.raises(FloatingPointError, match=r"^loss is inf, a number of float32"):
        step(tenon.tensor([np.inf, 1.0]))
