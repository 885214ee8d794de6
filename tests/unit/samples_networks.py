"""Samples of contractions, windows, normalization, losses and random bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from numpy.lib.stride_tricks import sliding_window_view
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, distinct, integers, numbers
from scipy.signal import correlate
from xdsl.ir.affine import AffineExpr, AffineMap

# --- contraction ------------------------------------------------------------------------------------------------------

for _left, _right in [
    ((3, 4), (4, 5)),
    ((7, 1), (1, 3)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((3, 0), (0, 2)),
    ((0, 3), (3, 2)),
    ((13, 17), (17, 11)),
]:
    add("matmul", [numbers("left", _left), numbers("right", _right)], np.matmul, differentiable=True)
for _dtype in (F16, BF16, F64, np.int32, np.int64):
    _pair = [integers("left", (5, 7), _dtype, -3, 4), integers("right", (7, 3), _dtype, -3, 4)]
    add("matmul", _pair, np.matmul)


def _maps(terms: str) -> tuple[Any, ...]:
    letters = sorted(set(terms) - set(", +2"))
    dims = {letter: AffineExpr.dimension(i) for i, letter in enumerate(letters)}

    def index(part: str) -> Any:
        total: Any = None
        for piece in part.split("+"):
            factor = dims[piece.strip("2")] * 2 if "2" in piece else dims[piece]
            total = factor if total is None else total + factor
        return total

    return tuple(
        [AffineMap(len(letters), 0, tuple([index(part) for part in term.split()])) for term in terms.split(",")]
    )


add(
    "contract",
    [(numbers("a", (3, 4)), numbers("b", (4, 5)))],
    lambda x: x[0] @ x[1],
    maps=_maps("i j,j k,i k"),
    extents=(3, 4, 5),
    shape=(3, 5),
    differentiable=True,
)
add(
    "contract",
    [(numbers("a", (3,), F64), numbers("b", (5,), F64), numbers("c", (3, 5), F64))],
    lambda x: np.einsum("i,j,ij->", *x),
    maps=_maps("i,j,i j,"),
    extents=(3, 5),
    shape=(),
    differentiable=True,
)
add(
    "contract",
    [(numbers("a", (4,)),)],
    lambda x: np.convolve(np.insert(x[0], [1, 2, 3], 0.0), np.ones(3)),
    "windows",
    maps=_maps("i,2i+j"),
    extents=(4, 3),
    shape=(9,),
    differentiable=True,
)
add(
    "contract",
    [(numbers("a", (3,), F16), numbers("b", (2, 3), F16))],
    lambda x: (x[0] * x[1]).sum(0),
    maps=_maps("j,i j,j"),
    extents=(2, 3),
    shape=(3,),
)
add("contract", [(integers("a", (2, 3)),)], lambda x: x[0].T, maps=_maps("i j,j i"), extents=(2, 3), shape=(3, 2))


def _convolved(
    x: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Array:
    """By SciPy's correlation of each channel with a dilated filter."""
    stride, dilation = np.broadcast_to(stride, 2), np.broadcast_to(dilation, 2)
    sides = padding if np.size(padding) == 4 else np.repeat(np.broadcast_to(padding, 2), 2)
    x = np.pad(x, ((0, 0), (0, 0), tuple(sides[:2]), tuple(sides[2:])))
    filters, depth, kh, kw = weight.shape
    spread = np.zeros((filters, depth, (kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1), weight.dtype)
    spread[:, :, :: dilation[0], :: dilation[1]] = weight
    images = []
    for image in x:
        planes = []
        for f in range(filters):
            first = f // (filters // groups) * depth
            plane = correlate(image[first : first + depth], spread[f], "valid", "direct")[0]
            planes.append(plane[:: stride[0], :: stride[1]])
        images.append(planes)
    result = np.array(images)
    return result if bias is None else result + bias[:, None, None]


_CONVOLUTIONS: list[Any] = [
    ((2, 3, 7, 5), (4, 3, 3, 3), {}),
    ((1, 2, 5, 5), (3, 2, 1, 1), {}),
    ((2, 3, 8, 7), (4, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    ((1, 4, 7, 7), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    ((1, 3, 5, 5), (3, 1, 3, 3), {"groups": 3, "stride": 2}),
    ((1, 1, 9, 9), (1, 1, 3, 3), {"dilation": 2, "stride": 2, "padding": (0, 1, 2, 0)}),
]
for _x, _weight, _options in _CONVOLUTIONS:
    _args = [numbers("image", _x), numbers("filter", _weight), numbers("bias", (_weight[0],))]
    add("conv2d", _args, lambda x, w, b, o=_options: _convolved(x, w, b, **o), **_options, differentiable=True)
add(
    "conv2d",
    [numbers("image", (1, 2, 5, 5), F16), numbers("filter", (3, 2, 3, 3), F16), None],
    lambda x, w, _: _convolved(x, w),
    atol=8e-3,
)
add(
    "convolution",
    [numbers("image", (2, 2, 3, 6, 5)), numbers("filter", (2, 4, 3, 3, 2))],
    lambda x, w: _convolved(x.reshape(2, 6, 6, 5), w.reshape(8, 3, 3, 2), stride=(2, 1), groups=2).reshape(
        2, 2, 4, 2, 4
    ),
    stride=(2, 1),
    differentiable=True,
)

# --- windows ----------------------------------------------------------------------------------------------------------


def _windows(x: Array, window: Any, stride: Any = None, padding: Any = 0, fill: float = 0.0) -> Array:
    window = np.broadcast_to(window, 2)
    stride = np.broadcast_to(window if stride is None else stride, 2)
    sides = padding if np.size(padding) == 4 else np.repeat(np.broadcast_to(padding, 2), 2)
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [tuple(sides[:2]), tuple(sides[2:])], constant_values=fill)
    return sliding_window_view(x, window, (-2, -1))[..., :: stride[0], :: stride[1], :, :]


_POOLS: list[Any] = [
    ((2, 3, 6, 8), {"window": 2}),
    ((1, 2, 7, 7), {"window": (3, 2), "stride": (2, 1)}),
    ((2, 5, 5), {"window": 3, "stride": 2, "padding": 1}),
    ((5, 7), {"window": (3, 3), "stride": 1, "padding": (1, 0, 0, 1)}),
]
for _shape, _options in _POOLS:
    add(
        "max_pool2d",
        [distinct("pool", _shape, F32)],
        lambda x, o=_options: _windows(x, **o, fill=-INF).max((-2, -1)),
        **_options,
        differentiable=True,
    )
    add(
        "avg_pool2d",
        [numbers("pool", _shape)],
        lambda x, o=_options: _windows(x, **o).mean((-2, -1)),
        **_options,
        differentiable=True,
    )
add("max_pool2d", [integers("pool", (3, 6, 6), np.int32)], lambda x: _windows(x, 2).max((-2, -1)), window=2)
add(
    "max_pool2d",
    [distinct("pool", (1, 6, 6), BF16)],
    lambda x: _windows(x, 3, 3, 1, -INF).max((-2, -1)),
    window=3,
    padding=1,
)
add(
    "max_pool2d", [np.array([[NAN, 1, 2, 2], [0, 1, 2, 2]], F32)], lambda x: np.array([[NAN, 2.0]]), "special", window=2
)
add("avg_pool2d", [numbers("pool", (1, 5, 5), F16)], lambda x: _windows(x, 3, 2).mean((-2, -1)), window=3, stride=2)
add(
    "avg_pool2d",
    [numbers("pool", (2, 5, 5))],
    lambda x: _windows(x, 3, 2, 1).sum((-2, -1)) / _windows(np.ones_like(x), 3, 2, 1).sum((-2, -1)),
    window=3,
    stride=2,
    padding=1,
    count_include_pad=False,
    differentiable=True,
)
add(
    "window_max",
    [distinct("max", (2, 7, 5), F32)],
    lambda x: _windows(x, (3, 2), (2, 1)).max((-2, -1)),
    window=(3, 2),
    stride=(2, 1),
    differentiable=True,
)
add(
    "window_sum",
    [numbers("sum", (2, 7, 5))],
    lambda x: _windows(x, (3, 2), (2, 1)).sum((-2, -1)),
    window=(3, 2),
    stride=(2, 1),
    differentiable=True,
)
add(
    "window_sum",
    [integers("sum", (7, 5), np.int64)],
    lambda x: _windows(x, (2, 2), (1, 1)).sum((-2, -1)),
    window=(2, 2),
)
add(
    "sliding_windows",
    [numbers("windows", (2, 7, 5))],
    lambda x: _windows(x, (3, 2), (2, 1)),
    window=(3, 2),
    stride=(2, 1),
    differentiable=True,
)
add(
    "sliding_windows",
    [integers("windows", (7, 5))],
    lambda x: _windows(x, (3, 3), (1, 1))[..., ::2, ::2],
    window=(2, 2),
    dilation=(2, 2),
)

# --- normalization and losses -----------------------------------------------------------------------------------------

for _name, _function in {"softmax": scipy.special.softmax, "log_softmax": scipy.special.log_softmax}.items():
    for _shape, _axis in [((3, 7), -1), ((3, 7), 0), ((2, 3, 5), 1), ((11,), -1), ((2, 1), -1)]:
        add(
            _name,
            [numbers(_name, _shape)],
            lambda x, f=_function, axis=_axis: f(x, axis=axis),
            axis=_axis,
            differentiable=True,
        )
    for _dtype in (F16, BF16, F64):
        add(_name, [numbers(_name, (5, 13), _dtype)], lambda x, f=_function: f(x, axis=-1))
    add(_name, [np.array([[1000.0, 1000.0, -1000.0]], F32)], lambda x, f=_function: f(x, axis=-1), "large")
    add(_name, [np.zeros((2, 0), F32)], lambda x: x, "empty")
add("softmax", [np.array([[0.0, -INF], [NAN, 0.0]], F32)], lambda x: np.array([[1.0, 0.0], [NAN, NAN]]), "special")


def _normalized(x: Array, axis: Any, eps: float) -> Array:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


add(
    "layer_norm",
    [numbers("x", (3, 5, 7)), numbers("weight", (7,)), numbers("bias", (7,))],
    lambda x, w, b: _normalized(x, -1, 1e-5) * w + b,
    differentiable=True,
)
add(
    "layer_norm",
    [numbers("x", (3, 5, 7)), None, None],
    lambda x, w, b: _normalized(x, (1, 2), 1e-3),
    axis=(1, 2),
    eps=1e-3,
    differentiable=True,
)
add(
    "layer_norm",
    [numbers("x", (5, 7), F16), numbers("weight", (7,), F16), None],
    lambda x, w, b: _normalized(x, -1, 1e-5) * w,
)
_CHANNELS = [numbers("mean", (3,)), numbers("variance", (3,), low=0.5), numbers("weight", (3,)), numbers("bias", (3,))]


def _batch_normalized(
    x: Array, mean: Array, variance: Array, weight: Any = None, bias: Any = None, axis: int = 1
) -> Array:
    moved = np.moveaxis(x, axis, -1)
    result = (moved - mean) / np.sqrt(variance + 1e-5)
    result = result if weight is None else result * weight
    return np.moveaxis(result if bias is None else result + bias, -1, axis)


add("batch_norm", [numbers("x", (2, 3, 4, 5)), *_CHANNELS], _batch_normalized, differentiable=True)
add("batch_norm", [numbers("x", (7, 3)), *_CHANNELS[:2], None, None], _batch_normalized, axis=-1, differentiable=True)


def _batch_statistics(x: Array, weight: Any, bias: Any, axis: int = 1) -> tuple[Array, ...]:
    others = tuple([i for i in range(x.ndim) if i != axis % x.ndim])
    mean, variance = x.mean(others), x.var(others)
    return _batch_normalized(x, mean, variance, weight, bias, axis), mean, variance


add("batch_norm_training", [numbers("x", (2, 3, 4, 5)), *_CHANNELS[2:]], _batch_statistics, differentiable=True)
add(
    "batch_norm_training",
    [numbers("x", (7, 5, 3)), None, None],
    lambda *a: _batch_statistics(*a, axis=-1),
    axis=-1,
    differentiable=True,
)

_LABELS = np.array([4, 0, 2])


def _cross_entropy(x: Array, labels: Array, smoothing: float = 0.0) -> Any:
    classes = x.shape[-1]
    target = (1 - smoothing) * np.eye(classes)[labels] + smoothing / classes
    return -(target * scipy.special.log_softmax(x, -1)).sum(-1).mean()


add("cross_entropy", [numbers("logits", (3, 5)), _LABELS], _cross_entropy, differentiable=True)
add(
    "cross_entropy",
    [numbers("logits", (3, 5), F64), _LABELS.astype(np.int32)],
    lambda x, i: _cross_entropy(x, i, 0.1),
    label_smoothing=0.1,
    differentiable=True,
)
add(
    "cross_entropy",
    [numbers("logits", (2, 5, 3)), integers("labels", (2, 3), np.int64, 0, 5)],
    lambda x, i: _cross_entropy(np.moveaxis(x, 1, -1), i),
    axis=1,
    differentiable=True,
)
add("cross_entropy", [numbers("logits", (3, 5), F16), _LABELS], _cross_entropy)
add(
    "mse_loss",
    [numbers("x", (3, 5)), numbers("target", (3, 5))],
    lambda x, t: ((x - t) ** 2).mean(),
    differentiable=True,
)
add("mse_loss", [numbers("x", (3, 5), BF16), numbers("target", (5,), BF16)], lambda x, t: ((x - t) ** 2).mean())
add(
    "binary_cross_entropy_with_logits",
    [numbers("logits", (3, 5)), numbers("target", (3, 5), low=0, high=1)],
    lambda x, t: -(t * np.log(scipy.special.expit(x)) + (1 - t) * np.log(scipy.special.expit(-x))).mean(),
    differentiable=True,
)
add(
    "binary_cross_entropy_with_logits",
    [np.array([1000.0, -1000.0], F32), np.array([1.0, 1.0], F32)],
    lambda x, t: 500.0,
    "large",
)

# Test vectors of the reference implementation (Random123, kat_vectors).
_WORDS = [
    np.array([0, 0xFFFFFFFF, 0x243F6A88], np.uint32).view(np.int32),
    np.array([0, 0xFFFFFFFF, 0x85A308D3], np.uint32).view(np.int32),
    np.array([0, 0xFFFFFFFF, 0x13198A2E], np.uint32).view(np.int32),
    np.array([0, 0xFFFFFFFF, 0x03707344], np.uint32).view(np.int32),
]
add(
    "threefry",
    _WORDS,
    lambda *_: (
        np.array([0x6B200159, 0x1CB996FC, 0xC4923A9C], np.uint32).view(np.int32),
        np.array([0x99BA4EFE, 0xBB002BE7, 0x483DF7A0], np.uint32).view(np.int32),
    ),
)
