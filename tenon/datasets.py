"""Data sets: what has a length, and gives an example for an index; or gives its examples one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tenon.seeds import generator_of


class Dataset:
    """Base of data sets: a length, and an example for each index. Any object that has both will do."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


class IterableDataset:
    """Base of data sets that give their examples one after the other: each loop over one begins anew. Any object with
    `__iter__` that does will do.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """The examples of several such data sets, one data set after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset


class Subset(Dataset):
    """The examples of a data set at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Data sets one behind the other."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        self._ends = np.cumsum([len(dataset) for dataset in self.datasets]).tolist()

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        number = bisect_right(self._ends, index)
        return self.datasets[number][index - (self._ends[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """A data set in parts of these lengths, drawn without one twice; or of these shares, which add up to 1.

    `generator` is a NumPy generator or a seed; without it, the parts are another stream of `nn.manual_seed`. Raises
    `ValueError` for lengths that do not add up to that of the data set.
    """
    count = len(dataset)
    if lengths and abs(sum(lengths) - 1) < 1e-9 and any(isinstance(length, float) for length in lengths):
        sizes = [int(count * share) for share in lengths]
        for extra in range(count - sum(sizes)):
            sizes[extra % len(sizes)] += 1
    else:
        sizes = [int(length) for length in lengths]
    if sum(sizes) != count:
        raise ValueError(
            f"random_split: the lengths {[*lengths]} add up to {sum(sizes)}, and there are {count} examples"
        )
    order = generator_of(generator).permutation(count).tolist()
    ends = np.cumsum(sizes).tolist()
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


class _Rows(Dataset):
    """Columns of one length, whose rows of one number are an example."""

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self._columns = columns
        lengths = [len(column) for column in columns]
        if not lengths or len({*lengths}) > 1:
            raise ValueError(f"{type(self).__name__}: the lengths are {lengths}; they must agree")

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple([column[index] for column in self._columns])


class ArrayDataset(_Rows):
    """Arrays of one length, whose rows of one number are an example."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = tuple(map(np.asarray, arrays))
        super().__init__(self.arrays)


class TensorDataset(_Rows):
    """Tensors of one length, whose rows of one number are an example; batches are tensors, too."""

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tensors
        super().__init__(tensors)


__all__ = [
    "ArrayDataset",
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]
