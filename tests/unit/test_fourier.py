"""Fourier transforms by native code are NumPy's, and their gradients PyTorch's."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample import generator
from xdsl.context import Context

import tenon
from tenon.dialects.ops.contract.fourier_plan import HALF, REAL
from tenon.passes.simplify.decompose import DecomposePass
from tenon.runtime.cpu import program

RANDOM = generator("fourier")


def pairs(x: Any) -> Any:
    return np.stack([x.real, x.imag], axis=-1)


def assert_exact(found: Any, wanted: Any, dtype: Any) -> None:
    """Errors are a few units in the last place of the largest number, as a transform mixes all of them."""
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 8 * np.finfo(dtype).eps * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "n"), [(2, 256), (2, 441), (2, 1000), (2, 1009), (2, 1100), (19, 40), (16, 16), (33, 42)]
)
def test_transforms_are_those_of_numpy_and_call_no_python(
    rows: int, n: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "call_host", None)
    x = RANDOM.normal(size=(rows, n, 2)).astype(dtype)
    whole = x[..., 0] + 1j * x[..., 1].astype(np.longdouble)
    assert_exact(tenon.dft(x, axis=1), pairs(np.fft.fft(whole)), dtype)
    assert_exact(tenon.dft(x, axis=1, inverse=True), pairs(np.fft.ifft(whole)), dtype)
    real = x[..., :1]
    assert_exact(tenon.dft(real, axis=1), pairs(np.fft.fft(real[..., 0].astype(np.longdouble))), dtype)
    for length in (n, 2 * n):
        half = tenon.dft(real, axis=1, length=length, onesided=True)
        assert_exact(half, pairs(np.fft.rfft(real[..., 0].astype(np.longdouble), length)), dtype)
        given = x[:, : length // 2 + 1]
        known = np.fft.irfft(given[..., 0] + 1j * given[..., 1].astype(np.longdouble), length)[..., None]
        assert_exact(tenon.dft(given, axis=1, length=length, inverse=True, onesided=True), known, dtype)


def test_one_number_is_its_own_transform_whatever_it_is() -> None:
    np.testing.assert_array_equal(tenon.dft(np.array([[np.inf]]), axis=0), [[np.inf, 0.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [6, 40, 105, 256])
def test_columns_are_transformed_side_by_side(n: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "call_host", None)
    x = RANDOM.normal(size=(2, n, 3, 7, 2)).astype(dtype)
    whole = x[..., 0] + 1j * x[..., 1].astype(np.longdouble)
    program_ = tenon.jit(lambda x: tenon.dft(x, axis=1))
    assert_exact(program_(x), pairs(np.fft.fft(whole, axis=1)), dtype)
    assert "fourier_dft_columns" in str(program_.lower(x).module)
    assert_exact(tenon.dft(x, axis=1, inverse=True), pairs(np.fft.ifft(whole, axis=1)), dtype)
    assert_exact(tenon.dft(x[..., :1], axis=1), pairs(np.fft.fft(whole.real, axis=1)), dtype)
    half = np.fft.rfft(whole.real, 2 * n, axis=1)
    assert_exact(tenon.dft(x[..., :1], axis=1, length=2 * n, onesided=True), pairs(half), dtype)
    known = np.fft.irfft(whole[:, : n // 2 + 1], n // 2 * 2, axis=1)[..., None]
    given = x[:, : n // 2 + 1]
    assert_exact(tenon.dft(given, axis=1, length=n // 2 * 2, inverse=True, onesided=True), known, dtype)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((300, 2), {}),
        ((300, 2), {"inverse": True, "length": 256}),
        ((300, 1), {"length": 320}),
        ((512, 1), {"onesided": True}),
        ((9, 1), {"onesided": True}),
        ((257, 2), {"inverse": True, "onesided": True}),
        ((5, 2), {"inverse": True, "onesided": True, "length": 9}),
        ((5, 1), {"inverse": True, "onesided": True}),
    ],
    ids=str,
)
def test_gradients_are_those_of_pytorch(shape: tuple[int, ...], settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    x = RANDOM.normal(size=shape)
    n = settings.get("length")

    def by_torch(given: Any) -> Any:
        numbers = torch.complex(given[:, 0], given[:, 1] if shape[1] == 2 else torch.zeros_like(given[:, 0]))
        if settings.get("onesided"):
            return torch.fft.irfft(numbers, n)[:, None] if "inverse" in settings else torch.fft.rfft(given[:, 0], n)
        return (torch.fft.ifft if "inverse" in settings else torch.fft.fft)(numbers, n)

    tensor = torch.tensor(x, requires_grad=True)
    result = by_torch(tensor)
    result = torch.view_as_real(result) if result.is_complex() else result
    weights = RANDOM.normal(size=tuple(result.shape))
    (result * torch.tensor(weights)).sum().backward()
    found = tenon.jit(tenon.grad(lambda x: (tenon.dft(x, axis=0, **settings) * weights).sum()))(x)
    np.testing.assert_allclose(found, tensor.grad.numpy(), rtol=1e-10, atol=1e-10)


def test_batches_are_more_rows() -> None:
    x = RANDOM.normal(size=(3, 256, 2, 2)).astype(np.float32)
    batched = tenon.jit(tenon.vmap(lambda x: tenon.dft(x, axis=0)))
    np.testing.assert_array_equal(batched(x), tenon.dft(x, axis=1))
    assert str(batched.trace(x).module).count("tenon.dft") == 1


def test_short_rows_are_transformed_side_by_side() -> None:
    def native(rows: int, n: int) -> str:
        return str(tenon.jit(lambda x: tenon.dft(x, axis=1)).lower(np.ones((rows, n, 2), np.float32)).module)

    assert "fourier_dft_columns" in native(16, 32)
    assert "fourier_dft" not in native(15, 32)
    assert "fourier_dft_columns" not in native(16, 256)


@pytest.mark.parametrize("is_serial", [True, False])
def test_rows_are_native_code_where_a_thread_does_one(is_serial: bool) -> None:
    module = tenon.jit(tenon.dft).trace(np.ones((512, 2), np.float32)).module
    DecomposePass(serial_rows=is_serial).apply(Context(), module)
    assert ("tenon.transform_rows" in str(module)) == is_serial


@pytest.mark.parametrize(("n", "kind"), [(512, HALF), (441, REAL), (256, REAL)])
def test_halves_of_real_rows_are_taken_of_the_whole_where_these_do_not_come_apart(n: int, kind: int) -> None:
    module = tenon.jit(lambda x: tenon.dft(x, onesided=True)).trace(np.ones((n, 1), np.float32)).module
    DecomposePass().apply(Context(), module)
    assert f"kind = {kind}" in str(module)
