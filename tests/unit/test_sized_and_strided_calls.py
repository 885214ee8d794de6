"""Calls without Python of programs for all sizes, and with arrays that are not row-major: what they give is compared
with the general way, which `JitFunction.__call__` is, and with NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_calls import floats, general_calls, warmed

import tenon
from tenon.runtime.arguments.orders import LEAST, LEAST_PERMUTED, place_of
from tenon.runtime.call.callable_class import is_supported
from tenon.runtime.cpu.result_memory import LEAST as LEAST_OF_POOL
from tenon.runtime.jit import JitFunction

pytestmark = pytest.mark.skipif(not is_supported(), reason="native calls need CPython with a global lock")
Array = np.ndarray[Any, Any]


def shapes(x: Any, y: Any) -> dict[str, Any]:
    """Results of sizes that are sums, products and quotients."""
    joined = tenon.concat([x, y], axis=0)
    thirds = tenon.slice(joined, starts=(0, 0), limits=joined.shape, strides=(3, 1))
    return {"sum": joined * 2, "thirds": (thirds, [x + 1]), "flat": x.reshape(-1), "outer": x @ y.T, "one": x.sum()}


SIZES = [(2, 1), (3, 3), (7, 4), (64, 1), (1, 5), (1000, 17)]
DYNAMIC = {"x": ("n", None), "y": ("m", None)}


def test_programs_for_all_sizes_are_called_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.jit(shapes, dynamic=DYNAMIC)
    warmed(function, floats(5, 6), floats(2, 6))
    calls = general_calls(monkeypatch, function)
    for n, m in SIZES:
        x, y = floats(n, 6, seed=n), floats(m, 6, seed=m)
        given = function(x, y)
        joined = np.concatenate([x, y])
        np.testing.assert_array_equal(given["sum"], joined * 2)
        np.testing.assert_array_equal(given["thirds"][0], joined[::3])
        np.testing.assert_array_equal(given["thirds"][1][0], x + 1)
        np.testing.assert_array_equal(given["flat"], x.reshape(-1))
        np.testing.assert_allclose(given["outer"], x @ y.T, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(given["one"], x.sum(dtype=np.float64), rtol=1e-4, atol=1e-3)
    assert not calls


@pytest.mark.parametrize(
    ("function", "needs_none"), [(lambda x: x + 1, True), (lambda x: tenon.softmax(x @ (x.T @ x), axis=0), False)]
)
def test_calls_are_given_scratch_memory_where_they_need_some(function: Any, needs_none: bool) -> None:
    compiled = tenon.jit(function).compile(tenon.ShapeDtype((tenon.dim("n"), 3)))
    arena = compiled.executable.launch({}, ()).arena
    assert isinstance(arena, np.ndarray) == needs_none
    x = floats(5, 3)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), tenon.jit(function)(x), rtol=1e-5)


def test_sizes_that_contradict_each_other_are_named_as_ever() -> None:
    function = warmed(tenon.jit(lambda x, y: x + y, dynamic={"x": ("n",), "y": ("n",)}), floats(5), floats(5))
    np.testing.assert_array_equal(function(floats(9), floats(9)), 2 * floats(9))
    with pytest.raises(ValueError, match=r"n is 4 in dimension 0 of x and 5 in dimension 0 of y"):
        function(floats(4), floats(5))


@pytest.mark.parametrize(
    "size", ["n", "2*n + 1", "n*m + 3*n", "(n//3) + (m%4)", "((n + 7*m)//5)*n", "(n + m)//(m + 1)"]
)
def test_dimensions_that_are_computed_from_others(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, m = tenon.dim("n"), tenon.dim("m")
    compute: Any = eval(f"lambda n, m: {size}")
    function = tenon.jit(lambda x, y, z: (x + 1, y * 2, z - 1))
    compiled = function.compile(*[tenon.ShapeDtype((given,)) for given in (n, m, compute(n, m))])
    warmed(compiled, floats(4), floats(5), floats(compute(4, 5)))
    calls = general_calls(monkeypatch, compiled)
    for a, b in ((4, 5), (9, 4), (1, 3), (17, 8), (100, 1)):
        arrays = [floats(a), floats(b), floats(compute(a, b), seed=1)]
        for given, wanted in zip(compiled(*arrays), (arrays[0] + 1, arrays[1] * 2, arrays[2] - 1), strict=True):
            np.testing.assert_array_equal(given, wanted)
    assert not calls
    with pytest.raises(ValueError, match="dimension 0 of z"):
        compiled(floats(4), floats(5), floats(compute(4, 5) + 1))


def test_a_size_of_zero_that_a_program_cannot_do_takes_the_general_way() -> None:
    function = warmed(tenon.jit(lambda x: x.reshape(-1, 2).mean(axis=0), dynamic={"x": ("n", None)}), floats(4, 2))
    assert np.isnan(function(floats(0, 2))).all()
    np.testing.assert_allclose(function(floats(6, 2)), floats(6, 2).mean(axis=0), rtol=1e-5)


def test_results_of_any_size_are_written_where_the_caller_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.jit(lambda x: x * 2, dynamic={"x": ("n",)})
    for _ in range(3):
        function(floats(4), out=np.empty(4, np.float32))
    calls = general_calls(monkeypatch, function)
    place = np.empty(9, np.float32)
    assert function(floats(9), out=place) is place
    np.testing.assert_array_equal(place, floats(9) * 2)
    assert not calls
    with pytest.raises(ValueError, match="out"):
        function(floats(9), out=np.empty(8, np.float32))


def test_scratch_memory_and_results_grow_with_the_sizes() -> None:
    function = tenon.jit(lambda x: tenon.softmax(x @ x.T, axis=-1) @ x, dynamic={"x": ("n", None)})
    for n in (3, 3, 3, 700, 2, LEAST_OF_POOL // 32 // 8):
        x = floats(n, 8)
        np.testing.assert_array_equal(function(x), JitFunction.__call__(function, x))
    large = tenon.jit(lambda x: x + 1, dynamic={"x": ("n",)})
    warmed(large, floats(3))
    assert large(floats(LEAST_OF_POOL // 4)).ctypes.data % 4096 == 0


# --- strides --------------------------------------------------------------------------------------


def odd(array: Array) -> Array:
    """The same elements at an address that is no multiple of their size."""
    return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)


STRIDED: dict[str, Callable[[], Array]] = {
    "steps": lambda: floats(8, 12)[::2, ::3],
    "transposed": lambda: floats(4, 4).T,
    "backwards": lambda: floats(4, 4)[::-1],
    "broadcast": lambda: np.broadcast_to(floats(4), (4, 4)),
    "misaligned": lambda: odd(floats(4, 4)),
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("dynamic", [None, {"x": ("n", None)}], ids=["static", "sized"])
def test_small_strided_arrays_are_copied_without_python(
    name: str, dynamic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = warmed(tenon.jit(lambda x, y: x * 2 + y, dynamic=dynamic), floats(4, 4), np.float32(1))
    calls = general_calls(monkeypatch, function)
    x = STRIDED[name]()
    count = sys.getrefcount(x)
    for _ in range(5):
        np.testing.assert_array_equal(function(x, np.float32(1)), x * 2 + 1)
    assert not calls
    assert sys.getrefcount(x) == count


def test_a_donated_strided_array_stays_as_it_was() -> None:
    function = tenon.jit(lambda x: x + 1, donate="x")
    warmed(lambda: function(floats(6)))
    base = floats(12)
    np.testing.assert_array_equal(function(base[::2]), floats(12)[::2] + 1)
    np.testing.assert_array_equal(base, floats(12))


def test_strided_places_for_results_are_refused() -> None:
    function = tenon.jit(lambda x: x + 1)
    for _ in range(3):
        function(floats(6), out=np.empty(6, np.float32))
    with pytest.raises(ValueError, match="has strides"):
        function(floats(6), out=np.empty(12, np.float32)[::2])


# --- orders ---------------------------------------------------------------------------------------

SIDE = 520
assert SIDE * SIDE * 4 > LEAST


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["rows", "columns"])
def test_large_arrays_are_read_in_the_order_of_memory(order: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.jit(lambda x, y: (x * 2 + y).sum(axis=1))
    x, y = np.ascontiguousarray(floats(SIDE, SIDE).transpose(order)).transpose(order), floats(SIDE, SIDE, seed=1)
    copied: list[Any] = []
    monkeypatch.setattr(np, "copyto", lambda *arrays: copied.append(arrays))
    warmed(function, x, y)
    calls = general_calls(monkeypatch, function)
    np.testing.assert_allclose(function(x, y), (x * 2 + y).sum(axis=1), rtol=1e-4, atol=1e-3)
    assert not calls
    assert not copied


def test_orders_are_told_apart() -> None:
    function = tenon.jit(lambda x: x[:3] - x.mean())
    given = floats(64, 100, 80)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (0, 1, 2), (1, 2, 0)):
        back = np.argsort(order)
        x = np.ascontiguousarray(given.transpose(order)).transpose(back)
        for _ in range(3):
            np.testing.assert_allclose(function(x), given[:3] - given.mean(), rtol=1e-4, atol=1e-5)
    # neither contiguous in any order, nor of unusual dimensions that mean nothing
    for x in (given[::-1], given[:, :, ::-1], given[:, None].transpose(0, 3, 1, 2)):
        for _ in range(3):
            np.testing.assert_allclose(function(x), x[:3] - x.mean(), rtol=1e-4, atol=1e-5)


def test_what_is_given_away_is_row_major() -> None:
    function = tenon.jit(lambda x: x + 1, donate="x")
    for _ in range(4):
        x = np.asfortranarray(floats(SIDE, SIDE))
        given = function(x)
        np.testing.assert_array_equal(given, floats(SIDE, SIDE) + 1)
        np.testing.assert_array_equal(x, floats(SIDE, SIDE))


def test_compiled_functions_take_every_order() -> None:
    compiled = tenon.jit(lambda x: x * 3).compile(floats(SIDE, SIDE))
    for x in (floats(SIDE, SIDE), floats(SIDE, SIDE).T, np.asfortranarray(floats(SIDE, SIDE))):
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), x * 3)


PARTS: dict[str, Callable[[], Array]] = {
    "rows": lambda: floats(2 * SIDE, SIDE)[::2],
    "columns": lambda: floats(SIDE, SIDE + 9)[:, :SIDE],
    "steps": lambda: floats(SIDE, 2 * SIDE)[:, ::2],
    "channel": lambda: floats(SIDE, SIDE, 3)[..., 0],
    "middle": lambda: floats(SIDE + 5, SIDE + 8)[2 : SIDE + 2, 3 : SIDE + 3],
    "transposed": lambda: floats(SIDE, SIDE + 8)[:, :SIDE].T,
    "transposed steps": lambda: floats(SIDE, 2 * SIDE)[:, ::2].T,
}


def parts_of(x: Any) -> tuple[Any, ...]:
    return x * 2 + 1, x.sum(axis=0), tenon.softmax(x), x.T * 3, x @ x[:, :7], tenon.cumsum(x, axis=1)


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_larger_arrays_are_read_where_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = PARTS[name]()
    place = place_of(x)
    assert place is not None
    assert place.strides(x.itemsize) == x.strides
    function = warmed(tenon.jit(parts_of), x)
    wanted = tenon.jit(parts_of)(np.ascontiguousarray(x))
    calls = general_calls(monkeypatch, function)
    for given, expected in zip(function(x), wanted, strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-3)
    assert not calls
    compiled = next(iter(function._compiled._by_kind.values()))[0]
    assert compiled.executable.copies == 0


def test_nothing_is_read_behind_the_last_element() -> None:
    """A part of a larger array that would go on behind the memory that there is, or that is another's, is copied."""
    base = floats(SIDE, SIDE + 8)
    last = base[:, 8:]
    assert place_of(last) is None
    assert place_of(base[:, :SIDE]) is not None
    function = warmed(tenon.jit(lambda x: x + 1), base[:, :SIDE])
    for x in (last, base.reshape(-1)[8:].reshape(-1)[: SIDE * SIDE].reshape(SIDE, SIDE), last[:, ::-1]):
        np.testing.assert_array_equal(function(x), x + 1)
    unowned = np.lib.stride_tricks.as_strided(base[8:, 8:], (SIDE - 8, SIDE), base.strides)[: SIDE - 9]
    assert place_of(unowned) is None


def test_small_transposed_arrays_are_copied_where_a_program_for_copies_is_there() -> None:
    x = floats(200, 200)
    assert LEAST_PERMUTED <= x.nbytes < LEAST
    for first in (x, x.T):
        function = tenon.jit(lambda x: x * 2)
        for given in (first, x, x.T, x):
            np.testing.assert_array_equal(function(given), given * 2)
        assert len(function._compiled._by_kind) == (1 if first is x else 2)
