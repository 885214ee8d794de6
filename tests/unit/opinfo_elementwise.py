"""PyTorch's ops on elements, and its reductions."""

# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from opinfo_table import TABLE, Unshared, axes, plain, scaled

import tenon

# --- element by element -----------------------------------------------------------------------------------------------

plain("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1")
plain("floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "neg=negative", "reciprocal", "rsqrt")
plain("sigmoid", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "sign", "logical_not", "bitwise_not")
plain("atan2", "maximum", "minimum", "pow=power", "remainder", "floor_divide", "float_power")
plain("eq=equal", "ne=not_equal", "lt=less", "le=less_equal", "gt=greater", "ge=greater_equal")
plain("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
plain("mul=multiply", "true_divide=divide", "div.no_rounding_mode=divide", "max.binary=maximum", "min.binary=minimum")
plain("__radd__=add", "__rmul__=multiply", "clone=identity", "contiguous=identity", "round")
plain("nn.functional.relu=relu", "nn.functional.silu=silu", "nn.functional.logsigmoid=log_sigmoid")
plain("bitwise_left_shift=shift_left", "deg2rad", "rad2deg", "erfc", "sinc", "digamma", "lgamma", "erfinv")
plain("igamma", "igammac", "gcd", "lcm", "frexp")
plain("copysign", "hypot", "logaddexp", "logaddexp2", "xlogy", "fmod", "heaviside", "positive=identity")


TABLE.update(
    {
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
        "frac": lambda x: x - tenon.trunc(x),
        "addcmul": lambda x, a, b, value=1: tenon.add(x, scaled(tenon.multiply(a, b), value)),
        "addcdiv": lambda x, a, b, value=1: tenon.add(x, scaled(tenon.divide(a, b), value)),
        "isposinf": lambda x: tenon.logical_and(tenon.isinf(x), tenon.greater(x, 0)),
        "isneginf": lambda x: tenon.logical_and(tenon.isinf(x), tenon.less(x, 0)),
        "logit": lambda x, eps=None: tenon.logit(x, eps=eps),
    }
)


# --- activations ------------------------------------------------------------------------------------------------------

plain("nn.functional.celu=celu", "nn.functional.selu=selu", "nn.functional.mish=mish", "nn.functional.relu6=relu6")
plain("nn.functional.hardswish=hard_swish", "nn.functional.softsign=softsign", "nn.functional.tanhshrink=tanhshrink")

TABLE.update(
    {
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
)


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


TABLE.update(
    {
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
        "dist": lambda x, y, p=2: tenon.norm(tenon.subtract(x, y), p=float(p)),
    }
)


# --- dtypes and other functions of elements ---------------------------------------------------------------------------

plain("nextafter", "lerp", "special.xlog1py=xlog1py", "special.ndtr=ndtr", "nan_to_num")
plain("bitwise_right_shift=shift_right", "__rand__=bitwise_and", "__ror__=bitwise_or", "__rxor__=bitwise_xor")

for _theirs, _ours in {
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "bfloat16": "bf16",
    "long": "i64",
    "int": "i32",
    "short": "i16",
    "char": "i8",
    "byte": "ui8",
    "bool": "i1",
}.items():
    TABLE[_theirs] = lambda x, _ours=_ours, **_: tenon.cast(x, dtype=_ours)


def _rounded(x: Any, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals)
    return tenon.round(tenon.multiply(x, scale)) / scale if decimals >= 0 else tenon.round(x / scale) * scale


def _polygamma(x: Any, order: int) -> Any:
    return tenon.digamma(x) if order == 0 else tenon.polygamma(x, order=order)


def _masked(ours: str, identity: Any) -> Callable[..., Any]:
    def call(x: Any, mask: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if dtype is not None:
            raise Unshared("dtype")
        kept = x if mask is None else tenon.select(mask, x, identity)
        return getattr(tenon, ours)(kept, axis=axes(dim) if x.ndim else None, keepdims=keepdim)

    return call


for _order in range(5):
    TABLE[f"polygamma.polygamma_n_{_order}"] = _polygamma
for _digits in ("0", "3", "neg_3"):
    TABLE[f"round.decimals_{_digits}"] = _rounded

TABLE.update(
    {
        "special.entr": lambda x: -tenon.xlogy(x, x),
        "special.log_ndtr": lambda x: tenon.log(tenon.ndtr(x)),
        "masked_fill": lambda x, mask, value: tenon.select(mask, value, x),
        "masked.sum": _masked("sum", 0.0),
        "masked.prod": _masked("prod", 1.0),
        "masked.amax": _masked("max", -np.inf),
        "masked.amin": _masked("min", np.inf),
        "masked.logsumexp": _masked("logsumexp", -np.inf),
        "nanmean": lambda x, dim=None, keepdim=False: _nan_mean(x, axes(dim), keepdim),
        "isclose": lambda x, y, rtol=1e-5, atol=1e-8, equal_nan=False: _close(x, y, rtol, atol, equal_nan),
        "fmax": lambda x, y: tenon.select(tenon.isnan(x), y, tenon.select(tenon.isnan(y), x, tenon.maximum(x, y))),
        "fmin": lambda x, y: tenon.select(tenon.isnan(x), y, tenon.select(tenon.isnan(y), x, tenon.minimum(x, y))),
        "sgn": tenon.sign,
        "signbit": lambda x: tenon.less(tenon.copysign(1.0, x), 0.0),
        "ldexp": lambda x, y: tenon.multiply(x, tenon.exp2(tenon.cast(y, dtype="f64"))),
        "linalg.cross": lambda x, y, dim=-1: _cross(x, y, dim),
        "fill": lambda x, value: tenon.full_like(x, value),
        "zero_": lambda x: tenon.zeros_like(x),
        "real": tenon.identity,
        "conj": tenon.identity,
        "resolve_conj": tenon.identity,
        "resolve_neg": tenon.identity,
    }
)


def _nan_mean(x: Any, axis: Any, keepdims: bool) -> Any:
    known = tenon.logical_not(tenon.isnan(x))
    axis = axis if x.ndim else None
    total = tenon.sum(tenon.select(known, x, 0.0), axis=axis, keepdims=keepdims)
    return total / tenon.count_nonzero(known, axis=axis, keepdims=keepdims)


def _close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    near = tenon.less_equal(tenon.abs(tenon.subtract(x, y)), atol + tenon.abs(tenon.multiply(y, rtol)))
    near = tenon.logical_or(tenon.equal(x, y), tenon.logical_and(near, tenon.isfinite(y)))
    return tenon.logical_or(near, tenon.logical_and(tenon.isnan(x), tenon.isnan(y))) if equal_nan else near


def _cross(x: Any, y: Any, dim: int) -> Any:
    def turned(z: Any, by: int) -> Any:
        return tenon.roll(z, by, axis=dim)

    return tenon.subtract(tenon.multiply(turned(x, -1), turned(y, -2)), tenon.multiply(turned(x, -2), turned(y, -1)))
