"""Contractions that share loops with other ops: the numbers of whole programs, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tenon
from tenon.lowering.buffers.memory_report import memory_report
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import run_passes, stages
from tenon.runtime.lower import new_context

Array = NDArray[Any]


def softmax(scores: Array) -> Array:
    """The softmax along the last axis, in double precision."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """As users write it."""
    scores = q @ tenon.transpose(k, (0, 2, 1)) * np.float32(q.shape[-1] ** -0.5)
    return tenon.softmax(tenon.where(mask, scores, np.float32(-1e9)), axis=-1) @ v


def expected_attention(q: Array, k: Array, v: Array, mask: Array) -> Array:
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) * q.shape[-1] ** -0.5
    return softmax(np.where(mask, scores, -1e9)) @ v.astype(float)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("shape", [(3, 67, 67, 8, 5), (2, 96, 33, 16, 16), (1, 1, 7, 3, 2)])
def test_attention(shape: tuple[int, ...], bits: int) -> None:
    batch, rows, keys, depth, width = shape
    q, k, v = normal(batch, rows, depth), normal(batch, keys, depth), normal(batch, keys, width)
    mask = np.tri(rows, keys, dtype=bool)
    with tenon.knobs.override(vector_bits=bits):
        result = tenon.jit(attention)(q, k, v, mask)
    np.testing.assert_allclose(result, expected_attention(q, k, v, mask), atol=2e-5)


def differences(x: Any, y: Any) -> Any:
    return x[..., :, None, :] - y[..., None, :, :]


def in_steps(m: Any, x: Any, y: Any) -> Any:
    """The points `y` are the same in each step."""
    if m is np:
        return np.stack([np.exp(-abs(differences(step[None], y))).prod(-1).sum(1) for step in x])

    def step(carry: Any, point: Any) -> Any:
        rows = tenon.broadcast_to(point[None], shape=(40, 3))
        return carry, m.exp(-abs(differences(rows, y))).prod(-1).sum(1)[:1]

    return tenon.scan(step, tenon.zeros(()), x)[1]


@pytest.mark.parametrize(
    ("function", "rank"),
    [
        (lambda m, x, y: m.exp(-(differences(x, y) ** 2)).prod(-1).sum(-1), 3),
        (lambda m, x, y: m.exp(differences(x, y) * y).sum(-1).max(-1), 2),
        (lambda m, x, y: abs(differences(x, y)).sum(-1).min(-1) + m.exp(differences(x, y)).sum(-1).max(-1), 2),
        (in_steps, 2),
    ],
)
def test_reductions_of_few_coordinates_for_others(function: Any, rank: int) -> None:
    batch = (2,) * (rank - 2)
    x, y = normal(*batch, 37, 3), normal(*batch, 50, 3)
    result = tenon.jit(lambda x, y: function(tenon, x, y))(x, y)
    np.testing.assert_allclose(result, function(np, x.astype(float), y.astype(float)), rtol=2e-5)


def whole(*shape: int) -> Array:
    """Whole numbers, of which sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape)


SHORT: dict[str, Any] = {
    "of all": lambda m, x, w, b, r: m.maximum(x @ w + b, r),
    "of a sum that is a result as well": lambda m, x, w, b, r: (x @ w) + (m.maximum(x @ w, 0) * r) * b,
    "across": lambda m, x, w, b, r: m.maximum((x @ w).T * 2, r.T),
    "of parts": lambda m, x, w, b, r: m.abs((x @ w + b)[1:, 1:] - r[:-1, :-1]),
    "of rows": lambda m, x, w, b, r: m.where((x @ w).sum(1)[:, None] > r, x @ w, -b),
    "of both": lambda m, x, w, b, r: m.maximum(x @ w, 0) * (r @ w[:, ::-1].T @ w),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("shape", [(70, 33, 50), (7, 5, 3), (1, 64, 48), (65, 2, 17), (40, 128, 16)])
def test_short_epilogues(shape: tuple[int, int, int], name: str, dtype: str) -> None:
    rows, inner, columns = shape
    given = whole(rows, inner), whole(inner, columns), whole(columns), whole(rows, columns)
    function = SHORT[name]
    if dtype == "float16" and name in ("of both", "of a sum that is a result as well", "of rows"):
        return  # numbers that it does not hold
    arrays = [array.astype(dtype) for array in given]
    result = tenon.jit(lambda x, w, b, r: function(tenon, x, w, b, r))(*arrays)
    np.testing.assert_array_equal(np.asarray(result).astype(np.float64), function(np, *given))


@pytest.mark.parametrize("donated", [False, True])
@pytest.mark.parametrize("side", [1, 3])
def test_short_epilogues_of_convolutions(side: int, donated: bool) -> None:
    def block(r: Any, x: Any, w: Any, b: Any) -> Any:
        return tenon.clip(tenon.conv2d(x, w, padding=side // 2) + b[:, None, None] + r, 0, 60)

    x, w, b, r = whole(2, 20, 9, 11), whole(35, 20, side, side), whole(35), whole(2, 35, 9, 11)
    padded = np.pad(x, ((0, 0), (0, 0), *[(side // 2,) * 2] * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (2, 3))
    expected = np.clip(np.einsum("nchwij,fcij->nfhw", windows, w) + b[:, None, None] + r, 0, 60)
    arrays = [a.astype(np.float32) for a in (r, x, w, b)]
    with tenon.knobs.override(minimal_filtering=False):
        result = tenon.jit(block, donate=("r",) if donated else ())(*arrays)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("shape", [(70, 33, 50), (7, 5, 3), (1, 64, 48), (65, 1, 17), (200, 128, 16)])
def test_epilogues(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    x, w, bias, residual = normal(rows, inner), normal(inner, columns), normal(columns), normal(rows, columns)
    result = tenon.jit(lambda x, w, b, r: tenon.tanh(x @ w + b) * r)(x, w, bias, residual)
    expected = np.tanh(x.astype(float) @ w.astype(float) + bias) * residual
    np.testing.assert_allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("shape", [(70, 33, 50), (7, 5, 3), (200, 400, 130), (97, 784, 40)])
def test_operands_that_are_computed(shape: tuple[int, int, int], bits: int) -> None:
    """Elements that are made, or found by their indices, for a product that needs all of a row."""
    rows, inner, columns = shape
    x, w, window = normal(rows * 8 + inner), normal(inner, columns), normal(inner)
    places = np.arange(rows)[:, None] * 8 + np.arange(inner)
    with tenon.knobs.override(vector_bits=bits):
        result = tenon.jit(lambda x, w: tenon.matmul(tenon.take(x, places) * window, tenon.exp(w)))(x, w)
    expected = (x[places] * window).astype(float) @ np.exp(w.astype(float))
    np.testing.assert_allclose(result, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("batch", [1, 3])
def test_computed_operands_that_are_added_up_over_rows(batch: int) -> None:
    x, y = normal(batch, 300, 40), normal(batch, 300, 24)
    result = tenon.jit(lambda x, y: tenon.einsum("bri,brj->bij", tenon.relu(x), tenon.exp(y)))(x, y)
    expected = np.einsum("bri,brj->bij", np.maximum(x, 0).astype(float), np.exp(y.astype(float)))
    np.testing.assert_allclose(result, expected, atol=1e-3)


@pytest.mark.parametrize("columns", [771, 2304])
@pytest.mark.parametrize("rows", [1, 3, 8, 40])
def test_epilogues_of_streamed_operands(rows: int, columns: int) -> None:
    """Weights that outgrow the cache and few rows, with an inner extent long enough for groups of sums."""
    x, w, v, bias = normal(rows, 3000), normal(3000, columns), normal(3000, columns) / 8, normal(columns)
    program = tenon.jit(lambda x, w, v, b: tenon.tanh((x @ w + b) / 50) * (x @ v))
    expected = np.tanh((x.astype(float) @ w + bias) / 50) * (x.astype(float) @ v)
    results: list[Array] = []
    for threads in (1, 2):
        with tenon.num_threads(threads):
            results.append(program(x, w, v, bias))
    np.testing.assert_allclose(results[0], expected, atol=2e-4)
    np.testing.assert_array_equal(results[0], results[1])


def test_rows_of_a_contraction_with_any_number_of_them() -> None:
    def program(x: Any, w: Any, v: Any) -> Any:
        return tenon.softmax(tenon.relu(x @ w), axis=-1) @ v

    compiled = tenon.jit(program, dynamic={"x": ("n", None)})
    w, v = normal(8, 20), normal(20, 6)
    for rows in (0, 1, 5, 64, 131):
        x = normal(rows, 8)
        expected = softmax(np.maximum(x.astype(float) @ w, 0)) @ v
        np.testing.assert_allclose(compiled(x, w, v), expected, atol=1e-5)


def expected_gradients(q: Array, k: Array, v: Array, mask: Array, g: Array) -> list[Array]:
    """The gradients of sum(attention * g), by hand."""
    q, k, v, g = (array.astype(float) for array in (q, k, v, g))
    scale = q.shape[-1] ** -0.5
    p = softmax(np.where(mask, q @ k.swapaxes(1, 2) * scale, -1e9))
    dp = g @ v.swapaxes(1, 2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return [ds @ k, ds.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ g]


@pytest.mark.parametrize(
    ("shape", "bits"), [((4, 210, 67, 8), 512), ((4, 250, 131, 16), 256), ((5, 64, 64, 4), 128), ((4, 7, 33, 3), 512)]
)
def test_gradients_of_attention(shape: tuple[int, ...], bits: int) -> None:
    batch, rows, keys, depth = shape
    q, k, v, w = normal(batch, rows, depth), normal(batch, keys, depth), normal(batch, keys, depth), normal(depth, 3)
    mask = np.tri(rows, keys, dtype=bool)

    def loss(q: Any, k: Any, v: Any, w: Any) -> Any:
        # What follows mixes rows, so that forward and backward are separate kernels.
        y = tenon.tanh(attention(q, k, v, mask) @ w)
        return tenon.sum(tenon.cumsum(y, axis=1))

    with tenon.knobs.override(vector_bits=bits):
        gradients = tenon.jit(tenon.grad(loss, argnums=(0, 1, 2)))(q, k, v, w)
    y = np.tanh(expected_attention(q, k, v, mask) @ w)
    g = ((1 - y**2) * np.arange(rows, 0, -1)[:, None]) @ w.astype(float).T
    for gradient, expected in zip(gradients, expected_gradients(q, k, v, mask, g), strict=True):
        np.testing.assert_allclose(gradient, expected, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_gradients_of_attention_in_other_dtypes(dtype: str) -> None:
    """The gradients of keys and values are sums over strips, which half floats cannot keep in memory."""
    q, k, v = (normal(2, rows, 33).astype(dtype) for rows in (130, 131, 131))
    mask = np.tri(130, 131, dtype=bool)
    compute = tenon.jit(tenon.grad(lambda q, k, v: tenon.sum(attention(q, k, v, mask) ** 2), argnums=(0, 1, 2)))
    g = 2 * expected_attention(q, k, v, mask)
    for gradient, expected in zip(compute(q, k, v), expected_gradients(q, k, v, mask, g), strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, expected, atol=(1e-2 if dtype == "float16" else 1e-6) * expected.max())


def test_scores_are_not_in_memory() -> None:
    """All of the arena together is smaller than the scores of the forward or of the backward pass."""
    q, k, v = (tenon.ShapeDtype((8, 512, 16)) for _ in range(3))

    def loss(q: Any, k: Any, v: Any) -> Any:
        return tenon.sum(tenon.cumsum(attention(q, k, v, np.tri(512, dtype=bool)), axis=1))

    module = tenon.jit(tenon.value_and_grad(loss, argnums=(0, 1, 2))).trace(q, k, v).module
    for stage in stages(LoweringOptions())[:3]:
        run_passes(new_context(), module, stage.passes)
    assert 0 < memory_report(module).peak_bytes < 8 * 512 * 512 * 4


@pytest.mark.parametrize(
    ("shape", "kernels"), [((530, 520, 510), 2), ((300, 890, 880), 2), ((100, 890, 880), 1), ((130, 60, 50), 1)]
)
def test_large_gradients_of_weights_stay_alone(shape: tuple[int, int, int], kernels: int) -> None:
    """They copy both operands to panels; no copy pays for a near operand, nor another pass for a short sum."""
    inner, rows, columns = shape
    x, y, w = normal(inner, rows), normal(inner, columns), normal(rows, columns)
    step = tenon.jit(lambda x, y, w: w - np.float32(0.1) * (x.T @ y))
    module = step.trace(x, y, w).module
    run_passes(new_context(), module, stages(LoweringOptions())[0].passes)
    assert sum("kernel" in op.attributes for op in module.ops) == kernels
    expected = w - 0.1 * (x.astype(float).T @ y)
    np.testing.assert_allclose(step(x, y, w), expected, atol=1e-3)


@pytest.mark.parametrize("rows", [90, 97, 200, 256])
@pytest.mark.parametrize("dynamic", [None, {"x": ("n", None)}])
def test_strips_that_add_up_start_anew_in_memory_that_was_used(rows: int, dynamic: Any) -> None:
    x, w, v = normal(rows, 40), normal(40, 256), normal(256, 48)
    function = tenon.jit(lambda x, w, v: tenon.relu(x @ w) @ v, dynamic=dynamic)
    out = np.full((rows, 48), 1e6, np.float32)
    function(x, w, v, out=out)
    np.testing.assert_allclose(out, np.maximum(x.astype(float) @ w, 0) @ v, atol=2e-3)


@pytest.mark.parametrize("transposed", [False, True])
def test_layers_of_long_sums(transposed: bool) -> None:
    """Columns are copied in parts of the reduction, as they are without what follows."""
    x, w, bias = normal(37, 9000), normal(9000, 130) / 100, normal(130)
    weight = np.ascontiguousarray(w.T) if transposed else w
    result = tenon.jit(lambda x, w, b: tenon.tanh(x @ (w.T if transposed else w) + b))(x, weight, bias)
    np.testing.assert_allclose(result, np.tanh(x.astype(float) @ w + bias), atol=1e-4)


@pytest.mark.parametrize("count", [127, 129, 200])
def test_intermediates_that_outgrow_the_stack(count: int) -> None:
    q, k, v = normal(2, count, 16), normal(2, count, 16), normal(2, count, 16)

    def total(v: Any) -> Any:
        return (tenon.softmax(q @ tenon.transpose(k, (0, 2, 1)), axis=-1) @ v).sum()

    found = tenon.jit(tenon.grad(total))(v)
    weights = softmax(q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1))
    np.testing.assert_allclose(found, np.broadcast_to(weights.sum(1)[..., None], v.shape), rtol=1e-4)


def test_rows_that_are_small_beside_others() -> None:
    """Of a softmax by way of the largest number of all rows, products with a row are as large as those with others."""
    z = normal(5, 64)
    z[2] -= 80
    v = np.float32(1e-10) * normal(64, 3)

    def function(z: Any, v: Any) -> Any:
        weights = tenon.exp(z - z.max(keepdims=True))
        return (weights / weights.sum(axis=1, keepdims=True)) @ v

    exact = np.exp(z.astype(np.float64))
    exact = exact / exact.sum(1, keepdims=True) @ v
    np.testing.assert_allclose(tenon.jit(function)(z, v), exact, atol=1e-5 * np.abs(exact).max())
