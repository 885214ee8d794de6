"""Contractions: sums of products of two operands, each of which is read again along an axis of the other.

A block computes a tile of the result, whose operands go through shared memory in pieces of the reduced axis, the next
piece being loaded while one is used. In shared memory they lie with the axis of the result as neighbours, so that a
thread reads what it needs of them by vectors. A warp has 16 rows and 32 columns of the tile, or several of these, a
thread 4 x 4 numbers of each: for each piece of 8 columns of an operand and of 4 rows of the other a warp reads each
number of shared memory once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, prod

from xdsl.ir import SSAValue

from tenon.lowering.explanation import Row
from tenon.lowering.grid_schedules.product_tiles import EQUAL, Tiled
from tenon.lowering.steps.bind import BindLoop, Resident
from tenon.lowering.steps.library import Library, Multiplication, multiplication
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.pack import Pack
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.products import MatrixProduct, matrix_product
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.vectorize import Unroll, Vectorize
from tenon.passes.machine import CUBLAS, GPU_REGISTER, Gpu

VECTOR = 4
"""Numbers along each axis of the result that a thread has as neighbours."""
SPREAD = (4, 8)
"""How the threads of a warp are spread along the rows and the columns of the result."""
DEPTHS = 8, 16
"""Of a warp's pieces of the reduced axis."""
LEAST = 16
"""Rows and columns below which a tile is mostly empty."""
LARGE, MANY = 1 << 20, 64
"""Bytes of a matrix, and its columns, from which on it is better read once for a few rows."""
SIZES = ((4, 4), (4, 2), (2, 4), (2, 2), (2, 1), (1, 1)), ((2, 2), (2, 1), (1, 2), (1, 1))
"""For rows and columns how often a thread has a vector, and how many warps there are: 256, 128, 128, 64, 32, 16 rows
and 128, 64, 64, 32 columns."""
SLICES = 1, 2, 4
"""Of the reduced axis that warps of a block have: they make up for tiles of which there are too few."""
LARGEST_BLOCK = 512
"""Threads of a block."""
HELD = 256
"""Threads that a multiprocessor has to have room for: they hide each other's latencies."""
MOST_REGISTERS = 216
"""Of a thread, as they are counted here: of larger tiles, the assembler keeps some in memory."""
BESIDE_SUMS = 20
"""What a thread keeps beside sums, two sets of the numbers that are multiplied, and what it copies."""
BESIDE_PRODUCTS = 6
"""Instructions of a thread beside multiply-adds and loads, for each step along the reduced axis."""
COMPUTED = 1.2
"""How much longer a larger tile may take by the formula where places take several axes, as of windows: to copy each
number less often saves more than is counted. Gradients of 3x3 filters by 32 rows took 1.5 times as long as by 64."""
STORED = 2
"""How many times as long as to read a number the shared memory takes to get one: they come one by one."""
EXCHANGED = 3
"""The same for sums that are exchanged, for which all warps wait."""
LONGEST = 1024
"""Multiply-adds of a thread for a piece, which are written out: the instructions of more do not stay in their cache.
Where there are slices, half of them are enough for each copy."""
WAITED = 1 / 2
"""Of the latency of memory what a block alone waits for with each piece, whatever it computes meanwhile."""
SINGLE = 3 / 2
"""Cycles in which a scheduler begins an instruction of the only warp that it has."""
BEGUN = 4
"""Latencies of memory that a round takes beside its pieces: first copies, last results, and blocks that begin."""
REACHED = 0.8
"""The share of what the limits say that instructions and shared memory reach together, as measured on an H200 with 160
tiles of five products."""
SURELY = 1.05
"""How much longer than cuBLAS ours have to take by prediction."""
LIBRARY_TILE = 128
"""Rows and columns of a tile of cuBLAS, about; where they are few, it has smaller ones, and is not faster."""


def tiles_of_contraction(nest: Nest) -> Sequence[Tiled] | str:
    """The tiles for a contraction, alone or followed by what is done to each of its results."""
    product = large_product(nest)
    if isinstance(product, str):
        return product
    made = _Contraction(nest, product)
    return [
        Tiled(taken, partial(made.facts, tile, taken), partial(made.steps, tile)) for tile, taken in best(nest, product)
    ]


def large_product(nest: Nest) -> MatrixProduct | str:
    """The only product of matrices in a kernel, if all else is done to each of its elements and tiles are not mostly
    empty."""
    reducing = [statement for statement in nest.statements if statement.reduced]
    if len(reducing) != 1:
        return f"{len(reducing)} statements reduce, expected one contraction"
    (contraction,) = reducing
    found = matrix_product(contraction)
    if isinstance(found, str):
        return found
    axes = set(contraction.outputs[0].axes)
    if any(set(statement.axes) - axes for statement in nest.statements if statement is not contraction):
        return "what is beside the contraction is not done element by element"
    if min(nest.extents[found.row], nest.extents[found.column]) < LEAST and not _is_read_again(nest, found):
        return f"the result has less than {LEAST} rows or columns"
    return found


def _is_read_again(nest: Nest, product: MatrixProduct) -> bool:
    """Whether each of a few rows, or columns, would read a large matrix again. A tile that is mostly empty takes no
    longer than memory then."""
    rows, columns = nest.extents[product.row], nest.extents[product.column]
    matrix = product.right if rows < columns else product.left
    is_large = prod(matrix.access.shape) * matrix.access.element_bytes >= LARGE
    return is_large and min(rows, columns) > 1 and max(rows, columns) >= MANY and not product.around


def ordered(nest: Nest, product: MatrixProduct) -> list[Step]:
    """Steps that put the loops of a product into order, and make blocks of those that are a product each."""
    others = product.others(nest)
    order = (*others, product.row, product.column, *product.around, product.reduced)
    steps: list[Step] = [Reorder(order)] if order != tuple(nest.extents) else []
    return [*steps, *[BindLoop(axis, "grid") for axis in others]]


def packed_results(nest: Nest, packed: Collection[SSAValue]) -> list[Step]:
    """Steps that load what else a kernel uses of its arguments, and store what it writes, all that a thread has at
    once."""
    arguments, seen = nest.kernel.function.body.block.args, set(packed)
    steps: list[Step] = []
    for statement in nest.statements:
        for access in (*statement.inputs, *statement.outputs):
            is_used = access.access.is_used or access in statement.outputs
            if is_used and access.buffer in arguments and access.buffer not in seen:
                seen.add(access.buffer)
                steps.append(Pack(nest.name_of(access.buffer), "registers"))
    return steps


def decide_library(nest: Nest) -> Sequence[Step] | str:
    """cuBLAS, if it takes the kernel."""
    step = Library(CUBLAS)
    obstacle = step.obstacle(nest)
    return [step] if obstacle is None else obstacle


def faster_library(nest: Nest) -> Sequence[Tiled] | str:
    """cuBLAS where products are by multiply-adds, and it takes fewer cycles than the best of our tiles, both as far as
    has been measured. Of other products, and other GPUs, no such figures are known."""
    steps = decide_library(nest)
    if isinstance(steps, str):
        return steps
    found, product, machine = multiplication(nest), large_product(nest), nest.machine
    if isinstance(found, str) or isinstance(product, str):
        return found if isinstance(found, str) else str(product)
    if not machine.library_share or machine.tf32 or found.element != "f32":
        return f"cuBLAS is not known to be faster for {found.element} on {machine.architecture}"
    (_, taken), *_ = best(nest, product)
    accesses = product.left, product.right, product.statement.outputs[0]
    moved = sum(prod(access.access.shape) * access.access.element_bytes for access in accesses)
    memory = moved / machine.bandwidth * machine.clock
    ours, its = (max(cycles, memory) for cycles in (taken, library_cycles(found, machine)))
    if ours < SURELY * its:
        return f"cuBLAS takes {its:.0f} cycles by prediction, and the best of our tiles {ours:.0f}"
    facts: Row = {"library": CUBLAS, "cycles": round(its), "cycles of our tiles": round(ours)}
    return [Tiled(its, lambda: facts, lambda: steps)]


def library_cycles(product: Multiplication, machine: Gpu) -> float:
    """What a multiprocessor takes for its part of the tiles that cuBLAS makes of products of f32."""
    tiles = product.count * prod(-(-size // LIBRARY_TILE) for size in (product.rows, product.columns))
    rounds = -(-tiles // machine.multiprocessors)
    of_round = product.depth * LIBRARY_TILE**2 / (machine.library_share * machine.lanes)
    return rounds * (2 * machine.latency * machine.clock + of_round)


@dataclass(frozen=True)
class Tile:
    """What a block does: for rows and columns how often a thread has a vector and how many warps there are, and into
    how many slices warps cut each piece of the reduced axis, of `depth` each."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    slices: int
    depth: int
    vector: int

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        pairs = zip((self.rows, self.columns), SPREAD, strict=True)
        down, across = (count * warps * lanes * self.vector for (count, warps), lanes in pairs)
        return down, across

    @property
    def of_thread(self) -> tuple[int, int]:
        """Rows and columns that a thread has."""
        return self.rows[0] * self.vector, self.columns[0] * self.vector

    @property
    def warps(self) -> int:
        """Of a block."""
        return self.rows[1] * self.columns[1] * self.slices

    @property
    def piece(self) -> int:
        """Of the reduced axis that is copied at a time."""
        return self.slices * self.depth


@dataclass(frozen=True)
class Needs:
    """What a block takes of a multiprocessor, and how many blocks there are."""

    blocks: int
    threads: int
    registers: int
    """Of a thread, about as the assembler says."""
    copied: int
    """Bytes of a piece of both operands."""
    exchanged: int
    """Bytes by way of which slices are added up."""
    resident: int
    """Blocks that a multiprocessor has at a time; 0, if there is no room for one."""


def tiles(nest: Nest, product: MatrixProduct) -> list[Tile]:
    """The tiles that there are, but those of which half would do, from the largest block on."""
    largest = max(product.left.access.element_bytes, product.right.access.element_bytes)
    vector = min(VECTOR, nest.machine.access // largest)
    extents = nest.extents[product.row], nest.extents[product.column]

    def is_large(tile: Tile) -> bool:
        sizes = zip(tile.size, extents, (tile.rows, tile.columns), SIZES, strict=True)
        return any(size >= 2 * extent and pair != pairs[-1] for size, extent, pair, pairs in sizes)

    made = [
        Tile(rows, columns, slices, depth, vector)
        for rows in SIZES[0]
        for columns in SIZES[1]
        for slices in SLICES
        for depth in DEPTHS
        if slices * depth <= max(nest.extents[product.reduced], DEPTHS[0])
    ]

    def is_long(tile: Tile) -> bool:
        sums = prod(tile.of_thread)
        return tile.depth * sums > (LONGEST if tile.slices == 1 else LONGEST // 2)

    most = LARGEST_BLOCK // nest.machine.warp
    return [tile for tile in made if tile.warps <= most and not is_long(tile) and not is_large(tile)]


def needs(nest: Nest, product: MatrixProduct, tile: Tile) -> Needs:
    """What a block of a tile takes."""
    machine, size = nest.machine, _bytes(product)
    threads, (down, across), (n, m) = tile.warps * machine.warp, tile.size, tile.of_thread
    blocks = prod(-(-nest.extents[a] // s) for a, s in zip((product.row, product.column), tile.size, strict=True))
    blocks *= prod(nest.extents[axis] for axis in product.others(nest))
    copied = tile.piece * (down + across) * size
    numbers = n * m + 2 * (n + m) + copied // size // threads
    registers = numbers * size // GPU_REGISTER + BESIDE_SUMS
    exchanged = down * across * size * tile.slices if tile.slices > 1 else 0
    most = min(machine.registers // HELD, MOST_REGISTERS)
    is_small = registers <= most and 2 * copied + exchanged <= machine.largest_shared
    most = machine.resident(threads, registers, 2 * copied + exchanged) if is_small else 0
    return Needs(blocks, threads, registers, copied, exchanged, min(most, -(-blocks // machine.multiprocessors)))


def _bytes(product: MatrixProduct) -> int:
    """Of a number in shared memory, or in registers."""
    return max(product.left.access.element_bytes, product.right.access.element_bytes, GPU_REGISTER)


def cycles(nest: Nest, product: MatrixProduct, tile: Tile) -> float:
    """What a multiprocessor takes for its part of all tiles: round by round as many as it holds at a time, for each
    piece what takes longest of instructions, multiply-adds, operands from shared memory and from L2, and, for a block
    alone, its instructions and the copy that all its warps then wait for."""
    machine, size, block, (n, m) = nest.machine, _bytes(product), needs(nest, product, tile), tile.of_thread
    if not block.resident:
        return inf
    begun = tile.depth * (n * m + (n + m) / tile.vector + BESIDE_PRODUCTS)
    lanes = machine.double_lanes if size > GPU_REGISTER else machine.lanes
    answer = machine.latency * machine.clock
    shared = block.threads * tile.depth * (n + m) * size + STORED * block.copied
    busy = (
        tile.warps * begun / machine.schedulers,
        block.threads * tile.depth * n * m / lanes,
        shared / machine.shared_access,
    )
    of_piece = max(max(busy) / REACHED, block.copied / machine.l2_access)
    alone = max(max(tile.warps / machine.schedulers, SINGLE) * begun, answer) + WAITED * answer
    pieces = -(-nest.extents[product.reduced] // tile.piece) * prod(nest.extents[a] for a in product.around)
    sums = EXCHANGED * block.exchanged * (1 + tile.slices) / machine.shared_access

    def of_round(count: int) -> float:
        return BEGUN * answer + pieces * max(count * of_piece, alone) + count * sums if count else 0

    rounds, rest = divmod(block.blocks, machine.multiprocessors * block.resident)
    return rounds * of_round(block.resident) + of_round(-(-rest // machine.multiprocessors))


def best(nest: Nest, product: MatrixProduct) -> list[tuple[Tile, float]]:
    """The tiles that there is room for, with the cycles that they take, the one to choose first: that of the fewest; of
    those that take as long the largest, which reads least again."""
    taken = {tile: cycles(nest, product, tile) for tile in tiles(nest, product)}
    is_computed = any(len(axes) > 1 for operand in (product.left, product.right) for axes in operand.factors)
    least = (COMPUTED if is_computed else EQUAL) * min(taken.values())

    def order(tile: Tile) -> tuple[float, ...]:
        return max(taken[tile], least), -prod(tile.size), taken[tile], tile.slices

    fitting = [tile for tile in taken if isfinite(taken[tile])]
    return [(tile, taken[tile]) for tile in sorted(fitting or taken, key=order)]


@dataclass(frozen=True)
class _Contraction:
    nest: Nest
    axes: MatrixProduct

    def facts(self, tile: Tile, taken: float) -> Row:
        """What is told of a tile."""
        block, (down, across) = needs(self.nest, self.axes, tile), tile.size
        return {
            "tile": f"{down}x{across}",
            "slices": tile.slices,
            "depth": tile.depth,
            "blocks": block.blocks,
            "cycles": round(taken) if isfinite(taken) else None,
        }

    def steps(self, tile: Tile) -> list[Step]:
        nest, (row, column, reduced) = self.nest, (self.axes.row, self.axes.column, self.axes.reduced)
        steps = ordered(nest, self.axes)
        for axis, lanes, (count, warps) in zip((row, column), SPREAD, (tile.rows, tile.columns), strict=True):
            steps += _tiled(axis, count, warps, lanes, tile.vector)
        outer, inner = f"{reduced}o", f"{reduced}i"
        if tile.slices > 1:
            steps.append(Split(reduced, tile.piece, (outer, f"{reduced}b")))
            steps += [Split(f"{reduced}b", tile.depth, (f"{reduced}w", inner)), BindLoop(f"{reduced}w", "warp")]
        else:
            steps.append(Split(reduced, tile.depth, (outer, inner)))
        for access, axis in ((self.axes.left, row), (self.axes.right, column)):
            name = nest.name_of(access.buffer)
            pad = VECTOR if access.leading[-1] != axis else 0
            steps.append(Pack(name, "shared", at=outer, inner=axis, pad=pad))
            steps.append(Pack(name, "registers"))
        steps += packed_results(nest, (self.axes.left.buffer, self.axes.right.buffer))
        steps.append(Pipeline(outer, 2))
        block = needs(nest, self.axes, tile)
        is_tight = block.threads >= HELD and block.resident > 1 and tile.slices > 1
        sizes = zip((row, column, reduced), (*tile.size, tile.piece), strict=True)
        if is_tight and all(nest.extents[axis] % size == 0 for axis, size in sizes):  # else conditions need registers
            steps.append(Resident(block.resident))
        return steps


def _tiled(axis: str, count: int, warps: int, lanes: int, vector: int) -> list[Step]:
    """Steps that cut an axis of the result: blocks, vectors of a thread, warps, lanes, and the numbers of a vector."""
    size = count * warps * lanes * vector
    return [
        Split(axis, size, (f"{axis}g", f"{axis}b")),
        Split(f"{axis}b", warps * lanes * vector, (f"{axis}u", f"{axis}r")),
        Split(f"{axis}r", lanes * vector, (f"{axis}w", f"{axis}s")),
        Split(f"{axis}s", vector, (f"{axis}l", f"{axis}v")),
        BindLoop(f"{axis}g", "grid"),
        Unroll(f"{axis}u"),
        BindLoop(f"{axis}w", "warp"),
        BindLoop(f"{axis}l", "lane"),
        Vectorize(f"{axis}v"),
    ]
