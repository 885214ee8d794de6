"""Which tile of the result of a product of matrices a block is to compute, told by a formula.

A multiprocessor takes as long as what limits it most. Begun instructions, operands from L2 and what goes through shared
memory each take their time for all of its tiles, beside what no other block can fill: the latency of the first copies
and of the last results. Memory takes its time for all that is read and written once. And a block alone takes all of
these one after the other: where a multiprocessor has few at a time, that is the limit, which large tiles of short
products reach, as they leave no registers for the next block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from tenon.lowering.explanation import Row
from tenon.lowering.grid_schedules.elementwise import accesses
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.products import MatrixProduct
from tenon.lowering.steps.step import Step
from tenon.passes.machine import GPU_REGISTER, Gpu

BESIDE_SUMS = 56
"""What a thread has to keep beside its sums: addresses, loops and what follows, about as the assembler says."""
BUSY = 2
"""How many times as long memory takes to answer where it is busy."""
EQUAL = 1.05
"""How much longer takes as long: what follows from a formula is no nearer to the truth."""
WORK = ("products", "L2", "shared memory")
"""What grows with the work of a multiprocessor."""


@dataclass(frozen=True)
class Block:
    """What computes a tile of so many rows and columns: `moved` elements go through shared memory for each step along
    the reduced axes, and `shared` bytes of it are taken."""

    rows: int
    columns: int
    threads: int
    moved: int
    shared: int
    lasts: bool = False
    """Whether it goes on to the next tile while results are stored, whose operands are copied ahead."""


@dataclass(frozen=True)
class Candidate:
    """A tile of the result, and the cycles that a multiprocessor takes for its part of all tiles, by what limits it."""

    rows: int
    columns: int
    blocks: int
    cycles: dict[str, float]
    threads: int
    registers: int
    """Of a thread."""
    from_memory: float
    """The share of what blocks copy of operands that comes from memory: the rest is in a cache."""
    resident: int
    """Blocks that a multiprocessor has at a time."""

    @property
    def bound(self) -> str:
        """What takes longest."""
        return max(self.cycles, key=lambda name: self.cycles[name])

    @property
    def longest(self) -> float:
        """The cycles that it takes."""
        return self.cycles[self.bound]

    def facts(self) -> Row:
        """What is told of it."""
        size = f"{self.rows}x{self.columns}"
        return {"tile": size, "blocks": self.blocks, "cycles": round(self.longest), "bound": self.bound}


def ranked(tiles: Iterable[Candidate]) -> list[Candidate]:
    """The tiles, the one to choose first: those that take the fewest cycles, of equally many those of the least work,
    then the largest, which reads least again, in whatever shape does. Where products take longest, equal work is not
    told by what the last tiles leave idle."""
    known = list(tiles)
    best = min(known, key=lambda tile: tile.longest)
    least = EQUAL * best.longest

    def work(tile: Candidate) -> float:
        return max(tile.cycles[name] for name in WORK)

    least_work = min(work(tile) for tile in known if tile.longest <= least)
    least_work *= EQUAL if best.bound == "products" else 1

    def order(tile: Candidate) -> tuple[float, float, int, float]:
        again = sum(tile.cycles[name] for name in WORK)
        return max(tile.longest, least), max(work(tile), least_work), -tile.rows * tile.columns, again

    return sorted(known, key=order)


def candidate(nest: Nest, product: MatrixProduct, block: Block) -> Candidate:
    """A tile, with what it takes."""
    machine, size = nest.machine, product.left.access.element_bytes
    rows, columns = block.rows, block.columns
    depth = prod(nest.extents[axis] for axis in (product.reduced, *product.around))
    products = prod(nest.extents[axis] for axis in product.others(nest))
    down, across = -(-nest.extents[product.row] // rows), -(-nest.extents[product.column] // columns)
    blocks = products * down * across
    each = {
        "products": depth * rows * columns / machine.products_of(size),
        "L2": depth * (rows + columns) * size / machine.l2_access,
        "shared memory": depth * block.moved * size / machine.shared_access,
    }
    rate = machine.bandwidth / machine.clock
    used = accesses(nest)
    whole = {access.buffer: prod(access.access.shape) * access.access.element_bytes for access in used}
    of_element = sum(a.access.element_bytes for a in used if {product.row, product.column} <= set(a.axes))
    wait = 2 * machine.latency * machine.clock
    stored = rows * columns * of_element * machine.multiprocessors / rate
    registers = registers_of(product, block)
    resident = max(machine.resident(block.threads, registers, block.shared), 1)
    cycles = {name: wait + -(-blocks // machine.multiprocessors) * time for name, time in each.items()}
    cycles["memory"] = sum(whole.values()) / rate
    rounds, beside = -(-blocks // (machine.multiprocessors * resident)), wait + stored
    cycles["latency"] = rounds * max(each.values()) + (1 if block.lasts else rounds) * beside
    share = sum(whole.values()) / max(blocks * depth * (rows + columns) * size, 1)
    return Candidate(rows, columns, blocks, cycles, block.threads, registers, min(share, 1), resident)


def registers_of(product: MatrixProduct, block: Block) -> int:
    """About how many registers a thread has: sums are as wide as operands, or a register."""
    words = max(product.left.access.element_bytes // GPU_REGISTER, 1)
    return words * block.rows * block.columns // block.threads + BESIDE_SUMS


def bytes_of_piece(machine: Gpu, tile: Candidate, stages: int, least: int, most: int) -> int:
    """How many bytes of each row of operands are to be copied at a time. Where memory is what takes longest, as many as
    are to be under way so that it is never idle (Little's law), if no block loses its place by that."""
    if tile.bound != "memory":
        return least
    wanted = BUSY * machine.bandwidth * machine.latency / machine.multiprocessors
    row = tile.rows + tile.columns

    def blocks(piece: int) -> int:
        resident = machine.resident(tile.threads, tile.registers, stages * piece * row)
        return min(max(resident, 1), -(-tile.blocks // machine.multiprocessors))

    piece = least
    while piece < most and blocks(piece) * (stages - 1) * piece * row * tile.from_memory < wanted:
        if blocks(2 * piece) < blocks(piece) or stages * 2 * piece * row > machine.largest_shared:
            break
        piece *= 2
    return piece


@dataclass(frozen=True)
class Tiled:
    """A tile of a product that a decider may choose, and the steps by which a block computes it."""

    cycles: float
    """Of a multiprocessor, as far as they are known."""
    facts: Callable[[], Row]
    """For readers."""
    steps: Callable[[], Sequence[Step]]


def tiled(tiles: Iterable[Candidate], steps: Callable[[Candidate], Sequence[Step]]) -> list[Tiled]:
    """The tiles with what is done for each of them, the one to choose first."""
    return [Tiled(tile.longest, tile.facts, partial(steps, tile)) for tile in ranked(tiles)]


def first_of(tiles: Callable[[Nest], Sequence[Tiled] | str]) -> Callable[[Nest], Sequence[Step] | str]:
    """The decider that takes the first of `tiles`."""

    def decide(nest: Nest) -> Sequence[Step] | str:
        found = tiles(nest)
        return found if isinstance(found, str) else found[0].steps()

    return decide
