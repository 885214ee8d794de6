"""`torch.nn.utils` by its names: limits on gradients, parameters as one vector, and sequences of several lengths."""

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints
from tenon.nn.utils import rnn
from tenon.nn.utils.gradients import clip_grad_norm_, clip_grad_value_, get_total_norm
from tenon.nn.utils.vectors import parameters_to_vector, vector_to_parameters

if not TYPE_CHECKING:
    _NORMS = "compute the weight in forward: g * tenon.normalize(v, axis=-1), with parameters g and v"
    __getattr__ = attribute_hints(
        __name__, {"weight_norm": _NORMS, "spectral_norm": _NORMS, "parametrizations": _NORMS, "parametrize": _NORMS}
    )

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
