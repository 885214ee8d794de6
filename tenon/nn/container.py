"""Modules made of others, and those that only pass on or reshape what they get."""

from __future__ import annotations

import math
from typing import Any

import tenon
from tenon.nn.module import Array, Module


class Sequential(Module):
    """Modules and functions applied one after the other."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for position, layer in enumerate(layers):
            if not callable(layer):
                raise TypeError(
                    f"Sequential: layer {position} is a {type(layer).__name__}, which cannot be called; "
                    "give the layers one by one"
                )
            setattr(self, str(position), layer)

    @property
    def layers(self) -> list[Any]:
        """What is applied, in order; parameters are called after its number, as `0.weight`."""
        return [getattr(self, name) for name in sorted(filter(str.isdigit, vars(self)), key=int)]

    def forward(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x

    def __getitem__(self, index: int) -> Any:
        return self.layers[index]

    def __setitem__(self, index: int, layer: Any) -> None:
        setattr(self, str(range(len(self))[index]), layer)

    def __len__(self) -> int:
        return len(self.layers)


class Identity(Module):
    """What it is given, unchanged."""

    def forward(self, x: Array) -> Array:
        return x


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` (both included) made one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Array) -> Array:
        shape = tuple(x.shape)
        first, last = (axis + len(shape) if axis < 0 else axis for axis in (self.start_dim, self.end_dim))
        if not 0 <= first <= last < len(shape):
            raise ValueError(f"Flatten: axes {self.start_dim} to {self.end_dim} do not name a range of shape {shape}")
        return tenon.reshape(x, shape=(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))
