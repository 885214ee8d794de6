"""Linear and bilinear maps, and tables of vectors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

import tenon
from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.nn.derived import check_sizes, lazy
from tenon.nn.init import Seed, generator_of, uniform
from tenon.nn.module import Array, Module


def _biased(product: Array, bias: Any) -> Array:
    """The sum, in the dtype of the product, which autocast may have made smaller."""
    if bias is None:
        return product
    return tenon.add(product, bias if bias.dtype == product.dtype else tenon.cast(bias, dtype=product.dtype))


class Linear(Module):
    """`x @ weight.T + bias` over the last axis: (…, `in_features`) to (…, `out_features`).

    Weights start uniform in ±1/√in_features, as PyTorch's do.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        check_sizes(self, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        generator = generator_of(seed)
        self.weight = uniform(generator, (out_features, in_features), in_features, dtype)
        self.bias: Array = uniform(generator, (out_features,), in_features, dtype) if bias else None

    def forward(self, x: Array) -> Array:
        return _biased(tenon.matmul(x, tenon.transpose(self.weight)), self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


LazyLinear = lazy(Linear, -1, weight=1)


class Bilinear(Module):
    """x·weight·y + bias over the last axes: (…, `in1_features`) and (…, `in2_features`) to (…, `out_features`).

    Weights start uniform in ±1/√in1_features.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        check_sizes(self, in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        generator = generator_of(seed)
        self.weight = uniform(generator, (out_features, in1_features, in2_features), in1_features, dtype)
        self.bias: Array = uniform(generator, (out_features,), in1_features, dtype) if bias else None

    def forward(self, x: Array, y: Array) -> Array:
        return _biased(tenon.einsum("...i,oij,...j->...o", x, self.weight, y), self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class _Table(Module):
    """A learned table (`num_embeddings`, `embedding_dim`), which starts standard normal, but for the row `padding_idx`:
    that starts with zeros, and has no gradient.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        scale_grad_by_freq: bool,
        dtype: Any,
        seed: Seed,
    ) -> None:
        super().__init__()
        check_sizes(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        padding_idx = padding_row(type(self).__name__, padding_idx, num_embeddings)
        self.padding_idx, self.scale_grad_by_freq = padding_idx, scale_grad_by_freq
        weight = generator_of(seed).standard_normal((num_embeddings, embedding_dim)).astype(dtype)
        if padding_idx is not None:
            weight[padding_idx] = 0
        self.weight: Array = weight

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, *args: Any, **settings: Any) -> Self:
        """A table of given vectors, with what else a table takes; unless `freeze` is false, no gradient is found for
        them."""
        rows, size = embeddings.shape
        made = cls(rows, size, *args, **settings)
        if freeze:
            made.weight = tenon.nn.Parameter(embeddings, requires_grad=False)
        else:
            made.weight = embeddings
        return made

    def extra_repr(self) -> str:
        size, padding, scaled = self._shown()
        return size + padding + scaled

    def _shown(self) -> tuple[str, str, str]:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        scaled = ", scale_grad_by_freq=True" if self.scale_grad_by_freq else ""
        return f"{self.num_embeddings}, {self.embedding_dim}", padding, scaled


def check_table(where: str, max_norm: float | None, sparse: bool) -> None:
    """Raise `ValueError` for what tables do not do."""
    if max_norm is not None:
        raise ValueError(
            f"{where}: there is no max_norm, which changes weight in a call; scale the rows of weight before"
        )
    if sparse:
        raise ValueError(f"{where}: there are no sparse gradients; leave sparse out, and gradients are whole arrays")


def padding_row(where: str, padding_idx: int | None, count: int) -> int | None:
    """The row of a table that `padding_idx` names, which may count from the end. Raises `ValueError` for none."""
    if padding_idx is not None and not -count <= padding_idx < count:
        raise ValueError(f"{where}: padding_idx is {padding_idx}, and there are {count} rows")
    return None if padding_idx is None else padding_idx % count


def check_places(where: str, places: Any, count: int) -> None:
    """Raise `IndexError` where integers that are known are no places of `count` rows."""
    known = getattr(places, "_array", places)  # of a tensor, what it holds
    if isinstance(known, Value | list | tuple) or is_on_gpu(known):  # to ask a GPU would be to wait for it
        return
    array = np.asarray(known)
    if array.size and array.dtype.kind in "iu":
        least, greatest = int(array.min()), int(array.max())
        if least < 0 or greatest >= count:
            raise IndexError(f"{where}: index {least if least < 0 else greatest} is none of 0 to {count - 1}")


def rows_of(weight: Array, indices: Array, scales: bool) -> Array:
    """The rows of `weight` at `indices`; if it `scales`, their gradient is over how often each index is among them."""
    rows = tenon.embedding(weight, indices)
    if not scales:
        return rows
    each = tenon.reshape(tenon.cast(tenon.ones_like(indices), dtype="f32"), (-1,))
    counts = tenon.index_add(np.zeros(weight.shape[0], np.float32), 0, tenon.reshape(indices, (-1,)), each)
    share = tenon.cast(tenon.expand_dims(1 / tenon.embedding(counts, indices), axis=-1), dtype=rows.dtype)
    fixed = tenon.stop_gradient(rows)
    return fixed + share * (rows - fixed)


def embedded(weight: Array, indices: Array, padding_idx: int | None, scales: bool) -> Array:
    """The rows of `weight` at `indices`, of which that at `padding_idx` has no gradient."""
    rows = rows_of(weight, indices, scales)
    if padding_idx is None:
        return rows
    is_padding = tenon.expand_dims(tenon.equal(indices, padding_idx), axis=-1)
    return tenon.select(is_padding, tenon.stop_gradient(rows), rows)


class Embedding(_Table):
    """Rows of a learned table (`num_embeddings`, `embedding_dim`), which starts standard normal.

    The row `padding_idx` starts with zeros, and has no gradient. With `scale_grad_by_freq`, the gradient of a row is
    over how often it is asked for in a call. There is no `max_norm`, and no `sparse` gradient: raises `ValueError`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        check_table("Embedding", max_norm, sparse)
        super().__init__(num_embeddings, embedding_dim, padding_idx, scale_grad_by_freq, dtype, seed)

    def forward(self, indices: Array) -> Array:
        """(..., dim) for indices of any shape. Raises `IndexError` for one that is known and no row of the table."""
        check_places("Embedding", indices, self.weight.shape[0])
        return embedded(self.weight, indices, self.padding_idx, self.scale_grad_by_freq)


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of rows of a learned table (`num_embeddings`, `embedding_dim`).

    Rows `padding_idx` do not count. What is made of an empty bag is 0. With `scale_grad_by_freq`, which is not for
    maxima, the gradient of a row is over how often it is asked for in a call. There is no `max_norm`, and no `sparse`
    gradient: raises `ValueError`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        check_table("EmbeddingBag", max_norm, sparse)
        super().__init__(num_embeddings, embedding_dim, padding_idx, scale_grad_by_freq, dtype, seed)
        _check_mode("EmbeddingBag", mode, scale_grad_by_freq, None)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, indices: Array, offsets: Any = None, per_sample_weights: Any = None) -> Array:
        """(bags, dim) for indices (bags, n), or indices (n,) and where each bag begins among them, `offsets` (bags,)
        (and where the last one ends, with `include_last_offset`). Rows are multiplied by `per_sample_weights`, of the
        shape of the indices, which only `mode="sum"` takes.
        """
        return bags_of(
            "EmbeddingBag",
            self.weight,
            indices,
            offsets,
            per_sample_weights,
            self.mode,
            self.include_last_offset,
            self.padding_idx,
            self.scale_grad_by_freq,
        )

    def extra_repr(self) -> str:
        size, padding, scaled = self._shown()
        return f"{size}{scaled}, mode={self.mode!r}{padding}"


def _check_mode(where: str, mode: str, scales: bool, weights: Any) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{where}: mode {mode!r} is not 'sum', 'mean' or 'max'")
    if scales and mode == "max":
        raise ValueError(f"{where}: scale_grad_by_freq is for modes 'sum' and 'mean', and this is 'max'")
    if weights is not None and mode != "sum":
        raise ValueError(f"{where}: per_sample_weights are for mode 'sum', and this is {mode!r}")


def bags_of(
    where: str,
    weight: Array,
    indices: Array,
    offsets: Any,
    weights: Any,
    mode: str,
    include_last_offset: bool,
    padding_idx: int | None,
    scales: bool,
) -> Array:
    """What `EmbeddingBag` gives, for its function and its module."""
    _check_mode(where, mode, scales, weights)
    if (len(indices.shape) == 1) != (offsets is not None):
        raise ValueError(f"{where}: offsets are needed for indices (n,), and for no others")
    rows = rows_of(weight, indices, scales)
    if offsets is None:
        is_in: Any = np.ones((1, 1), np.bool_)
        of_bags = indices
    else:
        starts = offsets[:-1] if include_last_offset else offsets
        bag = tenon.sum(tenon.cast(tenon.expand_dims(starts, axis=1) <= _places(indices), dtype="i32"), axis=0)
        is_in = tenon.expand_dims(tenon.iota(shape=(starts.shape[0],)) + 1, axis=1) == bag
        rows, of_bags = (tenon.expand_dims(given, axis=0) for given in (rows, indices))
        weights = None if weights is None else tenon.expand_dims(weights, axis=0)
    counts = is_in if padding_idx is None else tenon.logical_and(is_in, of_bags != padding_idx)
    counts = tenon.broadcast_to(counts, tuple([max(a, b) for a, b in zip(counts.shape, of_bags.shape, strict=True)]))
    return _combined(mode, rows, tenon.expand_dims(counts, axis=-1), weights)


def _combined(mode: str, rows: Array, counts: Array, weights: Any) -> Array:
    """Rows (bags or 1, n, dim) of bags, as far as each counts (bags, n, 1)."""
    if mode == "max":
        largest = tenon.max(tenon.select(counts, rows, -np.inf), axis=1)
        return tenon.select(tenon.any(counts, axis=1), largest, 0.0)
    share = tenon.select(counts, 1.0, 0.0).astype(rows.dtype)
    if weights is not None:
        share = share * tenon.expand_dims(weights, axis=-1)
    total = tenon.sum(rows * share, axis=1)
    return total if mode == "sum" else total / tenon.maximum(tenon.sum(share, axis=1), 1)


def _places(indices: Array) -> Array:
    return tenon.iota(shape=tuple(indices.shape))


__all__ = ["Bilinear", "Embedding", "EmbeddingBag", "LazyLinear", "Linear"]
