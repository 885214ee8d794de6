"""Tiles that are copied as boxes: a warp besides those that compute has them copied, as far ahead as there are stages.

Each stage has two barriers. At that of full ones the bytes of all its tiles arrive, and those who compute wait for
them; at that of empty ones each warp arrives that has computed with them, and who copies waits for all of these. So
nobody waits for the whole block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, StridedLayoutAttr, UnrankedMemRefType
from xdsl.ir import SSAValue

from tenon.dialects.upstream.bulk_copies import (
    MBarrierArriveExpectOp,
    MBarrierArriveOp,
    MBarrierCreateOp,
    MBarrierInitOp,
    MBarrierTryWaitOp,
    TensorMapType,
    TmaAsyncLoadOp,
    TmaCreateDescriptorOp,
)
from tenon.dialects.upstream.nvvm import ElectOp, MBarrierInitFenceOp, SetMaxRegisterOp
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.grids.thread_code import SHARED, ThreadCode
from tenon.lowering.grids.tiles import SharedTile
from tenon.lowering.loop_ir.builder import Position
from tenon.lowering.steps.nest import THREADS

TICKS = 10_000_000
"""Nanoseconds after which a thread that waits looks again."""


class Boxes:
    """Has `tiles` copied, in as many `stages`."""

    def __init__(self, code: ThreadCode, tiles: Sequence[SharedTile], stages: int) -> None:
        self.code, self.tiles, self.stages = code, tiles, stages
        self.maps = [self._description(tile) for tile in tiles]
        self.barriers = code.value(MBarrierCreateOp(2 * stages))
        self.warps = code.nest.count(*THREADS) // code.nest.machine.warp

    def _description(self, tile: SharedTile) -> SSAValue:
        code = self.code
        box = MemRefType(tile.element, tile.box, NoneAttr(), SHARED)
        cast = memref.CastOp.get(tile.access.access.buffer, UnrankedMemRefType.from_type(tile.element))
        sizes = [code.builder.index_constant(size) for size in tile.box]
        return code.value(TmaCreateDescriptorOp(code.value(cast), sizes, TensorMapType(box)))

    def divide(self, copy: Callable[[], None], compute: Callable[[], None]) -> None:
        """Make the barriers; then one warp does `copy`, and the others `compute`."""
        code, builder = self.code, self.code.builder
        number = builder.index_constant

        def make() -> None:
            for stage in range(self.stages):
                builder.add(MBarrierInitOp(self.barriers, number(stage), number(1)))
                builder.add(MBarrierInitOp(self.barriers, number(self.stages + stage), number(self.warps)))
            builder.add(MBarrierInitFenceOp())

        code.when(code.equal(builder.index(code.thread), 0), make)
        builder.add(gpu.BarrierOp())
        warp, registers = code.warp, code.nest.registers
        assert warp is not None

        def copying() -> None:
            if registers is not None:
                builder.add(SetMaxRegisterOp(registers[0], "decrease"))
            is_copying = code.equal(warp, self.warps) if registers is not None else None
            code.when(is_copying, lambda: code.when(code.value(ElectOp()), copy))

        def computing() -> None:
            if registers is not None:
                builder.add(SetMaxRegisterOp(registers[1], "increase"))
            compute()

        builder.conditional(code.less(warp, self.warps), computing, copying)

    def begin(self, at: Position) -> None:
        """Have the tiles of iteration `at` copied when their stage is empty."""
        builder, stage = self.code.builder, self.stage(at)
        self._wait(self._empty(stage), at, 1)
        full = builder.index(stage)
        count = sum(prod(tile.box) * tile.boxes * element_bytes(tile.element) for tile in self.tiles)
        builder.add(MBarrierArriveExpectOp(self.barriers, full, builder.index_constant(count)))
        for tile, map_ in zip(self.tiles, self.maps, strict=True):
            for number in range(tile.boxes):
                part = self._part(tile, stage, number)
                builder.add(TmaAsyncLoadOp(part, self.barriers, full, map_, tile.coordinates(number)))

    def _part(self, tile: SharedTile, stage: Position, number: int) -> SSAValue:
        """The part of a tile that a box is copied to."""
        code, whole = self.code, tile.memref.type
        assert isinstance(whole, MemRefType)
        sizes, strides = whole.get_shape(), whole.get_strides()
        assert strides is not None
        front = len(sizes) - len(tile.box)
        kept = StridedLayoutAttr([stride or 0 for stride in strides[front:]], None)
        part = MemRefType(tile.element, tile.box, kept, SHARED)
        offsets = [DYNAMIC_INDEX, *[number] * (front - 1), *[0] * len(tile.box)]
        return code.value(
            memref.SubviewOp.get(
                tile.memref,
                [code.builder.index(stage), *offsets[1:]],
                [*[1] * front, *tile.box],
                [1] * len(sizes),
                part,
            )
        )

    def stage(self, at: Position) -> Position:
        """Which stage an iteration has."""
        return self.code.remainder(at, self.stages)

    def wait(self, at: Position) -> None:
        """Wait until the tiles of iteration `at` are there."""
        self._wait(self.code.builder.index(self.stage(at)), at, 0)

    def release(self, at: Position, condition: SSAValue | None = None) -> None:
        """Say, where the condition holds, that the warp has computed with the tiles of iteration `at`."""
        code = self.code
        is_first = code.equal(code.builder.index(code.lane()), 0)

        def arrive() -> None:
            code.builder.add(MBarrierArriveOp(self.barriers, self._empty(self.stage(at))))

        code.when(code.all_of((condition, is_first)), arrive)

    def _empty(self, stage: Position) -> SSAValue:
        return self.code.builder.index(stage + self.stages)

    def _wait(self, barrier: SSAValue, at: Position, before: int) -> None:
        """Wait for the phase that belongs to iteration `at`, or the one so many before."""
        code, builder = self.code, self.code.builder
        bit = builder.index(code.remainder(code.quotient(at, self.stages) + before, 2))
        builder.add(MBarrierTryWaitOp(self.barriers, barrier, code.equal(bit, 1), builder.index_constant(TICKS)))
