"""Samples of convolutions in one, two and three dimensions, and of transposed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, INF, NAN, Array, add, integers, numbers
from scipy.signal import correlate


def _pairs(padding: Any, rank: int) -> list[tuple[int, int]]:
    if np.size(padding) == 2 * rank:
        return [(padding[2 * i], padding[2 * i + 1]) for i in range(rank)]
    return [(int(p), int(p)) for p in np.broadcast_to(padding, rank)]


def _spread(array: Array, steps: Any) -> Array:
    """Zeros between the elements along the last dimensions."""
    rank = len(steps)
    shape = [(n - 1) * s + 1 if n else 0 for n, s in zip(array.shape[-rank:], steps, strict=True)]
    result = np.zeros((*array.shape[:-rank], *shape), array.dtype)
    result[(..., *[slice(None, None, s) for s in steps])] = array
    return result


def _correlated(image: Array, filters: Array) -> Array:
    return correlate(image, filters, "valid", "direct")[0]


def _convolved(
    x: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Array:
    """By SciPy's correlation of each channel with a dilated filter."""
    rank = x.ndim - 2
    stride, dilation = np.broadcast_to(stride, rank), np.broadcast_to(dilation, rank)
    spread = _spread(weight, dilation)
    if isinstance(padding, str):
        totals = [
            max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(x.shape[2:], stride, spread.shape[2:], strict=True)
        ]
        sides = [(total // 2, total - total // 2) for total in totals]
        sides = [(b, a) for a, b in sides] if padding == "same_lower" else sides
        sides = [(0, 0)] * rank if padding == "valid" else sides
    else:
        sides = _pairs(padding, rank)
    x = np.pad(x, [(0, 0), (0, 0), *sides])
    filters, depth = weight.shape[:2]
    windows = tuple([slice(None, None, s) for s in stride])
    counts = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], spread.shape[2:], stride, strict=True)]
    images: list[list[Array]] = []
    for image in x if x.size and weight.size else ():
        images.append([])
        for f in range(filters):
            first = f // (filters // groups) * depth
            images[-1].append(_correlated(image[first : first + depth], spread[f])[windows])
    result = np.array(images) if images else np.zeros((len(x), filters, *counts))
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _transposed(
    x: Array,
    weight: Array,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_padding: Any = 0,
    output_size: Any = None,
) -> Array:
    """Element by element: each adds the weight to its window."""
    rank = x.ndim - 2
    stride, dilation = np.broadcast_to(stride, rank), np.broadcast_to(dilation, rank)
    spread = _spread(weight, dilation)
    more = np.broadcast_to(output_padding, rank)
    whole = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], stride, spread.shape[2:], strict=True)]
    channels, filters = weight.shape[:2]
    full = np.zeros((len(x), groups * filters, *[w + int(m) + 8 for w, m in zip(whole, more, strict=True)]), x.dtype)
    for n, c, *place in np.ndindex(*x.shape):
        group = c // (channels // groups)
        target = [slice(p * s, p * s + k) for p, s, k in zip(place, stride, spread.shape[2:], strict=True)]
        full[(n, slice(group * filters, (group + 1) * filters), *target)] += x[(n, c, *place)] * spread[c]
    if isinstance(padding, str) or output_size is not None:
        sizes = np.broadcast_to(x.shape[2:] * stride if output_size is None else output_size, rank)
        totals = [max(w + int(m) - int(z), 0) for w, m, z in zip(whole, more, sizes, strict=True)]
        low = [total // 2 if padding == "same" else total - total // 2 for total in totals]
    else:
        sides = _pairs(padding, rank)
        low = [side[0] for side in sides]
        sizes = [w + int(m) - sum(side) for w, m, side in zip(whole, more, sides, strict=True)]
    result = full[(..., *[slice(a, a + int(z)) for a, z in zip(low, sizes, strict=True)])]
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


# --- convolution ------------------------------------------------------------------------------------------------------

_CONVOLUTIONS: list[Any] = [
    ("conv1d", (2, 3, 9), (4, 3, 3), {}),
    ("conv1d", (1, 4, 11), (6, 2, 4), {"groups": 2, "stride": 2, "padding": (2, 1)}),
    ("conv1d", (1, 2, 10), (2, 1, 3), {"groups": 2, "padding": "same", "dilation": 2}),
    ("conv2d", (1, 2, 7, 6), (3, 2, 3, 2), {"padding": "same", "stride": 2}),
    ("conv2d", (1, 2, 7, 6), (3, 2, 4, 3), {"padding": "same_lower", "stride": (1, 3)}),
    ("conv2d", (1, 2, 7, 6), (3, 2, 1, 1), {"stride": 2, "padding": 1}),
    ("conv2d", (2, 4, 5, 4), (6, 2, 1, 1), {"groups": 2}),
    ("conv2d", (1, 2, 6, 6), (2, 2, 2, 2), {"padding": "valid", "stride": 3}),
    ("conv3d", (1, 2, 5, 4, 6), (3, 2, 2, 3, 2), {"stride": (2, 1, 3), "padding": (1, 0, 0, 2, 1, 1)}),
    ("conv3d", (1, 2, 4, 3, 3), (4, 1, 3, 1, 2), {"groups": 2, "padding": (1, 0, 1), "dilation": (1, 2, 1)}),
    ("conv", (1, 2, 6, 5), (3, 2, 3, 3), {"padding": (1, 2)}),
    ("conv", (1, 1, 3, 2, 3, 2), (2, 1, 2, 1, 2, 2), {"padding": 1}),
]
for _name, _x, _weight, _options in _CONVOLUTIONS:
    _args = [numbers("image", _x), numbers("filter", _weight), numbers("bias", (_weight[0],))]
    add(_name, _args, lambda x, w, b, o=_options: _convolved(x, w, b, **o), **_options, differentiable=True)
for _dtype in (F16, BF16, F64):
    # f16 and bf16 are rounded once, behind the bias.
    add(
        "conv1d",
        [numbers("image", (1, 2, 9), _dtype), numbers("filter", (3, 2, 3), _dtype), numbers("bias", (3,), _dtype)],
        _convolved,
        atol=1e-3 if _dtype != F64 else None,
        differentiable=_dtype == F64,
    )
for _dtype in (np.int8, np.int32, np.int64, np.uint8):
    add(
        "conv2d",
        [integers("image", (1, 2, 5, 5), _dtype, 0, 4), integers("filter", (3, 2, 3, 3), _dtype, 0, 3), None],
        lambda x, w, _: _convolved(x, w, padding=1).astype(x.dtype),
        padding=1,
    )
add("conv2d", [np.zeros((0, 2, 5, 5), F32), numbers("f", (3, 2, 3, 3)), None], lambda *_: np.zeros((0, 3, 3, 3)))
add("conv2d", [np.zeros((1, 0, 5, 5), F32), np.zeros((3, 0, 3, 3), F32), None], lambda *_: np.zeros((1, 3, 3, 3)))
add(
    "conv1d",
    [np.array([[[1, NAN, 2, INF, 3, 4, 5]]], F32), np.ones((1, 1, 2), F32), None],
    lambda *_: np.array([[[NAN, NAN, INF, INF, 7, 9]]]),
    "special",
)
add(
    "convolution",
    [numbers("image", (2, 2, 3, 9)), numbers("filter", (2, 4, 3, 3))],
    lambda x, w: _convolved(x.reshape(2, 6, 9), w.reshape(8, 3, 3), stride=2, dilation=2, groups=2).reshape(2, 2, 4, 3),
    stride=2,
    dilation=2,
    differentiable=True,
)
add(
    "convolution",
    [numbers("image", (1, 1, 2, 3, 4, 3)), numbers("filter", (1, 2, 2, 2, 3, 1))],
    lambda x, w: _convolved(x[:, 0], w[0])[:, None],
    differentiable=True,
)

# Large enough for the forms that are taken for speed: steps along the last dimension, and narrow images.
_LARGE: list[Any] = [
    ("conv2d", (1, 6, 20, 22), (12, 6, 3, 3), {"stride": 2, "padding": 1}),
    ("conv2d", (2, 12, 9, 7), (16, 6, 3, 3), {"padding": 1, "groups": 2}),
    ("conv3d", (1, 4, 6, 8, 5), (8, 4, 2, 3, 3), {"padding": 1, "stride": (2, 1, 1), "dilation": (1, 2, 1)}),
    ("conv_transpose2d", (1, 8, 12, 13), (8, 8, 3, 3), {"stride": 2, "padding": 1, "output_padding": (1, 0)}),
    ("conv_transpose1d", (1, 16, 120), (16, 8, 5), {"stride": 3}),
]
for _name, _x, _weight, _options in _LARGE:
    _function = _transposed if "transpose" in _name else _convolved
    add(
        _name,
        [numbers("image", _x), numbers("filter", _weight), None],
        lambda x, w, _, f=_function, o=_options: f(x, w, **o),
        "large",
        atol=2e-5,
        **_options,
    )

# --- transposed convolution -------------------------------------------------------------------------------------------

_TRANSPOSED: list[Any] = [
    ("conv_transpose1d", (2, 3, 5), (3, 4, 3), {}),
    ("conv_transpose1d", (1, 4, 5), (4, 3, 4), {"groups": 2, "stride": 3, "padding": (2, 1), "output_padding": 2}),
    ("conv_transpose1d", (1, 2, 4), (2, 3, 2), {"stride": 3, "output_size": 13}),
    ("conv_transpose1d", (1, 2, 4), (2, 3, 4), {"stride": 2, "output_size": 7}),
    ("conv_transpose1d", (1, 2, 4), (2, 3, 4), {"padding": (3, 2)}),
    ("conv_transpose2d", (1, 2, 4, 3), (2, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    ("conv_transpose2d", (1, 2, 3, 3), (2, 2, 3, 3), {"stride": 2, "padding": "same"}),
    ("conv_transpose2d", (1, 2, 3, 3), (2, 2, 4, 3), {"stride": (1, 2), "padding": "same_lower"}),
    ("conv_transpose2d", (1, 2, 3, 3), (2, 2, 2, 2), {"dilation": 2, "padding": 1, "output_padding": (0, 1)}),
    ("conv_transpose2d", (1, 2, 3, 4), (2, 3, 1, 1), {"stride": 2}),
    ("conv_transpose2d", (1, 2, 3, 3), (2, 2, 3, 3), {"stride": (3, 2), "output_size": (10, 8)}),
    ("conv_transpose3d", (1, 2, 3, 2, 3), (2, 2, 2, 3, 2), {"stride": (2, 1, 2), "padding": (0, 1, 1)}),
    ("conv_transpose", (1, 4, 3, 3), (4, 1, 2, 3), {"groups": 4, "stride": 2}),
]
for _name, _x, _weight, _options in _TRANSPOSED:
    _filters = _weight[1] * _options.get("groups", 1)
    _args = [numbers("image", _x), numbers("filter", _weight), numbers("bias", (_filters,))]
    add(_name, _args, lambda x, w, b, o=_options: _transposed(x, w, b, **o), **_options, differentiable=True)
add(
    "conv_transpose2d",
    [numbers("image", (1, 2, 3, 3), F16), numbers("filter", (2, 2, 3, 3), F16), None],
    lambda x, w, _: _transposed(x, w, stride=2),
    stride=2,
    atol=1e-3,
)
add(
    "conv_transpose1d",
    [integers("image", (1, 2, 4)), integers("filter", (2, 3, 3)), None],
    lambda x, w, _: _transposed(x, w, stride=2),
    stride=2,
)
add("conv_transpose1d", [np.zeros((0, 2, 3), F32), numbers("f", (2, 4, 3)), None], lambda *_: np.zeros((0, 4, 5)))
_SIZES: list[Any] = [
    {"size": 9, "stride": 2},
    {"size": 12, "stride": 2, "low": 1},
    {"size": 4, "dilation": 2, "low": 2},
]
for _options in _SIZES:
    _cut = slice(_options.get("low", 0), _options.get("low", 0) + _options["size"])
    add(
        "transposed_convolution",
        [numbers("x", (2, 2, 3, 4)), numbers("filter", (2, 3, 2, 3))],
        lambda x, w, o=_options, cut=_cut: np.pad(
            _transposed(
                x.reshape(2, 6, 4),
                w.reshape(6, 2, 3),
                stride=o.get("stride", 1),
                dilation=o.get("dilation", 1),
                groups=2,
            ).reshape(2, 2, 2, -1),
            ((0, 0), (0, 0), (0, 0), (0, 9)),
        )[..., cut],
        **_options,
        differentiable=True,
    )

# --- dilation ---------------------------------------------------------------------------------------------------------

add("dilate", [numbers("x", (3, 4))], lambda x: _spread(x, (1, 3)), steps=(1, 3), differentiable=True)
add("dilate", [numbers("x", (2, 3, 2), BF16)], lambda x: _spread(x, (2, 2, 5)), steps=(2, 2, 5))
add("dilate", [integers("x", (4,), np.uint8, 0, 200)], lambda x: _spread(x, (4,)), steps=(4,))
add("dilate", [np.zeros((0, 3), F32)], lambda x: np.zeros((0, 5)), steps=(2, 2))
add("dilate", [np.array(3.0, F32)], lambda x: x, steps=())
