"""Random tensors by PyTorch's names, whose numbers are another stream of `nn.manual_seed` at each call.

They are drawn when they are asked for, so that a function that is traced would draw once for all its calls: there,
these are errors, and `tenon.random_normal(key, shape)` and its like, functions of a key, are what to write.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.registry import DEFAULT_DEVICE
from tenon.dialects.definition.value import TracedValueError, Value, insertion_point
from tenon.dialects.support.device import Device, device_named
from tenon.dialects.support.plain_arrays import elements_of, on_host
from tenon.dialects.types.shapes import check_count, check_sizes
from tenon.eager.modes import TRACING, is_traced
from tenon.eager.tensor import Tensor, as_tensor
from tenon.runtime.cuda.arrays import place_among
from tenon.runtime.cuda.names import checked_device
from tenon.seeds import Seed, generator_of


def _generator(function: str, given: Seed, instead: str = "random_uniform") -> np.random.Generator:
    if given is None and is_traced():
        raise TracedValueError(
            f"tenon.{function} draws when it is called, and while a function is traced that is once for all its calls; "
            f"write tenon.{instead}(key, ...), with the key as an argument"
        )
    return generator_of(given)


def _shape(function: str, sizes: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    """The sizes that are given one by one, or as one tuple, which may be named."""
    given = sizes if size is None else (*sizes, size)
    shape = given[0] if len(given) == 1 and not hasattr(given[0], "__index__") else given
    try:
        found = tuple([int(extent.__index__()) for extent in shape])
    except AttributeError:
        raise TypeError(f"tenon.{function}: the shape is {shape!r} where integers are needed") from None
    check_sizes(f"tenon.{function}", found)
    return found


def _made(numbers: Any, dtype: object, device: Any = None, requires_grad: bool = False) -> Tensor:
    return Tensor(np.asarray(numbers), dtype=dtype, device=device, requires_grad=requires_grad)


def rand(
    *sizes: Any,
    size: Any = None,
    dtype: object = "f32",
    generator: Seed = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers uniform in [0, 1), of a shape given by sizes or one tuple of them."""
    shape = _shape("rand", sizes, size)
    return _made(_generator("rand", generator).random(shape), dtype, device, requires_grad)


def randn(
    *sizes: Any,
    size: Any = None,
    dtype: object = "f32",
    generator: Seed = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the normal distribution of mean 0 and variance 1, of a shape given by sizes or one tuple of them."""
    shape = _shape("randn", sizes, size)
    drawn = _generator("randn", generator, "random_normal").standard_normal(shape)
    return _made(drawn, dtype, device, requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, dtype: object = "i64", generator: Seed = None, device: Any = None
) -> Tensor:
    """Integers of [low, high), of shape `size`; with two arguments, of [0, low)."""
    if size is None:
        low, high, size = 0, low, high
    if size is None:
        raise TypeError("tenon.randint: the shape is missing; write randint(high, size) or randint(low, high, size)")
    shape = _shape("randint", (), size)
    if low >= high:
        raise ValueError(f"tenon.randint: low is {low} and high is {high}, which no integers are between")
    return _made(_generator("randint", generator, "random_integers").integers(low, high, shape), dtype, device)


def randperm(count: int, *, dtype: object = "i64", generator: Seed = None, device: Any = None) -> Tensor:
    """The integers from 0 to before `count`, in any order."""
    check_count("tenon.randperm", "count", count)
    return _made(_generator("randperm", generator, "random_permutation").permutation(count), dtype, device)


def rand_like(x: Any, *, dtype: object = None, generator: Seed = None, requires_grad: bool = False) -> Tensor:
    """Numbers uniform in [0, 1), of the shape of `x`, and of its dtype by default."""
    return rand(
        tuple(x.shape),
        dtype=x.dtype if dtype is None else dtype,
        generator=_known("rand_like", x, generator),
        device=_device_of(x),
        requires_grad=requires_grad,
    )


def randn_like(x: Any, *, dtype: object = None, generator: Seed = None, requires_grad: bool = False) -> Tensor:
    """Numbers of the normal distribution of mean 0 and variance 1, of the shape of `x`, and of its dtype by default."""
    given = _known("randn_like", x, generator, "random_normal")
    return randn(
        tuple(x.shape),
        dtype=x.dtype if dtype is None else dtype,
        generator=given,
        device=_device_of(x),
        requires_grad=requires_grad,
    )


def _known(function: str, x: Any, generator: Seed, instead: str = "random_uniform") -> np.random.Generator:
    if isinstance(x, Value):
        generator = None  # whatever it is, it draws once
    return _generator(function, generator, instead)


def _numbers(given: Any) -> np.ndarray[Any, Any]:
    """What a distribution is told, on the host."""
    return np.asarray(given.cpu() if isinstance(given, Tensor) else on_host(given))


def _device_of(*given: Any) -> str | None:
    """Where numbers are drawn to for such arguments, where that is a GPU."""
    return place_among(map(elements_of, given))


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Seed = None) -> Tensor:
    """Numbers of normal distributions with these means and deviations, broadcast to `size`, if it is given."""
    device = _device_of(mean, std)
    mean, std = _numbers(mean), _numbers(std)
    shape = np.broadcast_shapes(mean.shape, std.shape) if size is None else _shape("normal", (), size)
    drawn = _generator("normal", generator, "random_normal").normal(mean, std, shape)
    return _made(drawn, "f64" if np.float64 in (mean.dtype, std.dtype) and size is None else "f32", device)


def bernoulli(p: Any, *, generator: Seed = None) -> Tensor:
    """1 with the probability that each element of `p` is, otherwise 0, of its shape and dtype."""
    device, p = _device_of(p), _numbers(p)
    if p.size and not ((p >= 0) & (p <= 1)).all():
        raise ValueError("tenon.bernoulli: p has an element that is outside of [0, 1]")
    drawn = _generator("bernoulli", generator, "random_bernoulli").random(p.shape)
    return _made(drawn < p, p.dtype if p.dtype.kind == "f" else "f32", device)


def multinomial(weights: Any, num_samples: int, replacement: bool = False, *, generator: Seed = None) -> Tensor:
    """For each row of `weights` (..., n), which are no less than 0 and need not add up to 1, the places (..., k) of
    `num_samples` elements, drawn in proportion to them; each at most once unless there is `replacement`.

    Raises `ValueError` for weights that are negative, not finite or all 0, and for too few of them.
    """
    check_count("tenon.multinomial", "num_samples", num_samples)
    given = np.asarray(_numbers(weights), np.float64)
    if given.ndim not in (1, 2):
        raise ValueError(f"tenon.multinomial: weights has rank {given.ndim} where 1 or 2 is needed")
    if not np.isfinite(given).all() or (given < 0).any() or (given.sum(-1) <= 0).any():
        raise ValueError("tenon.multinomial: each row of weights must be finite, not negative, and not all 0")
    if not replacement and ((given > 0).sum(-1) < num_samples).any():
        raise ValueError(f"tenon.multinomial: a row has fewer than {num_samples} weights that are not 0")
    draws = _generator("multinomial", generator, "random_categorical")
    rows = np.atleast_2d(given / given.sum(-1, keepdims=True))
    found = np.stack([draws.choice(rows.shape[1], num_samples, replacement, row) for row in rows])
    return _made(found[0] if given.ndim == 1 else found, "i64", _device_of(weights))


def device(name: Any = "cpu", index: int | None = None) -> Device:
    """The name of a device: `"cpu"`, `"cuda"`, or `"cuda:1"`, with its `type` and its `index`. Raises `ValueError` for
    another one."""
    said = f"cuda:{name}" if isinstance(name, int) else name if index is None else f"{name}:{index}"
    return device_named(checked_device(said))


def made_as_asked(function: str, made: Any, device: str | None, requires_grad: bool) -> Any:
    """What a function has made as a tensor, on a device if one is named; where a function of values is traced, as it
    is."""
    if insertion_point() is not None and TRACING.session is None:
        if requires_grad:
            raise TypeError(
                f"{function}: requires_grad is for tensors, and a function of values is traced, whose gradients are "
                "found by tenon.grad"
            )
        return made
    tensor = made if isinstance(made, Tensor) else Tensor._new(made)  # pyright: ignore[reportPrivateUsage]
    tensor = tensor if device is None else tensor._on(device)  # pyright: ignore[reportPrivateUsage]
    return tensor.requires_grad_() if requires_grad else tensor


def set_default_device(device: Any) -> None:
    """Have functions that create (`zeros`, `ones`, `full`, `empty`, `eye`, `arange`, `linspace`, `logspace`) give
    tensors, as if each call named the device `"cpu"`; with `None` they give arrays again.

    Raises `ValueError` for another device, which has to be named where tensors are made.
    """
    if device is not None and checked_device(device) != "cpu":
        raise ValueError(
            f"tenon.set_default_device: device is {str(device)!r} where 'cpu' or None is needed; tell each function "
            "that makes a tensor (device=...), and bring modules there (model.to(device))"
        )
    DEFAULT_DEVICE[:] = [] if device is None else [device_named(device)]


def get_default_device() -> Device:
    """Where tensors are that are made without a device."""
    return device_named("cpu")


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"tenon.from_numpy: a {type(array).__name__} is no NumPy array")
    return Tensor._new(array)  # pyright: ignore[reportPrivateUsage]


@also_called(input="x")
def clone(x: Any) -> Any:
    """A copy of `x`, through which gradients go."""
    return (x if isinstance(x, Value) else as_tensor(x)).clone()


@also_called(input="x")
def numel(x: Any) -> int:
    """How many elements `x` has."""
    return prod(x.shape)


def is_tensor(x: Any) -> bool:
    """Whether `x` is a `Tensor`."""
    return isinstance(x, Tensor)
