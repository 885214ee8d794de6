"""Parallel loops with the attribute `threads`: each of their iterations is a chunk that some thread runs.

The body becomes a function of its own, `@kernel_0_chunk1`, which takes the values of the function around it that it
uses and the number of its chunk; a second one, `@kernel_0_part1(ptr %context, i64 %chunk)`, takes these values out of a
structure on the stack and calls it. So what is known of pointers stays known: they are parameters again, `noalias`
where no other captured pointer reaches their memory. Stack slots of the body are of each chunk. The loop itself is a
call of `void @tenon_parallel_for(ptr function, ptr context, i64 chunks)`, which returns when all chunks are done; it is
left to the process.

Where chunks keep something (`KEPT`), the second function has the memory, and runs chunks as long as its third argument
gives more: the first word of what that points to is a function of it whose result is the next chunk, or -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, Operation, SSAValue

from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.llvm.aliasing import PointerFacts, Root, argument_of, memory_of, pointer_attributes
from tenon.lowering.llvm.control import CONTROL_HANDLERS
from tenon.lowering.llvm.function import FunctionWriter, Handler, braces
from tenon.lowering.llvm.memory import allocated
from tenon.lowering.llvm.tiles import plan_tiles
from tenon.lowering.llvm.types import I64, POINTER, LlvmType
from tenon.lowering.loop_passes.cut_loops import KEPT, THREADS
from tenon.passes.machine import ALIGNMENT

_PARALLEL_FOR = "tenon_parallel_for"
_serial_loop = CONTROL_HANDLERS["scf.parallel"]
_switch = CONTROL_HANDLERS["scf.index_switch"]


def _parallel(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, scf.ParallelOp)
    if THREADS not in op.attributes:
        _serial_loop(writer, op)
        return
    if op.results:
        raise ValueError(f"emit_llvm: scf.parallel in {writer.name} has {len(op.results)} results and threads")
    captured = _Captured.of(writer, op)
    context = captured.store(writer)
    chunks = "1"
    for count in _counts(writer, op):
        chunks = _product(writer, chunks, count)
    number = writer.fresh("")
    chunk, part = f"{writer.name}_chunk{number}", f"{writer.name}_part{number}"
    writer.declare(f"declare void @{_PARALLEL_FOR}(ptr, ptr, i64)")
    writer.effect(f"call void @{_PARALLEL_FOR}(ptr @{part}, ptr {context}, i64 {chunks})")
    kept = [inner for inner in all_ops(op) if KEPT in inner.attributes]
    writer.module.functions += [
        _chunk_function(writer, op, chunk, captured, kept),
        _part_function(writer, part, chunk, captured, kept),
    ]


def _fill(writer: FunctionWriter, op: Operation) -> None:
    """Fill kept memory unless it holds what it would be filled with."""
    assert isinstance(op, scf.IndexSwitchOp)
    if (place := writer.kept.get(op)) is None:
        _switch(writer, op)
        return
    argument = writer.values[op.arg]
    held = writer.emit(f"load i64, ptr {place}, align 8")
    fill, filled = writer.fresh("fill"), writer.fresh("filled")
    writer.branch_if(writer.emit(f"icmp eq i64 {held}, {argument}"), filled, fill)
    writer.start_block(fill)
    with writer.region():
        writer.operations(op.default_region.block)
    writer.effect(f"store i64 {argument}, ptr {place}, align 8")
    writer.branch(filled)
    writer.start_block(filled)


THREAD_HANDLERS: dict[str, Handler] = {"scf.parallel": _parallel, "scf.index_switch": _fill}


@dataclass(frozen=True, slots=True)
class _Captured:
    """The values from around a loop that it uses, without constants: types and operands, in the order of use."""

    values: dict[str, SSAValue | None]
    """By the LLVM operand; several values may be one operand. None: a size."""
    types: dict[str, LlvmType]
    free: list[SSAValue]
    """All values from around the loop, constants as well."""

    @staticmethod
    def of(writer: FunctionWriter, loop: scf.ParallelOp) -> _Captured:
        found = _Captured({}, {}, _free_values(loop))
        for value in found.free:
            text = writer.values[value]
            if text.startswith("%"):
                found.values.setdefault(text, value)
                found.types[text] = writer.stored_type_of(value)
        for text in writer.sizes.values():
            found.values.setdefault(text, None)
            found.types[text] = I64
        return found

    def offsets(self) -> list[int]:
        """Where each value lies in the structure, and how long that is."""
        offsets, end = [], 0
        for value_type in self.types.values():
            alignment = _alignment(value_type)
            start = -(-end // alignment) * alignment
            offsets.append(start)
            end = start + _bytes(value_type)
        return [*offsets, max(end, 1)]

    def store(self, writer: FunctionWriter) -> str:
        """Put the values into a structure on the stack; its pointer."""
        *offsets, size = self.offsets()
        context = writer.stack_slot(size)
        for offset, (text, value_type) in zip(offsets, self.types.items(), strict=True):
            slot = writer.offset_pointer(context, str(offset), "i8")
            writer.effect(f"store {value_type.text} {text}, ptr {slot}, align {_alignment(value_type)}")
        return context

    def load(self, writer: FunctionWriter) -> list[str]:
        """Take the values out of the structure `%context`: as arguments."""
        arguments: list[str] = []
        for offset, value_type in zip(self.offsets()[:-1], self.types.values(), strict=True):
            place = writer.offset_pointer("%context", str(offset), "i8")
            loaded = writer.emit(f"load {value_type.text}, ptr {place}, align {_alignment(value_type)}")
            arguments.append(f"{value_type.text} {loaded}")
        return arguments


def _bytes(value_type: LlvmType) -> int:
    """What a store writes; masks are whole bytes."""
    return -(-value_type.bits * (value_type.lanes or 1) // 8)


def _alignment(value_type: LlvmType) -> int:
    return min(1 << (_bytes(value_type) - 1).bit_length(), ALIGNMENT)


def _free_values(loop: scf.ParallelOp) -> list[SSAValue]:
    """The values that `loop` uses and that are computed outside of it, each once."""
    inside: set[SSAValue] = set()
    free: dict[SSAValue, None] = {}
    for op in all_ops(loop):
        free.update((operand, None) for operand in op.operands if operand not in inside)
        if op is not loop:
            inside.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                inside.update(block.args)
    return list(free)


def _counts(writer: FunctionWriter, loop: scf.ParallelOp) -> list[str]:
    """How often each dimension runs."""
    counts: list[str] = []
    for bounds in zip(loop.lowerBound, loop.upperBound, loop.step, strict=True):
        lower, upper, step = (writer.values[bound] for bound in bounds)
        if not any(text.startswith("%") for text in (lower, upper, step)):
            counts.append(str(max(0, -((int(lower) - int(upper)) // int(step)))))
            continue
        distance = writer.emit(f"sub i64 {upper}, {lower}")
        positive = writer.call_intrinsic("smax.i64", I64, [(I64, distance), (I64, "0")])
        beyond = writer.emit(f"add i64 {positive}, {step}")
        counts.append(writer.emit(f"udiv i64 {writer.emit(f'sub i64 {beyond}, 1')}, {step}"))
    return counts


def _product(writer: FunctionWriter, left: str, right: str) -> str:
    if left.startswith("%") or right.startswith("%"):
        return right if left == "1" else writer.emit(f"mul nsw i64 {left}, {right}")
    return str(int(left) * int(right))


def _part_function(outer: FunctionWriter, name: str, chunk: str, captured: _Captured, kept: Sequence[Operation]) -> str:
    """The function that the pool calls."""
    writer = FunctionWriter(name, outer.handlers, outer.module, outer.attributes)
    arguments = captured.load(writer)
    if not kept:
        writer.effect(f"call void @{chunk}({', '.join([*arguments, 'i64 %chunk'])})")
        return _function(f"{name}(ptr noalias readonly %context, i64 %chunk)", writer)
    for op in kept:
        if isinstance(op, scf.IndexSwitchOp):
            arguments.append(f"ptr {(place := writer.stack_slot(8))}")
            writer.effect(f"store i64 -1, ptr {place}, align 8")
        else:
            arguments.append(f"ptr {allocated(writer, op)}")
    again, done = writer.fresh("again"), writer.fresh("done")
    writer.branch(again)
    writer.start_block(again)
    current = writer.reserve()
    writer.effect(f"call void @{chunk}({', '.join([*arguments, f'i64 {current[1]}'])})")
    following = writer.emit(f"call i64 {writer.emit('load ptr, ptr %run, align 8')}(ptr %run)")
    writer.fill(*current, writer.phi_text(I64, [("%chunk", "entry"), (following, again)]))
    writer.branch_if(writer.emit(f"icmp sge i64 {following}, 0"), again, done)
    writer.start_block(done)
    return _function(f"{name}(ptr noalias readonly %context, i64 %chunk, ptr %run)", writer)


def _function(header: str, writer: FunctionWriter) -> str:
    return braces(f"define internal void @{header} {writer.attributes} {{", [*writer.finish(), "  ret void"])


def _chunk_function(
    outer: FunctionWriter, loop: scf.ParallelOp, name: str, captured: _Captured, kept: Sequence[Operation]
) -> str:
    """The body of `loop` for one chunk, as a function of the captured values and the number of the chunk."""
    writer = FunctionWriter(name, outer.handlers, outer.module, outer.attributes)
    names = {text: f"%a{number}" for number, text in enumerate(captured.types)}
    facts = _pointer_facts(outer, captured)
    for value in captured.free:
        text = outer.values[value]
        writer.values[value] = names.get(text, text)
        if value in outer.integers:
            writer.integers[value] = outer.integers[value]
        if text in facts:
            writer.pointer_facts[value] = facts[text]
    writer.sizes = {size: names[text] for size, text in outer.sizes.items()}
    parameters = []
    for text, value in captured.values.items():
        attributes = ""
        if value is not None and isinstance(value.type, MemRefType):
            attributes = pointer_attributes(value.type, facts[text])
        parameters.append(f"{captured.types[text].text} {attributes}{names[text]}")
    for number, op in enumerate(kept):
        writer.kept[op] = f"%k{number}"
        attributes = "noalias align 8 dereferenceable(8) "
        for result in op.results:
            writer.values[result] = writer.kept[op]
            assert isinstance(result.type, MemRefType)
            attributes = pointer_attributes(result.type, PointerFacts(True, ALIGNMENT))
        parameters.append(f"ptr {attributes}{writer.kept[op]}")
    _bind_indices(writer, loop)
    plan_tiles(writer, loop.body.block)
    writer.operations(loop.body.block)
    return _function(f"{name}({', '.join([*parameters, 'i64 %chunk'])})", writer)


def _bind_indices(writer: FunctionWriter, loop: scf.ParallelOp) -> None:
    """The indices of chunk `%chunk`, in row-major order.

    Where the launch tells how many there are, LLVM would leave all that is added to a quotient inside of the loops that
    it is used in, since it does not know that no divisor is 0: it does not look beyond `freeze`."""
    left = "%chunk"
    positions: list[str] = []
    counts = _counts(writer, loop)[1:]
    for count in reversed(counts):
        positions.append(writer.emit(f"urem i64 {left}, {count}"))
        left = writer.emit(f"udiv i64 {left}, {count}")
    indices = zip(loop.body.block.args, [left, *reversed(positions)], loop.lowerBound, loop.step, strict=True)
    for argument, position, lower, step in indices:
        by, start = writer.values[step], writer.values[lower]
        index = position if by == "1" else writer.emit(f"mul nsw i64 {position}, {by}")
        index = index if start == "0" else writer.emit(f"add nsw i64 {index}, {start}")
        is_quotient = any(count.startswith("%") for count in counts)
        writer.values[argument] = writer.emit(f"freeze i64 {index}") if is_quotient else index


def _pointer_facts(writer: FunctionWriter, captured: _Captured) -> dict[str, PointerFacts]:
    """What holds for each captured pointer, by its operand: it is `noalias` if no other one reaches its memory. An
    argument of the kernel that is not known to be alone may be another such argument, but none that is."""
    passed = {
        value: Root(writer.values[value], facts.alignment)
        for value, facts in writer.pointer_facts.items()
        if facts.noalias
    }
    memories = {
        text: memory_of(value, passed)
        for text, value in captured.values.items()
        if value is not None and captured.types[text] is POINTER
    }
    starts = {text: argument_of(value) for text, value in captured.values.items() if value is not None}
    shared = {text for text, start in starts.items() if start in writer.pointer_facts}
    facts: dict[str, PointerFacts] = {}
    for text, memory in memories.items():
        value = captured.values[text]
        overlaps = any(
            memory.overlaps(other)
            for rival, other in memories.items()
            if rival != text and not (other.root is None and memory.root is not None and rival in shared)
        )
        alignment = memory.alignment
        if isinstance(value, BlockArgument):
            alignment = writer.pointer_facts[value].alignment if value in writer.pointer_facts else 1
        facts[text] = PointerFacts(memory.root is not None and not overlaps, alignment)
    return facts
