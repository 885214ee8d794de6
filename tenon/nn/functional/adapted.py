"""Functions of ops with the arguments in PyTorch's order, and those that draw or that change running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.one_program import one_program_when_large
from tenon.dialects.definition.value import TracedValueError, Value
from tenon.draws import next_key
from tenon.eager.modes import no_grad
from tenon.eager.tensor import Tensor
from tenon.nn import pooling
from tenon.nn.linear import bags_of, check_places, check_table, embedded, padding_row


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` (n, d) at the places `input`, integers of any shape: (..., d).

    With `padding_idx`, that row has no gradient; with `scale_grad_by_freq`, the gradient of a row is over how often it
    is asked for. Raises `IndexError` for a place outside of `weight` that is known, and `ValueError` for `max_norm`,
    which changes `weight`, and for `sparse`, as gradients are whole arrays.
    """
    check_table("embedding", max_norm, sparse)
    check_places("embedding", input, weight.shape[0])
    return embedded(weight, input, padding_row("embedding", padding_idx, weight.shape[0]), scale_grad_by_freq)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """`nn.EmbeddingBag` as a function: sums, means or maxima of the rows of `weight` (n, d) at the places `input`."""
    check_table("embedding_bag", max_norm, sparse)
    check_places("embedding_bag", input, weight.shape[0])
    row = padding_row("embedding_bag", padding_idx, weight.shape[0])
    return bags_of(
        "embedding_bag",
        weight,
        input,
        offsets,
        per_sample_weights,
        mode,
        include_last_offset,
        row,
        scale_grad_by_freq,
    )


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """input1·`weight`·input2 + `bias` over the last axes: (…, m) and (…, n) by (k, m, n) to (…, k)."""
    found = tenon.einsum("...i,oij,...j->...o", input1, weight, input2)
    return found if bias is None else found + bias


_PLACED = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """`tenon.grid_sample` by PyTorch's modes: bilinear, bicubic, nearest."""
    if mode not in _PLACED:
        raise ValueError(f"grid_sample: mode is {mode!r}, none of {', '.join(_PLACED)}")
    settings: dict[str, Any] = {"mode": _PLACED[mode], "padding_mode": padding_mode}
    return tenon.grid_sample(input, grid, **settings, align_corners=bool(align_corners))


@one_program_when_large
def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """The places (n, *image, rank) that the affine maps `theta` (n, rank, rank + 1) give for each element of images of
    `size` (n, c, *image), as `grid_sample` takes them."""
    rank = len(size) - 2
    if rank not in (2, 3) or tuple(theta.shape) != (size[0], rank, rank + 1):
        raise ValueError(
            f"affine_grid: theta has shape {tuple(theta.shape)}, and size is {tuple(size)}, where (n, r, r + 1) and "
            "(n, c, *image) of r = 2 or 3 dimensions is needed"
        )
    places: list[Any] = []
    for extent in size[2:]:
        inner = 1.0 if align_corners else (extent - 1) / extent
        places.append(np.linspace(-inner, inner, extent) if extent > 1 else np.zeros(1))
    axes = np.meshgrid(*places, indexing="ij")
    base = np.stack([*reversed(axes), np.ones_like(axes[0])], axis=-1).reshape(-1, rank + 1).astype(theta.dtype)
    return tenon.reshape(tenon.matmul(base, tenon.swapaxes(theta, 1, 2)), (size[0], *size[2:], rank))


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """i64 with a last axis of `num_classes`, by default as many as there are, that is 1 at the place which the element
    of `tensor` names, and 0 elsewhere."""
    if num_classes < 0:
        num_classes = int(np.asarray(tensor).max()) + 1
    return tenon.one_hot(tensor, num_classes, dtype="i64")


_MODES: dict[str, Any] = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """`input` with `pad` = (low, high, low, high, ...) more elements, from the last axis on to the first; fewer where
    they are negative. `mode` is constant, reflect, replicate or circular."""
    if len(pad) % 2:
        raise ValueError(f"pad: there are {len(pad)} sizes where a low and a high one for each axis are needed")
    if mode not in _MODES:
        raise ValueError(f"pad: mode is {mode!r}, none of {', '.join(_MODES)}")
    rank, count = len(input.shape), len(pad) // 2
    low, high = ([*pad[side::2]][::-1] for side in (0, 1))
    front = [0] * (rank - count)
    settings = {"value": 0.0 if value is None else value} if mode == "constant" else {}
    return tenon.pad(input, (*front, *low), (*front, *high), mode=_MODES[mode], **settings)


def _axes(function: str, input: Any, normalized_shape: Any) -> tuple[int, ...]:
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if tuple(input.shape[len(input.shape) - len(sizes) :]) != sizes:
        raise ValueError(f"{function}: the last sizes of {tuple(input.shape)} are not {sizes}")
    return tuple(range(-len(sizes), 0))


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """`tenon.layer_norm` over the last axes, whose sizes are `normalized_shape`."""
    return tenon.layer_norm(input, weight, bias, axis=_axes("layer_norm", input, normalized_shape), eps=eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """`tenon.rms_norm` over the last axes, whose sizes are `normalized_shape`; `eps` is the dtype's by default."""
    if eps is None:
        eps = float(np.finfo(input.dtype).eps)
    return tenon.rms_norm(input, weight, axis=_axes("rms_norm", input, normalized_shape), eps=eps)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """`tenon.group_norm` of `num_groups` groups of channels."""
    return tenon.group_norm(input, weight, bias, groups=num_groups, eps=eps)


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """`tenon.instance_norm`. Running statistics are those of `nn.InstanceNorm2d`: here, they are refused."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise ValueError("instance_norm: running statistics are given; write nn.InstanceNorm2d, which keeps them")
    return tenon.instance_norm(input, weight, bias, eps=eps)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """`tenon.batch_norm` by running statistics, or, in `training`, by those of the batch, which change the running
    ones, tensors or arrays, in place. Where a function is traced, these would not change: raises."""
    if not training:
        return tenon.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    if running_mean is None or running_var is None:
        return tenon.batch_norm_training(input, weight, bias, eps=eps)
    if isinstance(running_mean, Value) or isinstance(input, Value):
        raise TracedValueError("batch_norm: running statistics cannot change in place; write nn.BatchNorm2d")
    made, mean, variance = tenon.batch_norm_update(
        input, running_mean, running_var, weight, bias, eps=eps, momentum=momentum
    )
    with no_grad():
        running_mean[...], running_var[...] = _plain(mean), _plain(variance)
    return made


def _plain(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def prelu(input: Any, weight: Any) -> Any:
    """`tenon.prelu` with a slope for each channel, axis 1, or one for all."""
    rank = len(input.shape)
    sizes = (1,) * rank if weight.shape == (1,) or rank < 2 else (1, -1, *(1,) * (rank - 2))
    return tenon.prelu(input, tenon.reshape(weight, sizes))


def _conv_transpose(rank: int) -> Any:
    function = getattr(tenon, f"conv_transpose{rank}d")

    def conv_transpose(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        return function(
            input,
            weight,
            bias,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            dilation=dilation,
        )

    conv_transpose.__name__ = f"conv_transpose{rank}d"
    conv_transpose.__doc__ = f"`tenon.conv_transpose{rank}d` with its arguments in PyTorch's order."
    return conv_transpose


conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_conv_transpose, (1, 2, 3))


def _key(function: str) -> Any:
    return next_key(f"nn.functional.{function}", "a module, nn.Dropout for example, which counts its draws")


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """In `training`, elements are 0 with probability `p`, and the others are divided by 1 - `p`.

    Draws another stream of `nn.manual_seed` at each call; raises where a function is traced.
    """
    return _dropped("dropout", input, p, training, 0)


def _dropped(function: str, x: Any, p: float, training: bool, rank: int) -> Any:
    if not 0 <= p <= 1:
        raise ValueError(f"{function}: p is {p}, outside of [0, 1]")
    if not training or p == 0:
        return x
    if not rank:
        return tenon.dropout(x, _key(function), rate=p)
    channels = tuple(x.shape[: len(x.shape) - rank])
    kept = tenon.dropout(np.ones((*channels, *(1,) * rank), x.dtype), _key(function), rate=p)
    return x * kept


def _unpooled(rank: int) -> Any:
    cls = (pooling.MaxUnpool1d, pooling.MaxUnpool2d, pooling.MaxUnpool3d)[rank - 1]

    def unpooled(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        return cls(kernel_size, stride, padding)(input, indices, output_size)

    unpooled.__name__ = f"max_unpool{rank}d"
    unpooled.__doc__ = f"`nn.{cls.__name__}` as a function, whose `output_size` comes last."
    return unpooled


max_unpool1d, max_unpool2d, max_unpool3d = map(_unpooled, (1, 2, 3))


def _channels(rank: int) -> Any:
    def dropped(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return _dropped(f"dropout{rank}d", input, p, training, rank)

    dropped.__name__ = f"dropout{rank}d"
    dropped.__doc__ = f"`dropout` of whole channels of {rank} spatial axes."
    return dropped


dropout1d, dropout2d, dropout3d = map(_channels, (1, 2, 3))


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """Softmax of `logits` with Gumbel noise, over `tau`; if `hard`, 1 at the greatest and 0 elsewhere, with the
    gradient of the soft one (Jang, Gu and Poole, 2017)."""
    noise = tenon.random_gumbel(_key("gumbel_softmax"), tuple(logits.shape), dtype=logits.dtype)
    soft = tenon.softmax((logits + noise) / tau, axis=dim)
    if not hard:
        return soft
    places = tenon.argmax(soft, axis=dim)
    chosen = tenon.one_hot(places, logits.shape[dim], axis=dim, dtype=logits.dtype)
    return tenon.stop_gradient(chosen - soft) + soft
