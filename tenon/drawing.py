"""Random tensors by PyTorch's names, whose numbers are another stream of `nn.manual_seed` at each call.

Where a function is traced whose program draws anew at each call (`draws`), they are computed of keys, and are other
numbers than those of NumPy's generators. In functions of `jit` they are errors, and `tenon.random_normal(key, shape)`
and its like, functions of a key, are what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.value import Value, insertion_point
from tenon.dialects.support.device import DEFAULT_DEVICE, Device, device_named, install_device_check, set_default
from tenon.dialects.support.plain_arrays import elements_of, on_host
from tenon.dialects.types.shapes import check_count, check_sizes
from tenon.dialects.types.types import element_type, f64
from tenon.draws import next_key, runs_once
from tenon.eager.modes import TRACING, is_traced
from tenon.eager.tensor import Tensor, as_tensor
from tenon.runtime.cuda.arrays import place_among
from tenon.runtime.cuda.device_cuda import CudaUnavailableError, architecture
from tenon.runtime.cuda.names import checked_device
from tenon.seeds import Seed, generator_of


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


def _drawn(
    function: str,
    instead: str,
    generator: Seed,
    at_once: Callable[[np.random.Generator], Any],
    of_key: Callable[[Any], Any],
    *,
    dtype: object = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """What a generator of NumPy's gives, or, where a function is traced, what is computed of a key."""
    if generator is None and is_traced():
        made = of_key(next_key(f"tenon.{function}", f"tenon.{instead}(key, ...), with the key as an argument"))
        place = None if device is None else checked_device(device)
        return made_as_asked(function, made, place, requires_grad)
    numbers = np.asarray(at_once(generator_of(generator)))
    return Tensor(numbers, dtype=dtype, device=device, requires_grad=requires_grad)


def _wide(dtype: object) -> Any:
    """The dtype that NumPy draws in: f32 unless more is needed."""
    return np.float64 if element_type(dtype) == f64 else np.float32


def _unit(draws: np.random.Generator, shape: tuple[int, ...], dtype: object) -> Any:
    """Numbers in [0, 1), of no more digits than `dtype` has: rounding would give 1."""
    numbers = draws.random(shape, _wide(dtype))
    digits = 2.0 ** _DIGITS.get(str(element_type(dtype)), 53)
    return numbers if digits == 2.0**53 else np.floor(numbers * digits) / digits


_DIGITS = {"f16": 11, "bf16": 8}


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
    return _drawn(
        *("rand", "random_uniform", generator),
        lambda draws: _unit(draws, shape, dtype),
        lambda key: tenon.random_uniform(key, shape, dtype=dtype),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
    )


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
    return _drawn(
        *("randn", "random_normal", generator),
        lambda draws: draws.standard_normal(shape, _wide(dtype)),
        lambda key: tenon.random_normal(key, shape, dtype=dtype),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
    )


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
    return _drawn(
        *("randint", "random_integers", generator),
        lambda draws: draws.integers(low, high, shape),
        lambda key: tenon.random_integers(key, shape, low, high, dtype=dtype),
        dtype=dtype,
        device=device,
    )


def randperm(count: int, *, dtype: object = "i64", generator: Seed = None, device: Any = None) -> Tensor:
    """The integers from 0 to before `count`, in any order."""
    check_count("tenon.randperm", "count", count)
    return _drawn(
        *("randperm", "random_permutation", generator),
        lambda draws: draws.permutation(count),
        lambda key: tenon.random_permutation(key, count).astype(dtype),
        dtype=dtype,
        device=device,
    )


def rand_like(x: Any, *, dtype: object = None, generator: Seed = None, requires_grad: bool = False) -> Tensor:
    """Numbers uniform in [0, 1), of the shape of `x`, and of its dtype by default."""
    return rand(tuple(x.shape), requires_grad=requires_grad, **_like(x, dtype, generator))


def randn_like(x: Any, *, dtype: object = None, generator: Seed = None, requires_grad: bool = False) -> Tensor:
    """Numbers of the normal distribution of mean 0 and variance 1, of the shape of `x`, and of its dtype by default."""
    return randn(tuple(x.shape), requires_grad=requires_grad, **_like(x, dtype, generator))


def _like(x: Any, dtype: object, generator: Seed) -> dict[str, Any]:
    is_of_program = isinstance(x, Value) and not runs_once()  # where a generator would draw once for all calls
    return {
        "dtype": x.dtype if dtype is None else dtype,
        "generator": None if is_of_program else generator,
        "device": _device_of(x),
    }


def _numbers(given: Any) -> np.ndarray[Any, Any]:
    """What a distribution is told, on the host."""
    return np.asarray(given.detach().cpu() if isinstance(given, Tensor) else on_host(given))


def _device_of(*given: Any) -> str | None:
    """Where numbers are drawn to for such arguments: where a tensor among them is."""
    is_placed = any(isinstance(one, Tensor) for one in given)
    return place_among(map(elements_of, given)) or ("cpu" if is_placed and TRACING.session is None else None)


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Seed = None) -> Tensor:
    """Numbers of normal distributions with these means and deviations, broadcast to `size`, if it is given."""
    device = _device_of(mean, std)
    dtypes = [getattr(given, "dtype", None) for given in (mean, std)]
    dtype = "f64" if np.float64 in dtypes and size is None else "f32"
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std)) if size is None else _shape("normal", (), size)
    return _drawn(
        *("normal", "random_normal", generator),
        lambda draws: draws.normal(_numbers(mean), _numbers(std), shape),
        lambda key: tenon.random_normal(key, shape, mean, std, dtype=dtype),
        dtype=dtype,
        device=device,
    )


def bernoulli(p: Any, *, generator: Seed = None) -> Tensor:
    """1 with the probability that each element of `p` is, otherwise 0, of its shape and dtype. Raises `ValueError` for
    one outside of [0, 1], where that is known."""

    def at_once(draws: np.random.Generator) -> Any:
        known = _numbers(p)
        if known.size and not ((known >= 0) & (known <= 1)).all():
            raise ValueError("tenon.bernoulli: p has an element that is outside of [0, 1]")
        return draws.random(known.shape) < known

    given: Any = getattr(p, "dtype", None)
    dtype = "f32" if given is None or not tenon.isdtype(given, "real floating") else given
    return _drawn(
        *("bernoulli", "random_bernoulli", generator),
        at_once,
        lambda key: tenon.random_bernoulli(key, p).astype(dtype),
        dtype=dtype,
        device=_device_of(p),
    )


def multinomial(weights: Any, num_samples: int, replacement: bool = False, *, generator: Seed = None) -> Tensor:
    """For each row of `weights` (..., n), which are no less than 0 and need not add up to 1, the places (..., k) of
    `num_samples` elements, drawn in proportion to them; each at most once unless there is `replacement`.

    Raises `ValueError` for weights that are negative, not finite or all 0, and for too few, where these are known.
    """
    check_count("tenon.multinomial", "num_samples", num_samples)
    if np.ndim(weights) not in (1, 2):
        raise ValueError(f"tenon.multinomial: weights has rank {np.ndim(weights)} where 1 or 2 is needed")

    def at_once(draws: np.random.Generator) -> Any:
        given = np.asarray(_numbers(weights), np.float64)
        if not np.isfinite(given).all() or (given < 0).any() or (given.sum(-1) <= 0).any():
            raise ValueError("tenon.multinomial: each row of weights must be finite, not negative, and not all 0")
        if not replacement and ((given > 0).sum(-1) < num_samples).any():
            raise ValueError(f"tenon.multinomial: a row has fewer than {num_samples} weights that are not 0")
        rows = np.atleast_2d(given / given.sum(-1, keepdims=True))
        found = np.stack([draws.choice(rows.shape[1], num_samples, replacement, row) for row in rows])
        return found[0] if given.ndim == 1 else found

    def of_key(key: Any) -> Any:
        logits = tenon.log(weights)
        if not replacement:  # the places of the greatest of logits with Gumbel noise (Vieira, 2014)
            noise = tenon.random_gumbel(key, tuple(logits.shape))
            return tenon.topk(logits + noise, num_samples)[1]
        return tenon.random_categorical(key, logits, num_samples)

    return _drawn(
        *("multinomial", "random_categorical", generator),
        at_once,
        of_key,
        dtype="i64",
        device=_device_of(weights),
    )


Size = tuple
"""What `shape` of a tensor is, by PyTorch's name."""


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
    """Have functions that create (`tensor`, `zeros`, `ones`, `full`, `empty`, `eye`, `arange`, `linspace`, `logspace`,
    `rand` and their like) give tensors on a device, and modules begin there, as if each call named it; with `None` the
    functions of NumPy's give arrays again.

    For a block, there is `with tenon.device("cuda"):`, inside of which that counts. Raises `CudaUnavailableError` where
    there is no GPU, and `ValueError` for one that is not there.
    """
    made = None if device is None else device_named(checked_device(device))
    if made is not None:
        _check_is_there(made)
    set_default(made)


def get_default_device() -> Device:
    """Where tensors are that are made without a device."""
    return DEFAULT_DEVICE[0] if DEFAULT_DEVICE else device_named("cpu")


def _check_is_there(device: Device) -> None:
    if device.type == "cuda":
        try:
            architecture(device.index)
        except CudaUnavailableError as error:
            raise CudaUnavailableError(f"nothing can be made on {device}: {error}") from None


install_device_check(_check_is_there)


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
