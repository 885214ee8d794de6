"""Dropout in its forms, which acts only while training."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import tenon
from tenon.dialects.definition.one_program import one_program
from tenon.dialects.support.plain_arrays import elements_of, is_stored, on_host
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.draws import runs_once, where_it_is
from tenon.nn.module import Array, Module
from tenon.runtime.cuda.arrays import beside
from tenon.seeds import Seed, drawn_once, key_for_example, new_key


@one_program()
def _key_and_next(key: Any, calls: Any) -> tuple[Any, Any]:
    return tenon.fold_in(key, calls), tenon.add(calls, 1)


class RandomModule(Module):
    """A module that draws: a function of its buffers `key`, which no other module has, and `calls`, which counts them.

    So each call draws other numbers; a traced function must return the module for that. PyTorch's checkpoints have
    neither, and leave both as they are.
    """

    OPTIONAL_STATE: ClassVar[tuple[str, ...]] = ("key", "calls")
    key: Array
    calls: Array

    def __init__(self, seed: Seed = None) -> None:
        super().__init__()
        self.register_buffer("key", new_key(seed))
        self.register_buffer("calls", np.zeros((), np.int32))

    def next_key(self) -> Array:
        """The key of a call, which is counted."""
        with where_it_is(self.calls):
            if runs_once() and is_stored(elements_of(self.calls)):
                key = tenon.fold_in(*drawn_once(self._counted_in_place))
            else:
                key, self.calls = _key_and_next(self.key, self.calls)
        return key_for_example(key)

    def drawn(self, shape: Sequence[int]) -> Array:
        """Numbers uniform in [0, 1), as f32."""
        return tenon.random_uniform(self.next_key(), tuple(shape))

    def _counted_in_place(self) -> tuple[Array, Array]:
        """The key of the module and the number of a call, which is counted while a function is traced: the count, which
        is from around that, stays an array."""
        calls = self.calls
        held = elements_of(calls)
        self.calls = beside(np.asarray(on_host(held) + 1, np.int32), held)
        return self.key, calls


def independent_copy(module: Module, seed: Seed = None) -> Any:
    """A copy of `module` that draws from streams of its own."""
    made = copy.deepcopy(module)
    for inner in made.modules():
        if isinstance(inner, RandomModule):
            inner.key = new_key(seed)
    return made


class _Dropout(RandomModule):
    def __init__(self, p: float = 0.5, inplace: bool = False, *, seed: Seed = None) -> None:
        super().__init__(seed)
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is {p}, outside of [0, 1]")
        self.p, self.inplace = p, inplace

    def mask_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what is kept or dropped together."""
        return tuple(shape)

    def forward(self, x: Array) -> Array:
        if not self.training or self.p == 0:
            return x
        if self.p == 1:
            return tenon.zeros_like(x)
        return self.dropped(x, self.next_key())

    def dropped(self, x: Array, key: Array) -> Array:
        """What is left of `x`, made up for what is not."""
        return tenon.dropout(x, key, rate=self.p)

    def scales(self, key: Array, shape: Sequence[int], dtype: Any) -> Array:
        """For each element, or for those that are kept or dropped together, 0 or what it is multiplied by."""
        return tenon.dropout(np.ones(self.mask_shape(shape), numpy_dtype(element_type(dtype))), key, rate=self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """While training, each element set to zero with probability `p` and the others scaled by 1/(1-p).

    The buffer `calls` counts the calls, so that each draws other elements; a traced function must return the module for
    that. Layers without a `seed` draw differently from each other.
    """


class _ChannelDropout(_Dropout):
    RANK: ClassVar[int]

    def mask_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        if len(shape) not in (self.RANK + 1, self.RANK + 2):
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(shape)} where {self.RANK + 2} dimensions are needed, or "
                f"{self.RANK + 1} of one sample"
            )
        return (*shape[: -self.RANK], *[1] * self.RANK)

    def dropped(self, x: Array, key: Array) -> Array:
        return tenon.multiply(x, self.scales(key, x.shape, x.dtype))


class Dropout1d(_ChannelDropout):
    """`Dropout` of whole channels of (n, c, length)."""

    RANK = 1


class Dropout2d(_ChannelDropout):
    """`Dropout` of whole channels of (n, c, h, w)."""

    RANK = 2


class Dropout3d(_ChannelDropout):
    """`Dropout` of whole channels of (n, c, d, h, w)."""

    RANK = 3


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what `SELU` gives: dropped elements are the least value of it (Klambauer
    et al., arXiv:1706.02515)."""

    LEAST: ClassVar[float] = -1.0507009873554805 * 1.6732632423543772

    def dropped(self, x: Array, key: Array) -> Array:
        kept = self.scales(key, x.shape, np.float32) > 0
        scale = 1 / math.sqrt((1 - self.p) * (1 + self.p * self.LEAST**2))
        shift = -scale * self.LEAST * self.p
        return tenon.select(kept, x * scale + shift, self.LEAST * scale + shift)


class FeatureAlphaDropout(AlphaDropout):
    """`AlphaDropout` of whole channels of (n, c, ...)."""

    def mask_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        if len(shape) < 2:
            raise ValueError(f"FeatureAlphaDropout: x has shape {tuple(shape)} where (n, c, ...) is needed")
        return (*shape[:2], *[1] * (len(shape) - 2))


__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
    "RandomModule",
    "independent_copy",
]
