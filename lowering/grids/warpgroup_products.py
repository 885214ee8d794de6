"""Products of matrices by four warps, which read their operands from shared memory and go on while they are computed.

The products of one iteration of the loop at which operands are copied are a group. Sums are in registers that nothing
touches until all groups are waited for."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tenon.dialects.upstream.nvvm import WgmmaCommitOp, WgmmaFenceOp, WgmmaWaitOp
from tenon.dialects.upstream.warpgroup import WarpgroupMmaOp
from tenon.lowering.grids.matrix_products import is_transposed, result_loops
from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.loop_ir.builder import Position
from tenon.lowering.steps.nest import Bind, Contraction, Loop


class WarpgroupProducts:
    """The products of a contraction, of operands that are in the tiles `left` and `right`."""

    def __init__(self, code: ThreadCode, contraction: Contraction, left: SharedTile, right: SharedTile) -> None:
        self.code, self.contraction = code, contraction
        self.left, self.right = left, right
        rows, columns = result_loops(code.nest, contraction)
        by_stride = sorted((loop for loop in rows if loop.unrolled), key=lambda loop: -loop.stride)
        *self.rows, self.half = by_stride
        self.columns = sorted((loop for loop in columns if loop.unrolled or loop.rotated), key=lambda one: -one.stride)
        (self.pair,) = [loop for loop in columns if loop.vector]
        inside: list[Loop] = [loop for loop in (*rows, *columns) if loop.bind is Bind.LANE]
        inside += [code.nest.bound(Bind.WARP)[-1], self.half, *self.columns, self.pair, contraction.depth]
        self._corner = {loop.name: Position() for loop in inside}

    def sums(self, element: Attribute) -> Registers:
        """The array of the sums, those of an instruction last."""
        return self.code.array(element, (*self.rows, *self.columns, self.half, self.pair))

    def add(self, sums: Registers) -> None:
        """Begin the products of one iteration of the depth, where the loops around are."""
        code = self.code
        assert isinstance(sums.memref.type, MemRefType)

        def product() -> None:
            a, b = ((tile.memref, tile.corner()) for tile in (self.left, self.right))
            transposed = [is_transposed(self.contraction, tile) for tile in (self.left, self.right)]
            held = (sums.memref, code.register(sums))
            columns = 8 * prod(loop.extent for loop in self.columns)
            code.builder.add(WarpgroupMmaOp(a, b, held, columns, transpose_a=transposed[0], transpose_b=transposed[1]))

        with code.at(self._corner):
            code.over(self.rows, product)

    def begin_group(self) -> None:
        """What comes before the products of a group."""
        self.code.builder.add(WgmmaFenceOp())

    def end_group(self, left: int) -> None:
        """What comes behind them: wait until at most so many groups are left."""
        self.code.builder.add(WgmmaCommitOp())
        self.wait(left)

    def wait(self, left: int) -> None:
        """Wait until at most so many groups are left."""
        self.code.builder.add(WgmmaWaitOp(left))
