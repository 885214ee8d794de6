"""`vmap`: a function of one example becomes one of many."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any

from xdsl.ir import Block

from tenon.dialects.definition.value import Value, inserting, ops
from tenon.dialects.families.batching import moved_axis, stacked
from tenon.dialects.support.user_traceback import call_user
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import element_of, tensor_type
from tenon.passes.transform.batch import batch
from tenon.runtime.arguments.arguments import is_array
from tenon.runtime.arguments.tree import Structure, flatten, paths, unflatten
from tenon.runtime.tracing.trace import traced, tracing_inside
from tenon.seeds import drawing_for_examples
from tenon.transform import at_once, check_functions, name_of, trees

_RANDOMNESS = ("error", "different", "same")


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    randomness: str = "same",
) -> Callable[..., Any]:
    """A function that computes `function` for many examples at once, without a loop where the ops allow it.

    `in_axes` says along which axis of the positional arguments the examples are: one axis for all, or a tuple of one
    entry per argument, which may be a tree of axes that is like the argument or ends early. `None` marks what is the
    same for every example. Keyword arguments have the examples along axis 0. `out_axes` says in the same way where the
    results have them; `None` is for what does not depend on an example. `axis_size` is the number of examples, needed
    where no argument has any. What is drawn without a key of its own (`Dropout`, `rand`) is, by `randomness`, the
    `"same"` for all examples, `"different"`, or an `"error"`.

    Raises `ValueError` naming the arguments where their numbers of examples differ, or where axes do not fit.
    """
    check_functions("vmap", function)
    if randomness not in _RANDOMNESS:
        raise ValueError(f"vmap: randomness is {randomness!r} where one of {', '.join(_RANDOMNESS)} is needed")

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        entries = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        if isinstance(entries, tuple) and len(entries) != len(args):
            raise ValueError(f"vmap: in_axes has {len(entries)} entries, and {len(args)} arguments are given")
        leaves, structure = flatten((args, kwargs))
        axes = _axes_of((entries, 0), structure, "vmap: in_axes")
        names = _names(function, args, kwargs)
        examples = [None if a is None else _example(x, a, n) for x, a, n in zip(leaves, axes, names, strict=True)]
        size = _common_size(examples, names, axis_size)

        numbers = ops.iota(shape=(size,), dtype="i32") if randomness == "different" else None
        batched_values = [x for x in (*examples, numbers) if x is not None]
        block = Block(arg_types=[_type_of_one(x) for x in batched_values])
        arguments = iter([Value(a) for a in block.args])
        given = [leaf if x is None else next(arguments) for leaf, x in zip(leaves, examples, strict=True)]
        number = None if numbers is None else next(arguments)
        with inserting(tracing_inside(block)), drawing_for_examples(randomness, number):
            own_args, own_kwargs = unflatten(structure, given)
            outputs, results = trees(call_user(function, *own_args, **own_kwargs), f"vmap: {name_of(function)}")
        targets = _axes_of(out_axes, results, "vmap: out_axes")
        values, batched = batch(block, batched_values, [v.ssa for v in outputs], size)
        described = zip(values, batched, targets, paths(results), strict=True)
        return unflatten(results, [_result(v, known, size, axis, name) for v, known, axis, name in described])

    return at_once(transformed)


def _axes_of(prefix: Any, structure: Structure, what: str) -> list[int | None]:
    """The axis of each leaf of `structure`, of which `prefix` has one for each leaf, or for all below a node."""
    axes, tree = flatten(prefix)
    remaining = iter(axes)
    return list(_spread_axes(tree, remaining, structure, what))


def _spread_axes(prefix: Structure, axes: Iterator[Any], structure: Structure, what: str) -> Iterator[int | None]:
    if prefix.kind is NoneType:
        yield from [None] * structure.size
    elif prefix.kind is None:
        axis = next(axes)
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"{what} has a {type(axis).__name__} where an axis or None is needed")
        yield from [axis] * structure.size
    elif prefix.kind is not structure.kind or prefix.names != structure.names:
        there = "an array" if structure.kind is None else f"{structure.kind.__name__} of ({', '.join(structure.names)})"
        raise ValueError(f"{what} has a {prefix.kind.__name__} of ({', '.join(prefix.names)}) where there is {there}")
    else:
        for inner, child in zip(prefix.children, structure.children, strict=True):
            yield from _spread_axes(inner, axes, child, what)


def _names(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """How errors name the leaves of the arguments."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        declared = [n for n, p in inspect.signature(function).parameters.items() if p.kind in kinds]
    except (TypeError, ValueError):  # built-in functions may not tell
        declared = []
    named = [*declared[: len(args)], *[f"argument {i}" for i in range(len(declared), len(args))], *kwargs]
    given = (*args, *kwargs.values())
    return [name for top, tree in zip(named, given, strict=True) for name in paths(flatten(tree)[1], top)]


def _example(leaf: Any, axis: int, name: str) -> Value:
    """The argument `leaf` with its examples, which are along `axis`, moved to the front."""
    if not is_array(leaf):
        raise TypeError(f"vmap: {name} is a {type(leaf).__name__} where an array is needed; give it the axis None")
    value = traced(leaf, name)
    if not -value.ndim <= axis < value.ndim:
        raise ValueError(
            f"vmap: {name} has shape {value.shape}, which has no axis {axis}; give it the axis None "
            "where it is the same for all examples"
        )
    return moved_axis(value, axis % value.ndim, 0)


def _common_size(examples: Sequence[Value | None], names: Sequence[str], axis_size: int | None) -> int:
    sizes = {name: x.shape[0] for x, name in zip(examples, names, strict=True) if x is not None}
    if axis_size is not None:
        if not isinstance(axis_size, int | Size) or axis_size < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"vmap: axis_size is {axis_size!r} where a number of examples is needed")
        sizes["axis_size"] = axis_size
    if not sizes:
        raise ValueError("vmap: no argument has examples (in_axes is None for all), and axis_size is not given")
    if len(set(sizes.values())) > 1:
        raise ValueError("vmap: numbers of examples differ: " + ", ".join(f"{n} has {v}" for n, v in sizes.items()))
    return next(iter(sizes.values()))


def _type_of_one(x: Value) -> Any:
    return tensor_type(x.shape[1:], element_of(x.type))


def _result(value: Value, is_batched: bool, size: int, axis: int | None, name: str) -> Value:
    """A result with its examples along `axis`."""
    if axis is None:
        if is_batched:
            raise ValueError(f"vmap: out_axes is None for result {name}, which depends on the example")
        return value
    whole = value if is_batched else stacked(value, size)
    if not -whole.ndim <= axis < whole.ndim:
        raise ValueError(f"vmap: out_axes is {axis} for result {name}, whose shape with the examples is {whole.shape}")
    return moved_axis(whole, 0, axis % whole.ndim)
