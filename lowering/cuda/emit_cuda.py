"""`emit_cuda`: CUDA C++ from a grid-mapped module.

Before: every kernel has `grid` and `block` (`map-to-grid`). After: text with one `extern "C" __global__` function per
kernel, which includes no header and needs no compiler flag: NVRTC's defaults are IEEE (no flush to zero, exact division
and square root). Functions that are not kernels are left to the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

from xdsl.dialects import func, gpu, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i32,
)
from xdsl.ir import Operation

from tenon.dialects.families.host import is_host_call
from tenon.dialects.families.opaque import split_parameters, wrong_parameters
from tenon.dialects.upstream.gpu_shuffle import ShuffleOp
from tenon.dialects.upstream.nvvm import BallotOp, SetMaxRegisterOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.cuda.arith import BIT
from tenon.lowering.cuda.arith import STATEMENTS as ARITHMETIC
from tenon.lowering.cuda.atomics import ATOMIC_FUNCTIONS, emit_atomic
from tenon.lowering.cuda.bulk_copies import STATEMENTS as BULK_COPIES
from tenon.lowering.cuda.bulk_copies import map_parameters
from tenon.lowering.cuda.instructions import STATEMENTS as INSTRUCTIONS
from tenon.lowering.cuda.kernel_writer import EmissionError, KernelWriter
from tenon.lowering.cuda.shared_memory import SHARED_BYTES, SHARED_MEMORY, alignment_of, shared_memory
from tenon.lowering.cuda.tables import (
    PRELUDE,
)
from tenon.lowering.cuda.told_numbers import told_parameters
from tenon.lowering.instructions.table import device_functions
from tenon.lowering.steps.library import is_library_call
from tenon.lowering.steps.tile_copies import SAME_MEMORY

UNROLLING = {"unroll": "#pragma unroll", "rolled": "#pragma unroll 1"}
"""What attributes of loops become in text."""
ARCHITECTURE = re.compile(r"sm_(\d{2,3})[af]?")
OLDEST = 80
"""The first architecture that has bf16, asynchronous copies, and the matrix instructions of these."""


def emit_cuda(module: ModuleOp, arch: str = "sm_90") -> str:
    """The CUDA C++ text of the kernels in `module`, for NVRTC and the architecture `arch` (such as `sm_90`)."""
    known = ARCHITECTURE.fullmatch(arch)
    if known is None:
        raise EmissionError(f"emit_cuda: arch is {arch!r}, not one such as 'sm_90'")
    if int(known[1]) < OLDEST:
        raise EmissionError(f"emit_cuda: arch is {arch!r}, and kernels need sm_{OLDEST} or later")
    texts = [emit_kernel(function) for function in kernels(module)]
    try:
        instructions = device_functions("\n".join(texts), arch)
    except ValueError as error:
        raise EmissionError(f"emit_cuda: {error}") from None
    atomics = ATOMIC_FUNCTIONS if any("tn_atomic_" in text for text in texts) else ""
    return "\n".join([f"// {arch}", PRELUDE, *filter(None, [atomics, instructions]), *texts])


def kernels(module: ModuleOp) -> list[func.FuncOp]:
    """The kernels of a module that the device runs, in order."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp) and "kernel" in op.attributes]
    return [function for function in functions if not (is_host_call(function) or is_library_call(function))]


def launch_shape(function: func.FuncOp, name: str) -> tuple[int, int, int]:
    """The attribute `grid` or `block` of a kernel."""
    shape = function.attributes.get(name)
    if not isinstance(shape, DenseArrayBase) or len(values := shape.get_values()) != 3:
        raise EmissionError(f"emit_cuda: @{function.sym_name.data} has no {name}; run map-to-grid first")
    x, y, z = (int(value) for value in values)
    return x, y, z


def emit_kernel(function: func.FuncOp) -> str:
    """One `__global__` function."""
    launch_shape(function, "grid")
    x, y, z = launch_shape(function, "block")
    if not function.body.blocks:
        return given_source(function)
    bits = function.attributes.get("index_bits")
    index_bits = bits.value.data if isinstance(bits, IntegerAttr) else 64
    writer = KernelWriter(function.sym_name.data, STATEMENTS, index_bits)
    resident = function.attributes.get("resident")
    held = f", {resident.value.data}" if isinstance(resident, IntegerAttr) else ""
    qualifier = "" if "shared_arguments" in function.attributes else "__restrict__ "
    listed = [writer.parameter(argument, qualifier) for argument in function.body.block.args]
    parameters = ", ".join([*listed, *told_parameters(writer, function), *map_parameters(writer, function)])
    alone = ", 1" if ops_of(function, SetMaxRegisterOp) else ""  # a limit of registers, of which threads depart
    writer.line(
        f'extern "C" __global__ __launch_bounds__({x * y * z}{alone or held}) void {writer.kernel}({parameters}) {{'
    )
    writer.shared = shared_memory(function)
    if writer.shared.byte_count:
        writer.line(f"  TN_DYNAMIC_SHARED({SHARED_BYTES});")
    writer.block(function.body.block)
    writer.line("}")
    return "\n".join(writer.lines) + "\n"


def given_source(function: func.FuncOp) -> str:
    """The text of a kernel without a body, which brings its own."""
    source = function.attributes.get("cuda_source")
    if isinstance(source, StringAttr):
        check_parameters(function, source.data)
        return source.data
    refused = function.attributes.get("cuda_refused")
    if isinstance(refused, StringAttr):
        raise EmissionError(refused.data)
    raise EmissionError(f"emit_cuda: @{function.sym_name.data} has no body and no cuda_source")


_COMMENT = re.compile(r"(\"(?:[^\"\\\n]|\\.)*\")|//[^\n]*|/\*.*?\*/", re.DOTALL)


def check_parameters(function: func.FuncOp, source: str) -> None:
    """Raise where a text defines a kernel with more or fewer parameters than it is launched with: what is missing would
    be read from anywhere."""
    name = re.escape(function.sym_name.data)
    nested = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
    text = _COMMENT.sub(r"\1", source)
    defined = re.search(rf"\b__global__\b(?:[^;{{}}()]|\({nested}\))*?\b{name}\s*\(({nested})\)\s*\{{", text)
    if defined is None:
        return  # by a macro, perhaps; the driver says so if it is not there
    parameters = split_parameters(defined[1])
    if len(parameters if parameters != ["void"] else []) != len(function.function_type.inputs):
        raise EmissionError(str(wrong_parameters(function, "cuda", "void", parameters)))


def emit_load(writer: KernelWriter, op: memref.LoadOp) -> None:
    access = writer.element(op.memref, op.indices)
    writer.declare(op.res, f"{access} != 0" if op.res.type == BIT else access)


def emit_store(writer: KernelWriter, op: memref.StoreOp) -> None:
    writer.line(f"{writer.element(op.memref, op.indices)} = {writer.names[op.value]};")


def emit_alloca(writer: KernelWriter, op: memref.AllocaOp) -> None:
    buffer = op.memref.type
    assert isinstance(buffer, MemRefType)
    kind = writer.memory_type(buffer.element_type)
    offset = writer.shared.offsets.get(op.memref)
    if offset is not None:
        writer.line(f"{kind} *{writer.name(op.memref)} = ({kind} *)({SHARED_BYTES} + {offset});")
        return
    qualifier = "__shared__ " if buffer.memory_space == SHARED_MEMORY else ""
    elements = max(1, prod(buffer.get_shape()))
    writer.line(f"alignas({alignment_of(op, 16)}) {qualifier}{kind} {writer.name(op.memref)}[{elements}];")


def emit_vector_load(writer: KernelWriter, op: vector.LoadOp) -> None:
    kind = writer.vector_type(op.result.type)
    address = writer.element(op.base, op.indices)
    writer.line(f"{kind} {writer.name(op.result)} = tn_load<{kind}>(&{address});")


def emit_vector_store(writer: KernelWriter, op: vector.StoreOp) -> None:
    kind = writer.vector_type(op.vector.type)
    writer.line(f"tn_store<{kind}>(&{writer.element(op.base, op.indices)}, {writer.names[op.vector]});")


def emit_broadcast(writer: KernelWriter, op: vector.BroadcastOp) -> None:
    kind = writer.vector_type(op.vector.type)
    writer.line(f"{kind} {writer.name(op.vector)} = {kind}::all({writer.names[op.source]});")


def emit_vector_bitcast(writer: KernelWriter, op: vector.BitcastOp) -> None:
    kind = writer.vector_type(op.result.type)
    writer.declare(op.result, f"*(const {kind} *)&{writer.names[op.source]}")


def emit_shuffle(writer: KernelWriter, op: ShuffleOp) -> None:
    value, distance, _ = (writer.names[operand] for operand in op.operands)
    if op.mode.data == "xor":
        writer.declare(op.shuffled, f"tn_shuffle({value}, {distance})")
    elif op.mode.data == "idx" and op.value.type == i32:
        writer.declare(op.shuffled, f"__shfl_sync(0xffffffffu, {value}, {distance})")
    else:
        raise writer.error(f"gpu.shuffle {op.mode.data} of {op.value.type} has no CUDA C++ form")


def emit_ballot(writer: KernelWriter, op: BallotOp) -> None:
    mask, condition = (writer.names[operand] for operand in op.operands)
    writer.declare(op.lanes, f"(int)__ballot_sync({mask}, {condition})")


def emit_reshape(writer: KernelWriter, op: Operation) -> None:
    """The same memory under another shape: the type alone says how it is indexed."""
    writer.names[op.results[0]] = writer.names[op.operands[0]]


def emit_view(writer: KernelWriter, op: memref.ViewOp) -> None:
    buffer = op.result.type
    assert isinstance(buffer, MemRefType)
    kind = writer.memory_type(buffer.element_type)
    start = f"{writer.names[op.source]} + {writer.names[op.byte_shift]}"
    writer.line(f"{kind} *{writer.name(op.result)} = ({kind} *)({start});")


def emit_for(writer: KernelWriter, op: scf.ForOp) -> None:
    body = op.body.block
    for result, initial in zip(op.results, op.iter_args, strict=True):
        writer.declare(result, writer.names[initial])
    for carried, result in zip(body.args[1:], op.results, strict=True):
        writer.names[carried] = writer.names[result]
    number = op.attributes.get("unroll")
    if isinstance(number, IntegerAttr):
        writer.line(f"#pragma unroll {number.value.data}")
    elif (pragma := next((text for name, text in UNROLLING.items() if name in op.attributes), None)) is not None:
        writer.line(pragma)
    kind, variable = writer.type(body.args[0].type), writer.name(body.args[0])
    lower, upper, step = (writer.names[bound] for bound in (op.lb, op.ub, op.step))
    writer.line(f"for ({kind} {variable} = {lower}; {variable} < {upper}; {variable} += {step}) {{")
    writer.block(body)
    writer.line("}")


def emit_if(writer: KernelWriter, op: scf.IfOp) -> None:
    for result in op.results:
        writer.line(f"{writer.type(result.type)} {writer.name(result)};")
    writer.line(f"if ({writer.names[op.cond]}) {{")
    writer.block(op.true_region.block)
    if op.false_region.blocks and len(op.false_region.block.ops) > (0 if op.results else 1):
        writer.line("} else {")
        writer.block(op.false_region.block)
    writer.line("}")


def emit_while(writer: KernelWriter, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    for argument, initial in zip(before.args, op.arguments, strict=True):
        writer.declare(argument, writer.names[initial])
    for result, argument in zip(op.results, after.args, strict=True):
        writer.line(f"{writer.type(result.type)} {writer.name(result)};")
        writer.names[argument] = writer.names[result]
    writer.line("for (;;) {")
    writer.block(before)
    writer.block(after)
    writer.line("}")


def emit_condition(writer: KernelWriter, op: scf.ConditionOp) -> None:
    parent = op.parent_op()
    assert parent is not None
    writer.assign(parent.results, op.args)
    writer.line(f"if (!{writer.names[op.condition]}) break;")


def emit_yield(writer: KernelWriter, op: scf.YieldOp) -> None:
    parent = op.parent_op()
    targets = parent.before_region.block.args if isinstance(parent, scf.WhileOp) else parent.results if parent else ()
    writer.assign(targets, op.operands)


def emit_all_reduce(writer: KernelWriter, op: gpu.AllReduceOp) -> None:
    if not op.body.blocks:
        raise writer.error("gpu.all_reduce names its combiner; give it a body")
    kind, body = writer.type(op.result.type), op.body.block
    slots, operand = f"slots_{len(writer.names)}", writer.names[op.operand]
    writer.line(f"__shared__ {kind} {slots}[32];")
    first, second = (writer.name(argument) for argument in body.args)
    writer.line(
        f"{kind} {writer.name(op.result)} = tn_all_reduce({operand}, {slots}, [&]({kind} {first}, {kind} {second}) {{"
    )
    writer.block(body)
    writer.line("});")


def emit_reduced(writer: KernelWriter, op: gpu.YieldOp) -> None:
    writer.line(f"return {writer.names[op.values[0]]};")


def position(variable: str) -> Callable[[KernelWriter, Operation], None]:
    def emit_position(writer: KernelWriter, op: Operation) -> None:
        dimension = op.properties["dimension"]
        assert isinstance(dimension, gpu.DimensionAttr)
        writer.declare(op.results[0], f"{variable}.{dimension.data.value}")

    return emit_position


def emit_barrier(writer: KernelWriter, op: gpu.BarrierOp) -> None:
    writer.line("__syncthreads();")


def emit_nothing(writer: KernelWriter, op: Operation) -> None:
    """The end of a function or of a region without results."""


STATEMENTS: dict[str, Callable[[KernelWriter, Any], None]] = {
    **ARITHMETIC,
    **INSTRUCTIONS,
    **BULK_COPIES,
    memref.LoadOp.name: emit_load,
    memref.StoreOp.name: emit_store,
    memref.AtomicRMWOp.name: emit_atomic,
    memref.AllocaOp.name: emit_alloca,
    **dict.fromkeys([kind.name for kind in SAME_MEMORY], emit_reshape),
    memref.ViewOp.name: emit_view,
    vector.LoadOp.name: emit_vector_load,
    vector.StoreOp.name: emit_vector_store,
    vector.BroadcastOp.name: emit_broadcast,
    vector.BitcastOp.name: emit_vector_bitcast,
    ShuffleOp.name: emit_shuffle,
    BallotOp.name: emit_ballot,
    scf.ForOp.name: emit_for,
    scf.IfOp.name: emit_if,
    scf.WhileOp.name: emit_while,
    scf.ConditionOp.name: emit_condition,
    scf.YieldOp.name: emit_yield,
    gpu.AllReduceOp.name: emit_all_reduce,
    gpu.YieldOp.name: emit_reduced,
    gpu.ThreadIdOp.name: position("threadIdx"),
    gpu.BlockIdOp.name: position("blockIdx"),
    gpu.BlockDimOp.name: position("blockDim"),
    gpu.GridDimOp.name: position("gridDim"),
    gpu.BarrierOp.name: emit_barrier,
    func.ReturnOp.name: emit_nothing,
}
