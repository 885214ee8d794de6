"""A block of keys sorted in vector registers, by a bitonic network (Batcher: Sorting networks and their applications,
AFIPS 1968; Knuth, volume 3, section 5.3.4).

Each key has an index, the bits of which say where it is: some are those of the register (row), the others those of the
lane. At first columns are runs, so that a network on whole registers sorts all of them at once. Then runs are merged in
pairs: keys are compared whose indices differ in one bit, from the highest bit of the pair down. Such keys are to lie in
two registers; where the bit is one of the lane, it changes places with a bit of the row first, by shuffles of pairs of
registers, and stays there for as long as it is needed. Runs that are to descend, every other one, are sorted with their
bits inverted. At the end the low bits of the index are those of the lane again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.runtime.cpu.ir_values import Value
from tenon.runtime.cpu.sorting.lanes import Lanes


def sorted_registers(lanes: Lanes, rows: Sequence[Value]) -> list[Value]:
    """The keys of `rows`, of which there is a power of two, in order: along the first register, then the second."""
    network = _Network(lanes, rows)
    network.sort_columns()
    network.merge_columns()
    return network.in_order()


class _Network:
    def __init__(self, lanes: Lanes, rows: Sequence[Value]) -> None:
        self.lanes, self.rows = lanes, list(rows)
        self.columns_from = len(rows).bit_length() - 1
        """The bit of the index from which on it says the column, at first."""
        self.bits = self.columns_from + lanes.count.bit_length() - 1
        self.row_bits = list(range(self.columns_from))
        self.lane_bits = list(range(self.columns_from, self.bits))
        """The bits of the index that are those of the row and the lane, lowest first."""

    def sort_columns(self) -> None:
        """Sort each column, every other one to descend, by odd-even merges, which take the fewest comparisons."""
        self._invert(self.columns_from)
        count, rows, step = len(self.rows), self.rows, 1
        while step < count:
            distance = step
            while distance:
                for row in range(distance % step, count - distance):
                    is_first = (row - distance % step) % (2 * distance) < distance
                    if is_first and row // (2 * step) == (row + distance) // (2 * step):
                        self._exchange(rows, row, row + distance)
                distance //= 2
            step *= 2

    def merge_columns(self) -> None:
        """Merge runs in pairs until all is one run."""
        ends = range(self.columns_from + 1, self.bits + 1)
        order = [bit for end in ends for bit in reversed(range(end))]
        done = 0
        for end in ends:
            self._invert(end - 1, end)
            for bit in reversed(range(end)):
                self._compare(bit, order[done:])
                done += 1

    def in_order(self) -> list[Value]:
        """The registers, once the lowest bits of the index are those of the lane."""
        width = len(self.lane_bits)
        for bit in range(width, self.bits):
            if bit in self.lane_bits:
                low = next(bit for bit in self.row_bits if bit < width)
                self._swap(self.row_bits.index(low), self.lane_bits.index(bit))
        places = [sum(((lane >> bit) & 1) << at for at, bit in enumerate(self.lane_bits)) for lane in self._lanes()]
        order = [
            sum(((row >> (bit - width)) & 1) << at for at, bit in enumerate(self.row_bits))
            for row in range(len(self.rows))
        ]
        rows = [self.rows[row] for row in order]
        return rows if places == list(self._lanes()) else [row.shuffled(places) for row in rows]

    def _lanes(self) -> range:
        return range(self.lanes.count)

    def _exchange(self, rows: list[Value], one: int, other: int) -> None:
        first, second = rows[one], rows[other]
        smaller = self.lanes.smaller(first, second)
        rows[one], rows[other] = smaller, first ^ second ^ smaller

    def _invert(self, *bits: int) -> None:
        """Invert the keys whose indices have an odd number of these bits; all bits of the whole index are none."""
        for row in range(len(self.rows)):
            odd = [sum(self._has(row, lane, bit) for bit in bits if bit < self.bits) % 2 for lane in self._lanes()]
            if any(odd):
                self.rows[row] = self.rows[row] ^ self.lanes.constant([-is_odd for is_odd in odd])

    def _has(self, row: int, lane: int, bit: int) -> int:
        """The bit of the index of the key that is there."""
        if bit in self.row_bits:
            return (row >> self.row_bits.index(bit)) & 1
        return (lane >> self.lane_bits.index(bit)) & 1

    def _compare(self, bit: int, order: Sequence[int]) -> None:
        """Put all pairs of keys in order whose indices differ in a bit; `order` has the bits from here on."""
        if not self.row_bits:
            self._compare_lanes(1 << self.lane_bits.index(bit))
            return
        if bit in self.lane_bits:
            # The one that is not needed for the longest time leaves: Belady's rule.
            waits = [[*order, other].index(other) for other in self.row_bits]
            self._swap(waits.index(max(waits)), self.lane_bits.index(bit))
        distance = 1 << self.row_bits.index(bit)
        for row in range(len(self.rows)):
            if not row & distance:
                self._exchange(self.rows, row, row + distance)

    def _compare_lanes(self, distance: int) -> None:
        lanes, (row,) = self.lanes, self.rows
        other = row.shuffled([lane ^ distance for lane in self._lanes()])
        is_upper = lanes.truths([bool(lane & distance) for lane in self._lanes()])
        self.rows = [lanes.chosen(is_upper, lanes.larger(row, other), lanes.smaller(row, other))]

    def _swap(self, at_row: int, at_lane: int) -> None:
        """Let a bit of the row and one of the lane change places."""
        below, distance = 1 << at_row, 1 << at_lane
        for row in range(len(self.rows)):
            if row & below:
                continue
            pair = self.rows[row], self.rows[row + below]
            for is_upper in (False, True):
                # The lanes whose bit is set come from the second register.
                places = [
                    ((lane | distance) if is_upper else (lane & ~distance)) + bool(lane & distance) * self.lanes.count
                    for lane in self._lanes()
                ]
                self.rows[row + is_upper * below] = pair[0].shuffled(places, pair[1])
        self.row_bits[at_row], self.lane_bits[at_lane] = self.lane_bits[at_lane], self.row_bits[at_row]
