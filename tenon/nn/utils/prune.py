"""`torch.nn.utils.prune` by its names: parameters of which elements, rows or columns are kept at 0 by a mask.

A parameter `name` becomes that of `name` with `_orig` behind it times the buffer with `_mask`, computed whenever it is
asked for. The elements that are hidden have gradients of 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tenon.dialects.support.plain_arrays import elements_of, host_array
from tenon.dialects.support.suggestion import attribute_hints
from tenon.eager.modes import no_grad
from tenon.eager.tensor import Tensor
from tenon.nn.module import Module
from tenon.nn.utils.parametrize import Computed, compute, computed_of, store
from tenon.runtime.cuda.arrays import beside
from tenon.seeds import generator_of

Host = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Masked(Computed):
    """`name`_orig where `name`_mask is 1."""

    name: str

    def get(self, module: Any) -> Any:
        return getattr(module, f"{self.name}_orig") * getattr(module, f"{self.name}_mask")

    def put(self, module: Any, value: Any) -> None:
        setattr(module, f"{self.name}_orig", value)


def _count(amount: float, size: int) -> int:
    """How many of `size` are pruned for an amount, a share of them or a number."""
    is_number = isinstance(amount, int) and not isinstance(amount, bool)
    if not is_number and not (isinstance(amount, float) and 0 <= amount <= 1):
        raise ValueError(f"prune: amount is {amount!r} where a share from 0.0 to 1.0, or a number, is needed")
    if is_number and not 0 <= amount <= size:
        raise ValueError(f"prune: amount is {amount}, and there are {size}")
    return int(amount) if is_number else round(amount * size)


class BasePruningMethod:
    """How a mask is found; what classes of yours extend, which define `compute_mask(t, default_mask)`.

    `PRUNING_TYPE` says of what: `"unstructured"` elements, `"structured"` slices along `dim`, or `"global"`. What a
    mask hides already takes no part.
    """

    PRUNING_TYPE: ClassVar[str] = "unstructured"
    dim: int = -1

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask, a tensor like `default_mask`, for the importance `t` of each element."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute_mask")

    def _mask_of(self, t: Host, default_mask: Host) -> Host:
        return host_array(self.compute_mask(Tensor(t, device="cpu"), Tensor(default_mask, device="cpu")))

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Hide elements of the parameter `name` of `module`, besides those that are hidden; gives the method."""
        method = cls(*args, **kwargs)
        is_known = is_pruned(module, name)
        weight = _now(module, name)
        before = _mask(module, name, weight)
        scores = weight if importance_scores is None else host_array(importance_scores)
        if scores.shape != weight.shape:
            raise ValueError(f"prune: importance_scores has shape {scores.shape}, and {name} {weight.shape}")
        mask = method.within(scores, before).astype(weight.dtype)
        if not is_known:
            held = vars(module)[name]
            compute(module, _Masked(name))
            module.register_parameter(f"{name}_orig", held)
        module.register_buffer(f"{name}_mask", beside(mask, elements_of(vars(module)[f"{name}_orig"])))
        return method

    def within(self, scores: Any, before: Any) -> Any:
        """The mask of what `before` leaves."""
        if self.PRUNING_TYPE == "global":
            return self._mask_of(scores, before)
        if self.PRUNING_TYPE == "structured":
            axes = tuple([axis for axis in range(before.ndim) if axis != self.dim % before.ndim])
            left: Any = [slice(None)] * before.ndim
            left[self.dim] = before.sum(axes) != 0
            left = tuple(left)
        else:
            left = before == 1
        mask = before.copy()
        mask[left] = self._mask_of(scores[left], before[left])
        return mask


class _Own(BasePruningMethod):
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask, a tensor like `default_mask`, for the importance `t` of each element."""
        return Tensor(self._mask_of(host_array(t), host_array(default_mask)), device="cpu")


class Identity(_Own):
    """Hides nothing."""

    def _mask_of(self, t: Host, default_mask: Host) -> Host:
        return default_mask


class CustomFromMask(_Own):
    """Hides what `mask` does."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = host_array(mask)

    def _mask_of(self, t: Host, default_mask: Host) -> Host:
        return default_mask * self.mask.astype(default_mask.dtype)


class _OfAmount(_Own):
    def __init__(self, amount: float) -> None:
        _count(amount, 1 if isinstance(amount, float) else int(amount))
        self.amount = amount

    def _hidden(self, t: Any) -> Any:
        """The places of the elements of `t` that are hidden."""
        raise NotImplementedError

    def _mask_of(self, t: Host, default_mask: Host) -> Host:
        mask = default_mask.copy()
        mask.reshape(-1)[self._hidden(t)[: _count(self.amount, t.size)]] = 0
        return mask


class RandomUnstructured(_OfAmount):
    """Hides a share, or a number, of the elements at random."""

    def _hidden(self, t: Any) -> Any:
        return generator_of(None).permutation(t.size)


class L1Unstructured(_OfAmount):
    """Hides the share, or the number, of elements of the least magnitudes."""

    def _hidden(self, t: Any) -> Any:
        return np.argsort(np.abs(t).reshape(-1), kind="stable")


class _OfSlices(_Own):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount, self.dim = amount, dim

    def _order(self, t: Any) -> Any:
        """The slices along `dim`, those first that are hidden."""
        raise NotImplementedError

    def _mask_of(self, t: Host, default_mask: Host) -> Host:
        kept = np.ones(t.shape[self.dim], default_mask.dtype)
        kept[self._order(t)[: _count(self.amount, kept.size)]] = 0
        return default_mask * np.moveaxis(kept.reshape(-1, *(1,) * (t.ndim - 1)), 0, self.dim)


class RandomStructured(_OfSlices):
    """Hides slices along `dim` at random."""

    def _order(self, t: Any) -> Any:
        return generator_of(None).permutation(t.shape[self.dim])


class LnStructured(_OfSlices):
    """Hides the slices along `dim` of the least norms of order `n`."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _order(self, t: Any) -> Any:
        rows = np.moveaxis(t, self.dim, 0).reshape(t.shape[self.dim], -1)
        order = {"fro": 2, "inf": np.inf, "-inf": -np.inf}.get(self.n, self.n)
        return np.argsort(np.linalg.norm(rows, order, axis=1), kind="stable")


def identity(module: Any, name: str) -> Any:
    """Have the parameter `name` be one with a mask that hides nothing; gives `module`."""
    return _applied(Identity, module, name)


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Hide a share, or a number, of the elements of a parameter at random; gives `module`."""
    return _applied(RandomUnstructured, module, name, amount)


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Hide the share, or the number, of elements of a parameter that have the least magnitudes; gives `module`."""
    return _applied(L1Unstructured, module, name, amount, importance_scores=importance_scores)


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Hide slices of a parameter along `dim` at random; gives `module`."""
    return _applied(RandomStructured, module, name, amount, dim)


def ln_structured(module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Hide the slices of a parameter along `dim` that have the least norms of order `n`; gives `module`."""
    return _applied(LnStructured, module, name, amount, n, dim, importance_scores=importance_scores)


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Hide the elements of a parameter at which `mask` is 0; gives `module`."""
    return _applied(CustomFromMask, module, name, mask)


def _applied(method: type[BasePruningMethod], module: Any, *args: Any, **kwargs: Any) -> Any:
    method.apply(module, *args, **kwargs)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: type[BasePruningMethod], **settings: Any
) -> None:
    """Hide elements of several parameters, (module, name) each, by one method for all of them together."""
    pairs = [*parameters]
    weights = [_now(module, name) for module, name in pairs]
    masks = [_mask(module, name, weight) for (module, name), weight in zip(pairs, weights, strict=True)]
    scores, before = [np.concatenate([part.reshape(-1) for part in parts]) for parts in (weights, masks)]
    method = pruning_method(**settings)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: {pruning_method.__name__} is not of single elements")
    found = method.within(scores, before)
    ends = np.cumsum([weight.size for weight in weights])[:-1]
    for (module, name), mask, weight in zip(pairs, np.split(found, ends), weights, strict=True):
        custom_from_mask(module, name, mask.reshape(weight.shape))


def is_pruned(module: Any, name: str | None = None) -> bool:
    """Whether a module, or one below it, has a parameter with a mask; with `name`, that one of the module itself."""
    if name is None:
        return any(isinstance(how, _Masked) for inner in module.modules() for how in computed_of(inner))
    return _Masked(name) in computed_of(module)


def remove(module: Any, name: str) -> Any:
    """Have the parameter `name` be one by itself again, with zeros where the mask hid elements; gives `module`."""
    if not is_pruned(module, name):
        raise ValueError(f"{name} of a {type(module).__name__} has no mask")
    original: Any = vars(module)[f"{name}_orig"]
    value = _now(module, name)
    if isinstance(original, Tensor):
        original.data = value  # which optimizers have
    else:
        original = beside(value, original)
    store(module, _Masked(name), original, ("_orig", "_mask"))
    return module


def _now(module: Module, name: str) -> Host:
    """The parameter as it is, with zeros where it has a mask that hides elements."""
    if not is_pruned(module, name):
        if name not in vars(module):
            raise KeyError(f"{type(module).__name__} has no parameter {name!r}")
        return host_array(vars(module)[name])
    with no_grad():
        return host_array(getattr(module, name))


def _mask(module: Module, name: str, weight: Host) -> Host:
    """The mask of a parameter; ones like it where it has none."""
    return host_array(getattr(module, f"{name}_mask")) if is_pruned(module, name) else np.ones_like(weight)


__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
