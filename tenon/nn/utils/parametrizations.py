"""`torch.nn.utils.parametrizations` by its names: norms of weights, by modules that compute these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tenon
from tenon.dialects.support.plain_arrays import host_array
from tenon.dialects.support.suggestion import attribute_hints
from tenon.eager.modes import no_grad
from tenon.eager.parameters import as_arrays
from tenon.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tenon.nn.init import generator_of
from tenon.nn.module import Array, Module
from tenon.nn.utils.parametrize import register_parametrization
from tenon.runtime.cuda.arrays import placed


def norm_except(weight: Array, dim: int | None) -> Array:
    """The norm of the parts of `weight` along one axis, with axes of size 1; of all of it for `None` and -1."""
    if dim is None or dim == -1:
        return tenon.sqrt(tenon.sum(weight * weight))
    others = tuple([axis for axis in range(len(weight.shape)) if axis != dim % len(weight.shape)])
    return tenon.sqrt(tenon.sum(weight * weight, axis=others, keepdims=True))


class WeightNorm(Module):
    """g v / |v| for each index along `dim`: Salimans and Kingma, arXiv:1602.07868."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, magnitude: Array, direction: Array) -> Array:
        return direction * (magnitude / norm_except(direction, self.dim))

    def right_inverse(self, weight: Array) -> tuple[Array, Array]:
        """Magnitude and direction that give a weight."""
        return norm_except(weight, self.dim), weight


def as_matrix(weight: Array, dim: int) -> Array:
    """A weight as a matrix whose rows are its parts along `dim`."""
    return tenon.reshape(tenon.movedim(weight, dim, 0), shape=(weight.shape[dim], -1))


def as_unit(vector: Array, eps: float) -> Array:
    """A vector over its length, which is at least `eps`."""
    return vector / tenon.maximum(tenon.sqrt(tenon.sum(vector * vector)), eps)


def power_method(matrix: Array, u: Array, v: Array, steps: int, eps: float) -> tuple[Array, Array]:
    """What `steps` products each with a matrix and its transpose make of the guesses `u` and `v` of its first singular
    vectors. No gradient goes through it."""
    matrix = tenon.stop_gradient(matrix)
    for _ in range(steps):
        u = as_unit(tenon.matmul(matrix, v), eps)
        v = as_unit(tenon.matmul(tenon.transpose(matrix), u), eps)
    return u, v


def first_vectors(weight: Array, dim: int, eps: float) -> tuple[Any, Any]:
    """Vectors to begin with: what 15 steps make of random ones."""
    with no_grad():
        matrix = as_matrix(weight, dim)
        generator = generator_of(None)
        guesses = [as_unit(generator.standard_normal(size).astype(weight.dtype), eps) for size in matrix.shape]
        found = power_method(matrix, guesses[0], guesses[1], 15, eps)
        return tuple([placed(np.array(host_array(vector)), None, weight) for vector in found])  # pyright: ignore


class SpectralNorm(Module):
    """A weight over its largest singular value, as its first singular vectors, which follow it while training, say:
    Miyato et al., arXiv:1802.05957. A vector is divided by its length.
    """

    def __init__(self, weight: Array, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = len(weight.shape)
        if not -rank <= dim < rank:
            raise IndexError(f"spectral_norm: dim is {dim}, and the weight has rank {rank}")
        if n_power_iterations < 1:
            raise ValueError(f"spectral_norm: n_power_iterations is {n_power_iterations} where 1 or more is needed")
        self.dim, self.eps, self.n_power_iterations = dim % rank, eps, n_power_iterations
        self._u: Array
        self._v: Array
        if rank > 1:
            u, v = first_vectors(weight, self.dim, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Array) -> Array:
        if len(weight.shape) == 1:
            return as_unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._u, self._v = power_method(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return weight / tenon.sum(self._u * tenon.matmul(matrix, self._v))

    def right_inverse(self, weight: Array) -> Array:
        """The weight itself: what it is divided by, is not known."""
        return weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Have the parameter `name` be g v / |v| of parameters g and v, for each index along `dim` (`None`: all of it)."""
    return register_parametrization(module, name, WeightNorm(dim))


def axis_of(module: Module, dim: int | None) -> int:
    """Along which axis a weight has what a module gives."""
    is_transposed = isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d)
    return int(is_transposed) if dim is None else dim


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Have the parameter `name` be divided by its largest singular value, as a matrix with its axis `dim` first (by
    default that of what the module gives)."""
    weight = as_arrays(getattr(module, name))
    return register_parametrization(module, name, SpectralNorm(weight, n_power_iterations, axis_of(module, dim), eps))


__all__ = ["spectral_norm", "weight_norm"]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__, {"orthogonal": "there are no factorizations of matrices"})
