"""The code that sorts a long row of keys by several threads.

The row is moved into parts between keys of a sample, and then each part is sorted. Pieces of the row are moved at the
same time: first the keys of each part are counted in each piece, which tells where the piece writes. Pieces and parts
are the same for any number of threads.
"""

from __future__ import annotations

from itertools import pairwise

from tenon.runtime.cpu.ir_types import I1, I64, PTR, VOID, Struct, pointer
from tenon.runtime.cpu.ir_values import Function, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.sorting.elements import Elements, as_keys
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR

PARTS = 4
"""Into how many parts a row is moved. To find the part of a vector's keys takes as many instructions again for each."""

_PIECES = 8
"""How many pieces of a row are moved at the same time."""


def steps_of(code: Module, count: Value) -> Value:
    """After how many steps of halving so many keys should be single ones, twice over."""
    zeros = code.external("llvm.ctlz.i64", I64, I64, I1)(count, False)
    return (code.number(I64, 64) - zeros) * 2


class RowParts:
    """Writes `sort_long`, beside the functions that sort a block of up to `most` keys, and a part of a row."""

    def __init__(self, elements: Elements, most: int, sort_block: Function, sort_range: Function) -> None:
        self.elements, self.most = elements, most
        self.code, self.lanes = elements.code, elements.lanes
        lanes = self.lanes
        self.sort_block, self.sort_range = sort_block, sort_range
        # `ends` are the first keys of all parts but the first. `places` has for each part and piece how many keys there
        # are, then where they are written; then where each part starts, and the length.
        self.context = Struct(
            source=lanes.pointer,
            target=lanes.pointer,
            length=I64,
            order=elements.order,
            ends=lanes.pointer,
            places=pointer(I64),
        )
        self.task = {"context": pointer(self.context), "number": I64}
        self.count_piece = self._count_piece()
        self.move_piece = self._move_piece()
        self.sort_part = self._sort_part()
        self.sort_long = self._sort_long()

    def _piece(self, length: Value, number: Value) -> tuple[Value, Value]:
        """Where a piece starts and ends: all but the last have whole vectors."""
        code, width = self.code, self.lanes.count
        size = (length + (_PIECES * width - 1)) // (_PIECES * width) * width
        start, end = size * number, size * (number + 1)
        return code.select(start < length, start, length), code.select(end < length, end, length)

    def _belongs(self, keys: Value, ends: list[Value], inside: Value | None) -> list[Value]:
        """For each part the lanes whose keys are in it."""
        lanes = self.lanes
        below = [lanes.below(keys, end) for end in ends]
        first = below[0]
        found = [first, *[lanes.without(now, before) for before, now in pairwise(below)]]
        found.append(lanes.inverse(below[-1]))
        return found if inside is None else [lanes.both(chosen, inside) for chosen in found]

    def _count_piece(self) -> Function:
        code, lanes = self.code, self.lanes

        @code.function(VOID, **self.task)
        def count_piece(context: Value, number: Value) -> None:
            start, end = self._piece(context.length, number)
            source, keys = context.source, self.elements.keys(context.order)
            ends = [lanes.filled(context.ends[part]) for part in range(PARTS - 1)]
            counts = [code.local(I64, 0) for _ in range(PARTS)]

            def count(place: Value, inside: Value | None) -> None:
                found = keys(lanes.load_inside(source.at(place), inside))
                for local, chosen in zip(counts, self._belongs(found, ends, inside), strict=True):
                    local.set(local.address.load() + lanes.counted(chosen))

            lanes.for_each(start, end, count)
            places = context.places
            for part, local in enumerate(counts):
                places[number + part * _PIECES] = local.address.load()

        return count_piece

    def _move_piece(self) -> Function:
        code, lanes = self.code, self.lanes

        @code.function(VOID, **self.task)
        def move_piece(context: Value, number: Value) -> None:
            start, end = self._piece(context.length, number)
            ends = [lanes.filled(context.ends[part]) for part in range(PARTS - 1)]
            source, target, places = context.source, context.target, context.places
            keys = self.elements.keys(context.order)
            at = [code.local(I64, places[number + part * _PIECES]) for part in range(PARTS)]

            def move(place: Value, inside: Value | None) -> None:
                found = keys(lanes.load_inside(source.at(place), inside))
                for local, chosen in zip(at, self._belongs(found, ends, inside), strict=True):
                    to, count = local.address.load(), lanes.counted(chosen)
                    lanes.store_some(lanes.packed(found, chosen), target.at(to), lanes.first(count))
                    local.set(to + count)

            lanes.for_each(start, end, move)

        return move_piece

    def _sort_part(self) -> Function:
        code, lanes = self.code, self.lanes
        element = lanes.element

        @code.function(VOID, **self.task)
        def sort_part(context: Value, number: Value) -> None:
            starts = context.places.at(PARTS * _PIECES)
            start, end = starts[number], starts[number + 1]
            code.return_if(start == end)
            low, high = code.local(element, 0), code.local(element, -1)
            with code.if_(number > 0):
                low.set(context.ends[number - 1])
            with code.if_(number < PARTS - 1):
                high.set(context.ends[number] - 1)
            steps = steps_of(code, end - start)
            keys, order = context.target.at(start), context.order
            self.sort_range(keys, end - start, low.address.load(), high.address.load(), steps, order)

        return sort_part

    def _sort_long(self) -> Function:
        code, lanes = self.code, self.lanes
        parallel_for = code.external(PARALLEL_FOR, VOID, PTR, PTR, I64)

        @code.function(VOID, source=lanes.pointer, target=lanes.pointer, length=I64, order=self.elements.order)
        def sort_long(source: Value, target: Value, length: Value, order: Value) -> None:
            sample = code.array(lanes.element, self.most, 64)
            step = length // self.most
            with code.each(self.most) as i:
                sample[i] = source[i * step + step // 2]
            self.sort_block(sample, sample, self.most, order, as_keys(order))
            for part in range(PARTS - 1):
                sample[part] = sample[(part + 1) * self.most // PARTS]
            places = code.array(I64, PARTS * _PIECES + PARTS + 1)
            context = code.record(self.context)
            context.put(source=source, target=target, length=length, order=order, ends=sample, places=places)
            parallel_for(self.count_piece.address, context, _PIECES)
            place = code.local(I64, 0)
            with code.each(PARTS) as part:
                places[part + PARTS * _PIECES] = place.address.load()
                with code.each(_PIECES) as piece:
                    before = place.address.load()
                    place.set(before + places[part * _PIECES + piece])
                    places[part * _PIECES + piece] = before
            places[PARTS * _PIECES + PARTS] = length
            parallel_for(self.move_piece.address, context, _PIECES)
            parallel_for(self.sort_part.address, context, PARTS)

        return sort_long
