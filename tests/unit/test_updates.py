"""Parts of tensors are written where they are: numbers against NumPy, and memory that is not touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.lower import lower_module

F32 = np.float32
CACHE = np.arange(64 * 48, dtype=F32).reshape(64, 48)
ROW = np.full((1, 48), -1, F32)


def with_row(cache: Any, row: Any, place: Any) -> Any:
    return tenon.dynamic_update_slice(cache, row, (place, 0))


def expected(cache: np.ndarray[Any, Any], place: int) -> np.ndarray[Any, Any]:
    result = cache.copy()
    result[place] = ROW
    return result


UPDATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "dynamic_update_slice": with_row,
    "a traced index": lambda cache, row, place: cache.at[place].set(row[0]),
    "an array of them": lambda cache, row, place: cache.at[tenon.reshape(place, shape=(1,))].set(row),
    "an integer": lambda cache, row, place: cache.at[5].set(row[0]),
    "a slice": lambda cache, row, place: cache.at[5:6].set(row),
    "a slice from behind": lambda cache, row, place: cache.at[5:4:-1].set(row),
    "scatter_nd": lambda cache, row, place: tenon.scatter_nd(cache, tenon.reshape(place, shape=(1, 1)), row),
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_a_donated_array_is_updated_where_it_is(update: Callable[[Any, Any, Any], Any]) -> None:
    jitted = tenon.jit(lambda cache, row, place: update(cache, row, place), donate=("cache",))
    place, cache = np.array(5), CACHE.copy()
    memory = jitted.compile(cache, ROW, place).memory()
    assert memory.peak < ROW.nbytes
    address = cache.ctypes.data
    result = jitted(cache, ROW, place)
    assert result.ctypes.data == address
    np.testing.assert_array_equal(result, expected(CACHE, 5))


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_an_array_that_is_not_donated_stays(update: Callable[[Any, Any, Any], Any]) -> None:
    cache = CACHE.copy()
    result = tenon.jit(lambda cache, row, place: update(cache, row, place))(cache, ROW, np.array(5))
    np.testing.assert_array_equal(cache, CACHE)
    np.testing.assert_array_equal(result, expected(CACHE, 5))


def test_what_is_read_later_is_kept() -> None:
    def program(cache: Any, row: Any, place: Any) -> Any:
        first = with_row(cache, row, place)
        second = with_row(first, row * 2, place + 1)
        return second, first.sum(), cache.sum(), with_row(cache, row * 3, place + 2)

    results = tenon.jit(program, donate=("cache",))(CACHE.copy(), ROW, np.array(3))
    first = expected(CACHE, 3)
    second = first.copy()
    second[4] = -2
    third = CACHE.copy()
    third[5] = -3
    for got, wanted in zip(results, (second, first.sum(), CACHE.sum(), third), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_an_operand_that_is_read_by_the_same_op_is_kept() -> None:
    x = np.arange(8.0)
    order = np.array([1, 2, 3, 4, 5, 6, 7, 0])
    rolled = tenon.jit(lambda x, i: tenon.scatter_nd(x, tenon.expand_dims(i, axis=-1), x), donate=("x",))
    np.testing.assert_array_equal(rolled(x.copy(), order), np.roll(x, 1))
    moved = tenon.jit(lambda x: x.at[1:].set(x[:-1]), donate=("x",))
    np.testing.assert_array_equal(moved(x.copy()), [0, *range(7)])


def test_state_of_loops_is_updated_where_it_is() -> None:
    def program(cache: Any, rows: Any) -> Any:
        def step(carried: Any, row: Any) -> Any:
            cache, place = carried
            return (with_row(cache, row, place), place + 1), None

        return tenon.scan(step, (cache, np.int32(7)), rows)[0][0]

    rows = np.arange(5 * 48, dtype=F32).reshape(5, 1, 48)
    jitted = tenon.jit(program, donate=("cache",))
    wanted = CACHE.copy()
    wanted[7:12] = rows[:, 0]
    assert jitted.compile(CACHE, rows).memory().peak < CACHE.nbytes
    np.testing.assert_array_equal(jitted(CACHE.copy(), rows), wanted)


def test_memory_goes_to_what_updates_it() -> None:
    def program(keys: Any, values: Any, row: Any, place: Any) -> Any:
        return with_row(values, row, place), with_row(keys, row * 2, place)

    jitted = tenon.jit(program, donate=("keys", "values"))
    keys, values = CACHE.copy(), CACHE.copy() + 1
    addresses = [values.ctypes.data, keys.ctypes.data]
    results = jitted(keys, values, ROW, np.array(2))
    assert [result.ctypes.data for result in results] == addresses
    np.testing.assert_array_equal(results[0], expected(CACHE + 1, 2))


def test_large_copies_are_kernels() -> None:
    large = np.zeros((1024, 1024), F32)
    jitted = tenon.jit(lambda x: x.at[3].set(1.0))
    assert "func.call @copy_0" in str(lower_module(jitted.trace(large).module, "cpu"))
    assert "func.call @copy_0" not in str(lower_module(jitted.trace(large[:10]).module, "cpu"))
    result = jitted(large)
    assert result.sum() == 1024
    assert large.sum() == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "bool", "float64"])
def test_elements_are_moved_as_they_are_stored(dtype: str) -> None:
    array = (np.arange(200).reshape(2, 100) % 2).astype(np.dtype(dtype))
    row = np.ones((1, 70), np.dtype(dtype))
    result = tenon.jit(lambda x, row: x.at[1:, 20:90].set(row))(array, row)
    wanted = array.copy()
    wanted[1:, 20:90] = row
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("width", [8, 16, 33, 64, 128, 512])
@pytest.mark.parametrize("name", ["add", "multiply", "max"])
def test_rows_that_updates_meet_again(name: str, width: int, dtype: Any) -> None:
    """In runs, at random, and behind the end, where they are dropped: in the order that NumPy applies them in."""
    random = np.random.default_rng(width)
    places = np.concatenate([np.repeat(random.integers(-7, 7, 40), 3), random.integers(-7, 7, 40), [0, 9, 9, -8, 6]])
    updates = random.integers(1, 4, (len(places), width)).astype(dtype)
    start = random.integers(0, 9, (7, width)).astype(dtype)
    inside = (places >= -7) & (places < 7)
    right = start.copy()
    {"add": np.add, "multiply": np.multiply, "max": np.maximum}[name].at(right, places[inside], updates[inside])
    updated = tenon.jit(lambda x, i, u: getattr(x.at[i], name)(u))(start, places, updates)
    np.testing.assert_array_equal(updated, right)


def test_rows_of_each_batch_that_updates_meet_again() -> None:
    random = np.random.default_rng(0)
    places, updates = random.integers(0, 5, (64, 300)), random.standard_normal((64, 300, 32), F32)
    right = np.zeros((64, 5, 32), F32)
    for batch in range(64):
        np.add.at(right[batch], places[batch], updates[batch])
    program = tenon.jit(tenon.vmap(lambda i, u: tenon.zeros((5, 32)).at[i].add(u)))
    for threads in (1, 2):
        with tenon.num_threads(threads):
            np.testing.assert_array_equal(program(places, updates), right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("name", ["add", "multiply", "max", "min"])
@pytest.mark.parametrize("shape", [(256,), (7, 5)])
def test_many_updates_of_a_small_result(shape: tuple[int, ...], name: str, dtype: Any) -> None:
    """Chunks have copies of the result: the same bits for every number of threads, near what NumPy gives in f64."""
    random = np.random.default_rng(len(shape))
    places = [random.integers(-size - 1, size + 1, 200_001) for size in shape]
    updates = random.uniform(0.9, 1.1, 200_001) if np.dtype(dtype).kind == "f" else random.integers(-9, 9, 200_001)
    updates, start = updates.astype(dtype), random.integers(1, 9, shape).astype(dtype)
    inside = np.logical_and.reduce([(-size <= p) & (p < size) for size, p in zip(shape, places, strict=True)])
    right = start.astype(np.float64 if np.dtype(dtype).kind == "f" else dtype)
    at = tuple([p[inside] for p in places])
    {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}[name].at(right, at, updates[inside])
    program = tenon.jit(lambda x, u, *i: getattr(x.at[i], name)(u))
    results = []
    for threads in (1, 2, 3):
        with tenon.num_threads(threads):
            results.append(program(start, updates, *places))
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    rtol = 0 if np.dtype(dtype).kind == "i" else 1e-5 if dtype is F32 else 1e-12
    np.testing.assert_allclose(results[0], right, rtol=0 if name in ("max", "min") else rtol)


@pytest.mark.parametrize("index", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize("name", ["add", "set", "max"])
def test_numbers_that_go_where_others_went_before(name: str, dtype: Any, index: Any) -> None:
    """Their places are found in vectors before: the updates keep their order, and some places lie outside."""
    random = np.random.default_rng(0)
    places = random.integers(0, 256, 3001).astype(index)
    places = places - index(20) if index is not np.uint8 else places
    start, updates = random.integers(0, 9, 200).astype(dtype), random.integers(-9, 9, 3001).astype(dtype)
    inside = (places >= -200) & (places < 200)
    right = start.copy()
    if name == "set":
        right[places[inside]] = updates[inside]
    else:
        {"add": np.add, "max": np.maximum}[name].at(right, places[inside], updates[inside])
    updated = tenon.jit(lambda x, i, u: getattr(x.at[i], name)(u))(start, places, updates)
    np.testing.assert_array_equal(updated, right)


@pytest.mark.parametrize("index", [np.uint64, np.int8, np.uint16])
def test_places_keep_their_dtype(index: Any) -> None:
    """What is beyond the signed numbers of as many bits lies outside, and is not counted from behind."""
    limits = np.iinfo(index)
    places = np.array([0, 3, limits.max, limits.max], index)
    counts = tenon.jit(lambda i: tenon.zeros((70,)).at[i].add(1.0))(places)
    assert counts.nonzero()[0].tolist() == [0, 3]
    text = str(tenon.jit(lambda i: tenon.zeros((70,)).at[i].add(1.0)).trace(places).module)
    assert "tenon.cast" not in text


IN_PLACE: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], bool]] = {
    # What a user writes, the part that NumPy changes, and whether the part is in memory before it is there.
    "other values": (lambda x, y: x.at[1:-1, 2:].set(y[1:-1, 2:] * 3), lambda x, y: y[1:-1, 2:] * 3, False),
    "added": (lambda x, y: x.at[1:-1, 2:].add(y[1:-1, :-2]), lambda x, y: x[1:-1, 2:] + y[1:-1, :-2], False),
    "its neighbours": (lambda x, y: x.at[1:-1, 2:].add(x[1:-1, :-2]), lambda x, y: x[1:-1, 2:] + x[1:-1, :-2], True),
    "its transpose": (lambda x, y: x.at[1:-1, 2:].add(x.T[1:-1, 2:]), lambda x, y: x[1:-1, 2:] + x.T[1:-1, 2:], True),
}


@pytest.mark.parametrize("is_donated", [False, True])
@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_computed_for_a_part_is_written_there(name: str, is_donated: bool) -> None:
    function, part, is_kept = IN_PLACE[name]
    x, y = np.random.default_rng(0).standard_normal((2, 50, 50))
    expected = x.copy()
    expected[1:-1, 2:] = part(x, y)
    jitted = tenon.jit(lambda x, y: function(x, y), donate=("x",) if is_donated else ())
    assert (jitted.compile(x, y).memory().peak > 0) == is_kept
    np.testing.assert_allclose(jitted(x.copy(), y), expected, rtol=1e-14)


def test_fields_that_change_each_other_are_in_one_place_each() -> None:
    def step(fields: Any, _: Any) -> Any:
        electric, magnetic = fields
        magnetic = magnetic.at[:, :-1].add(0.5 * (electric[:, 1:] - electric[:, :-1]))
        return (electric.at[:, 1:-1].add(0.5 * (magnetic[:, 1:-1] - magnetic[:, :-2])), magnetic), electric[3, 3]

    fields = np.random.default_rng(0).standard_normal((2, 40, 60))
    run = tenon.jit(lambda electric, magnetic: tenon.scan(step, (electric, magnetic), length=5))
    assert run.compile(*fields).memory().peak < 1.1 * fields[0].nbytes
    (electric, magnetic), probes = run(*fields)
    for number in range(5):
        assert probes[number] == pytest.approx(fields[0][3, 3], abs=1e-12)
        fields[1, :, :-1] += 0.5 * (fields[0, :, 1:] - fields[0, :, :-1])
        fields[0, :, 1:-1] += 0.5 * (fields[1, :, 1:-1] - fields[1, :, :-2])
    np.testing.assert_allclose(electric, fields[0], atol=1e-12)
    np.testing.assert_allclose(magnetic, fields[1], atol=1e-12)
