"""Neural-network modules: objects whose arrays are parameters and buffers.

A module is a tree (of `jit`, `grad` and the optimizers): its arrays are leaves, its other attributes belong to the
structure. Inside a traced function (and inside a function that `grad` differentiates) a module is a copy that holds
traced values; what is assigned to its attributes there, such as running statistics, reaches the caller when the
function returns the module:

    def loss(model, x, y):
        return tenon.cross_entropy(model(x), y), model

    (value, model), gradient = tenon.value_and_grad(loss, has_aux=True)(model, x, y)
"""

from __future__ import annotations

from tenon.eager.tensor import Parameter
from tenon.nn.activation import GELU, ReLU, Sigmoid, Softmax, Tanh
from tenon.nn.container import Flatten, Identity, Sequential
from tenon.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tenon.nn.initialization import get_rng_state, manual_seed, set_rng_state
from tenon.nn.linear import Embedding, Linear
from tenon.nn.module import Module
from tenon.nn.normalization import BatchNorm2d, Dropout, LayerNorm
from tenon.nn.pooling import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)

__all__ = [
    "GELU",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAvgPool",
    "Identity",
    "LayerNorm",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "get_rng_state",
    "manual_seed",
    "set_rng_state",
]
