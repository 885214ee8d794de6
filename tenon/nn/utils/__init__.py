"""`torch.nn.utils` by its names: limits on gradients, parameters as one vector, sequences of several lengths, and
parameters that are computed of others."""

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints
from tenon.nn.utils import parametrizations, parametrize, prune, rnn
from tenon.nn.utils.former_norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from tenon.nn.utils.gradients import clip_grad_norm_, clip_grad_value_, get_total_norm
from tenon.nn.utils.vectors import parameters_to_vector, vector_to_parameters

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
