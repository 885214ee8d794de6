"""The discrete Fourier transform, of complex numbers as pairs of real and imaginary part along the last axis.

A length is taken apart into factors of at most `_LARGEST_FACTOR` (Cooley and Tukey, Math. Comp. 19, 1965): each is a
product with a small matrix, so that n numbers take about n times the sum of the factors. A length with a larger prime
becomes a convolution of a length that is a power of two (Bluestein, IEEE Trans. Audio Electroacoust. 18, 1970). Where a
thread may do a row from end to end, rows of enough numbers, and columns side by side, are transformed by native code
(`fourier_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.batching import moved_axis, shifted_axes
from tenon.dialects.ops.contract.fourier_plan import COMPLEX, HALF, INVERSE, INVERSE_HALF, REAL, root
from tenon.dialects.ops.contract.fourier_rows import transformed_rows
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis, show
from tenon.dialects.types.types import FLOAT_TENSOR, numpy_dtype

Array = np.ndarray[Any, Any]

_LARGEST_FACTOR = 64
"""Lengths up to this one are one product with a matrix."""
_LARGEST_PRIME = 256
"""The same for a prime factor, where it is not worth a convolution."""


class Pair(NamedTuple):
    """Complex numbers: real and imaginary part, `None` where that is 0."""

    real: Value
    imaginary: Value | None

    def times(self, factors: Array) -> Pair:
        """The product with complex constants, which broadcast."""
        dtype = numpy_dtype(self.real.element_type)
        a, b = factors.real.astype(dtype), factors.imag.astype(dtype)
        if self.imaginary is None:
            return Pair(self.real * a, self.real * b)
        return Pair(self.real * a - self.imaginary * b, self.real * b + self.imaginary * a)

    def reshaped(self, *shape: int) -> Pair:
        return Pair(*[None if part is None else ops.reshape(part, shape=shape) for part in self])  # pyright: ignore[reportArgumentType]

    def turned(self, permutation: tuple[int, ...]) -> Pair:
        return Pair(*[None if part is None else ops.transpose(part, permutation=permutation) for part in self])  # pyright: ignore[reportArgumentType]


def _product(x: Pair, matrix: Array) -> Pair:
    """`x` (rows, n) times a complex constant (n, m), as one product of real matrices."""
    dtype = numpy_dtype(x.real.element_type)
    columns = matrix.shape[1]
    whole = np.concatenate([matrix.real, matrix.imag], axis=1)
    operand = x.real
    if x.imaginary is not None:
        whole = np.concatenate([whole, np.concatenate([-matrix.imag, matrix.real], axis=1)])
        operand = ops.concatenate([x.real, x.imaginary], axis=1)
    result = ops.matmul(operand, whole.astype(dtype))
    rows = operand.shape[0]
    parts = (ops.slice(result, starts=(0, start), limits=(rows, start + columns)) for start in (0, columns))
    return Pair(*parts)


def _factor(n: int) -> int:
    """The factor of `n` that is transformed first: the largest up to the limit, or else the smallest prime."""
    small = [d for d in range(2, min(n, _LARGEST_FACTOR) + 1) if n % d == 0]
    if n <= _LARGEST_FACTOR:
        return n
    if small:
        # Factors of about one size take the least work.
        steps = 1
        while n ** (1 / steps) > _LARGEST_FACTOR:
            steps += 1
        near = [d for d in small if d >= n ** (1 / steps) * 0.999]
        return near[0] if near else small[-1]
    return next((d for d in range(_LARGEST_FACTOR + 1, int(n**0.5) + 1) if n % d == 0), n)


def _transformed(x: Pair, sign: int, is_serial: bool) -> Pair:
    """The transform along the last axis of `x` (rows, n); one thread may do a row where it `is_serial`."""
    rows, n = x.real.shape
    if n == 1:
        return Pair(x.real, ops.zeros_like(x.real) if x.imaginary is None else x.imaginary)
    if is_serial and (found := _by_rows(x, sign)) is not None:
        return found
    r = _factor(n)
    if r == n:
        if n > _LARGEST_PRIME:
            return _by_convolution(x, sign, is_serial)
        return _product(x, root(n, np.outer(np.arange(n), np.arange(n)), sign))
    # With j = j1 * m + j2 and k = k1 + r * k2, the exponent j * k / n is j1 * k1 / r + j2 * k1 / n + j2 * k2 / m.
    m = n // r
    columns = x.reshaped(rows, r, m).turned((0, 2, 1)).reshaped(rows * m, r)
    inner = _transformed(columns, sign, is_serial).reshaped(rows, m, r)
    twisted = inner.times(root(n, np.outer(np.arange(m), np.arange(r)), sign))
    outer = _transformed(twisted.turned((0, 2, 1)).reshaped(rows * r, m), sign, is_serial).reshaped(rows, r, m)
    return outer.turned((0, 2, 1)).reshaped(rows, n)


def _by_rows(x: Pair, sign: int) -> Pair | None:
    """The same by native code, if there is any for the length."""
    real, imaginary = (ops.zeros_like(x.real) if part is None else part for part in x)
    # with real and imaginary parts exchanged, the sign is the other one
    parts = (real, imaginary) if sign < 0 else (imaginary, real)
    found = transformed_rows(ops.stack(parts, axis=-1), COMPLEX, real.shape[1])
    if found is None:
        return None
    parts = found[..., 0], found[..., 1]
    return Pair(*(parts if sign < 0 else parts[::-1]))


def _by_convolution(x: Pair, sign: int, is_serial: bool) -> Pair:
    """By j * k = (j^2 + k^2 - (k - j)^2) / 2, the transform is a convolution with the roots of squares."""
    rows, n = x.real.shape
    length = 1 << (2 * n - 2).bit_length()
    # Exponents count in halves; Python's integers keep their squares exact.
    squares = np.array([j * j % (2 * n) for j in range(n)])
    chirp = root(2 * n, squares, sign)
    kernel = np.zeros(length, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[length - n + 1 :] = chirp[1:][::-1].conj()
    scaled = x.times(chirp)
    padded = Pair(*[ops.pad(part, low=(0, 0), high=(0, length - n)) for part in scaled if part is not None])
    spectrum = _transformed(padded, -1, is_serial).times(np.fft.fft(kernel) / length)
    back = _transformed(spectrum, 1, is_serial)
    taken = Pair(*[ops.slice(part, starts=(0, 0), limits=(rows, n)) for part in back if part is not None])
    return taken.times(chirp)


def _of_length(x: Value, axis: int, n: int) -> Value:
    """`x` cut off or continued by zeros along `axis`."""
    size = x.shape[axis]
    if size > n:
        return ops.slice(x, starts=(0,) * x.ndim, limits=tuple([n if i == axis else s for i, s in enumerate(x.shape)]))
    if size < n:
        return ops.pad(x, low=(0,) * x.ndim, high=tuple([n - size if i == axis else 0 for i in range(x.ndim)]))
    return x


def _mirrored(x: Pair, n: int) -> Pair:
    """The spectrum of n real numbers from its first half: what follows is conjugate to it."""
    rows, half = x.real.shape
    behind = n - half
    if behind <= 0:
        return x

    def back(part: Value) -> Value:
        return ops.flip(ops.slice(part, starts=(0, 1), limits=(rows, 1 + behind)), axis=1)

    real = ops.concatenate([x.real, back(x.real)], axis=1)
    imaginary = None
    if x.imaginary is not None:
        imaginary = ops.concatenate([x.imaginary, ops.negative(back(x.imaginary))], axis=1)
    return Pair(real, imaginary)


@tensor_op
class DftOp(KeepsElement, CompositeOp):
    """The discrete Fourier transform of `x` (..., 2), pairs of real and imaginary part, or (..., 1), real numbers.

    It is the sum over j of x[j] * exp(-2 pi i j k / n) for each k along `axis` (not the last one, which holds the
    parts); with `inverse` the sign is the other one and the sum is divided by n. `length` is n, to which `x` is cut
    off or continued by zeros (default: its size). `onesided`: of real numbers only the first n // 2 + 1 results, of
    which the others are the conjugates; with `inverse` those are given, and the result is real (..., 1).

    >>> tenon.dft(np.array([[1.0], [2.0], [3.0], [4.0]]))
    >>> tenon.dft(np.array([[1.0], [2.0], [3.0], [4.0]]), onesided=True)
    """

    name = "tenon.dft"
    x = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-2)
    length = setting(int, default=None)
    inverse = setting(bool, default=False)
    onesided = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["length"] is not None and settings["length"] < 1:
            raise InferenceError(f"length is {settings['length']} where a number of at least 1 is needed")

    @staticmethod
    def count(size: int, length: int | None, inverse: bool, onesided: bool) -> int:
        """How many numbers are transformed, where `size` are given."""
        return length if length is not None else 2 * (size - 1) if inverse and onesided and size >= 0 else size

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        inverse, onesided = settings["inverse"], settings["onesided"]
        if len(shape) < 2 or shape[-1] not in (-1, 1, 2):
            raise InferenceError(f"x has shape {show(shape)} where (..., 2) or (..., 1) is needed")
        axis = normalize_axis(settings["axis"], len(shape))
        if axis == len(shape) - 1:
            raise InferenceError(f"axis is {settings['axis']}, which holds real and imaginary part")
        if onesided and not inverse and shape[-1] == 2:
            raise InferenceError("onesided is about real numbers, and x has an imaginary part")
        n = cls.count(shape[axis], settings["length"], inverse, onesided)
        if shape[axis] >= 0 and n < 1:
            raise InferenceError(f"dimension {axis} of x is {shape[axis]}, which gives no numbers to transform")
        out = n // 2 + 1 if onesided and not inverse and n >= 0 else n
        parts = 1 if onesided and inverse else 2
        return (*shape[:axis], out, *shape[axis + 1 : -1], parts)

    @classmethod
    def decompose(cls, x: Value, **settings: Any) -> Value:
        return cls._transform(x, **settings, is_serial=True)

    @classmethod
    def decompose_in_pieces(cls, x: Value, **settings: Any) -> Value:
        return cls._transform(x, **settings, is_serial=False)

    @classmethod
    def _transform(
        cls, x: Value, *, axis: int, length: int | None, inverse: bool, onesided: bool, is_serial: bool
    ) -> Value:
        axis = normalize_axis(axis, x.ndim)
        n = cls.count(x.shape[axis], length, inverse, onesided)
        given = _of_length(in_compute_type(x), axis, n // 2 + 1 if inverse and onesided else n)
        result = _rows_along(given, axis, n, inverse, onesided) if is_serial else None
        if result is None:
            result = _by_products(given, axis, n, inverse, onesided, is_serial=is_serial)
        return result.astype(x.element_type)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        return cls.apply(x, **settings | {"axis": shifted_axes(settings["axis"], x.ndim - 1)})

    @classmethod
    def vjp(
        cls, g: Value, out: Value, x: Value, *, axis: int, length: int | None, inverse: bool, onesided: bool
    ) -> tuple[Any, ...]:
        axis = normalize_axis(axis, x.ndim)
        n = cls.count(x.shape[axis], length, inverse, onesided)
        if onesided:
            # all but the first and, of an even number, the last one stand for their conjugates as well
            places = np.arange(n // 2 + 1).reshape(-1, *[1] * (x.ndim - axis - 1))
            weights = np.where(2 * places % n == 0, 1.0, 2.0).astype(numpy_dtype(x.element_type))
            if inverse:
                given = ops.dft(g, axis=axis, onesided=True) * (weights / n)
            else:
                given = ops.dft(g * (n / weights), axis=axis, length=n, inverse=True, onesided=True)
        else:
            given = ops.dft(g * (1.0 / n if inverse else float(n)), axis=axis, inverse=not inverse)
        given = _of_length(given, axis, x.shape[axis])
        return (given if given.shape[-1] == x.shape[-1] else given[..., : x.shape[-1]],)


def _rows_along(given: Value, axis: int, n: int, inverse: bool, onesided: bool) -> Value | None:
    """The transform of n numbers along `axis` by native code, if there is any for it."""
    parts = given.shape[-1]
    forwards = HALF if onesided else REAL if parts == 1 else COMPLEX
    kind = forwards if not inverse else INVERSE_HALF if onesided else INVERSE
    if inverse and parts == 1:
        return None
    if any(type(extent) is not int for extent in given.shape):
        return None
    before, size, behind = given.shape[:axis], given.shape[axis], given.shape[axis + 1 : -1]
    columns = _rows(ops.reshape(given, shape=(prod(before), size, prod(behind), parts)), kind, n) if behind else None
    if columns is not None:
        return ops.reshape(columns, shape=(*before, columns.shape[1], *behind, columns.shape[-1]))
    moved = moved_axis(given, axis, given.ndim - 2)
    *others, size, _ = moved.shape
    result = _rows(ops.reshape(moved, shape=(prod(others), size, parts)), kind, n)
    if result is None:
        return None
    return moved_axis(ops.reshape(result, shape=(*others, *result.shape[1:])), given.ndim - 2, axis)


def _rows(x: Value, kind: int, n: int) -> Value | None:
    """The same of `x` (rows, numbers, parts) or (rows, numbers, columns, parts)."""
    if kind not in (HALF, INVERSE_HALF):
        return transformed_rows(x, kind, n)
    result = None if n % 2 else transformed_rows(x, kind, n // 2)
    # where halves do not come apart, the whole may
    if result is None and kind == HALF and (whole := transformed_rows(x, REAL, n)) is not None:
        result = ops.slice(whole, starts=(0,) * x.ndim, limits=(whole.shape[0], n // 2 + 1, *whole.shape[2:]))
    return result


def _by_products(given: Value, axis: int, n: int, inverse: bool, onesided: bool, *, is_serial: bool) -> Value:
    """The same by products with matrices."""
    # (parts, others, axis)
    others = [i for i in range(given.ndim - 1) if i != axis]
    count = given.shape[-1]
    front = ops.transpose(given, permutation=(given.ndim - 1, *others, axis))
    rows = 1
    for i in others:
        rows = rows * given.shape[i]
    flat = ops.reshape(front, shape=(count, rows, given.shape[axis]))
    pair = Pair(*[flat[i] for i in range(count)], *[None] * (2 - count))
    if inverse and onesided:
        pair = _mirrored(pair, n)
    result = _transformed(pair, 1 if inverse else -1, is_serial)
    parts = [result.real] if inverse and onesided else [p for p in result if p is not None]
    joined = ops.stack(parts, axis=0)
    if onesided and not inverse:
        joined = ops.slice(joined, starts=(0, 0, 0), limits=(len(parts), rows, n // 2 + 1))
    if inverse:
        joined = joined * (1.0 / n)
    shaped = ops.reshape(joined, shape=(len(parts), *[given.shape[i] for i in others], joined.shape[-1]))
    back = [0] * (given.ndim - 1)
    for place, i in enumerate((*others, axis)):
        back[i] = place + 1
    return ops.transpose(shaped, permutation=(*back, 0))
