"""When tiles are copied to shared memory: at the loops that they are packed at, and in pipelines ahead of their use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np
from xdsl.dialects import gpu
from xdsl.ir import SSAValue

from tenon.dialects.upstream.nvgpu import DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp
from tenon.dialects.upstream.nvvm import FenceProxyOp
from tenon.lowering.grids.boxes import Boxes
from tenon.lowering.grids.thread_code import ROLLED, ThreadCode
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.grids.warpgroup_products import WarpgroupProducts
from tenon.lowering.loop_ir.builder import Limits, Position, Steps
from tenon.lowering.steps.nest import Loop
from tenon.lowering.steps.validity import copied_for


class TileCopies:
    """Writes loops in order by `code`, with the copies of `tiles`; some may be read by `products` that threads do not
    wait for."""

    def __init__(
        self, code: ThreadCode, tiles: Sequence[SharedTile], products: WarpgroupProducts | None = None
    ) -> None:
        self.code, self.tiles, self.products = code, tiles, products
        self.boxes = self._boxes()
        self.before = Position()
        """Iterations of the loop that boxes are copied for that the block did for tiles before."""
        self.limits: dict[str, Limits] = {}
        """Of loops in a pipeline the first iteration that counts, and the end of those, where the program tells."""

    def _boxes(self) -> Boxes | None:
        """Who has tiles copied as boxes."""
        tiles = [tile for tile in self.tiles if tile.in_boxes]
        if not tiles:
            return None
        assert tiles[0].at is not None
        return Boxes(self.code, tiles, self.code.nest.loop(tiles[0].at).stages)

    def divided(self, tile: Callable[[], None]) -> None:
        """`tile` by the threads that loops are bound to, for each tile of the block; if there are boxes, another warp
        has them copied."""
        boxes, code = self.boxes, self.code
        if boxes is None:
            tile()
            return
        loops = copied_for(code.nest)
        steps = Steps(0, prod(loop.extent for loop in loops))

        def copies(done: Position) -> None:
            def iteration(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
                with code.at(self._places(loops, at)):
                    boxes.begin(at + done.scaled(steps.count))
                return ()

            code.builder.sequential(steps, (), iteration)
            code.mark(ROLLED)  # the assembler would write many iterations out

        def computes(done: Position) -> None:
            self.before = done.scaled(steps.count)
            tile()

        boxes.divide(lambda: code.each_tile(copies), lambda: code.each_tile(computes))

    def _computed(self, loops: Sequence[Loop], tiles: Sequence[SharedTile], body: Callable[[], None]) -> None:
        """The iterations of the last of `loops`, and of those around it, as one loop, with tiles that another warp has
        copied as boxes. Each leaves its products to the next one, behind which nothing reads the tiles any more."""
        boxes, products, code = self.boxes, self.products, self.code
        assert boxes is not None
        assert products is not None
        count = prod(loop.extent for loop in loops)

        def iteration(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            now = at + self.before
            self._set_stage(tiles, boxes.stage(now))
            boxes.wait(now)
            with code.at(self._places(loops, at)):
                self._grouped(tiles, 1, body)
            if count > 1:
                boxes.release(now + -1, code.less(code.builder.index_constant(0), code.builder.index(at)))
            return ()

        code.builder.sequential(Steps(0, count), (), iteration)
        products.wait(0)
        if code.nest.lasting:
            boxes.release(self.before + (count - 1))
        self._set_stage(tiles, Position())

    def _places(self, loops: Sequence[Loop], at: Position) -> dict[str, Position]:
        """Where loops are that are one, at one of its iterations."""
        if len(loops) == 1:
            return {loops[0].name: at}
        extents = [known.extent for known in loops]
        if not at.terms:
            found = [Position((), int(n)) for n in np.unravel_index(at.constant, extents)]
        else:
            found = [Position(((value, 1),)) for value in self.code.digits(self.code.builder.index(at), extents)]
        return {known.name: place for known, place in zip(loops, found, strict=True)}

    def at(self, loop: str | None) -> list[SharedTile]:
        """The tiles that are copied inside of a loop, or once."""
        return [tile for tile in self.tiles if tile.at == loop]

    def over(self, loops: Sequence[Loop], body: Callable[[], None]) -> None:
        """`body` for each iteration of loops in order, with the tiles that are copied inside of each."""
        if not loops:
            body()
            return
        for number, loop in enumerate(loops):
            tiles = self.at(loop.name)
            if not tiles or any(self.at(known.name) for known in loops[:number]):
                continue
            if tiles[0].in_boxes or (loop.stages > 1 and tiles[0].asynchronous):
                write = self._computed if tiles[0].in_boxes else self._pipelined_ahead
                write(loops[: number + 1], tiles, partial(self.over, loops[number + 1 :], body))
                return
        first, *others = loops
        tiles = self.at(first.name)
        if tiles and first.stages > 1:
            self._pipelined(first, tiles, lambda: self.over(others, body))
            return

        def inside() -> None:
            self.copy(tiles)
            self._grouped(tiles, 0, lambda: self.over(others, body))

        self.code.over([first], inside)
        if not others and any(tile.at in self.code.positions for tile in self.tiles):
            self.code.mark_unrolled(first.extent)  # the next fragment is loaded while one is used

    def copy(self, tiles: Sequence[SharedTile]) -> None:
        """Copy tiles that may still be read, and wait."""
        if not tiles:
            return
        ahead, others = [[tile for tile in tiles if tile.asynchronous is kind] for kind in (True, False)]
        registers = [tile.loaded() for tile in others]
        for tile, values in zip(others, registers, strict=True):
            tile.load(values)
        self._barrier()
        for tile in ahead:
            tile.begin()
        for tile, values in zip(others, registers, strict=True):
            tile.store(values)
        if ahead:
            self._wait(self._group(), 0)
        self._show(ahead)

    def _grouped(self, tiles: Sequence[SharedTile], left: int, body: Callable[[], None]) -> None:
        """`body`, whose products that read `tiles` are a group: at most so many groups are left behind it."""
        products = self._reading(tiles)
        if products is not None:
            products.begin_group()
        body()
        if products is not None:
            products.end_group(left)

    def _reading(self, tiles: Sequence[SharedTile]) -> WarpgroupProducts | None:
        """The products that read `tiles`, if threads do not wait for them."""
        is_reading = self.products is not None and any(tile is self.products.left for tile in tiles)
        return self.products if is_reading else None

    def _show(self, tiles: Sequence[SharedTile]) -> None:
        """Have all threads, and products, find what was copied to `tiles`."""
        if any(tile.is_for_warpgroups for tile in tiles):
            self.code.builder.add(FenceProxyOp())
        self._barrier()

    def _pipelined(self, loop: Loop, tiles: Sequence[SharedTile], body: Callable[[], None]) -> None:
        """The iterations of `loop`, each of which loads what the next one reads before it computes."""
        code, builder = self.code, self.code.builder
        with code.at({loop.name: Position()}):
            self.copy(tiles)

        def iteration(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            registers = [tile.loaded() for tile in tiles]
            stages = [self._stage(loop, at + n) for n in (0, 1)]
            more = code.less(builder.index(at), loop.extent - 1)

            def each(act: Callable[[SharedTile, SSAValue], None]) -> Callable[[], None]:
                def acts() -> None:
                    self._set_stage(tiles, stages[1])
                    for tile, values in zip(tiles, registers, strict=True):
                        with code.at({loop.name: at + 1}):
                            act(tile, values)

                return acts

            code.when(more, each(SharedTile.load))
            self._set_stage(tiles, stages[0])
            with code.at({loop.name: at}):
                body()
            code.when(more, each(SharedTile.store))
            self._barrier()
            return ()

        builder.sequential(Steps(0, loop.extent), (), iteration)
        self._set_stage(tiles, Position())

    def _pipelined_ahead(self, loops: Sequence[Loop], tiles: Sequence[SharedTile], body: Callable[[], None]) -> None:
        """The iterations of the last of `loops`, and of those around it, as one loop: each begins to copy what the last
        one of those under way reads. Each makes a group, even of no copy, so that the number of those that may be left
        is always the same. Of three stages or more, one is of products that an iteration leaves to the next."""
        code, builder, loop = self.code, self.code.builder, loops[-1]
        products = self._reading(tiles)
        left = 1 if products is not None and loop.stages > 2 else 0
        ahead, count = loop.stages - 1 - left, prod(known.extent for known in loops)
        limits = self.limits.get(loop.name) if len(loops) == 1 else None
        start = Position() if limits is None else Position(((limits[0], 1),))

        def begin(at: Position) -> None:
            self._set_stage(tiles, self._stage(loop, at))
            with code.at(self._places(loops, at)):
                for tile in tiles:
                    tile.begin()

        group: SSAValue | None = None
        for first in range(ahead):
            if first < count:
                within = None if limits is None or not first else code.less(builder.index(start + first), limits[1])
                code.when(within, partial(begin, start + first))
            group = self._group()
        assert group is not None
        self._wait(group, ahead - 1)
        self._show(tiles)

        def iteration(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            now = self._stage(loop, at)
            if limits is None:
                more = code.less(builder.index(at), count - ahead)
            else:
                more = code.less(builder.index(at + ahead), limits[1])
            code.when(more, lambda: begin(at + ahead))
            next_group = self._group()
            self._set_stage(tiles, now)
            with code.at(self._places(loops, at)):
                self._grouped(tiles, left, body)
            self._wait(next_group, ahead - 1)
            self._show(tiles)
            return ()

        builder.sequential(Steps(0, count, limits=limits), (), iteration)
        if products is not None and left:
            products.wait(0)
        self._set_stage(tiles, Position())

    def _stage(self, loop: Loop, at: Position) -> Position:
        """Which stage an iteration has."""
        return self.code.remainder(at, loop.stages)

    def _set_stage(self, tiles: Sequence[SharedTile], stage: Position) -> None:
        for tile in tiles:
            tile.stage = stage

    def _group(self) -> SSAValue:
        return self.code.value(DeviceAsyncCreateGroupOp())

    def _wait(self, group: SSAValue, left: int) -> None:
        self.code.builder.add(DeviceAsyncWaitOp(group, left))

    def _barrier(self) -> None:
        self.code.builder.add(gpu.BarrierOp())
