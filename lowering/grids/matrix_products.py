"""Products of matrices by the instructions of a warp: fragments of operands are loaded from shared memory, and the sums
are in registers, where the statements that follow find them.

`ldmatrix` loads up to four matrices of eight rows of 16 bytes, each lane giving the place of a row; which register then
holds which of them is what the fragments of the instruction say. Elements that fill more than a register are loaded by
the lanes that need them, which have neighbours along the reduced axis: as these are the same ones of both operands, the
sum is that of the same products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tenon.dialects.upstream.nvgpu import LdMatrixOp, MmaSyncOp
from tenon.lowering.grids.thread_code import REGISTERS, Registers, ThreadCode
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, Steps
from tenon.lowering.steps.nest import Bind, Contraction, Loop, Nest
from tenon.lowering.steps.products import factor_of
from tenon.lowering.steps.tile_copies import RUN
from tenon.passes.machine import GPU_REGISTER

TILES = 4
"""Matrices that one `ldmatrix` loads, at most."""


class MatrixProducts:
    """The products of a contraction, of operands that are in the tiles `left` and `right`. A left one in registers is a
    function that writes the element where the thread is."""

    def __init__(
        self,
        code: ThreadCode,
        contraction: Contraction,
        left: SharedTile | Callable[[], SSAValue],
        right: SharedTile,
    ) -> None:
        self.code, self.contraction = code, contraction
        self.left, self.right = left, right
        self.fragments = contraction.instruction.fragments
        rows, columns = result_loops(code.nest, contraction)
        (self.row,) = [loop for loop in rows if loop.unrolled and loop.stride > 8]
        (self.half,) = [loop for loop in rows if loop.unrolled and loop.stride == 8]
        (self.column,) = [loop for loop in columns if loop.unrolled]
        (self.pair,) = [loop for loop in columns if loop.vector]
        self._inside = [loop for loop in (*rows, *columns) if loop.bind is Bind.LANE]
        self._inside += [self.half, self.pair, contraction.depth]
        of_each = self.fragments["b"].counts[1]
        self.together = TILES // of_each if self.column.extent % (TILES // of_each) == 0 else 1
        """Iterations of the columns that one instruction loads."""

    def sums(self, element: Attribute) -> Registers:
        """The array of the sums, those of an instruction last."""
        return self.code.array(element, (self.row, self.column, self.half, self.pair))

    def add(self, sums: Registers) -> None:
        """Add the products of one iteration of the depth, where the loops around are."""
        first = {loop.name: Position() for loop in (*self._inside, self.row, self.column)}
        depth, left = self.contraction.depth, self.left
        if isinstance(left, SharedTile) and not depth.unrolled:
            with self.code.at(first):
                self._multiply(self._rows_of(left), self._columns_of_right(), sums)
            return
        dealt = [loop for loop in self.code.nest.loops_of([depth.axis]) if loop.bind is Bind.LANE or loop.vector]
        first |= {loop.name: Position() for loop in dealt}

        def piece(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            here = first | {depth.name: at.scaled(2)}
            if isinstance(left, SharedTile):
                with self.code.at(here):
                    rows = self._rows_of(left)
            else:
                rows = self._rows_in_registers(left, here[depth.name])
            with self.code.at(here):
                self._multiply(rows, self._columns_of_right(), sums)
            return ()

        self.code.builder.sequential(Steps(0, depth.extent // 2), (), piece)
        self.code.mark_unrolled(depth.extent // 2)

    def _multiply(self, a: SSAValue, b: SSAValue, sums: Registers) -> None:
        """Add the products of all fragments of the operands."""
        code = self.code

        def product() -> None:
            row, column = (code.builder.index(code.positions[loop.name]) for loop in (self.row, self.column))
            zero = code.builder.index_constant(0)
            at = [row, column, zero, zero]
            _, of_left, per_left = self.fragments["a"].counts
            _, of_right, per_right = self.fragments["b"].counts
            group, place = code.digits(column, [self.column.extent // self.together, self.together])
            part = code.builder.index(Position(((place, of_right),)))
            left, right, total = [
                self._vector(a, [row, zero, zero], [of_left, per_left]),
                self._vector(b, [group, part, zero], [of_right, per_right]),
                self._vector(sums.memref, at, [self.half.extent, self.pair.extent]),
            ]
            (rows, depth), (_, columns) = self.fragments["a"].shape, self.fragments["b"].shape
            self._put(code.value(MmaSyncOp(left, right, total, (rows, columns, depth))), sums.memref, at)

        code.over([self.row, self.column], product)

    # Fragments

    def _rows_of(self, left: SharedTile) -> SSAValue:
        """The fragments of the left operand, for each iteration of the rows."""
        return self._loaded(left, self.row, 1, self._matrices("a"))

    def _rows_in_registers(self, left: Callable[[], SSAValue], at: Position) -> SSAValue:
        """The same of an operand in registers, from the iteration `at` of the depth on."""
        code, contraction = self.code, self.contraction
        array = fragments_of_left(code, contraction, self.row.extent)
        put = partial(put_left, code, contraction, left, self.half, at, array)
        code.over([self.row], lambda: put(code.positions[self.row.name]))
        return array

    def _columns_of_right(self) -> SSAValue:
        """The fragments of the right operand, those of iterations of the columns that are loaded together in a row."""
        size = self.fragments["b"].shape[1]
        moves = [(across + n * size, down) for n in range(self.together) for down, across in self._matrices("b")]
        return self._loaded(self.right, self.column, self.together, moves)

    def _loaded(self, tile: SharedTile, loop: Loop, together: int, matrices: Sequence[tuple[int, int]]) -> SSAValue:
        """Registers that hold the `matrices` of so many iterations of a loop, for each of these: by matrix, then by
        element. Matrices are so far along the axis of the loop, and along the reduced one."""
        code, builder = self.code, self.code.builder
        count, bytes_ = loop.extent // together, tile.access.access.element_bytes
        array = code.allocate(tile.element, [count, len(matrices), max(GPU_REGISTER // bytes_, 1)], REGISTERS)
        by_matrices = self._load_matrices if bytes_ <= GPU_REGISTER else self._load_elements

        def load(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            with code.at({loop.name: at.scaled(together)}):
                by_matrices(tile, loop.axis, matrices, array, builder.index(at))
            return ()

        builder.sequential(Steps(0, count), (), load)
        code.mark_unrolled(count)
        return array

    def _load_matrices(
        self, tile: SharedTile, _: str, matrices: Sequence[tuple[int, int]], array: SSAValue, at: SSAValue
    ) -> None:
        """Load matrices of eight rows of 16 bytes, which are those of shared memory."""
        run, zero = RUN // tile.access.access.element_bytes, self.code.builder.index_constant(0)
        transpose = is_transposed(self.contraction, tile)
        own, depth = zip(*matrices, strict=True)
        down, along = (depth, own) if transpose else (own, depth)
        place = tile.row_of_matrix(down, tuple(n // run for n in along))
        loaded = LdMatrixOp(tile.memref, place, len(down), transpose=transpose)
        self._put(self.code.value(loaded), array, [at, zero, zero])

    def _load_elements(
        self, tile: SharedTile, axis: str, matrices: Sequence[tuple[int, int]], array: SSAValue, at: SSAValue
    ) -> None:
        """Load the elements that a lane has of matrices of eight rows or columns along `axis` by four along the reduced
        axis, of which a lane has neighbours."""
        code, builder, reduced = self.code, self.code.builder, self.contraction.depth.axis
        eighth, fourth = (Position(((value, 1),)) for value in code.digits(builder.index(code.lane()), [8, 4]))
        depths = sorted({depth for _, depth in matrices})
        first = fourth.scaled(len(depths))
        for own in dict.fromkeys(own for own, _ in matrices):
            if is_transposed(self.contraction, tile):
                places = [{axis: eighth + own, reduced: first + n} for n in range(len(depths))]
                values = [code.load(tile.memref, tile.beside(place)) for place in places]
            else:
                place = tile.beside({axis: eighth + own, reduced: first})
                loaded = self._vector(tile.memref, place, [len(depths)])
                values = [code.value(vector.ExtractOp(loaded, [n], tile.element)) for n in range(len(depths))]
            for depth, value in zip(depths, values, strict=True):
                number = builder.index_constant(matrices.index((own, depth)))
                code.store(value, array, [at, number, builder.index_constant(0)])

    def _matrices(self, name: str) -> list[tuple[int, int]]:
        return _matrices(self.contraction, name)

    def _vector(self, array: SSAValue, at: Sequence[SSAValue], shape: Sequence[int]) -> SSAValue:
        kind = VectorType(element_type(array), list(shape))
        return self.code.value(vector.LoadOp.create(operands=(array, *at), result_types=(kind,)))

    def _put(self, value: SSAValue, array: SSAValue, at: Sequence[SSAValue]) -> None:
        self.code.builder.add(vector.StoreOp.create(operands=(value, array, *at)))


def _matrices(contraction: Contraction, name: str) -> list[tuple[int, int]]:
    """The rows and columns of a fragment at which the matrix begins that each register holds a part of."""
    rows, columns = contraction.instruction.fragments[name].places()
    return [(int(rows[0, n, 0]), int(columns[0, n, 0])) for n in range(rows.shape[1])]


def fragments_of_left(code: ThreadCode, contraction: Contraction, count: int) -> SSAValue:
    """Registers for so many fragments of a left operand: by fragment, register and element."""
    _, registers, elements = contraction.instruction.fragments["a"].counts
    return code.allocate(
        factor_of(contraction.statement, contraction.left).type, [count, registers, elements], REGISTERS
    )


def put_left(
    code: ThreadCode,
    contraction: Contraction,
    left: Callable[[], SSAValue],
    half: Loop,
    at: Position,
    array: SSAValue,
    fragment: Position,
) -> None:
    """Put what a thread has of a left operand, from the iteration `at` of the depth on, to a fragment of `array`; rows
    that an instruction has beside others are iterations of `half`."""
    depth = contraction.depth
    (pair,) = [loop for loop in code.nest.loops_of([depth.axis]) if loop.vector]
    for number, (down, across) in enumerate(_matrices(contraction, "a")):
        for element in range(contraction.instruction.fragments["a"].counts[2]):
            places = {
                half.name: Position((), down // half.stride),
                depth.name: at + across // depth.stride,
                pair.name: Position((), element),
            }
            with code.at(places):
                value = left()
            place = (fragment, Position((), number), Position((), element))
            code.store(value, array, [code.builder.index(position) for position in place])


def result_loops(nest: Nest, contraction: Contraction) -> tuple[list[Loop], list[Loop]]:
    """The loops along the rows and along the columns of a product."""
    return nest.loops_of([contraction.row]), nest.loops_of([contraction.column])


def is_transposed(contraction: Contraction, tile: SharedTile) -> bool:
    """Whether neighbours in shared memory are not along the reduced axis."""
    return tile.dimensions[tile.layout[-1]].axis not in contraction.statement.reduced
