"""What an op of a loop is for as many neighbouring iterations as a vector has lanes."""

from __future__ import annotations

from collections.abc import MutableMapping

from xdsl.builder import Builder
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Operation, SSAValue

from tenon.lowering.kernels.statement import DIVISIONS, element_type
from tenon.lowering.loop_ir.builder import vector_op, vector_type


def bits_of(value: SSAValue) -> int:
    """The bits of a lane that holds `value`."""
    return 8 if value.type == i1 else getattr(value.type, "bitwidth", 64)


def is_simple(op: Operation) -> bool:
    """Whether `op` is a load, a store, or arithmetic that does not end the program, whatever lanes hold."""
    if isinstance(op, memref.LoadOp | memref.StoreOp):
        return True
    return op.name.startswith("arith.") and not isinstance(op, DIVISIONS) and not op.regions


def add_wide(builder: Builder, op: Operation, values: MutableMapping[SSAValue, SSAValue], width: int) -> None:
    """Add what `op` is for `width` iterations: `values` has what stands for its operands, and gets its results."""

    def wide(value: SSAValue) -> SSAValue:
        known = values.get(value, value)
        if isinstance(known.type, VectorType):
            return known
        return builder.insert(vector.BroadcastOp(known, vector_type(known.type, width))).vector

    match op:
        case memref.LoadOp():
            places = [values.get(place, place) for place in op.indices]
            kind = vector_type(element_type(op.memref), width)
            made = vector.LoadOp.create(operands=[op.memref, *places], result_types=[kind])
        case memref.StoreOp():
            places = [values.get(place, place) for place in op.indices]
            made = vector.StoreOp.create(operands=[wide(op.value), op.memref, *places])
        case _:
            made = vector_op(type(op)).create(
                operands=[wide(operand) for operand in op.operands],
                result_types=[vector_type(result.type, width) for result in op.results],
                properties=op.properties.copy(),
                attributes=op.attributes.copy(),
                location=op.location,
            )
    builder.insert(made)
    values.update(zip(op.results, made.results, strict=True))
