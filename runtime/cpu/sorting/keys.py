"""The code that sorts rows in vectors: `void tenon_sort_BITS(ptr source, ptr target, i64 rows, i64 length, iBITS
magnitude, iBITS infinity, iBITS inverted)`.

Elements are sorted as keys, unsigned integers in their order; the last three arguments say which they are (`elements`).
A row is sorted by partition (quicksort: Hoare, 1962): vectors are read from whichever end has less room left, and what
is below the pivot is packed towards the front, the rest towards the back. Blocks that fit the vector registers are
sorted by a network (`network`). The pivot is the median of a sample at places that depend on the length alone. What is
known of the smallest and the largest key of a part shrinks with each step, so that equal keys are found to be so; and
where parts stay long for too many steps, the range of keys is halved instead, so that there are never many more steps
than a key has bits.

A long row is first moved, by several threads at once, into parts between keys of a sample (`parts`); not so where the
target is the source.
"""

from __future__ import annotations

from tenon.passes.machine import GENERIC
from tenon.runtime.cpu.ir_types import I64, PTR, VOID, Struct, Type, pointer
from tenon.runtime.cpu.ir_values import Function, Operand, Value
from tenon.runtime.cpu.ir_writer import FINAL, Module
from tenon.runtime.cpu.sorting.elements import Elements, as_keys, order_type
from tenon.runtime.cpu.sorting.lanes import Lanes
from tenon.runtime.cpu.sorting.names import sorter_name
from tenon.runtime.cpu.sorting.network import sorted_registers
from tenon.runtime.cpu.sorting.parts import PARTS, RowParts, steps_of
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR

_MOST_ROWS, _MOST_KEYS = GENERIC.registers, 512
"""The vectors and keys of the largest block. Some of as many vectors wait in memory; still sorting took a tenth less
time than with half of them. Blocks of more keys would be longer code, which is compiled before anything is sorted."""

_UNROLLED = 8
"""Vectors that are moved in one step: their reads do not wait for the counts of those before."""

_SAMPLE = 16
"""Keys whose median is the pivot, or four times as many."""

_LARGE = 1 << 14
"""From so many keys on a larger sample is worth its sorting."""

_LONG = 1 << 15
"""From so many keys on a row is work for several threads."""

_TASKS = 64
"""Threads take many short rows in so many portions."""


def key_sorter(bits: int) -> Module:
    """The module with the sorter of elements of `bits`, for a processor that packs such lanes."""
    return _KeySorter(bits).code


class _KeySorter:
    """Writes the functions of a module, each before those that call it."""

    def __init__(self, bits: int) -> None:
        self.code = Module()
        self.lanes = lanes = Lanes(self.code, bits, GENERIC.vector_bits)
        self.elements = Elements(lanes)
        rows = [1 << number for number in range(min(_MOST_ROWS, _MOST_KEYS // lanes.count).bit_length())]
        self.blocks = {count: self._block(count) for count in rows}
        self.most = rows[-1] * lanes.count
        """Keys of the largest block."""
        self.sort_block = self._sort_block()
        self.partition = self._partition()
        self.pivot = self._pivot()
        self.sort_range = self._sort_range()
        self.sort_row = self._sort_row()
        parts = RowParts(self.elements, self.most, self.sort_block, self.sort_range)
        self._sort_rows(parts)

    # --- blocks

    def _block(self, rows: int) -> Function:
        """The sorter of blocks of at most `rows` vectors, of elements `given` in one order to those of another. Between
        they are keys in registers: what was just written to a part of a vector would be waited for when it is read."""
        code, lanes = self.code, self.lanes

        def block(source: Value, target: Value, count: Value, given: Value, wanted: Value) -> None:
            last, keys_of, elements_of = lanes.filled_with(-1), self.elements.keys(given), self.elements.of_keys(wanted)
            # More than half of the rows are full: fewer keys are a smaller block.
            full = rows // 2
            inside = {row: lanes.first(self._rest(count, row)) for row in range(full, rows)}
            keys = [keys_of(lanes.load(source.at(row * lanes.count))) for row in range(rows)]
            for row, chosen in inside.items():
                keys[row] = lanes.chosen(chosen, keys[row], last)
            for row, sorted_row in enumerate(map(elements_of, sorted_registers(lanes, keys))):
                place = target.at(row * lanes.count)
                if row < full:
                    place.store_vector(sorted_row)
                else:
                    lanes.store_some(sorted_row, place, inside[row])

        block.__name__ = f"block_{rows}"
        # There is nothing to be made better in them, and half of the time would go into trying.
        return code.function(VOID, FINAL, **self._block_arguments)(block)

    @property
    def _block_arguments(self) -> dict[str, Type]:
        pointer, order = self.lanes.pointer, self.elements.order
        return {"source": pointer, "target": pointer, "count": I64, "given": order, "wanted": order}

    def _rest(self, count: Value, row: int) -> Value:
        """How many keys of a block of `count` are in a row."""
        code, width = self.code, self.lanes.count
        rest = count - row * width
        rest = code.select(rest < 0, code.number(I64, 0), rest)
        return code.select(rest > width, code.number(I64, width), rest)

    def _copied(self) -> Function:
        code, lanes = self.code, self.lanes

        @code.function(VOID, "noinline", source=lanes.pointer, target=lanes.pointer, count=I64)
        def copied(source: Value, target: Value, count: Value) -> None:
            def use(place: Value, inside: Value | None) -> None:
                target.at(place).store_vector(lanes.load_inside(source.at(place), inside))

            lanes.for_each(code.number(I64, 0), count, use)

        return copied

    def _sort_block(self) -> Function:
        """Sorts what a block holds. Blocks read whole vectors, as those of which some lanes are read take more than
        twice as long to arrive; where the last one could reach a page that is not there, a copy of it is sorted."""
        code, lanes = self.code, self.lanes
        size, copied = lanes.element.size, self._copied()

        @code.function(VOID, **self._block_arguments)
        def sort_block(source: Value, target: Value, count: Value, given: Value, wanted: Value) -> None:
            for rows, block in self.blocks.items():
                with code.if_(count <= rows * lanes.count):
                    start = source.to(I64)
                    last, end = start + count * size - 1, start + (rows * lanes.count * size - 1)
                    with code.if_((last ^ end) >= GENERIC.page):
                        room = code.array(lanes.element, rows * lanes.count, 64)
                        copied(source, room, count)
                        block(room, target, count, given, wanted)
                        code.return_()
                    block(source, target, count, given, wanted)
                    code.return_()

        return sort_block

    # --- partition

    def _partition(self) -> Function:
        """Puts keys below the pivot in front of the others and says how many they are; there are more than a block."""
        code, lanes = self.code, self.lanes
        width = lanes.count
        step = _UNROLLED * width

        @code.function(I64, "noinline", keys=lanes.pointer, count=I64, pivot=lanes.element)
        def partition(keys: Value, count: Value, pivot: Value) -> Operand:
            pivots = lanes.filled(pivot)
            rest = count % step
            rows = range(_UNROLLED)
            # What does not fill steps, and a step at each end, wait in registers: so there is room to write.
            none = lanes.filled_with(0)
            inside = [lanes.first(self._rest(rest, row)) for row in rows]
            odd = [lanes.load_some(keys.at(row * width), inside[row], none) for row in rows]
            front, back = keys.at(rest), keys.at(count - step)
            held = [lanes.load(end.at(row * width)) for end in (front, back) for row in rows]
            read, read_end = code.local(I64, rest + step), code.local(I64, count - step)
            below, above = code.local(I64, 0), code.local(I64, count)
            with code.loop():
                start, end, low, high = (local.address.load() for local in (read, read_end, below, above))
                code.break_if(start >= end)
                place = code.local(I64, start)
                # A jump, which is foreseen half of the time: what it costs is less than what reads would wait for the
                # counts of the step before.
                with code.if_((high - end) < (start - low)):
                    place.set(end - step)
                    read_end.set(end - step)
                with code.else_():
                    read.set(start + step)
                place = keys.at(place.address.load())
                for vector in [lanes.load(place.at(row * width)) for row in rows]:
                    is_below = lanes.below(vector, pivots)
                    found = lanes.counted(is_below)
                    # There is room for whole vectors in front; what is behind the keys is written again.
                    keys.at(low).store_vector(lanes.packed(vector, is_below))
                    left = code.number(I64, width) - found
                    low, high = low + found, high - left
                    others = lanes.packed(vector, lanes.inverse(is_below))
                    lanes.store_some(others, keys.at(high), lanes.first(left))
                below.set(low)
                above.set(high)
            low, high = below.address.load(), above.address.load()
            for vector, chosen in [*[(vector, None) for vector in held], *zip(odd, inside, strict=True)]:
                is_below = lanes.below(vector, pivots)
                others = lanes.inverse(is_below)
                if chosen is not None:
                    is_below, others = lanes.both(is_below, chosen), lanes.both(others, chosen)
                found, left = lanes.counted(is_below), lanes.counted(others)
                lanes.store_some(lanes.packed(vector, is_below), keys.at(low), lanes.first(found))
                low, high = low + found, high - left
                lanes.store_some(lanes.packed(vector, others), keys.at(high), lanes.first(left))
            return low

        return partition

    def _pivot(self) -> Function:
        """The median of a sample."""
        code, lanes = self.code, self.lanes

        @code.function(lanes.element, "noinline", keys=lanes.pointer, count=I64, as_are=self.elements.order)
        def median(keys: Value, count: Value, as_are: Value) -> Operand:
            sample = code.array(lanes.element, 4 * _SAMPLE, 64)

            def median_of(size: int) -> Value:
                step = count // size
                start = step // 2
                with code.each(size) as i:
                    sample[i] = keys[start + step * i]
                self.blocks[max(size // lanes.count, 1)](sample, sample, size, as_are, as_are)
                return sample[size // 2]

            with code.if_(count < _LARGE):
                code.return_(median_of(_SAMPLE))
            return median_of(4 * _SAMPLE)

        return median

    def _sort_range(self) -> Function:
        """Sorts keys that lie from `low` to `high`, and makes elements of them. After `steps` steps, the range is
        halved."""
        code, lanes = self.code, self.lanes
        element, order_kind, decode = lanes.element, self.elements.order, self.elements.decode

        @code.function(VOID, keys=lanes.pointer, count=I64, low=element, high=element, steps=I64, order=order_kind)
        def sort_range(keys: Value, count: Value, low: Value, high: Value, steps: Value, order: Value) -> None:
            at, left = code.local(lanes.pointer, keys), code.local(I64, count)
            lowest, highest, turns = code.local(element, low), code.local(element, high), code.local(I64, steps)
            with code.loop():
                keys, count, low, high, steps = (v.address.load() for v in (at, left, lowest, highest, turns))
                with code.if_(count <= self.most):
                    self.sort_block(keys, keys, count, as_keys(order), order)
                    code.return_()
                with code.if_(low == high):
                    decode(keys, count, order)
                    code.return_()
                turns.set(steps - 1)
                pivot = code.local(element, low + ((high - low) // 2 + 1))
                with code.if_(steps > 0):
                    found = self.pivot(keys, count, as_keys(order))
                    # The first part is to have a key at least: then there are fewer to be told apart.
                    pivot.set(code.select(found == low, low + 1, found))
                first_above = pivot.address.load()
                middle = self.partition(keys, count, first_above)
                with code.if_(middle < count - middle):
                    sort_range(keys, middle, low, first_above - 1, steps - 1, order)
                    at.set(keys.at(middle))
                    left.set(count - middle)
                    lowest.set(first_above)
                with code.else_():
                    sort_range(keys.at(middle), count - middle, first_above, high, steps - 1, order)
                    left.set(middle)
                    highest.set(first_above - 1)

        return sort_range

    # --- rows

    def _sort_row(self) -> Function:
        code, lanes = self.code, self.lanes

        @code.function(VOID, source=lanes.pointer, target=lanes.pointer, count=I64, order=self.elements.order)
        def sort_row(source: Value, target: Value, count: Value, order: Value) -> None:
            with code.if_(count <= self.most):
                self.sort_block(source, target, count, order, order)
                code.return_()
            self.elements.encode(source, target, count, order)
            self.sort_range(target, count, 0, -1, steps_of(code, count), order)

        return sort_row

    def _sort_rows(self, parts: RowParts) -> None:
        code, lanes = self.code, self.lanes
        element = lanes.element
        rows_kind = Struct(source=lanes.pointer, target=lanes.pointer, rows=I64, length=I64, order=self.elements.order)
        parallel_for = code.external(PARALLEL_FOR, VOID, PTR, PTR, I64)

        @code.function(VOID, context=pointer(rows_kind), number=I64)
        def sort_some(context: Value, number: Value) -> None:
            count, length = context.rows, context.length
            start, end = count * number // _TASKS, count * (number + 1) // _TASKS
            with code.each(end, start) as row:
                place = row * length
                self.sort_row(context.source.at(place), context.target.at(place), length, context.order)

        def sort(source: Value, target: Value, rows: Value, length: Value, **order: Value) -> None:
            given = Value(code, self.elements.order, code.array(element, 2 * len(order)).name)
            given.put(**order)
            as_keys(given).put(magnitude=0, infinity=-1, inverted=0)
            with code.if_((rows * length < _LONG) | (source == target)):
                with code.each(rows) as row:
                    self.sort_row(source.at(row * length), target.at(row * length), length, given)
                code.return_()
            with code.if_(rows >= PARTS):
                context = code.record(rows_kind)
                context.put(source=source, target=target, rows=rows, length=length, order=given)
                parallel_for(sort_some.address, context, _TASKS)
                code.return_()
            with code.each(rows) as row:
                parts.sort_long(source.at(row * length), target.at(row * length), length, given)

        sort.__name__ = sorter_name(lanes.bits)
        order = dict.fromkeys(order_type(element).fields, element)
        code.function(VOID, source=lanes.pointer, target=lanes.pointer, rows=I64, length=I64, **order)(sort)
