"""Orders of examples: samplers, whose elements are the indices that a loader takes, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, ClassVar

import numpy as np

from tenon.seeds import Seed, generator_of


class Sampler:
    """Base of samplers: a length, and indices in an order.

    Those that draw define `drawn`; unless they have a generator of their own, a loader gives them one that follows from
    its seed and the epoch, so that an epoch that is taken up again has the same order. An integer as `generator` is a
    seed besides: orders follow from it, too, and differ from epoch to epoch.
    """

    generator: Seed = None
    _drawn = 0
    """How many epochs were drawn without a loader."""
    is_drawn: ClassVar[bool] = False
    """Whether the last class to say what an epoch has says it by `drawn`, not by `__iter__`."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if vars(cls).keys() & {"drawn", "__iter__"}:
            cls.is_drawn = "drawn" in vars(cls)

    def drawn(self, generator: np.random.Generator) -> Sequence[int]:
        """The indices of an epoch."""
        raise NotImplementedError(f"{type(self).__name__} defines neither drawn nor __iter__")

    def __iter__(self) -> Iterator[int]:
        seed = self.generator
        if isinstance(seed, int | np.integer):
            seed, self._drawn = np.random.default_rng([seed, self._drawn]), self._drawn + 1
        return iter(self.drawn(generator_of(seed)))

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """All examples of a data set in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Examples of a data set in an order that is drawn: each once, or `num_samples` of them; with `replacement`, any
    of them each time."""

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Seed = None
    ) -> None:
        self.data_source, self.replacement = data_source, _flag("RandomSampler: replacement", replacement)
        self.generator = generator
        if not len(data_source):
            raise ValueError("RandomSampler: the data set has no examples to draw")
        self.num_samples = _count(
            "RandomSampler: num_samples", len(data_source) if num_samples is None else num_samples
        )

    def drawn(self, generator: np.random.Generator) -> Sequence[int]:
        count = len(self.data_source)
        if not count:
            raise ValueError("RandomSampler: the data set has no examples any more")
        if self.replacement:
            return generator.integers(0, count, self.num_samples).tolist()
        rounds = -(-self.num_samples // count)
        order = [index for _ in range(rounds) for index in generator.permutation(count).tolist()]
        return order[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The examples at `indices`, each once, in an order that is drawn."""

    def __init__(self, indices: Sequence[int], generator: Seed = None) -> None:
        self.indices, self.generator = indices, generator

    def drawn(self, generator: np.random.Generator) -> Sequence[int]:
        return [int(self.indices[place]) for place in generator.permutation(len(self.indices))]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices, index i with a probability in proportion to `weights[i]`; without `replacement`, none
    twice.

    Raises `ValueError` for weights that are negative, not finite or all 0, and for more samples without replacement
    than there are weights above 0.
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Seed = None) -> None:
        self.weights = np.asarray(weights.detach() if hasattr(weights, "detach") else weights, np.float64)
        self.num_samples = _count("WeightedRandomSampler: num_samples", num_samples)
        self.replacement, self.generator = _flag("WeightedRandomSampler: replacement", replacement), generator
        if self.weights.ndim != 1 or not np.all(np.isfinite(self.weights) & (self.weights >= 0)):
            raise ValueError("WeightedRandomSampler: weights are a vector of finite numbers that are at least 0")
        positive = np.count_nonzero(self.weights)
        if not positive or (not replacement and positive < num_samples):
            raise ValueError(
                f"WeightedRandomSampler: {num_samples} samples are drawn {'with' if replacement else 'without'} "
                f"replacement, and {positive} weights are above 0"
            )

    def drawn(self, generator: np.random.Generator) -> Sequence[int]:
        shares = self.weights / self.weights.sum()
        return generator.choice(len(shares), self.num_samples, replace=self.replacement, p=shares).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """The indices of another sampler in lists of `batch_size`, of which `drop_last` leaves out one that is shorter."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        self.sampler, self.batch_size = sampler, _count("BatchSampler: batch_size", batch_size)
        self.drop_last = _flag("BatchSampler: drop_last", drop_last)

    def drawn(self, generator: np.random.Generator) -> Any:
        return batches_of(order_of(self.sampler, generator), self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        return iter(batches_of([*self.sampler], self.batch_size, self.drop_last))

    def __len__(self) -> int:
        return count_of_batches(len(self.sampler), self.batch_size, self.drop_last)  # pyright: ignore[reportArgumentType]


def order_of(sampler: Any, generator: np.random.Generator) -> list[Any]:
    """What a sampler gives in one epoch, drawn from `generator` unless it has one of its own; indices as Python's."""
    return [index(item) if isinstance(item, np.integer) else item for item in _given(sampler, generator)]


def _given(sampler: Any, generator: np.random.Generator) -> Iterable[Any]:
    if not (isinstance(sampler, Sampler) and sampler.is_drawn) or isinstance(sampler.generator, np.random.Generator):
        return sampler
    if sampler.generator is not None:
        generator = np.random.default_rng([sampler.generator, int(generator.integers(1 << 62))])
    return sampler.drawn(generator)


def batches_of(order: Sequence[Any], size: int, drop_last: bool) -> list[Any]:
    """The elements of `order` in lists of `size`."""
    return [order[i * size : (i + 1) * size] for i in range(count_of_batches(len(order), size, drop_last))]


def count_of_batches(count: int, size: int, drop_last: bool) -> int:
    """How many batches so many examples are."""
    whole, rest = divmod(count, size)
    return whole if drop_last or not rest else whole + 1


def _count(where: str, given: Any) -> int:
    if isinstance(given, bool) or not hasattr(type(given), "__index__"):
        raise TypeError(f"{where} is {given!r} where an integer is needed")
    if index(given) < 1:
        raise ValueError(f"{where} is {given} where 1 or more is needed")
    return index(given)


def _flag(where: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise TypeError(f"{where} is {given!r} where True or False is needed")
    return given


__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
