"""Linear maps and tables of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenon
from tenon.nn.initialization import Seed, generator_of, uniform
from tenon.nn.module import Array, Module


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
        generator = generator_of(seed)
        self.weight = uniform(generator, (out_features, in_features), in_features, dtype)
        self.bias: Array = uniform(generator, (out_features,), in_features, dtype) if bias else None

    def forward(self, x: Array) -> Array:
        product = tenon.matmul(x, tenon.transpose(self.weight))
        # In the dtype of the product, which autocast may have made smaller.
        return product if self.bias is None else tenon.add(product, tenon.cast(self.bias, dtype=product.dtype))


class Embedding(Module):
    """Row `indices` of a learned table (`num_embeddings`, `embedding_dim`), which starts standard normal."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        self.weight = generator_of(seed).standard_normal((num_embeddings, embedding_dim)).astype(dtype)

    def forward(self, indices: Array) -> Array:
        return tenon.embedding(self.weight, indices)
