"""Square tiles transposed in registers: `width` vectors of `width` lanes become the vectors across them.

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

from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import SSAValue

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
    part = min(max(builder.machine.part_bits // getattr(kind.element_type, "bitwidth", 64), 1), width)
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
