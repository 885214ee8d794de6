"""`emit_cuda`: CUDA C++ from a grid-mapped module.

Before: every kernel has `grid` and `block` (`map-to-grid`). After: text with one `extern "C" __global__` function per
kernel, which includes no header and needs no compiler flag: NVRTC's defaults are IEEE (no flush to zero, exact division
and square root). Functions that are not kernels are left to the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isfinite, prod
from typing import Any

from xdsl.dialects import arith, func, gpu, memref, scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.lowering.cuda.block_form import SHARED_MEMORY
from tenon.lowering.cuda.tables import (
    BITCASTS,
    FLOAT_COMPARISONS,
    FLOAT_EXPRESSIONS,
    FROM_FLOAT,
    INTEGER_COMPARISONS,
    INTEGER_EXPRESSIONS,
    PAIR_EXPRESSIONS,
    PRELUDE,
    TO_FLOAT,
    memory_type,
    same_width_unsigned,
    scalar_type,
    unsigned_type,
)

# Looked up by name: ops that widen an upstream op to vectors share its name, and mean the same on scalars.
FLOATS, INTEGERS = (
    {kind.name: expression for kind, expression in table.items()} for table in (FLOAT_EXPRESSIONS, INTEGER_EXPRESSIONS)
)
PAIRS = {kind.name: pair for kind, pair in PAIR_EXPRESSIONS.items()}
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")
BIT = IntegerType(1)


class EmissionError(ValueError):
    """An op or a type that has no CUDA C++ form."""


def emit_cuda(module: ModuleOp, arch: str = "sm_90") -> str:
    """The CUDA C++ text of the kernels in `module`, for NVRTC and the architecture `arch` (such as `sm_90`)."""
    if not ARCHITECTURE.fullmatch(arch):
        raise EmissionError(f"emit_cuda: arch is {arch!r}, not one such as 'sm_90'")
    return "\n".join([f"// {arch}", PRELUDE, *(emit_kernel(function) for function in kernels(module))])


def kernels(module: ModuleOp) -> list[func.FuncOp]:
    """The kernels of a module, in order."""
    return [op for op in module.ops if isinstance(op, func.FuncOp) and "kernel" in op.attributes]


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
    writer = KernelWriter(function.sym_name.data)
    qualifier = "" if "shared_arguments" in function.attributes else "__restrict__ "
    parameters = ", ".join(writer.parameter(argument, qualifier) for argument in function.body.block.args)
    writer.line(f'extern "C" __global__ __launch_bounds__({x * y * z}) void {writer.kernel}({parameters}) {{')
    writer.block(function.body.block)
    writer.line("}")
    return "\n".join(writer.lines) + "\n"


def given_source(function: func.FuncOp) -> str:
    """The text of a kernel without a body, which brings its own."""
    source = function.attributes.get("cuda_source")
    if isinstance(source, StringAttr):
        return source.data
    refused = function.attributes.get("cuda_refused")
    if isinstance(refused, StringAttr):
        raise EmissionError(refused.data)
    raise EmissionError(f"emit_cuda: @{function.sym_name.data} has no body and no cuda_source")


class KernelWriter:
    """Writes the statements of one kernel; `names` holds the C variable of each value."""

    def __init__(self, kernel: str):
        self.kernel = kernel
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.depth = 0

    def error(self, message: str) -> EmissionError:
        return EmissionError(f"emit_cuda: @{self.kernel}: {message}")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def name(self, value: SSAValue) -> str:
        """A new variable for `value`, after its name in the IR."""
        hint = re.sub(r"\W", "_", value.name_hint or "v")
        name = self.names[value] = f"{hint}_{len(self.names)}"
        return name

    def type(self, element: Attribute) -> str:
        if (name := scalar_type(element)) is None:
            raise self.error(f"{element} has no type in CUDA C++")
        return name

    def number_type(self, op: Operation) -> str:
        """The C type of the result of a conversion between types that C has numbers of."""
        source, target = op.operands[0].type, op.results[0].type
        if isinstance(source, Float16Type | BFloat16Type) or isinstance(target, Float16Type | BFloat16Type):
            raise self.error(f"{op.name} from {source} to {target} has no CUDA C++ form before legalize-arith")
        return self.type(target)

    def memory_type(self, element: Attribute) -> str:
        if (name := memory_type(element)) is None:
            raise self.error(f"{element} has no type in CUDA C++")
        return name

    def parameter(self, argument: SSAValue, qualifier: str) -> str:
        if isinstance(argument.type, MemRefType):
            return f"{self.memory_type(argument.type.element_type)} *{qualifier}{self.name(argument)}"
        return f"{self.type(argument.type)} {self.name(argument)}"

    def declare(self, value: SSAValue, expression: str) -> None:
        self.line(f"{self.type(value.type)} {self.name(value)} = {expression};")

    def assign(self, targets: Sequence[SSAValue], sources: Sequence[SSAValue]) -> None:
        """Give `targets` the values of `sources` all at once."""
        pairs = [(self.names[target], self.names[source]) for target, source in zip(targets, sources, strict=True)]
        pairs = [(target, source) for target, source in pairs if target != source]
        assigned = {target for target, _ in pairs}
        if any(source in assigned for _, source in pairs):
            for target, source in zip(targets, sources, strict=True):
                self.line(f"{self.type(target.type)} next_{self.names[target]} = {self.names[source]};")
            pairs = [(target, f"next_{target}") for target, _ in pairs]
        for target, source in pairs:
            self.line(f"{target} = {source};")

    def block(self, block: Block) -> None:
        self.depth += 1
        for op in block.ops:
            self.op(op)
        self.depth -= 1

    def op(self, op: Operation) -> None:
        if (statement := STATEMENTS.get(op.name)) is not None:
            statement(self, op)
        elif (pair := PAIRS.get(op.name)) is not None:
            for result, expression in zip(op.results, pair, strict=True):
                self.declare(result, self.filled(op, expression, op.results[0].type))
        else:
            self.declare(op.results[0], self.filled(op, self.expression(op), op.results[0].type))

    def expression(self, op: Operation) -> str:
        """The expression of an arithmetic op, from the table for its element type."""
        element = op.operands[0].type if op.operands else None
        table = FLOATS if isinstance(element, Float32Type | Float64Type) else INTEGERS
        if op.name in table and not isinstance(element, Float16Type | BFloat16Type):
            return table[op.name]
        raise self.error(f"{op.name} on {element} has no CUDA C++ form")

    def filled(self, op: Operation, expression: str, element: Attribute) -> str:
        operands = [self.names[operand] for operand in op.operands]
        source = op.operands[0].type
        is_integer = isinstance(element, IntegerType | IndexType)
        return expression.format(
            *operands,
            T=self.type(element),
            U=unsigned_type(element),
            W=same_width_unsigned(element) if is_integer else "",
            V=same_width_unsigned(source) if isinstance(source, IntegerType | IndexType) else "",
            bits=element.width.data if isinstance(element, IntegerType) else 64,
            f="f" if isinstance(source, Float32Type) else "",
        )

    def element(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """The element of `buffer` at `indices`."""
        assert isinstance(buffer.type, MemRefType)
        strides = buffer.type.get_strides()
        if strides is None or any(stride is None for stride in strides):
            raise self.error(f"{buffer.type} has no static strides")
        terms = [
            self.names[index] if stride == 1 else f"{self.names[index]} * {stride}"
            for index, stride in zip(indices, strides, strict=True)
            if stride
        ]
        return f"{self.names[buffer]}[{' + '.join(terms) or '0'}]"


def emit_constant(writer: KernelWriter, op: arith.ConstantOp) -> None:
    """A constant is written where it is used."""
    text = literal(writer, op.value)
    writer.names[op.result] = f"({text})" if text.startswith("-") else text


def literal(writer: KernelWriter, value: Attribute) -> str:
    """The C literal of a constant."""
    if isinstance(value, IntegerAttr):
        return integer_literal(value)
    if not isinstance(value, FloatAttr):
        raise writer.error(f"arith.constant of type {getattr(value, 'type', value)} is not a scalar")
    number, element = value.value.data, value.type
    bits = int.from_bytes(element.pack([number]), "little")
    if isinstance(element, Float32Type):
        number = element.unpack(element.pack([number]), 1)[0]
        return f"{float_digits(number, 9)}f" if isfinite(number) else f"__int_as_float({bits:#x})"
    if isinstance(element, Float64Type):
        return float_digits(number, 17) if isfinite(number) else f"__longlong_as_double({bits:#x}ll)"
    return f"{bits:#x}"


def float_digits(number: float, digits: int) -> str:
    text = f"{number:.{digits}g}"
    return text if "." in text or "e" in text else text + ".0"


def integer_literal(value: IntegerAttr) -> str:
    number = value.value.data
    if value.type == BIT:
        return "true" if number else "false"
    width = value.type.width.data if isinstance(value.type, IntegerType) else 64
    number = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    if width < 64:
        return str(number) if number != -(1 << 31) else "(-2147483647 - 1)"
    return f"{number}ll" if number != -(1 << 63) else "(-9223372036854775807ll - 1)"


def emit_compare_integers(writer: KernelWriter, op: arith.CmpiOp) -> None:
    writer.declare(op.result, writer.filled(op, INTEGER_COMPARISONS[op.predicate.value.data], op.result.type))


def emit_compare_floats(writer: KernelWriter, op: arith.CmpfOp) -> None:
    if not isinstance(op.lhs.type, Float32Type | Float64Type):
        raise writer.error(f"{op.name} on {op.lhs.type} has no CUDA C++ form")
    writer.declare(op.result, writer.filled(op, FLOAT_COMPARISONS[op.predicate.value.data], op.result.type))


def emit_select(writer: KernelWriter, op: arith.SelectOp) -> None:
    condition, first, second = (writer.names[operand] for operand in op.operands)
    writer.declare(op.result, f"{condition} ? {first} : {second}")


def emit_convert_float(writer: KernelWriter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    expression = TO_FLOAT.get(type(source)) or FROM_FLOAT.get(type(target))
    if expression is not None and Float32Type() in (source, target):
        writer.declare(op.results[0], expression.format(writer.names[op.operands[0]]))
    else:
        emit_cast(writer, op)


def emit_cast(writer: KernelWriter, op: Operation) -> None:
    """A conversion from signed numbers. True is -1."""
    if op.results[0].type == BIT and op.operands[0].type != BIT:
        writer.declare(op.results[0], f"({writer.names[op.operands[0]]} & 1) != 0")
        return
    sign = "-(int)" if op.operands[0].type == BIT else ""
    writer.declare(op.results[0], f"({writer.number_type(op)}){sign}{writer.names[op.operands[0]]}")


def emit_cast_unsigned(writer: KernelWriter, op: Operation) -> None:
    """A conversion from unsigned integers."""
    source = same_width_unsigned(op.operands[0].type)
    writer.declare(op.results[0], f"({writer.number_type(op)})({source}){writer.names[op.operands[0]]}")


def emit_truncate_integer(writer: KernelWriter, op: arith.TruncIOp) -> None:
    low_bit = f"({writer.names[op.input]} & 1) != 0"
    target = op.result.type
    writer.declare(op.result, low_bit if target == BIT else f"({writer.type(target)}){writer.names[op.input]}")


def emit_to_unsigned(writer: KernelWriter, op: arith.FPToUIOp) -> None:
    """A conversion to unsigned integers."""
    unsigned = same_width_unsigned(op.result.type)
    writer.declare(op.result, f"({writer.number_type(op)})({unsigned}){writer.names[op.input]}")


def emit_bitcast(writer: KernelWriter, op: arith.BitcastOp) -> None:
    source, target = writer.type(op.input.type), writer.type(op.result.type)
    expression = BITCASTS.get((source, target), "({T}){0}")
    writer.declare(op.result, expression.format(writer.names[op.input], T=target))


def emit_load(writer: KernelWriter, op: memref.LoadOp) -> None:
    access = writer.element(op.memref, op.indices)
    writer.declare(op.res, f"{access} != 0" if op.res.type == BIT else access)


def emit_store(writer: KernelWriter, op: memref.StoreOp) -> None:
    writer.line(f"{writer.element(op.memref, op.indices)} = {writer.names[op.value]};")


def emit_alloca(writer: KernelWriter, op: memref.AllocaOp) -> None:
    buffer = op.memref.type
    assert isinstance(buffer, MemRefType)
    qualifier = "__shared__ " if buffer.memory_space == SHARED_MEMORY else ""
    elements = max(1, prod(buffer.get_shape()))
    writer.line(f"{qualifier}{writer.memory_type(buffer.element_type)} {writer.name(op.memref)}[{elements}];")


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
    arith.ConstantOp.name: emit_constant,
    arith.CmpiOp.name: emit_compare_integers,
    arith.CmpfOp.name: emit_compare_floats,
    arith.SelectOp.name: emit_select,
    arith.ExtFOp.name: emit_convert_float,
    arith.TruncFOp.name: emit_convert_float,
    arith.IndexCastOp.name: emit_cast,
    arith.ExtSIOp.name: emit_cast,
    arith.SIToFPOp.name: emit_cast,
    arith.ExtUIOp.name: emit_cast_unsigned,
    arith.UIToFPOp.name: emit_cast_unsigned,
    arith.TruncIOp.name: emit_truncate_integer,
    arith.FPToSIOp.name: emit_cast,
    arith.FPToUIOp.name: emit_to_unsigned,
    arith.BitcastOp.name: emit_bitcast,
    memref.LoadOp.name: emit_load,
    memref.StoreOp.name: emit_store,
    memref.AllocaOp.name: emit_alloca,
    memref.CollapseShapeOp.name: emit_reshape,
    memref.ExpandShapeOp.name: emit_reshape,
    memref.CastOp.name: emit_reshape,
    memref.ViewOp.name: emit_view,
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
