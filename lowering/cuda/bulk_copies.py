"""Copies of boxes of tensors in text, and what a launch has to describe for them.

The description of a tensor (a tensor map) is made by the driver, from an address. So a kernel that copies boxes of its
arguments has a parameter for each description, behind its own, and its launch makes them (`tensor_maps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, BFloat16Type, Float16Type, MemRefType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from tenon.dialects.upstream.bulk_copies import (
    MBarrierArriveExpectOp,
    MBarrierArriveOp,
    MBarrierCreateOp,
    MBarrierInitOp,
    MBarrierTryWaitOp,
    TensorMapType,
    TmaAsyncLoadOp,
    TmaCreateDescriptorOp,
)
from tenon.dialects.upstream.nvvm import ElectOp, MBarrierInitFenceOp, SetMaxRegisterOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.cuda.kernel_writer import KernelWriter
from tenon.lowering.cuda.shared_memory import SHARED_BYTES
from tenon.lowering.steps.tile_copies import argument_of

COPIED: dict[Attribute, str] = {BFloat16Type(): "bf16", Float16Type(): "f16"}
"""Elements of tensors that are copied so, by how instructions call them."""


@dataclass(frozen=True)
class TensorMap:
    """What a launch tells the driver of an argument: numbers are those of the innermost dimension first."""

    argument: int
    element: str
    element_bytes: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes, of all but the innermost dimension."""
    box: tuple[int, ...]


def tensor_maps(function: func.FuncOp) -> tuple[TensorMap, ...]:
    """The descriptions that a kernel is given behind its arguments, in order."""
    return tuple([_described(op) for op in ops_of(function, TmaCreateDescriptorOp)])


def _described(op: TmaCreateDescriptorOp) -> TensorMap:
    source, type_ = op.tensor.owner, op.tensor_map.type
    assert isinstance(type_, TensorMapType)
    assert isinstance(source, memref.CastOp)
    argument, shown = argument_of(op.tensor), source.source.type
    assert isinstance(argument, BlockArgument)
    assert isinstance(shown, MemRefType)
    element, strides = type_.tensor.element_type, shown.get_strides()
    assert strides is not None
    size = element_bytes(element)
    return TensorMap(
        argument.index,
        COPIED[element],
        size,
        tuple(reversed(shown.get_shape())),
        tuple([stride * size for stride in reversed(strides[:-1]) if stride is not None]),
        tuple(reversed(type_.tensor.get_shape())),
    )


def map_parameters(writer: KernelWriter, function: func.FuncOp) -> list[str]:
    """The parameters that are descriptions."""
    parameters: list[str] = []
    for op in ops_of(function, TmaCreateDescriptorOp):
        name = writer.name(op.tensor_map)
        parameters.append(f"const __grid_constant__ TnTensorMap {name}")
    return parameters


def emit_description(writer: KernelWriter, op: TmaCreateDescriptorOp) -> None:
    """The launch makes it."""


def emit_barriers(writer: KernelWriter, op: MBarrierCreateOp) -> None:
    offset, kind = writer.shared.offsets.get(op.barriers), "unsigned long long"
    name = writer.name(op.barriers)
    if offset is None:
        writer.line(f"__shared__ {kind} {name}[{op.count}];")
    else:
        writer.line(f"{kind} *{name} = ({kind} *)({SHARED_BYTES} + {offset});")


def _barrier(writer: KernelWriter, barriers: SSAValue, number: SSAValue) -> str:
    return f"&{writer.names[barriers]}[{writer.names[number]}]"


def emit_init(writer: KernelWriter, op: MBarrierInitOp) -> None:
    writer.line(f"tn_mbarrier_init({_barrier(writer, op.barriers, op.barrier)}, {writer.names[op.count]});")


def emit_arrive(writer: KernelWriter, op: MBarrierArriveOp) -> None:
    writer.line(f"tn_mbarrier_arrive({_barrier(writer, op.barriers, op.barrier)});")


def emit_expect(writer: KernelWriter, op: MBarrierArriveExpectOp) -> None:
    writer.line(f"tn_mbarrier_expect({_barrier(writer, op.barriers, op.barrier)}, {writer.names[op.byte_count]});")


def emit_try_wait(writer: KernelWriter, op: MBarrierTryWaitOp) -> None:
    writer.line(f"tn_mbarrier_wait({_barrier(writer, op.barriers, op.barrier)}, {writer.names[op.parity]});")


def emit_box(writer: KernelWriter, op: TmaAsyncLoadOp) -> None:
    coordinates = ", ".join(f"(int){writer.names[value]}" for value in op.coordinates)
    barrier = _barrier(writer, op.barriers, op.barrier)
    name = f"tn_tma_load_{len(op.coordinates)}d"
    writer.line(f"{name}({writer.names[op.dst]}, &{writer.names[op.tensor_map]}, {coordinates}, {barrier});")


def emit_subview(writer: KernelWriter, op: memref.SubviewOp) -> None:
    """Where a part begins; its type says how it is indexed."""
    source = op.source.type
    assert isinstance(source, MemRefType)
    strides = source.get_strides()
    if strides is None or None in strides:
        raise writer.error(f"{source} has no static strides")
    dynamic = iter(op.offsets)
    terms: list[str] = []
    for offset, stride in zip(op.static_offsets.get_values(), strides, strict=True):
        if offset == DYNAMIC_INDEX:
            terms.append(f"{writer.names[next(dynamic)]} * {stride}")
        elif offset:
            terms.append(str(offset * (stride or 0)))
    kind = writer.memory_type(source.element_type)
    start = " + ".join([writer.names[op.source], *terms])
    writer.line(f"{kind} *{writer.name(op.result)} = {start};")


def emit_elect(writer: KernelWriter, op: ElectOp) -> None:
    writer.declare(op.chosen, "tn_elect()")


def emit_init_fence(writer: KernelWriter, op: MBarrierInitFenceOp) -> None:
    writer.line("tn_fence_mbarrier_init();")


def emit_registers(writer: KernelWriter, op: SetMaxRegisterOp) -> None:
    writer.line(f"tn_setmaxnreg_{op.action.data[:3]}<{op.count.value.data}>();")


STATEMENTS: dict[str, Callable[[KernelWriter, Any], None]] = {
    TmaCreateDescriptorOp.name: emit_description,
    MBarrierCreateOp.name: emit_barriers,
    MBarrierInitOp.name: emit_init,
    MBarrierArriveOp.name: emit_arrive,
    MBarrierArriveExpectOp.name: emit_expect,
    MBarrierTryWaitOp.name: emit_try_wait,
    TmaAsyncLoadOp.name: emit_box,
    memref.SubviewOp.name: emit_subview,
    ElectOp.name: emit_elect,
    SetMaxRegisterOp.name: emit_registers,
    MBarrierInitFenceOp.name: emit_init_fence,
}
