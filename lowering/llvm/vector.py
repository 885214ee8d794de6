"""`vector` on registers to LLVM; loads and stores are in `memory`, `vector.contract` in `contract`.

Vectors have one dimension at most, but for those of groups, which are loaded, extended, broadcast and contracted.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineMapAttr, ArrayAttr, BoolAttr, DenseArrayBase, VectorType
from xdsl.dialects.vector import (
    CombiningKindAttr,
    TransferReadOp,
    TransferWriteOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineMap

from tenon.dialects.families.monoid import MONOIDS
from tenon.lowering.llvm.arith import fastmath_flags
from tenon.lowering.llvm.function import FunctionWriter, Handlers
from tenon.lowering.llvm.memory import from_memory, masked_load, masked_store, memref_type, to_memory
from tenon.lowering.llvm.types import I1, I64, LlvmType

VECTOR_HANDLERS = Handlers("vector.")
handles = VECTOR_HANDLERS.register


def splat(writer: FunctionWriter, vector: LlvmType, value: str) -> str:
    """A vector whose every lane is the scalar `value`."""
    if not value.startswith("%"):
        return f"splat ({vector.element} {value})"
    first = writer.emit(f"insertelement {vector.text} poison, {vector.element} {value}, i64 0")
    return writer.emit(
        f"shufflevector {vector.text} {first}, {vector.text} poison, <{vector.lanes} x i32> zeroinitializer"
    )


@handles("broadcast")
def _broadcast(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.stored_type_of(op.operands[0]), writer.stored_type_of(op.results[0])
    (value,) = writer.operands(op)
    if source.lanes == target.lanes:
        writer.values[op.results[0]] = value
        return
    if source.lanes is not None and source.lanes > 1:
        writer.values[op.results[0]] = _repeated(writer, source, target, value)
        return
    if source.lanes is not None:
        value = writer.emit(f"extractelement {source.text} {value}, i64 0")
    writer.values[op.results[0]] = splat(writer, target, value)


def _repeated(writer: FunctionWriter, group: LlvmType, target: LlvmType, value: str) -> str:
    """A vector of groups whose every group is `value`, as one integer where it has the bits of one."""
    assert group.lanes is not None
    assert target.lanes is not None
    bits = group.lanes * group.bits
    if bits in (16, 32, 64):
        whole = LlvmType(f"i{bits}", bits, target.lanes // group.lanes)
        number = writer.emit(f"bitcast {group.text} {value} to {whole.element}")
        return writer.emit(f"bitcast {whole.text} {splat(writer, whole, number)} to {target.text}")
    lanes = ", ".join(f"i32 {lane % group.lanes}" for lane in range(target.lanes))
    return writer.emit(f"shufflevector {group.text} {value}, {group.text} poison, <{target.lanes} x i32> <{lanes}>")


def _position(writer: FunctionWriter, op: Operation, dynamic_from: int) -> str | None:
    """The lane an extract or insert names, None when it names the whole vector."""
    static = op.properties["static_position"]
    assert isinstance(static, DenseArrayBase)
    positions = static.get_values()
    if not positions:
        return None
    return writer.values[op.operands[dynamic_from]] if positions[0] == DYNAMIC_INDEX else str(positions[0])


@handles("extract")
def _extract(writer: FunctionWriter, op: Operation) -> None:
    lane, vector = _position(writer, op, 1), op.operands[0]
    if lane is None and isinstance(op.results[0].type, VectorType):
        writer.values[op.results[0]] = writer.values[vector]
    else:
        writer.define(op.results[0], f"extractelement {writer.typed(vector)}, i64 {lane or 0}")


@handles("insert")
def _insert(writer: FunctionWriter, op: Operation) -> None:
    source, target = op.operands[:2]
    lane = _position(writer, op, 2)
    if lane is None and isinstance(source.type, VectorType):
        writer.values[op.results[0]] = writer.values[source]
    else:
        writer.define(op.results[0], f"insertelement {writer.typed(target)}, {writer.typed(source)}, i64 {lane or 0}")


@handles("shuffle")
def _shuffle(writer: FunctionWriter, op: Operation) -> None:
    (first, second), mask = op.operands, op.properties["mask"]
    assert isinstance(mask, DenseArrayBase)
    types = [writer.stored_type_of(first), writer.stored_type_of(second)]
    lanes = [cast(int, vector.lanes) for vector in types]
    widest = max(lanes)
    values = []
    for operand, count, vector in zip((first, second), lanes, types, strict=True):
        value = writer.values[operand]
        if count < widest:
            padding = ", ".join(f"i32 {lane}" if lane < count else "i32 poison" for lane in range(widest))
            value = writer.emit(
                f"shufflevector {vector.text} {value}, {vector.text} poison, <{widest} x i32> <{padding}>"
            )
        values.append(value)
    text = LlvmType(types[0].element, types[0].bits, widest).text
    chosen = [lane if lane < lanes[0] else lane - lanes[0] + widest for lane in mask.get_values()]
    lanes_text = ", ".join(f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in chosen)
    writer.define(
        op.results[0], f"shufflevector {text} {values[0]}, {text} {values[1]}, <{len(chosen)} x i32> <{lanes_text}>"
    )


@handles("bitcast")
def _bitcast(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.typed(op.operands[0]), writer.stored_type_of(op.results[0])
    writer.define(op.results[0], f"bitcast {source} to {target.text}")


@handles("create_mask")
def _create_mask(writer: FunctionWriter, op: Operation) -> None:
    mask = writer.stored_type_of(op.results[0])
    writer.values[op.results[0]] = first_lanes(writer, cast(int, mask.lanes), writer.values[op.operands[0]])


def first_lanes(writer: FunctionWriter, lanes: int, count: str) -> str:
    """The mask of the first `count` lanes, an i64 that may be negative or larger than there are lanes."""
    wide = LlvmType("i32", 32, lanes)
    if not count.startswith("%"):
        return "<" + ", ".join(f"i1 {'true' if lane < int(count) else 'false'}" for lane in range(lanes)) + ">"
    least = writer.call_intrinsic("smax.i64", I64, [(I64, count), (I64, "0")])
    most = writer.call_intrinsic("smin.i64", I64, [(I64, least), (I64, str(lanes))])
    narrow = writer.emit(f"trunc i64 {most} to i32")
    numbers = "<" + ", ".join(f"i32 {lane}" for lane in range(lanes)) + ">"
    return writer.emit(f"icmp ult {wide.text} {numbers}, {splat(writer, wide, narrow)}")


_REDUCE_INTEGERS = {
    "add": "add",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "minsi": "smin",
    "maxsi": "smax",
    "minui": "umin",
    "maxui": "umax",
}
_REDUCE_FLOATS = {"minnumf": "fmin", "maxnumf": "fmax", "minimumf": "fminimum", "maximumf": "fmaximum"}
_PREDICATES = {"minimumf": "olt", "maximumf": "ogt"}
_COMBINE_EXTREMA = {"minnumf": "minnum", "maxnumf": "maxnum", "minimumf": "minimum", "maximumf": "maximum"}


@handles("reduction")
def _reduction(writer: FunctionWriter, op: Operation) -> None:
    kind = op.properties["kind"]
    assert isinstance(kind, CombiningKindAttr)
    if writer.type_of(op.operands[0]).element in ("float", "double"):
        _reduce_floats(writer, op, str(kind.data))
    else:
        _reduce_integers(writer, op, str(kind.data))


def _reduce_integers(writer: FunctionWriter, op: Operation, kind: str) -> None:
    vector, operands = writer.type_of(op.operands[0]), writer.operands(op)
    name = f"vector.reduce.{_REDUCE_INTEGERS[kind]}.{vector.suffix}"
    result, scalar = writer.call_intrinsic(name, vector.scalar, [(vector, operands[0])]), vector.scalar
    if len(operands) == 2:
        opcode = _REDUCE_INTEGERS[kind]
        if opcode in ("add", "mul", "and", "or", "xor"):
            result = writer.emit(f"{opcode} {scalar.text} {result}, {operands[1]}")
        else:
            pair = [(scalar, result), (scalar, operands[1])]
            result = writer.call_intrinsic(f"{opcode}.{scalar.suffix}", scalar, pair)
    writer.values[op.results[0]] = result


def _reduce_floats(writer: FunctionWriter, op: Operation, kind: str) -> None:
    flags, vector, values = fastmath_flags(op), writer.type_of(op.operands[0]), writer.operands(op)
    scalar = vector.scalar
    if kind in ("add", "mul"):
        # LLVM adds in order of the lanes unless the flags allow `reassoc`
        neutral = scalar.constant(MONOIDS[f"arith.{kind}f"].neutral(0))
        start = values[1] if len(values) == 2 else neutral
        arguments = [(scalar, start), (vector, values[0])]
        result = writer.call_intrinsic(f"vector.reduce.f{kind}.{vector.suffix}", scalar, arguments, flags)
    else:
        lanes = vector.lanes or 1
        if kind in _PREDICATES and lanes > 1 and lanes & (lanes - 1) == 0:
            result = _extremum_of_lanes(writer, vector, values[0], _PREDICATES[kind])
        else:
            name = f"vector.reduce.{_REDUCE_FLOATS[kind]}.{vector.suffix}"
            result = writer.call_intrinsic(name, scalar, [(vector, values[0])], flags)
        if len(values) == 2:
            pair = [(scalar, result), (scalar, values[1])]
            result = writer.call_intrinsic(f"{_COMBINE_EXTREMA[kind]}.{scalar.suffix}", scalar, pair, flags)
    writer.values[op.results[0]] = result


def _extremum_of_lanes(writer: FunctionWriter, vector: LlvmType, value: str, predicate: str) -> str:
    """The largest or smallest of 2^k lanes, NaN if one is. LLVM's own form looks for NaN and for the sign of zeros,
    which are equal here as in `arith`, at each of the k steps."""
    lanes, scalar = vector.lanes or 1, vector.scalar
    is_nan = writer.emit(f"fcmp uno {vector.text} {value}, {value}")
    has_nan = writer.call_intrinsic(f"vector.reduce.or.v{lanes}i1", I1, [(vector.integer(1), is_nan)])
    while lanes > 1:
        text, lanes = f"<{lanes} x {scalar.text}>", lanes // 2
        halves = [
            writer.emit(f"shufflevector {text} {value}, {text} poison, <{lanes} x i32> <{numbers}>")
            for start in (0, lanes)
            for numbers in [", ".join(f"i32 {lane}" for lane in range(start, start + lanes))]
        ]
        text = f"<{lanes} x {scalar.text}>"
        condition = writer.emit(f"fcmp {predicate} {text} {halves[0]}, {halves[1]}")
        value = writer.emit(f"select <{lanes} x i1> {condition}, {text} {halves[0]}, {text} {halves[1]}")
    extremum = writer.emit(f"extractelement <1 x {scalar.text}> {value}, i32 0")
    nan = scalar.constant(float("nan"))
    return writer.emit(f"select i1 {has_nan}, {scalar.text} {nan}, {scalar.text} {extremum}")


def _check_transfer(op: TransferReadOp | TransferWriteOp, vector: Attribute) -> None:
    assert isinstance(vector, VectorType)
    permutation = op.permutation_map
    assert isinstance(permutation, AffineMapAttr)
    rank = memref_type(op.source).get_num_dims()
    minor = AffineMap.minor_identity(rank, vector.get_num_dims())
    if vector.get_num_dims() != 1 or permutation.data != minor:
        raise ValueError(f"emit_llvm: {op.name} with permutation map {permutation.data} is not supported, only {minor}")


def _transfer_mask(writer: FunctionWriter, op: TransferReadOp | TransferWriteOp, vector: LlvmType) -> str | None:
    """The (typed) mask of the lanes in bounds that the operation's own mask selects, None when it is all of them."""
    boolean, mask = vector.integer(1).text, None
    in_bounds = op.properties.get("in_bounds")
    all_in_bounds = isinstance(in_bounds, ArrayAttr) and all(cast(BoolAttr, flag).value.data for flag in in_bounds)
    if not all_in_bounds:
        size = memref_type(op.source).get_shape()[-1]
        left = writer.emit(f"sub nsw i64 {size}, {writer.values[op.indices[-1]]}")
        mask = first_lanes(writer, cast(int, vector.lanes), left)
    if op.mask is not None:
        own = writer.values[op.mask]
        mask = own if mask is None else writer.emit(f"and {boolean} {mask}, {own}")
    return None if mask is None else f"{boolean} {mask}"


@handles("transfer_read")
def _transfer_read(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, TransferReadOp)
    _check_transfer(op, op.result.type)
    vector = writer.stored_type_of(op.result)
    mask, pointer = _transfer_mask(writer, op, vector), writer.address(op.source, op.indices)
    if mask is None:
        loaded = writer.emit(f"load {vector.in_memory.text}, ptr {pointer}, align {vector.bytes}")
        writer.values[op.result] = from_memory(writer, vector, loaded)
        return
    padding = splat(writer, vector, writer.values[op.padding])
    writer.values[op.result] = masked_load(writer, vector, pointer, mask, padding)


@handles("transfer_write")
def _transfer_write(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, TransferWriteOp)
    _check_transfer(op, op.vector.type)
    vector, value = writer.stored_type_of(op.vector), writer.values[op.vector]
    mask, pointer = _transfer_mask(writer, op, vector), writer.address(op.source, op.indices)
    if mask is None:
        stored = to_memory(writer, vector, value)
        writer.effect(f"store {vector.in_memory.text} {stored}, ptr {pointer}, align {vector.bytes}")
        return
    masked_store(writer, vector, pointer, mask, value)
