"""Functions of one element, along arrays: `map` one after the other, `vectorize` for all that arrays broadcast to;
`tree_map` for the leaves of trees."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tenon.batching import vmap
from tenon.control_flow import scan
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import ops
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.dialects.types.shapes import normalize_axis, show
from tenon.runtime.arguments.tree import flatten, paths, unflatten
from tenon.transform import check_functions

_CORE = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_SIGNATURE = re.compile(rf"^\s*{_CORE}(?:\s*,\s*{_CORE})*\s*->\s*{_CORE}(?:\s*,\s*{_CORE})*\s*$")


@shows_user_frames
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """What `f` gives for each slice of the arrays `xs`, a tree of them, along their first axis, one after the other,
    stacked: `vmap` with the memory of one call. With `batch_size`, for so many at once.

    Raises `ValueError` where the arrays differ in size along that axis.
    """
    check_functions("map", f)
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"map: batch_size is {batch_size} where 1 or more is needed")
    given, structure = flatten(xs)
    leaves = [shaped(leaf, f"map: {name}") for leaf, name in zip(given, paths(structure, "xs"), strict=True)]
    if not leaves:
        raise TypeError("map: xs has no arrays")
    if any(not leaf.ndim for leaf in leaves):
        raise TypeError("map: among xs there is a number, which has no slices")
    sizes = [leaf.shape[0] for leaf in leaves]
    if len({*sizes}) > 1:
        raise ValueError(f"map: the arrays of xs have sizes {', '.join(str(size) for size in sizes)} along axis 0")

    def along(function: Callable[[Any], Any], arrays: Sequence[Any]) -> Any:
        return scan(lambda carry, x: (carry, function(x)), (), unflatten(structure, [*arrays]))[1]

    if batch_size is None:
        return along(f, leaves)
    together, whole = vmap(f), sizes[0] // batch_size * batch_size
    parts: list[Any] = []
    if whole:
        shapes = [(whole // batch_size, batch_size, *leaf.shape[1:]) for leaf in leaves]
        cut = [ops.narrow(leaf, 0, 0, whole) for leaf in leaves]
        found, kind = flatten(along(together, [ops.reshape(x, shape=s) for x, s in zip(cut, shapes, strict=True)]))
        parts.append(unflatten(kind, [ops.reshape(x, shape=(whole, *x.shape[2:])) for x in found]))
    if whole < sizes[0] or not parts:
        rest = [ops.narrow(leaf, 0, whole, sizes[0] - whole) for leaf in leaves]
        parts.append(together(unflatten(structure, rest)))
    if len(parts) == 1:
        return parts[0]
    (first, kind), (last, _) = (flatten(part) for part in parts)
    return unflatten(kind, [ops.concatenate([x, y], axis=0) for x, y in zip(first, last, strict=True)])


@shows_user_frames
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """What `f` gives for each leaf of `tree` and those of the trees `rest` at the same places, in a tree like `tree`.

    Trees are tuples, lists, dicts, dataclasses and modules, as arguments of functions of `jit` are, and leaves all
    else. `None` in `tree` stays `None`. Raises `ValueError` where the trees differ in the names of their leaves.

    >>> params, slopes = {"w": np.ones(2), "b": 0.5}, {"w": np.array([1.0, 2.0]), "b": 1.0}
    >>> tenon.tree_map(lambda p, g: p - 0.1 * g, params, slopes)
    """
    check_functions("tree_map", f)
    leaves, structure = flatten(tree)
    columns, names = [leaves], [*paths(structure)]
    for position, other in enumerate(rest):
        column, kind = flatten(other)
        found = dict(zip(paths(kind), column, strict=True))
        if differing := sorted(found.keys() ^ {*names}):
            raise ValueError(f"tree_map: {differing[0]} is in one of tree and rest[{position}], and not in the other")
        columns.append([found[name] for name in names])
    results = [None if row[0] is None else f(*row) for row in zip(*columns, strict=True)]
    return unflatten(structure, results)


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = (), signature: str | None = None
) -> Callable[..., Any]:
    """A function that computes `pyfunc`, a function of numbers, for all elements of arrays, which broadcast; compiled,
    unlike NumPy's.

    By `signature`, `(m,n),(n)->(m)` say, it is one of arrays: these are the last axes of the arguments and results,
    and the axes before broadcast. Arguments whose positions or names are `excluded` are passed on as they are.

    Raises `ValueError` for a signature that is none, and when called for shapes that do not fit it.
    """
    check_functions("vectorize", pyfunc)
    cores = None if signature is None else _cores(signature)

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        if unknown := [name for name in kwargs if name not in excluded]:
            raise TypeError(f"vectorize: argument {unknown[0]!r} is given by name and is not excluded")
        places = [i for i in range(len(args)) if i not in excluded]
        arrays = [shaped(args[i], f"vectorize: argument {i}") for i in places]
        inner = [()] * len(arrays) if cores is None else cores[0]
        if len(inner) != len(arrays):
            raise ValueError(
                f"vectorize: there are {len(arrays)} arguments, and the signature {signature} has {len(inner)}"
            )
        loops = _loops(arrays, inner, signature)
        try:
            shape = np.broadcast_shapes(*loops)
        except ValueError:
            shapes = ", ".join([show(loop) for loop in loops])
            raise ValueError(f"vectorize: arguments have shapes {shapes}, which do not broadcast") from None

        def called(*values: Any) -> Any:
            given = dict(zip(places, values, strict=True))
            found = pyfunc(*[given.get(i, args[i]) for i in range(len(args))], **kwargs)
            return found if cores is None else _checked(found, cores[1], signature)

        function, dims = called, [axis for axis, size in enumerate(shape) if size != 1]
        own = [(1,) * (len(shape) - len(loop)) + loop for loop in loops]
        for axis in reversed(dims):
            # What is the same along an axis of the others has no such axis.
            function = vmap(function, in_axes=tuple([0 if sizes[axis] != 1 else None for sizes in own]))
        flat = [
            ops.reshape(x, shape=(*[sizes[axis] for axis in dims if sizes[axis] != 1], *x.shape[x.ndim - len(core) :]))
            for x, sizes, core in zip(arrays, own, inner, strict=True)
        ]
        found, kind = flatten(function(*flat) if dims else _at_once(function, flat))
        return unflatten(kind, [ops.reshape(x, shape=(*shape, *x.shape[len(dims) :])) for x in found])

    return vectorized


def _at_once(function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """`function` of arrays along which there is nothing to go, traced as elsewhere."""
    rows = [ops.expand_dims(x, axis=0) for x in arrays]
    found, kind = flatten(vmap(function)(*rows))
    return unflatten(kind, [ops.squeeze(x, axis=0) for x in found])


def _cores(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The names of the last axes of arguments and results."""
    if not _SIGNATURE.match(signature):
        raise ValueError(f"vectorize: signature is {signature!r} where one as '(m,n),(n)->(m)' is needed")
    sides = [re.findall(r"\(([^)]*)\)", side) for side in signature.split("->")]
    left, right = ([tuple(re.findall(r"\w+", core)) for core in side] for side in sides)
    return left, right


def _loops(arrays: Sequence[Any], cores: Sequence[tuple[str, ...]], signature: str | None) -> list[tuple[int, ...]]:
    """The axes of each argument before those of the signature, whose sizes must agree."""
    sizes: dict[str, int] = {}
    loops: list[tuple[int, ...]] = []
    for number, (x, core) in enumerate(zip(arrays, cores, strict=True)):
        if x.ndim < len(core):
            raise ValueError(f"vectorize: argument {number} has rank {x.ndim}, too few axes for {signature}")
        split = x.ndim - len(core)
        loops.append(tuple(x.shape[:split]))
        for name, size in zip(core, x.shape[split:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"vectorize: {name} of {signature} is {sizes[name]} and, in argument {number}, {size}")
    return loops


def _checked(found: Any, cores: Sequence[tuple[str, ...]], signature: str | None) -> Any:
    """Results of the ranks that a signature says."""
    results = found if isinstance(found, tuple) else (found,)
    ranks = [shaped(result).ndim for result in results]
    if ranks != [len(core) for core in cores]:
        raise ValueError(f"vectorize: the ranks of the results are {ranks}, and the signature is {signature}")
    return found


@shows_user_frames
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """What `func1d(vector, *args, **kwargs)` gives for each vector of the array `arr` along `axis`, in whose place the
    axes of that are."""
    check_functions("apply_along_axis", func1d)
    arr = shaped(arr, "apply_along_axis: arr")
    axis = normalize_axis(axis, arr.ndim, "apply_along_axis: axis")
    others = [size for i, size in enumerate(arr.shape) if i != axis]
    rows = ops.reshape(ops.movedim(arr, axis, -1), shape=(math.prod(others), arr.shape[axis]))
    found = vmap(lambda row: func1d(row, *args, **kwargs))(rows)
    made = ops.reshape(found, shape=(*others, *found.shape[1:]))
    new = found.ndim - 1
    return ops.movedim(made, tuple(range(made.ndim - new, made.ndim)), tuple(range(axis, axis + new))) if new else made


@shows_user_frames
def piecewise(x: Any, condlist: Sequence[Any], funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """At each place of `x` what the function, or the number, of `funclist` is whose condition is the last true one of
    `condlist`, in the dtype of `x`; where none is, one function more, or 0. Functions are computed of all elements:
    `func(x, *args, **kw)`."""
    x = shaped(x, "piecewise: x")
    conditions = [*condlist] if isinstance(condlist, list | tuple) else [condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"piecewise: there are {len(funclist)} functions for {len(conditions)} conditions")

    def part(given: Any) -> Any:
        return ops.cast(given(x, *args, **kw), dtype=x.dtype) if callable(given) else ops.full_like(x, given)

    found = part(funclist[-1] if len(funclist) > len(conditions) else 0)
    for condition, given in zip(conditions, funclist, strict=False):
        found = ops.select(condition, part(given), found)
    return found
