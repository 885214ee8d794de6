"""At multiples of how many bytes the arguments of a kernel begin, by how it is called.

What a program is given, the arena and what lies in it begin where the widest access of a GPU may, and what has the type
of such a whole buffer is taken to. A slice begins anywhere by its type; what is known besides follows from its offset:
rows of a multiple of 16 bytes begin at such multiples, whichever they are. So kernels that are given slices have the
attribute `alignments`, a number of bytes for each argument.
"""

from __future__ import annotations

from math import gcd, prod

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, MemRefType, ModuleOp, NoneAttr, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue

from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import WHOLE_VIEWS, element_bytes, is_contiguous
from tenon.lowering.loop_ir.nests import constant_int

ALIGNMENTS = "alignments"


def alignments(module: ModuleOp, most: int) -> dict[str, tuple[int, ...]]:
    """For each kernel that is called with slices at what each argument begins in all calls; `most` is what whole
    buffers begin at."""
    found: dict[str, tuple[int, ...]] = {}
    for call in ops_of(module, func.CallOp):
        if not any(isinstance(operand.type, MemRefType) and not _is_whole(operand.type) for operand in call.operands):
            continue
        name = call.callee.string_value()
        here = [_alignment(operand, most) for operand in call.operands]
        found[name] = tuple([gcd(*pair) for pair in zip(here, found.get(name, here), strict=True)])
    return found


def write_alignments(function: func.FuncOp, known: tuple[int, ...] | None) -> None:
    """Give a kernel the attribute."""
    if known is not None and ALIGNMENTS not in function.attributes:
        function.attributes[ALIGNMENTS] = DenseArrayBase.from_list(i64, known)


def known_alignment(buffer: SSAValue, most: int) -> int:
    """At multiples of how many bytes a buffer of a kernel begins: an argument, or what is allocated there."""
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    if _is_whole(type_):
        return most
    function = buffer.block.parent_op() if isinstance(buffer, BlockArgument) else None
    known = function.attributes.get(ALIGNMENTS) if function is not None else None
    if isinstance(known, DenseArrayBase) and isinstance(buffer, BlockArgument) and is_contiguous(type_):
        return int(known.get_values()[buffer.index])
    return element_bytes(type_.element_type)


def _is_whole(type_: MemRefType[Attribute]) -> bool:
    """Whether this is the type of a buffer of its own, not that of a slice."""
    return type_.layout == NoneAttr()


def _alignment(value: SSAValue, most: int) -> int:
    """At multiples of how many bytes a value of the caller begins, `most` at most."""
    type_, owner = value.type, value.owner
    if not isinstance(type_, MemRefType):
        return most
    if isinstance(owner, WHOLE_VIEWS):
        return _alignment(owner.operands[0], most)
    if isinstance(owner, memref.ViewOp):
        return gcd(_alignment(owner.source, most), _divisor(owner.byte_shift))
    size = element_bytes(type_.element_type)
    if isinstance(owner, memref.ReinterpretCastOp):
        numbers, values = owner.static_offsets.get_values(), iter(owner.offsets)
        offset = gcd(*[_divisor(next(values)) if n == DYNAMIC_INDEX else n for n in numbers])
        return gcd(_alignment(owner.source, most), size * offset)
    return most if _is_whole(type_) else size


def _divisor(value: SSAValue) -> int:
    """What an index is a multiple of; 0 for what is 0."""
    constant = constant_int(value)
    if constant is not None:
        return abs(constant)
    if isinstance(value.owner, arith.MuliOp):
        return prod(_divisor(operand) for operand in value.owner.operands)
    if isinstance(value.owner, arith.AddiOp | arith.SubiOp):
        return gcd(*[_divisor(operand) for operand in value.owner.operands])
    return 1
