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

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

import tenon
from tenon.dialects.size import Size
from tenon.dialects.value import Value
from tenon.runtime.tree import register_node

Array = Any


# Whether values of a class met so far are arrays or modules; containers are asked for what they hold.
_IS_DYNAMIC: dict[type, bool] = dict.fromkeys((int, float, bool, str, type(None)), False)


def _is_dynamic(value: Any) -> bool:
    kind = type(value)
    known = _IS_DYNAMIC.get(kind)
    if known is not None:
        return known
    if isinstance(value, list | tuple):
        return any(map(_is_dynamic, value))
    if isinstance(value, dict):
        return any(map(_is_dynamic, value.values()))
    known = _IS_DYNAMIC[kind] = isinstance(value, np.ndarray | Value | Module) or hasattr(kind, "__dlpack__")
    return known


@dataclass(frozen=True)
class _Slot:
    """A place below a module that holds an array: its path, and how to put another one there."""

    path: str
    is_buffer: bool
    value: Array
    assign: Callable[[Array], None]


def _slots(value: Any, path: str, is_buffer: bool, assign: Callable[[Any], None]) -> Iterator[_Slot]:
    if isinstance(value, Module):
        for name, attribute in vars(value).items():
            inner = f"{path}.{name}" if path else name
            yield from _slots(attribute, inner, name in value.buffer_names, partial(setattr, value, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _slots(item, f"{path}.{key}", is_buffer, partial(value.__setitem__, key))
    elif isinstance(value, list | tuple):
        items = list(value)

        def replace(position: int, item: Any) -> None:
            items[position] = item
            assign(type(value)(*items) if hasattr(value, "_fields") else type(value)(items))

        for position, item in enumerate(value):
            yield from _slots(item, f"{path}.{position}", is_buffer, partial(replace, position))
    elif _is_dynamic(value) or (is_buffer and value is not None):
        yield _Slot(path, is_buffer, value, assign)


class Module:
    """Base of all modules. Arrays that are assigned to attributes are parameters, unless `register_buffer` says
    otherwise.
    """

    training: bool
    buffer_names: tuple[str, ...]

    def __init__(self) -> None:
        self.training = True
        self.buffer_names = ()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result; to be defined by each module."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def register_buffer(self, name: str, value: Array) -> None:
        """Make `value` an attribute that is saved with the module, but not trained."""
        self.buffer_names = (*self.buffer_names, name)
        setattr(self, name, value)

    def children(self) -> Iterator[tuple[str, Module]]:
        """Names and modules directly below this one."""
        for name, value in vars(self).items():
            yield from _modules_in(name, value)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def _slots(self) -> Iterator[_Slot]:
        return _slots(self, "", False, lambda _: None)

    def named_parameters(self) -> dict[str, Array]:
        """The trained arrays of this module and those below it, by path (`layers.0.weight`)."""
        return {slot.path: slot.value for slot in self._slots() if not slot.is_buffer}

    def named_buffers(self) -> dict[str, Array]:
        """The arrays that are saved but not trained, by path."""
        return {slot.path: slot.value for slot in self._slots() if slot.is_buffer}

    def state_dict(self) -> dict[str, Array]:
        """Parameters and buffers by path.

        The arrays are the module's own: copy them before a call that is given the module's memory (`donate`).
        """
        return {**self.named_parameters(), **self.named_buffers()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Set parameters and buffers to copies of `state`; raises `ValueError`, changing nothing, when names, shapes or
        kinds of numbers differ.
        """
        slots = {slot.path: slot for slot in self._slots()}
        missing, unknown = sorted(slots.keys() - state.keys()), sorted(state.keys() - slots.keys())
        if missing or unknown:
            raise ValueError(
                f"state does not fit the module: missing {', '.join(missing) or 'none'}, "
                f"unknown {', '.join(unknown) or 'none'}"
            )
        loaded: dict[str, Array] = {}
        for path, slot in slots.items():
            given, own = np.asarray(state[path]), np.asarray(slot.value)
            if given.shape != own.shape:
                raise ValueError(f"{path} has shape {own.shape} in the module and {given.shape} in the state")
            if not np.can_cast(given.dtype, own.dtype, "same_kind"):
                raise ValueError(f"{path} has dtype {own.dtype} in the module and {given.dtype} in the state")
            loaded[path] = np.array(given, dtype=own.dtype)
        for path, slot in slots.items():
            slot.assign(loaded[path])

    def set_parameters(self, values: Mapping[str, Array]) -> None:
        """Replace parameters by path; values are taken as they are."""
        for slot in list(self._slots()):
            if slot.path in values and not slot.is_buffer:
                slot.assign(values[slot.path])

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training behaviour (or, with `False`, to evaluation)."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch to evaluation behaviour."""
        return self.train(False)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={child!r}" for name, child in self.children())
        own = ", ".join(
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if isinstance(value, int | float | str) and name != "training"
        )
        return f"{type(self).__name__}({', '.join(part for part in (own, inner) if part)})"


def _modules_in(path: str, value: Any) -> Iterator[tuple[str, Module]]:
    if isinstance(value, Module):
        yield path, value
    elif isinstance(value, list | tuple | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _modules_in(f"{path}.{key}", item)


def _take_apart(module: Module) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    names: list[str] = []
    values: list[Any] = []
    static: dict[str, Any] = {}
    buffers = module.buffer_names
    for name, value in vars(module).items():
        # A buffer is data even after arithmetic has made a number of it, as NumPy does with arrays of rank 0.
        if _is_dynamic(value) or name in buffers:
            names.append(name)
            values.append(value)
        else:
            static[name] = value
    return tuple(names), values, static


def _put_together(kind: type, names: tuple[str, ...], values: Sequence[Any], static: dict[str, Any]) -> Module:
    module = object.__new__(kind)
    attributes = vars(module)
    attributes.update(static)
    attributes.update(zip(names, values, strict=True))
    return module


register_node(Module, _take_apart, _put_together)


def _generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def _uniform(generator: np.random.Generator, shape: Sequence[int], fan_in: int, dtype: Any) -> Array:
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return generator.uniform(-bound, bound, tuple(shape)).astype(dtype)


class Linear(Module):
    """`x @ weight.T + bias` over the last axis: (…, `in_features`) to (…, `out_features`).

    Weights start uniform in ±1/√in_features, as PyTorch's do.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = _generator(seed)
        self.weight = _uniform(generator, (out_features, in_features), in_features, dtype)
        self.bias: Array = _uniform(generator, (out_features,), in_features, dtype) if bias else None

    def forward(self, x: Array) -> Array:
        product = tenon.matmul(x, tenon.transpose(self.weight))
        return product if self.bias is None else tenon.add(product, self.bias)


class Conv2d(Module):
    """Cross-correlation of (n, `in_channels`, h, w) with learned windows; see `tenon.conv2d` for the settings."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"Conv2d: groups is {groups}, which does not divide {in_channels} and {out_channels} channels"
            )
        size, self.stride, self.padding, self.dilation = map(_pair, (kernel_size, stride, padding, dilation))
        self.groups = groups
        generator = _generator(seed)
        fan_in = in_channels // groups * size[0] * size[1]
        self.weight = _uniform(generator, (out_channels, in_channels // groups, *size), fan_in, dtype)
        self.bias: Array = _uniform(generator, (out_channels,), fan_in, dtype) if bias else None

    def forward(self, x: Array) -> Array:
        return tenon.conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)  # pyright: ignore[reportReturnType]


class LayerNorm(Module):
    """Each slice of `normalized_shape` along the last axes brought to mean 0, variance 1, then scaled and shifted."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.axes = tuple(range(-len(shape), 0))
        self.eps = eps
        self.weight = np.ones(shape, dtype) if elementwise_affine else None
        self.bias = np.zeros(shape, dtype) if elementwise_affine else None

    def forward(self, x: Array) -> Array:
        return tenon.layer_norm(x, self.weight, self.bias, axis=self.axes, eps=self.eps)


class BatchNorm2d(Module):
    """Each channel of (n, c, h, w) brought to mean 0 and variance 1, then scaled and shifted.

    While training by the batch's statistics, which the running ones follow with weight `momentum`; otherwise by the
    running ones.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, dtype: Any = np.float32) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = np.ones(num_features, dtype)
        self.bias = np.zeros(num_features, dtype)
        self.register_buffer("running_mean", np.zeros(num_features, dtype))
        self.register_buffer("running_var", np.ones(num_features, dtype))

    def forward(self, x: Array) -> Array:
        if not self.training:
            return tenon.batch_norm(
                x, mean=self.running_mean, variance=self.running_var, weight=self.weight, bias=self.bias, eps=self.eps
            )
        result, mean, variance = tenon.batch_norm_training(x, self.weight, self.bias, eps=self.eps)
        n, _, h, w = x.shape
        count: Any = n * h * w
        if isinstance(count, Size):
            count = tenon.cast(tenon.size(count), dtype="f32")
            unbiased = count / tenon.maximum(count - 1, 1)
        else:
            unbiased = count / max(count - 1, 1)
        keep, take = 1 - self.momentum, self.momentum
        mean, variance = tenon.stop_gradient(mean), tenon.stop_gradient(variance)
        self.running_mean = tenon.add(tenon.multiply(self.running_mean, keep), tenon.multiply(mean, take))
        self.running_var = tenon.add(tenon.multiply(self.running_var, keep), tenon.multiply(variance, take * unbiased))
        return result


class Embedding(Module):
    """Row `indices` of a learned table (`num_embeddings`, `embedding_dim`), which starts standard normal."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        dtype: Any = np.float32,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.weight = _generator(seed).standard_normal((num_embeddings, embedding_dim)).astype(dtype)

    def forward(self, indices: Array) -> Array:
        return tenon.embedding(self.weight, indices)


class Dropout(Module):
    """While training, each element set to zero with probability `p` and the others scaled by 1/(1-p).

    The buffer `calls` counts the calls, so that each draws other elements; a traced function must return the module for
    that.
    """

    def __init__(self, p: float = 0.5, *, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p is {p}, outside of [0, 1)")
        self.p = p
        self.key: Array
        self.register_buffer("key", np.array([seed & 0x7FFFFFFF, seed >> 31], np.int32))
        self.register_buffer("calls", np.zeros((), np.int32))

    def forward(self, x: Array) -> Array:
        if not self.training or self.p == 0:
            return x
        kept = tenon.random_uniform(tenon.fold_in(self.key, self.calls), x.shape) >= self.p
        self.calls = tenon.add(self.calls, 1)
        return tenon.select(kept, tenon.multiply(x, 1 / (1 - self.p)), 0.0)


class Sequential(Module):
    """Modules and functions applied one after the other."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.layers = list(layers)

    def forward(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x

    def __getitem__(self, index: int) -> Any:
        return self.layers[index]

    def __len__(self) -> int:
        return len(self.layers)
