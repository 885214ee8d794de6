"""A kernel as loops with names, while steps change how they run.

*Axes* are the loops of all statements of a kernel, those of different statements that reach the same elements being
one: `i`, `j`, … from the outermost on. Each is a sum of *loops*, at first one of its own name. A loop is run in order
by each thread, unless it is bound to threads or written out. A buffer is an argument of the kernel, `a0`, `a1`, …, or
an intermediate, `t0`, `t1`, …; its *placement* says where the elements that are in use are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod

from xdsl.ir import Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.lowering.instructions.instruction import Instruction
from tenon.lowering.kernels.axes import LETTERS, leading_axis, shared_axes
from tenon.lowering.kernels.statement import Access, Kernel, LoopKind, Statement, root_of
from tenon.passes.machine import Gpu

WARPGROUP = "nvgpu.warpgroup.mma"
"""The op of the instructions that multiply matrices for four warps."""


class NestError(ValueError):
    """A kernel that is no nest, or a step that cannot be done; the message says why."""


class Bind(Enum):
    """What runs the iterations of a loop at the same time. Threads of a block are numbered by their loops in order:
    those of `BLOCK`, then of `WARP`, then of `LANE`, which are 32 in all where there are any."""

    GRID = "grid"
    BLOCK = "block"
    WARP = "warp"
    LANE = "lane"


THREADS = (Bind.BLOCK, Bind.WARP, Bind.LANE)


@dataclass(frozen=True)
class Tile:
    """How the part of a buffer that a block of threads uses is kept in shared memory: it is copied inside of loop `at`
    (without, once), with the elements along axis `inner` as neighbours (without, as in the buffer), and `pad` unused
    elements behind each row."""

    at: str | None = None
    inner: str | None = None
    pad: int = 0
    swizzle: int = 1
    """How many runs of 16 bytes trade places: rows have them in another order each, so that the same run of several
    rows is in different banks."""
    asynchronous: bool = False
    """Whether threads go on while it is copied."""
    panel: int = 0
    """Elements after which a row goes on behind all others, in the next panel; 0: rows are whole."""
    boxes: bool = False
    """Whether a warp of its own copies boxes of the argument, which takes no other threads."""
    part: str = ""
    """The loop of which only the `first` iterations are for what is copied, if there is one: threads load what the
    others need from memory."""
    first: int = 0


class Space(Enum):
    """Where the elements of a buffer are that a thread uses."""

    GLOBAL = "global"
    REGISTERS = "registers"
    INLINE = "inline"
    """Nowhere: they are computed where they are read."""
    FRAGMENTS = "fragments"
    """In the registers of a warp, as an instruction deals matrices out to its lanes."""


@dataclass(frozen=True)
class Loop:
    """`extent` iterations; `axis` is what it counts along, in steps of `stride`."""

    name: str
    extent: int
    axis: str
    stride: int = 1
    bind: Bind | None = None
    like: str = ""
    """The loop that has the same threads for other statements."""
    descending: bool = False
    """Whether blocks have its iterations from the last one down."""
    unrolled: bool = False
    vector: bool = False
    stages: int = 1
    """How many iterations are under way at a time, what they copy to shared memory each in a place of its own."""
    contracted: bool = False
    """Whether one instruction does all iterations."""
    rotated: bool = False
    """Whether a product does all iterations at once, and what follows one after the other, in the same registers."""

    @property
    def written_out(self) -> bool:
        """Whether the iterations are separate code, so that registers can be told by them."""
        return self.unrolled or self.vector

    @property
    def in_order(self) -> bool:
        """Whether a thread runs the loop as such."""
        return self.bind is None and not (self.written_out or self.contracted or self.rotated)


@dataclass(frozen=True)
class NestAccess:
    """The access of a statement to `buffer` (a root), with the axes of the nest in place of the statement's loops."""

    access: Access
    buffer: SSAValue
    factors: tuple[tuple[tuple[str, int], ...], ...]
    """For each subscript, axes and what they are multiplied by."""
    constants: tuple[int, ...]
    leading: tuple[str | None, ...] = ()
    """For each subscript the axis that moves within a tile (see `leading_axis`)."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the place depends on, in the order of the subscripts."""
        return tuple(dict.fromkeys(axis for factors in self.factors for axis, factor in factors if factor))

    def plain_axes(self) -> tuple[str | None, ...]:
        """For each subscript the axis that it is, or None."""
        return tuple(
            factors[0][0] if len(factors) == 1 and factors[0][1] == 1 and constant == 0 else None
            for factors, constant in zip(self.factors, self.constants, strict=True)
        )

    @property
    def place(self) -> tuple[object, ...]:
        """What tells accesses to the same elements; a dimension of one has one index, however it is written."""
        whole = [size != 1 for size in self.access.shape]
        factors = tuple(known if tells else () for known, tells in zip(self.factors, whole, strict=True))
        return (self.access.buffer, factors, tuple(c if t else 0 for c, t in zip(self.constants, whole, strict=True)))


@dataclass(frozen=True)
class NestStatement:
    """A statement with, for each of its loops, the axis that it is."""

    statement: Statement
    axes: tuple[str, ...]
    inputs: tuple[NestAccess, ...]
    outputs: tuple[NestAccess, ...]

    @property
    def reduced(self) -> tuple[str, ...]:
        """The axes along which it combines what it meets, or runs in order."""
        kinds = self.statement.kinds
        return tuple(axis for axis, kind in zip(self.axes, kinds, strict=True) if kind is not LoopKind.PARALLEL)


@dataclass(frozen=True)
class Contraction:
    """A product of matrices that an instruction of a warp computes, or one of a warpgroup: `statement`, of the operands
    `left`, which has the rows, along the axis `row`, and `right`, which has the columns. It does all iterations of the
    loop `depth`, or, where `left` is in registers as the result of another one, two of them."""

    statement: NestStatement
    instruction: Instruction
    left: NestAccess
    right: NestAccess
    row: str
    column: str
    depth: Loop

    @property
    def by_warpgroup(self) -> bool:
        """Whether a warpgroup computes it, which reads operands in shared memory while its threads go on."""
        return self.instruction.op == WARPGROUP


@dataclass(frozen=True)
class Pieces:
    """What is gone through once, in pieces, which are the iterations of `loop`: all statements along its axis do one
    piece before the next, and `sums` go on. Outside of the band of axes `visible`, if there is one, nothing is added to
    them. Where there is a `maximum`, which finds the largest element of a row, they are of what was divided by its
    exponential."""

    loop: str
    sums: tuple[NestStatement, ...]
    visible: VisibleAxes | None = None
    maximum: NestStatement | None = None


@dataclass(frozen=True)
class VisibleAxes:
    """What counts of an axis begins `lower`, and ends `upper`, behind the index along the axis `row`."""

    row: str
    lower: int | None
    upper: int | None


@dataclass
class Nest:
    """See the module docstring. Steps change `loops` and `spaces`; the rest is what the kernel computes."""

    kernel: Kernel
    machine: Gpu
    extents: dict[str, int]
    """Of each axis, in order."""
    statements: list[NestStatement]
    loops: list[Loop]
    buffers: dict[str, SSAValue]
    """By the names that steps use."""
    spaces: dict[SSAValue, Space] = field(default_factory=dict)
    tiles: dict[SSAValue, Tile] = field(default_factory=dict)
    """Of the buffers that a block has parts of in shared memory."""
    contractions: list[Contraction] = field(default_factory=list)
    pieces: Pieces | None = None
    lasting: int = 0
    """Blocks that there are, each of which does tiles one after the other; 0: one for each."""
    registers: tuple[int, int] | None = None
    """Of each thread that copies, and that computes, where they do not have equally many."""
    resident: int = 0
    """Blocks that a multiprocessor is to hold at a time; 0: the assembler finds how many."""
    library: str = ""
    """What computes the whole kernel in place of threads, if something does."""

    @staticmethod
    def of(kernel: Kernel, machine: Gpu) -> Nest:
        """The nest of a kernel to which no step has been applied. Raises `NestError` for one that has no nest."""
        for item in kernel.items:
            if isinstance(item, Operation):
                raise NestError(f"{item.name} is no statement over loops")
        statements = kernel.statements
        if not statements:
            raise NestError("there is no statement")
        for statement in statements:
            if any(isinstance(extent, Size) for extent in statement.extents):
                raise NestError("a loop has an extent that is known at launch only")
        found = shared_axes(statements)
        if found is None:
            raise NestError(f"there are more than {len(LETTERS)} axes")
        axes, extents = found
        nested = [_nested(statement, names) for statement, names in zip(statements, axes, strict=True)]
        loops = [Loop(name, extent, name) for name, extent in extents.items()]
        buffers: dict[str, SSAValue] = {f"a{n}": a for n, a in enumerate(kernel.function.body.block.args)}
        buffers |= {f"t{n}": alloc.memref for n, alloc in enumerate(kernel.intermediates)}
        spaces: dict[SSAValue, Space] = {alloc.memref: Space.REGISTERS for alloc in kernel.intermediates}
        return Nest(kernel, machine, extents, nested, loops, buffers, spaces)

    def loop(self, name: str) -> Loop:
        """The loop of this name. Raises `NestError`."""
        found = next((loop for loop in self.loops if loop.name == name), None)
        if found is None:
            raise NestError(f"there is no loop {name}, only {', '.join(loop.name for loop in self.loops)}")
        return found

    def change(self, name: str, *loops: Loop) -> None:
        """Put `loops` in the place of a loop."""
        at = self.loops.index(self.loop(name))
        self.loops[at : at + 1] = loops

    def loops_of(self, axes: Sequence[str]) -> list[Loop]:
        """The loops that some axes are made of, in order."""
        return [loop for loop in self.loops if loop.axis in axes]

    def bound(self, *binds: Bind) -> list[Loop]:
        """The loops that are bound so, in the order in which their iterations are numbered."""
        return [loop for bind in binds for loop in self.loops if loop.bind is bind and not loop.like]

    def count(self, *binds: Bind) -> int:
        """How many iterations the loops that are bound so have in all."""
        return prod(loop.extent for loop in self.bound(*binds))

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return min(self.lasting or self.count(Bind.GRID), self.count(Bind.GRID))

    @property
    def copiers(self) -> int:
        """Threads of a block besides those that loops are bound to: a warp that has boxes copied, or four of them, as
        they change the number of their registers together."""
        if not any(tile.boxes for tile in self.tiles.values()):
            return 0
        return self.machine.warpgroup if self.registers is not None else self.machine.warp

    def covered(self, axis: str) -> int:
        """One more than the largest index along an axis that its loops reach: at least its extent."""
        return 1 + sum((loop.extent - 1) * loop.stride for loop in self.loops if loop.axis == axis)

    def space(self, buffer: SSAValue) -> Space:
        """Where a buffer is."""
        return self.spaces.get(buffer, Space.GLOBAL)

    def contraction_of(self, statement: NestStatement) -> Contraction | None:
        """The contraction that computes a statement."""
        return next((known for known in self.contractions if known.statement is statement), None)

    def others(self, axes: Sequence[str]) -> list[Loop]:
        """The loops bound to threads or blocks that do the same elements along some axes."""
        own = {loop.like or loop.name for loop in self.loops_of(axes)}
        return [loop for loop in self.loops if loop.bind is not None and (loop.like or loop.name) not in own]

    def name_of(self, buffer: SSAValue) -> str:
        """The name that steps use for a buffer."""
        return next(name for name, known in self.buffers.items() if known is buffer)

    def tile_loops(self, tile: Tile, axis: str) -> list[Loop]:
        """The loops of an axis whose iterations one copy of a tile is for: all that no block and no loop in order
        around the copy is at one iteration of."""
        shared = self.shared_in_order()
        last = self.loops.index(self.loop(tile.at)) if tile.at is not None else -1

        def is_around(loop: Loop) -> bool:
            return loop.bind is Bind.GRID or loop in shared or (loop.in_order and self.loops.index(loop) <= last)

        found = [loop for loop in self.loops_of([axis]) if not is_around(loop)]
        return [replaced(loop, extent=tile.first) if loop.name == tile.part else loop for loop in found]

    def writers(self, buffer: SSAValue) -> list[int]:
        """The statements that write a buffer."""
        return [n for n, s in enumerate(self.statements) if any(o.buffer is buffer for o in s.outputs)]

    def shared_in_order(self) -> list[Loop]:
        """The loops in order that are around all statements: each of these does its own elements in every iteration.
        They come before the others."""
        found: list[Loop] = []
        for loop in self.loops:
            if not loop.in_order:
                continue
            if any(loop.axis not in s.axes or loop.axis in s.reduced for s in self.statements):
                break
            found.append(loop)
        return found

    def __str__(self) -> str:
        lines = [f"nest @{self.kernel.name}", *([f"  by {self.library}"] if self.library else [])]
        for axis, extent in self.extents.items():
            parts = [o.name if o.stride == 1 else f"{o.name} * {o.stride}" for o in self.loops_of([axis])]
            lines.append(f"  axis {axis} < {extent}: {' + '.join(parts)}")
        for loop in self.loops:
            marks = [mark for mark, holds in (("unrolled", loop.unrolled), ("vector", loop.vector)) if holds]
            how = [loop.bind.value] if loop.bind is not None else marks or ["in order"]
            how += [f"as {loop.like}"] if loop.like else ["descending"] if loop.descending else []
            by = [known.instruction.name for known in self.contractions if known.depth.name == loop.name]
            how = by if loop.contracted else [*how, *by]
            if self.pieces is not None and self.pieces.loop == loop.name:
                how.append("pieces" if self.pieces.maximum is None else "online")
            how = ["in turns"] if loop.rotated else how
            how += [f"{loop.stages} stages"] if loop.stages > 1 else []
            lines.append(f"  loop {loop.name} < {loop.extent}: {', '.join(how)}")
        for name, buffer in self.buffers.items():
            tile = self.tiles.get(buffer)
            places = ["shared" if tile.at is None else f"shared at {tile.at}"] if tile is not None else []
            places += [self.space(buffer).value] if buffer in self.spaces else []
            lines += [f"  buffer {name}: {', '.join(places)}"] if places else []
        lines += [f"  {self._statement_text(statement)}" for statement in self.statements]
        return "\n".join(lines)

    def _statement_text(self, statement: NestStatement) -> str:
        outputs, inputs = (
            ", ".join(self._access_text(access) for access in accesses if access.access.is_used or is_output)
            for accesses, is_output in ((statement.outputs, True), (statement.inputs, False))
        )
        over = f" over {', '.join(statement.reduced)}" if statement.reduced else ""
        return f"{outputs} = f({inputs}){over}"

    def _access_text(self, access: NestAccess) -> str:
        subscripts: list[str] = []
        for factors, constant in zip(access.factors, access.constants, strict=True):
            terms = [axis if factor == 1 else f"{factor} * {axis}" for axis, factor in factors]
            subscripts.append(" + ".join([*terms, *([str(constant)] if constant or not terms else [])]))
        return f"{self.name_of(access.buffer)}[{', '.join(subscripts)}]"


def _nested(statement: Statement, axes: tuple[str, ...]) -> NestStatement:
    parallel = {axis for axis, kind in zip(axes, statement.kinds, strict=True) if kind is LoopKind.PARALLEL}
    extents = dict(zip(axes, map(int, statement.extents), strict=True))

    def nested(access: Access) -> NestAccess:
        subscripts = access.subscripts
        factors = tuple(tuple((axes[loop], c) for loop, c in sorted(s.factors.items()) if c) for s in subscripts)
        leading = tuple(leading_axis([axis for axis, _ in of_one], parallel, extents) for of_one in factors)
        return NestAccess(access, root_of(access.buffer), factors, tuple(s.constant for s in subscripts), leading)

    return NestStatement(statement, axes, tuple(map(nested, statement.inputs)), tuple(map(nested, statement.outputs)))


def replaced(loop: Loop, **changes: object) -> Loop:
    """`loop` with some fields changed."""
    return replace(loop, **changes)  # pyright: ignore[reportArgumentType]
