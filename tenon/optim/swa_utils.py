"""`torch.optim.swa_utils` by its names: averages of the weights of a model while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from tenon.dialects.support.plain_arrays import host_array
from tenon.dialects.support.suggestion import attribute_hints
from tenon.eager.modes import no_grad
from tenon.eager.tensor import Tensor
from tenon.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from tenon.nn.tree import Slot
from tenon.optim.lr_scheduler import of_each, on_cosine, on_line
from tenon.optim.scheduling import FormulaLR

Average = Callable[[Any, Any, Any], Any]


def get_swa_avg_fn() -> Average:
    """The mean of all that were seen: of the average, a parameter and how many there are in the average."""
    return lambda average, parameter, count: average + (parameter - average) / (count + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """`decay` times the average plus (1 - `decay`) times a parameter."""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn: decay is {decay}, outside of [0, 1]")
    return lambda average, parameter, count: average + (parameter - average) * (1 - decay)


def _of_lists(average_of: Average) -> Callable[[Any, Any, Any], None]:
    def averaged(averages: Iterable[Any], parameters: Iterable[Any], count: Any) -> None:
        for average, parameter in zip(averages, parameters, strict=True):
            average[...] = average_of(average, parameter, count)

    return averaged


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """`get_swa_avg_fn` of lists of averages, which change in place, and of parameters."""
    return _of_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """`get_ema_avg_fn` of lists of averages, which change in place, and of parameters."""
    return _of_lists(get_ema_avg_fn(decay))


class AveragedModel(Module):
    """A copy of `model`, in `module`, whose parameters are averages of those that `update_parameters` was given.

    The first time they are taken as they are, and then averaged by `avg_fn(average, parameter, count)` or, in place, by
    `multi_avg_fn` of lists of them: by default, all count alike (Izmailov et al., arXiv:1803.05407). Buffers are those
    of the model, unless `use_buffers` has them averaged, too.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: there are both avg_fn and multi_avg_fn")
        self.module = deepcopy(model).requires_grad_(False)
        self.n_averaged: Any
        self.register_buffer("n_averaged", np.zeros((), np.int64))
        self.averaged = multi_avg_fn or _of_lists(avg_fn or get_swa_avg_fn())
        self.use_buffers = use_buffers
        if device is not None:
            self.to(device)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Let the averages take note of the parameters of `model`.

        Raises `ValueError` for a model of other parameters.
        """
        own, theirs = _slots(self.module, self.use_buffers), _slots(model, self.use_buffers)
        if [slot.path for slot in own] != [slot.path for slot in theirs]:
            raise ValueError("update_parameters: the model has other parameters than the one that was averaged")
        with no_grad():
            averages = [Tensor(host_array(slot.value), device="cpu") for slot in own]
            given = [Tensor(host_array(slot.value), device="cpu") for slot in theirs]
            if int(self.n_averaged) == 0:
                averages = given
            else:
                self.averaged(averages, given, int(self.n_averaged))
            for slot, average in zip(own, averages, strict=True):
                _put(slot, average.numpy())
            if not self.use_buffers:
                for slot, (_, buffer) in zip(_buffers(self.module), model.named_buffers(), strict=True):
                    _put(slot, np.array(host_array(buffer)))
            self.n_averaged = np.asarray(self.n_averaged) + 1


def _slots(module: Module, with_buffers: bool) -> list[Slot]:
    """The places of what is averaged, each array once."""
    found = {id(slot.value): slot for slot in module.slots() if not slot.is_buffer}
    return [*found.values(), *(_buffers(module) if with_buffers else [])]


def _buffers(module: Module) -> list[Slot]:
    return [*{id(slot.value): slot for slot in module.slots() if slot.is_buffer}.values()]


def _put(slot: Slot, value: Any) -> None:
    if isinstance(slot.value, Tensor):
        slot.value[...] = value
    else:
        slot.assign(value)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Have the running statistics of all batch norms in `model` be the means of those of all batches of `loader`, each
    of which is what the model takes, or a tuple or list whose first item is."""
    norms = [module for module in model.modules() if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d)]
    if not norms:
        return
    was_training, momenta = model.training, [norm.momentum for norm in norms]
    for norm in norms:
        norm.running_mean, norm.running_var = (
            np.zeros_like(host_array(norm.running_mean)),
            np.ones_like(host_array(norm.running_var)),
        )
        norm.num_batches_tracked = np.zeros((), np.int64)
        norm.momentum = None
    model.train()
    try:
        with no_grad():
            for batch in loader:
                model(batch[0] if isinstance(batch, list | tuple) else batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(FormulaLR):
    """From the rate that a group has to `swa_lr`, a number or one for each group, in `anneal_epochs` steps along half a
    cosine, or a line (`anneal_strategy="linear"`), and `swa_lr` from then on. Another scheduler may change the rate
    before."""

    def __init__(self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos") -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy is {anneal_strategy!r}, neither 'cos' nor 'linear'")
        self._rates = of_each("SWALR: swa_lr", optimizer, swa_lr)
        between = on_cosine if anneal_strategy == "cos" else on_line
        self._between = lambda step: between(0.0, 1.0, min(1.0, step / anneal_epochs) if anneal_epochs else 1.0)
        super().__init__(optimizer, lambda base, step: base)

    def _set(self) -> None:
        if not self.made:
            return
        before, now = self._between(self.made - 1), self._between(self.made)
        for group, target in zip(self.optimizer.param_groups, self._rates, strict=True):
            first = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            group["lr"] = target * now + first * (1 - now)


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
