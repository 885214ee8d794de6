"""Batches of a data set: shuffled by a seed, loaded ahead by threads or processes, and taken up again where one was."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tenon.datasets import ArrayDataset, ConcatDataset, Dataset, Subset, TensorDataset, random_split
from tenon.dialects.support.plain_arrays import elements_of, is_on_gpu
from tenon.dialects.support.states import check_state
from tenon.dialects.support.suggestion import attribute_hints
from tenon.runtime.cuda.arrays import stacked_on_gpu
from tenon.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    batches_of,
    count_of_batches,
    order_of,
)


def stacked(examples: Sequence[Any]) -> Any:
    """A batch of examples, which are arrays and numbers, or tuples, lists and dicts of these: along a new first axis.

    Of tensors it is a tensor, where they are. Texts are put in a list.
    """
    first = examples[0]
    if isinstance(first, dict):
        return {key: stacked([example[key] for example in examples]) for key in first}
    if isinstance(first, tuple | list):
        parts = [stacked(part) for part in zip(*examples, strict=True)]
        return tuple(parts) if isinstance(first, tuple) else parts
    if isinstance(first, str | bytes):
        return list(examples)
    there = [elements_of(example) for example in examples]
    on_gpu = is_on_gpu(there[0])
    made = stacked_on_gpu(there) if on_gpu else np.stack([np.asarray(example) for example in examples])
    face = getattr(type(first), "__tenon_new__", None)
    return made if face is None else face(made)


@dataclass(frozen=True)
class _Source:
    """How a batch is made of its examples, wherever that is done."""

    dataset: Any
    collate: Callable[[Sequence[Any]], Any]
    transform: Callable[[Any, np.random.Generator], Any] | None
    seed: int

    def batch(self, epoch: int, number: int, indices: Sequence[int]) -> Any:
        """Batch `number` of an epoch."""
        try:
            if self.transform is None and type(self.dataset) is ArrayDataset and self.collate is stacked:
                return tuple([array[indices] for array in self.dataset.arrays])
            return self.collate([self._example(epoch, index) for index in indices])
        except Exception as error:
            error.add_note(f"while batch {number} of epoch {epoch} was loaded, of the examples {_shown(indices)}")
            raise

    def _example(self, epoch: int, index: int) -> Any:
        example = self.dataset[index]
        if self.transform is None:
            return example
        # Of the example alone: the same numbers in any worker, and after a restart.
        return self.transform(example, np.random.default_rng([self.seed, epoch, index]))


def _shown(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:8]))
    return f"{shown}, …" if len(indices) > 8 else shown


# In a process that is a worker: what it makes batches of.
_SOURCES: list[_Source] = []


def _begin_worker(source: _Source, parent: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that wants the batches
    _SOURCES[:] = [source]
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """End this process as soon as the other end of the pipe is closed, by will or because its process is no more."""
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


def _batch_in_worker(epoch: int, number: int, indices: Sequence[int]) -> Any:
    return _SOURCES[0].batch(epoch, number, indices)


class _Workers:
    """Threads or processes that make batches."""

    def __init__(self, source: _Source, count: int, kind: str) -> None:
        self._pipe: tuple[Connection, ...] = ()
        """What ends processes when it is closed, and their end of it."""
        if kind == "thread":
            self.executor: Executor = ThreadPoolExecutor(count, "tenon-data")
            self.load: Callable[..., Any] = source.batch
        else:
            # Not forked: other threads of this process may hold locks.
            context = get_context("spawn")
            self._pipe = context.Pipe(duplex=False)
            self.executor = ProcessPoolExecutor(count, context, _begin_worker, (source, self._pipe[0]))
            self.load = _batch_in_worker

    def submit(self, *batch: Any) -> Future[Any]:
        """Have a batch made."""
        return self.executor.submit(self.load, *batch)

    def close(self) -> None:
        """End the workers; processes at once."""
        for end in self._pipe:
            end.close()
        self.executor.shutdown(wait=bool(self._pipe), cancel_futures=True)


class DataLoader:
    """The batches of a data set, which has a length and gives an example for an index; each loop over it is an epoch.

    With `shuffle`, the order of an epoch is a function of `seed` and of its number. `transform(example, generator)`
    draws what it does to an example from a generator of its own, so that nothing depends on workers. `num_workers`
    threads, or processes (`worker="process"`: for code that holds Python's lock; the data set is pickled to them, and
    scripts guard what they run by `if __name__ == "__main__":`), load `prefetch_factor` batches each ahead. `collate`
    makes a batch of a list of examples; `collate_fn` is another name for it. `pin_memory` changes nothing.

    A `sampler` gives the indices of an epoch in their order in place of `shuffle`, a `batch_sampler` those of each
    batch. Samplers of Tenon's without a generator draw from one that follows from `seed` and the epoch; what others
    give counts as it is at the beginning of a loop.

    `state_dict()` says how many batches were given out; the next loop after `load_state_dict` goes on behind them.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        num_workers: int = 0,
        worker: str = "thread",
        prefetch_factor: int = 2,
        transform: Callable[[Any, np.random.Generator], Any] | None = None,
        collate: Callable[[Sequence[Any]], Any] = stacked,
        collate_fn: Callable[[Sequence[Any]], Any] | None = None,
        pin_memory: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
    ) -> None:
        collate = collate if collate_fn is None else collate_fn
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("seed", seed, 0),
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
        ):
            if value < least:
                raise ValueError(f"DataLoader: {name} is {value} where {least} or more is needed")
        if worker not in ("thread", "process"):
            raise ValueError(f"DataLoader: worker is {worker!r}, neither 'thread' nor 'process'")
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(f"DataLoader: a {type(dataset).__name__} has no length, or gives no examples by index")
        self.dataset, self.batch_size, self.shuffle, self.seed = dataset, batch_size, shuffle, seed
        self.drop_last, self.num_workers, self.prefetch_factor = drop_last, num_workers, prefetch_factor
        self.worker = worker
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self._check_samplers()
        self._source = _Source(dataset, collate, transform, seed)
        self._workers: _Workers | None = None
        self._epoch, self._given = 0, 0
        self._goes_on = True
        """Whether the next loop begins where the position is; after a loop that was left it is a new epoch."""

    def _check_samplers(self) -> None:
        if self.sampler is not None and self.shuffle:
            raise ValueError("DataLoader: a sampler says in which order examples come; leave shuffle out")
        others = self.batch_size != 1 or self.shuffle or self.drop_last or self.sampler is not None
        if self.batch_sampler is not None and others:
            raise ValueError(
                "DataLoader: a batch_sampler says what batches there are; leave batch_size, shuffle, sampler and "
                "drop_last out"
            )
        for name, given in (("sampler", self.sampler), ("batch_sampler", self.batch_sampler)):
            if given is not None and not hasattr(given, "__len__"):
                raise TypeError(f"DataLoader: the {name}, a {type(given).__name__}, has no length")

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        batches: Any = self.batch_sampler
        if batches is not None:
            return len(batches)
        examples: Any = self.dataset if self.sampler is None else self.sampler
        return count_of_batches(len(examples), self.batch_size, self.drop_last)

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next batch belongs to."""
        return self._epoch

    def __iter__(self) -> Iterator[Any]:
        if not self._goes_on and self._given:
            self._epoch, self._given = self._epoch + 1, 0
        self._goes_on = False
        return self._batches(self._epoch, self._given)

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        batches = self._order(epoch)
        count = len(batches)
        asked = [(epoch, number, batches[number]) for number in range(first, count)]
        for (_, number, _), batch in zip(asked, self._loaded(asked), strict=True):
            self._epoch, self._given = (epoch, number + 1) if number + 1 < count else (epoch + 1, 0)
            yield batch

    def _order(self, epoch: int) -> list[Any]:
        """The indices of each batch."""
        generator, count = np.random.default_rng([self.seed, epoch]), len(self.dataset)
        if self.batch_sampler is not None:
            return [[*batch] for batch in order_of(self.batch_sampler, generator)]
        if self.sampler is not None:
            order = order_of(self.sampler, generator)
        else:
            order = generator.permutation(count).tolist() if self.shuffle else list(range(count))
        return batches_of(order, self.batch_size, self.drop_last)

    def _loaded(self, asked: Sequence[Any]) -> Iterator[Any]:
        if not self.num_workers:
            for batch in asked:
                yield self._source.batch(*batch)
            return
        workers = self._started()
        ahead: deque[Future[Any]] = deque()
        rest = iter(asked)
        try:
            for batch in islice(rest, self.num_workers * self.prefetch_factor):
                ahead.append(workers.submit(*batch))
            while ahead:
                made = ahead[0].result()
                ahead.popleft()
                if (batch := next(rest, None)) is not None:
                    ahead.append(workers.submit(*batch))
                yield made
        except BrokenProcessPool as error:
            self.close()
            raise RuntimeError("DataLoader: a worker process ended before its batch was there") from error
        except KeyboardInterrupt:
            self.close()
            raise
        finally:
            for future in ahead:
                future.cancel()

    def _started(self) -> _Workers:
        if self._workers is None:
            self._workers = _Workers(self._source, self.num_workers, self.worker)
            weakref.finalize(self, self._workers.close)
        return self._workers

    def close(self) -> None:
        """End the workers, which otherwise wait for the next epoch, and end with the loader or the process."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _order_settings(self) -> dict[str, int]:
        """What the batches of an epoch depend on."""
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "examples": len(self.dataset),
            "batches": len(self),
        }

    def state_dict(self) -> dict[str, int]:
        """The epoch, how many of its batches were given out, and what their order depends on."""
        return {"epoch": self._epoch, "given": self._given, **self._order_settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was asked for. Raises `ValueError` for the state of other batches: of another seed,
        `shuffle`, `batch_size` or number of examples or batches; or one that lacks an entry (`batches` may be missing:
        older states do not have it)."""
        check_state("DataLoader", state, [name for name in self.state_dict() if name != "batches"])
        for name, own in self._order_settings().items():
            if int(state.get(name, own)) != own:
                raise ValueError(f"DataLoader: {name} is {own}, and in the state {state[name]}")
        self._epoch, self._given, self._goes_on = int(state["epoch"]), int(state["given"]), True


default_collate = stacked

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "random_split",
    "stacked",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(
        __name__,
        {
            "IterableDataset": "write a data set with a length; its examples may be read when they are asked for",
        },
    )
