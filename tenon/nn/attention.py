"""Attention of several heads: Vaswani et al., "Attention is all you need", 2017."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.value import ops
from tenon.nn.init import Seed, generator_of, xavier_normal_, xavier_uniform_
from tenon.nn.linear import Linear
from tenon.nn.module import Array, Module
from tenon.nn.regularization import Dropout


def _masked(scores: Array, mask: Array) -> Array:
    """Scores with a mask: -inf where truth values say that there is nothing to attend to, or numbers to add."""
    return tenon.select(mask, -math.inf, scores) if np.dtype(mask.dtype) == np.bool_ else scores + mask


def _with_more_keys(mask: Any, more: int) -> Any:
    """A mask of keys, along its last axis, for as many `more` that may be attended to."""
    if mask is None or more == 0:
        return mask
    rank = len(mask.shape)
    return tenon.pad(mask, low=(0,) * rank, high=(*(0,) * (rank - 1), more))


class MultiheadAttention(Module):
    """Attention of `num_heads` heads over `embed_dim` numbers; arguments and parameters as PyTorch's."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} is no multiple of num_heads {num_heads}")
        generator = generator_of(seed)
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.add_zero_attn = dropout, add_zero_attn
        sizes = (embed_dim, self.kdim, self.vdim)
        if sizes == (embed_dim,) * 3:
            self.in_proj_weight = xavier_uniform_(np.empty((3 * embed_dim, embed_dim), dtype), generator=generator)
        else:
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = [
                xavier_uniform_(np.empty((embed_dim, size), dtype), generator=generator) for size in sizes
            ]
        self.in_proj_bias: Array = np.zeros(3 * embed_dim, dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype, seed=generator)
        if bias:
            self.out_proj.bias = np.zeros(embed_dim, dtype)
        self.bias_k: Array = None
        self.bias_v: Array = None
        if add_bias_kv:
            self.bias_k, self.bias_v = [
                xavier_normal_(np.empty((1, 1, embed_dim), dtype), generator=generator) for _ in range(2)
            ]
        self.dropped = Dropout(dropout, seed=generator) if dropout else None

    def _projected(self, x: Array, part: int) -> Array:
        """Queries, keys or values (N, L, E) of `x` (N, L, size)."""
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        if hasattr(self, "in_proj_weight"):
            weight = self.in_proj_weight[rows]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[part]
        y = x @ tenon.transpose(weight)
        # In the dtype of the product, which autocast may have made smaller.
        return y if self.in_proj_bias is None else y + tenon.cast(self.in_proj_bias[rows], dtype=y.dtype)

    def _heads(self, x: Array) -> Array:
        """(N, heads, L, E/heads) of (N, L, E)."""
        apart = tenon.reshape(x, shape=(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads))
        return tenon.transpose(apart, permutation=(0, 2, 1, 3))

    def _with_own(self, x: Array, bias: Any) -> Array:
        """Keys or values (N, S, E) with the learned one and the one of zeros behind them, if there are any."""
        batch, size = x.shape[0], self.embed_dim
        more = [] if bias is None else [tenon.broadcast_to(bias, (batch, 1, size)).astype(x.dtype)]
        more += [ops.zeros(shape=(batch, 1, size), dtype=x.dtype)] if self.add_zero_attn else []
        return tenon.concatenate([x, *more], axis=1) if more else x

    def forward(
        self,
        query: Array,
        key: Array,
        value: Array,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Array, Any]:
        """The result (L, N, E) for queries (L, N, E), keys and values (S, N, ...), and the weights (N, L, S) or `None`.

        N comes first if `batch_first`, and may be missing. Of a mask (L, S) or (N·heads, L, S), and of one of keys
        (N, S), truth values leave out where they are true, and numbers are added. `is_causal` leaves out positions that
        come later, unless a mask is given, which then is taken to say that.
        """
        is_single = len(query.shape) == 2
        given = (query, key, value)
        self._check(given)
        if is_single:
            given = tuple([tenon.expand_dims(x, axis=0) for x in given])
        elif not self.batch_first:
            given = tuple([tenon.transpose(x, permutation=(1, 0, 2)) for x in given])
        q, k, v = [self._projected(x, part) for part, x in enumerate(given)]
        if is_causal and attn_mask is None:
            attn_mask = causal_mask(q.shape[1], k.shape[1])
        more = (self.bias_k is not None) + self.add_zero_attn
        k, v = self._with_own(k, self.bias_k), self._with_own(v, self.bias_v)
        masks = _with_more_keys(attn_mask, more), _with_more_keys(key_padding_mask, more)
        result, weights = self._attended(self._heads(q), self._heads(k), self._heads(v), *masks)
        shown = None if not need_weights else tenon.mean(weights, axis=1) if average_attn_weights else weights
        if is_single:
            return tenon.squeeze(result, axis=0), None if shown is None else tenon.squeeze(shown, axis=0)
        return result if self.batch_first else tenon.transpose(result, permutation=(1, 0, 2)), shown

    def _attended(self, q: Array, k: Array, v: Array, attn_mask: Any, key_padding_mask: Any) -> tuple[Array, Array]:
        """The result (N, L, E) and the weights (N, heads, L, S)."""
        batch, heads, length, size = q.shape
        scores = (q * (1 / math.sqrt(size))) @ tenon.transpose(k, permutation=(0, 1, 3, 2))
        if attn_mask is not None:
            shape = (batch, heads, *attn_mask.shape[1:]) if len(attn_mask.shape) == 3 else attn_mask.shape
            scores = _masked(scores, tenon.reshape(attn_mask, shape=tuple(shape)))
        if key_padding_mask is not None:
            scores = _masked(scores, tenon.reshape(key_padding_mask, shape=(batch, 1, 1, k.shape[2])))
        weights = tenon.softmax(scores, axis=-1)
        weights = weights if self.dropped is None else self.dropped(weights)
        result = tenon.transpose(weights @ v, permutation=(0, 2, 1, 3))
        return self.out_proj(tenon.reshape(result, shape=(batch, length, self.embed_dim))), weights

    def _check(self, given: tuple[Array, Array, Array]) -> None:
        sizes = (self.embed_dim, self.kdim, self.vdim)
        for name, x, size in zip(("query", "key", "value"), given, sizes, strict=True):
            if len(x.shape) not in (2, 3) or len(x.shape) != len(given[0].shape) or x.shape[-1] != size:
                raise ValueError(
                    f"MultiheadAttention: {name} has shape {tuple(x.shape)} where 3 dimensions are needed (or 2 of one "
                    f"sample), as many as query has, the last one of size {size}"
                )

    def extra_repr(self) -> str:
        return ""


def causal_mask(length: int, keys: int | None = None) -> np.ndarray[Any, Any]:
    """Truth values (length, keys) that say which keys come later."""
    return np.triu(np.ones((length, length if keys is None else keys), np.bool_), 1)


__all__ = ["MultiheadAttention", "causal_mask"]
