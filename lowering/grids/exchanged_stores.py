"""Results that lanes hold as matrix instructions deal them out, stored 16 bytes at a time.

Four lanes have the pairs of eight neighbours of a row, and the next eight are in the same lanes. Pairs of 4 bytes that
each lane stored by itself would be half of a sector in each of eight rows. So lanes exchange pairs of four times eight
neighbours, in two steps of two shuffles each, after which each lane has eight neighbours of its own. (That transposes a
matrix by exchanges of halves: J. O. Eklundh, IEEE Transactions on Computers, 1972.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import SSAValue

from tenon.lowering.grids.across_threads import shuffled
from tenon.lowering.grids.copies import copy_out, vector_of
from tenon.lowering.grids.thread_code import REGISTERS, Registers, ThreadCode, kept_loops
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, Steps, vector_type
from tenon.lowering.steps.nest import Bind, Loop, Nest, NestAccess
from tenon.lowering.steps.vectorize import allows_vectors

PAIRS, PAIR = 4, 2
"""Of a row of eight neighbours, each in a lane, and elements of each."""
ROW = PAIRS * PAIR


@dataclass(frozen=True)
class _Dealt:
    """The loops of the last dimension of an output: from eight neighbours to the next, from lane to lane, in a pair."""

    rows: Loop
    lanes: Loop
    pair: Loop


def store_out(code: ThreadCode, access: NestAccess, array: Registers, condition: SSAValue | None) -> None:
    """Store what the thread has of an output, where the condition holds; all threads of a warp come here together."""
    dealt = _dealt(code.nest, access, array.loops)
    if dealt is None:
        copy_out(code, access, array, condition)
    else:
        _store_exchanged(code, access, array, dealt, condition)


def are_exchanged(nest: Nest, access: NestAccess) -> bool:
    """Whether lanes exchange what they have of an output, all of which is in registers then."""
    return _dealt(nest, access, kept_loops(nest.loops_of(access.axes))) is not None


def _dealt(nest: Nest, access: NestAccess, held: Sequence[Loop]) -> _Dealt | None:
    """How lanes hold an output, if four of these are to exchange pairs."""
    pair = vector_of(nest, access)
    if pair is None or not held or held[-1] is not pair or pair.extent != PAIR:
        return None
    if ROW * access.access.element_bytes != nest.machine.access:
        return None
    loops, last = nest.loops_of([pair.axis]), nest.bound(Bind.LANE)[-1:]
    lanes = [loop for loop in loops if loop.bind is Bind.LANE]
    rows = [loop for loop in loops if loop.unrolled and loop in held]
    if [(loop.extent, loop.stride) for loop in lanes] != [(PAIRS, PAIR)] or len(rows) != 1:
        return None
    if [loop.name for loop in last] != [lanes[0].like or lanes[0].name]:
        return None
    if rows[0].stride != ROW or rows[0].extent % PAIRS:
        return None
    if any(loop.stride % ROW for loop in loops if loop not in (pair, lanes[0])):
        return None
    whole = nest.extents[pair.axis] % ROW == 0 and allows_vectors(nest, access, pair.axis, ROW)
    return _Dealt(rows[0], lanes[0], pair) if whole else None


def _store_exchanged(
    code: ThreadCode, access: NestAccess, array: Registers, dealt: _Dealt, condition: SSAValue | None
) -> None:
    buffer, builder = access.access.buffer, code.builder
    element, lane = element_type(buffer), code.positions[dealt.lanes.name]
    row = code.allocate(i32, [PAIRS], REGISTERS)
    number = builder.index(lane)
    odd = builder.index(code.remainder(lane, 2))
    lower = {1: code.equal(odd, 0), 2: code.less(number, 2)}

    def load(source: SSAValue, indices: Sequence[SSAValue], type_: VectorType) -> SSAValue:
        return code.value(vector.LoadOp.create(operands=(source, *indices), result_types=(type_,)))

    def four_rows(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
        pairs: list[SSAValue] = []
        for n in range(PAIRS):
            with code.at({dealt.rows.name: at.scaled(PAIRS) + n, dealt.pair.name: Position()}):
                pair = load(array.memref, code.register(array), vector_type(element, PAIR))
            word = code.value(vector.BitcastOp(pair, vector_type(i32, 1)))
            pairs.append(code.value(vector.ExtractOp(word, [0], i32)))
        for distance, is_lower in lower.items():
            _exchange(code, pairs, distance, is_lower)
        for n, pair in enumerate(pairs):
            code.store(pair, row, [builder.index_constant(n)])
        own = {dealt.rows.name: at.scaled(PAIRS) + lane, dealt.lanes.name: Position(), dealt.pair.name: Position()}
        with code.at(own):
            inside = code.all_of((condition, code.inside(access.axes)))
            code.when(inside, store)
        return ()

    def store() -> None:
        words = load(row, [builder.index_constant(0)], vector_type(i32, PAIRS))
        whole = code.value(vector.BitcastOp(words, vector_type(element, ROW)))
        builder.add(vector.StoreOp.create(operands=(whole, buffer, *code.place(access))))

    def all_rows() -> None:
        builder.sequential(Steps(0, dealt.rows.extent // PAIRS), (), four_rows)
        code.mark_unrolled(dealt.rows.extent // PAIRS)

    code.over([loop for loop in array.loops if loop not in (dealt.rows, dealt.pair)], all_rows)


def _exchange(code: ThreadCode, pairs: list[SSAValue], distance: int, is_lower: SSAValue) -> None:
    """Trade pairs with the lane whose number differs by `distance`: the lower one gives those whose numbers have this
    bit for those of the other that do not."""

    def chosen(lower: SSAValue, upper: SSAValue) -> SSAValue:
        return code.value(arith.SelectOp(is_lower, lower, upper))

    for n in range(PAIRS):
        if n & distance == 0:
            first, second = pairs[n], pairs[n | distance]
            received = shuffled(code, chosen(second, first), distance)
            pairs[n], pairs[n | distance] = chosen(first, received), chosen(received, second)
