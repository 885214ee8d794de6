"""Batches of a data set: shuffled by a seed, loaded ahead by threads or processes, and taken up again where one was."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tenon.datasets import (
    ArrayDataset,
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tenon.dialects.support.states import check_state
from tenon.dialects.support.suggestion import attribute_hints
from tenon.loading import End, Source, Stream, Workers, stacked
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


class DataLoader:
    """The batches of a data set, which has a length and gives an example for an index, or gives its examples one after
    the other (`IterableDataset`); each loop over it is an epoch.

    With `shuffle`, the order of an epoch is a function of `seed` and of its number. `transform(example, generator)`
    draws what it does to an example from a generator of its own, so that nothing depends on workers. `num_workers`
    threads, or processes (`worker="process"`: for code that holds Python's lock; the data set is pickled to them, and
    scripts guard what they run by `if __name__ == "__main__":`), load `prefetch_factor` batches each ahead. `collate`
    makes a batch of a list of examples; `collate_fn` is another name for it. `pin_memory` changes nothing.

    A `sampler` gives the indices of an epoch in their order in place of `shuffle`, a `batch_sampler` those of each
    batch. Samplers of Tenon's without a generator draw from one that follows from `seed` and the epoch; what others
    give counts as it is at the beginning of a loop. With `batch_size=None`, examples come one by one, as they are or
    as `collate` makes them.

    Examples that come one after the other are read by one worker, however many there are: each is given once, and there
    is nothing to divide between workers. They come in their own order, and what was given out before is read again to
    go on behind it.

    `state_dict()` says how many batches were given out; the next loop after `load_state_dict` goes on behind them.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        num_workers: int = 0,
        worker: str = "thread",
        prefetch_factor: int = 2,
        transform: Callable[[Any, np.random.Generator], Any] | None = None,
        collate: Callable[[Any], Any] = stacked,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
    ) -> None:
        collate = collate if collate_fn is None else collate_fn
        collate = as_it_is if batch_size is None and collate is stacked else collate
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("seed", seed, 0),
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
        ):
            if value is not None and value < least:
                raise ValueError(f"DataLoader: {name} is {value} where {least} or more is needed")
        if worker not in ("thread", "process"):
            raise ValueError(f"DataLoader: worker is {worker!r}, neither 'thread' nor 'process'")
        has_places = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        self._is_stream = isinstance(dataset, IterableDataset) or (not has_places and hasattr(dataset, "__iter__"))
        if not has_places and not self._is_stream:
            raise TypeError(f"DataLoader: a {type(dataset).__name__} has no length, or gives no examples by index")
        if self._is_stream and hasattr(dataset, "__next__"):
            raise TypeError(
                f"DataLoader: a {type(dataset).__name__} gives its examples once; give an object whose __iter__ begins "
                "anew, such as an IterableDataset"
            )
        self.dataset: Any = dataset
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.drop_last, self.num_workers, self.prefetch_factor = drop_last, num_workers, prefetch_factor
        self.worker = worker
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self._check_samplers()
        self._source: Source | Stream = (
            Stream(dataset, collate, transform, seed, batch_size, drop_last)
            if self._is_stream
            else Source(dataset, collate, transform, seed)
        )
        self._workers: Workers | None = None
        self._epoch, self._given = 0, 0
        self._goes_on = True
        """Whether the next loop begins where the position is; after a loop that was left it is a new epoch."""

    def _check_samplers(self) -> None:
        if self._is_stream and (self.shuffle or self.sampler is not None or self.batch_sampler is not None):
            raise ValueError(
                f"DataLoader: a {type(self.dataset).__name__} gives its examples in its own order; leave shuffle, "
                "sampler and batch_sampler out"
            )
        if self.batch_size is None and self.drop_last:
            raise ValueError("DataLoader: drop_last is for batches, and batch_size=None makes none")
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
        if not hasattr(examples, "__len__"):
            raise TypeError(f"DataLoader: a {type(examples).__name__} has no length, so how many batches is not known")
        return count_of_batches(len(examples), self.batch_size or 1, self.drop_last)

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next batch belongs to."""
        return self._epoch

    def __iter__(self) -> Iterator[Any]:
        if not self._goes_on and self._given:
            self._epoch, self._given = self._epoch + 1, 0
        self._goes_on = False
        return (self._read if self._is_stream else self._batches)(self._epoch, self._given)

    def _read(self, epoch: int, first: int) -> Iterator[Any]:
        for number, batch in enumerate(self._loaded((epoch, number) for number in count(first)), first):
            if isinstance(batch, End):
                self._epoch, self._given = epoch + 1, 0
                return
            self._epoch, self._given = epoch, number + 1
            yield batch

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        batches = self._order(epoch)
        end = len(batches)
        asked = [(epoch, number, batches[number]) for number in range(first, end)]
        for (_, number, _), batch in zip(asked, self._loaded(asked), strict=True):
            self._epoch, self._given = (epoch, number + 1) if number + 1 < end else (epoch + 1, 0)
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
        return order if self.batch_size is None else batches_of(order, self.batch_size, self.drop_last)

    def _loaded(self, asked: Iterable[Any]) -> Iterator[Any]:
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

    def _started(self) -> Workers:
        if self._workers is None:
            self._workers = Workers(self._source, 1 if self._is_stream else self.num_workers, self.worker)
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
        known = {"seed": self.seed, "shuffle": self.shuffle, "batch_size": self.batch_size or 0}
        return known if self._is_stream else {**known, "examples": len(self.dataset), "batches": len(self)}

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


def as_it_is(example: Any) -> Any:
    """An example, where no batches are made."""
    return example


def get_worker_info() -> None:
    """`None`, as in PyTorch where there are no workers: no worker has a part of a data set of its own."""


default_collate = stacked

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "get_worker_info",
    "random_split",
    "stacked",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
