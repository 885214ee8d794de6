"""PyTorch's ops that read and write at indices, and those of order."""

# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from opinfo_shapes import moved
from opinfo_table import TABLE, Unshared, plain, scaled

import tenon

# --- indices and order ------------------------------------------------------------------------------------------------


def _gathered(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0 or index.ndim != x.ndim:
        raise Unshared("a scalar as a vector of one")
    return tenon.take_along_axis(_cut(x, index, dim), index, axis=dim)


def _cut(x: Any, index: Any, dim: int) -> Any:
    """`x` cut to the sizes of `index` in all other dimensions: PyTorch leaves the rest unread."""
    kept = [slice(None) if i == dim % x.ndim else slice(0, n) for i, n in enumerate(index.shape)]
    return x[tuple(kept)]


TABLE.update(
    {
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
)


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


def _extremes_so_far(ours: str) -> Callable[..., Any]:
    return lambda x, dim: getattr(tenon, ours)(x, axis=dim) if x.ndim else (x, tenon.zeros((), "i64"))


def _searched(
    sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    if sorter is not None:
        sequence = tenon.take_along_axis(sequence, sorter, axis=-1)
    side = ("right" if right else "left") if side is None else side
    found = tenon.searchsorted(sequence, values, side=side)  # pyright: ignore[reportArgumentType]
    return tenon.cast(found, dtype="i32") if out_int32 else found


def _repeated(x: Any, repeats: Any, dim: int | None = None, output_size: int | None = None) -> Any:
    if not isinstance(repeats, int):
        raise Unshared("counts that are data")
    return tenon.repeat(x, repeats, axis=dim)


# --- writing ----------------------------------------------------------------------------------------------------------

_REDUCE = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scattered(x: Any, dim: int, index: Any, source: Any, reduce: str = "none", include_self: bool = True) -> Any:
    if x.ndim == 0 or index.ndim != x.ndim:
        return _no_scalar()
    if reduce == "mean" or not include_self:
        raise Unshared("a mean, or only what is written")
    if isinstance(source, float | int):
        source = tenon.full_like(index, source, dtype=x.dtype)
    source = source[tuple([slice(0, n) for n in index.shape])]
    return tenon.scatter_elements(x, index, source, axis=dim, reduction=_REDUCE.get(reduce, "none"))


def _at_rows(x: Any, dim: int, index: Any, source: Any, reduce: str = "none") -> Any:
    if x.ndim == 0 or index.ndim == 0:
        return _no_scalar()
    first = tenon.scatter_nd(
        moved(x, dim, 0),
        tenon.expand_dims(index, axis=1),
        moved(source, dim, 0),
        reduction=_REDUCE.get(reduce, "none"),  # pyright: ignore[reportArgumentType]
    )
    return moved(first, 0, dim)


def _filled(x: Any, dim: int, index: Any, value: Any) -> Any:
    if x.ndim == 0 or index.ndim == 0:
        return _no_scalar()
    shape = tuple([index.shape[0] if i == dim % x.ndim else n for i, n in enumerate(x.shape)])
    whole = tenon.broadcast_to(tenon.cast(tenon.asarray(value), dtype=x.dtype), shape=shape)
    return _at_rows(x, dim, index, whole)


def _put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    flat = tenon.reshape(x, shape=(-1,))
    places, source = tenon.reshape(index, shape=(-1, 1)), tenon.reshape(source, shape=(-1,))
    written = tenon.scatter_nd(flat, places, source, reduction="add" if accumulate else "none")
    return tenon.reshape(written, shape=x.shape)


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if indices[0].dtype == np.bool_ and values.ndim:
        raise Unshared("a value for each true place of a traced mask")
    return tenon.index_put(x, indices, values, accumulate)


def _slopes(x: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    found = tenon.gradient(x, spacing=spacing, axis=dim, edge_order=edge_order)
    return found if isinstance(found, tuple) else (found,)


def _over(x: Any, source: Any, dim: int, index: slice) -> Any:
    """`x` with `source` at a slice along `dim`."""
    places = np.arange(x.shape[dim])[index]
    return _at_rows(x, dim, places, source)


plain("cumulative_trapezoid", "diagflat", "renorm", "unravel_index")
plain(*[f"mvlgamma.mvlgamma_p_{p}=mvlgamma" for p in (1, 3, 5)])
plain("cartesian_prod", "combinations", "diagonal_scatter", "select_scatter")
TABLE.update(
    {
        "cummax": _extremes_so_far("cummax"),
        "cummin": _extremes_so_far("cummin"),
        "searchsorted": _searched,
        "bucketize": lambda x, edges, **settings: _searched(edges, x, **settings),
        "repeat_interleave": _repeated,
        "scatter": lambda x, dim, index, source, reduce="none": _scattered(x, dim, index, source, reduce),
        "scatter_add": lambda x, dim, index, source: _scattered(x, dim, index, source, "add"),
        "scatter_reduce.sum": _scattered,
        "scatter_reduce.prod": _scattered,
        "scatter_reduce.amax": _scattered,
        "scatter_reduce.amin": _scattered,
        "index_copy": _at_rows,
        "index_fill": _filled,
        "index_reduce.prod": lambda x, dim, index, source, reduce, **rest: _reduced_at(
            x, dim, index, source, reduce, rest
        ),
        "index_reduce.amax": lambda x, dim, index, source, reduce, **rest: _reduced_at(
            x, dim, index, source, reduce, rest
        ),
        "index_reduce.amin": lambda x, dim, index, source, reduce, **rest: _reduced_at(
            x, dim, index, source, reduce, rest
        ),
        "gradient": _slopes,
        "index_put": _index_put,
        "put": _put,
        "slice_scatter": lambda x, source, dim=0, start=None, end=None, step=1: _over(
            x, source, dim, slice(start, end, step)
        ),
        "nonzero_static": lambda x, size, fill_value=-1: tenon.argwhere(x, size=size, fill_value=fill_value),
    }
)


def _reduced_at(x: Any, dim: int, index: Any, source: Any, reduce: str, rest: dict[str, Any]) -> Any:
    if not rest.get("include_self", True):
        raise Unshared("only what is written")
    return _at_rows(x, dim, index, source, reduce)
