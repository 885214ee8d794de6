"""Tiles transposed in registers: square ones, whose `width` vectors of `width` lanes become the vectors across them,
and vectors that hold short rows behind each other, which become columns.

Where an input lies transposed to an output, say `y[i, j] = x[j, i]`, vectors along `j` can be stored but not loaded,
and vectors along `i` the other way round. A tile of `width` x `width` elements is loaded in vectors along `i`,
transposed by `vector.shuffle`, and then is the vectors along `j` that the rest of the statement takes.

An element is told by the bits of its register's number and of its lane's number, which have to change places. A step
changes one bit of each, for all registers in pairs, and has two forms, so that each of its shuffles is one instruction:

- inside of the parts that registers are made of, the halves of two parts are interleaved lane by lane (x86 `unpck`, Arm
  `zip`): the pair's bit becomes the lowest lane bit, all others move up, and the highest leaves to tell the registers
  apart;
- whole parts are sorted by their lowest bit, first those of one register, then those of the other (x86 `shuff64x2`,
  `perm2f128`): the pair's bit becomes the highest, all others move down, and the lowest leaves.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, VectorType, i64
from xdsl.ir import SSAValue

from tenon.dialects.upstream.vector_ops import GatherOp
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.kernels.turn_rows import prime_factors
from tenon.lowering.loop_ir.builder import LoopBuilder, vector_type


def transposed(builder: LoopBuilder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """The vectors across `rows`, of which there are as many as lanes, a power of two.

    Lane i of result j is lane j of row i. Costs log2(width) shuffles per vector.
    """
    width = len(rows)
    kind = rows[0].type
    assert isinstance(kind, VectorType)
    assert kind.get_shape() == (width,)
    assert width & (width - 1) == 0
    part = min(_part(builder, rows[0]), width)
    values = list(rows)
    bit = part >> 1
    while bit:  # the highest lane bit leaves first
        values = _step(builder, values, bit, _interleaved(width, part))
        bit >>= 1
    bit = part
    while bit < width:  # the lowest part bit leaves first
        values = _step(builder, values, bit, _sorted_parts(width, part))
        bit <<= 1
    return values


def runs_across(builder: LoopBuilder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """What `transposed` gives for no more rows than lanes, both powers of two: for each lane a vector of what the rows
    have there; the lanes of a row alone.

    Lanes are interleaved inside of parts, then whole parts are, once for each bit of the rows' numbers. What the rows
    have in a lane lies side by side then.
    """
    count, width = len(rows), _lanes(rows[0])
    if count == 1:
        return [lane_of(builder, rows[0], lane) for lane in range(width)]
    if count == width:
        return transposed(builder, rows)
    part = min(_part(builder, rows[0]), width)
    steps = [(bit, _interleaved(width, part)) for bit in _bits_below(min(count, part))]
    steps += [(bit * part, _interleaved_parts(width, part)) for bit in _bits_below(count // part)]
    values = list(rows)
    held = [list(range(width))] * count
    for bit, masks in steps:
        values = _step(builder, values, bit, masks)
        pairs = [(held[n & ~bit] + held[n | bit], masks[bool(n & bit)]) for n in range(count)]
        held = [[lanes[source] for source in mask] for lanes, mask in pairs]
    places = {lanes[start]: (n, start) for n, lanes in enumerate(held) for start in range(0, width, count)}
    found = [places[lane] for lane in range(width)]
    return [shuffle(builder, values[n], values[n], range(start, start + count)) for n, start in found]


def _bits_below(count: int) -> list[int]:
    """The powers of two below `count`, one itself, the largest first."""
    return [1 << bit for bit in reversed(range(count.bit_length() - 1))]


def _part(builder: LoopBuilder, value: SSAValue) -> int:
    """How many lanes a part of a register has, shuffles within which are cheap."""
    assert isinstance(value.type, VectorType)
    return max(builder.machine.part_bits // getattr(value.type.element_type, "bitwidth", 64), 1)


def _step(
    builder: LoopBuilder, values: Sequence[SSAValue], bit: int, masks: tuple[list[int], list[int]]
) -> list[SSAValue]:
    """All pairs of registers whose numbers differ in `bit`, each replaced by two shuffles of both."""
    results = list(values)
    for first in range(len(values)):
        if not first & bit:
            for number, mask in zip((first, first | bit), masks, strict=True):
                results[number] = shuffle(builder, values[first], values[first | bit], mask)
    return results


def columns_of(builder: LoopBuilder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """The columns of `rows`, vectors that hold one row of `len(rows)` elements per lane behind each other."""
    count, width = len(rows), _lanes(rows[0])
    if count == 1:
        return list(rows)
    p, *_ = prime_factors(count)
    groups = [rows[start : start + p] for start in range(0, count, p)]
    places = [[divmod(lane * p + part, width) for lane in range(width)] for part in range(p)]
    parts = [columns_of(builder, [gathered(builder, group, taken) for group in groups]) for taken in places]
    return [parts[column % p][column // p] for column in range(count)]


def rows_of(builder: LoopBuilder, columns: Sequence[SSAValue]) -> list[SSAValue]:
    """What `columns_of` takes to make `columns`."""
    count, width = len(columns), _lanes(columns[0])
    if count == 1:
        return list(columns)
    p, *_ = prime_factors(count)
    parts = [rows_of(builder, columns[part::p]) for part in range(p)]
    places = [
        [((first + lane) % p, (first + lane) // p) for lane in range(width)] for first in range(0, p * width, width)
    ]
    return [gathered(builder, group, taken) for group in zip(*parts, strict=True) for taken in places]


def _lanes(value: SSAValue) -> int:
    """How many lanes a vector has."""
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()[0]


def gathered(builder: LoopBuilder, vectors: Sequence[SSAValue], places: Sequence[tuple[int, int]]) -> SSAValue:
    """The vector whose lanes are at `places`: which of the `vectors`, and which of its lanes."""
    result, width = vectors[0], _lanes(vectors[0])
    for number, second in enumerate(vectors[1:] or vectors, 1):
        # Behind the first shuffle the lanes found so far are where they belong.
        mask = [
            taken + width if vector == number else taken if number == 1 and vector == 0 else lane
            for lane, (vector, taken) in enumerate(places)
        ]
        result = shuffle(builder, result, second, mask)
    return result


def gathered_lanes(builder: LoopBuilder, source: SSAValue, indices: Sequence[SSAValue], active: int | None) -> SSAValue:
    """The vector of what `source` has for each of the first `active` lanes (`None`: all) of those `indices` that are
    vectors, by one instruction where only the last of them is; the other lanes are 0, whatever their indices are."""
    *outer, places = indices
    element = element_type(source)
    if not isinstance(places.type, VectorType) or any(isinstance(index.type, VectorType) for index in outer):
        return loaded_lanes(builder, source, indices, active)
    width = _lanes(places)
    wide: Any = vector_type(element, width)
    zeros = builder.constant(DenseIntOrFPElementsAttr.from_list(wide, [0]), wide)
    mask = builder.mask(width if active is None else active, width)
    operands = (source, *outer, builder.index_constant(0), places, mask, zeros)
    return builder.value(GatherOp.create(operands=operands, result_types=(wide,)))


def loaded_lanes(builder: LoopBuilder, source: SSAValue, indices: Sequence[SSAValue], active: int | None) -> SSAValue:
    """The vector of what `source` has for each of the first `active` lanes (`None`: all) of those `indices` that are
    vectors; the other lanes are 0, whatever their indices are."""
    width = next(_lanes(index) for index in indices if isinstance(index.type, VectorType))
    element = element_type(source)
    wide: Any = vector_type(element, width)
    result = builder.constant(DenseIntOrFPElementsAttr.from_list(wide, [0]), wide)
    for lane in range(width if active is None else active):
        place = [lane_of(builder, x, lane) if isinstance(x.type, VectorType) else x for x in indices]
        read = builder.value(memref.LoadOp.create(operands=(source, *place), result_types=(element,)))
        result = builder.value(vector.InsertOp(read, result, [lane]))
    return result


def lane_of(builder: LoopBuilder, lanes: SSAValue, lane: int) -> SSAValue:
    """What a vector has in a lane."""
    assert isinstance(lanes.type, VectorType)
    return builder.value(vector.ExtractOp(lanes, [lane], lanes.type.element_type))


def shuffle(builder: LoopBuilder, first: SSAValue, second: SSAValue, mask: Sequence[int]) -> SSAValue:
    """The lanes of `first` and `second`, counted through, that `mask` names."""
    assert isinstance(first.type, VectorType)
    return builder.value(
        vector.ShuffleOp.create(
            operands=(first, second),
            result_types=(vector_type(first.type.element_type, len(mask)),),
            properties={"mask": DenseArrayBase.from_list(i64, mask)},
        )
    )


def vector_starts(step: int, width: int, active: int | None) -> list[int]:
    """Where vectors of `width` elements begin that together hold the first `active` of as many lanes, or all of them,
    `step` elements apart."""
    if active is not None:
        return [start for start in range(0, step * width, width) if start <= (active - 1) * step]
    # No vector reaches beyond the last lane, which may be the last element of the buffer.
    return sorted({min(part * width, (width - 1) * (step - 1)) for part in range(step)})


def lanes_apart(
    builder: LoopBuilder, vectors: Sequence[SSAValue], starts: Sequence[int], step: int, count: int
) -> SSAValue:
    """The first `count` lanes, `step` elements apart or in reverse, of which `vectors` that begin at `starts` hold
    all."""
    width = _lanes(vectors[0])
    places = [max(lane if step > 0 else count - 1 - lane, 0) * abs(step) for lane in range(width)]
    found = [(bisect(starts, place) - 1, place) for place in places]
    return gathered(builder, vectors, [(number, min(place - starts[number], width - 1)) for number, place in found])


def _interleaved(width: int, part: int) -> tuple[list[int], list[int]]:
    """The low halves of the parts of two registers lane by lane, and the high halves."""

    def half(start: int) -> list[int]:
        lanes = [base + start + lane for base in range(0, width, part) for lane in range(part // 2)]
        return [source for lane in lanes for source in (lane, lane + width)]

    return half(0), half(part // 2)


def _sorted_parts(width: int, part: int) -> tuple[list[int], list[int]]:
    """The even parts of two registers one after the other, and the odd ones."""

    def every_second(first: int) -> list[int]:
        return [base + lane for base in range(first * part, 2 * width, 2 * part) for lane in range(part)]

    return every_second(0), every_second(1)


def _interleaved_parts(width: int, part: int) -> tuple[list[int], list[int]]:
    """The first half of the parts of two registers in turns, and the second half."""

    def half(start: int) -> list[int]:
        firsts = [start + base for lane in range(0, width // 2, part) for base in (lane, lane + width)]
        return [first + lane for first in firsts for lane in range(part)]

    return half(0), half(width // 2)
