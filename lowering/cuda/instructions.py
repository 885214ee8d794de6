"""Statements of the ops of `nvgpu`, and of what goes with products of a warpgroup: calls of the device functions of
their instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from xdsl.dialects import vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, SSAValue

from tenon.dialects.upstream.nvgpu import (
    DeviceAsyncCopyOp,
    DeviceAsyncCreateGroupOp,
    DeviceAsyncWaitOp,
    LdMatrixOp,
    MmaSyncOp,
)
from tenon.dialects.upstream.nvvm import (
    BarrierArriveOp,
    BarrierOp,
    FenceProxyOp,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaWaitOp,
)
from tenon.dialects.upstream.warpgroup import REPEAT, SPAN, WarpgroupMmaOp
from tenon.lowering.cuda.kernel_writer import KernelWriter
from tenon.lowering.instructions.table import INSTRUCTIONS
from tenon.lowering.instructions.warpgroup import wgmma_name
from tenon.lowering.steps.tile_copies import RUN

ELEMENTS: dict[Attribute, str] = {
    BFloat16Type(): "bf16",
    Float16Type(): "f16",
    Float32Type(): "tf32",
    Float64Type(): "f64",
    IntegerType(8): "s8",
}
"""How names of instructions call the elements of operands."""


def emit_copy(writer: KernelWriter, op: DeviceAsyncCopyOp) -> None:
    to, source = writer.element(op.dst, op.dst_indices), writer.element(op.src, op.src_indices)
    valid = ""
    if op.src_elements is not None:
        size = op.byte_count // op.dst_elements.value.data
        valid = f", (unsigned int){writer.names[op.src_elements]} * {size}"
    writer.line(f"tn_cp_async<{op.byte_count}>(&{to}, &{source}{valid});")


def emit_group(writer: KernelWriter, op: DeviceAsyncCreateGroupOp) -> None:
    writer.line("tn_cp_async_commit();")


def emit_wait(writer: KernelWriter, op: DeviceAsyncWaitOp) -> None:
    writer.line(f"tn_cp_async_wait<{op.groups.value.data if op.groups is not None else 0}>();")


def emit_ldmatrix(writer: KernelWriter, op: LdMatrixOp) -> None:
    tiles = op.tiles.value.data
    row = writer.element(op.source, op.indices)
    kind = writer.vector_type(op.result.type)
    name = writer.name(op.result)
    function = f"tn_ldmatrix_x{tiles}{'_trans' if op.transpose.value.data else ''}"
    writer.line(f"{kind} {name};")
    writer.line(f"{function}(*(unsigned int (*)[{tiles}])&{name}, &{row});")


def emit_mma(writer: KernelWriter, op: MmaSyncOp) -> None:
    assert isinstance(op.a.type, VectorType)
    rows, columns, depth = op.sizes
    element = ELEMENTS.get(op.a.type.element_type)
    function = f"tn_mma_m{rows}n{columns}k{depth}_{element}"
    if function not in INSTRUCTIONS:
        raise writer.error(f"{op.name} of {op.a.type} has no instruction for {rows} x {columns} x {depth}")
    a, b = (_registers(writer, value) for value in (op.a, op.b))
    writer.line(f"{writer.vector_type(op.result.type)} {writer.name(op.result)} = {writer.names[op.c]};")
    writer.line(f"{function}({writer.names[op.result]}.elements, {a}, {b});")


def _registers(writer: KernelWriter, value: SSAValue) -> str:
    assert isinstance(value.type, VectorType)
    kind = "double" if value.type.element_type == Float64Type() else "unsigned int"
    return f"*(const {kind} (*)[{value.type.get_shape()[0]}])&{writer.names[value]}"


def emit_fence(writer: KernelWriter, op: WgmmaFenceOp) -> None:
    writer.line("tn_wgmma_fence();")


def emit_commit(writer: KernelWriter, op: WgmmaCommitOp) -> None:
    writer.line("tn_wgmma_commit();")


def emit_wait_for_products(writer: KernelWriter, op: WgmmaWaitOp) -> None:
    writer.line(f"tn_wgmma_wait<{op.group.value.data}>();")


def emit_fence_proxy(writer: KernelWriter, op: FenceProxyOp) -> None:
    writer.line("tn_fence_proxy_async();")


def emit_barrier(writer: KernelWriter, op: BarrierOp | BarrierArriveOp) -> None:
    what = "sync" if isinstance(op, BarrierOp) else "arrive"
    writer.line(f"tn_named_barrier_{what}({writer.names[op.number]}, {writer.names[op.threads]});")


def emit_warpgroup_mma(writer: KernelWriter, op: WarpgroupMmaOp) -> None:
    assert isinstance(op.a.type, MemRefType)
    element, columns = ELEMENTS.get(op.a.type.element_type), op.columns.value.data
    function = wgmma_name(columns, element, "_registers" if op.a_in_registers else "")
    if function not in INSTRUCTIONS:
        raise writer.error(f"{op.name} of {op.a.type} has no instruction for {columns} columns")
    transposed = [op.transpose_a is not None, op.transpose_b is not None]
    b = _descriptor(writer, op.b, op.b_indices, transposed[1])
    if op.a_in_registers:
        a, transposed = f"*(const unsigned int (*)[4])&{writer.element(op.a, op.a_indices)}", transposed[1:]
    else:
        a = _descriptor(writer, op.a, op.a_indices, transposed[0])
    adds = "true" if op.adds is None else writer.names[op.adds]
    sums = f"*(float (*)[{columns // 2}])&{writer.element(op.sums, op.sums_indices)}"
    writer.line(f"{function}<{', '.join(str(int(known)) for known in transposed)}>({sums}, {a}, {b}, {adds});")


def _descriptor(writer: KernelWriter, tile: SSAValue, indices: Sequence[SSAValue], across: bool) -> str:
    """Where an operand is in shared memory: eight rows of 128 bytes behind eight, panels behind panels."""
    assert isinstance(tile.type, MemRefType)
    rows = prod(tile.type.get_shape()[2:-1])
    leading = rows * SPAN if across else RUN
    return f"tn_wgmma_descriptor(&{writer.element(tile, indices)}, {leading}, {REPEAT * SPAN}, {SPAN})"


def emit_extract(writer: KernelWriter, op: vector.ExtractOp) -> None:
    """One element of a vector, at a place that is known."""
    assert isinstance(op.vector.type, VectorType)
    shape, position = op.vector.type.get_shape(), op.static_position.get_values()
    if op.dynamic_position or len(position) != len(shape):
        raise writer.error(f"{op.name} of anything but one element at a known place has no CUDA C++ form")
    place = 0
    for size, index in zip(shape, position, strict=True):
        place = place * size + index
    writer.declare(op.result, f"{writer.names[op.vector]}.elements[{place}]")


STATEMENTS: dict[str, Callable[[KernelWriter, Any], None]] = {
    DeviceAsyncCopyOp.name: emit_copy,
    DeviceAsyncCreateGroupOp.name: emit_group,
    DeviceAsyncWaitOp.name: emit_wait,
    LdMatrixOp.name: emit_ldmatrix,
    MmaSyncOp.name: emit_mma,
    WgmmaFenceOp.name: emit_fence,
    WgmmaCommitOp.name: emit_commit,
    WgmmaWaitOp.name: emit_wait_for_products,
    FenceProxyOp.name: emit_fence_proxy,
    BarrierOp.name: emit_barrier,
    BarrierArriveOp.name: emit_barrier,
    WarpgroupMmaOp.name: emit_warpgroup_mma,
    vector.ExtractOp.name: emit_extract,
}
