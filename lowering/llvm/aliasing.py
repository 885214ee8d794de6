"""What the calls of a module promise about a function's pointer arguments: `noalias`, alignment and size.

An argument is `noalias` unless some call passes memory that may overlap with another argument of the same call, and the
function writes to one of them: what is only read may be the same for LLVM (LangRef, `noalias`). Two
arguments of `main` are different memory, except for an output and the input whose buffer it may be given (`donations`).
An output that takes the place of an input in every call is one pointer with it: LLVM sees which element is which.
Two views of the arena overlap when their byte ranges do, in whatever steps of loops around. An operand that cannot be
traced to one buffer (a block argument other than those of `main`, the result of control flow) may overlap with every
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, ModuleOp, i8
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.memref import AllocaOp, AllocOp, GetGlobalOp, ViewOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tenon.dialects.types.size import Size, is_at_most
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import buffer_bytes, element_bytes
from tenon.passes.machine import ALIGNMENT

_KEEPS_START = frozenset({"memref.cast", "memref.collapse_shape", "memref.expand_shape", "memref.assume_alignment"})
_MOVES = frozenset({"memref.reinterpret_cast", "memref.subview"})


@dataclass(frozen=True, slots=True)
class Root:
    """The buffer that an argument is the start of, and how its address is aligned."""

    buffer: object
    alignment: int


@dataclass(frozen=True, slots=True)
class Memory:
    """A part of a buffer: bytes `start` to `end` of `root`; `root` None may be any memory at all."""

    root: object
    start: int
    end: int
    alignment: int

    def overlaps(self, other: Memory) -> bool:
        """Whether the two may share a byte."""
        if self.start == self.end or other.start == other.end:
            return False
        if self.root is None or other.root is None:
            return True
        if self.root != other.root:
            return False
        return not is_at_most(other.end, self.start) and not is_at_most(self.end, other.start)


@dataclass(slots=True)
class PointerFacts:
    """What holds for one pointer argument in every call of its function."""

    noalias: bool
    alignment: int
    same_as: int | None = None
    """The argument behind it that is the same pointer, which stands for both."""


def pointer_facts(module: ModuleOp, entries: Sequence[FuncOp]) -> dict[tuple[str, int], PointerFacts]:
    """The facts for each pointer argument of each function that is called, by function name and argument number;
    `entries` are called from outside."""
    passed = {argument: root for entry in entries for argument, root in _passed_roots(entry).items()}
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    calls: dict[str, list[CallOp]] = {}
    for function in functions.values():
        for call in ops_of(function, CallOp) if function.body.blocks else ():
            calls.setdefault(call.callee.root_reference.data, []).append(call)
    facts: dict[tuple[str, int], PointerFacts] = {}
    for name, its_calls in calls.items():
        inputs = _only_read(functions[name]) if name in functions else 0
        same = _same_pointers(its_calls, inputs)
        for call in its_calls:
            for number, known in _promises(call, passed, inputs, same).items():
                before = facts.setdefault((name, number), known)
                before.noalias &= known.noalias
                before.alignment = gcd(before.alignment, known.alignment)
    return facts


def _only_read(function: FuncOp) -> int:
    """How many of the first arguments of a kernel are inputs, to which it does not write."""
    count = function.attributes.get("num_inputs")
    return count.value.data if "kernel" in function.attributes and isinstance(count, IntegerAttr) else 0


def pointer_attributes(memref_type: MemRefType, facts: PointerFacts | None) -> str:
    """What a pointer parameter of this type is declared to be."""
    natural = element_bytes(memref_type.element_type)
    alignment = max(natural, facts.alignment) if facts is not None else natural
    noalias = "noalias " if facts is not None and facts.noalias else ""
    size = _reachable_bytes(memref_type)
    dereferenceable = f"dereferenceable({size}) " if not isinstance(size, Size) and size else ""
    return f"{noalias}align {alignment} {dereferenceable}"


def _reachable_bytes(memref_type: MemRefType) -> int:
    """Bytes from the first to the last element of a dense memref; none are claimed for a strided view."""
    return buffer_bytes(memref_type) if memref_type.layout.name == "none" else 0


def _same_pointers(calls: Sequence[CallOp], inputs: int) -> dict[int, int]:
    """For inputs of a function the output that is, in all `calls`, the same pointer."""
    places = [[_place(operand) for operand in call.operands] for call in calls]
    found: dict[int, int] = {}
    for number in range(inputs):
        for output in range(inputs, len(places[0])):
            if all(row[number] is not None and row[number] == row[output] for row in places):
                found[number] = output
    return found


def _place(value: SSAValue) -> tuple[SSAValue, int] | None:
    """The buffer and the byte in it where a memref starts, if that is known; `None` for what is no memref, too."""
    while isinstance(owner := value.owner, Operation) and owner.name in _KEEPS_START:
        value = owner.operands[0]
    if not isinstance(value.type, MemRefType):
        return None
    if isinstance(owner, ViewOp):
        shifts = _bounds(owner.byte_shift)
        return (owner.source, shifts[0]) if shifts is not None and shifts[0] == shifts[1] else None
    return value, 0


def _promises(
    call: CallOp, passed: Mapping[SSAValue, Root], inputs: int, same: Mapping[int, int]
) -> dict[int, PointerFacts]:
    """What `call` promises of the arguments of a function that only reads the first `inputs` of them, of which it takes
    those in `same` for others."""
    memories = {
        number: memory_of(operand, passed)
        for number, operand in enumerate(call.operands)
        if isinstance(operand.type, MemRefType)
    }
    promises: dict[int, PointerFacts] = {}
    for number, memory in memories.items():
        overlaps = any(
            memory.overlaps(other)
            for rival, other in memories.items()
            if max(rival, number) >= inputs and same.get(rival, rival) != same.get(number, number)
        )
        promises[number] = PointerFacts(not overlaps, gcd(ALIGNMENT, memory.alignment), same.get(number))
    return promises


def _passed_roots(entry: FuncOp) -> dict[SSAValue, Root]:
    """The buffer behind each argument of an entry: its own, or that of the input that is donated to it.

    The last one may be the arena.
    """
    arguments = entry.body.block.args
    owners = {argument: argument.index for argument in arguments}
    donations, inputs = entry.attributes.get("donations"), entry.attributes.get("num_inputs")
    if isinstance(donations, DenseArrayBase) and isinstance(inputs, IntegerAttr):
        for output, donor in enumerate(donations.get_values()):
            if donor >= 0:
                owners[arguments[inputs.value.data + output]] = int(donor)
    roots: dict[SSAValue, Root] = {}
    for argument, owner in owners.items():
        if isinstance(argument.type, MemRefType):
            element = argument.type.element_type
            is_arena = argument is arguments[-1] and element == i8
            roots[argument] = Root(owner, ALIGNMENT if is_arena else element_bytes(element))
    return roots


def memory_of(value: SSAValue, passed: Mapping[SSAValue, Root]) -> Memory:
    """The memory that a memref value can reach, as far as it can be traced to a buffer that is `passed` or made."""
    assert isinstance(value.type, MemRefType)
    natural = element_bytes(value.type.element_type)
    owner = value.owner
    if value in passed:
        return Memory(passed[value].buffer, 0, buffer_bytes(value.type), passed[value].alignment)
    if isinstance(value, BlockArgument):
        return Memory(None, 0, 1, natural)
    assert isinstance(owner, Operation)
    if isinstance(owner, ViewOp):
        return _memory_of_view(owner, memory_of(owner.source, passed), natural)
    if owner.name in _KEEPS_START:
        return memory_of(owner.operands[0], passed)
    if owner.name in _MOVES:
        source = memory_of(owner.operands[0], passed)
        return Memory(source.root, source.start, source.end, gcd(source.alignment, natural))
    if isinstance(owner, GetGlobalOp):
        return Memory(owner.name_.root_reference.data, 0, buffer_bytes(value.type), ALIGNMENT)
    if isinstance(owner, AllocOp | AllocaOp):
        return Memory(owner, 0, buffer_bytes(value.type), ALIGNMENT)
    return Memory(None, 0, 1, natural)


def _memory_of_view(view: ViewOp, source: Memory, natural: int) -> Memory:
    if (shifts := _bounds(view.byte_shift)) is None:
        return Memory(source.root, source.start, source.end, natural)
    first, last = (source.start + shift for shift in shifts)
    assert isinstance(view.result.type, MemRefType)
    alignment = gcd(source.alignment, shifts[0]) if first == last else natural
    return Memory(source.root, first, last + buffer_bytes(view.result.type), alignment)


def _bounds(value: SSAValue) -> tuple[Any, Any] | None:
    """The least and the greatest number that an index is, if it is made of constants and of loops between such."""
    op = value.owner
    if isinstance(value, BlockArgument):
        loop = value.owner.parent_op()
        if not isinstance(loop, scf.ForOp) or value.index:
            return None
        (lower, upper, step) = known = [_number(end) for end in (loop.lb, loop.ub, loop.step)]
        if any(isinstance(end, Size | None) for end in known):
            return None
        return lower, lower + max(upper - 1 - lower, 0) // step * step
    if (number := _number(value)) is not None:
        return number, number
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    lhs, rhs = _bounds(op.lhs), _bounds(op.rhs)
    if lhs is None or rhs is None or any(isinstance(end, Size) for end in (*lhs, *rhs)):
        return None
    if isinstance(op, arith.AddiOp):
        return lhs[0] + rhs[0], lhs[1] + rhs[1]
    if isinstance(op, arith.SubiOp):
        return lhs[0] - rhs[1], lhs[1] - rhs[0]
    ends = [a * b for a in lhs for b in rhs]
    return min(ends), max(ends)


def _number(value: SSAValue) -> Any:
    """The constant that an index is, perhaps a `Size`; `None` if it is none."""
    op = value.owner
    return op.value.value.data if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr) else None


def argument_of(value: SSAValue) -> SSAValue:
    """What a memref is a view of."""
    while isinstance(owner := value.owner, Operation) and (owner.name in _KEEPS_START or owner.name in _MOVES):
        value = owner.operands[0]
    return value
