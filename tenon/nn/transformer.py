"""The layers of transformers: Vaswani et al., "Attention is all you need", 2017."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import tenon
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.nn.attention import MultiheadAttention
from tenon.nn.container import ModuleList
from tenon.nn.init import Seed, generator_of, xavier_uniform_
from tenon.nn.linear import Linear
from tenon.nn.module import Array, Module
from tenon.nn.normalization import LayerNorm
from tenon.nn.regularization import Dropout, independent_copy

Activation = str | Callable[[Array], Array]

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": tenon.relu, "gelu": tenon.gelu}


def _activation(kind: str, given: Activation) -> Callable[[Array], Array]:
    if not isinstance(given, str):
        return given
    if given not in _ACTIVATIONS:
        raise ValueError(f"{kind}: activation {given!r} is not one of {', '.join(_ACTIVATIONS)}, and no function")
    return _ACTIVATIONS[given]


class _TransformerLayer(Module):
    """What the layers of encoder and decoder share: blocks with a residual, and a norm before or after each."""

    HAS_MEMORY: ClassVar[bool] = False
    multihead_attn: MultiheadAttention

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        generator = generator_of(seed)
        self.activation = _activation(type(self).__name__, activation)
        self.norm_first = norm_first
        self.self_attn, *other = [
            MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype, seed=generator)
            for _ in range(1 + self.HAS_MEMORY)
        ]
        if other:
            self.multihead_attn = other[0]
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype, seed=generator)
        self.dropout = Dropout(dropout, seed=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype, seed=generator)
        blocks = range(1, 3 + self.HAS_MEMORY)
        for number in blocks:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for number in blocks:
            setattr(self, f"dropout{number}", Dropout(dropout, seed=generator))

    def _block(self, x: Array, number: int, block: Callable[[Array], Array]) -> Array:
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        return x + dropout(block(norm(x))) if self.norm_first else norm(x + dropout(block(x)))

    def _feed_forward(self, x: Array) -> Array:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def extra_repr(self) -> str:
        return ""


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and two linear maps, each with a residual and a norm; arguments and parameters as PyTorch's."""

    def forward(
        self, src: Array, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Array:
        """(L, N, E), or (N, L, E) if `batch_first`, to the same shape; masks as in `MultiheadAttention`."""

        def attend(x: Array) -> Array:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._block(self._block(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to what an encoder gives, and two linear maps; arguments and names as PyTorch's."""

    HAS_MEMORY = True

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Array:
        """(T, N, E) and the encoder's (S, N, E), N first if `batch_first`, to the shape of the first."""

        def attend(x: Array) -> Array:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def attend_to_memory(x: Array) -> Array:
            masks = (memory_key_padding_mask, False, memory_mask)
            return self.multihead_attn(x, memory, memory, *masks, is_causal=memory_is_causal)[0]

        return self._block(self._block(self._block(tgt, 1, attend), 2, attend_to_memory), 3, self._feed_forward)


class _Layers(Module):
    """Copies of a layer one after the other, and a norm at the end if there is one.

    They begin with the same weights, as PyTorch's do; their dropout draws independently.
    """

    def __init__(self, layer: _TransformerLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([independent_copy(layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def extra_repr(self) -> str:
        return ""


class TransformerEncoder(_Layers):
    """`num_layers` copies of an encoder layer one after the other, and a norm at the end if there is one.

    `enable_nested_tensor` and `mask_check` change nothing: what is masked is computed.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Array, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Array:
        """The result of all layers; see `TransformerEncoderLayer`."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Layers):
    """`num_layers` copies of a decoder layer one after the other, and a norm at the end if there is one."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Array:
        """The result of all layers; see `TransformerDecoderLayer`."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder, each with a norm at the end; arguments and parameters as PyTorch's.

    Weights of more than one dimension start as `init.xavier_uniform_` has them.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        generator = generator_of(seed)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder: Any = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer, dtype=dtype, seed=generator), num_encoder_layers, norm()
        )
        self.decoder: Any = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer, dtype=dtype, seed=generator), num_decoder_layers, norm()
        )
        for _, weight in self.named_arrays():
            if len(weight.shape) > 1:
                xavier_uniform_(weight, generator=generator)

    def forward(
        self,
        src: Array,
        tgt: Array,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Array:
        """The decoder's result (T, N, E) for (S, N, E) and (T, N, E); N comes first if `batch_first`."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = np.float32) -> Any:
        """A mask (sz, sz) to be added: -inf for what comes later. A tensor, where a device is named or the default."""
        numbers = np.where(np.triu(np.ones((sz, sz), bool), 1), -np.inf, 0.0)
        return tenon.full((sz, sz), 0.0, dtype=dtype, device=device) + numbers.astype(numpy_dtype(element_type(dtype)))

    def extra_repr(self) -> str:
        return ""


__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
