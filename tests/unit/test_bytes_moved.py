"""What `compiled.memory().moved` counts, against sums by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.runtime import executables

F32 = np.float32
X = np.arange(37 * 50, dtype=F32).reshape(37, 50)
PLACES = np.array([3, 0, 3])


def moved(function: Callable[..., Any], *arrays: Any, **options: Any) -> list[tuple[int, int]]:
    """What each kernel reads and writes, in bytes."""
    found = tenon.jit(function, **options).compile(*arrays).memory().moved
    assert found is not None
    return [(kernel.read, kernel.written) for kernel in found]


@pytest.mark.parametrize(
    ("function", "read", "written"),
    [
        (lambda x: x * x.mean(axis=1, keepdims=True), X.size, X.size),
        (lambda x: x[1:30:3, ::-2], 10 * 25, 10 * 25),
        (lambda x: tenon.concatenate((x[:20], x[10:]), axis=0), X.size, 47 * 50),  # ten rows are read once, too
        (lambda x: tenon.concatenate((x[:20], x[27:]), axis=0), 30 * 50, 30 * 50),
        (lambda x: tenon.concatenate((x[:, :25] - x[:, 25:], x[:, :25] + x[:, 25:]), axis=1), X.size, X.size),
        (lambda x: tenon.pad(x, low=(2, 0), high=(3, 1)), X.size, 42 * 51),
        (lambda x: (m := x.max(axis=1, keepdims=True), x - m), X.size, X.size + 37),  # the largest are read as written
        (lambda x: (x + 1, x[:, :7].sum(axis=0)), X.size + 37 * 7, X.size + 7),
    ],
)
def test_elements_that_are_touched_count_once(function: Callable[..., Any], read: int, written: int) -> None:
    counts = moved(function, X)
    assert (sum(count for count, _ in counts), sum(count for _, count in counts)) == (4 * read, 4 * written)


def test_places_that_are_computed_count_for_each_read() -> None:
    assert moved(lambda x, i: x[i], X, PLACES) == [(4 * 3 * 50 + 24, 4 * 3 * 50)]
    many = np.zeros(1000, np.int64)
    assert moved(lambda x, i: x[i], X, many) == [(X.nbytes + 8000, 4 * 1000 * 50)]  # no more than there is


def test_places_between_windows_are_not_read() -> None:
    (counts,) = moved(lambda x: tenon.max_pool2d(x, window=(2, 2), stride=(3, 3)), X[None, None])
    assert counts == (4 * (2 * 12) * (2 * 17), 4 * 12 * 17)


def test_what_is_donated_is_not_moved() -> None:
    def update(x: Any, row: Any, place: Any) -> Any:
        return tenon.dynamic_update_slice(x, row, (place, 0))

    arrays = (X, X[:1], np.array(5))
    given = moved(update, *arrays, donate=("x",))
    assert sum(map(sum, given)) < 3 * X[:1].nbytes
    assert sum(map(sum, moved(update, *arrays))) - sum(map(sum, given)) == 2 * X.nbytes


def test_loops_count_their_iterations_where_these_are_known() -> None:
    def step(carry: Any, row: Any) -> Any:
        return carry * 0.5 + row, carry.sum()

    memory = tenon.jit(lambda x: tenon.scan(step, x[0], x)).compile(X).memory()
    assert memory.moved is not None
    (kernel,) = [kernel for kernel in memory.moved if kernel.calls == 37 and kernel.written == 4 * 37]
    assert kernel.read == X.nbytes
    assert not kernel.at_least
    assert f"written by {kernel.kernel} in 37 calls" in str(memory)

    memory = tenon.jit(lambda x: tenon.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, x)).compile(X).memory()
    assert memory.moved is not None
    assert (X.nbytes, X.nbytes, True) in [(kernel.read, kernel.written, kernel.at_least) for kernel in memory.moved]
    assert "of a while loop" in str(memory)


def test_programs_of_the_disk_cache_say_the_same(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        return tenon.cumsum(x @ x.T, axis=0)

    with tenon.knobs.override(cache_dir=tmp_path, cache=True):
        first = tenon.jit(function).compile(X).memory()
        monkeypatch.setattr(executables, "_executables", BoundedCache(1))
        again = tenon.jit(function).compile(X)
    assert first.moved
    assert again.memory() == first
    assert f"moved        {sum(kernel.read + kernel.written for kernel in first.moved):>14} bytes" in str(first)


def test_what_is_not_counted_is_not_said_to_be_nothing() -> None:
    sized = tenon.jit(lambda x: x + 1).compile(tenon.ShapeDtype((tenon.dim("n"), 8), "f32"))
    loops = tenon.jit(lambda x: x + 1).lower(X).compile()
    for compiled in (sized, loops):
        assert compiled.memory().moved is None
        assert "moved" not in str(compiled.memory())
