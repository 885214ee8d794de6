"""`vector.contract` to LLVM: the processor's dot product of groups where it has one, else a multiply-add per place.

A processor that has dot products takes the narrow numbers, so what extends them is looked through: pairs of bf16 that
`arith.extf` extends to f32 (x86 `vdpbf16ps`, which takes subnormals for 0 and rounds to nearest even), and fours of i8
that `arith.extui` and `arith.extsi` extend to i32, one operand each (x86 `vpdpbusd`, exact).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float32Type, VectorType, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.dialects.upstream.vector_ops import VectorContractOp
from tenon.lowering.llvm.function import FunctionWriter, Handlers
from tenon.lowering.llvm.types import LlvmType
from tenon.passes.machine import VECTOR_BITS

CONTRACT_HANDLERS = Handlers()
handles = CONTRACT_HANDLERS.register


@dataclass(frozen=True)
class _Instruction:
    """An intrinsic for accumulators of 32 bits that takes groups of `element`, one operand extended by each of
    `extensions`, as vectors of LLVM's type `operand`."""

    intrinsic: str
    element: Attribute
    extended: Attribute
    extensions: tuple[type[Operation], type[Operation]]
    operand: str


_INSTRUCTIONS = {
    "bf16": _Instruction(
        "x86.avx512bf16.dpbf16ps", BFloat16Type(), Float32Type(), (arith.ExtFOp, arith.ExtFOp), "bfloat"
    ),
    "i8": _Instruction("x86.avx512.vpdpbusd", i8, i32, (arith.ExtUIOp, arith.ExtSIOp), "i8"),
}
"""By the name that `dots` gives them."""


@handles("vector.contract")
def _contract(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, VectorContractOp)
    for name in writer.module.dots:
        operands = _narrow_operands(op, _INSTRUCTIONS[name])
        # What is narrow may have stayed in the function of another thread's loop.
        if operands is not None and all(operand in writer.values for operand in operands):
            writer.values[op.result] = _dot(writer, op, _INSTRUCTIONS[name], operands)
            return
    writer.values[op.result] = _multiply_adds(writer, op)


def _narrow_operands(op: VectorContractOp, instruction: _Instruction) -> tuple[SSAValue, SSAValue] | None:
    """What `instruction` takes to compute `op`, in its order; None if it does not compute that."""
    for pair in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        owners = [operand.owner for operand in pair]
        if all(map(isinstance, owners, instruction.extensions)):
            first, second = (owner.operands[0] for owner in owners if isinstance(owner, Operation))
            if _fits(op, first.type, instruction) and first.type == second.type:
                return first, second
    return None


def _fits(op: VectorContractOp, narrow: Attribute, instruction: _Instruction) -> bool:
    assert isinstance(narrow, VectorType)
    assert isinstance(op.acc.type, VectorType)
    lanes, depth = narrow.get_shape()
    return (
        narrow.element_type == instruction.element
        and op.acc.type.element_type == instruction.extended
        and depth * narrow.element_type.bitwidth == 32
        and lanes * 32 in VECTOR_BITS
    )


def _dot(
    writer: FunctionWriter, op: VectorContractOp, instruction: _Instruction, pair: tuple[SSAValue, SSAValue]
) -> str:
    result = writer.type_of(op.acc)
    values: list[tuple[LlvmType, str]] = [(result, writer.values[op.acc])]
    for operand in pair:
        narrow = writer.stored_type_of(operand)
        taken = LlvmType(instruction.operand, narrow.bits, narrow.lanes)
        value = writer.values[operand]
        if taken.text != narrow.text:
            value = writer.emit(f"bitcast {narrow.text} {value} to {taken.text}")
        values.append((taken, value))
    assert result.lanes is not None
    return writer.call_intrinsic(f"{instruction.intrinsic}.{result.bits * result.lanes}", result, values)


def _multiply_adds(writer: FunctionWriter, op: VectorContractOp) -> str:
    """One place of all groups after the other."""
    total, result = writer.values[op.acc], writer.type_of(op.acc)
    assert isinstance(op.lhs.type, VectorType)
    lanes, depth = op.lhs.type.get_shape()
    for place in range(depth):
        chosen = ", ".join(f"i32 {lane * depth + place}" for lane in range(lanes))
        factors: list[str] = []
        for operand in (op.lhs, op.rhs):
            groups, value = writer.stored_type_of(operand).text, writer.values[operand]
            factors.append(writer.emit(f"shufflevector {groups} {value}, {groups} poison, <{lanes} x i32> <{chosen}>"))
        if result.element in ("float", "double"):
            operands = [(result, value) for value in (*factors, total)]
            total = writer.call_intrinsic(f"fma.{result.suffix}", result, operands)
        else:
            product = writer.emit(f"mul {result.text} {factors[0]}, {factors[1]}")
            total = writer.emit(f"add {result.text} {total}, {product}")
    return total
