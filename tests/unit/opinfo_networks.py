"""PyTorch's products, convolutions, pooling, normalisation and losses."""

# pyright: reportArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from opinfo_shapes import swapped
from opinfo_table import TABLE, Unshared, axes, plain, scaled

import tenon

# --- sums of products -------------------------------------------------------------------------------------------------

plain("matmul", "mm=matmul", "bmm=matmul", "mv=matmul", "dot=matmul")


def _affine(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, a, b, beta=1, alpha=1: tenon.add(scaled(x, beta), scaled(product(a, b), alpha))


def _outer(a: Any, b: Any) -> Any:
    return tenon.multiply(tenon.expand_dims(a, axis=1), b)


TABLE.update(
    {
        "addmm": _affine(tenon.matmul),
        "addmm.decomposed": _affine(tenon.matmul),
        "addmv": _affine(tenon.matmul),
        "baddbmm": _affine(tenon.matmul),
        "addbmm": tenon.addbmm,
        "addr": tenon.addr,
        "outer": _outer,
        "inner": lambda a, b: tenon.matmul(a, swapped(b, -2, -1) if b.ndim > 1 else b) if a.ndim and b.ndim else a * b,
        "einsum": lambda operands, equation: tenon.einsum(equation, *operands),
        "nn.functional.linear": lambda x, weight, bias=None: _linear(x, weight, bias),
    }
)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    result = tenon.matmul(x, swapped(weight, 0, 1) if weight.ndim == 2 else weight)
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


TABLE.update(
    {
        "softmax": _in_dtype("softmax"),
        "log_softmax": _in_dtype("log_softmax"),
        "nn.functional.softmin": lambda x, dim=-1, dtype=None, **_: _in_dtype("softmax")(tenon.negative(x), dim, dtype),
    }
)


def _reduced(loss: Any, reduction: str) -> Any:
    return {"none": lambda x: x, "mean": tenon.mean, "sum": tenon.sum}[reduction](loss)


TABLE.update(
    {
        "nn.functional.mse_loss": lambda x, y, reduction="mean", **_: _reduced(
            tenon.square(tenon.subtract(x, y)), reduction
        ),
        "nn.functional.l1_loss": lambda x, y, reduction="mean", **_: tenon.l1_loss(x, y, reduction=reduction),
        "nn.functional.smooth_l1_loss": lambda x, y, reduction="mean", beta=1.0, **_: tenon.smooth_l1_loss(
            x,
            y,
            beta=float(beta),
            reduction=reduction,  # pyright: ignore[reportArgumentType]
        ),
        "nn.functional.huber_loss": lambda x, y, reduction="mean", delta=1.0, **_: tenon.huber_loss(
            x,
            y,
            delta=float(delta),
            reduction=reduction,  # pyright: ignore[reportArgumentType]
        ),
    }
)


def _weighted(kind: str) -> Callable[..., Any]:
    """Losses of labels, with the classes along axis 1, or 0 where there is one sample."""

    def call(x: Any, labels: Any, weight: Any = None, reduction: str = "mean", **settings: Any) -> Any:
        if labels.shape == x.shape:
            raise Unshared("labels that are probabilities")
        ignore = settings.pop("ignore_index", -100)
        return getattr(tenon, kind)(
            x, labels, weight, axis=min(x.ndim - 1, 1), ignore_index=ignore, reduction=reduction, **settings
        )

    return call


def _loss(ours: str) -> Callable[..., Any]:
    return lambda *operands, **settings: getattr(tenon, ours)(
        *operands, **{name: float(v) if name == "margin" else v for name, v in settings.items()}
    )


def _gaussian_nll(x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    if var.ndim and var.ndim != x.ndim:
        raise Unshared("a variance for each sample")
    bounded = tenon.add(var, tenon.stop_gradient(tenon.subtract(tenon.clip(var, low=eps), var)))
    loss = 0.5 * (tenon.log(bounded) + tenon.square(tenon.subtract(x, target)) / bounded)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


for _name in (
    "binary_cross_entropy",
    "kl_div",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "cosine_embedding_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
):
    TABLE[f"nn.functional.{_name}"] = _loss(_name)

TABLE.update(
    {
        "nn.functional.nll_loss": _weighted("nll_loss"),
        "nn.functional.cross_entropy": _weighted("cross_entropy"),
        "nn.functional.binary_cross_entropy_with_logits": (
            lambda x, y, weight=None, pos_weight=None, reduction="mean": tenon.binary_cross_entropy_with_logits(
                x,
                y,
                weight,
                pos_weight,
                reduction=reduction,  # pyright: ignore[reportArgumentType]
            )
        ),
        "nn.functional.gaussian_nll_loss": _gaussian_nll,
        "nn.functional.pairwise_distance": lambda x, y, p=2.0, eps=1e-6, keepdim=False: tenon.norm(
            tenon.subtract(x, y) + eps, p=float(p), axis=-1, keepdims=keepdim
        ),
    }
)


def _last_axes(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return tenon.layer_norm(x, weight, bias, axis=_last_axes(shape), eps=eps)


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    epsilon = float(np.finfo(np.float64).eps) if eps is None else eps
    return tenon.rms_norm(x, weight, axis=_last_axes(shape), eps=epsilon)


def _batch_norm(
    x: Any,
    mean: Any,
    var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    eps: float = 1e-5,
    **_: Any,
) -> Any:
    if x.ndim < 2:
        raise Unshared("a batch of one axis")
    if training:
        return tenon.batch_norm_training(x, weight, bias, eps=eps)[0]
    channels = x.shape[1]
    weight = tenon.ones((channels,), x.dtype) if weight is None else weight
    bias = tenon.zeros((channels,), x.dtype) if bias is None else bias
    return tenon.batch_norm(x, mean, var, weight, bias, eps=eps)


def _instance_norm(
    x: Any, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None, eps: float = 1e-5, **_: Any
) -> Any:
    return tenon.instance_norm(x, weight, bias, eps=eps)


TABLE.update(
    {
        "nn.functional.layer_norm": _layer_norm,
        "nn.functional.rms_norm": _rms_norm,
        "nn.functional.batch_norm": _batch_norm,
        "nn.functional.instance_norm": _instance_norm,
        "nn.functional.group_norm": lambda x, groups, weight=None, bias=None, eps=1e-5: tenon.group_norm(
            x, weight, bias, groups=groups, eps=eps
        ),
        "nn.functional.normalize": lambda x, p=2.0, dim=1, eps=1e-12: tenon.lp_normalize(
            _vector(x), p=float(p), axis=dim, eps=eps
        ),
        "nn.functional.cosine_similarity": lambda x, y, dim=1, eps=1e-8: tenon.cosine_similarity(
            _vector(x), y, axis=dim, eps=eps
        ),
        "nn.functional.local_response_norm": lambda x, size, alpha=1e-4, beta=0.75, k=1.0: _response_norm(
            x, size, alpha, beta, k
        ),
        "norm": lambda x, p=2, dim=None, keepdim=False, **rest: _vector_norm(x, p, dim, keepdim, rest),
        "linalg.vector_norm": lambda x, ord=2, dim=None, keepdim=False, **rest: _vector_norm(
            x, ord, dim, keepdim, rest
        ),
        "linalg.vecdot": lambda x, y, dim=-1: tenon.sum(tenon.multiply(x, y), axis=dim),
        "vdot": tenon.vdot,
        "kron": lambda x, y: tenon.reshape(
            tenon.einsum("ij,kl->ikjl", x, y), shape=tuple([a * b for a, b in zip(x.shape, y.shape, strict=True)])
        ),
        "tensordot": lambda x, y, dims: _tensordot(x, y, dims),
    }
)


def _vector(x: Any) -> Any:
    if x.ndim == 0:
        raise Unshared("a scalar as a vector of one")
    return x


def _response_norm(x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    if size % 2 == 0:
        raise Unshared("an even number of channels, of which PyTorch takes one more before than ONNX")
    return tenon.local_response_norm(x, size=size, alpha=alpha, beta=beta, bias=float(k))


def _vector_norm(x: Any, p: Any, dim: Any, keepdim: bool, rest: dict[str, Any]) -> Any:
    if any(value is not None for value in rest.values()) or isinstance(p, str) or x.ndim == 0:
        raise Unshared("a dtype, the name of a norm, or a scalar")
    return tenon.norm(x, p=float(p), axis=axes(dim), keepdims=keepdim)


def _tensordot(x: Any, y: Any, dims: Any) -> Any:
    left, right = ([*range(-dims, 0)], [*range(dims)]) if isinstance(dims, int) else dims
    names = "abcdefghijkl"
    of_x, of_y = list(names[: x.ndim]), list(names[x.ndim : x.ndim + y.ndim])
    for i, j in zip(left, right, strict=True):
        of_y[j] = of_x[i]
    kept = [n for n in (*of_x, *of_y) if (n in of_x) != (n in of_y)]
    return tenon.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(kept)}", x, y)


# --- pooling ----------------------------------------------------------------------------------------------------------


def _batched(rank: int, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` on one image as on a batch of one."""

    def on_any(x: Any, *args: Any, **kwargs: Any) -> Any:
        if x.ndim == rank + 2:
            return call(x, *args, **kwargs)
        result = call(tenon.expand_dims(x, axis=0), *args, **kwargs)
        return tuple([r[0] for r in result]) if isinstance(result, tuple) else result[0]

    return on_any


def _each(sizes: Any, rank: int) -> tuple[int, ...]:
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return sizes * rank if len(sizes) == 1 else sizes


def _max_pool(rank: int) -> Callable[..., Any]:
    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        window = _each(kernel_size, rank)
        settings: dict[str, Any] = {"stride": stride or window, "padding": padding, "dilation": dilation}
        pool = tenon.max_pool_with_indices if return_indices else tenon.max_pool
        return pool(x, window=window, ceil_mode=ceil_mode, **settings)

    return call


def _avg_pool(rank: int) -> Callable[..., Any]:
    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        window = _each(kernel_size, rank)
        result = tenon.avg_pool(
            x, window=window, stride=stride or window, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )  # fmt: skip
        if divisor_override is None:
            return result
        raise Unshared("a divisor that is given")

    return call


def _adaptive(kind: str, rank: int) -> Callable[..., Any]:
    def call(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        if return_indices:
            raise Unshared("indices of adaptive pooling")
        sizes = _each(output_size, rank) if output_size is not None else (None,) * rank
        filled = [n if size is None else size for size, n in zip(sizes, x.shape[-rank:], strict=True)]
        return getattr(tenon, f"adaptive_{kind}_pool")(x, output_size=tuple(filled))

    return call


def _unpool(rank: int) -> Callable[..., Any]:
    def call(
        x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        window = _each(kernel_size, rank)
        steps, sides = _each(stride or window, rank), _each(padding, rank)
        derived = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-rank:], steps, sides, window, strict=True)]
        return tenon.max_unpool(x, indices, output_size=tuple((output_size or derived)[-rank:]))

    return call


def _transposed(rank: int) -> Callable[..., Any]:
    def call(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        return getattr(tenon, f"conv_transpose{rank}d")(
            x, weight, bias, stride=stride, padding=padding, output_padding=output_padding, groups=groups,
            dilation=dilation,
        )  # fmt: skip

    return call


for _rank in (1, 2, 3):
    TABLE.update(
        {
            f"nn.functional.conv_transpose{_rank}d": _batched(_rank, _transposed(_rank)),
            f"nn.functional.max_pool{_rank}d": _batched(_rank, _max_pool(_rank)),
            f"nn.functional.avg_pool{_rank}d": _batched(_rank, _avg_pool(_rank)),
            f"nn.functional.adaptive_avg_pool{_rank}d": _adaptive("avg", _rank),
            f"nn.functional.adaptive_max_pool{_rank}d": _adaptive("max", _rank),
            f"nn.functional.max_unpool{_rank}d": _unpool(_rank),
            f"nn.functional.max_unpool{_rank}d.grad": _unpool(_rank),
        }
    )
