"""Optimizers, as pure functions and for tensors in place; schedules of the learning rate; clipping and scaling of
gradients."""

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints
from tenon.optim import lr_scheduler, swa_utils
from tenon.optim.adaptive import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop
from tenon.optim.base import Optimizer, trainable, with_values
from tenon.optim.clipping import clip_by_global_norm, clip_grad_norm_, clip_grad_value_
from tenon.optim.lbfgs import LBFGS
from tenon.optim.matrices import Adafactor, Muon
from tenon.optim.rules import LAMB, SGD, Adagrad, Adam, AdamW, Lion, RMSprop
from tenon.optim.scaling import GradScaler
from tenon.optim.schedules import Plateau, Scheduler, cosine, exponential, one_cycle, step_decay, warm_up
from tenon.optim.stepping import Average, Steps

__all__ = [
    "ASGD",
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Average",
    "GradScaler",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "Plateau",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Scheduler",
    "Steps",
    "clip_by_global_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "cosine",
    "exponential",
    "lr_scheduler",
    "one_cycle",
    "step_decay",
    "swa_utils",
    "trainable",
    "warm_up",
    "with_values",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(
        __name__,
        {"SparseAdam": "gradients are never sparse"},
    )
