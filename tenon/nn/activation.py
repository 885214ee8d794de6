"""Activation functions as modules: most are an op with its settings, and derived from it."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.nn.derived import derive
from tenon.nn.module import Array, Module
from tenon.nn.regularization import RandomModule

ReLU = derive("ReLU", tenon.relu, inplace=True)
ReLU6 = derive("ReLU6", tenon.relu6, inplace=True)
LeakyReLU = derive("LeakyReLU", tenon.leaky_relu, inplace=True)
ELU = derive("ELU", tenon.elu, inplace=True)
CELU = derive("CELU", tenon.celu, inplace=True)
SELU = derive("SELU", tenon.selu, without=("alpha", "gamma"), inplace=True)
GELU = derive("GELU", tenon.gelu)
SiLU = derive("SiLU", tenon.silu, without=("alpha",), inplace=True)
Mish = derive("Mish", tenon.mish, inplace=True)
Sigmoid = derive("Sigmoid", tenon.sigmoid)
LogSigmoid = derive("LogSigmoid", tenon.log_sigmoid)
Tanh = derive("Tanh", tenon.tanh)
Tanhshrink = derive("Tanhshrink", tenon.tanhshrink)
Softsign = derive("Softsign", tenon.softsign)
Softshrink = derive("Softshrink", tenon.softshrink, shown="values")
Hardshrink = derive("Hardshrink", tenon.hardshrink, shown="values")
Hardtanh = derive("Hardtanh", tenon.hardtanh, inplace=True)
Hardsigmoid = derive("Hardsigmoid", tenon.hard_sigmoid, fixed={"alpha": 1 / 6, "beta": 0.5}, inplace=True)
Hardswish = derive("Hardswish", tenon.hard_swish, inplace=True)
GLU = derive("GLU", tenon.glu)
Softmax = derive("Softmax", tenon.softmax)
LogSoftmax = derive("LogSoftmax", tenon.log_softmax)


class Threshold(Module):
    """The entries of x above `threshold`, `value` for the others; see `tenon.thresholded_relu`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, x: Array) -> Array:
        return tenon.thresholded_relu(x, alpha=float(self.threshold), value=float(self.value))

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """log(1 + exp(beta·x)) / beta, and x where beta·x is above `threshold`; see `tenon.softplus`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    @one_program_of_large
    def forward(self, x: Array) -> Array:
        return tenon.select(x * self.beta > self.threshold, x, tenon.softplus(x, beta=float(self.beta)))


class Softmin(Module):
    """`Softmax` of -x along `dim`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Array) -> Array:
        return tenon.softmax(-x, axis=self.dim)


class Softmax2d(Module):
    """`Softmax` over the channels of (n, c, h, w), or (c, h, w)."""

    def forward(self, x: Array) -> Array:
        if len(x.shape) not in (3, 4):
            raise ValueError(f"Softmax2d: x has shape {tuple(x.shape)} where (n, c, h, w) or (c, h, w) is needed")
        return tenon.softmax(x, axis=-3)


class PReLU(Module):
    """x where it is positive, and x times a learned `weight`, one for all or one for each channel, where it is not."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, dtype: Any = np.float32) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight: Array = np.full(num_parameters, init, dtype)

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        if self.num_parameters > 1 and (rank < 2 or x.shape[1] != self.num_parameters):
            raise ValueError(
                f"PReLU: there are {self.num_parameters} parameters for the channels of x, which has shape "
                f"{tuple(x.shape)}"
            )
        behind = rank - 2 if self.num_parameters > 1 else rank - 1
        return tenon.prelu(x, tenon.reshape(self.weight, shape=(-1, *[1] * behind) if rank else ()))

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(RandomModule):
    """x where it is positive, and x times a slope where it is not: of each element another one while training, uniform
    between `lower` and `upper`, and their mean otherwise (Xu et al., arXiv:1505.00853).
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False, *, seed: Any = None) -> None:
        super().__init__(seed)
        if lower > upper:
            raise ValueError(f"RReLU: lower is {lower}, above upper, which is {upper}")
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, x: Array) -> Array:
        if not self.training:
            return tenon.leaky_relu(x, negative_slope=(self.lower + self.upper) / 2)
        slope = self.drawn(x.shape) * (self.upper - self.lower) + self.lower
        return tenon.select(x >= 0, x, x * slope.astype(x.dtype))

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]
