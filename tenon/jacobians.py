"""Matrices of derivatives: `jacrev`, `jacfwd`, `hessian`, each a derivative along every direction at once by `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tenon.batching import vmap
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.types import is_float
from tenon.runtime.arguments.tree import Structure, describe, flatten, unflatten
from tenon.transform import at_once, check_functions, jvp, trees, vjp


def jacrev(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the derivatives of each element of the result of `function` by each element of argument
    `argnums` (a tuple for several): for a result of shape (m...) and an argument (n...) an array (m..., n...).

    Each element of the result is pulled back, which suits results that are small. Trees give the tree of the result, in
    which each array is a tree like the argument.
    """
    return _jacobian(function, argnums, "jacrev", _rows)


def jacfwd(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """As `jacrev`, by pushing each element of the argument forward, which suits arguments that are small."""
    return _jacobian(function, argnums, "jacfwd", _columns)


def hessian(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `function` by each two elements of argument `argnums`: for a
    number and an argument of shape (n...) an array (n..., n...).
    """
    check_functions("hessian", function)
    return jacfwd(jacrev(function, argnums), argnums)


_Leaves = Sequence[Sequence[Any]]


def _jacobian(
    function: Callable[..., Any],
    argnums: int | Sequence[int],
    name: str,
    derivatives: Callable[[Callable[..., Any], Sequence[Any]], tuple[_Leaves, Structure]],
) -> Callable[..., Any]:
    check_functions(name, function)
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        for position in wanted:
            if not -len(args) <= position < len(args):
                raise ValueError(f"{name}: argument {position} is asked for, but {len(args)} are given")
        leaves, structure = trees([args[position] for position in wanted], name)
        if others := [str(leaf.type) for leaf in leaves if not is_float(leaf.element_type)]:
            raise TypeError(f"{name}: an argument has {', '.join(others)} where floating-point arrays are needed")

        def of_leaves(*given: Any) -> Any:
            arguments = list(args)
            for position, argument in zip(wanted, unflatten(structure, given), strict=True):
                arguments[position] = argument
            return function(*arguments, **kwargs)

        found, results = derivatives(of_leaves, leaves)
        rows = [unflatten(structure, row) for row in found]
        return unflatten(results, [row[0] if isinstance(argnums, int) else tuple(row) for row in rows])

    return at_once(transformed)


def _rows(function: Callable[..., Any], leaves: Sequence[Value]) -> tuple[_Leaves, Structure]:
    """For each array of the result, its derivatives by each of `leaves`; and the structure of the result."""
    value, pull_back = vjp(function, *leaves)
    outputs, structure = _floats(value, "jacrev")
    found: list[Sequence[Any]] = []
    for place, output in enumerate(outputs):

        def along(seed: Any, place: int = place) -> Any:
            seeds = [seed if i == place else ops.zeros_like(other) for i, other in enumerate(outputs)]
            return pull_back(unflatten(structure, seeds))

        rows = vmap(along)(_directions(output))
        found.append([_shaped(row, (*output.shape, *x.shape)) for row, x in zip(rows, leaves, strict=True)])
    return found, structure


def _columns(function: Callable[..., Any], leaves: Sequence[Value]) -> tuple[_Leaves, Structure]:
    """As `_rows`, by the derivatives of the whole result in the direction of each element of `leaves`."""
    columns: list[Sequence[Any]] = []
    structures: list[Structure] = []
    for place, leaf in enumerate(leaves):

        def along(direction: Any, place: int = place) -> Any:
            tangents = [direction if i == place else ops.zeros_like(other) for i, other in enumerate(leaves)]
            value, pushed = jvp(function, leaves, tangents)
            structures.append(_floats(value, "jacfwd")[1])
            return flatten(pushed)[0]

        along_each = vmap(along, out_axes=-1)(_directions(leaf))
        columns.append([_shaped(column, (*column.shape[:-1], *leaf.shape)) for column in along_each])
    return list(zip(*columns, strict=True)), structures[0]


def _floats(value: Any, name: str) -> tuple[list[Value], Structure]:
    outputs, structure = trees(value, name)
    if not all(is_float(output.element_type) for output in outputs):
        kinds = ", ".join(str(output.type) for output in outputs) or describe(value)
        raise TypeError(f"{name}: the result is of type {kinds} where floating-point arrays are needed")
    return outputs, structure


def _directions(x: Value) -> Value:
    """One for each element of `x`, (elements, shape...)."""
    count = prod(x.shape)
    return _shaped(ops.asarray(np.eye(count, dtype=x.dtype)), (count, *x.shape))


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else ops.reshape(x, shape=shape)
