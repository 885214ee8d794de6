"""What a mistake in a traced program says: Python control flow, leaked values, wrong shapes, dtypes and settings."""

# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import traceback
from typing import Any, ClassVar

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.utils.exceptions import PassFailedException

import tenon


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- Python where a number is needed --------------------------------------------------------------

USE_CONTROL_FLOW = "use tenon.cond, tenon.select or tenon.while_loop"
USE_FUNCTIONS = "compute on it with tenon functions"
NAME_STATIC = "name an argument that decides shapes or counts loops in static= of jit"
INDEX_ASARRAY = r"where they index a NumPy array, index tenon\.asarray\(array\) instead"


def branch(x: Any) -> Any:
    if x > 0:
        return x
    return -x


def repeat(x: Any) -> Any:
    while x < 10:
        x = x * 2
    return x


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (branch, USE_CONTROL_FLOW),
        (repeat, USE_CONTROL_FLOW),
        (lambda x: x > 0 and x < 1, USE_CONTROL_FLOW),
        (lambda x: not x, USE_CONTROL_FLOW),
        (lambda x: [0, 1][x], NAME_STATIC),
        (lambda x: range(x), NAME_STATIC),
        (lambda x: tenon.zeros((6,)).reshape(x, -1), r"reshape: setting 'shape'.* in static= of jit"),
        (lambda x: tenon.top_k(np.arange(3.0), x), r"top_k: setting 'k': .* in static= of jit"),
        (lambda x: float(x), USE_FUNCTIONS),
        (lambda x: np.asarray(x), INDEX_ASARRAY),
        (lambda x: np.arange(3)[x], INDEX_ASARRAY),
        (lambda x: f"{x:.2f}", "elements of a traced value"),
    ],
)
def test_traced_value_where_python_needs_a_number(function: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        tenon.jit(function)(np.int64(1))


def test_a_traced_value_is_not_changed_in_place() -> None:
    def zeroed(x: Any) -> Any:
        x[0] = 0
        return x

    with pytest.raises(tenon.TracedValueError, match=r"tensor<3xf32>\) cannot be changed; x.at\[key\].set\(values\)"):
        tenon.jit(zeroed)(floats(3))


def test_the_users_line_is_in_the_traceback() -> None:
    with pytest.raises(tenon.TracedValueError) as caught:
        tenon.jit(branch)(1.0)
    assert any(
        f.name == "branch" and "if x > 0" in (f.line or "") for f in traceback.extract_tb(caught.value.__traceback__)
    )
    with pytest.raises(TypeError, match="carry value is") as caught:
        tenon.scan(lambda total, x: (total + x, None), 0.0, np.ones(3))
    assert all(f.filename == __file__ for f in traceback.extract_tb(caught.value.__traceback__)[-1:])


# --- values outside of their trace ----------------------------------------------------------------


def test_value_used_after_its_trace() -> None:
    kept: list[Any] = []
    tenon.jit(lambda x: kept.append(x) or x)(floats(3))
    with pytest.raises(TypeError, match=r"tenon\.add: a traced value, argument x, is used after its trace ended"):
        tenon.add(kept[0], 1.0)
    with pytest.raises(TypeError, match=r"tenon\.exp: a traced value, argument x, is used after its trace ended"):
        kept[0].exp()
    with pytest.raises(
        tenon.TracedValueError, match=r"a traced value \(tensor<3xf32>\), argument x, is used after its tra"
    ):
        tenon.jit(lambda x: x)(kept[0])
    tenon.jit(lambda x: kept.append(tenon.sin(x)) or x)(floats(3))
    where = rf"test_errors\.py:{test_value_used_after_its_trace.__code__.co_firstlineno + 11}"
    with pytest.raises(
        TypeError, match=rf"tenon\.add: a traced value, which tenon\.sin gave \(.*{where}\), is used after"
    ):
        tenon.add(kept[1], 1.0)


def test_value_of_another_trace() -> None:
    kept: list[Any] = []
    tenon.jit(lambda x: kept.append(x * 2) or x)(floats(3))
    with pytest.raises(
        tenon.TracedValueError,
        match=r"tenon.add: an operand \(tensor<3xf32>\) was traced in another function.*return it from there "
        r"\(.*test_errors.py:\d+\)",
    ):
        tenon.jit(lambda x: x + kept[0])(floats(3))


def test_value_of_a_trace_that_failed() -> None:
    kept: list[Any] = []

    def fails(x: Any) -> Any:
        kept.append(x)
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        tenon.jit(fails)(floats(2))
    np.testing.assert_allclose(tenon.jit(lambda x: x + 1.0)(floats(2)), floats(2) + 1)
    assert isinstance(tenon.exp(1.0), np.ndarray | np.generic)


# --- shapes, dtypes, settings ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (tenon.matmul, (floats(2, 3), floats(2, 3)), r"tenon.matmul: .*3 in .*2 in"),
        (tenon.add, (floats(2, 3), floats(4)), "tenon.add: shapes do not broadcast: dimension -1 is 3 in x and 4 in y"),
        (tenon.shift_left, (1.5, 2), r"tenon.shift_left: dtype of x is f32 where one of"),
        (lambda x: tenon.sum(x, axis=2), (floats(2, 3),), "tenon.sum: axis is 2 but the rank is 2"),
        (lambda x: tenon.sum(x, axis=(0, 0)), (floats(2, 3),), r"tenon.sum: axis \(0, 0\) names a dimension twice"),
        (
            lambda x: tenon.softmax(x, axes=1),  # pyright: ignore[reportCallIssue]
            (floats(2, 3),),
            r"tenon.softmax: unknown setting 'axes' \(settings: axis\), did you mean 'axis'",
        ),
        (lambda x: tenon.sum(x, axis="0"), (floats(2),), "tenon.sum: setting 'axis': '0' is not a tuple of integers"),
        (tenon.exp, (), "tenon.exp: operand 'x' is missing"),
        (lambda x: tenon.exp(x, 1), (floats(2),), r"tenon.exp: takes at most 1 arguments"),
        (lambda x: tenon.max(x, axis=0), (np.zeros((0, 2)),), "tenon.max: axis 0 of .*0, 2.* has no elements"),
        (tenon.concat, (floats(2),), "tenon.concatenate: operand .* must be a tuple of tensors"),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_messages_of_ops(function: Any, arguments: Any, message: str, jitted: bool) -> None:
    call = tenon.jit(lambda *a: function(*a)) if jitted else function
    with pytest.raises((TypeError, ValueError), match=message):
        call(*arguments)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: tenon.zeros((1 << 20, 1 << 20)),
            "tenon.constant: tensor<1048576x1048576xf32> takes 4398046511104 bytes, and a program holds",
        ),
        (
            lambda x: tenon.broadcast_to(x, (1 << 20, 1 << 22)),
            r"a result of shape \(1048576, 4194304\) and dtype float32 takes 17592186044416 bytes, which cannot",
        ),
        (
            lambda x: tenon.sum(tenon.sort(tenon.broadcast_to(x, (1 << 22, 1 << 20)), axis=0)),
            "the arena of <lambda> takes 35184372088832 bytes at once, which cannot be",
        ),
        (
            lambda x: tenon.broadcast_to(x, (1 << 31, 1 << 31)),
            "tenon.broadcast_to: the result tensor<2147483648x2147483648xf32> has 4611686018427387904 elements",
        ),
        (
            lambda x: tenon.zeros((1 << 31, 1 << 31)),
            "zeros: the result tensor<2147483648x2147483648xf32> has 4611686018427387904 elements",
        ),
    ],
    ids=["constant", "result", "intermediate", "elements", "literal"],
)
def test_arrays_that_no_memory_holds_are_named_with_their_sizes(function: Any, message: str) -> None:
    with pytest.raises((MemoryError, ValueError, PassFailedException), match=message):
        tenon.jit(function)(np.float32(1))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (np.array(["a"]), r"square: argument x: dtype <U1 is not one of f16, bf16, f32"),
        (np.array([1j]), r"square: argument x: dtype complex128 is not one of"),
        (np.array([object()]), r"square: argument x: dtype object is not one of"),
        (np.array([1], "m8[s]"), r"square: argument x: dtype timedelta64\[s\] is not one of"),
        (2**70, r"square: argument x: 1180591620717411303424 does not fit into i64"),
        (bytearray(b"x"), r"square: argument x \(a bytearray\) is neither an array nor hashable"),
        ({"a": [bytearray(b"x")]}, r"square: argument x.a.0 \(a bytearray\) is neither"),
    ],
)
def test_arguments_that_are_no_arrays(argument: Any, message: str) -> None:
    with pytest.raises((TypeError, OverflowError), match=message):
        tenon.jit(square)(argument)


def square(x: Any) -> Any:
    return x * x


def test_static_argument_that_does_not_hash() -> None:
    with pytest.raises(TypeError, match=r"argument n \(a ndarray\) is static, but not hashable"):
        tenon.jit(lambda x, n: x, static="n")(1.0, np.ones(2))


def test_results_that_are_no_tensors() -> None:
    with pytest.raises(TypeError, match=r"result a.1 is a object, which is neither a tensor nor a number"):
        tenon.jit(lambda x: {"a": (x, object())})(1.0)


def test_calls_that_the_function_does_not_take() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        tenon.jit(square)()
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        tenon.jit(square)(1.0, y=2.0)


def test_failed_calls_do_not_harm_later_ones() -> None:
    jitted = tenon.jit(lambda x, y: x @ y)
    with pytest.raises(ValueError, match=r"tenon.matmul"):
        jitted(floats(2, 3), floats(2, 3))
    np.testing.assert_allclose(jitted(floats(2, 3), floats(3, 2)), floats(2, 3) @ floats(3, 2), rtol=1e-5)


def test_failing_pass_says_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenon.lowering import pipeline

    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("fuse: something")

    monkeypatch.setattr(pipeline, "run_passes", fail)
    with pytest.raises(ValueError, match="fuse: something") as caught:
        tenon.jit(square)(floats(11))
    assert "while compiling square; with TENON_DUMP_IR=DIR" in caught.value.__notes__[0]


# --- locations ------------------------------------------------------------------------------------


def test_ops_carry_the_users_line() -> None:
    def function(x: Any) -> Any:
        y = tenon.exp(x)
        return tenon.cond(tenon.sum(y) > 0, lambda: y * 2.0, lambda: y)

    module = tenon.jit(function).trace(floats(3)).module
    first = function.__code__.co_firstlineno
    lines = {op.name: op.location.line.data - first for op in module.walk() if isinstance(op.location, FileLineColLoc)}
    assert lines["tenon.exp"] == 1
    assert lines["tenon.cond"] == lines["tenon.multiply"] == 2
    exp = next(op for op in module.walk() if op.name == "tenon.exp")
    assert isinstance(exp.location, FileLineColLoc)
    assert exp.location.filename.data == __file__


def test_lines_do_not_decide_what_is_compiled() -> None:
    first = tenon.jit(lambda x: tenon.exp(x) + 41.0).trace(floats(3))
    second = tenon.jit(
        lambda x: tenon.exp(x)
        + 41.0
    ).trace(floats(3))  # fmt: skip
    assert str(first) == str(second)


def test_numpy_functions_of_traced_values_are_ops() -> None:
    x = np.array([0.5, 2.0])
    found = tenon.jit(lambda v: np.sin(v) + np.maximum(x, v) * np.float64(2.0) - np.abs(-v))(x)
    np.testing.assert_allclose(found, np.sin(x) + 2 * x - x, rtol=1e-15)
    with pytest.raises(tenon.TracedValueError, match=r"numpy\.add\.reduce cannot be traced"):
        tenon.jit(lambda v: np.add.reduce(v))(x)
    with pytest.raises(tenon.TracedValueError, match=r"numpy\.modf cannot be traced"):
        tenon.jit(lambda v: np.modf(v))(x)
    with pytest.raises(tenon.TracedValueError, match="are not known while tracing"):
        tenon.jit(lambda v: np.array(v))(x)


@pytest.mark.parametrize(
    ("promoted", "message"),
    [
        (("y",), r"ScaledOp \(errors\.scaled\): PROMOTED is \('y',\) where .* \(operands: x, scale\)$"),
        ("scale", r"PROMOTED is 'scale' where a tuple of names of operands is needed"),
        ((), r"^errors\.scaled: PROMOTED names no operand that is there; `result_element` can say the dtype$"),
    ],
)
def test_operands_that_are_promoted_are_declared(promoted: Any, message: str) -> None:
    def define_and_call() -> None:
        @tenon.tensor_op
        class ScaledOp(tenon.ElementwiseOp):
            name = "errors.scaled"
            x = tenon.operand_def(tenon.INTEGER_TENSOR)
            scale = tenon.operand_def(tenon.FLOAT_TENSOR)
            result = tenon.result_def(tenon.FLOAT_TENSOR)
            PROMOTED: ClassVar[Any] = promoted

            @staticmethod
            def scalar(x: Any, scale: Any) -> Any:
                return x * scale

        ScaledOp.apply(np.ones(3, np.int8), np.ones(3, np.float32))

    with pytest.raises((TypeError, tenon.InferenceError), match=message):
        define_and_call()


def test_mistakes_in_definitions_are_named() -> None:
    with pytest.raises(TypeError, match=r"setting: <class 'list'> is no kind of setting \(kinds: int, float"):
        tenon.setting(list)
    with pytest.raises(TypeError, match=r"^setting: the default 1\.5 is not an integer$"):
        tenon.setting(int, default=1.5)
    with pytest.raises(TypeError, match=r"Bare: name 'bare' lacks a dialect; write 'mine\.bare'"):

        @tenon.tensor_op
        class Bare(tenon.ElementwiseOp):
            name = "bare"
            x = tenon.operand_def(tenon.FLOAT_TENSOR)
            result = tenon.result_def(tenon.FLOAT_TENSOR)

            @staticmethod
            def scalar(x: Any) -> Any:
                return x

    @tenon.tensor_op
    class Pair(tenon.CompositeOp):
        name = "errors_test.pair"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @staticmethod
        def decompose(x: Any) -> Any:
            return x, x

    @tenon.tensor_op
    class Short(tenon.ContractionOp):
        name = "errors_test.too_short"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        y = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @staticmethod
        def indexing(i: Any, j: Any) -> Any:
            return (i, j), (i, j)

    x = np.zeros((2, 2))
    with pytest.raises(TypeError, match=r"errors_test\.pair: decompose returns \(Value, Value\) where 1 traced"):
        Pair.apply(x)
    with pytest.raises(TypeError, match=r"indexing returns 2 indices where one for each operand \(x, y\)"):
        Short.apply(x, x)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tenon.dim(3), TypeError, "a size is named 3, which is no text"),  # pyright: ignore[reportArgumentType]
        (lambda: tenon.jit(abs, dynamic=("n", None)), TypeError, "abs: dynamic is ('n', None) where names"),
        (lambda: tenon.jit(abs, donate=(0,)), TypeError, "abs: donate is (0,) where names of arguments are needed"),
        (lambda: tenon.jit(abs, static=0), TypeError, "abs: static is 0 where names of arguments are needed"),
        (
            lambda: tenon.jit(abs, static_argnums=0),
            TypeError,
            "no argument 'static_argnums': name the arguments in static=",
        ),  # pyright: ignore[reportCallIssue]
        (lambda: tenon.random_normal(0, (2,)), ValueError, "is 0 where 2 words (i32) are needed"),
        (lambda: tenon.split_key(np.zeros(3, np.int32)), ValueError, "has shape (3,) where 2 words (i32) are needed"),
        (lambda: tenon.arange(0, 1, 0), ValueError, "arange: step is 0"),
    ],
)
def test_wrong_values_are_named(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)


def test_other_byte_order_is_warned_of_at_the_users_line() -> None:
    with pytest.warns(UserWarning, match="other byte order") as warned:
        tenon.sum(np.zeros(2, np.dtype("f4").newbyteorder("S")))
    assert warned[0].filename == __file__
