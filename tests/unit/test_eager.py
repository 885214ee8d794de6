"""Ops called on arrays, outside of any trace."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.runtime import evaluate
from tenon.runtime.call.entry import ACTIVE
from tenon.runtime.jit import JitFunction


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_functions_run_at_once() -> None:
    x = floats(4, 3)
    np.testing.assert_allclose(tenon.exp(x), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(tenon.softmax(x, axis=0).sum(0), np.ones(3), rtol=1e-6)
    assert isinstance(tenon.exp(x), np.ndarray)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ops on arrays trace in a test, where nothing is known of the calls of others; see `new_function`."""
    found: list[str] = []
    original = evaluate.trace
    monkeypatch.setattr(evaluate, "trace", lambda *args, **named: (found.append("trace"), original(*args, **named))[1])
    monkeypatch.setattr(evaluate, "_COMPILED", BoundedCache(16))
    monkeypatch.setattr(evaluate, "_CALLS", BoundedCache(16))
    return found


def new_function(name: str) -> Any:
    """The function of an op, without the native calls that others made of the one that users find."""
    return evaluate.ArrayFunction(getattr(tenon, name)._function)


def test_one_executable_per_signature(traced: list[str]) -> None:
    x, total = floats(2, 3), new_function("sum")
    for array in (x, x + 1, x.T.copy().T):
        total(array, axis=1)
    assert len(traced) == 1
    total(x, axis=0)
    total(x.astype(np.float64), axis=1)
    total(floats(4, 3), axis=1)
    assert len(traced) == 4


def test_elementwise_ops_are_compiled_for_all_sizes_after_two(traced: list[str]) -> None:
    add = new_function("add")
    for size in (5, 6, 7, 8, 1000):
        x = floats(size, 3)
        np.testing.assert_array_equal(add(x, x[:, :1]), x + x[:, :1])
    assert len(traced) == 2
    # one in so many native calls is counted
    for _ in range(20 * evaluate._CALLS_OF_ANY_SIZES):  # the sizes that come again get a program of their own
        np.testing.assert_array_equal(add(x, x[:, :1]), x + x[:, :1])
    assert len(traced) == 3
    square = floats(3, 3)  # sizes that are equal may mean another result: these are calls of another kind
    np.testing.assert_array_equal(add(square, square[0]), square + square[0])
    assert len(traced) == 4


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, traced: list[str]) -> list[str]:
    """The calls of ops that Python serves; what they trace is in `traced`."""
    found: list[str] = []
    original = evaluate._compiled
    monkeypatch.setattr(evaluate, "_compiled", lambda *args: (found.append("op"), original(*args))[1])
    return found


def test_few_calls_of_ever_new_sizes_are_counted(asked: list[str], traced: list[str]) -> None:
    square, x = new_function("square"), floats(4000)
    for size in range(1000, 4000):
        np.testing.assert_array_equal(square(x[:size]), x[:size] * x[:size])
    assert len(traced) == 2
    assert len(asked) < 20


def test_sizes_that_take_turns_are_native(asked: list[str], traced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """More sizes than entries are looked through have programs of their own: the one for all serves the others."""
    monkeypatch.setattr(evaluate, "_OFTEN", 1)
    negative, x, count = new_function("negative"), floats(100), ACTIVE + 8
    sizes = range(50, 50 + count)
    for _ in range(100 * evaluate._CALLS_OF_ANY_SIZES):
        if len(traced) == 1 + count:
            break
        for size in sizes:
            np.testing.assert_array_equal(negative(x[:size]), -x[:size])
    assert len(traced) == 1 + count
    asked.clear()
    for size in (*sizes,) * 20:
        np.testing.assert_array_equal(negative(x[:size]), -x[:size])
    assert len(asked) <= 20 * count // evaluate._CALLS_OF_ANY_SIZES + 2


@pytest.mark.parametrize("name", ["matmul", "sum", "softmax", "layer_norm", "cumsum", "concatenate"])
def test_ops_of_all_families_are_compiled_for_all_sizes(name: str, traced: list[str]) -> None:
    function = new_function(name)

    def check(rows: int, columns: int) -> None:
        x = floats(rows, columns)
        given = {
            "matmul": (x, floats(columns, 2 * rows + columns, seed=1)),
            "layer_norm": (x, floats(columns, seed=1), floats(columns, seed=2)),
            "concatenate": ((x, floats(2 * rows + columns, columns, seed=1)),),
        }.get(name, (x,))
        expected = tenon.jit(lambda *args: function(*args))(*given)
        before = len(traced)
        for _ in range(3):
            np.testing.assert_allclose(function(*given), expected, rtol=1e-4, atol=1e-5)
        compiled.append(len(traced) - before)

    compiled: list[int] = []
    for rows, columns in ((2, 3), (4, 5), (5, 7), (6, 9), (20, 45)):
        check(rows, columns)
    assert compiled == [1, 1, 0, 0, 0]
    for rows, columns in ((1, 4), (4, 1), (3, 3)):
        check(rows, columns)


@pytest.mark.parametrize("name", ["exp", "tanh", "gelu", "erf", "pow", "fmod", "arctan2", "lgamma", "add"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_programs_for_all_sizes_give_the_same_bits(name: str, dtype: str) -> None:
    function = getattr(tenon, name)
    count = 2 if name in ("pow", "fmod", "arctan2", "add") else 1
    for size in (5, 17, 1003):
        arrays = [abs(floats(size, seed=n)).astype(dtype) * 3 for n in range(count)]
        np.testing.assert_array_equal(function(*arrays), tenon.jit(lambda *x: function(*x))(*arrays), strict=True)


def test_settings_of_code_hold_for_what_was_compiled_before() -> None:
    x = np.linspace(-5.0, 5.0, 1001, dtype=np.float32)
    fast = tenon.exp(x)
    with tenon.knobs.override(exact_math="exp"):
        exact = tenon.exp(x)
    np.testing.assert_array_equal(exact, np.exp(x.astype(np.float64)).astype(np.float32))
    assert (fast != exact).any()
    np.testing.assert_array_equal(tenon.exp(x), fast)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [("f4", 2, "f4"), ("f8", 2.5, "f8"), ("i4", 2, "i4"), ("i4", 2.5, "f4"), ("?", 2, "i8"), ("f2", 1.5, "f2")],
)
def test_numbers_adopt_the_dtype_of_arrays(dtype: str, number: float, expected: str) -> None:
    x = np.ones(3, dtype)
    assert tenon.multiply(x, number).dtype == np.dtype(expected)
    assert tenon.jit(lambda x: x * number)(x).dtype == np.dtype(expected)


def test_numbers_alone() -> None:
    assert tenon.add(1, 2) == 3
    assert tenon.add(1, 2).dtype == np.int64
    assert tenon.exp(1.0).dtype == np.float32


def test_several_results() -> None:
    values, indices = tenon.max(floats(3, 5), axis=1), tenon.argmax(floats(3, 5), axis=1)
    np.testing.assert_array_equal(values, floats(3, 5).max(1))
    np.testing.assert_array_equal(indices, floats(3, 5).argmax(1))


def test_variadic_and_optional_operands() -> None:
    x, y = floats(2, 3), floats(4, 3, seed=1)
    np.testing.assert_array_equal(tenon.concat((x, y), axis=0), np.concatenate([x, y]))
    np.testing.assert_allclose(tenon.layer_norm(x).mean(-1), np.zeros(2), atol=1e-6)


def test_lists_are_arrays() -> None:
    assert tenon.add([1.0, 2.0], np.array([1.0, 1.0])).tolist() == [2.0, 3.0]


def test_creation_gives_arrays_outside_of_a_trace() -> None:
    for made, expected in (
        (tenon.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (tenon.ones(3, "i32"), np.ones(3, np.int32)),
        (tenon.full((2,), 7, "i8"), np.full(2, 7, np.int8)),
        (tenon.full_like(np.ones(2), 3), np.full(2, 3.0)),
        (tenon.asarray([1.0, 2.0]), np.array([1, 2], np.float32)),
        (tenon.asarray([1, 2]), np.array([1, 2])),
        (tenon.asarray(np.arange(3), dtype="f64"), np.arange(3.0)),
    ):
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected)
    tenon.zeros(2)[:] = 1  # each call gives an array of its own
    np.testing.assert_array_equal(tenon.zeros(2), np.zeros(2))


def test_creation_gives_constants_inside_of_a_trace() -> None:
    text = str(tenon.jit(lambda x: x + tenon.full((3,), 2.5) + tenon.asarray([1.0, 2.0, 3.0])).trace(floats(3)))
    assert "dense<2.500000e+00> : tensor<3xf32>" in text
    assert "dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>" in text


def test_methods_and_operators_on_traced_values() -> None:
    x, y = floats(3, 3), floats(3, 3, seed=1)

    def everything(x: Any, y: Any) -> Any:
        return x.exp(), x.sum(axis=0), x.T @ y, -abs(x), (x > y) & ~(x > 1), x[1:, ::2], x.astype("f64"), 1 - x / y

    expected = np.exp(x), x.sum(0), x.T @ y, -abs(x), (x > y) & ~(x > 1), x[1:, ::2], x.astype("f8"), 1 - x / y
    for result, value in zip(tenon.jit(everything)(x, y), expected, strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)


def test_op_that_is_defined_again_is_compiled_again() -> None:
    def define(factor: float) -> None:
        @tenon.tensor_op
        class ScaledOp(tenon.ElementwiseOp):
            """`x` times a number."""

            name = "eager.scaled"
            x = tenon.operand_def(tenon.FLOAT_TENSOR)
            result = tenon.result_def(tenon.FLOAT_TENSOR)

            @staticmethod
            def scalar(x: Any) -> Any:
                return x * factor

    x = floats(4)
    for factor in (2.0, 3.0):
        define(factor)
        np.testing.assert_array_equal(tenon.scaled(x), x * np.float32(factor))
        np.testing.assert_array_equal(tenon.jit(lambda x: tenon.scaled(x))(x), x * np.float32(factor))


def test_unknown_function() -> None:
    with pytest.raises(AttributeError, match="module 'tenon' has no attribute and no op 'no_such_op'"):
        tenon.no_such_op  # noqa: B018
    assert "exp" in dir(tenon)
    assert "jit" in dir(tenon)
    assert "gc" not in dir(tenon)


def test_all_names_at_once() -> None:
    """But for those that Python has itself."""
    names: dict[str, object] = {}
    exec("from tenon import *", names)
    assert names["tensor_op"] is tenon.tensor_op
    assert names["softmax"] is tenon.softmax
    assert not {"int", "sum", "max", "gc"} & names.keys()


def test_interpreted() -> None:
    x = floats(3)
    with tenon.knobs.override(interpret=True):
        np.testing.assert_allclose(tenon.sinh(x), np.sinh(x), rtol=1e-6)


def test_jit_function_is_what_jit_makes() -> None:
    assert isinstance(tenon.jit(tenon.exp), JitFunction)
    np.testing.assert_allclose(tenon.jit(tenon.exp)(floats(2)), np.exp(floats(2)), rtol=1e-6)


class Counted:
    """How often ops were looked up in Python by what runs them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        original = evaluate._compiled

        def counted(*args: Any) -> Any:
            self.calls += 1
            return original(*args)

        monkeypatch.setattr(evaluate, "_compiled", counted)


CALLS = [
    lambda x: tenon.exp(x),
    lambda x: tenon.add(x, x),
    lambda x: tenon.add(x, y=x),
    lambda x: tenon.sum(x, 1),
    lambda x: tenon.sum(x, axis=(0, 1), keepdims=True),
    lambda x: tenon.concatenate([x, x[:1]], axis=0),
    lambda x: tenon.concatenate((x, x)),
    lambda x: tenon.multiply(x, 2.5),
    lambda x: tenon.multiply(3, x),
    lambda x: tenon.clamp(x, -1, 1.0),
    lambda x: tenon.matmul(x, x.T),
]


@pytest.mark.usefixtures("new_calls")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls_like_one_before_are_native(number: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call, counted = CALLS[number], Counted(monkeypatch)
    x, other = floats(5, 4).astype(dtype), floats(5, 4, seed=1).astype(dtype)
    first = [call(x), call(other), call(x)]
    met = counted.calls
    again = [call(x), call(other)]
    assert counted.calls == met
    for found, expected in zip(again, first, strict=False):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("number", [2, -(2**40), 2**53 + 1, 2.5, 1e300, float("nan"), True, 2**70])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_numbers_are_the_same_in_native_calls(number: Any, dtype: Any) -> None:
    x = np.array([1, 2, 3], dtype)
    for usual in (3, 1.5, False):
        for _ in range(3):
            tenon.add(x, usual)
    try:
        expected = evaluate.evaluate(tenon.registry()["tenon.add"], (x, number), {})
    except OverflowError:
        with pytest.raises(OverflowError):
            tenon.add(x, number)
        return
    found = tenon.add(x, number)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_other_settings_and_orders_are_not_taken_for_those_before() -> None:
    x, y = floats(3, 3), floats(3, 3, seed=1)
    for _ in range(3):
        np.testing.assert_array_equal(tenon.subtract(x=x, y=y), x - y)
        np.testing.assert_array_equal(tenon.subtract(y=x, x=y), y - x)
        np.testing.assert_allclose(tenon.sum(x, axis=0), x.sum(0), rtol=1e-6)
        np.testing.assert_allclose(tenon.sum(x, axis=1), x.sum(1), rtol=1e-6)
        np.testing.assert_allclose(tenon.sum(x.T, axis=1), x.sum(0), rtol=1e-6)
        np.testing.assert_array_equal(tenon.maximum(x[::2], 0.25), np.maximum(x[::2], np.float32(0.25)))


def test_functions_of_ops_are_functions() -> None:
    assert pickle.loads(pickle.dumps(tenon.exp)) is tenon.exp is copy.deepcopy(tenon.exp)
    assert list(inspect.signature(tenon.sum).parameters) == ["x", "axis", "keepdims"]
    assert inspect.isroutine(tenon.exp)
    assert "e to the power" in pydoc.render_doc(tenon.exp)
    x = floats(3)
    layer = tenon.jit(lambda x, activation: activation(x) * 2)
    np.testing.assert_array_equal(layer(x, tenon.relu), np.maximum(x, 0) * 2)

    class Layer:
        activation = staticmethod(tenon.tanh)
        doubled = tenon.exp

    np.testing.assert_allclose(Layer().activation(x), np.tanh(x), rtol=1e-5)
    with pytest.raises(TypeError, match="Layer"):
        Layer().doubled()


@pytest.mark.usefixtures("new_calls")
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -2.0])
def test_numbers_that_are_not_finite_are_native(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(6, dtype=np.float32)
    expected = np.where(x > 2, np.float32(number), x)
    for _ in range(4):
        np.testing.assert_array_equal(tenon.select(x > 2, float(number), x), expected)
    monkeypatch.setattr(evaluate, "_compiled", None)
    np.testing.assert_array_equal(tenon.select(x > 2, float(number), x), expected)


@pytest.mark.usefixtures("new_calls")
def test_joining_tensors_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tenon.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(4):
        tenon.cat((x, x), dim=1)
    monkeypatch.setattr(evaluate, "_compiled", None)
    assert tenon.cat((x, x), dim=1).tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]


def test_operands_in_another_order_of_many_sizes_have_one_program(traced: list[str]) -> None:
    """As the transposed weight of a layer that is called on sequences of any length."""
    matmul = new_function("matmul")
    weight = np.random.default_rng(0).standard_normal((80, 70)).astype(np.float32)
    for rows in range(2, 9):
        x = np.random.default_rng(rows).standard_normal((1, rows, 70)).astype(np.float32)
        np.testing.assert_allclose(matmul(x, weight.T), x @ weight.T, rtol=1e-4, atol=1e-4)
    assert len(traced) == 2  # of the first sizes, and of all others


@pytest.mark.usefixtures("new_calls")
def test_what_is_asked_of_sizes_is_answered_for_those_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []
    original = evaluate.trace
    monkeypatch.setattr(evaluate, "trace", lambda *args, **kwargs: (traced.append(args), original(*args, **kwargs))[1])

    def largest(n: int) -> Any:
        return tenon.topk(np.arange(n, dtype=np.float32), 3)[0]

    for n in (5, 7, 4, 9):
        np.testing.assert_array_equal(largest(n), [n - 1, n - 2, n - 3])
    assert len(traced) == 2  # for 5, and for all of at least 3
    with pytest.raises(ValueError, match="3"):
        largest(2)
