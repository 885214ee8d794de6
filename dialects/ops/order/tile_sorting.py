"""Rows sorted by digits where a row is work for many threads, as on a GPU (see `digit_code`).

What a block can hold it sorts in one go: a row of up to 8192 elements is read once and written once, and so are the
first few elements of each tile of a longer one. A row that is longer is moved by one digit after the other: blocks
count how often each value of the digit is in their tiles, these counts are added up, which tells where the elements of
a tile go, and blocks put their tiles in order by the digit and move them there, in runs of neighbours. For each digit a
row is read twice and written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.opaque import Kernel, OpaqueOp
from tenon.dialects.ops.order.digit_code import (
    DIGIT_BITS,
    VALUES,
    Tiles,
    argsort_code,
    count_code,
    digits_of,
    longest_tile,
    move_code,
    sort_code,
)
from tenon.dialects.ops.order.ordering import Order
from tenon.dialects.types.shapes import InferenceError, compatible, show
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    element_of,
    element_type,
    i32,
    i64,
    is_narrow,
    shape_of,
    tensor_type,
)

Array = np.ndarray[Any, Any]


def _is_computed_with(types: Sequence[Any], settings: dict[str, Any]) -> bool:
    return not is_narrow(element_of(types[0]))


def _kernel(source: Callable[..., str], tiles: Callable[..., Tiles]) -> tuple[Kernel, ...]:
    """The kernel with the text `source(symbol, tiles, element, settings)`, run by a block for each of the tiles that
    `tiles(types, settings)` are."""

    def text(symbol: str, types: Sequence[Any], results: Sequence[Any], settings: dict[str, Any]) -> str:
        return source(symbol, tiles(types, settings), element_of(types[0]), settings)

    def launch(types: Sequence[Any], settings: dict[str, Any]) -> tuple[int, int]:
        return tiles(types, settings).launch

    return (Kernel("tiles", "cuda", text, _is_computed_with, "elements of 8 bits or more", launch),)


def _whole_rows(types: Sequence[Any], settings: dict[str, Any]) -> Tiles:
    return Tiles(*_rows(types[0]), 1)


def _tiles_of_setting(types: Sequence[Any], settings: dict[str, Any]) -> Tiles:
    return Tiles(*_rows(types[0]), settings["tiles"])


def _tiles_of_starts(types: Sequence[Any], settings: dict[str, Any]) -> Tiles:
    return Tiles(*_rows(types[0]), (shape_of(types[-1]) or (0,))[-1])


def _rows(x: Any) -> tuple[int, int]:
    rows, length = shape_of(x) or (0, 0)
    return int(rows), int(length)


class _RowsOp(OpaqueOp):
    """An op of rows `x` (rows, n), in tiles."""

    HAS_FUNCTION: ClassVar[bool] = False
    traits = traits_def(Pure(), NoGradient())

    @classmethod
    def row_shape(cls, x: Any) -> tuple[int, int] | None:
        """The shape of `x`; raises `InferenceError` unless it is one of rows."""
        shape = shape_of(x)
        if shape is not None and len(shape) != 2:
            raise InferenceError(f"x has shape {show(shape)} where (rows, n) is needed")
        return None if shape is None else (shape[0], shape[1])


def _order(x: Array, descending: bool) -> Order:
    return Order.of(element_type(x.dtype), descending)


# ------------------------------------------------------------------------------------------- what a block can hold


@tensor_op
class SortTilesOp(_RowsOp):
    """The rows of `x` (rows, n) each sorted, smallest element first, or largest first if `descending`, by one block of
    a GPU each. NaN is larger than every number; n is at most 8192, for elements of 64 bits 4096.
    """

    name = "tiles.sort"
    x = operand_def(ANY_TENSOR)
    descending = setting(bool, default=False)
    result = result_def(ANY_TENSOR)
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(sort_code, _whole_rows)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = cls.row_shape(x)
        if shape is not None and shape[1] > longest_tile(element_of(x)):
            longest = longest_tile(element_of(x))
            raise InferenceError(f"x has rows of {shape[1]} elements, and a block sorts at most {longest}")
        return x

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        (x,) = operands
        keys = _order(x, settings["descending"]).keys(x)
        return np.take_along_axis(x, np.argsort(keys, axis=-1, kind="stable"), -1)


@tensor_op
class LeadingOfTilesOp(_RowsOp):
    """Rows of `x` (rows, n) are cut into `tiles` of nearly equal size, of which a block of a GPU sorts one each: the
    places (i64) in their row of the first `k` elements of each tile (rows, tiles, k), smallest element first, or
    largest first if `descending`. Equal elements keep their order, and NaN is larger than every number.
    """

    name = "tiles.leading"
    x = operand_def(ANY_TENSOR)
    tiles = setting(int)
    k = setting(int)
    descending = setting(bool, default=False)
    result = result_def(INTEGER_TENSOR)
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(argsort_code, _tiles_of_setting)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        tiles, k, shape = settings["tiles"], settings["k"], cls.row_shape(x)
        if tiles < 1 or k < 1:
            raise InferenceError(f"tiles is {tiles} and k is {k} where numbers of at least 1 are needed")
        if shape is None:
            return tensor_type(None, i64)
        longest = longest_tile(element_of(x))
        if shape[1] > tiles * longest or 0 <= shape[1] // tiles < k:
            raise InferenceError(
                f"x has rows of {shape[1]} elements in {tiles} tiles, where a tile has {k} to {longest}"
            )
        return tensor_type((shape[0], tiles, k), i64)

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        (x,), tiles, k = operands, settings["tiles"], settings["k"]
        keys = _order(x, settings["descending"]).keys(x)
        bounds = [tile * x.shape[1] // tiles for tile in range(tiles + 1)]
        found = [np.argsort(keys[:, a:b], axis=-1, kind="stable")[:, :k] + a for a, b in pairwise(bounds)]
        return np.stack(found, axis=1)


# ------------------------------------------------------------------------------------------------- digit by digit


class _DigitOp(_RowsOp):
    """An op of the digit number `digit` of elements, 0 being the lowest, of integers that stand in their order."""

    @staticmethod
    def check_digit(x: Any, digit: int) -> None:
        """Raise `InferenceError` unless elements of `x` have the digit."""
        if not 0 <= digit < digits_of(element_of(x)):
            raise InferenceError(f"digit is {digit}, and {element_of(x)} has {digits_of(element_of(x))}")


def _digits(x: Array, settings: dict[str, Any]) -> Array:
    """The digits of the elements of `x`."""
    keys = _order(x, settings["descending"]).keys(x)
    kind = keys.dtype.type
    return ((keys >> kind(DIGIT_BITS * settings["digit"])) & kind(VALUES - 1)).astype(np.int64)


@tensor_op
class CountDigitsOp(_DigitOp):
    """How often (i32) each value of a `digit` of 8 bits is in each of the `tiles` of nearly equal size that rows of `x`
    (rows, n) are cut into: (rows, 256, tiles).

    Digits are those of unsigned integers that stand in the order of the elements, number 0 being the lowest.
    """

    name = "tiles.count_digits"
    x = operand_def(ANY_TENSOR)
    digit = setting(int)
    tiles = setting(int)
    descending = setting(bool, default=False)
    result = result_def(INTEGER_TENSOR)
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(count_code, _tiles_of_setting)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        cls.check_digit(x, settings["digit"])
        shape = cls.row_shape(x)
        return tensor_type(None if shape is None else (shape[0], VALUES, settings["tiles"]), i32)

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        (x,), tiles = operands, settings["tiles"]
        rows, length = x.shape
        counts = np.zeros((rows, VALUES, tiles), np.int32)
        bounds = [tile * length // tiles for tile in range(tiles + 1)]
        tile = np.searchsorted(bounds, np.arange(length), "right") - 1
        np.add.at(counts, (np.arange(rows)[:, None], _digits(x, settings), tile), 1)
        return counts


class _MoveOp(_DigitOp):
    @classmethod
    def check_starts(cls, x: Any, starts: Any, digit: int) -> None:
        """Raise `InferenceError` unless `starts` fits `x` and its elements have the digit."""
        cls.check_digit(x, digit)
        shape, given = cls.row_shape(x), shape_of(starts)
        if shape is not None and given is not None and (len(given) != 3 or given[:2] != (shape[0], VALUES)):
            raise InferenceError(f"starts has shape {show(given)} where ({shape[0]}, {VALUES}, tiles) is needed")
        if (element := element_of(starts)) not in (None, i32):
            raise InferenceError(f"starts is of element type {element} where i32 is needed")


@tensor_op
class MoveByDigitOp(_MoveOp):
    """The rows of `x` (rows, n) ordered by a `digit` of 8 bits; what has the same value keeps its order.

    `starts` (rows, 256, tiles; i32) says where in the result the elements of each tile with each value begin: the sums
    of `count_digits` of all that is before.
    """

    name = "tiles.move_by_digit"
    x = operand_def(ANY_TENSOR)
    starts = operand_def(INTEGER_TENSOR)
    digit = setting(int)
    descending = setting(bool, default=False)
    result = result_def(ANY_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(move_code, _tiles_of_starts)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, starts = operands
        cls.check_starts(x, starts, settings["digit"])
        return x

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        x, _ = operands
        return np.take_along_axis(x, np.argsort(_digits(x, settings), axis=-1, kind="stable"), -1)


@tensor_op
class MovePairsByDigitOp(_MoveOp):
    """As `move_by_digit`, and `places` (rows, n; i32) moved with the elements."""

    name = "tiles.move_pairs_by_digit"
    x = operand_def(ANY_TENSOR)
    places = operand_def(INTEGER_TENSOR)
    starts = operand_def(INTEGER_TENSOR)
    digit = setting(int)
    descending = setting(bool, default=False)
    moved = result_def(ANY_TENSOR)
    moved_places = result_def(INTEGER_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(partial(move_code, with_places=True), _tiles_of_starts)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, places, starts = operands
        cls.check_starts(x, starts, settings["digit"])
        if not compatible(places, tensor_type(shape_of(x), i32)):
            raise InferenceError(f"places is {places} where (rows, n) of i32 as x, {x}, are needed")
        return x, places

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        x, places, _ = operands
        order = np.argsort(_digits(x, settings), axis=-1, kind="stable")
        return np.take_along_axis(x, order, -1), np.take_along_axis(places, order, -1)


# ------------------------------------------------------------------------------------------------------ whole rows


def sorted_rows(x: Value, descending: bool) -> Value:
    """The rows of `x` (rows, n) each sorted."""
    if x.shape[1] <= longest_tile(x.element_type):
        return SortTilesOp.apply(x, descending=descending)
    for digit in range(digits_of(x.element_type)):
        x = MoveByDigitOp.apply(x, _starts(x, digit, descending), digit=digit, descending=descending)
    return x


def leading_places(x: Value, k: int, descending: bool) -> Value:
    """The places (i64) in their row of the first `k` elements of the rows of `x` (rows, n) in sorted order."""
    (rows, size), longest = x.shape, longest_tile(x.element_type)
    tiles = -(-size // longest)
    if tiles > 1 and k * _LEAST_LEFT_OUT > longest:
        return ops.cast(_sorted_places(x, descending)[:, :k], dtype=i64)
    places = LeadingOfTilesOp.apply(x, tiles=tiles, k=k, descending=descending)
    places = ops.reshape(places, shape=(rows, tiles * k))
    if tiles == 1:
        return places
    leading = leading_places(ops.gather_elements(x, places, axis=1), k, descending)
    return ops.gather_elements(places, leading, axis=1)


_LEAST_LEFT_OUT = 8
"""Of so many elements of each tile one is kept at most while the first ones are looked for: with more, digits of the
whole row cost less than the tiles of what is kept."""


def _sorted_places(x: Value, descending: bool) -> Value:
    return _by_digits(x, digits_of(x.element_type), descending)[1]


def sorted_pairs(x: Value, largest: int) -> tuple[Value, Value]:
    """The rows of `x` (rows, n; i32) each sorted, and the places (i32) where the elements were; equal ones keep their
    order. Elements are from 0 to `largest`, whose digits alone are looked at."""
    if x.shape[1] > longest_tile(x.element_type):
        return _by_digits(x, max(1, -(-largest.bit_length() // DIGIT_BITS)), descending=False)
    places = leading_places(x, x.shape[1], descending=False)
    return ops.gather_elements(x, places, axis=1), ops.cast(places, dtype=i32)


def _by_digits(x: Value, digits: int, descending: bool) -> tuple[Value, Value]:
    """The rows of `x` sorted by so many digits, and the places where the elements were."""
    places = ops.iota(shape=x.shape, axis=1, dtype=i32)
    for digit in range(digits):
        starts = _starts(x, digit, descending)
        x, places = MovePairsByDigitOp.apply(x, places, starts, digit=digit, descending=descending)
    return x, places


def _starts(x: Value, digit: int, descending: bool) -> Value:
    """Where the elements of each tile of `x` with each value of a digit go."""
    rows, size = x.shape
    tiles = -(-size // longest_tile(x.element_type))
    counts = CountDigitsOp.apply(x, digit=digit, tiles=tiles, descending=descending)
    starts = ops.cumsum(ops.reshape(counts, shape=(rows, VALUES * tiles)), axis=1, exclusive=True)
    return ops.reshape(starts, shape=(rows, VALUES, tiles))
