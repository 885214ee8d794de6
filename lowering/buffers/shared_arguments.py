"""Which arguments of a kernel may be the same memory, by how it is called.

Where a kernel computes in place, `bufferize` has made sure that its statements, in order, read each element before they
write it; threads must keep to that, and the text may not say that pointers are distinct. A result that may have the
memory of a donated argument counts as that argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, ModuleOp, i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import WHOLE_VIEWS, UnknownSizeError, buffer_bytes, row_major_strides
from tenon.lowering.loop_ir.nests import constant_int

SHARED_ARGUMENTS = "shared_arguments"
"""The attribute of a kernel that lists arguments that may be the same memory: pairs of numbers."""

Pairs = frozenset[tuple[int, int]]

_PARTS = (memref.ReinterpretCastOp, memref.SubviewOp)


def shared_arguments(module: ModuleOp) -> dict[str, Pairs]:
    """For each kernel that is called so, the pairs of arguments that may be the same memory."""
    found: dict[str, Pairs] = {}
    donors = _donors(module)
    for call in ops_of(module, func.CallOp):
        ranges = [_Range(operand, donors) for operand in call.operands]
        pairs = [
            (one, other) for one, other in combinations(range(len(ranges)), 2) if ranges[one].may_meet(ranges[other])
        ]
        if pairs:
            name = call.callee.string_value()
            found[name] = found.get(name, frozenset()) | frozenset(pairs)
    return found


def _donors(module: ModuleOp) -> dict[SSAValue, SSAValue]:
    """The arguments for results that may be the memory of another argument, and which one."""
    found: dict[SSAValue, SSAValue] = {}
    for function in ops_of(module, func.FuncOp):
        given, count = function.attributes.get("donations"), function.attributes.get("num_inputs")
        if isinstance(given, DenseArrayBase) and isinstance(count, IntegerAttr):
            arguments = function.body.block.args
            outputs = arguments[count.value.data :]
            found |= {
                output: arguments[int(number)]
                for output, number in zip(outputs, given.get_values(), strict=False)
                if number != -1
            }
    return found


def write_shared(function: func.FuncOp, pairs: Pairs) -> None:
    """Give a kernel the attribute."""
    if pairs and SHARED_ARGUMENTS not in function.attributes:
        flat = [number for pair in sorted(pairs) for number in pair]
        function.attributes[SHARED_ARGUMENTS] = DenseArrayBase.from_list(i64, flat)


def _offset(view: Operation) -> int | None:
    """The bytes after which a view of memory begins that has all elements from there on, if that is known."""
    match view:
        case memref.ViewOp():
            return constant_int(view.byte_shift)
        case memref.ReinterpretCastOp():
            is_whole = tuple(view.static_strides.get_values()) == row_major_strides(view.result.type.get_shape())
            return 0 if is_whole and tuple(view.static_offsets.get_values()) == (0,) else None
        case memref.SubviewOp():
            return None
        case _:
            return 0


class _Range:
    """The memory that a value may be in: `bytes` of what `base` is, from `start` on, if that is known."""

    def __init__(self, value: SSAValue, donors: Mapping[SSAValue, SSAValue]) -> None:
        self.base, self.start, self.bytes = value, 0, -1
        if not isinstance(value.type, MemRefType):
            return
        try:
            self.bytes = buffer_bytes(value.type)
        except UnknownSizeError:
            self.bytes = -1
        while isinstance(op := self.base.owner, (memref.ViewOp, *WHOLE_VIEWS, *_PARTS)):
            self.base = op.operands[0]
            offset = _offset(op)
            if offset is None:
                self.bytes = -1  # somewhere in it
            else:
                self.start += offset
        self.base = donors.get(self.base, self.base)

    def may_meet(self, other: _Range) -> bool:
        """Whether some element may be in both."""
        if not isinstance(self.base.type, MemRefType) or not isinstance(other.base.type, MemRefType):
            return False
        if self.base is not other.base:
            return self._comes_from_a_loop() or other._comes_from_a_loop()
        if self.bytes < 0 or other.bytes < 0:
            return True
        return self.start < other.start + other.bytes and other.start < self.start + self.bytes

    def _comes_from_a_loop(self) -> bool:
        """Whether the memory is known only while the program runs."""
        owner = self.base.owner
        if isinstance(self.base, BlockArgument):
            return not isinstance(self.base.block.parent_op(), func.FuncOp)
        return not isinstance(owner, memref.AllocOp | memref.GetGlobalOp)
