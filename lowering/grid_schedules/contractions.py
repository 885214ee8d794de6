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
from math import prod

from xdsl.ir import SSAValue

from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.pack import Pack
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.products import MatrixProduct, matrix_product
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.unroll import Unroll
from tenon.lowering.steps.vectorize import Vectorize

VECTOR = 4
"""Numbers along each axis of the result that a thread has as neighbours."""
SPREAD = (4, 8)
"""How the threads of a warp are spread along the rows and the columns of the result."""
DEPTH = 8
"""Of a piece of the reduced axis: a vector for each thread of a block of the largest tile."""
LEAST = 16
"""Rows and columns below which a tile is mostly empty."""
SIZES = ((2, 4), (2, 2), (2, 1), (1, 1)), ((2, 2), (2, 1), (1, 1))
"""For rows and columns how often a thread has a vector, and how many warps there are, by falling size of tile: 128, 64,
32, 16 rows and 128, 64, 32 columns."""


def decide_contraction(nest: Nest) -> Sequence[Step] | str:
    """Steps for a contraction, alone or followed by what is done to each of its results."""
    found = large_product(nest)
    return found if isinstance(found, str) else _Contraction(nest, found).steps()


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
    if min(nest.extents[found.row], nest.extents[found.column]) < LEAST:
        return f"the result has less than {LEAST} rows or columns"
    return found


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


@dataclass(frozen=True)
class _Contraction:
    nest: Nest
    axes: MatrixProduct

    def steps(self) -> list[Step]:
        nest, (row, column, reduced) = self.nest, (self.axes.row, self.axes.column, self.axes.reduced)
        steps = ordered(nest, self.axes)
        sizes = self.sizes()
        for axis, lanes, (count, warps) in zip((row, column), SPREAD, sizes, strict=True):
            steps += _tiled(axis, count, warps, lanes, self.vector)
        steps.append(Split(reduced, DEPTH, (f"{reduced}o", f"{reduced}i")))
        for access, axis in ((self.axes.left, row), (self.axes.right, column)):
            name = nest.name_of(access.buffer)
            pad = VECTOR if access.leading[-1] != axis else 0
            steps.append(Pack(name, "shared", at=f"{reduced}o", inner=axis, pad=pad))
            steps.append(Pack(name, "registers"))
        steps += packed_results(nest, (self.axes.left.buffer, self.axes.right.buffer))
        return [*steps, Pipeline(f"{reduced}o", 2)]

    @property
    def vector(self) -> int:
        """Numbers that a thread has as neighbours."""
        largest = max(self.axes.left.access.element_bytes, self.axes.right.access.element_bytes)
        return min(VECTOR, self.nest.machine.access // largest)

    def sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The largest tile that leaves no multiprocessor without one, or the smallest."""
        nest, (row, column) = self.nest, (self.axes.row, self.axes.column)
        others = self.axes.others(nest)
        batch = prod(nest.extents[axis] for axis in others)

        def blocks(rows: tuple[int, int], columns: tuple[int, int]) -> int:
            tile = [n * w * lanes * self.vector for (n, w), lanes in zip((rows, columns), SPREAD, strict=True)]
            return batch * prod(-(-nest.extents[a] // size) for a, size in zip((row, column), tile, strict=True))

        pairs = sorted(
            ((rows, columns) for rows in SIZES[0] for columns in SIZES[1]),
            key=lambda pair: (-prod(n for size in pair for n in size), abs(prod(pair[0]) - 2 * prod(pair[1]))),
        )
        return next((pair for pair in pairs if blocks(*pair) >= nest.machine.multiprocessors), pairs[-1])


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
