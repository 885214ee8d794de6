"""`amx` to LLVM: which register each tile is in, when the shapes of registers are loaded, and the instructions.

A processor has eight tile registers. The shape of each, its rows and the bytes of a row, is loaded by an instruction
that also forgets what they hold, and takes as long as some products: `plan_tiles` has it done before the outermost
loops whose tiles fit one set of shapes. A function that loads shapes releases the registers when it returns, so that
the system need not save them. What it calls may do so, too; so may the chunk of a loop for threads, as this thread may
run it.

A product writes to the register of its sums, a loop carries a tile in one. So tiles are never copied or spilled; what
would take that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.upstream.amx import (
    TileLoadOp,
    TileMulFOp,
    TileMulIOp,
    TileProductOp,
    TileStoreOp,
    TileType,
    TileZeroOp,
    tile_type,
)
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.dot_products import ELEMENTS
from tenon.lowering.llvm.function import FunctionWriter, Handlers
from tenon.lowering.llvm.types import I64, POINTER, LlvmType
from tenon.lowering.loop_passes.cut_loops import THREADS
from tenon.passes.machine import TILE_REGISTERS

TILE_HANDLERS = Handlers("amx.")
handles = TILE_HANDLERS.register

_Shape = tuple[int, int]
"""The rows of a register, and the bytes of each."""
_REGISTER, _VOID = LlvmType("i8", 8), LlvmType("void", 0)


@dataclass
class Configuration:
    """The shapes of registers, by their number."""

    shapes: dict[int, _Shape] = field(default_factory=dict)

    def load(self, writer: FunctionWriter) -> None:
        """Load the shapes."""
        slot = writer.stack_slot(64)
        words = ", ".join(f"i32 {word}" for word in self.words())
        writer.effect(f"store <16 x i32> <{words}>, ptr {slot}, align 64")
        writer.call_intrinsic("x86.ldtilecfg", _VOID, [(POINTER, slot)])

    def words(self) -> list[int]:
        """What the instruction reads, as sixteen numbers of 32 bits: palette 1, bytes of rows, then rows."""
        data = bytearray(64)
        data[0] = 1
        for register, (rows, size) in self.shapes.items():
            data[16 + 2 * register : 18 + 2 * register] = size.to_bytes(2, "little")
            data[48 + register] = rows
        return [int.from_bytes(data[start : start + 4], "little") for start in range(0, 64, 4)]


def plan_tiles(writer: FunctionWriter, block: Block) -> None:
    """Give the tiles of a function's `block` their registers, and note where which shapes are loaded. Raises
    `ValueError` for tiles that eight registers do not hold."""
    if any(map(_is_tile, _all_values(block))):
        if not writer.module.tiles:
            raise ValueError(f"emit_llvm: {writer.name} has tiles, and the target has no registers for them")
        _Plan(writer).configure(block)


def _all_values(block: Block) -> Iterable[SSAValue]:
    """What the ops of a block, and those inside of them, compute."""
    return (result for op in block.ops for inner in all_ops(op) for result in inner.results)


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, TileType)


def values_of(values: Iterable[SSAValue]) -> list[SSAValue]:
    """Those that LLVM has values for: a tile is in its register."""
    return [value for value in values if not _is_tile(value)]


def _has_tiles(op: Operation) -> bool:
    return any(_is_tile(value) for inner in all_ops(op) for value in (*inner.operands, *inner.results))


def _shares_tiles(op: Operation) -> bool:
    """Whether a tile lives when `op` begins or ends."""
    inside = {value for inner in all_ops(op) for value in inner.results if inner is not op}
    return any(map(_is_tile, op.results)) or any(
        _is_tile(value) and value not in inside and not (isinstance(value.owner, Block) and op.is_ancestor(value.owner))
        for inner in all_ops(op)
        for value in inner.operands
    )


def _launches(op: Operation) -> bool:
    """Whether other functions may run in `op`, which release the registers."""
    return any(isinstance(inner, func.CallOp) or THREADS in inner.attributes for inner in all_ops(op))


class _DoesNotFitError(Exception):
    """Tiles that one set of shapes does not hold."""


class _Plan:
    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer

    def configure(self, block: Block) -> None:
        """The ops of `block` in order, as few at a time as have a tile of their own in common."""
        current: Configuration | None = None
        for ops in _units(block):
            if any(map(_launches, ops)):
                if any(map(_has_tiles, ops)):
                    self.configure_inside(ops)
                current = None
            elif current is not None and self.extend(current, ops):
                continue
            elif self.extend(fresh := Configuration(), ops):
                self.writer.configurations[ops[0]] = current = fresh
            else:
                self.configure_inside(ops)
                current = None

    def configure_inside(self, ops: Sequence[Operation]) -> None:
        """The blocks of one op apart."""
        if len(ops) != 1 or not ops[0].regions or _shares_tiles(ops[0]):
            for op in filter(_launches, ops):
                raise ValueError(
                    f"emit_llvm: {op.name} in {self.writer.name}: no tile lives across what may release its register"
                )
            raise ValueError(
                f"emit_llvm: {self.writer.name} has more tiles at once than {TILE_REGISTERS} registers hold"
            )
        if THREADS not in ops[0].attributes:
            for region in ops[0].regions:
                for block in region.blocks:
                    self.configure(block)

    def extend(self, configuration: Configuration, ops: Sequence[Operation]) -> bool:
        """Whether the tiles of `ops` fit a configuration, which gets the shapes that it lacks then."""
        registers = _Registers(self.writer.name, configuration.shapes)
        try:
            registers.run(ops)
        except _DoesNotFitError:
            return False
        configuration.shapes = registers.shapes
        self.writer.tiles |= registers.of
        return True


def _units(block: Block) -> Iterable[list[Operation]]:
    """The ops of a block that have to do with tiles, in runs between which no tile lives."""
    ops = [op for op in block.ops if _has_tiles(op) or _launches(op)]
    ends = _last_uses(ops)
    run: list[Operation] = []
    living: set[SSAValue] = set()
    for op in ops:
        run.append(op)
        living.update(result for result in op.results if result in ends and ends[result] is not op)
        living.difference_update([value for value in living if ends[value] is op])
        if not living:
            yield run
            run = []


def _last_uses(ops: Sequence[Operation]) -> dict[SSAValue, Operation]:
    """For each tile that `ops` compute, the last of them that reads it, or has an op inside that does."""
    own = {result: op for op in ops for result in op.results if _is_tile(result)}
    return own | {value: op for op in ops for inner in all_ops(op) for value in inner.operands if value in own}


def _is_last_use(value: SSAValue, op: Operation) -> bool:
    """Whether `op` itself, once, is the last to read `value`, and does so as often as that is computed."""
    block = op.parent
    if block is None or block is not (value.owner if isinstance(value.owner, Block) else value.owner.parent):
        return False
    readers = [block.find_ancestor_op_in_block(use.operation) for use in value.uses]
    return readers.count(op) == 1 and all(
        reader is op or (reader is not None and reader.is_before_in_block(op)) for reader in readers
    )


class _Registers:
    """Registers for tiles of the function `name`, in the order of the program; `shapes` has those that are given away
    already."""

    def __init__(self, name: str, shapes: dict[int, _Shape]) -> None:
        self.name = name
        self.shapes = dict(shapes)
        self.of: dict[SSAValue, int] = {}
        self.free = list(range(TILE_REGISTERS))
        """Those that hold nothing, the one that was left longest ago first: what loads it waits for nobody."""

    def run(self, ops: Sequence[Operation], kept: Sequence[SSAValue] = ()) -> None:
        """Registers for what `ops` compute, which are free again after its last use unless it is `kept`. Raises
        `_DoesNotFitError` if the tiles take other shapes, or more registers."""
        ends = _last_uses(ops)
        for op in ops:
            taken_over = self.step(op)
            for value in dict.fromkeys((*op.operands, *op.results)):
                if ends.get(value) is op and value not in taken_over and value not in kept:
                    self.free.append(self.of[value])

    def step(self, op: Operation) -> Sequence[SSAValue]:
        """Give registers to the results of an op; the operands whose registers these take over. Raises `ValueError` for
        what would take a copy of a tile."""
        self.require(op, all(value in self.of for value in op.operands if _is_tile(value)), "no argument is a tile")
        if isinstance(op, TileProductOp):
            self.take_over(op, op.acc, op.result)
            three = len({self.of[value] for value in (op.result, op.lhs, op.rhs)}) == 3
            self.require(op, three, "acc, lhs and rhs are three different tiles")
            return (op.acc,)
        if isinstance(op, scf.ForOp):
            for start, argument, result in zip(op.iter_args, op.body.block.args[1:], op.results, strict=True):
                if _is_tile(start):
                    self.take_over(op, start, argument, result)
        elif op.regions:
            self.require(
                op, not any(map(_is_tile, op.results)), "of ops with blocks, only scf.for has tiles as results"
            )
        for region in op.regions:
            for block in region.blocks:
                *inside, last = block.ops
                self.run(inside, last.operands)
                if isinstance(op, scf.ForOp):
                    self.check_carried(op, block.args[1:], last.operands)
        for result in op.results:
            if _is_tile(result) and result not in self.of:
                self.of[result] = self.taken(tile_type(result))
        return list(op.iter_args) if isinstance(op, scf.ForOp) else ()

    def require(self, op: Operation, holds: bool, rule: str) -> None:
        """Raise `ValueError` unless a rule of `op` holds."""
        if not holds:
            raise ValueError(f"emit_llvm: {op.name} in {self.name}: {rule}")

    def take_over(self, op: Operation, value: SSAValue, *others: SSAValue) -> None:
        """Give the register of an operand of `op` to `others`."""
        self.require(
            op, _is_last_use(value, op), "a tile whose register is taken over is read by nothing else from here on"
        )
        self.of.update(dict.fromkeys(others, self.of[value]))

    def check_carried(self, op: Operation, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        """What a loop carries on has to be where it was."""
        for argument, value in zip(arguments, values, strict=True):
            if _is_tile(argument):
                self.require(op, self.of.get(argument) == self.of.get(value), "a tile is carried on in its register")

    def taken(self, type_: TileType) -> int:
        """A register that holds nothing, for a tile."""
        shape = (type_.rows, type_.row_bytes)
        for register in self.free:
            if self.shapes.setdefault(register, shape) == shape:
                self.free.remove(register)
                return register
        raise _DoesNotFitError


def _number(writer: FunctionWriter, tile: SSAValue) -> tuple[LlvmType, str]:
    return _REGISTER, str(writer.tiles[tile])


def _place(writer: FunctionWriter, op: TileLoadOp | TileStoreOp) -> list[tuple[LlvmType, str]]:
    """The pointer to the first row, and the bytes from each to the next."""
    assert isinstance(op.base.type, MemRefType)
    size, stride = element_bytes(op.base.type.element_type), writer.values[op.stride]
    distance = writer.emit(f"mul nsw i64 {stride}, {size}") if stride.startswith("%") else str(int(stride) * size)
    return [(POINTER, writer.address(op.base, list(op.indices))), (I64, distance)]


@handles("tile_zero")
def _zero(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, TileZeroOp)
    writer.call_intrinsic("x86.tilezero", _VOID, [_number(writer, op.tile)])


@handles("tile_load")
def _load(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, TileLoadOp)
    writer.call_intrinsic("x86.tileloadd64", _VOID, [_number(writer, op.tile), *_place(writer, op)])


@handles("tile_store")
def _store(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, TileStoreOp)
    writer.call_intrinsic("x86.tilestored64", _VOID, [_number(writer, op.tile), *_place(writer, op)])


_INTEGER_PRODUCTS = {
    (False, False): "tdpbssd",
    (False, True): "tdpbsud",
    (True, False): "tdpbusd",
    (True, True): "tdpbuud",
}
"""By which factors are unsigned."""


@handles("tile_mulf", "tile_muli")
def _product(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, TileMulFOp | TileMulIOp)
    element = tile_type(op.lhs).element_type
    known = next((name for name, (narrow, _) in ELEMENTS.items() if narrow == element), None)
    if known not in writer.module.tiles:
        raise ValueError(f"emit_llvm: {op.name} in {writer.name}: the target multiplies no tiles of {element}")
    name = _INTEGER_PRODUCTS[op.unsigned] if isinstance(op, TileMulIOp) else "tdpbf16ps"
    writer.call_intrinsic(f"x86.{name}", _VOID, [_number(writer, tile) for tile in (op.result, op.lhs, op.rhs)])
