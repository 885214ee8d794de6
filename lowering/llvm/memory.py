"""`memref` and `vector` to LLVM.

A memref is the pointer to its first element, offsets of views included. Loads and stores carry the natural alignment
of one element, or that of the operation's `alignment` attribute where it has one; a non-temporal vector store is one
instruction only if that alignment is the vector's size. Accesses are not checked against the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StridedLayoutAttr,
    SymbolRefAttr,
)
from xdsl.dialects.memref import ReinterpretCastOp, SubviewOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.lowering.buffers.memref_facts import buffer_bytes, is_contiguous
from tenon.lowering.llvm.function import HEAP_THRESHOLD, FunctionWriter, Handlers
from tenon.lowering.llvm.types import LlvmType, llvm_type

MEMORY_HANDLERS = Handlers()
handles = MEMORY_HANDLERS.register


def memref_type(value: SSAValue) -> MemRefType:
    """The type of a value that is a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type


def to_memory(writer: FunctionWriter, value_type: LlvmType, value: str) -> str:
    """A value as it lies in memory: i1 becomes a byte."""
    if value_type.bits != 1:
        return value
    return writer.emit(f"zext {value_type.text} {value} to {value_type.in_memory.text}")


def from_memory(writer: FunctionWriter, value_type: LlvmType, value: str) -> str:
    """A value from what was in memory: a byte that is not 0 is true."""
    if value_type.bits != 1:
        return value
    stored = value_type.in_memory
    return writer.emit(f"icmp ne {stored.text} {value}, {stored.constant(0)}")


def _access(writer: FunctionWriter, op: Operation, value_type: LlvmType) -> str:
    """The alignment and hints that follow the pointer of a load or store."""
    alignment = op.properties.get("alignment") or op.attributes.get("alignment")
    bytes_known = alignment.value.data if isinstance(alignment, IntegerAttr) else value_type.bytes
    nontemporal = op.properties.get("nontemporal")
    if not isinstance(nontemporal, IntegerAttr) or not nontemporal.value.data:
        return f"align {bytes_known}"
    writer.streams = True
    return f"align {bytes_known}, !nontemporal !0"


@handles("memref.load", "vector.load")
def _load(writer: FunctionWriter, op: Operation) -> None:
    result = op.results[0]
    value_type = writer.stored_type_of(result)
    pointer = writer.address(op.operands[0], op.operands[1:])
    loaded = writer.emit(f"load {value_type.in_memory.text}, ptr {pointer}, {_access(writer, op, value_type)}")
    writer.values[result] = from_memory(writer, value_type, loaded)


@handles("memref.store", "vector.store")
def _store(writer: FunctionWriter, op: Operation) -> None:
    value_type = writer.stored_type_of(op.operands[0])
    stored = to_memory(writer, value_type, writer.values[op.operands[0]])
    pointer = writer.address(op.operands[1], op.operands[2:])
    writer.effect(f"store {value_type.in_memory.text} {stored}, ptr {pointer}, {_access(writer, op, value_type)}")


@handles("vector.maskedload")
def _masked_load(writer: FunctionWriter, op: Operation) -> None:
    base, *indices, mask, otherwise = op.operands
    pointer = writer.address(base, indices)
    loaded = masked_load(
        writer, writer.stored_type_of(op.results[0]), pointer, writer.typed(mask), writer.values[otherwise]
    )
    writer.values[op.results[0]] = loaded


def masked_load(writer: FunctionWriter, value_type: LlvmType, pointer: str, mask: str, otherwise: str) -> str:
    """Load the lanes whose (typed) mask is set, the others are those of `otherwise`."""
    stored = value_type.in_memory
    name = f"llvm.masked.load.{stored.suffix}.p0"
    boolean = value_type.integer(1).text
    writer.declare(f"declare {stored.text} @{name}(ptr, {boolean}, {stored.text})")
    otherwise = to_memory(writer, value_type, otherwise)
    loaded = writer.emit(
        f"call {stored.text} @{name}(ptr align {value_type.bytes} {pointer}, {mask}, {stored.text} {otherwise})"
    )
    return from_memory(writer, value_type, loaded)


@handles("vector.gather")
def _gather(writer: FunctionWriter, op: Operation) -> None:
    base, *offsets, places, mask, otherwise = op.operands
    value_type, place = writer.stored_type_of(op.results[0]), writer.stored_type_of(places)
    stored, lanes = value_type.in_memory, value_type.lanes
    name = f"llvm.masked.gather.{stored.suffix}.v{lanes}p0"
    writer.declare(f"declare {stored.text} @{name}(<{lanes} x ptr>, {value_type.integer(1).text}, {stored.text})")
    first, pointers = writer.address(base, offsets), f"<{lanes} x ptr>"
    pointer = writer.emit(f"getelementptr inbounds {stored.element}, ptr {first}, {place.text} {writer.values[places]}")
    otherwise = to_memory(writer, value_type, writer.values[otherwise])
    gathered = writer.emit(
        f"call {stored.text} @{name}({pointers} align {value_type.bytes} {pointer}, {writer.typed(mask)}, "
        f"{stored.text} {otherwise})"
    )
    writer.values[op.results[0]] = from_memory(writer, value_type, gathered)


@handles("vector.maskedstore")
def _masked_store(writer: FunctionWriter, op: Operation) -> None:
    base, *indices, mask, value = op.operands
    pointer = writer.address(base, indices)
    masked_store(writer, writer.stored_type_of(value), pointer, writer.typed(mask), writer.values[value])


def masked_store(writer: FunctionWriter, value_type: LlvmType, pointer: str, mask: str, value: str) -> None:
    """Store the lanes whose (typed) mask is set."""
    stored = value_type.in_memory
    name = f"llvm.masked.store.{stored.suffix}.p0"
    writer.declare(f"declare void @{name}({stored.text}, ptr, {value_type.integer(1).text})")
    value = _apart_from_truncation(writer, stored, to_memory(writer, value_type, value))
    writer.effect(f"call void @{name}({stored.text} {value}, ptr align {value_type.bytes} {pointer}, {mask})")


def _apart_from_truncation(writer: FunctionWriter, stored: LlvmType, value: str) -> str:
    """`value`, not to be seen as the truncation of a wider one.

    LLVM 22 makes one of a truncation and a masked store on AVX-512 and then, where it knows that one lane is stored,
    stores that lane in full, over its neighbours.
    """
    bits = stored.bits * (stored.lanes or 1)
    if stored.element[0] != "i" or stored.bits > 32 or bits % 16:
        return value
    element, size = ("double", 64) if bits % 64 == 0 else ("float", 32) if bits % 32 == 0 else ("half", 16)
    lanes = bits // size
    barrier = f"<{lanes} x {element}>"
    name = f"llvm.arithmetic.fence.v{lanes}f{size}"
    writer.declare(f"declare {barrier} @{name}({barrier})")
    cast = writer.emit(f"bitcast {stored.text} {value} to {barrier}")
    kept = writer.emit(f"call {barrier} @{name}({barrier} {cast})")
    return writer.emit(f"bitcast {barrier} {kept} to {stored.text}")


@handles("memref.prefetch")
def _prefetch(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, PrefetchOp)
    pointer = writer.address(op.memref, op.indices, inbounds=False)
    writer.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    numbers = [op.is_write.value.data, op.locality.value.data, op.is_data.value.data]
    hints = ", ".join(f"i32 {abs(number)}" for number in numbers)
    writer.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, {hints})")


@handles("memref.alloca", "memref.alloc")
def _allocate(writer: FunctionWriter, op: Operation) -> None:
    if op.operands and op.name == "memref.alloca":
        raise ValueError(f"emit_llvm: {op.name} in {writer.name} has sizes that are not known at compile time")
    if op not in writer.kept:
        writer.values[op.results[0]] = allocated(writer, op)


def allocated(writer: FunctionWriter, op: Operation) -> str:
    """Memory for the result of an allocation that lives until the function returns."""
    size = buffer_bytes(memref_type(op.results[0]))
    if isinstance(size, Size):
        return writer.heap_block(size)
    size = max(size, 1)
    from_heap = op.name == "memref.alloc" and size > HEAP_THRESHOLD
    return writer.heap_block(size) if from_heap else writer.stack_slot(size)


@handles("memref.dealloc")
def _deallocate(writer: FunctionWriter, op: Operation) -> None:
    """Memory lives until the function returns."""


@handles("memref.get_global")
def _get_global(writer: FunctionWriter, op: Operation) -> None:
    name = op.properties["name"]
    assert isinstance(name, SymbolRefAttr)
    writer.values[op.results[0]] = f"@{name.root_reference.data}"


@handles("memref.view")
def _view(writer: FunctionWriter, op: Operation) -> None:
    source, shift = op.operands[:2]
    writer.values[op.results[0]] = writer.offset_pointer(writer.values[source], writer.values[shift], "i8")


@handles("memref.cast", "memref.collapse_shape", "memref.expand_shape", "memref.assume_alignment")
def _same_pointer(writer: FunctionWriter, op: Operation) -> None:
    writer.strides(memref_type(op.results[0]))
    writer.values[op.results[0]] = writer.values[op.operands[0]]


@handles("memref.extract_aligned_pointer_as_index")
def _pointer_as_index(writer: FunctionWriter, op: Operation) -> None:
    writer.define(op.results[0], f"ptrtoint ptr {writer.values[op.operands[0]]} to i64")


@handles("memref.reinterpret_cast")
def _reinterpret_cast(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, ReinterpretCastOp)
    source = memref_type(op.source)
    # the offset counts from the allocation, the pointer is at the source's own offset
    base = source.layout.get_offset() if isinstance(source.layout, StridedLayoutAttr) else 0
    if base is None:
        raise ValueError(f"emit_llvm: memref.reinterpret_cast of {source}, whose offset is not known at compile time")
    offset = _mixed_offset(writer, op.static_offsets, op.offsets, (1,), -base)
    element = llvm_type(source.element_type).in_memory.element
    writer.strides(memref_type(op.result))
    writer.values[op.result] = writer.offset_pointer(writer.values[op.source], offset, element)


@handles("memref.subview")
def _subview(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, SubviewOp)
    source = memref_type(op.source)
    offset = _mixed_offset(writer, op.static_offsets, op.offsets, writer.strides(source), 0)
    element = llvm_type(source.element_type).in_memory.element
    writer.strides(memref_type(op.result))
    writer.values[op.result] = writer.offset_pointer(writer.values[op.source], offset, element)


def _mixed_offset(
    writer: FunctionWriter,
    static: DenseArrayBase[IntegerType],
    dynamic: Sequence[SSAValue],
    strides: Sequence[int],
    constant: int,
) -> str:
    """The linear offset of index operands, of which the static ones are in an attribute."""
    values = iter(dynamic)
    terms: list[tuple[str, int]] = []
    for offset, stride in zip(static.get_values(), strides, strict=True):
        value = next(values) if offset == DYNAMIC_INDEX else None
        known = offset if value is None else writer.integers.get(value)
        if known is not None:
            constant += known * stride
        elif value is not None:
            terms.append((writer.values[value], stride))
    return writer.linear(constant, terms)


@handles("memref.dim")
def _dimension(writer: FunctionWriter, op: Operation) -> None:
    index = writer.integers.get(op.operands[1])
    if index is None:
        raise ValueError(f"emit_llvm: memref.dim in {writer.name} asks for a dimension that is not known")
    size = memref_type(op.operands[0]).get_shape()[index]
    writer.values[op.results[0]] = writer.size(size)
    if not isinstance(size, Size):
        writer.integers[op.results[0]] = size


@handles("memref.copy")
def _copy(writer: FunctionWriter, op: Operation) -> None:
    source, target = op.operands
    source_type, target_type = memref_type(source), memref_type(target)
    if is_contiguous(source_type) and is_contiguous(target_type):
        writer.declare("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        alignment = llvm_type(source_type.element_type).bytes
        size = writer.size(buffer_bytes(source_type))
        if isinstance(source, BlockArgument) and isinstance(target, BlockArgument):
            # An output may have been given the memory of this very input: then all is where it belongs.
            same = writer.emit(f"icmp eq ptr {writer.values[source]}, {writer.values[target]}")
            size = writer.emit(f"select i1 {same}, i64 0, i64 {size}")
        writer.effect(
            f"call void @llvm.memmove.p0.p0.i64(ptr align {alignment} {writer.values[target]}, "
            f"ptr align {alignment} {writer.values[source]}, i64 {size}, i1 false)"
        )
        return
    _copy_elements(writer, op)


def _copy_elements(writer: FunctionWriter, op: Operation) -> None:
    """A loop nest over the elements of memrefs that are not dense."""
    from tenon.lowering.llvm.control import counted_loop

    source, target = op.operands
    shape = memref_type(source).get_shape()
    element = llvm_type(memref_type(source).element_type).in_memory

    def nest(indices: tuple[str, ...]) -> None:
        if len(indices) < len(shape):
            counted_loop(writer, writer.size(shape[len(indices)]), lambda index: nest((*indices, index)))
            return
        pointers = []
        for memref in (source, target):
            terms = list(zip(indices, writer.strides(memref_type(memref)), strict=True))
            offset = writer.linear(0, [term for term in terms if term[1] != 0])
            pointers.append(writer.offset_pointer(writer.values[memref], offset, element.text))
        value = writer.emit(f"load {element.text}, ptr {pointers[0]}, align {element.bytes}")
        writer.effect(f"store {element.text} {value}, ptr {pointers[1]}, align {element.bytes}")

    if 0 not in shape:
        nest(())
