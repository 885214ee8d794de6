"""What a buffered function does with its arena: each buffer, when it is needed, the peak and its lower bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.lowering.buffers.bufferize_function import UPDATED
from tenon.lowering.buffers.memory_plan import (
    Interval,
    Lifetime,
    MemoryPlan,
    PlannedBuffer,
    most_live_bytes,
)
from tenon.lowering.buffers.memref_facts import buffer_bytes


def memory_report(module: ModuleOp, function_name: str = "main") -> MemoryPlan:
    """The plan that a buffered function follows, read off the views of its arena, which is its last argument.

    Views at the same offset value are one buffer. A buffer that a loop body reads, or writes in part, before the body
    has written all of it, is live for the whole loop, unless all accesses to it are in that body.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
    if function_name not in functions:
        raise ValueError(f"memory report: the module has no function @{function_name}")
    reader = _ArenaReader(functions, functions[function_name].body.block)
    buffers = tuple(reader.planned_buffers())
    peak = max((buffer.offset + buffer.bytes for buffer in buffers), default=0)
    lifetimes = [Lifetime(buffer.name, buffer.bytes, buffer.first, buffer.last) for buffer in buffers]
    return MemoryPlan(buffers, peak, most_live_bytes(lifetimes))


@dataclass(eq=False, slots=True)
class _ArenaBuffer:
    name: str
    bytes: int
    offset: int
    writer: str = ""
    accesses: list[Interval] = field(default_factory=list[Interval])


@dataclass(eq=False, slots=True)
class _Frame:
    """A region on the way to the current op: whether it is a loop body, and the buffers that are set in it by now.

    `live_in` are the buffers that it reads, or writes in part, before they are set, each with whether its content must
    be kept from one iteration to the next in any case.
    """

    is_loop: bool = False
    live_in: list[tuple[_ArenaBuffer, bool]] = field(default_factory=list[tuple[_ArenaBuffer, bool]])
    written: set[_ArenaBuffer] = field(default_factory=set[_ArenaBuffer])


class _ArenaReader:
    """One walk over a buffered function that collects the accesses to each buffer of its arena."""

    def __init__(self, functions: dict[str, func.FuncOp], entry: Block):
        self._functions = functions
        self._arena = entry.args[-1]
        self._clock = 0
        self._buffers: dict[SSAValue, _ArenaBuffer] = {}
        self._aliases: dict[SSAValue, tuple[_ArenaBuffer, bool]] = {}
        self._frames = [_Frame()]
        self._live_in: list[tuple[_ArenaBuffer, bool, int, int]] = []
        self._walk(entry)

    def planned_buffers(self) -> Iterable[PlannedBuffer]:
        """The buffers in the order of their views."""
        for buffer, is_kept, start, end in self._live_in:
            # Content that comes and goes within one iteration is not carried by the loop.
            if is_kept or any(first < start or last > end for first, last in buffer.accesses):
                buffer.accesses.append((start, end))
        for buffer in self._buffers.values():
            first = min((access[0] for access in buffer.accesses), default=0)
            last = max((access[1] for access in buffer.accesses), default=0)
            yield PlannedBuffer(buffer.name, buffer.bytes, buffer.offset, first, last, buffer.writer)

    def _walk(self, block: Block) -> None:
        for op in block.ops:
            self._clock += 2
            if isinstance(op, memref.ViewOp) and op.source is self._arena:
                self._view(op)
            elif isinstance(op, memref.ReinterpretCastOp | memref.SubviewOp | memref.CastOp):
                if (alias := self._aliases.get(op.operands[0])) is not None:
                    is_whole = alias[1] and buffer_bytes(_memref_type(op.results[0])) == alias[0].bytes
                    self._aliases[op.results[0]] = (alias[0], is_whole)
            else:
                self._access(op)
                if isinstance(op, scf.ForOp | scf.WhileOp):
                    self._loop(op)
                elif isinstance(op, scf.IfOp):
                    self._branches(op)

    def _loop(self, op: scf.ForOp | scf.WhileOp) -> None:
        start = self._clock
        frame = _Frame(is_loop=True)
        self._frames.append(frame)
        self._walk(op.regions[0].block)
        always_written = frozenset(frame.written) if isinstance(op, scf.WhileOp) else frozenset[_ArenaBuffer]()
        for region in op.regions[1:]:
            self._walk(region.block)
        self._frames.pop()
        self._frames[-1].written |= always_written
        self._clock += 2
        self._live_in += ((buffer, is_kept, start, self._clock) for buffer, is_kept in frame.live_in)

    def _branches(self, op: scf.IfOp) -> None:
        written: list[set[_ArenaBuffer]] = []
        for region in op.regions:
            self._frames.append(_Frame())
            for block in region.blocks:
                self._walk(block)
            written.append(self._frames.pop().written)
        self._frames[-1].written |= set[_ArenaBuffer].intersection(*written)

    def _view(self, op: memref.ViewOp) -> None:
        shift, owner, is_whole = op.byte_shift, op.byte_shift.owner, True
        while isinstance(owner, arith.AddiOp):
            shift, owner, is_whole = owner.lhs, owner.lhs.owner, False
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
            raise ValueError("memory report: a view of the arena must start at a constant, or a constant plus an index")
        size = buffer_bytes(_memref_type(op.result))
        buffer = self._buffers.get(shift)
        if buffer is None:
            name = op.result.name_hint or f"buffer_{len(self._buffers)}"
            buffer = self._buffers[shift] = _ArenaBuffer(name, size, owner.value.value.data)
        buffer.bytes = max(buffer.bytes, size)
        self._aliases[op.result] = (buffer, is_whole)

    def _access(self, op: Operation) -> None:
        first_written = self._first_written_operand(op)
        updated = self._updated_operands(op, first_written)
        for index, operand in enumerate(op.operands):
            alias = self._aliases.get(operand)
            if alias is None:
                continue
            buffer, is_whole = alias
            if index >= first_written and not buffer.writer:
                buffer.writer = op.callee.string_value() if isinstance(op, func.CallOp) else op.name
            if index >= first_written and is_whole and index not in updated:
                buffer.accesses.append((self._clock + 1, self._clock + 1))
                self._frames[-1].written.add(buffer)
                continue
            buffer.accesses.append((self._clock, self._clock + 1))
            # A part that one iteration writes is kept for the iterations that write the others.
            is_kept = index >= first_written
            for frame in reversed(self._frames):
                if buffer in frame.written:
                    break
                if frame.is_loop:
                    frame.live_in.append((buffer, is_kept))
                    is_kept = False

    def _updated_operands(self, op: Operation, first_written: int) -> list[int]:
        """Those that are read as well as written."""
        if not isinstance(op, func.CallOp):
            return []
        numbers = self._functions[op.callee.string_value()].attributes.get(UPDATED)
        return (
            [first_written + number for number in numbers.get_values()] if isinstance(numbers, DenseArrayBase) else []
        )

    def _first_written_operand(self, op: Operation) -> int:
        if isinstance(op, memref.CopyOp):
            return 1
        if isinstance(op, func.CallOp):
            inputs = self._functions[op.callee.string_value()].attributes.get("num_inputs")
            if isinstance(inputs, IntegerAttr):
                return inputs.value.data
        return len(op.operands)


def _memref_type(value: SSAValue) -> MemRefType[Attribute]:
    assert isinstance(value.type, MemRefType)
    return value.type
