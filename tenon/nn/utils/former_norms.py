"""Norms of weights as PyTorch had them before `parametrizations`: with the names that former checkpoints have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tenon
from tenon.eager.modes import no_grad
from tenon.eager.parameters import as_arrays
from tenon.nn.utils.parametrizations import as_matrix, axis_of, first_vectors, norm_except, power_method
from tenon.nn.utils.parametrize import Computed, compute, computed_of, in_place_of, store


@dataclass(frozen=True)
class _WeightNorm(Computed):
    """g v / |v| of the parameters `name`_g and `name`_v."""

    name: str
    dim: int | None
    PARTS = ("_g", "_v")

    def get(self, module: Any) -> Any:
        magnitude, direction = [getattr(module, f"{self.name}{part}") for part in self.PARTS]
        return direction * (magnitude / norm_except(direction, self.dim))


@dataclass(frozen=True)
class _SpectralNorm(Computed):
    """`name`_orig over its largest singular value, of which `name`_u and `name`_v are the vectors."""

    name: str
    dim: int
    steps: int
    eps: float
    PARTS = ("_orig", "_u", "_v")

    def get(self, module: Any) -> Any:
        weight, u, v = [getattr(module, f"{self.name}{part}") for part in self.PARTS]
        matrix = as_matrix(weight, self.dim)
        if module.training:
            # The second vector is found first here, of the first one.
            v, u = power_method(tenon.transpose(matrix), v, u, self.steps, self.eps)
            setattr(module, f"{self.name}_u", u)
            setattr(module, f"{self.name}_v", v)
        return weight / tenon.sum(u * tenon.matmul(matrix, v))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Have the parameter `name` be g v / |v| of parameters `name`_g and `name`_v; `parametrizations.weight_norm` has
    other names for these."""
    weight = as_arrays(getattr(module, name))
    compute(module, _WeightNorm(name, dim))
    with no_grad():
        magnitude = norm_except(weight, dim)
    module.register_parameter(f"{name}_g", in_place_of(magnitude, weight))
    module.register_parameter(f"{name}_v", weight)
    return module


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Have the parameter `name` be that of `name`_orig over its largest singular value; see
    `parametrizations.spectral_norm`, which has other names for what that is computed of."""
    weight, axis = as_arrays(getattr(module, name)), axis_of(module, dim)
    u, v = first_vectors(weight, axis, eps)
    compute(module, _SpectralNorm(name, axis, n_power_iterations, eps))
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    return module


def _removed(module: Any, name: str, kind: type[_WeightNorm | _SpectralNorm]) -> Any:
    known = [how for how in computed_of(module) if isinstance(how, kind) and how.name == name]
    if not known:
        raise ValueError(f"{name} of a {type(module).__name__} is not computed so")
    with no_grad():
        value = as_arrays(getattr(module, name))
    like = as_arrays(getattr(module, f"{name}{kind.PARTS[0]}"))
    store(module, known[0], in_place_of(value, like), kind.PARTS)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make `name`, which `weight_norm` has computed, a parameter again."""
    return _removed(module, name, _WeightNorm)


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make `name`, which `spectral_norm` has computed, a parameter again."""
    return _removed(module, name, _SpectralNorm)
