"""The host's part of a grid-mapped module: `main`, run op by op against a device.

`HostProgram` translates `main` into a list of steps once, so a call does no dispatch on ops. What a device must be able
to do is the protocol `Backend`; addresses are integers, as the launch interfaces take them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

Environment: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Environment], None]


class HostProgramError(ValueError):
    """An op in `main`, or an argument, that the host cannot deal with."""


def element_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy type of an element type. An i1 is a bool of one byte."""
    if isinstance(element, IntegerType):
        return np.dtype("bool" if element.width.data == 1 else f"int{element.width.data}")
    kinds: dict[type[Attribute], Any] = {
        Float16Type: np.float16,
        BFloat16Type: ml_dtypes.bfloat16,
        Float32Type: np.float32,
        Float64Type: np.float64,
        IndexType: np.int64,
    }
    if type(element) not in kinds:
        raise HostProgramError(f"main: {element} has no numpy type")
    return np.dtype(kinds[type(element)])


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """An array on the device, row-major without gaps unless `strides` (in elements) are given.

    `owner` keeps its memory alive.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: object
    strides: tuple[int, ...] | None = None

    @property
    def byte_count(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


class Backend(Protocol):
    """What a device does for a host program. All calls take effect in order."""

    def allocate(self, byte_count: int) -> tuple[int, object]:
        """New memory, aligned to 64 bytes: its address and its owner."""
        ...

    def copy(self, destination: int, source: int, byte_count: int) -> None:
        """Copy within the device."""
        ...

    def read(self, address: int, byte_count: int) -> bytes:
        """Copy from the device, after everything before it is done."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copy to the device."""
        ...

    def launch(
        self, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Sequence[np.generic]
    ) -> None:
        """Run a kernel; a pointer is passed as a `numpy.uint64`."""
        ...


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @staticmethod
    def of(function: func.FuncOp) -> Launch:
        shapes: list[tuple[int, int, int]] = []
        for name in ("grid", "block"):
            shape = function.attributes.get(name)
            if not isinstance(shape, DenseArrayBase):
                raise HostProgramError(f"main: @{function.sym_name.data} has no {name}; run map-to-grid first")
            x, y, z = (int(value) for value in shape.get_values())
            shapes.append((x, y, z))
        return Launch(function.sym_name.data, *shapes)


def wrapped(value: int, element: Attribute) -> int:
    """`value` in two's complement, with the bits of an integer type."""
    width = element.width.data if isinstance(element, IntegerType) else 64
    if width == 1:
        return value & 1
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def unsigned(value: int, element: Attribute) -> int:
    return value % (1 << (element.width.data if isinstance(element, IntegerType) else 64))


def quotient(a: int, b: int) -> int:
    """Division toward zero; division by zero is zero."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    arith.AddiOp.name: operator.add,
    arith.SubiOp.name: operator.sub,
    arith.MuliOp.name: operator.mul,
    arith.DivSIOp.name: quotient,
    arith.RemSIOp.name: lambda a, b: a - b * quotient(a, b) if b else 0,
    arith.FloorDivSIOp.name: lambda a, b: a // b if b else 0,
    arith.CeilDivSIOp.name: lambda a, b: -(-a // b) if b else 0,
    arith.AndIOp.name: operator.and_,
    arith.OrIOp.name: operator.or_,
    arith.XOrIOp.name: operator.xor,
    arith.MaxSIOp.name: max,
    arith.MinSIOp.name: min,
}
COMPARISONS: tuple[Callable[[int, int], bool], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)
CASTS = frozenset(kind.name for kind in (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp))
RESHAPES = frozenset(kind.name for kind in (memref.CastOp, memref.CollapseShapeOp, memref.ExpandShapeOp))


class HostProgram:
    """`main` of a grid-mapped module, ready to run: a call takes input buffers and returns output buffers."""

    def __init__(self, module: ModuleOp, backend: Backend) -> None:
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        if "main" not in functions:
            raise HostProgramError("the module has no function main")
        main = functions["main"]
        self.backend = backend
        self.launches = {name: function for name, function in functions.items() if "kernel" in function.attributes}
        self.globals = {op.sym_name.data: op for op in module.ops if isinstance(op, memref.GlobalOp)}
        self.slots: dict[SSAValue, int] = {}
        self.initial: Environment = []
        arguments = main.body.block.args
        types = [argument.type for argument in arguments]
        counts = [main.attributes.get(name) for name in ("num_inputs", "num_outputs")]
        inputs, outputs = (count.value.data if isinstance(count, IntegerAttr) else -1 for count in counts)
        if inputs < 0 or outputs < 0 or inputs + outputs + 1 != len(types):
            raise HostProgramError(f"main: {len(types)} arguments are not the inputs, the outputs and the arena")
        self.inputs = [static_array(element) for element in types[:inputs]]
        self.outputs = [static_array(element) for element in types[inputs : inputs + outputs]]
        self.arena = static_array(types[-1])
        for argument in arguments:
            self.slot(argument)
        self.steps = self.block(main.body.block)

    def __call__(self, inputs: Sequence[DeviceBuffer]) -> list[DeviceBuffer]:
        """Run on `inputs`, whose shapes and types must be those of `self.inputs`."""
        outputs = [self.allocate(shape, dtype) for shape, dtype in self.outputs]
        environment = self.initial.copy()
        environment[: len(inputs) + len(outputs) + 1] = [*inputs, *outputs, self.allocate(*self.arena)]
        run(self.steps, environment)
        return outputs

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceBuffer:
        address, owner = self.backend.allocate(prod(shape) * dtype.itemsize)
        return DeviceBuffer(address, shape, dtype, owner)

    # ---------------------------------------------------------------------------------------------- translation

    def slot(self, value: SSAValue, initial: Any = None) -> int:
        """The place of a new value in the environment."""
        number = self.slots[value] = len(self.initial)
        self.initial.append(initial)
        return number

    def block(self, block: Block) -> list[Step]:
        """The steps of a block but its terminator."""
        steps: list[Step] = []
        for op in block.ops:
            if isinstance(op, func.ReturnOp | scf.YieldOp | scf.ConditionOp | memref.DeallocOp):
                continue
            step = self.step(op)
            if step is not None:
                steps.append(step)
        return steps

    def step(self, op: Operation) -> Step | None:
        translate = TRANSLATIONS.get(op.name)
        if translate is None:
            raise HostProgramError(f"main: {op.name} does not run on the host")
        return translate(self, op)

    def sources(self, values: Sequence[SSAValue]) -> list[int]:
        return [self.slots[value] for value in values]

    def targets(self, values: Sequence[SSAValue]) -> list[int]:
        return [self.slot(value) for value in values]


def run(steps: list[Step], environment: Environment) -> None:
    for step in steps:
        step(environment)


def move(environment: Environment, targets: list[int], sources: list[int]) -> None:
    """Give the targets the values of the sources, all at once."""
    values = [environment[source] for source in sources]
    for target, value in zip(targets, values, strict=True):
        environment[target] = value


def static_array(buffer: Attribute) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if not isinstance(buffer, MemRefType):
        raise HostProgramError(f"main: argument of type {buffer} is not a buffer")
    return buffer.get_shape(), element_dtype(buffer.element_type)


def translate_constant(program: HostProgram, op: arith.ConstantOp) -> None:
    if not isinstance(op.value, IntegerAttr | FloatAttr):
        raise HostProgramError(f"main: {op.name} of type {op.result.type} should be a memref.global")
    value = op.value.value.data
    program.slot(op.result, wrapped(value, op.result.type) if isinstance(value, int) else value)


def translate_arithmetic(program: HostProgram, op: Operation) -> Step:
    compute, (left, right), element = ARITHMETIC[op.name], program.sources(op.operands), op.results[0].type
    result = program.slot(op.results[0])

    def step(environment: Environment) -> None:
        environment[result] = wrapped(compute(environment[left], environment[right]), element)

    return step


def translate_comparison(program: HostProgram, op: arith.CmpiOp) -> Step:
    predicate, (left, right), element = op.predicate.value.data, program.sources(op.operands), op.lhs.type
    convert = unsigned if predicate >= len(COMPARISONS) else wrapped
    compare = COMPARISONS[predicate if predicate < len(COMPARISONS) else predicate - 4]
    result = program.slot(op.result)

    def step(environment: Environment) -> None:
        environment[result] = int(compare(convert(environment[left], element), convert(environment[right], element)))

    return step


def translate_select(program: HostProgram, op: arith.SelectOp) -> Step:
    condition, first, second = program.sources(op.operands)
    result = program.slot(op.result)

    def step(environment: Environment) -> None:
        environment[result] = environment[first if environment[condition] else second]

    return step


def translate_cast(program: HostProgram, op: Operation) -> Step:
    source, before, after = program.slots[op.operands[0]], op.operands[0].type, op.results[0].type
    is_signed = not isinstance(op, arith.ExtUIOp)
    result = program.slot(op.results[0])

    def step(environment: Environment) -> None:
        value = environment[source] if is_signed else unsigned(environment[source], before)
        environment[result] = wrapped(-value if is_signed and before == IntegerType(1) else value, after)

    return step


def translate_view(program: HostProgram, op: memref.ViewOp) -> Step:
    source, shift = program.slots[op.source], program.slots[op.byte_shift]
    shape, dtype = static_array(op.result.type)
    result = program.slot(op.result)

    def step(environment: Environment) -> None:
        buffer = environment[source]
        environment[result] = DeviceBuffer(buffer.address + environment[shift], shape, dtype, buffer.owner)

    return step


def translate_reshape(program: HostProgram, op: Operation) -> Step:
    """Another type for the same memory."""
    source = program.slots[op.operands[0]]
    shape, dtype = static_array(op.results[0].type)
    result = program.slot(op.results[0])

    def step(environment: Environment) -> None:
        buffer = environment[source]
        environment[result] = DeviceBuffer(buffer.address, shape, dtype, buffer.owner)

    return step


def translate_slice(program: HostProgram, op: memref.ReinterpretCastOp | memref.SubviewOp) -> Step:
    """Part of the memory of another buffer, from an offset that may be computed."""
    outer, inner = op.source.type, op.result.type
    assert isinstance(outer, MemRefType)
    assert isinstance(inner, MemRefType)
    shape, dtype = static_array(inner)
    strides = inner.get_strides()
    if op.sizes or op.strides or strides is None or any(stride is None for stride in strides):
        raise HostProgramError(f"main: {op.name} with sizes or strides that are not static")
    factors = outer.get_strides() if isinstance(op, memref.SubviewOp) else (1,)
    dynamic = iter(program.sources(op.offsets))
    terms: list[tuple[int, int]] = []
    fixed = 0
    for offset, factor in zip(op.static_offsets.get_values(), factors or (), strict=True):
        if offset == DYNAMIC_INDEX:
            terms.append((next(dynamic), (factor or 0) * dtype.itemsize))
        else:
            fixed += offset * (factor or 0) * dtype.itemsize
    gaps = None if is_contiguous(inner) else tuple(stride or 0 for stride in strides)
    source, result = program.slots[op.source], program.slot(op.result)

    def step(environment: Environment) -> None:
        buffer = environment[source]
        address = buffer.address + fixed + sum(environment[slot] * factor for slot, factor in terms)
        environment[result] = DeviceBuffer(address, shape, dtype, buffer.owner, gaps)

    return step


def is_contiguous(buffer: MemRefType) -> bool:
    strides = buffer.get_strides()
    return strides is not None and dense_dimensions(buffer.get_shape(), strides) == len(buffer.get_shape())


def dense_dimensions(shape: Sequence[int], strides: Sequence[int | None]) -> int:
    """How many of the last dimensions lie in memory without gaps."""
    expected, count = 1, 0
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            break
        expected *= extent
        count += 1
    return count


def translate_get_global(program: HostProgram, op: memref.GetGlobalOp) -> None:
    """Constants are uploaded while the program is translated."""
    source = program.globals[op.name_.string_value()]
    if not isinstance(source.initial_value, DenseIntOrFPElementsAttr):
        raise HostProgramError(f"main: memref.global @{source.sym_name.data} has no value")
    shape, dtype = static_array(op.memref.type)
    data = source.initial_value.data.data
    if dtype == np.dtype(bool):
        data = (np.frombuffer(data, np.uint8) & 1).tobytes()
    buffer = program.allocate(shape, dtype)
    # One element stands for all of them.
    program.backend.write(buffer.address, data * (buffer.byte_count // len(data)) if data else data)
    program.slot(op.memref, buffer)


def translate_alloc(program: HostProgram, op: memref.AllocOp) -> Step:
    shape, dtype = static_array(op.memref.type)
    result = program.slot(op.memref)

    def step(environment: Environment) -> None:
        environment[result] = program.allocate(shape, dtype)

    return step


def translate_copy(program: HostProgram, op: memref.CopyOp) -> Step:
    """One copy for each part that has no gaps on either side."""
    source, destination = program.sources(op.operands)
    dense = min(dense_dimensions(*shape_and_strides(operand.type)) for operand in op.operands)

    def step(environment: Environment) -> None:
        first, second = environment[source], environment[destination]
        outer = len(first.shape) - dense
        byte_count = prod(first.shape[outer:]) * first.dtype.itemsize
        for position in np.ndindex(*first.shape[:outer]):
            program.backend.copy(element_address(second, position), element_address(first, position), byte_count)

    return step


def shape_and_strides(buffer: Attribute) -> tuple[tuple[int, ...], Sequence[int | None]]:
    assert isinstance(buffer, MemRefType)
    return buffer.get_shape(), buffer.get_strides() or ()


def element_address(buffer: DeviceBuffer, indices: Sequence[int]) -> int:
    """The address of an element, or of a slice if only the leading indices are given."""
    number = 0
    for dimension, index in enumerate(indices):
        stride = buffer.strides[dimension] if buffer.strides else prod(buffer.shape[dimension + 1 :])
        number += index * stride
    return buffer.address + number * buffer.dtype.itemsize


def translate_load(program: HostProgram, op: memref.LoadOp) -> Step:
    source, indices = program.slots[op.memref], program.sources(op.indices)
    result = program.slot(op.res)

    def step(environment: Environment) -> None:
        buffer = environment[source]
        address = element_address(buffer, [environment[index] for index in indices])
        data = program.backend.read(address, buffer.dtype.itemsize)
        environment[result] = np.frombuffer(data, buffer.dtype)[0].item()

    return step


def translate_store(program: HostProgram, op: memref.StoreOp) -> Step:
    value, target, indices = program.slots[op.value], program.slots[op.memref], program.sources(op.indices)

    def step(environment: Environment) -> None:
        buffer = environment[target]
        address = element_address(buffer, [environment[index] for index in indices])
        program.backend.write(address, np.array(environment[value]).astype(buffer.dtype).tobytes())

    return step


def translate_call(program: HostProgram, op: func.CallOp) -> Step | None:
    name = op.callee.string_value()
    if name not in program.launches:
        raise HostProgramError(f"main: func.call of @{name}, which is not a kernel")
    launch = Launch.of(program.launches[name])
    arguments = [
        (slot, np.uint64 if isinstance(operand.type, MemRefType) else element_dtype(operand.type).type)
        for slot, operand in zip(program.sources(op.operands), op.operands, strict=True)
    ]
    if 0 in launch.grid:
        return None

    def step(environment: Environment) -> None:
        values = [
            kind(value.address if isinstance(value := environment[slot], DeviceBuffer) else value)
            for slot, kind in arguments
        ]
        program.backend.launch(launch.kernel, launch.grid, launch.block, values)

    return step


def translate_if(program: HostProgram, op: scf.IfOp) -> Step:
    condition = program.slots[op.cond]
    branches = [translate_region(program, region.blocks.first) for region in (op.true_region, op.false_region)]
    results = program.targets(op.results)

    def step(environment: Environment) -> None:
        steps, yielded = branches[0 if environment[condition] else 1]
        run(steps, environment)
        move(environment, results, yielded)

    return step


def translate_region(program: HostProgram, block: Block | None) -> tuple[list[Step], list[int]]:
    """The steps of a block, and where the values are that it passes on."""
    if block is None or block.last_op is None:
        return [], []
    steps = program.block(block)
    terminator = block.last_op
    return steps, program.sources(terminator.args if isinstance(terminator, scf.ConditionOp) else terminator.operands)


def translate_for(program: HostProgram, op: scf.ForOp) -> Step:
    lower, upper, by = program.sources((op.lb, op.ub, op.step))
    initial = program.sources(op.iter_args)
    variable, *carried = program.targets(op.body.block.args)
    steps, yielded = translate_region(program, op.body.block)
    results = program.targets(op.results)

    def step(environment: Environment) -> None:
        move(environment, carried, initial)
        for number in range(environment[lower], environment[upper], environment[by]):
            environment[variable] = number
            run(steps, environment)
            move(environment, carried, yielded)
        move(environment, results, carried)

    return step


def translate_while(program: HostProgram, op: scf.WhileOp) -> Step:
    initial = program.sources(op.arguments)
    before_arguments = program.targets(op.before_region.block.args)
    before, passed = translate_region(program, op.before_region.block)
    terminator = op.before_region.block.last_op
    assert isinstance(terminator, scf.ConditionOp)
    condition = program.slots[terminator.condition]
    after_arguments = program.targets(op.after_region.block.args)
    after, yielded = translate_region(program, op.after_region.block)
    results = program.targets(op.results)

    def step(environment: Environment) -> None:
        move(environment, before_arguments, initial)
        run(before, environment)
        while environment[condition]:
            move(environment, after_arguments, passed)
            run(after, environment)
            move(environment, before_arguments, yielded)
            run(before, environment)
        move(environment, results, passed)

    return step


TRANSLATIONS: dict[str, Callable[[HostProgram, Any], Step | None]] = {
    arith.ConstantOp.name: translate_constant,
    arith.CmpiOp.name: translate_comparison,
    arith.SelectOp.name: translate_select,
    memref.ViewOp.name: translate_view,
    memref.SubviewOp.name: translate_slice,
    memref.ReinterpretCastOp.name: translate_slice,
    memref.GetGlobalOp.name: translate_get_global,
    memref.AllocOp.name: translate_alloc,
    memref.AllocaOp.name: translate_alloc,
    memref.CopyOp.name: translate_copy,
    memref.LoadOp.name: translate_load,
    memref.StoreOp.name: translate_store,
    func.CallOp.name: translate_call,
    scf.IfOp.name: translate_if,
    scf.ForOp.name: translate_for,
    scf.WhileOp.name: translate_while,
    **dict.fromkeys(ARITHMETIC, translate_arithmetic),
    **dict.fromkeys(CASTS, translate_cast),
    **dict.fromkeys(RESHAPES, translate_reshape),
}
