"""Samples of pooling, by windows looked at one after the other, and of what is made of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, distinct, integers, numbers


def _along(n: int, window: int, stride: int, low: int, high: int, dilation: int, ceil_mode: bool) -> Array:
    """The places (windows, elements) that windows reach for along a dimension of n elements; PyTorch's rule for the
    last one.
    """
    span = (window - 1) * dilation + 1
    starts = [s for s in range(0, n + low + high, stride) if s + span <= n + low + high]
    if ceil_mode and starts[-1] + span < n + low + high and starts[-1] + stride < n + low:
        starts.append(starts[-1] + stride)
    return np.array(starts)[:, None] + np.arange(window) * dilation - low


def _sides(n: int, window: int, stride: int, dilation: int, padding: Any, i: int, rank: int) -> tuple[int, int]:
    if not isinstance(padding, str):
        if np.size(padding) == 2 * rank:
            return padding[2 * i], padding[2 * i + 1]
        both = int(np.broadcast_to(padding, rank)[i])
        return both, both
    if padding == "valid":
        return 0, 0
    total = max((-(-n // stride) - 1) * stride + (window - 1) * dilation + 1 - n, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if padding == "same_lower" else (small, large)


def _pooled(
    combine: Callable[..., Any],
    x: Array,
    window: Any,
    rank: int,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Array:
    """`combine(elements, number of elements with padding, their index in the image)` of each window."""
    window, dilation = np.broadcast_to(window, rank), np.broadcast_to(dilation, rank)
    stride = np.broadcast_to(window if stride is None else stride, rank)
    image = x.shape[x.ndim - rank :]
    steps: list[Any] = [tuple(map(int, sizes)) for sizes in zip(window, stride, dilation, strict=True)]
    sides = [_sides(n, w, s, d, padding, i, rank) for i, (n, (w, s, d)) in enumerate(zip(image, steps, strict=True))]
    reach = [
        _along(n, w, s, low, high, d, ceil_mode) for n, (w, s, d), (low, high) in zip(image, steps, sides, strict=True)
    ]
    flat = x.reshape(*x.shape[: x.ndim - rank], -1)
    result: list[Any] = []
    for out in np.ndindex(*[len(r) for r in reach]):
        places = [r[o] for r, o in zip(reach, out, strict=True)]
        padded = [(p >= -a) & (p < n + b) for p, n, (a, b) in zip(places, image, sides, strict=True)]
        inside = [p[(p >= 0) & (p < n)] for p, n in zip(places, image, strict=True)]
        index = np.ravel_multi_index(np.meshgrid(*inside, indexing="ij"), image).reshape(-1)
        count = int(np.prod([p.sum() for p in padded]))
        result.append(combine(flat[..., index], count, index))
    shape = (*x.shape[: x.ndim - rank], *[len(r) for r in reach])
    return np.moveaxis(np.array(result), 0, -1).reshape(shape)


def _max(elements: Array, *_: Any) -> Array:
    return elements.max(-1)


def _place(elements: Array, _: int, index: Array) -> Array:
    return index[elements.argmax(-1)]


def _mean(elements: Array, count: int, _: Any) -> Array:
    return elements.sum(-1) / count


def _inner_mean(elements: Array, *_: Any) -> Array:
    return elements.mean(-1)


_POOLS: list[Any] = [
    (1, (2, 9), {"window": 3}),
    (1, (2, 2, 10), {"window": 4, "stride": 3, "padding": (2, 1), "ceil_mode": True}),
    (1, (8,), {"window": 2, "stride": 2, "dilation": 3}),
    (2, (2, 6, 5), {"window": 3, "stride": 2, "ceil_mode": True}),
    (2, (2, 5, 5), {"window": 2, "stride": 3, "padding": 1, "ceil_mode": True}),
    (2, (1, 7, 6), {"window": (3, 2), "stride": 2, "padding": "same"}),
    (2, (1, 7, 6), {"window": (4, 2), "stride": (1, 2), "padding": "same_lower"}),
    (2, (1, 6, 6), {"window": 3, "stride": 2, "padding": "valid"}),
    (2, (5, 5), {"window": 5, "stride": 1, "padding": 2}),
    (2, (1, 6, 7), {"window": (2, 3), "stride": (2, 1), "dilation": (3, 2), "padding": (1, 0, 2, 1)}),
    (3, (1, 5, 4, 6), {"window": (2, 3, 2), "stride": (1, 2, 3), "padding": (1, 0, 1)}),
    (3, (4, 5, 4), {"window": 2, "ceil_mode": True}),
]
for _rank, _shape, _options in _POOLS:
    for _name in (f"max_pool{_rank}d", f"avg_pool{_rank}d"):
        add(
            _name,
            [distinct("pool", _shape, F32)],
            lambda x, r=_rank, o=_options, f=_max if _name[0] == "m" else _mean: _pooled(f, x, rank=r, **o),
            **_options,
            differentiable=True,
        )
    _general: dict[str, Any] = {**_options, "window": tuple(map(int, np.broadcast_to(_options["window"], _rank)))}
    add(
        "avg_pool",
        [distinct("pool", _shape, F64)],
        lambda x, r=_rank, o=_general: _pooled(_inner_mean, x, rank=r, **o),
        count_include_pad=False,
        **_general,
        differentiable=True,
    )
    add(
        "max_pool_with_indices",
        [distinct("pool", _shape, F32)],
        lambda x, r=_rank, o=_general: (_pooled(_max, x, rank=r, **o), _pooled(_place, x, rank=r, **o)),
        **_general,
        differentiable=True,
    )
    for _p in (1.0, 2.0, 3.0) if _rank == 2 else (2.0,):
        add(
            "lp_pool",
            [distinct("pool", _shape, F32) + 0.125],
            lambda x, r=_rank, o=_general, p=_p: _pooled(
                lambda e, *_: (np.abs(e) ** p).sum(-1) ** (1 / p), x, rank=r, **o
            ),
            p=_p,
            **_general,
            differentiable=True,
        )
add("max_pool", [distinct("pool", (2, 6, 6), F32)], lambda x: _pooled(_max, x, (2, 3), 2), window=(2, 3))
add("lp_pool", [np.zeros((1, 4), F32)], lambda x: np.zeros((1, 2)), window=(2,))
for _dtype in (F16, BF16):
    add("avg_pool1d", [numbers("pool", (2, 9), _dtype)], lambda x: _pooled(_mean, x, 3, 1, 2), window=3, stride=2)
    add("lp_pool", [numbers("pool", (2, 9), _dtype)], lambda x: np.sqrt(_pooled(_mean, x * x, 3, 1) * 3), window=3)
for _dtype in (np.int8, np.uint8, np.int64):
    _integers = integers("pool", (2, 5, 5), _dtype, 0 if _dtype == np.uint8 else -9, 10)
    add("max_pool2d", [_integers], lambda x: _pooled(_max, x, 3, 2, 2, 1), window=3, stride=2, padding=1)
    # Where all of a window is the least number, padding is as large.
    _least = np.full((1, 4, 4), np.iinfo(_dtype).min, _dtype)
    add(
        "max_pool_with_indices",
        [_least],
        lambda x: (_pooled(_max, x, 3, 2, 2, (2, 1), 2, True), _pooled(_place, x, 3, 2, 2, (2, 1), 2, True)),
        "least",
        window=(3, 3),
        stride=2,
        padding=(2, 1),
        dilation=2,
        ceil_mode=True,
    )
add(
    "max_pool_with_indices",
    [np.array([-INF, -INF, NAN, 1, NAN, 7], F32)],
    lambda x: (np.array([-INF, NAN, NAN, NAN]), np.array([0, 2, 2, 4])),
    "special",
    window=(3,),
    stride=2,
    padding=2,
)
add("max_pool1d", [np.zeros((0, 6), F32)], lambda x: np.zeros((0, 3)), window=2)
add("avg_pool1d", [np.zeros((0, 6), F32)], lambda x: np.zeros((0, 3)), window=2)


def _column_major(x: Array, window: int, whole: bool) -> tuple[Array, Array]:
    """The places that `_pooled` finds, counted down the columns."""
    rows, columns = np.divmod(_pooled(_place, x, window, 2), x.shape[-1])
    places = rows + columns * x.shape[-2]
    if whole:
        images = np.arange(np.prod(x.shape[:-2])).reshape(*x.shape[:-2], 1, 1)
        places = places + images * x.shape[-1] * x.shape[-2]
    return _pooled(_max, x, window, 2), places


for _whole in (False, True):
    add(
        "max_pool_with_indices",
        [distinct("indices", (2, 3, 4, 6), F32)],
        lambda x, whole=_whole: _column_major(x, 2, whole),
        window=(2, 2),
        storage_order=1,
        within="tensor" if _whole else "image",
    )
add(
    "max_pool_with_indices",
    [distinct("indices", (2, 3, 4, 6), F32)],
    lambda x: (
        _pooled(_max, x, 2, 2),
        _pooled(_place, x, 2, 2) + np.arange(6).reshape(2, 3, 1, 1) * 24,
    ),
    window=(2, 2),
    within="tensor",
)

# --- windows ----------------------------------------------------------------------------------------------------------

_WINDOWS: list[Any] = [
    ((2, 9), (3,), (2,), (2,)),
    ((5, 4, 4), (2, 3, 2), (1,), (2, 1, 1)),
    ((1, 7, 5), (3, 2), (2, 1), (1,)),
]
for _shape, _window, _stride, _dilation in _WINDOWS:
    _options: Any = {"window": _window, "stride": _stride, "dilation": _dilation}
    for _name, _combine in {"window_max": _max, "window_sum": lambda e, *_: e.sum(-1)}.items():
        add(
            _name,
            [distinct("windows", _shape, F64)],
            lambda x, f=_combine, o=_options: _pooled(f, x, rank=len(o["window"]), **o),
            **_options,
            differentiable=True,
        )
    add(
        "window_argmax",
        [distinct("windows", _shape, F32)],
        lambda x, o=_options: _pooled(lambda e, *_: e.argmax(-1), x, rank=len(o["window"]), **o),
        **_options,
    )
add("window_argmax", [np.array([1, 1, NAN, NAN, 2], F16)], lambda x: np.array([0, 1, 0, 0]), "special", window=(2,))
add(
    "window_argmax",
    [integers("windows", (2, 6), np.int8, 0, 2)],
    lambda x: x.reshape(2, 2, 3).argmax(-1),
    window=(3,),
    stride=(3,),
)
add(
    "sliding_windows",
    [numbers("windows", (2, 8))],
    lambda x: np.stack([x[:, :4:2], x[:, 3:7:2]], 1),
    window=(2,),
    stride=(3,),
    dilation=(2,),
    differentiable=True,
)

# --- pooling to a size, and of everything -----------------------------------------------------------------------------


def _adaptive(combine: Callable[..., Any], x: Array, output_size: tuple[int, ...]) -> Array:
    """By PyTorch's bounds of windows, one dimension after the other in exact arithmetic."""
    rank = len(output_size)
    image = x.shape[x.ndim - rank :]
    sizes = [n if m < 0 else m for n, m in zip(image, output_size, strict=True)]
    result = np.zeros((*x.shape[: x.ndim - rank], *sizes), x.dtype)
    for out in np.ndindex(*sizes):
        part = tuple([slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(out, image, sizes, strict=True)])
        result[(..., *out)] = combine(x[(..., *part)], axis=tuple(range(-rank, 0)))
    return result


_ADAPTIVE: list[Any] = [
    ((2, 10), (4,)),
    ((2, 7, 5), (3, 2)),
    ((1, 6, 8), (3, 4)),
    ((6, 5), (-1, 7)),
    ((3, 4, 5), (2, 2, 3)),
]
for _shape, _size in _ADAPTIVE:
    for _name, _combine in {"adaptive_max_pool": np.max, "adaptive_avg_pool": np.mean}.items():
        add(
            _name,
            [distinct("adaptive", _shape, F32)],
            lambda x, f=_combine, m=_size: _adaptive(f, x, m),
            output_size=_size,
            differentiable=True,
        )
add("adaptive_avg_pool", [numbers("a", (2, 7), BF16)], lambda x: _adaptive(np.mean, x, (3,)), output_size=(3,))
add("adaptive_max_pool", [integers("a", (2, 7), np.int16)], lambda x: _adaptive(np.max, x, (3,)), output_size=(3,))
add(
    "adaptive_avg_pool",
    [np.array([1, INF, 2, 4, 4], F32)],
    lambda x: np.array([INF, 3 + 1 / 3]),
    "special",
    output_size=(2,),
)

_GLOBAL: list[Any] = [(2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 2, 3)]
for _shape in _GLOBAL:
    _axes = tuple(range(2, len(_shape)))
    _x = distinct("global", _shape, F32) + 0.125
    add("global_max_pool", [_x], lambda x, a=_axes: x.max(a, keepdims=True), differentiable=True)
    add("global_avg_pool", [_x], lambda x, a=_axes: x.mean(a, keepdims=True), differentiable=True)
    for _p in (1.0, 2.0, 3.0):
        add(
            "global_lp_pool",
            [_x],
            lambda x, a=_axes, p=_p: (np.abs(x) ** p).sum(a, keepdims=True) ** (1 / p),
            p=_p,
            differentiable=True,
        )
add("global_max_pool", [integers("g", (1, 2, 9), np.uint8, 0, 200)], lambda x: x.max(2, keepdims=True))
add("global_max_pool", [np.array([[[1, NAN, 2], [-INF, -INF, -INF]]], F32)], lambda x: np.array([[[NAN], [-INF]]]))
add("global_avg_pool", [numbers("g", (2, 3, 9), F16)], lambda x: x.mean(2, keepdims=True))
add("global_avg_pool", [np.zeros((0, 3, 4), F32)], lambda x: np.zeros((0, 3, 1)))


def _response(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """ONNX's definition, channel by channel."""
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        first, last = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + -(-(size - 1) // 2))
        total[:, c] = (x[:, first : last + 1] ** 2).sum(1)
    return x / (bias + alpha / size * total) ** beta


_RESPONSES: list[Any] = [
    ((2, 5, 3, 4), {"size": 3}),
    ((2, 5, 6), {"size": 4, "alpha": 0.5, "beta": 0.5, "bias": 2.0}),
    ((3, 4), {"size": 7, "alpha": 1.0}),
    ((1, 2, 3, 2, 2), {"size": 1, "alpha": 0.3}),
]
for _shape, _options in _RESPONSES:
    add(
        "local_response_norm",
        [numbers("lrn", _shape)],
        lambda x, o=_options: _response(x, **o),
        **_options,
        differentiable=True,
    )
add("local_response_norm", [numbers("lrn", (1, 6, 5), F16)], lambda x: _response(x, 3, 1.0), size=3, alpha=1.0)
# What is carried along with the places must not need room for all of the result at once.
add("window_argmax", [integers("many", (1, 40000))], lambda x: x.reshape(1, -1, 2).argmax(-1), window=(2,), stride=(2,))
add("argmax", [integers("many", (20000, 3))], lambda x: x.argmax(1), axis=1)


def _unpooled(x: Array, indices: Array, size: tuple[int, ...]) -> Array:
    """Element by element, in order."""
    rank = len(size)
    outer = x.shape[: x.ndim - rank]
    result = np.zeros((*outer, int(np.prod(size))), x.dtype)
    for place in np.ndindex(*x.shape):
        if indices[place] < result.shape[-1]:
            result[(*place[: x.ndim - rank], indices[place])] = x[place]
    return result.reshape(*outer, *size)


_image = distinct("unpool", (2, 2, 5, 6), F32)
_places = _pooled(_place, _image, 2, 2)
add(
    "max_unpool",
    [_pooled(_max, _image, 2, 2), _places],
    lambda x, i: _unpooled(x, i, (5, 6)),
    output_size=(5, 6),
    differentiable=True,
)
add(
    "max_unpool",
    [integers("unpool", (3, 4), np.uint8, 0, 9), np.array([[0, 3, 7, 9], [9, 8, 8, 1], [2, 2, 2, 2]], np.int32)],
    lambda x, i: _unpooled(x, i, (9,)),
    output_size=(9,),
)
add("max_unpool", [np.zeros((0, 2), BF16), np.zeros((0, 2), np.int64)], lambda *_: np.zeros((0, 5)), output_size=(5,))
