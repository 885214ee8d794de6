"""How batches are made of examples: here, or ahead of time by threads and processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tenon.datasets import ArrayDataset
from tenon.dialects.support.plain_arrays import elements_of, is_on_gpu
from tenon.runtime.cuda.arrays import stacked_on_gpu


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
class Source:
    """How a batch is made of its examples, wherever that is done."""

    dataset: Any
    collate: Callable[[Sequence[Any]], Any]
    transform: Callable[[Any, np.random.Generator], Any] | None
    seed: int

    def batch(self, epoch: int, number: int, indices: Any) -> Any:
        """Batch `number` of an epoch, of the examples at some indices; or of one alone, which is no batch."""
        try:
            if isinstance(indices, int):
                return self.collate(self._example(epoch, indices))
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


def _shown(indices: Any) -> str:
    if isinstance(indices, int):
        return str(indices)
    shown = ", ".join(map(str, indices[:8]))
    return f"{shown}, …" if len(indices) > 8 else shown


class End:
    """What a stream gives when all examples were read."""


class Stream:
    """How batches are made of a data set that gives its examples one after the other; one reader does it."""

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[Any], Any],
        transform: Callable[[Any, np.random.Generator], Any] | None,
        seed: int,
        size: int | None,
        drops_last: bool,
    ) -> None:
        """Batches of `size` examples; without one, the examples themselves."""
        self.dataset, self.collate, self.transform, self.seed = dataset, collate, transform, seed
        self.size, self.drops_last = size, drops_last
        self._place = -1, 0
        """The epoch and the number of the batch that are read next."""
        self._examples: Iterator[tuple[int, Any]] = iter(())

    def batch(self, epoch: int, number: int) -> Any:
        """Batch `number` of an epoch, whose examples are read again from the first one if it is not the next."""
        try:
            if self._place != (epoch, number):
                self._examples = enumerate(self.dataset)
                skipped = number * (self.size or 1)
                next(islice(self._examples, skipped, skipped), None)
            self._place = epoch, number + 1
            found = [self._changed(epoch, *example) for example in islice(self._examples, self.size or 1)]
            if not found or (self.drops_last and len(found) < (self.size or 1)):
                return End()
            return self.collate(found[0] if self.size is None else found)
        except Exception as error:
            error.add_note(f"while batch {number} of epoch {epoch} was read")
            self._place = -1, 0
            raise

    def _changed(self, epoch: int, number: int, example: Any) -> Any:
        if self.transform is None:
            return example
        return self.transform(example, np.random.default_rng([self.seed, epoch, number]))


# In a process that is a worker: what it makes batches of.
_SOURCES: list[Source | Stream] = []


def _begin_worker(source: Source | Stream, parent: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that wants the batches
    _SOURCES[:] = [source]
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """End this process as soon as the other end of the pipe is closed, by will or because its process is no more."""
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


def _batch_in_worker(*batch: Any) -> Any:
    return _SOURCES[0].batch(*batch)


class Workers:
    """Threads or processes that make batches."""

    def __init__(self, source: Source | Stream, count: int, kind: str) -> None:
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


__all__ = ["End", "Source", "Stream", "Workers", "stacked"]
