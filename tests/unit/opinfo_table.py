"""PyTorch's ops, by their names in OpInfo, written with Tenon's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tenon

TABLE: dict[str, Callable[..., Any]] = {}


class Unshared(Exception):
    """A sample asks for something that Tenon does not have."""


def shared(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = function
        return function

    return enter


def plain(*pairs: str) -> None:
    """Ops that take the same operands: `"mul=multiply"`, or the name alone where it is the same."""
    for pair in pairs:
        theirs, _, ours = pair.partition("=")

        def call(*args: Any, ours: str = ours or theirs, **kwargs: Any) -> Any:
            return getattr(tenon, ours)(*args, **kwargs)

        shared(theirs)(call)


def axes(dim: Any) -> Any:
    """`dim` as `axis`: PyTorch takes an empty list for all."""
    return None if dim is None or (isinstance(dim, Sequence) and not dim) else dim


# --- element by element -----------------------------------------------------------------------------------------------

plain("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1")
plain("floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "neg=negative", "reciprocal", "rsqrt")
plain("sigmoid", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "sign", "logical_not", "bitwise_not")
plain("atan2", "maximum", "minimum", "pow=power", "remainder", "floor_divide", "float_power=power")
plain("eq=equal", "ne=not_equal", "lt=less", "le=less_equal", "gt=greater", "ge=greater_equal")
plain("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
plain("mul=multiply", "true_divide=divide", "div.no_rounding_mode=divide", "max.binary=maximum", "min.binary=minimum")
plain("__radd__=add", "__rmul__=multiply", "clone=identity", "contiguous=identity", "round")
plain("nn.functional.relu=relu", "nn.functional.silu=silu", "nn.functional.logsigmoid=log_sigmoid")
plain("bitwise_left_shift=shift_left", "deg2rad", "rad2deg", "erfc", "sinc", "digamma", "lgamma", "erfinv")
plain("copysign", "hypot", "logaddexp", "logaddexp2", "xlogy", "fmod", "heaviside", "positive=identity")


def scaled(x: Any, alpha: float) -> Any:
    return x if alpha == 1 else tenon.multiply(x, alpha)


TABLE |= {
    "add": lambda x, y, alpha=1: tenon.add(x, scaled(y, alpha)),
    "sub": lambda x, y, alpha=1: tenon.subtract(x, scaled(y, alpha)),
    "rsub": lambda x, y, alpha=1: tenon.subtract(y, scaled(x, alpha)),
    "__rsub__": lambda x, y: tenon.subtract(y, x),
    "__rdiv__": lambda x, y: tenon.divide(y, x),
    "__rpow__": lambda x, y: tenon.power(y, x),
    "__rmod__": lambda x, y: tenon.remainder(y, x),
    "__rmatmul__": lambda x, y: tenon.matmul(y, x),
    "div.floor_rounding": lambda x, y, rounding_mode: tenon.floor(tenon.divide(x, y)),
    "div.trunc_rounding": lambda x, y, rounding_mode: tenon.trunc(tenon.divide(x, y)),
    "clamp": lambda x, min=None, max=None: tenon.clip(x, min, max),
    "clamp_max": lambda x, high: tenon.minimum(x, high),
    "clamp_min": lambda x, low: tenon.maximum(x, low),
    "where": lambda x, condition, y: tenon.select(condition, x, y),
    "lerp": lambda x, y, weight: x + tenon.multiply(tenon.subtract(y, x), weight),
    "frac": lambda x: x - tenon.trunc(x),
    "addcmul": lambda x, a, b, value=1: tenon.add(x, scaled(tenon.multiply(a, b), value)),
    "addcdiv": lambda x, a, b, value=1: tenon.add(x, scaled(tenon.divide(a, b), value)),
    "isposinf": lambda x: tenon.logical_and(tenon.isinf(x), tenon.greater(x, 0)),
    "isneginf": lambda x: tenon.logical_and(tenon.isinf(x), tenon.less(x, 0)),
    "logit": lambda x, eps=None: _logit(x if eps is None else tenon.clip(x, eps, 1 - eps)),
}


def _logit(x: Any) -> Any:
    return tenon.log(tenon.divide(x, tenon.subtract(1.0, x)))


# --- activations ------------------------------------------------------------------------------------------------------

plain("nn.functional.celu=celu", "nn.functional.selu=selu", "nn.functional.mish=mish", "nn.functional.relu6=relu6")
plain("nn.functional.hardswish=hard_swish", "nn.functional.softsign=softsign", "nn.functional.tanhshrink=tanhshrink")

TABLE |= {
    "nn.functional.elu": lambda x, alpha=1.0: tenon.elu(x, alpha=alpha),
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01: tenon.leaky_relu(x, negative_slope=negative_slope),
    "nn.functional.hardtanh": lambda x, min_val=-1, max_val=1: tenon.hardtanh(
        x, min_val=float(min_val), max_val=float(max_val)
    ),
    "nn.functional.gelu": lambda x, approximate="none": tenon.gelu(x, approximate=approximate),
    "nn.functional.hardsigmoid": lambda x: tenon.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
    "nn.functional.hardshrink": lambda x, lambd=0.5: tenon.hardshrink(x, lambd),
    "nn.functional.softshrink": lambda x, lambd=0.5: tenon.softshrink(x, lambd),
    "nn.functional.softplus": lambda x, beta=1, threshold=20: _softplus(x, beta, threshold),
    "nn.functional.threshold": lambda x, threshold, value: tenon.select(tenon.greater(x, threshold), x, value),
    "nn.functional.prelu": lambda x, weight: tenon.prelu(x, _along(weight, x, 1)),
    "nn.functional.glu": lambda x, dim=-1: tenon.glu(x, axis=dim),
}


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    return tenon.select(tenon.multiply(x, beta) > threshold, x, tenon.softplus(tenon.multiply(x, beta)) / beta)


def _along(values: Any, x: Any, axis: int) -> Any:
    """A vector in the shape that broadcasts along `axis` of `x`."""
    if values.ndim == 0 or x.ndim <= axis:
        return values if values.ndim == 0 else tenon.reshape(values, shape=())
    return tenon.reshape(values, shape=(-1, *(1,) * (x.ndim - 1 - axis)))


# --- reductions -------------------------------------------------------------------------------------------------------


def _reduction(ours: str) -> Callable[..., Any]:
    def call(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None, **rest: Any) -> Any:
        if dtype is not None or rest:
            raise Unshared(f"{sorted(rest)} or dtype")
        return getattr(tenon, ours)(x, axis=axes(dim) if x.ndim else None, keepdims=keepdim)

    return call


for _name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "all", "any", "logsumexp"):
    TABLE[_name] = _reduction(_name)
TABLE["max.reduction_no_dim"] = _reduction("max")
TABLE["min.reduction_no_dim"] = _reduction("min")


def _spread(ours: str) -> Callable[..., Any]:
    def call(x: Any, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction if correction is not None else int(unbiased is not False)
        if ddof != int(ddof):
            raise Unshared("a correction that is no integer")
        return getattr(tenon, ours)(x, axis=axes(dim), ddof=int(ddof), keepdims=keepdim)

    return call


def _spread_and_mean(ours: str) -> Callable[..., Any]:
    def call(x: Any, dim: Any = None, *args: Any, keepdim: bool = False, **kwargs: Any) -> Any:
        mean = tenon.mean(x, axis=None if isinstance(dim, bool) else axes(dim), keepdims=keepdim)
        return _spread(ours)(x, dim, *args, keepdim=keepdim, **kwargs), mean

    return call


for _name in ("std", "var"):
    TABLE[_name] = TABLE[f"{_name}.unbiased"] = _spread(_name)
    TABLE[f"{_name}_mean"] = TABLE[f"{_name}_mean.unbiased"] = _spread_and_mean(_name)


def _extreme_and_place(largest: bool) -> Callable[..., Any]:
    def call(x: Any, dim: int, keepdim: bool = False) -> Any:
        if x.ndim == 0:
            return x, tenon.zeros((), "i64")
        place = (tenon.argmax if largest else tenon.argmin)(x, axis=dim, keepdims=True)
        value = tenon.take_along_axis(x, place, axis=dim)
        return (value, place) if keepdim else (tenon.squeeze(value, axis=dim), tenon.squeeze(place, axis=dim))

    return call


TABLE |= {
    "max.reduction_with_dim": _extreme_and_place(True),
    "min.reduction_with_dim": _extreme_and_place(False),
    "count_nonzero": lambda x, dim=None: tenon.sum(tenon.not_equal(x, 0), axis=axes(dim)),
    "nansum": lambda x, dim=None, keepdim=False: tenon.sum(
        tenon.select(tenon.isnan(x), 0.0, x), axis=axes(dim), keepdims=keepdim
    ),
    "aminmax": lambda x, dim=None, keepdim=False: (
        _reduction("min")(x, dim, keepdim),
        _reduction("max")(x, dim, keepdim),
    ),
    "trace": lambda x: tenon.trace(x),
    "dist": lambda x, y, p=2: _norm(tenon.subtract(x, y), p),
}


def _norm(x: Any, p: float) -> Any:
    if p != 2:
        raise Unshared(f"the {p}-norm")
    return tenon.sqrt(tenon.sum(x * x))


# --- shapes -----------------------------------------------------------------------------------------------------------


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)


def _expanded(x: Any, *shape: Any) -> Any:
    sizes = _sizes(shape)
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    return tenon.broadcast_to(x, shape=tuple([o if s == -1 else s for s, o in zip(sizes, own, strict=True)]))


def _permuted(x: Any, *dims: Any) -> Any:
    return tenon.transpose(x, permutation=tuple([d % max(x.ndim, 1) for d in _sizes(dims)]))


def _swapped(x: Any, first: int, second: int) -> Any:
    order = list(range(x.ndim))
    if order:
        order[first], order[second] = order[second], order[first]
    return tenon.transpose(x, permutation=tuple(order))


def _moved(x: Any, source: Any, destination: Any) -> Any:
    sources = [s % x.ndim for s in ([source] if isinstance(source, int) else source)]
    places = [d % x.ndim for d in ([destination] if isinstance(destination, int) else destination)]
    order: list[int] = [-1] * x.ndim
    for s, d in zip(sources, places, strict=True):
        order[d] = s
    rest = iter([axis for axis in range(x.ndim) if axis not in sources])
    return tenon.transpose(x, permutation=tuple([next(rest) if o < 0 else o for o in order]))


def _squeezed(x: Any, dim: Any = None) -> Any:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axis = tuple([d % x.ndim for d in dims if x.ndim and x.shape[d] == 1])
    return tenon.squeeze(x, axis=axis) if axis else x


def _flattened(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if x.ndim == 0:
        return tenon.reshape(x, shape=(1,))
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return tenon.reshape(x, shape=(*x.shape[:start], int(np.prod(x.shape[start : end + 1])), *x.shape[end + 1 :]))


def _unflattened(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    dim %= x.ndim
    rest = x.shape[dim] // max(1, -int(np.prod(sizes))) if -1 in sizes else 0
    filled = tuple([rest if s == -1 else s for s in sizes])
    return tenon.reshape(x, shape=(*x.shape[:dim], *filled, *x.shape[dim + 1 :]))


def _narrowed(x: Any, dim: int, start: Any, length: int) -> Any:
    if not isinstance(start, int):
        raise Unshared("a start that is data")
    start = start % max(x.shape[dim], 1) if start < 0 else start
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, start + length),)]


def _pieces(x: Any, sizes: Sequence[int], dim: int) -> Any:
    starts = np.cumsum([0, *sizes])
    return tuple([_narrowed(x, dim, int(s), int(n)) for s, n in zip(starts[:-1], sizes, strict=True)])


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    if not isinstance(size, int):
        return _pieces(x, size, dim)
    whole = x.shape[dim]
    return _pieces(x, [min(size, whole - start) for start in range(0, whole, size)], dim)


def _chunked(x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(x, -(-x.shape[dim] // chunks), dim)


def _at_least(rank: int) -> Callable[..., Any]:
    def one(x: Any) -> Any:
        shape = x.shape
        if rank == 3 and len(shape) == 2:
            return tenon.reshape(x, shape=(*shape, 1))
        if rank == 3 and len(shape) == 1:
            return tenon.reshape(x, shape=(1, *shape, 1))
        return tenon.reshape(x, shape=(1,) * (rank - len(shape)) + tuple(shape))

    return lambda *xs: tuple(map(one, xs[0])) if isinstance(xs[0], list | tuple) else tuple(map(one, xs))


def _stacked(rank: int, axis: int) -> Callable[..., Any]:
    return lambda xs: tenon.concatenate(_at_least(rank)(xs), axis=axis if rank > 1 or xs[0].ndim < 2 else 1)


TABLE |= {
    "reshape": lambda x, *shape: tenon.reshape(x, shape=_sizes(shape)),
    "view": lambda x, *shape: tenon.reshape(x, shape=_sizes(shape)),
    "view_copy": lambda x, *shape: tenon.reshape(x, shape=_sizes(shape)),
    "reshape_as": lambda x, other: tenon.reshape(x, shape=other.shape),
    "view_as": lambda x, other: tenon.reshape(x, shape=other.shape),
    "ravel": lambda x: tenon.reshape(x, shape=(-1,)),
    "flatten": _flattened,
    "unflatten": _unflattened,
    "expand": _expanded,
    "expand_copy": _expanded,
    "expand_as": lambda x, other: tenon.broadcast_to(x, shape=other.shape),
    "broadcast_to": _expanded,
    "permute": _permuted,
    "permute_copy": _permuted,
    "transpose": _swapped,
    "transpose_copy": _swapped,
    "movedim": _moved,
    "t": lambda x: tenon.transpose(x, permutation=tuple(range(x.ndim))[::-1]),
    "t_copy": lambda x: tenon.transpose(x, permutation=tuple(range(x.ndim))[::-1]),
    "mT": lambda x: _swapped(x, -2, -1),
    "mH": lambda x: _swapped(x, -2, -1),
    "T": lambda x: tenon.transpose(x, permutation=tuple(range(x.ndim))[::-1]),
    "squeeze": _squeezed,
    "squeeze.multiple": _squeezed,
    "squeeze_copy": _squeezed,
    "unsqueeze": lambda x, dim: tenon.expand_dims(x, axis=dim),
    "unsqueeze_copy": lambda x, dim: tenon.expand_dims(x, axis=dim),
    "flip": lambda x, dims: tenon.flip(x, axis=tuple(dims)) if dims else x,
    "fliplr": lambda x: tenon.flip(x, axis=1),
    "flipud": lambda x: tenon.flip(x, axis=0),
    "narrow": _narrowed,
    "narrow_copy": _narrowed,
    "select": lambda x, dim, index: x[(slice(None),) * (dim % x.ndim) + (index,)],
    "split": _split,
    "split.list_args": _split,
    "split_with_sizes": _split,
    "unsafe_split": _split,
    "chunk": _chunked,
    "unsafe_chunk": _chunked,
    "unbind": lambda x, dim=0: tuple([x[(slice(None),) * (dim % x.ndim) + (i,)] for i in range(x.shape[dim])]),
    "cat": lambda xs, dim=0: _concatenated(xs, dim),
    "stack": lambda xs, dim=0: tenon.stack(tuple(xs), axis=dim),
    "hstack": _stacked(1, 0),
    "vstack": _stacked(2, 0),
    "dstack": _stacked(3, 2),
    "atleast_1d": _at_least(1),
    "atleast_2d": _at_least(2),
    "atleast_3d": _at_least(3),
    "zeros_like": lambda x, **_: tenon.zeros_like(x),
    "ones_like": lambda x, **_: tenon.ones_like(x),
    "nn.functional.pad.constant": lambda x, pad, mode="constant", value=0.0: _padded(x, pad, "constant", value or 0.0),
    "constant_pad_nd": lambda x, pad, value=0.0: _padded(x, pad, "constant", value),
    "nn.functional.pad.reflect": lambda x, pad, mode: _padded(x, pad, "reflect"),
    "nn.functional.pad.replicate": lambda x, pad, mode: _padded(x, pad, "edge"),
    "nn.functional.pad.circular": lambda x, pad, mode: _padded(x, pad, "wrap"),
    "roll": lambda x, shifts, dims=None: tenon.roll(x, shifts, axis=axes(dims)),
    "tile": lambda x, dims: tenon.tile(x, tuple(dims)),
    "repeat": lambda x, *sizes: tenon.tile(x, _sizes(sizes)),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: tenon.diagonal(x, offset=offset, axis1=dim1, axis2=dim2),
    "tril": lambda x, diagonal=0: tenon.tril(x, k=diagonal),
    "triu": lambda x, diagonal=0: tenon.triu(x, k=diagonal),
    "nn.functional.pixel_shuffle": lambda x, upscale_factor: _shuffled(x, upscale_factor),
}


def _concatenated(xs: Any, dim: int) -> Any:
    if any(x.shape == (0,) for x in xs):
        raise Unshared("empty vectors beside tensors of another rank")
    return tenon.concatenate(tuple(xs), axis=dim)


def _padded(x: Any, pad: Sequence[int], mode: str, value: float = 0.0) -> Any:
    low, high = [0] * x.ndim, [0] * x.ndim
    for position in range(len(pad) // 2):
        low[-1 - position], high[-1 - position] = pad[2 * position], pad[2 * position + 1]
    options = {"value": float(value)} if mode == "constant" else {"mode": mode}
    return tenon.pad(x, low=tuple(low), high=tuple(high), **options)


def _shuffled(x: Any, factor: int) -> Any:
    *batch, channels, height, width = x.shape
    image = tenon.reshape(x, shape=(-1, channels, height, width))
    result = tenon.depth_to_space(image, block=factor, mode="CRD")
    return tenon.reshape(result, shape=(*batch, *result.shape[1:]))


# --- indices and order ------------------------------------------------------------------------------------------------


def _gathered(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0 or index.ndim != x.ndim:
        raise Unshared("a scalar as a vector of one")
    return tenon.take_along_axis(_cut(x, index, dim), index, axis=dim)


def _cut(x: Any, index: Any, dim: int) -> Any:
    """`x` cut to the sizes of `index` in all other dimensions: PyTorch leaves the rest unread."""
    kept = [slice(None) if i == dim % x.ndim else slice(0, n) for i, n in enumerate(index.shape)]
    return x[tuple(kept)]


TABLE |= {
    "gather": _gathered,
    "take_along_dim": lambda x, index, dim=None: _taken_along(x, index, dim),
    "index_select": lambda x, dim, index: tenon.gather(x, index, axis=dim) if x.ndim else _no_scalar(),
    "take": lambda x, index: tenon.gather(tenon.reshape(x, shape=(-1,)), index, axis=0),
    "index_add": lambda x, dim, index, source, alpha=1: (
        tenon.scatter_add(x, index, scaled(source, alpha), axis=dim) if x.ndim and index.ndim else _no_scalar()
    ),
    "nn.functional.embedding": lambda weight, indices, **rest: _embedded(indices, weight, rest),
    "nn.functional.one_hot": lambda x, num_classes=-1: _one_hot(x, num_classes),
    "cumsum": lambda x, dim, **_: tenon.cumsum(x, axis=dim) if x.ndim else x,
    "cumprod": lambda x, dim, **_: tenon.cumprod(x, axis=dim) if x.ndim else x,
    "logcumsumexp": lambda x, dim: tenon.logcumsumexp(x, axis=dim) if x.ndim else x,
    "sort": lambda x, *args, **kwargs: _sorted(x, *args, **kwargs),
    "msort": lambda x: tenon.sort(x, axis=0) if x.ndim else x,
    "argsort": lambda x, *args, **kwargs: _sorted(x, *args, **kwargs)[1],
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: _largest(x, k, dim, largest),
}


def _no_scalar() -> Any:
    raise Unshared("a scalar as a vector of one")


def _taken_along(x: Any, index: Any, dim: int | None) -> Any:
    if dim is None:
        flat = tenon.reshape(x, shape=(-1,))
        return tenon.take_along_axis(flat, tenon.reshape(index, shape=(-1,)), axis=0)
    return tenon.take_along_axis(x, index, axis=dim)


def _embedded(indices: Any, weight: Any, rest: dict[str, Any]) -> Any:
    if any(value not in (None, False, 2.0) for value in rest.values()):
        raise Unshared(", ".join(rest))
    return tenon.embedding(weight, indices)


def _one_hot(x: Any, num_classes: int) -> Any:
    if num_classes < 0:
        raise Unshared("classes counted by looking at the data")
    return tenon.one_hot(x, num_classes, dtype="i64")


def _sorted(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if x.ndim == 0:
        raise Unshared("a scalar as a vector of one")
    places = tenon.argsort(x, axis=dim, descending=descending)
    return tenon.take_along_axis(x, places, axis=dim), places


def _largest(x: Any, k: int, dim: int, largest: bool) -> Any:
    if x.ndim == 0:
        raise Unshared("a scalar as a vector of one")
    return tenon.top_k(x, k, axis=dim, largest=largest)


# --- sums of products -------------------------------------------------------------------------------------------------

plain("matmul", "mm=matmul", "bmm=matmul", "mv=matmul", "dot=matmul")


def _affine(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, a, b, beta=1, alpha=1: tenon.add(scaled(x, beta), scaled(product(a, b), alpha))


def _sum_of_products(a: Any, b: Any) -> Any:
    return tenon.sum(tenon.matmul(a, b), axis=0)


def _outer(a: Any, b: Any) -> Any:
    return tenon.multiply(tenon.expand_dims(a, axis=1), b)


TABLE |= {
    "addmm": _affine(tenon.matmul),
    "addmm.decomposed": _affine(tenon.matmul),
    "addmv": _affine(tenon.matmul),
    "baddbmm": _affine(tenon.matmul),
    "addbmm": _affine(_sum_of_products),
    "addr": _affine(_outer),
    "outer": _outer,
    "inner": lambda a, b: tenon.matmul(a, _swapped(b, -2, -1) if b.ndim > 1 else b) if a.ndim and b.ndim else a * b,
    "einsum": lambda operands, equation: tenon.einsum(equation, *operands),
    "nn.functional.linear": lambda x, weight, bias=None: _linear(x, weight, bias),
}


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    result = tenon.matmul(x, _swapped(weight, 0, 1) if weight.ndim == 2 else weight)
    return result if bias is None else result + bias


def _convolution(rank: int) -> Callable[..., Any]:
    def call(
        x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Any:
        batched = x if x.ndim == rank + 2 else tenon.expand_dims(x, axis=0)
        result = getattr(tenon, f"conv{rank}d")(
            batched, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        return result if x.ndim == rank + 2 else tenon.squeeze(result, axis=0)

    return call


for _rank in (1, 2, 3):
    TABLE[f"nn.functional.conv{_rank}d"] = _convolution(_rank)


# --- normalisation and losses -----------------------------------------------------------------------------------------


def _in_dtype(ours: str) -> Callable[..., Any]:
    def call(x: Any, dim: int, dtype: Any = None, **_: Any) -> Any:
        if dtype is not None:
            raise Unshared("dtype")
        return getattr(tenon, ours)(x, axis=dim) if x.ndim else getattr(tenon, ours)(x[None], axis=0)[0]

    return call


TABLE |= {
    "softmax": _in_dtype("softmax"),
    "log_softmax": _in_dtype("log_softmax"),
    "nn.functional.softmin": lambda x, dim=-1, dtype=None, **_: _in_dtype("softmax")(tenon.negative(x), dim, dtype),
}


def _reduced(loss: Any, reduction: str) -> Any:
    return {"none": lambda x: x, "mean": tenon.mean, "sum": tenon.sum}[reduction](loss)


TABLE |= {
    "nn.functional.mse_loss": lambda x, y, reduction="mean", **_: _reduced(
        tenon.square(tenon.subtract(x, y)), reduction
    ),
    "nn.functional.l1_loss": lambda x, y, reduction="mean", **_: tenon.l1_loss(x, y, reduction=reduction),
    "nn.functional.smooth_l1_loss": lambda x, y, reduction="mean", beta=1.0, **_: tenon.smooth_l1_loss(
        x, y, beta=float(beta), reduction=reduction
    ),
    "nn.functional.huber_loss": lambda x, y, reduction="mean", delta=1.0, **_: tenon.huber_loss(
        x, y, delta=float(delta), reduction=reduction
    ),
}
