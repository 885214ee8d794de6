"""Activation functions as modules."""

from __future__ import annotations

from typing import Literal

import tenon
from tenon.nn.module import Array, Module


class ReLU(Module):
    """The positive entries, zero for the others."""

    def forward(self, x: Array) -> Array:
        return tenon.relu(x)


class GELU(Module):
    """x times the probability that a standard normal variable is below it; see `tenon.gelu`."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Array) -> Array:
        return tenon.gelu(x, approximate=self.approximate)


class Sigmoid(Module):
    """The logistic function 1 / (1 + exp(-x))."""

    def forward(self, x: Array) -> Array:
        return tenon.sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Array) -> Array:
        return tenon.tanh(x)


class Softmax(Module):
    """The entries along `axis` scaled to positive ones that add up to one."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Array) -> Array:
        return tenon.softmax(x, axis=self.axis)
