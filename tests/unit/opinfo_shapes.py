"""PyTorch's ops on shapes, and those that make tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from opinfo_table import TABLE, Unshared, axes

import tenon

# --- shapes -----------------------------------------------------------------------------------------------------------


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)


def _expanded(x: Any, *shape: Any) -> Any:
    sizes = _sizes(shape)
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    return tenon.broadcast_to(x, shape=tuple([o if s == -1 else s for s, o in zip(sizes, own, strict=True)]))


def _permuted(x: Any, *dims: Any) -> Any:
    return tenon.transpose(x, permutation=tuple([d % max(x.ndim, 1) for d in _sizes(dims)]))


def swapped(x: Any, first: int, second: int) -> Any:
    order = list(range(x.ndim))
    if order:
        order[first], order[second] = order[second], order[first]
    return tenon.transpose(x, permutation=tuple(order))


def moved(x: Any, source: Any, destination: Any) -> Any:
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


def narrowed(x: Any, dim: int, start: Any, length: int) -> Any:
    if not isinstance(start, int):
        raise Unshared("a start that is data")
    start = start % max(x.shape[dim], 1) if start < 0 else start
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, start + length),)]


def pieces(x: Any, sizes: Sequence[int], dim: int) -> Any:
    starts = np.cumsum([0, *sizes])
    return tuple([narrowed(x, dim, int(s), int(n)) for s, n in zip(starts[:-1], sizes, strict=True)])


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    if not isinstance(size, int):
        return pieces(x, size, dim)
    whole = x.shape[dim]
    return pieces(x, [min(size, whole - start) for start in range(0, whole, size)], dim)


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


TABLE.update(
    {
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
        "transpose": swapped,
        "transpose_copy": swapped,
        "movedim": moved,
        "t": lambda x: tenon.transpose(x, permutation=tuple(range(x.ndim))[::-1]),
        "t_copy": lambda x: tenon.transpose(x, permutation=tuple(range(x.ndim))[::-1]),
        "mT": lambda x: swapped(x, -2, -1),
        "mH": lambda x: swapped(x, -2, -1),
        "T": lambda x: tenon.transpose(x, permutation=tuple(range(x.ndim))[::-1]),
        "squeeze": _squeezed,
        "squeeze.multiple": _squeezed,
        "squeeze_copy": _squeezed,
        "unsqueeze": lambda x, dim: tenon.expand_dims(x, axis=dim),
        "unsqueeze_copy": lambda x, dim: tenon.expand_dims(x, axis=dim),
        "flip": lambda x, dims: tenon.flip(x, axis=tuple(dims)) if dims else x,
        "fliplr": lambda x: tenon.flip(x, axis=1),
        "flipud": lambda x: tenon.flip(x, axis=0),
        "narrow": narrowed,
        "narrow_copy": narrowed,
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
        "nn.functional.pad.constant": lambda x, pad, mode="constant", value=0.0: _padded(
            x, pad, "constant", value or 0.0
        ),
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
        "nn.functional.pixel_shuffle": lambda x, upscale_factor: tenon.depth_to_space(
            x, block=upscale_factor, mode="CRD"
        ),
    }
)


def _concatenated(xs: Any, dim: int) -> Any:
    if any(x.shape == (0,) for x in xs):
        raise Unshared("empty vectors beside tensors of another rank")
    return tenon.concatenate(tuple(xs), axis=dim)


def _padded(x: Any, pad: Sequence[int], mode: str, value: float = 0.0) -> Any:
    low, high = [0] * x.ndim, [0] * x.ndim
    for position in range(len(pad) // 2):
        low[-1 - position], high[-1 - position] = pad[2 * position], pad[2 * position + 1]
    options = {"value": float(value)} if mode == "constant" else {"mode": mode}
    return tenon.pad(x, low=tuple(low), high=tuple(high), **options)  # pyright: ignore[reportArgumentType]


# --- making tensors, and other shapes ---------------------------------------------------------------------------------


def _made(ours: str) -> Callable[..., Any]:
    def call(shape: Any, *values: Any, dtype: Any = None, **_: Any) -> Any:
        return getattr(tenon, ours)(tuple(shape), *values, _name(dtype))

    return call


def _made_anew(ours: str) -> Callable[..., Any]:
    def call(x: Any, shape: Any, *values: Any, dtype: Any = None, **_: Any) -> Any:
        return getattr(tenon, ours)(tuple(shape), *values, x.dtype if dtype is None else _name(dtype))

    return call


def _name(dtype: Any) -> str:
    """PyTorch's dtype by the name that NumPy has for it; float32 unless given."""
    return "float32" if dtype is None else str(dtype).removeprefix("torch.")


def _counted(start: Any, *rest: Any, dtype: Any = None, **_: Any) -> Any:
    numbers = (start, *rest)
    return tenon.arange(
        *numbers, dtype="i64" if dtype is None and all(isinstance(n, int) for n in numbers) else _name(dtype)
    )


def _split_at(x: Any, sections: Any, dim: int = 0) -> Any:
    if not isinstance(sections, int | Sequence):
        raise Unshared("places that are data")
    return tuple([tenon.asarray(part) for part in _parts(x, sections, dim)])


def _parts(x: Any, sections: Any, dim: int) -> Any:
    whole = x.shape[dim]
    if isinstance(sections, int):
        sizes = [whole // sections + (i < whole % sections) for i in range(sections)]
    else:
        edges = [0, *[min(s, whole) for s in sections], whole]
        sizes = [b - a for a, b in pairwise(edges)]
    return pieces(x, sizes, dim)


def _unfolded(x: Any, dim: int, size: int, step: int) -> Any:
    if x.ndim == 0:
        raise Unshared("a scalar as a vector of one")
    last = moved(x, dim, -1)
    return moved(tenon.sliding_windows(last, window=(size,), stride=(step,)), -2, dim)


def _turned(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    first, second = dims
    k %= 4
    if k == 2:
        return tenon.flip(x, axis=(first, second))
    if k == 1:
        return swapped(tenon.flip(x, axis=second), first, second)
    return tenon.flip(swapped(x, first, second), axis=second) if k else x


def _differences(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    x = tenon.concatenate(tuple([part for part in (prepend, x, append) if part is not None]), axis=dim)
    for _ in range(min(n, x.shape[dim])):
        size = x.shape[dim]
        x = tenon.subtract(narrowed(x, dim, 1, size - 1), narrowed(x, dim, 0, size - 1))
    return x


def _summed_to(x: Any, *shape: Any) -> Any:
    sizes = _sizes(shape)
    extra = x.ndim - len(sizes)
    axis = (*range(extra), *[i + extra for i, n in enumerate(sizes) if n == 1 and x.shape[i + extra] != 1])
    return tenon.reshape(tenon.sum(x, axis=axis) if axis else x, shape=sizes)


def _embedded_diagonal(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    size, rank = x.shape[-1] + abs(offset), x.ndim + 1
    rows, columns = tenon.iota((size, size), axis=0), tenon.iota((size, size), axis=1)
    low, high = max(-offset, 0), max(offset, 0)
    spread = tenon.pad(x, low=(0,) * (x.ndim - 1) + (low,), high=(0,) * (x.ndim - 1) + (high,))
    matrices = tenon.select(tenon.equal(rows + offset, columns), tenon.expand_dims(spread, axis=-1), 0.0)
    return moved(matrices, (rank - 2, rank - 1), (dim1, dim2))


TABLE.update(
    {
        "ones": _made("ones"),
        "zeros": _made("zeros"),
        "full": _made("full"),
        "new_ones": _made_anew("ones"),
        "new_zeros": _made_anew("zeros"),
        "new_full": _made_anew("full"),
        "full_like": lambda x, value, dtype=None, **_: tenon.full_like(x, value),
        "scalar_tensor": lambda value, dtype=None, **_: tenon.full((), value, _name(dtype)),
        "eye": lambda n, m=None, dtype=None, **_: tenon.eye(n, n if m is None else m, dtype=_name(dtype)),
        "arange": _counted,
        "linspace": lambda start, stop, count, dtype=None, **_: tenon.linspace(start, stop, count, dtype=_name(dtype)),
        "diag": lambda x, k=0: tenon.diag(x, k=k),
        "diag_embed": _embedded_diagonal,
        "diagonal_copy": lambda x, offset=0, dim1=0, dim2=1: tenon.diagonal(x, offset=offset, axis1=dim1, axis2=dim2),
        "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: tenon.diagonal(
            x, offset=offset, axis1=dim1, axis2=dim2
        ),
        "slice": lambda x, dim=0, start=None, end=None, step=1: x[
            (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
        ],
        "unbind_copy": TABLE["unbind"],
        "split_with_sizes_copy": _split,
        "alias_copy": tenon.identity,
        "tensor_split": _split_at,
        "hsplit": lambda x, sections: _parts(x, sections, 1 if x.ndim > 1 else 0),
        "vsplit": lambda x, sections: _parts(x, sections, 0),
        "dsplit": lambda x, sections: _parts(x, sections, 2),
        "unfold": _unfolded,
        "unfold_copy": _unfolded,
        "rot90": _turned,
        "diff": _differences,
        "sum_to_size": _summed_to,
        "nn.functional.pixel_unshuffle": lambda x, downscale_factor: tenon.space_to_depth(
            x, block=downscale_factor, mode="CRD"
        ),
        "nn.functional.channel_shuffle": lambda x, groups: tenon.reshape(
            swapped(tenon.reshape(x, shape=(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])), 1, 2),
            shape=x.shape,
        ),
        "meshgrid.variadic_tensors": lambda *xs, indexing: _grid(xs, indexing),
        "meshgrid.list_of_tensors": lambda xs, indexing: _grid(xs, indexing),
    }
)


def _grid(xs: Sequence[Any], indexing: str) -> Any:
    return tenon.meshgrid(*[tenon.reshape(x, shape=(-1,)) for x in xs], indexing=indexing)
