"""Matrices transposed in tiles of registers: element by element, each would be in another line of the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.runtime.cpu.ir_types import I64, Type, pointer, vector
from tenon.runtime.cpu.ir_values import Function, Value, transposed
from tenon.runtime.cpu.ir_writer import Module

_SIZE = 8
"""The rows and columns of a tile: as many as fill the widest vectors with f64; others take several."""


def turning(code: Module, real: Type) -> Function:
    """The function that makes `target` (columns, rows) of `source` (rows, columns), whose rows begin `width` elements
    apart."""
    matrix = pointer(real)

    @code.function(target=matrix, source=matrix, rows=I64, columns=I64, width=I64)
    def turned(target: Value, source: Value, rows: Value, columns: Value, width: Value) -> None:
        def tile(i: Value, j: Value) -> None:
            _store(target.at(j * rows + i), rows, transposed(_load(source.at(i * width + j), width)))

        def element(i: Value, j: Value) -> None:
            target[j * rows + i] = source[i * width + j]

        _for_each_tile(code, rows, columns, tile, element)

    return turned


def symmetrizing(code: Module, real: Type) -> Function:
    """The function that makes `target` (n, n) the symmetric part of `source`."""
    matrix = pointer(real)

    @code.function(target=matrix, source=matrix, n=I64)
    def symmetric(target: Value, source: Value, n: Value) -> None:
        def tile(i: Value, j: Value) -> None:
            beside = transposed(_load(source.at(j * n + i), n))
            own = _load(source.at(i * n + j), n)
            _store(target.at(i * n + j), n, [(x + y) * 0.5 for x, y in zip(own, beside, strict=True)])

        def element(i: Value, j: Value) -> None:
            target[i * n + j] = (source[i * n + j] + source[j * n + i]) * 0.5

        _for_each_tile(code, n, n, tile, element)

    return symmetric


def _for_each_tile(
    code: Module,
    rows: Value,
    columns: Value,
    tile: Callable[[Value, Value], None],
    element: Callable[[Value, Value], None],
) -> None:
    """Write what is done for tiles, by their first row and column, and for elements that fill none."""
    whole_rows, whole_columns = rows // _SIZE * _SIZE, columns // _SIZE * _SIZE
    with code.each(rows // _SIZE) as i, code.each(columns // _SIZE) as j:
        tile(i * _SIZE, j * _SIZE)
    with code.each(whole_rows) as i, code.each(columns, whole_columns) as j:
        element(i, j)
    with code.each(rows, whole_rows) as i, code.each(columns) as j:
        element(i, j)


def _load(place: Value, stride: Value) -> list[Value]:
    """The rows of the tile that begins there."""
    real = place.kind.to
    assert isinstance(real, Type)
    return [place.at(stride * i).load_vector(vector(_SIZE, real)) for i in range(_SIZE)]


def _store(place: Value, stride: Value, tile: Sequence[Value]) -> None:
    for i, row in enumerate(tile):
        place.at(stride * i).store_vector(row)
