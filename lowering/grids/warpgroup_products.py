"""Products of matrices by four warps, which read their operands from shared memory and go on while they are computed.

The products of one iteration of the loop at which operands are copied are a group. Sums are in registers that nothing
touches until all groups are waited for. In pieces, products that others are made of are a group that is waited for
where it is; those whose left operand is in registers, all of it before they begin, are waited for behind a piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute, SSAValue

from tenon.dialects.upstream.nvvm import BarrierArriveOp, BarrierOp, WgmmaCommitOp, WgmmaFenceOp, WgmmaWaitOp
from tenon.dialects.upstream.warpgroup import WarpgroupMmaOp
from tenon.lowering.grids.matrix_products import fragments_of_left, is_transposed, put_left, result_loops
from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.loop_ir.builder import Position, Steps
from tenon.lowering.steps.nest import Bind, Contraction, Loop


class Turns:
    """Lets warpgroups begin products one after the other: while one is at its products, another one is at what follows
    them. Each waits at a barrier of its own for the one before; the first one, at first, for the last."""

    def __init__(self, code: ThreadCode) -> None:
        machine = code.nest.machine
        warps = machine.warpgroup // machine.warp
        self.code, self.count = code, code.nest.count(Bind.WARP) // warps
        self._threads = 2 * machine.warpgroup
        """At a barrier: those of a warpgroup wait, and those of the one before arrive."""
        assert code.warp is not None
        self._number = code.quotient(Position(((code.warp, 1),)), warps)
        """Of the warpgroup."""

    def open(self) -> None:
        """Before the first turn."""
        self._when_at(self.count - 1, lambda: self._act(BarrierArriveOp, Position()))

    def close(self) -> None:
        """Behind the last one."""
        self._when_at(0, lambda: self._act(BarrierOp, Position()))

    def begin(self) -> None:
        """Wait for the turn of this warpgroup."""
        self._act(BarrierOp, self._number)

    def end(self) -> None:
        """Let the next one begin."""
        self._act(BarrierArriveOp, self.code.remainder(self._number + 1, self.count))

    def _act(self, kind: type[BarrierOp | BarrierArriveOp], number: Position) -> None:
        """Be at the barrier of a warpgroup; that of the block is before them."""
        code = self.code
        barrier = code.builder.index(number + 1)
        count = code.builder.constant(IntegerAttr(self._threads, i32), i32)
        code.builder.add(kind(code.value(arith.IndexCastOp(barrier, i32)), count))

    def _when_at(self, number: int, body: Callable[[], None]) -> None:
        self.code.when(self.code.equal(self.code.builder.index(self._number), number), body)


class WarpgroupProducts:
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
        self.is_waited_for = code.nest.pieces is not None
        self.turns: Turns | None = None
        """Those of warpgroups, where products of operands in shared memory have some."""
        self.left, self.right = left, right
        rows, columns = result_loops(code.nest, contraction)
        by_stride = sorted((loop for loop in rows if loop.unrolled), key=lambda loop: -loop.stride)
        *self.rows, self.half = by_stride
        self.columns = sorted((loop for loop in columns if loop.unrolled or loop.rotated), key=lambda one: -one.stride)
        (self.pair,) = [loop for loop in columns if loop.vector]
        inside: list[Loop] = [loop for loop in (*rows, *columns) if loop.bind is Bind.LANE]
        inside += [code.nest.bound(Bind.WARP)[-1], self.half, *self.columns, self.pair, contraction.depth]
        if contraction.depth.unrolled:
            inside += [loop for loop in code.nest.loops_of([contraction.depth.axis]) if not loop.in_order]
        self._corner = {loop.name: Position() for loop in inside}

    @property
    def is_of_memory(self) -> bool:
        """Whether both operands are in shared memory."""
        return isinstance(self.left, SharedTile)

    def sums(self, element: Attribute) -> Registers:
        """The array of the sums, those of an instruction last."""
        return self.code.array(element, (*self.rows, *self.columns, self.half, self.pair))

    def add(self, sums: Registers, *, anew: bool = False) -> None:
        """Begin the products of one iteration of the depth, or of all that are written out, where the loops around are;
        those whose left operand is in registers as a group. With `anew` the first ones along the reduced axis take the
        place of what `sums` held: written before, zeros would be among products of the same group (C7517)."""
        code, left = self.code, self.left
        depth, count = self.contraction.depth, self.contraction.depth.extent // 2
        if isinstance(left, SharedTile):

            def begin_each(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
                with code.at({**self._corner, depth.name: at.scaled(2)}):
                    adds = code.less(code.builder.index_constant(0), code.builder.index(code.axis(depth.axis)))
                    code.over(self.rows, lambda: self._begin(sums, left, adds if anew else None))
                return ()

            self._each(count if depth.unrolled else 1, begin_each)
            return
        array = fragments_of_left(code, self.contraction, count)

        def put(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            put_left(code, self.contraction, left, self.half, at.scaled(2), array, at)
            return ()

        def begin(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            with code.at({**self._corner, depth.name: at.scaled(2)}):
                self._begin(sums, (array, [code.builder.index(place) for place in (at, Position(), Position())]))
            return ()

        self._each(count, put)
        self.begin_group()
        self._each(count, begin)
        self.code.builder.add(WgmmaCommitOp())

    def _each(self, count: int, body: Callable[[Position, list[SSAValue]], Sequence[SSAValue]]) -> None:
        self.code.builder.sequential(Steps(0, count), (), body)
        self.code.mark_unrolled(count)

    def _begin(
        self,
        sums: Registers,
        left: SharedTile | tuple[SSAValue, Sequence[SSAValue]],
        adds: SSAValue | None = None,
    ) -> None:
        """Begin the products of one instruction, where the thread is."""
        a = (left.memref, left.corner()) if isinstance(left, SharedTile) else left
        transpose_a = isinstance(left, SharedTile) and is_transposed(self.contraction, left)
        b, transpose_b = (self.right.memref, self.right.corner()), is_transposed(self.contraction, self.right)
        held = (sums.memref, self.code.register(sums))
        columns = 8 * prod(loop.extent for loop in self.columns)
        transposed = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        self.code.builder.add(WarpgroupMmaOp(a, b, held, columns, adds, **transposed))

    def in_turn(self, body: Callable[[], None]) -> None:
        """`body`, which begins products, and wait for these. Before that the next warpgroup has its turn: its products
        then follow at once; behind, the assembler would move what tells it so to where results are computed with."""
        if self.turns is not None:
            self.turns.begin()
        self.begin_group()
        body()
        self.code.builder.add(WgmmaCommitOp())
        if self.turns is not None:
            self.turns.end()
        self.wait(0)

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
