"""Derivatives of functions of tensors, by PyTorch's names: each calls the function at once."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenon
from tenon.eager.tensor import Tensor


def _called(function: Callable[..., Any], inputs: Any, is_kept: bool, name: str) -> tuple[Callable[..., Any], Any, Any]:
    """The function of several arguments, the positions of these, and the arguments."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    for position, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: input {position} is a {type(x).__name__} where a tensor is needed")
    args = tuple([x if is_kept else x.detach() for x in given])
    return function, tuple(range(len(args))) if isinstance(inputs, tuple) else 0, args


def jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False) -> Any:
    """The derivatives of the results of `func` by `inputs`, a tensor or a tuple: (*result, *input), for each result a
    tuple of one for each input. They have gradients if `create_graph`."""
    function, positions, args = _called(func, inputs, create_graph, "jacobian")
    return tenon.jacrev(function, positions)(*args)


def hessian(func: Callable[..., Any], inputs: Any, create_graph: bool = False) -> Any:
    """The second derivatives of `func`, a number, by `inputs`, a tensor or a tuple: (*input, *input), for each input a
    tuple of one for each input. They have gradients if `create_graph`."""
    function, positions, args = _called(func, inputs, create_graph, "hessian")
    return tenon.hessian(function, positions)(*args)


def _directions(inputs: Any, v: Any, name: str) -> tuple[Any, ...]:
    given, along = (x if isinstance(x, tuple) else (x,) for x in (inputs, v))
    if len(given) != len(along) or any(x.shape != d.shape for x, d in zip(given, along, strict=True)):
        raise ValueError(f"{name}: v has other shapes than inputs")
    return along


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """The results of `func`, and the derivatives by `inputs` of the sum of their products with `v`, which may be left
    out of a number."""
    function, positions, args = _called(func, inputs, create_graph, "vjp")
    if v is None:
        return tenon.value_and_grad(function, positions)(*args)
    result, found = tenon.vjp(function, *args, cotangent=v)
    return result, found if isinstance(inputs, tuple) else found[0]


def jvp(func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool = False) -> tuple[Any, Any]:
    """The results of `func`, and their derivatives along `v`, which is like `inputs`."""
    function, _, args = _called(func, inputs, create_graph, "jvp")
    return tenon.jvp(function, args, _directions(inputs, v, "jvp"))


def hvp(func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool = False) -> tuple[Any, Any]:
    """The number that `func` gives, and the products of its second derivatives by `inputs` with `v`, which is like
    `inputs`."""
    function, positions, args = _called(func, inputs, create_graph, "hvp")
    slopes = tenon.value_and_grad(function, positions)
    (value, _), (_, found) = tenon.jvp(slopes, args, _directions(inputs, v, "hvp"))
    return value, found


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vjp"]
