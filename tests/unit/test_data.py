"""Loaders give each example once, in an order that depends on nothing but the seed, and go on where they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from tenon.data import (
    ArrayDataset,
    BatchSampler,
    ChainDataset,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

X = np.arange(23, dtype=np.float32)
DATA = ArrayDataset(X, -X)


def noisy(example: Any, generator: np.random.Generator) -> Any:
    return {"x": example[0] + generator.random(), "name": f"{example[0]:.0f}"}


def epochs(loader: DataLoader, count: int = 2) -> list[Any]:
    return [batch for _ in range(count) for batch in loader]


def first_batches(loader: DataLoader, count: int) -> list[Any]:
    """So many batches, of as many epochs as it takes; the loader stays where it is then."""
    found: list[Any] = []
    while len(found) < count:
        for batch in loader:
            found.append(batch)
            if len(found) == count:
                break
    return found


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # Python's numbers print all their digits


@pytest.mark.parametrize("settings", [{}, {"num_workers": 2}, {"num_workers": 2, "worker": "process"}], ids=str)
def test_batches(settings: Any) -> None:
    plain = epochs(DataLoader(DATA, 5))
    assert [len(x) for x, _ in plain] == [5, 5, 5, 5, 3] * 2
    np.testing.assert_array_equal(np.concatenate([x for x, _ in plain[:5]]), X)
    expected = epochs(DataLoader(DATA, 5, shuffle=True, seed=7, transform=noisy))
    with DataLoader(DATA, 5, shuffle=True, seed=7, transform=noisy, **settings) as loader:
        assert len(loader) == 5
        found = epochs(loader)
    assert same(found, expected)
    names = [[name for batch in part for name in batch["name"]] for part in (found[:5], found[5:])]
    assert sorted(map(int, names[0])) == sorted(map(int, names[1])) == [*range(23)]
    assert names[0] != names[1]
    dropped = epochs(DataLoader(DATA, 5, drop_last=True, num_workers=settings.get("num_workers", 0)))
    assert [len(x) for x, _ in dropped] == [5, 5, 5, 5] * 2


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("given", [0, 1, 4, 5, 7])
def test_goes_on_behind_what_was_given_out(workers: int, given: int) -> None:
    def loader() -> DataLoader:
        return DataLoader(DATA, 5, shuffle=True, seed=1, num_workers=workers, transform=noisy)

    expected, first, second = epochs(loader(), 3), loader(), loader()
    found = first_batches(first, given)
    second.load_state_dict(first.state_dict())
    assert second.epoch == given // 5
    found += epochs(second, 3 - second.epoch)
    assert same(found, expected)
    for name, other in (
        ("seed", DataLoader(DATA, 5, shuffle=True)),
        ("shuffle", DataLoader(DATA, 5, seed=1)),
        ("batch_size", DataLoader(DATA, 4, shuffle=True, seed=1)),
        ("examples", DataLoader([1, 2], 5, shuffle=True, seed=1)),
    ):
        with pytest.raises(ValueError, match=f"{name} is .*, and in the state"):
            other.load_state_dict(first.state_dict())


def test_a_loop_that_is_left_ends_its_epoch() -> None:
    loader = DataLoader(DATA, 5, shuffle=True)
    next(iter(loader))
    assert same([*loader], epochs(DataLoader(DATA, 5, shuffle=True))[5:])


class Faulty:
    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise KeyError("no such image")
        if index == 8:
            os._exit(1)
        return index


@pytest.mark.parametrize("settings", [{}, {"num_workers": 2}, {"num_workers": 2, "worker": "process"}], ids=str)
def test_exceptions_reach_the_loop(settings: Any) -> None:
    with DataLoader(Faulty(), 2, **settings) as loader:
        found: list[Any] = []
        with pytest.raises(KeyError, match="no such image") as caught:
            found.extend(batch.tolist() for batch in loader)
        assert found == [[0, 1], [2, 3]]
        assert "while batch 2 of epoch 0 was loaded, of the examples 4, 5" in caught.value.__notes__
        if settings.get("worker") == "process":
            loader.load_state_dict({**loader.state_dict(), "epoch": 0, "given": 3})
            with pytest.raises(RuntimeError, match="a worker process ended before its batch was there"):
                list(loader)


class Chosen(RandomSampler):
    def __iter__(self) -> Iterator[int]:
        return iter([3, 1])


class Twice(BatchSampler):
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[4, 4]])


def test_samplers_of_numpys_integers_give_single_examples() -> None:
    for order in (np.array([3, 1]), np.array([3, 1], np.uint8)):
        loader = DataLoader([0, 10, 20, 30], batch_size=None, sampler=order)
        assert [int(example) for example in loader] == [30, 10]


def test_samplers_of_users_say_what_is_given() -> None:
    examples = np.arange(6)
    assert [batch.tolist() for batch in DataLoader(examples, 2, sampler=Chosen(examples))] == [[3, 1]]
    batches = Twice(SequentialSampler(examples), 2)
    assert [batch.tolist() for batch in DataLoader(examples, batch_sampler=batches)] == [[4, 4]]


PROGRAM = """
import multiprocessing, signal, time
from tenon.data import DataLoader

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it

class Slow:
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.01 if index < 4 else 60)
        return index

if __name__ == "__main__":
    for _ in DataLoader(Slow(), 2, num_workers=2, worker="process"):
        print(*[process.pid for process in multiprocessing.active_children()], flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left(kind: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal, `kill` one; the workers are in the middle of an example."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        workers = process.stdout.readline().split()
        assert len(workers) == 2
        (os.killpg if kind == signal.SIGINT else os.kill)(process.pid, kind)
        _, errors = process.communicate(timeout=20)
    assert kind == signal.SIGKILL or "KeyboardInterrupt" in errors
    end = time.monotonic() + 10
    while any(map(_runs, workers)):
        assert time.monotonic() < end, "a worker is left"
        time.sleep(0.05)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: DataLoader(DATA, 0), ValueError, "batch_size is 0 where 1 or more is needed"),
        (lambda: DataLoader(DATA, num_workers=-1), ValueError, "num_workers is -1"),
        (lambda: DataLoader(DATA, worker="fork"), ValueError, "neither 'thread' nor 'process'"),
        (lambda: DataLoader(3), TypeError, "has no length"),
        (lambda: ArrayDataset(X, X[1:]), ValueError, r"the lengths are \[23, 22\]"),
    ],
)
def test_refused(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def indices(loader: DataLoader) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def test_samplers() -> None:
    examples = list(range(20))
    assert indices(DataLoader(examples, 8, sampler=SequentialSampler(examples))) == indices(DataLoader(examples, 8))
    shuffled = DataLoader(examples, 6, sampler=RandomSampler(examples))
    orders = [[index for batch in indices(shuffled) for index in batch] for _ in range(2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == examples
    assert sorted(SubsetRandomSampler([5, 7, 1], generator=0)) == [1, 5, 7]
    assert len([*RandomSampler(examples, num_samples=45)]) == 45
    for seeded in [*RandomSampler(examples, generator=0)], [*RandomSampler(examples, generator=0)]:
        assert seeded == [*RandomSampler(examples, generator=0)]
    once = RandomSampler(examples, generator=0)
    batches = DataLoader(examples, 6, sampler=RandomSampler(examples, generator=0))
    assert [*once] != [*once]
    assert indices(batches) != indices(batches)
    drawn = np.bincount([*WeightedRandomSampler([1.0, 0.0, 3.0], 8000, generator=0)]) / 8000
    np.testing.assert_allclose(drawn, [0.25, 0.0, 0.75], atol=0.02)
    assert sorted(WeightedRandomSampler([1, 0, 3], 2, replacement=False)) == [0, 2]

    def loader(seed: int | None = None) -> DataLoader:
        sampler = RandomSampler(examples, generator=seed)
        return DataLoader(examples, batch_sampler=BatchSampler(sampler, 6, drop_last=True))

    for seed in None, 5:
        first = loader(seed)
        assert len(first) == 3
        indices(first)
        rest = iter(first)
        next(rest)
        state = first.state_dict()
        second = loader(seed)
        second.load_state_dict(state)
        assert indices(second) == [batch.tolist() for batch in rest]
    del state["batches"]  # which former states had not
    second.load_state_dict(state)
    for name in state:
        with pytest.raises(ValueError, match=f"the state lacks {name}; it has"):
            second.load_state_dict({key: value for key, value in state.items() if key != name})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DataLoader(DATA, shuffle=True, sampler=[0, 1]), "leave shuffle out"),
        (lambda: DataLoader(DATA, 4, batch_sampler=[[0, 1]]), "leave batch_size"),
        (lambda: WeightedRandomSampler([1.0, -1.0], 2), "at least 0"),
        (lambda: WeightedRandomSampler([1.0, 0.0], 2, replacement=False), "1 weights are above 0"),
        (lambda: RandomSampler([1], num_samples=0), "num_samples is 0"),
        (lambda: RandomSampler([], True, 3), "no examples to draw"),
        (lambda: RandomSampler([1], True, 2.5), "num_samples is 2.5 where an integer"),  # pyright: ignore[reportArgumentType]
        (lambda: WeightedRandomSampler([1.0], True), "num_samples is True where an integer"),
        (lambda: BatchSampler([1], 2.5), "batch_size is 2.5 where an integer"),  # pyright: ignore[reportArgumentType]
        (lambda: RandomSampler([1], 3), "replacement is 3 where True or False"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_samplers_that_do_not_fit(make: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        make()


class Lines(IterableDataset):
    """Numbers in the order in which they are read; how often that was begun is counted."""

    begun = 0

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        self.begun += 1
        yield from ((np.float32(number), -number) for number in range(self.count))


@pytest.mark.parametrize("settings", [{}, {"num_workers": 3}, {"num_workers": 2, "worker": "process"}], ids=str)
def test_examples_that_come_one_after_the_other(settings: Any) -> None:
    """Each is given once, by any number of workers, as PyTorch does without any."""
    expected = [[*map(np.asarray, batch)] for batch in torch.utils.data.DataLoader(_TorchLines(13), batch_size=5)]
    with DataLoader(Lines(13), 5, **settings) as loader:
        for _ in range(2):
            assert same([[*map(np.asarray, batch)] for batch in loader], expected)
        assert loader.epoch == 2
        with pytest.raises(TypeError, match="a Lines has no length, so how many batches is not known"):
            len(loader)


class _TorchLines(torch.utils.data.IterableDataset[Any]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        return iter(Lines(self.count))


def test_streams_go_on_behind_what_was_given_out() -> None:
    expected = epochs(DataLoader(Lines(13), 5, transform=noisy), 2)
    for given in (0, 1, 2, 3, 4):
        first, second = (DataLoader(Lines(13), 5, transform=noisy, num_workers=n) for n in (0, 2))
        found = first_batches(first, given)
        second.load_state_dict(first.state_dict())
        found += [batch for _ in range(2 - second.epoch) for batch in second]
        assert same(found, expected)
    with pytest.raises(ValueError, match="batch_size is 4, and in the state 5"):
        DataLoader(Lines(13), 4).load_state_dict(first.state_dict())


def test_streams_of_other_forms() -> None:
    chained = Lines(2) + Lines(3)
    assert isinstance(chained, ChainDataset)
    assert [x.tolist() for x, _ in DataLoader(chained, 4, drop_last=True)] == [[0.0, 1.0, 0.0, 1.0]]
    alone = DataLoader(Lines(3), None)
    assert [*alone] == [(0, 0), (1, -1), (2, -2)]
    assert [*DataLoader(DATA, None, collate_fn=lambda example: example[1] + 0)] == [*-X]
    lines = Lines(100)
    with DataLoader(lines, 5, num_workers=1) as loader:
        for _ in range(2):
            next(iter(loader))
    assert lines.begun == 2
    for given, error in (
        (lambda: DataLoader(Lines(3), shuffle=True), "a Lines gives its examples in its own order; leave shuffle"),
        (
            lambda: DataLoader(Lines(3), None, drop_last=True),
            "drop_last is for batches, and batch_size=None makes none",
        ),
    ):
        with pytest.raises(ValueError, match=error):
            given()
    with pytest.raises(
        TypeError, match="a generator gives its examples once; give an object whose __iter__ begins anew"
    ):
        DataLoader(iter(x for x in X))
    with pytest.raises(NotImplementedError, match="IterableDataset does not define __iter__"):
        next(iter(DataLoader(IterableDataset())))
