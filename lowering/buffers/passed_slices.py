"""Which operands and results of kernels may be slices of what the caller of a program passed, and how these are typed.

A slice of the arena is a `memref.view` and has the type of a buffer of its own. A slice of an argument is a memref with
an offset that is known at launch only, which is part of its type: the kernel's parameter has that type as well, and
whatever else is passed there is cast to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import func, linalg, memref, tensor
from xdsl.dialects.builtin import MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute, OpResult, SSAValue

from tenon.lowering.buffers.memref_facts import row_major_strides

Parameters = dict[str, dict[int, MemRefType[Attribute]]]
"""By the name of a kernel, the types of those of its parameters (by number) that are slices."""


def slice_type(element: Attribute, shape: Sequence[int]) -> MemRefType[Attribute]:
    """A dense part of a buffer that begins anywhere."""
    return MemRefType(element, shape, StridedLayoutAttr(row_major_strides(shape), None))


def takes_slice(kernel: func.FuncOp, operand: int) -> bool:
    """Whether this operand of a kernel on tensors is only read by its generics: as it is, in the operand's shape."""
    if not kernel.body.blocks:
        return False
    uses = kernel.body.block.args[operand].uses
    return all(isinstance(use.operation, linalg.ops.GenericOp | tensor.ExtractOp) for use in uses)


def makes_slice(kernel: func.FuncOp, result: int) -> bool:
    """Whether a generic of a kernel on tensors computes this result in the result's shape."""
    if not kernel.body.blocks or (returned := kernel.body.block.last_op) is None:
        return False
    return isinstance(returned.operands[result].owner, linalg.ops.GenericOp)


def is_passed_to_kernels(value: SSAValue, kernels: dict[str, func.FuncOp], besides: Iterable[object] = ()) -> bool:
    """Whether `value` is only computed by kernels that can write a slice, and read by those that can read one."""
    if isinstance(value, OpResult) and isinstance(value.op, func.CallOp):
        if not makes_slice(kernels[value.op.callee.string_value()], value.index):
            return False
    elif not (isinstance(value, OpResult) and isinstance(value.op, tensor.ExtractSliceOp)):
        return False
    return all(
        isinstance(user := use.operation, func.CallOp) and takes_slice(kernels[user.callee.string_value()], use.index)
        for use in value.uses
        if use.operation not in besides
    )


def cast_to_parameters(entries: Iterable[func.FuncOp]) -> Parameters:
    """The parameters that some call in `entries` (on memrefs) passes a slice for; the others are cast to its type."""
    found: Parameters = {}
    calls = [op for entry in entries for op in entry.walk() if isinstance(op, func.CallOp)]
    for call in calls:
        for number, operand in enumerate(call.operands):
            if isinstance(type_ := operand.type, MemRefType) and isinstance(type_.layout, StridedLayoutAttr):
                found.setdefault(call.callee.string_value(), {})[number] = type_
    for call in calls:
        for number, type_ in found.get(call.callee.string_value(), {}).items():
            if call.operands[number].type != type_:
                cast = memref.CastOp.create(operands=[call.operands[number]], result_types=[type_])
                assert call.parent is not None
                call.parent.insert_op_before(cast, call)
                call.operands[number] = cast.results[0]
    return found
