"""The examples after the tutorials of four frameworks: their numbers, and what their own tests let through."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_shim import COMPILER, run_on_shim
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import tenon
from tenon import InferenceError
from tenon.dialects.types.types import FLOATS, INTEGERS, f32, i1, numpy_dtype, tensor_type
from tenon.lowering.cuda.emit_cuda import emit_cuda
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.runtime.executables import executable
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import map_to_grid, new_context

ROOT = Path(__file__).parents[2]
NARROW = "f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN, i4, ui4, i2, ui2"
FLOAT_DTYPES = [numpy_dtype(t) for t in FLOATS]
NUMERIC_DTYPES = [numpy_dtype(t) for t in (*FLOATS, *INTEGERS)]
ALL_DTYPES = [*NUMERIC_DTYPES, np.dtype(np.bool_)]


def load(name: str) -> ModuleType:
    """An example, without running it; loading it defines its ops."""
    specification = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[specification.name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


megengine = load("megengine_add")
luojianet = load("luojianet_transpose")
oneflow = load("oneflow_leaky_relu")
sigmoid = load("pytorch_sigmoid")
conv2d = load("pytorch_conv2d")


Run = Callable[..., Any]


@pytest.fixture(params=["compiled", "interpreted"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Call a function as machine code, and once more through the interpreter."""
    with knobs.override(interpret=request.param == "interpreted"):
        yield lambda function, *arguments: tenon.jit(function)(*arguments)


def numbers(seed: int, shape: tuple[int, ...], dtype: Any = np.float64, scale: float = 1.0) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return values > 0 if np.dtype(dtype) == np.bool_ else values.astype(dtype)


def tolerance(dtype: Any) -> float:
    dtype = np.dtype(dtype)
    return 0.0 if dtype.kind in "iub" else 4.0 * float(ml_dtypes.finfo(dtype).eps)


def assert_close(actual: Any, expected: Any, dtype: Any, scale: float = 1.0) -> None:
    """Equal up to some roundings of numbers as large as `scale`, with the shape and dtype of `expected`."""
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == dtype
    assert actual.shape == np.shape(expected)
    wide = np.float64 if np.dtype(dtype).kind not in "iub" else dtype
    np.testing.assert_allclose(
        actual.astype(wide), np.asarray(expected).astype(wide), rtol=tolerance(dtype), atol=scale * tolerance(dtype)
    )


def central_difference(function: Run, arrays: list[Any], position: int, cotangent: Any) -> np.ndarray[Any, Any]:
    """The gradient of the sum of `cotangent` times the result of `function`, by steps to both sides in float64."""
    step = 1e-6
    gradient = np.zeros(arrays[position].shape)
    for place in np.ndindex(gradient.shape):
        ends: list[float] = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[position][place] += sign * step
            ends.append(float(np.sum(np.asarray(function(*moved)) * cotangent)))
        gradient[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def assert_gradients(function: Run, arrays: list[Any]) -> None:
    """The gradients of `function` at float64 `arrays` are its slopes."""
    compiled = tenon.jit(function)
    cotangent = numbers(99, np.shape(compiled(*arrays)))
    _, gradients = tenon.vjp(function, *arrays, cotangent=cotangent)
    for position, gradient in enumerate(gradients):
        expected = central_difference(compiled, arrays, position, cotangent)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)


# --- MegEngine: Add -------------------------------------------------------------------------------------------------

A = np.array([[[1, 2], [3, 4]]], np.float32)
B = np.array([[[5, 6], [7, 8]]], np.float32)
C = np.array([[[21, 26], [31, 36]]], np.float32)


def add(data1: Any, data2: Any) -> Any:
    return tenon.add_example(data1, data2, x=2, y=3, z=4)


def check_add(function: Run) -> None:
    """The tutorial's numbers, with the one it has wrong put right, and the result compared with them."""
    np.testing.assert_array_equal(function(A, B, 2, 3, 4), C)
    data1, data2 = np.array([[1, 2], [0, 4]], np.float32), np.array([[4, 6], [7, 3]], np.float32)
    np.testing.assert_array_equal(function(data1, data2, 2, -3, 16), np.array([[6, 2], [-5, 15]], np.float32))


def test_add_gives_the_numbers_of_the_tutorial(run: Run) -> None:
    check_add(lambda a, b, x, y, z: run(lambda a, b: tenon.add_example(a, b, x=x, y=y, z=z), a, b))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a, b, x, y, z: np.empty_like(a) * np.nan,  # a kernel that returns without writing
        lambda a, b, x, y, z: x * a + y * b,
        lambda a, b, x, y, z: x * a + b + z,
        lambda a, b, x, y, z: (x * a + y * b + z)[0],  # the tutorial's test takes one row
        lambda a, b, x, y, z: np.where(
            x * a + y * b + z == 15, 17, x * a + y * b + z
        ),  # what it expects of that row's end
    ],
)
def test_the_check_notices_a_wrong_op(wrong: Run) -> None:
    with pytest.raises(AssertionError):
        check_add(wrong)


def test_add_defaults_to_the_plain_sum(run: Run) -> None:
    np.testing.assert_array_equal(run(lambda a, b: tenon.add_example(a, b), A, B), A + B)


@pytest.mark.parametrize("seed", range(3))
def test_add_on_random_numbers(run: Run, seed: int) -> None:
    data1, data2 = numbers(seed, (2, 2, 2), np.float32, 1000), numbers(seed + 10, (2, 2, 2), np.float32, 1000)
    expected = 2 * data1.astype(np.float64) + 3 * data2.astype(np.float64) + 4
    assert_close(run(add, data1, data2), expected, np.float32, scale=10_000)


def test_inverses_give_the_numbers_of_the_tutorial(run: Run) -> None:
    np.testing.assert_array_equal(run(lambda c, b: tenon.add_backward_data1(c, b, x=2, y=3, z=4), C, B), A)
    np.testing.assert_array_equal(run(lambda c, a: tenon.add_backward_data2(c, a, x=2, y=3, z=4), C, A), B)


@pytest.mark.parametrize("dtype", NUMERIC_DTYPES, ids=str)
def test_add_and_its_inverses_write_every_element_of_every_dtype(run: Run, dtype: Any) -> None:
    # Small integers, so that nothing rounds or wraps.
    least = 0 if dtype.kind == "u" else -8
    data1 = np.random.default_rng(1).integers(least, 8, (3, 5)).astype(dtype)
    data2 = np.random.default_rng(2).integers(least, 8, (3, 5)).astype(dtype)
    result = run(add, data1, data2)
    assert_close(result, 2 * data1.astype(np.int64) + 3 * data2.astype(np.int64) + 4, dtype)
    assert_close(run(lambda c, b: tenon.add_backward_data1(c, b, x=2, y=3, z=4), result, data2), data1, dtype)
    assert_close(run(lambda c, a: tenon.add_backward_data2(c, a, x=2, y=3, z=4), result, data1), data2, dtype)


@pytest.mark.skipif(COMPILER is None, reason="no g++ for the CUDA shim")
def test_cuda_kernel_writes_every_element_of_every_dtype() -> None:
    shape = (3, 50)
    inputs = [np.random.default_rng(i).integers(-8, 8, shape) for i in range(2)]

    def every_dtype(*arrays: Any) -> Any:
        return tuple([add(arrays[i], arrays[i + 1]) for i in range(0, len(arrays), 2)])

    arrays = [array.astype(dtype) for dtype in NUMERIC_DTYPES for array in inputs]
    lowered = tenon.jit(every_dtype, device="cuda").lower(*arrays)
    results = run_on_shim(lowered.module, arrays)
    for dtype, result in zip(NUMERIC_DTYPES, results, strict=True):
        assert_close(np.array(result), 2 * inputs[0] + 3 * inputs[1] + 4, dtype)


def test_integer_inverse_rounds_toward_zero_as_c_does(run: Run) -> None:
    diff = np.arange(-9, 10, dtype=np.int32)
    for x in (4, -4):
        result = run(lambda c, b, x=x: tenon.add_backward_data1(c, b, x=x), diff, np.zeros_like(diff))
        assert_close(result, np.trunc(diff / x), np.int32)


def test_add_takes_any_strides(run: Run) -> None:
    data1, data2 = numbers(1, (4, 6)), numbers(2, (6, 8))
    np.testing.assert_allclose(run(add, data1.T, data2[:, ::2]), 2 * data1.T + 3 * data2[:, ::2] + 4, rtol=1e-14)


def test_gradient_of_add_is_not_what_the_tutorial_calls_backward() -> None:
    g = numbers(3, A.shape, np.float32)
    value, (da, db) = tenon.vjp(add, A, B, cotangent=g)
    np.testing.assert_array_equal(value, C)
    np.testing.assert_array_equal(da, 2 * g)
    np.testing.assert_array_equal(db, 3 * g)
    assert not np.allclose(da, tenon.add_backward_data1(g, B, x=2, y=3, z=4))


def test_gradients_of_add_and_its_inverses_are_slopes() -> None:
    arrays = [numbers(1, (2, 3)), numbers(2, (2, 3))]
    assert_gradients(add, arrays)
    assert_gradients(lambda c, b: tenon.add_backward_data1(c, b, x=2, y=3, z=4), arrays)
    assert_gradients(lambda c, a: tenon.add_backward_data2(c, a, x=2, y=3, z=4), arrays)


def test_add_infers_its_result() -> None:
    op = tenon.registry()["megengine.add_example"]
    for type_ in (tensor_type((2, 3), f32), tensor_type((-1, 3), f32), tensor_type(None, f32)):
        assert op.inferred_types([type_, type_], {"x": 1, "y": 1, "z": 0}) == (type_,)


@pytest.mark.parametrize(
    ("left", "right", "types"),
    [
        (
            np.zeros((2, 2), "f4"),
            np.zeros((1, 2), "f4"),
            "data1 is tensor<2x2xf32> and data2 is tensor<1x2xf32>",
        ),
        (
            np.zeros(2, "f4"),
            np.zeros(2, "f8"),
            "data1 is tensor<2xf32> and data2 is tensor<2xf64>",
        ),
    ],
)
def test_add_refuses_operands_of_two_layouts(left: Any, right: Any, types: str) -> None:
    with pytest.raises(InferenceError) as caught:
        tenon.add_example(left, right)
    assert str(caught.value) == f"megengine.add_example: shapes and dtypes must be equal, but {types}"


@pytest.mark.parametrize("dtype", ["c8", "m8", "S1"])
def test_add_refuses_dtypes_that_are_neither_int_nor_float(dtype: str) -> None:
    with pytest.raises(TypeError) as caught:
        tenon.add_example(np.zeros(2, dtype), np.zeros(2, dtype))
    known = f"f16, bf16, f32, f64, i8, i16, i32, i64, ui8, ui16, ui32, ui64, i1, {NARROW}"
    assert str(caught.value) == f"megengine.add_example: data1: dtype {np.dtype(dtype)} is not one of {known}"


def test_verifier_refuses_add_of_truth_values() -> None:
    op = tenon.registry()["megengine.add_example"]
    with pytest.raises(InferenceError) as caught:
        op.inferred_types([tensor_type((2,), i1)] * 2, {"x": 1, "y": 1, "z": 0})
    needed = "f16, bf16, f32, f64, i8, i16, i32, i64, ui8, ui16, ui32, ui64"
    assert str(caught.value) == f"megengine.add_example: dtype of data1 is i1 where one of {needed} is needed"


def test_no_inverse_by_zero() -> None:
    with pytest.raises(InferenceError) as caught:
        tenon.add_backward_data1(C, B, x=0)
    assert str(caught.value) == "megengine.add_backward_data1: x is 0, so the result does not tell data1"
    with pytest.raises(InferenceError) as caught:
        tenon.add_backward_data2(C, A, y=0)
    assert str(caught.value) == "megengine.add_backward_data2: y is 0, so the result does not tell data2"


def test_add_as_a_module_keeps_its_settings(run: Run) -> None:
    module = megengine.AddExample(2, 3, 4)
    np.testing.assert_array_equal(run(lambda m, a, b: m(a, b), module, A, B), C)
    assert not list(module.named_parameters())


# --- LuoJiaNET: Transpose -------------------------------------------------------------------------------------------

PERMUTATIONS = [(), (0,), (1, 0), (2, 0, 1), (1, 2, 0), (3, 1, 0, 2), (4, 2, 0, 3, 1)]


def test_transpose_gives_the_numbers_of_the_tutorial(run: Run) -> None:
    x = np.arange(6).reshape(2, 3).astype(np.float32)
    np.testing.assert_array_equal(run(luojianet.Net().forward, x), [[0, 3], [1, 4], [2, 5]])


def test_gradient_with_a_given_sensitivity(run: Run) -> None:
    x = np.arange(6).reshape(2, 3).astype(np.float32)
    sens = np.arange(6).reshape(3, 2).astype(np.float32)
    dx = run(lambda x, sens: tenon.vjp(luojianet.Net(), x, cotangent=sens)[1][0], x, sens)
    np.testing.assert_array_equal(dx, [[0, 2, 4], [1, 3, 5]])


@pytest.mark.parametrize("perm", PERMUTATIONS, ids=str)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_transpose_of_any_rank_and_dtype(dtype: Any, perm: tuple[int, ...]) -> None:
    x = numbers(1, (2, 3, 4, 1, 5)[: len(perm)], dtype, 10)
    np.testing.assert_array_equal(tenon.custom_transpose(x, perm=perm), x.transpose(perm))


@pytest.mark.parametrize("perm", [p for p in PERMUTATIONS if len(p) > 1], ids=str)
def test_pulling_back_undoes_the_permutation(run: Run, perm: tuple[int, ...]) -> None:
    x = numbers(1, (2, 3, 4, 1, 5)[: len(perm)])
    g = numbers(2, x.transpose(perm).shape)

    def pulled(x: Any, g: Any) -> Any:
        return tenon.vjp(lambda v: tenon.custom_transpose(v, perm=perm), x, cotangent=g)[1][0]

    np.testing.assert_array_equal(run(pulled, x, g), g.transpose(np.argsort(perm)))


def test_gradient_of_transpose_is_the_one_that_is_written() -> None:
    def pulled(x: Any, g: Any) -> Any:
        return tenon.vjp(lambda v: tenon.custom_transpose(v, perm=(2, 0, 1)), x, cotangent=g)[1][0]

    text = str(tenon.jit(pulled).trace(np.zeros((2, 3, 4)), np.zeros((4, 2, 3))))
    assert re.findall(r"custom_transpose .*perm = \[(.*?)\]", text) == ["2, 0, 1", "1, 2, 0"]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_transpose_of_nothing(run: Run, shape: tuple[int, int]) -> None:
    # The tutorial's kernel divides the number of elements by the first dimension.
    assert run(luojianet.Net().forward, np.zeros(shape, np.float32)).shape == shape[::-1]


@pytest.mark.parametrize("perm", [(0,), (0, 0), (0, 2), (0, 1, 2), (-1, 0)])
def test_transpose_refuses_what_is_no_permutation(perm: tuple[int, ...]) -> None:
    with pytest.raises(InferenceError) as caught:
        tenon.custom_transpose(np.zeros((2, 3)), perm=perm)
    why = f"perm is {perm}, which is no permutation of the 2 axes of x"
    assert str(caught.value) == f"luojianet.custom_transpose: {why}"
    with pytest.raises(InferenceError, match=r"no permutation of the 0 axes of x$"):
        tenon.custom_transpose(np.float32(1), perm=perm)


def test_transpose_of_unknown_sizes() -> None:
    op = tenon.registry()["luojianet.custom_transpose"]
    assert op.inferred_types([tensor_type(None, f32)], {"perm": (1, 0)}) == (tensor_type((-1, -1), f32),)
    assert op.inferred_types([tensor_type((2, -1, 3), f32)], {"perm": (2, 0, 1)}) == (tensor_type((3, 2, -1), f32),)


# --- OneFlow: leaky_relu_yzh ----------------------------------------------------------------------------------------


def leaky(x: Any) -> Any:
    return tenon.leaky_relu_yzh(x, alpha=0.2)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_leaky_relu_on_every_dtype(run: Run, dtype: Any) -> None:
    x = numbers(4, (3, 3), dtype)
    x[0] = 0, -1, np.inf
    wide = x.astype(np.float64)
    assert_close(run(leaky, x), np.where(wide > 0, wide, 0.2 * wide), dtype)


def test_leaky_relu_keeps_nan(run: Run) -> None:
    assert np.isnan(run(leaky, np.full(3, np.nan, np.float32))).all()


def test_gradient_op_equals_the_derived_gradient(run: Run) -> None:
    x, dy = numbers(5, (3, 3)), numbers(6, (3, 3))
    derived = run(lambda x, dy: tenon.vjp(leaky, x, cotangent=dy)[1][0], x, dy)
    np.testing.assert_array_equal(derived, run(lambda x, dy: tenon.leaky_relu_yzh_grad(x, dy, alpha=0.2), x, dy))
    np.testing.assert_allclose(derived, np.where(x > 0, dy, 0.2 * dy), rtol=1e-15)


def test_gradients_of_leaky_relu_are_slopes() -> None:
    x = numbers(5, (3, 3))
    assert_gradients(leaky, [x])
    assert_gradients(lambda dy: tenon.leaky_relu_yzh_grad(x, dy, alpha=0.2), [numbers(6, (3, 3))])


def test_alpha_has_no_default() -> None:
    with pytest.raises(TypeError) as caught:
        tenon.leaky_relu_yzh(np.zeros(3))
    assert str(caught.value) == "oneflow.leaky_relu_yzh: setting 'alpha' is missing"
    with pytest.raises(TypeError) as caught:
        tenon.leaky_relu_yzh(np.zeros(3), alpha="0.2")
    assert str(caught.value) == "oneflow.leaky_relu_yzh: setting 'alpha': '0.2' is not a number"


def test_leaky_relu_has_one_input() -> None:
    with pytest.raises(TypeError) as caught:
        tenon.leaky_relu_yzh(np.zeros(3), 0.2, 0.3)
    assert str(caught.value) == "oneflow.leaky_relu_yzh: takes at most 2 arguments (x, alpha), got 3"


def test_unused_leaky_relu_is_not_computed() -> None:
    def unused(x: Any) -> Any:
        leaky(x)
        return x + 1

    lowered = str(tenon.jit(unused).lower(np.zeros(3, np.float32)))
    assert "arith.addf" in lowered
    assert "arith.mulf" not in lowered


MANY = 2**31 + 8


def test_more_elements_than_32_bits_count_on_the_cpu() -> None:
    # The tutorial's loops count in int32_t.
    source = emit_llvm(tenon.jit(leaky).lower(tenon.ShapeDtype((MANY,), "f32")).module)
    indices = re.findall(r"getelementptr (?:inbounds )?float, ptr %\w+, i64 (\d+)", source)
    assert max(map(int, indices)) >= 2**31  # what is left behind the chunks of the loop
    assert not re.search(r"(phi|add|icmp \w+|getelementptr .*,) i32\b", source)


def test_more_elements_than_32_bits_count_on_a_gpu() -> None:
    module = tenon.jit(leaky, device="cuda").lower(tenon.ShapeDtype((MANY,), "f32")).module
    source = emit_cuda(map_to_grid(module))
    kernel = source[source.index('extern "C" __global__') :]
    # The number of vectors and of elements are told at launch.
    assert re.match(
        r"[^{]* kernel_0\(float \*__restrict__ x_0, float \*__restrict__ out0_1(, long long v_\d+)+\) {", kernel
    )
    assert not re.search(r"\bint v_\d+", kernel)


# --- PyTorch: sigmoid -----------------------------------------------------------------------------------------------


def logistic(x: Any) -> np.ndarray[Any, Any]:
    return 1 / (1 + np.exp(-np.asarray(x, np.longdouble)))


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_sigmoid_on_every_dtype(run: Run, dtype: Any) -> None:
    x = numbers(7, (4, 5), dtype, 4)
    result = run(lambda x: tenon.aten_sigmoid(x), x)
    assert_close(result, logistic(x.astype(np.float64)), dtype)
    backward = run(lambda g, y: tenon.aten_sigmoid_backward(g, y), x, result)
    wide = result.astype(np.float64)
    assert_close(backward, x.astype(np.float64) * (1 - wide) * wide, dtype)


def test_sigmoid_is_a_function_a_method_and_a_module(run: Run) -> None:
    x = numbers(8, (3,), np.float32)
    expected = run(lambda x: tenon.aten_sigmoid(x), x)
    np.testing.assert_array_equal(run(lambda x: x.aten_sigmoid(), x), expected)
    np.testing.assert_array_equal(run(lambda m, x: m(x), sigmoid.Sigmoid(), x), expected)


def test_gradient_of_sigmoid_is_sigmoid_backward(run: Run) -> None:
    x, g = numbers(9, (3, 4)), numbers(10, (3, 4))
    by_rule = run(lambda x, g: tenon.vjp(sigmoid.Sigmoid(), x, cotangent=g)[1][0], x, g)
    np.testing.assert_allclose(by_rule, (g * (1 - logistic(x)) * logistic(x)).astype(np.float64), rtol=1e-14)
    by_formula = run(lambda x, g: tenon.vjp(sigmoid.formula, x, cotangent=g)[1][0], x, g)
    np.testing.assert_allclose(by_formula, by_rule, rtol=1e-13)


def test_the_rule_is_needed_where_exp_overflows(run: Run) -> None:
    x = np.array([-100.0], np.float32)
    ones = np.ones_like(x)
    assert run(lambda x, g: tenon.vjp(sigmoid.Sigmoid(), x, cotangent=g)[1][0], x, ones) == 0
    assert np.isnan(run(lambda x, g: tenon.vjp(sigmoid.formula, x, cotangent=g)[1][0], x, ones))


def test_gradients_of_sigmoid_are_slopes() -> None:
    assert_gradients(lambda x: tenon.aten_sigmoid(x), [numbers(11, (3, 4))])
    assert_gradients(lambda g, y: tenon.aten_sigmoid_backward(g, y), [numbers(12, (3,)), numbers(13, (3,))])


def test_second_derivative_of_sigmoid() -> None:
    slope = tenon.grad(lambda v: tenon.sum(tenon.aten_sigmoid(v)))
    second = tenon.grad(lambda v: tenon.sum(slope(v)))(np.array([0.3, -1.2]))
    y = logistic([0.3, -1.2])
    np.testing.assert_allclose(second, (y * (1 - y) * (1 - 2 * y)).astype(np.float64), rtol=1e-13)


def test_sigmoid_of_complex_numbers_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        tenon.aten_sigmoid(np.zeros(2, np.complex64))
    known = f"f16, bf16, f32, f64, i8, i16, i32, i64, ui8, ui16, ui32, ui64, i1, {NARROW}"
    assert str(caught.value) == f"pytorch.aten_sigmoid: x: dtype complex64 is not one of {known}"


# --- PyTorch: modules and Conv2d ------------------------------------------------------------------------------------


def correlated(
    x: Any, weight: Any, bias: Any, stride: tuple[int, int], dilation: tuple[int, int], groups: int
) -> np.ndarray[Any, Any]:
    """Convolution one window at a time."""
    n, channels, height, width = x.shape
    filters, depth, rows, columns = weight.shape
    oh = (height - dilation[0] * (rows - 1) - 1) // stride[0] + 1
    ow = (width - dilation[1] * (columns - 1) - 1) // stride[1] + 1
    result = np.zeros((n, filters, oh, ow))
    for f in range(filters):
        first = f // (filters // groups) * (channels // groups)
        for i, j in np.ndindex(oh, ow):
            top, left = i * stride[0], j * stride[1]
            window = x[:, first : first + depth, top :: dilation[0], left :: dilation[1]][:, :, :rows, :columns]
            result[:, f, i, j] = (window * weight[f]).sum((1, 2, 3)) + (0 if bias is None else bias[f])
    return result


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": (1, 2), "padding_mode": "reflect"},
    {"padding": (2, 1), "padding_mode": "replicate", "stride": (2, 1)},
    {"padding": (1, 1), "padding_mode": "circular", "dilation": (2, 1)},
    {"padding": (1, 0), "groups": 2, "stride": (2, 2), "bias": False},
]


@pytest.mark.parametrize("settings", CONVOLUTIONS, ids=str)
def test_conv2d(run: Run, settings: dict[str, Any]) -> None:
    conv = conv2d.Conv2d(2, 4, (3, 2), **settings)
    x = numbers(14, (2, 2, 7, 6), np.float32)
    size = settings.get("padding", (0, 0))
    mode: Any = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[conv.padding_mode]
    padded = np.pad(x, ((0, 0), (0, 0), (size[0],) * 2, (size[1],) * 2), mode=mode)
    expected = correlated(padded, conv.weight, conv.bias, conv.stride, conv.dilation, conv.groups)
    result = run(lambda m, x: m(x), conv, x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_conv2d_are_slopes() -> None:
    conv = conv2d.Conv2d(1, 2, (2, 2), padding=(1, 1), padding_mode="reflect")
    arrays = [numbers(15, (1, 1, 3, 3)), conv.weight.astype(np.float64), conv.bias.astype(np.float64)]

    def applied(x: Any, weight: Any, bias: Any) -> Any:
        return tenon.optim.with_values(conv, {"weight": weight, "bias": bias})(x)

    assert_gradients(applied, arrays)


def test_gradient_of_a_module_is_a_module() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    net = conv2d.DemoNet(numbers(16, (2, 2)))
    gradient = tenon.grad(lambda m: tenon.sum(m(x)))(net)
    assert isinstance(gradient, conv2d.DemoNet)
    np.testing.assert_allclose(gradient.w, 2 * net.w * x**2, rtol=1e-14)
    assert list(dict(net.named_parameters())) == ["w"]


def test_state_is_carried_over_by_name() -> None:
    one, other = conv2d.Conv2d(1, 2, (3, 3)), conv2d.Conv2d(1, 2, (3, 3), seed=1)
    image = numbers(17, (1, 1, 5, 5), np.float32)
    assert not np.array_equal(one(image), other(image))
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(one(image), other(image))
    with pytest.raises(ValueError, match=r"^state does not fit the module: missing bias, unknown offset$"):
        other.load_state_dict({"weight": one.weight, "offset": one.bias})
    with pytest.raises(ValueError, match=r"^bias has shape \(2,\) in the module and \(3,\) in the state$"):
        other.load_state_dict({"weight": one.weight, "bias": np.zeros(3)})


def test_hooks_see_input_and_result(run: Run) -> None:
    seen: list[tuple[int, ...]] = []

    def after(result: Any) -> Any:
        seen.append(result.shape)
        return -result

    net = conv2d.DemoNet(np.full((2, 2), 3.0))
    hooked = conv2d.Hooked(net, before=lambda x: x + 1, after=after)
    np.testing.assert_array_equal(run(lambda m, x: m(x), hooked, np.ones((2, 2))), np.full((2, 2), -36.0))
    assert seen == [(2, 2)]
    assert list(dict(hooked.named_parameters())) == ["module.w"]


def test_conv2d_refuses_an_unknown_padding_mode() -> None:
    with pytest.raises(ValueError, match="padding_mode") as caught:
        conv2d.Conv2d(1, 2, (3, 3), padding_mode="mirror")
    modes = "zeros, reflect, replicate, circular"
    assert str(caught.value) == f"Conv2d: padding_mode 'mirror' is not one of {modes}"


# --- all of them ----------------------------------------------------------------------------------------------------

TRACED: dict[str, tuple[Run, tuple[Any, ...]]] = {
    "megengine.add_example": (lambda a, b: tenon.add_example(a, b, x=2, y=-3), (A, B)),
    "megengine.add_backward_data1": (lambda c, b: tenon.add_backward_data1(c, b, x=2, y=3, z=4), (C, B)),
    "megengine.add_backward_data2": (lambda c, a: tenon.add_backward_data2(c, a, x=2, y=3, z=4), (C, A)),
    "luojianet.custom_transpose": (lambda x: tenon.custom_transpose(x, perm=(2, 0, 1)), (A,)),
    "oneflow.leaky_relu_yzh": (lambda x: tenon.leaky_relu_yzh(x, alpha=0.2), (A - 2,)),
    "oneflow.leaky_relu_yzh_grad": (lambda x, dy: tenon.leaky_relu_yzh_grad(x, dy, alpha=-0.5), (A - 2, B)),
    "pytorch.aten_sigmoid": (lambda x: tenon.aten_sigmoid(x), (A,)),
    "pytorch.aten_sigmoid_backward": (lambda g, y: tenon.aten_sigmoid_backward(g, y), (A, B)),
}


def test_every_op_of_the_examples_is_here() -> None:
    defined = {name for name, op in tenon.registry().items() if op.__module__.startswith("example_")}
    assert defined == set(TRACED)


@pytest.mark.parametrize("name", TRACED)
def test_text_is_read_back(name: str) -> None:
    function, arrays = TRACED[name]
    traced = tenon.jit(function).trace(*arrays)
    text = str(traced)
    module = Parser(new_context(), text).parse_module()
    module.verify()
    assert name in text
    assert str(module) == text
    np.testing.assert_array_equal(executable(module, "cpu").run(list(arrays))[0], tenon.jit(function)(*arrays))


STATED = """
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf64> {
  %c = megengine.add_example %a, %b {x = 2} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf64>
  func.return %c : tensor<2xf64>
}
"""


def test_verifier_infers_the_result_again() -> None:
    module = Parser(new_context(), STATED).parse_module()
    message = "result type is tensor<2xf64> but tensor<2xf32> is inferred from operands and settings"
    with pytest.raises(VerifyException, match=f"megengine.add_example: {re.escape(message)}"):
        module.verify()


@pytest.mark.parametrize(
    ("example", "shown"),
    [
        (
            megengine,
            [
                "[[[21.0, 26.0], [31.0, 36.0]]]",
                "[[[2.0, 2.0], [2.0, 2.0]]]",
                "[[6.0, 2.0], [-5.0, 15.0]]",
                "[[20.0, 20.0], [20.0, 20.0]], [[-30.0,",
            ],
        ),
        (luojianet, ["output: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]", "[[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]"]),
        (oneflow, ["equal: True"]),
        (sigmoid, ["0.19661194"]),
        (
            conv2d,
            [
                "DemoNet: [[1.0, 16.0], [81.0, 256.0]]",
                "same result after load_state_dict: True",
                "the hook sees: [[1.0, 1.0], [1.0, 1.0]]",
                "gradient of w: [[2.0, 16.0], [54.0, 128.0]]",
            ],
        ),
    ],
    ids=["megengine", "luojianet", "oneflow", "sigmoid", "conv2d"],
)
def test_example_prints_the_numbers(example: ModuleType, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    printed = capsys.readouterr().out
    for part in shown:
        assert part in printed


def test_steps_of_the_example_are_those_of_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    own = conv2d.Conv2d(1, 2, (3, 3), padding=(1, 1), padding_mode="reflect")
    image = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    conv2d.step_by_step(np.ones((2, 2), np.float32), image, own.state_dict())
    said = re.findall(r"loss: ([\d.]+), gradient of the bias: \[(.*)\]", capsys.readouterr().out)
    theirs = torch.nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")
    theirs.load_state_dict({name: torch.tensor(value) for name, value in own.state_dict().items()})
    steps = torch.optim.SGD(theirs.parameters(), lr=1e-4)
    assert len(said) == 3
    for loss_said, gradient in said:
        steps.zero_grad()
        loss = theirs(torch.tensor(image)).square().mean()
        loss.backward()
        steps.step()
        assert float(loss_said) == pytest.approx(loss.item(), abs=1e-4)
        np.testing.assert_allclose(np.array(gradient.split(), float), theirs.bias.grad.numpy(), rtol=1e-5)


def test_a_new_op_takes_twelve_lines(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "seed-cases.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert block is not None
    assert sum(bool(line.strip()) for line in block[1].splitlines()) <= 12
    file = tmp_path / "softsign.py"
    file.write_text(block[1])
    result = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True, cwd=tmp_path)
    value, gradient = (np.array(line.strip("[]").split(), float) for line in result.stdout.splitlines())
    x = np.array([-3.0, 0.0, 1.0])
    np.testing.assert_allclose(value, x / (1 + abs(x)), rtol=1e-6)
    np.testing.assert_allclose(gradient, 1 / (1 + abs(x)) ** 2, rtol=1e-6)


TAKES_NAMES = """
import numpy as np
import tenon
for taken in ("exp", "zeros_like"):
    class Op(tenon.ElementwiseOp):
        name = f"mine.{taken}"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)
        @staticmethod
        def scalar(x):
            return x * 100
    tenon.tensor_op(Op)
print(tenon.exp(np.zeros(1)), tenon.zeros_like(np.ones(1)))
"""


def test_an_op_of_a_user_does_not_take_over_a_name() -> None:
    result = subprocess.run([sys.executable, "-c", TAKES_NAMES], capture_output=True, text=True, check=True)
    assert result.stdout == "[1.] [0.]\n"


def test_page_has_the_table_of_the_line_counts() -> None:
    counts = load("count_lines")
    assert counts.table() in (ROOT / "docs" / "seed-cases.md").read_text(encoding="utf-8")
