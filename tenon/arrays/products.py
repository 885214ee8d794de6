"""The standard's products of vectors and matrices, and norms, as compositions of ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tenon.control_flow import while_loop
from tenon.custom_rules import custom_vjp
from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import floating, shaped
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import element_type, f32, f64


@also_called(dims="axes")
def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """The sums of products over `axes`: so many last ones of `x1` and first ones of `x2`, or those that two sequences
    name. The others of `x1` and then of `x2` are left."""
    left, right = shaped(x1), shaped(x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(left.ndim, right.ndim):
            raise ValueError(f"tensordot: axes is {axes}, and the ranks are {left.ndim} and {right.ndim}")
        first, second = range(left.ndim - axes, left.ndim), range(axes)
    else:
        first = [normalize_axis(axis, left.ndim, "tensordot: axes[0]") for axis in axes[0]]
        second = [normalize_axis(axis, right.ndim, "tensordot: axes[1]") for axis in axes[1]]
    sizes = [left.shape[axis] for axis in first], [right.shape[axis] for axis in second]
    if sizes[0] != sizes[1]:
        raise ValueError(f"tensordot: the axes have sizes {sizes[0]} in x1 and {sizes[1]} in x2")
    letters = [chr(ord("a") + i) for i in range(left.ndim + right.ndim)]
    names = letters[left.ndim :]
    for ours, other in zip(first, second, strict=True):
        names[other] = letters[ours]
    rest = [letters[i] for i in range(left.ndim) if i not in first]
    rest += [names[i] for i in range(right.ndim) if i not in second]
    formula = f"{''.join(letters[: left.ndim])},{''.join(names)}->{''.join(rest)}"
    return ops.einsum(formula, left, right)


@also_called(dim="axis")
@one_program_of_large
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sums of products along `axis`, which counts from the last of both; all other axes broadcast."""
    left, right = shaped(x1), shaped(x2)
    if axis >= 0 and left.ndim != right.ndim:
        raise ValueError(f"vecdot: axis is {axis} where one counted from the last is needed")
    sizes = [x.shape[normalize_axis(axis, x.ndim, "vecdot: axis")] for x in (left, right)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"vecdot: axis {axis} has {sizes[0]} elements in x1 and {sizes[1]} in x2")
    return ops.sum(ops.multiply(left, right), axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals (..., k) of the matrices `x` (..., m, n), `offset` above the main ones."""
    return ops.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: object = None) -> Any:
    """The sums (...,) of the diagonals of the matrices `x` (..., m, n), in their dtype unless `dtype` is another."""
    return ops.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Any:
    """The products of `n` of the square matrices `x` (..., m, m), of their inverses where `n` is negative."""
    base = shaped(x)
    if base.ndim < 2 or base.shape[-1] != base.shape[-2]:
        raise ValueError(f"matrix_power: x has shape {base.shape} where (..., m, m) is needed")
    if n < 0:
        base, n = ops.inv(base), -n
    result: Any = None
    while n:
        if n & 1:
            result = base if result is None else ops.matmul(result, base)
        n >>= 1
        base = ops.matmul(base, base) if n else base
    return ops.broadcast_to(ops.eye(base.shape[-1], dtype=base.dtype), shape=base.shape) if result is None else result


@also_called(dim="axis", keepdim="keepdims")
def vector_norm(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The norms of order `ord` of the vectors along `axis`: all elements as one vector without it.

    Of the orders inf and -inf it is the largest and the smallest magnitude, of 0 how many elements are not 0. Where a
    norm is 0 its gradient is 0.
    """
    return ops.norm(shaped(x), p=float(ord), axis=axis, keepdims=keepdims)


@also_called(keepdim="keepdims")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    """The norms of the matrices `x` (..., m, n): "fro", 1, -1 of columns and inf, -inf of rows, or of the singular
    values the largest (2), the smallest (-2) or the sum ("nuc").
    """
    values = shaped(x)
    if values.ndim < 2:
        raise ValueError(f"matrix_norm: x has rank {values.ndim} where 2 or more is needed")
    if ord == "fro" or ord is None:
        return vector_norm(values, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, float("inf"), float("-inf")):
        sums = ops.sum(ops.abs(floating(values)), axis=-2 if abs(float(ord)) == 1 else -1, keepdims=True)
        if float(ord) > 0:
            return ops.max(sums, axis=(-2, -1), keepdims=keepdims, start=0)
        return ops.min(sums, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        singular = ops.svdvals(values)
        if ord == "nuc":
            norms = ops.sum(singular, axis=-1)
        else:
            norms = ops.max(singular, axis=-1, start=0) if ord == 2 else ops.min(singular, axis=-1)
        return ops.expand_dims(norms, axis=(-2, -1)) if keepdims else norms
    raise ValueError(f"matrix_norm: ord is {ord!r} where 'fro', 'nuc', 1, -1, 2, -2, inf or -inf is needed")


@also_called(dim="axis", keepdim="keepdims")
def norm(x: Any, ord: float | str | None = None, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The norm of order `ord` of `x`: of vectors along `axis`, of matrices if these are two axes, of the whole without
    `axis`, which is one vector if there is no `ord` either."""
    values = shaped(x)
    axes = None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if axes is None and ord is None:
        return vector_norm(values, keepdims=keepdims)
    if axes is None:
        axes = tuple(range(values.ndim))
    if len(axes) not in (1, 2):
        raise ValueError(f"norm: there are {len(axes)} axes where one or two are needed, of vectors or of matrices")
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"norm: ord is {ord!r} where the order of a norm of vectors is needed")
        return vector_norm(values, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    places = tuple([normalize_axis(one, values.ndim, "norm: axis") for one in axes])
    found = matrix_norm(ops.movedim(values, places, (-2, -1)), ord=ord)
    return ops.expand_dims(found, axis=places) if keepdims else found


# Coefficients of Padé's approximants of the exponential, and up to which norm of a matrix they are exact to the last
# places: N. J. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
_PADE_7 = (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0)
_PADE_13 = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
    *(10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
_SHORT, _LONG = (_PADE_7, 3.925724783138660), (_PADE_13, 5.371920351148152)


def matrix_exp(x: Any, /) -> Any:
    """The exponentials of the square matrices `x` (..., n, n): sums of their powers over the factorials.

    Computed by scaling and squaring (see Higham, 2005); floats of 16 bits in f32. Those of integers are f32, as what
    `inv` and the factorizations give.
    """
    given = shaped(x)
    if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
        raise ValueError(f"matrix_exp: x has shape {tuple(given.shape)} where (..., n, n) is needed")
    if given.dtype.kind in "biu":
        given = ops.cast(given, dtype="f32")
    if not given.shape[-1]:
        return given
    if element_type(given.dtype) in (f32, f64):
        return _exponential(given)
    return ops.cast(_exponential(ops.cast(given, dtype="f32")), dtype=given.dtype)


def _scaled_and_squared(x: Any) -> Any:
    terms, most = _LONG if element_type(x.dtype) == f64 else _SHORT
    norm = ops.max(ops.sum(ops.abs(x), axis=-2), axis=-1)
    halvings = ops.maximum(ops.ceil(ops.log2(ops.maximum(norm, most) / most)), 0.0)
    halvings = ops.expand_dims(ops.select(halvings < math.inf, halvings, 0.0), axis=(-2, -1))
    x = x * ops.exp2(-halvings)
    # The even powers, and the sums of those with odd and with even coefficients.
    square, power = ops.matmul(x, x), ops.eye(x.shape[-1], dtype=x.dtype)
    odd, even = power * terms[1], power * terms[0]
    for place in range(2, len(terms), 2):
        power = square if place == 2 else ops.matmul(power, square)
        odd, even = odd + power * terms[place + 1], even + power * terms[place]
    odd = ops.matmul(x, odd)
    found = ops.solve(even - odd, even + odd)

    def squared(state: tuple[Any, Any]) -> tuple[Any, Any]:
        done, found = state
        return done + 1.0, ops.select(done < halvings, ops.matmul(found, found), found)

    most_halvings = ops.max(halvings) if math.prod(halvings.shape) else 0.0
    return while_loop(lambda state: state[0] < most_halvings, squared, (ops.zeros((), x.dtype), found))[1]


def _turned_exponential(x: Any, g: Any) -> tuple[Any]:
    """The derivative at the transposed matrices in the direction `g`: the upper right part of an exponential."""
    n, turned = x.shape[-1], ops.swapaxes(x, -1, -2)
    above = ops.concatenate([turned, g], axis=-1)
    below = ops.concatenate([ops.zeros_like(turned), turned], axis=-1)
    return (_exponential(ops.concatenate([above, below], axis=-2))[..., :n, n:],)


_exponential = custom_vjp(_scaled_and_squared)
_exponential.defvjp(lambda x: (_exponential(x), x), _turned_exponential)
