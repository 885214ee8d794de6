"""Random programs give what NumPy gives, compiled and interpreted, for every machine; and what they once broke."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy_ops
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from program_builder import F32, F64, Array, Program, is_float, precisions
from random_programs import programs

import tenon
from tenon.passes.machine import MACHINES
from tenon.runtime import lower
from tenon.runtime.knobs import knobs

RELATIVE = {2: 0.05, 4: 1e-4, 8: 1e-9}
"""How far results may be off, by the bytes of the narrowest float that they were computed from, in addition to what
rounding does to NumPy's own."""


SLOW_DRAWS = [
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
]


def examples(count: int) -> settings:
    """So many programs. That they are slow to draw, and that many draws are rejected, is known."""
    return settings(max_examples=count, deadline=None, suppress_health_check=SLOW_DRAWS)


def compiled(program: Program, arrays: Sequence[Any] | None = None) -> tuple[Array, ...]:
    return tenon.jit(lambda arrays: program.run(tenon, arrays))(list(program.arrays if arrays is None else arrays))


def assert_agrees(program: Program, results: Sequence[Array]) -> None:
    precision = precisions(program)
    for got, native, wide, size in zip(results, program.results, program.exact, precision, strict=True):
        assert (got.dtype, got.shape) == (native.dtype, native.shape)
        if is_float(native.dtype):
            wide = wide.astype(F64)
            rounding = np.abs(native.astype(F64) - wide).max(initial=0)
            largest = 1 + np.abs(wide).max(initial=0)
            error = np.abs(got.astype(F64) - wide).max(initial=0)
            assert error <= RELATIVE[size] * largest + 30 * rounding
        else:
            np.testing.assert_array_equal(got, native)


# --- random programs --------------------------------------------------------------------------------------------------


@examples(120)
@given(programs())
def test_compiled_programs_agree_with_numpy_and_leave_their_inputs_alone(program: Program) -> None:
    before = [array.copy() for array in program.arrays]
    assert_agrees(program, compiled(program))
    for array, copy in zip(program.arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@examples(40)
@given(programs(most=8))
def test_interpreted_programs_agree_with_numpy(program: Program) -> None:
    with knobs.override(interpret=True):
        assert_agrees(program, compiled(program))


@pytest.mark.parametrize("name", MACHINES)
@examples(24)
@given(programs())
def test_programs_agree_for_vectors_of_every_machine(name: str, program: Program) -> None:
    # Instructions that this processor lacks cannot be compiled, however wide its vectors are said to be.
    own = lower.machine()
    dots = tuple([dot for dot in MACHINES[name].dots if dot in own.dots])
    other = replace(MACHINES[name], scaling=MACHINES[name].scaling and own.scaling, dots=dots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower, "machine", lambda **_: other)
        assert_agrees(program, compiled(program))


def _fortran(x: Array) -> Array:
    return np.array(x, order="F")


def _every_other(x: Array) -> Array:
    return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


def _reversed(x: Array) -> Array:
    return np.flip(np.flip(x).copy())


def _big_endian(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder(">")) if x.dtype.kind in "fi" else x


def _read_only(x: Array) -> Array:
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.filterwarnings("ignore:.*other byte order")
@examples(30)
@given(programs(most=5), st.sampled_from([_fortran, _every_other, _reversed, _big_endian, _read_only]))
def test_inputs_of_every_memory_layout_are_read_right(program: Program, layout: Callable[[Array], Array]) -> None:
    assert_agrees(program, compiled(program, [layout(array) for array in program.arrays]))


@examples(60)
@given(programs(smooth=True, dtypes=(F64,), most=6), st.integers(0, 99))
def test_gradients_of_programs_agree_with_central_differences(program: Program, seed: int) -> None:
    random = np.random.default_rng(seed)
    floats = [n for n, array in enumerate(program.arrays) if array.dtype == F64]
    weights = [random.standard_normal(r.shape) if r.dtype == F64 else None for r in program.results]
    direction = [random.standard_normal(program.arrays[n].shape) for n in floats]

    def loss(ops: Any, values: Sequence[Any]) -> Any:
        arrays = list(program.arrays)
        for n, value in zip(floats, values, strict=True):
            arrays[n] = value
        results = zip(program.run(ops, arrays), weights, strict=True)
        terms = [ops.sum(ops.multiply(result, weight)) for result, weight in results if weight is not None]
        return sum(terms[1:], terms[0])

    def slope(step: float) -> float:
        ends = [[program.arrays[n] + s * d for n, d in zip(floats, direction, strict=True)] for s in (step, -step)]
        with np.errstate(all="ignore"):
            return float(loss(numpy_ops, ends[0]) - loss(numpy_ops, ends[1])) / (2 * step)

    assume(floats and any(weight is not None for weight in weights))
    gradients = tenon.jit(tenon.grad(lambda values: loss(tenon, values)))([program.arrays[n] for n in floats])
    products = [g * d for g, d in zip(gradients, direction, strict=True)]
    expected, again = slope(1e-5), slope(3e-6)
    size = 1 + abs(expected) + sum(float(np.abs(p).sum()) for p in products)
    assume(abs(expected - again) <= 1e-4 * size)
    assert abs(sum(float(p.sum()) for p in products) - expected) <= 2e-4 * size


# --- what they broke --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "stride"), [((4, 3), (1, 3)), ((3, 4), (3, 1)), ((3, 3), (3, 3)), ((5, 5), (5, 5)), ((3, 3), (2, 2))]
)
def test_a_convolution_that_reads_a_part_of_its_input_for_its_only_column(
    size: tuple[int, int], stride: tuple[int, int]
) -> None:
    random = np.random.default_rng(0)
    x, weight = random.standard_normal((2, 2, *size)), random.standard_normal((3, 2, 2, 2))
    expected = numpy_ops.conv2d(x, weight, stride=stride, padding=(0, 0), dilation=(1, 1))
    np.testing.assert_allclose(tenon.conv2d(x, weight, stride=stride), expected, rtol=1e-12)


def test_a_number_computed_in_a_kernel_can_be_an_index_in_it() -> None:
    x = np.random.default_rng(0).standard_normal((7, 3, 4, 5))
    i = np.int32(2)

    def loss(x: Any) -> Any:
        rows = tenon.gather(tenon.negative(x), i, axis=3)
        return tenon.sum(tenon.matmul(rows, tenon.transpose(rows, permutation=(0, 2, 1))))

    rows = -x[..., 2]
    expected = np.zeros_like(x)
    expected[..., 2] = -2 * rows.sum(1, keepdims=True)
    np.testing.assert_allclose(tenon.jit(tenon.grad(loss))(x), expected, rtol=1e-12)


LARGE = np.random.default_rng(0).standard_normal((3, 100_000))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x * 2)[:, :50], LARGE[:, :50] * 2),
        (lambda x: tenon.exp(x)[:, :90_000:2], np.exp(LARGE)[:, :90_000:2]),
        (lambda x: tenon.flip((x * 2)[:, :9000]), np.flip(LARGE[:, :9000] * 2)),
        (lambda x: tenon.sum((x * 2)[:, :9000], axis=0), (LARGE[:, :9000] * 2).sum(0)),
        (lambda x: tenon.softmax(x, axis=1), numpy_ops.softmax(LARGE, axis=1)),
        (lambda x: tenon.softmax(tenon.transpose(x), axis=0), numpy_ops.softmax(LARGE, axis=1).T),
        (lambda x: tenon.transpose(tenon.exp(x[0])[None, :] + x), (np.exp(LARGE[0]) + LARGE).T),
        (
            lambda x: tenon.flip(tenon.broadcast_to(tenon.exp(x[0]), shape=(2, 100_000))),
            np.stack([np.exp(LARGE[0])[::-1]] * 2),
        ),
    ],
)
def test_intermediates_that_do_not_fit_on_a_stack(function: Callable[[Any], Any], expected: Array) -> None:
    np.testing.assert_allclose(tenon.jit(function)(LARGE), expected, rtol=1e-9)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_results_never_share_memory_with_each_other_or_with_inputs() -> None:
    x = np.arange(4, dtype=F32)
    results = tenon.jit(lambda x: ((y := x + 1), y, x, x, np.ones(3, F32)))(x)
    expected = [x + 1, x + 1, x.copy(), x.copy(), np.ones(3, F32)]
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, value)
        result[...] = 99  # would be seen in the others


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (a + b, a - b),
        lambda a, b: (b, a),
        lambda a, b: (a, a + 1, a, b * 2),
        lambda a, b: (a.T + a, b - b.sum(axis=0)),
        lambda a, b: (a @ b, tenon.flip(b)),
        lambda a, b: (tenon.softmax(a, axis=0) * a.sum(), a + 2),
    ],
)
def test_donated_memory_is_not_written_before_it_was_read(function: Callable[..., Any]) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((9, 9)) for _ in range(2))
    donating = tenon.jit(function, donate=("a", "b"))
    for first, second in ((a, b), (a, a)):
        expected = tenon.jit(function)(first, second)
        first = first.copy()
        given = (first, first if second is a else second.copy())
        for got, value in zip(donating(*given), expected, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-12)


def test_a_function_is_compiled_and_called_from_several_threads() -> None:
    function = tenon.jit(lambda x: tenon.softmax(x @ x.T) @ x)
    arrays = [np.random.default_rng(n).standard_normal((n, 40)) for n in (3, 5, 17)]
    expected = [numpy_ops.softmax(x @ x.T, axis=1) @ x for x in arrays]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(30):
            for n, (x, value) in enumerate(zip(arrays, expected, strict=True)):
                if not np.allclose(function(x), value):
                    wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_nan_and_infinity_are_taken_at_their_word() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf, 0, -0.0] * 5, F32)

    def function(x: Any, ops: Any) -> tuple[Any, ...]:
        return (
            x - x,
            x * 0,
            x == x,
            x != x,
            x / x,
            x <= x,
            x + x - x - x,
            ops.max(x),
            ops.min(x),
            ops.sum(x),
            ops.maximum(x, x * 0),
        )

    with np.errstate(all="ignore"):
        expected = function(x, numpy_ops)
    for got, value in zip(tenon.jit(lambda x: function(x, tenon))(x), expected, strict=True):
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integers_wrap_and_divide_by_zero_as_in_numpy(dtype: Any) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([least, most, -1, 0, 1, 7, -7, least, least] * 3, dtype)
    y = np.array([-1, 1, 0, 0, 3, -2, 2, 0, least] * 3, dtype)
    names = ("add", "subtract", "multiply", "floor_divide", "remainder", "negative", "abs", "sum", "prod")

    def function(x: Any, y: Any, ops: Any) -> list[Any]:
        return [getattr(ops, name)(*(x, y)[: 2 if position < 5 else 1]) for position, name in enumerate(names)]

    with np.errstate(all="ignore"):
        expected = function(x, y, numpy_ops)
    for name, got, value in zip(names, tenon.jit(lambda x, y: function(x, y, tenon))(x, y), expected, strict=True):
        np.testing.assert_array_equal(got, value, name)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5)])
def test_arrays_without_elements(shape: tuple[int, ...]) -> None:
    def function(x: Any, ops: Any) -> tuple[Any, ...]:
        ends = (x, x) if ops is numpy_ops else ((x, x),)
        return (x + x, ops.sum(x), ops.prod(x, axis=-1), ops.concatenate(*ends, axis=0), ops.reshape(x, shape=(0,)))

    x = np.zeros(shape, F32)
    for got, value in zip(tenon.jit(lambda x: function(x, tenon))(x), function(x, numpy_ops), strict=True):
        assert got.shape == np.shape(value)
        np.testing.assert_array_equal(got, value)
