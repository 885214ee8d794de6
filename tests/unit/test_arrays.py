"""Arrays as users have them: any strides, byte order, alignment and rank, and those of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenon
from tenon.dialects.support.dlpack import from_dlpack

Array = np.ndarray[Any, Any]


def floats(*shape: int) -> Array:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def unaligned(array: Array) -> Array:
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    result = memory.view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def twice(x: Any) -> Any:
    return x * 2.0 + 1.0


LAYOUTS = {
    "transposed": lambda x: x.T.copy().T,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "unaligned": unaligned,
    "window": lambda x: np.lib.stride_tricks.sliding_window_view(x.ravel(), 4),
    "not owned": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
}


def test_a_memory_map(tmp_path: Path) -> None:
    x = floats(6, 4)
    x.tofile(tmp_path / "x")
    given = np.memmap(tmp_path / "x", np.float32, "r", shape=(6, 4))
    np.testing.assert_allclose(tenon.jit(twice)(given), x * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(layout: str) -> None:
    given = LAYOUTS[layout](floats(6, 4))
    given.flags.writeable = False
    np.testing.assert_allclose(tenon.jit(twice)(given), np.asarray(given) * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 0, 2), (), (1,) * 20 + (3,), (2, 1) * 8])
def test_any_rank_and_no_elements(shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    result, total = tenon.jit(lambda x: (twice(x), tenon.sum(x)))(x)
    assert result.shape == shape
    np.testing.assert_allclose(result, x * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
def test_arrays_that_begin_one_element_behind_a_cache_line(dtype: str) -> None:
    """No more is known of where arguments and results begin; chunks of threads know no more either."""

    def begins_behind_a_line(rows: int, columns: int) -> Array:
        memory = np.zeros(rows * columns * np.dtype(dtype).itemsize + 128, np.uint8)
        start = -memory.ctypes.data % 64 + np.dtype(dtype).itemsize
        return memory[start : start + memory.size - 128].view(dtype).reshape(rows, columns)

    x, out = begins_behind_a_line(50_000, 3), begins_behind_a_line(50_000, 3)
    x[...] = np.arange(x.size).reshape(x.shape) % 100
    least = np.asarray(50, dtype)
    assert tenon.jit(tenon.maximum)(x, least, out=out) is out
    np.testing.assert_array_equal(out, np.maximum(x, least))
    lowest = np.empty(3, dtype)
    tenon.jit(lambda x, y: (tenon.minimum(x, y), tenon.min(x, axis=0)))(x, least, out=(out, lowest))
    np.testing.assert_array_equal(out, np.minimum(x, least))
    np.testing.assert_array_equal(lowest, x.min(axis=0))


def test_the_other_byte_order_is_converted_with_a_message() -> None:
    x = floats(3)
    swapped = x.astype(x.dtype.newbyteorder())
    with pytest.warns(UserWarning, match=r"of the other byte order \(.f4\) and converted at every call"):
        np.testing.assert_array_equal(tenon.jit(twice)(swapped), twice(x))


def test_copies_are_counted_and_told(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tenon.jit(lambda x: x * 3.0 - 5.0).compile(floats(6, 4))
    assert compiled.executable.copies == 0
    with tenon.knobs.override(debug=2):
        compiled(floats(6, 4))
        assert "copied" not in capfd.readouterr().err
        compiled(floats(4, 6).T)
        assert "array 0, float32[6, 4], has strides (4, 24) and is copied (1 so far)" in capfd.readouterr().err
        compiled(unaligned(floats(6, 4)))
        assert "is not aligned and is copied (2 so far)" in capfd.readouterr().err
    assert compiled.executable.copies == 2


def test_bfloat16_in_and_out() -> None:
    x = floats(5).astype(ml_dtypes.bfloat16)
    result = tenon.jit(lambda x: x + x)(x)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.astype(np.float32), (x.astype(np.float32) * 2))


class Foreign:
    """An array of a library that knows DLPack alone."""

    def __init__(self, array: Array, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.device, 0


def test_arrays_of_other_libraries() -> None:
    x = floats(4)
    np.testing.assert_array_equal(tenon.jit(twice)(Foreign(x)), twice(x))
    with pytest.raises(TypeError, match="argument x: a Foreign on another device than the CPU cannot be read"):
        tenon.jit(twice)(Foreign(x, device=2))


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).T,
        torch.zeros(0, 3),
        torch.tensor(3.0),
        torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)[:, ::2, 1:],
    ):
        np.testing.assert_array_equal(tenon.jit(twice)(tensor), twice(tensor.numpy()))
    whole = torch.arange(12.0).bfloat16().reshape(3, 4)
    for tensor in (whole, whole.T, whole[1:, 2], whole[:0]):
        read = from_dlpack(tensor)
        assert read.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(read.astype(np.float32), tensor.float().numpy())
    assert from_dlpack(whole).ctypes.data == whole.data_ptr()
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"):
        tensor = torch.tensor([[0.25, 1.0, 4.0], [0.5, 2.0, 8.0]]).to(getattr(torch, name)).T
        read = from_dlpack(tensor)
        assert read.dtype == getattr(ml_dtypes, name)
        np.testing.assert_array_equal(read.astype(np.float32), tensor.float().numpy())
    with pytest.raises(TypeError, match=r"argument x: a Tensor cannot be read: .*require grad"):
        tenon.jit(twice)(torch.zeros(2, requires_grad=True))
    with pytest.raises(TypeError, match="a Tensor cannot be read: Unknown device type meta"):
        from_dlpack(torch.zeros(2, device="meta"))
    result = torch.from_dlpack(tenon.jit(twice)(torch.ones(3)))
    assert result.tolist() == [3.0, 3.0, 3.0]


def test_arrays_of_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tenon.jit(twice)(x), twice(np.asarray(x)))
    half = x.astype(jnp.bfloat16)
    np.testing.assert_array_equal(tenon.jit(lambda x: x + x)(half), np.asarray(half + half))


def test_ranges_are_arrays() -> None:
    assert tenon.sum(range(4)) == 6


# --- arrays that mean more than their elements, and what gives an array -----------------------------


class WithUnits(np.ndarray):
    """An array that computes in its own way."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return NotImplemented


def negated() -> Any:
    torch = pytest.importorskip("torch")
    return torch.tensor([1 + 2j]).conj().imag


def sparse() -> Any:
    return pytest.importorskip("scipy.sparse").csr_array(np.eye(3))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (
        lambda: np.ma.masked_equal([1.0, 2.0, 3.0], 2.0),
        "is a MaskedArray: its mask would be ignored",
    ),
    "masked_number": (lambda: np.ma.masked, "is a MaskedConstant: its mask would be ignored"),
    "matrix": (lambda: np.matrix([[1.0, 2.0]]), r"is a matrix: its \* is a product of matrices"),
    "units": (lambda: np.ones(3).view(WithUnits), r"is a WithUnits: its arithmetic is its own \(__array_ufunc__\)"),
    "sparse": (sparse, r"is a csr_array: it is sparse; pass x\.toarray\(\)"),
    "negative_bit": (negated, r": a Tensor with the negative bit cannot be read; pass x\.resolve_neg\(\)"),
    "record": (lambda: np.array([(1.0, 2)], "f8, i8"), ": dtype .* is not one of f16, bf16"),
    "object": (lambda: np.array([1.0, None]), ": dtype object is not one of f16, bf16"),
    "text": (lambda: np.array(["a"]), ": dtype <U1 is not one of f16, bf16"),
    "time": (lambda: np.array(["2020-01-01"], "M8[D]"), ": dtype datetime64.* is not one of f16, bf16"),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_mean_more_than_their_elements_are_refused(name: str) -> None:
    make, words = REFUSED[name]
    array = make()
    compiled = tenon.jit(lambda x: x * 2.0)
    for _ in range(3):  # native code serves calls of plain arrays, and must not take these for such
        compiled(np.ones(3))
    with pytest.raises(TypeError, match=f"argument x ?{words}"):
        compiled(array)
    with pytest.raises(TypeError, match=rf"tenon\.abs: x ?{words}"):
        tenon.abs(array)
    with pytest.raises(TypeError, match=rf"tenon\.add: y ?{words}"):
        tenon.jit(lambda x: tenon.add(x, array))(np.ones(3))
    with pytest.raises(TypeError, match=f"argument x ?{words}"):
        tenon.grad(lambda x: tenon.sum(x))(array)


def test_masks_are_not_lost_on_other_ways() -> None:
    masked = np.ma.masked_equal([0, 1, 2], 1)
    words = "is a MaskedArray: its mask would be ignored"
    calls: list[Callable[[], Any]] = [
        lambda: tenon.stack((masked, masked)),
        lambda: tenon.sum([masked, masked]),
        lambda: tenon.unstack(masked),
        lambda: tenon.constant(value=masked),
        lambda: tenon.jit(lambda x: x[masked])(np.ones(3)),
        lambda: tenon.jit(lambda x: x + 1)(np.arange(3), out=masked),
        lambda: tenon.jit(lambda x, y: x + y).freeze(masked)(np.arange(3)),
        lambda: tenon.jit(lambda: masked)(),
        lambda: tenon.vmap(tenon.exp)(masked),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=words):
            call()


class Gives:
    """What gives an array when NumPy asks, as tables and images of other libraries do."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.array


@pytest.mark.parametrize("kind", [Gives, lambda array: array.view(np.recarray)], ids=["gives", "recarray"])
def test_what_gives_an_array_is_one(kind: Callable[[Array], Any]) -> None:
    array = floats(3)
    given = kind(array)
    for _ in range(3):
        np.testing.assert_array_equal(tenon.jit(twice)(given), twice(array))
    np.testing.assert_array_equal(tenon.multiply(given, 2.0), array * 2)
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.add(x, given))(array), array + array)
    np.testing.assert_array_equal(tenon.grad(lambda x: tenon.sum(tenon.square(x)))(given), 2 * array)
    np.testing.assert_array_equal(tenon.add([array, array], [given, given]), np.stack([2 * array] * 2))


def test_images_are_arrays() -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (3, 2), (1, 2, 3))
    np.testing.assert_array_equal(tenon.jit(lambda x: x * 2)(image), 2 * np.asarray(image))


def test_torch_tensors_are_read_alike_on_all_ways() -> None:
    torch = pytest.importorskip("torch")
    half = torch.ones(3, dtype=torch.bfloat16)
    assert tenon.abs(half).dtype == tenon.jit(tenon.abs)(half).dtype == ml_dtypes.bfloat16
    leaf = torch.ones(3, requires_grad=True)
    for call in (tenon.abs, tenon.jit(lambda x: tenon.abs(x)), lambda x: tenon.jit(lambda: tenon.abs(x))()):
        with pytest.raises(TypeError, match=r": a Tensor cannot be read: .*require gradient"):
            call(leaf)
        with pytest.raises(TypeError, match=r": a Tensor cannot be read: .*meta"):
            call(torch.ones(3, device="meta"))
