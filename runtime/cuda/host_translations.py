"""Ops of a host program as steps: what each op of `main` that the host runs does when the program is called.

`TRANSLATIONS` has a function for every such op. It takes the program and the op, gives the op's results their places in
the environment, and returns the step, or `None` for an op that has done its work by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.lowering.buffers.memref_facts import WHOLE_VIEWS
from tenon.lowering.cuda.shared_memory import shared_memory
from tenon.lowering.cuda.told_numbers import told_numbers
from tenon.runtime.cuda.device import Backend, DeviceBuffer, HostProgramError, element_dtype, static_array
from tenon.runtime.cuda.host_arithmetic import ARITHMETIC, COMPARISONS, unsigned, wrapped
from tenon.runtime.cuda.host_calls import is_call, run_call

Environment: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Environment], None]


class Program(Protocol):
    """What a translation may ask of the program that it is part of."""

    backend: Backend
    launches: dict[str, func.FuncOp]
    globals: dict[str, memref.GlobalOp]
    slots: dict[SSAValue, int]

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceBuffer: ...

    def slot(self, value: SSAValue, initial: Any = None) -> int: ...

    def sources(self, values: Sequence[SSAValue]) -> list[int]: ...

    def targets(self, values: Sequence[SSAValue]) -> list[int]: ...

    def block(self, block: Block) -> list[Step]: ...


@dataclass(frozen=True)
class _Launch:
    """How a kernel is launched."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @staticmethod
    def of(function: func.FuncOp) -> _Launch:
        kernel, shapes = function.sym_name.data, list[Any]()
        for name in ("grid", "block"):
            if not isinstance(shape := function.attributes.get(name), DenseArrayBase):
                raise HostProgramError(f"main: @{kernel} has no {name}; run map-to-grid first")
            shapes.append(tuple(map(int, shape.get_values())))
        return _Launch(kernel, *shapes)


_CASTS = frozenset(kind.name for kind in (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp))


def run_steps(steps: list[Step], environment: Environment) -> None:
    """Run a list of steps once."""
    for step in steps:
        step(environment)


def _move(environment: Environment, targets: list[int], sources: list[int]) -> None:
    """Give the targets the values of the sources, all at once."""
    values = [environment[source] for source in sources]
    for target, value in zip(targets, values, strict=True):
        environment[target] = value


def _translate_constant(program: Program, op: arith.ConstantOp) -> None:
    if not isinstance(op.value, IntegerAttr | FloatAttr):
        raise HostProgramError(f"main: {op.name} of type {op.result.type} should be a memref.global")
    value = op.value.value.data
    program.slot(op.result, wrapped(value, op.result.type) if isinstance(value, int) else value)


def _translate_arithmetic(program: Program, op: Operation) -> Step:
    compute, (left, right), element = ARITHMETIC[op.name], program.sources(op.operands), op.results[0].type
    result = program.slot(op.results[0])

    def step(environment: Environment) -> None:
        environment[result] = wrapped(compute(environment[left], environment[right]), element)

    return step


def _translate_comparison(program: Program, op: arith.CmpiOp) -> Step:
    predicate, (left, right), element = op.predicate.value.data, program.sources(op.operands), op.lhs.type
    convert = unsigned if predicate >= len(COMPARISONS) else wrapped
    compare = COMPARISONS[predicate if predicate < len(COMPARISONS) else predicate - 4]
    result = program.slot(op.result)

    def step(environment: Environment) -> None:
        environment[result] = int(compare(convert(environment[left], element), convert(environment[right], element)))

    return step


def _translate_select(program: Program, op: arith.SelectOp) -> Step:
    condition, first, second = program.sources(op.operands)
    result = program.slot(op.result)

    def step(environment: Environment) -> None:
        environment[result] = environment[first if environment[condition] else second]

    return step


def _translate_cast(program: Program, op: Operation) -> Step:
    source, before, after = program.slots[op.operands[0]], op.operands[0].type, op.results[0].type
    is_signed = not isinstance(op, arith.ExtUIOp)
    result = program.slot(op.results[0])

    def step(environment: Environment) -> None:
        value = environment[source] if is_signed else unsigned(environment[source], before)
        environment[result] = wrapped(-value if is_signed and before == IntegerType(1) else value, after)

    return step


def _translate_view(program: Program, op: memref.ViewOp) -> Step:
    source, shift = program.slots[op.source], program.slots[op.byte_shift]
    shape, dtype = static_array(op.result.type)
    result = program.slot(op.result)

    def step(environment: Environment) -> None:
        buffer = environment[source]
        environment[result] = DeviceBuffer(buffer.address + environment[shift], shape, dtype, buffer.owner)

    return step


def _translate_reshape(program: Program, op: Operation) -> Step:
    """Another type for the same memory."""
    source = program.slots[op.operands[0]]
    shape, dtype = static_array(op.results[0].type)
    result = program.slot(op.results[0])

    def step(environment: Environment) -> None:
        buffer = environment[source]
        environment[result] = DeviceBuffer(buffer.address, shape, dtype, buffer.owner)

    return step


def _translate_slice(program: Program, op: memref.ReinterpretCastOp | memref.SubviewOp) -> Step:
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
    gaps = None if _is_contiguous(inner) else tuple(stride or 0 for stride in strides)
    source, result = program.slots[op.source], program.slot(op.result)

    def step(environment: Environment) -> None:
        buffer = environment[source]
        address = buffer.address + fixed + sum(environment[slot] * factor for slot, factor in terms)
        environment[result] = DeviceBuffer(address, shape, dtype, buffer.owner, gaps)

    return step


def _is_contiguous(buffer: MemRefType) -> bool:
    strides = buffer.get_strides()
    return strides is not None and _dense_dimensions(buffer.get_shape(), strides) == len(buffer.get_shape())


def _dense_dimensions(shape: Sequence[int], strides: Sequence[int | None]) -> int:
    """How many of the last dimensions lie in memory without gaps."""
    expected, count = 1, 0
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            break
        expected *= extent
        count += 1
    return count


def _translate_get_global(program: Program, op: memref.GetGlobalOp) -> None:
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


def _translate_alloc(program: Program, op: memref.AllocOp) -> Step:
    shape, dtype = static_array(op.memref.type)
    result = program.slot(op.memref)

    def step(environment: Environment) -> None:
        environment[result] = program.allocate(shape, dtype)

    return step


def _translate_copy(program: Program, op: memref.CopyOp) -> Step:
    """One copy for each part that has no gaps on either side; none where no elements are, which may have no memory."""
    source, destination = program.sources(op.operands)
    dense = min(_dense_dimensions(*_shape_and_strides(operand.type)) for operand in op.operands)

    def step(environment: Environment) -> None:
        first, second = environment[source], environment[destination]
        outer = len(first.shape) - dense
        byte_count = prod(first.shape[outer:]) * first.dtype.itemsize
        for position in np.ndindex(*first.shape[:outer]) if byte_count else ():
            program.backend.copy(_element_address(second, position), _element_address(first, position), byte_count)

    return step


def _shape_and_strides(buffer: Attribute) -> tuple[tuple[int, ...], Sequence[int | None]]:
    assert isinstance(buffer, MemRefType)
    return buffer.get_shape(), buffer.get_strides() or ()


def _element_address(buffer: DeviceBuffer, indices: Sequence[int]) -> int:
    """The address of an element, or of a slice if only the leading indices are given."""
    number = 0
    for dimension, index in enumerate(indices):
        stride = buffer.strides[dimension] if buffer.strides else prod(buffer.shape[dimension + 1 :])
        number += index * stride
    return buffer.address + number * buffer.dtype.itemsize


def _translate_load(program: Program, op: memref.LoadOp) -> Step:
    source, indices = program.slots[op.memref], program.sources(op.indices)
    result = program.slot(op.res)

    def step(environment: Environment) -> None:
        buffer = environment[source]
        address = _element_address(buffer, [environment[index] for index in indices])
        data = program.backend.read(address, buffer.dtype.itemsize)
        environment[result] = np.frombuffer(data, buffer.dtype)[0].item()

    return step


def _translate_store(program: Program, op: memref.StoreOp) -> Step:
    value, target, indices = program.slots[op.value], program.slots[op.memref], program.sources(op.indices)

    def step(environment: Environment) -> None:
        buffer = environment[target]
        address = _element_address(buffer, [environment[index] for index in indices])
        program.backend.write(address, np.array(environment[value]).astype(buffer.dtype).tobytes())

    return step


def _translate_call(program: Program, op: func.CallOp) -> Step | None:
    name = op.callee.string_value()
    if name not in program.launches:
        raise HostProgramError(f"main: func.call of @{name}, which is not a kernel")
    function, slots = program.launches[name], program.sources(op.operands)
    if is_call(function):
        return lambda environment: run_call(program.backend, function, [environment[slot] for slot in slots])
    launch, dynamic_shared = _Launch.of(function), shared_memory(function).byte_count
    arguments = [
        (slot, np.uint64 if isinstance(operand.type, MemRefType) else element_dtype(operand.type).type)
        for slot, operand in zip(slots, op.operands, strict=True)
    ]
    if 0 in launch.grid:
        return None
    told = [np.int64(number) for number in told_numbers(function)]

    def step(environment: Environment) -> None:
        found = [(kind, environment[slot]) for slot, kind in arguments]
        values = [kind(value.address if isinstance(value, DeviceBuffer) else value) for kind, value in found]
        program.backend.launch(launch.kernel, launch.grid, launch.block, [*values, *told], dynamic_shared)

    return step


def _translate_if(program: Program, op: scf.IfOp) -> Step:
    condition = program.slots[op.cond]
    branches = [_translate_region(program, region.blocks.first) for region in (op.true_region, op.false_region)]
    results = program.targets(op.results)

    def step(environment: Environment) -> None:
        steps, yielded = branches[0 if environment[condition] else 1]
        run_steps(steps, environment)
        _move(environment, results, yielded)

    return step


def _translate_region(program: Program, block: Block | None) -> tuple[list[Step], list[int]]:
    """The steps of a block, and where the values are that it passes on."""
    if block is None or block.last_op is None:
        return [], []
    steps = program.block(block)
    terminator = block.last_op
    return steps, program.sources(terminator.args if isinstance(terminator, scf.ConditionOp) else terminator.operands)


def _translate_for(program: Program, op: scf.ForOp) -> Step:
    lower, upper, by = program.sources((op.lb, op.ub, op.step))
    initial = program.sources(op.iter_args)
    variable, *carried = program.targets(op.body.block.args)
    steps, yielded = _translate_region(program, op.body.block)
    results = program.targets(op.results)

    def step(environment: Environment) -> None:
        _move(environment, carried, initial)
        for number in range(environment[lower], environment[upper], environment[by]):
            environment[variable] = number
            run_steps(steps, environment)
            _move(environment, carried, yielded)
        _move(environment, results, carried)

    return step


def _translate_while(program: Program, op: scf.WhileOp) -> Step:
    initial = program.sources(op.arguments)
    before_arguments = program.targets(op.before_region.block.args)
    before, passed = _translate_region(program, op.before_region.block)
    terminator = op.before_region.block.last_op
    assert isinstance(terminator, scf.ConditionOp)
    condition = program.slots[terminator.condition]
    after_arguments = program.targets(op.after_region.block.args)
    after, yielded = _translate_region(program, op.after_region.block)
    results = program.targets(op.results)

    def step(environment: Environment) -> None:
        _move(environment, before_arguments, initial)
        run_steps(before, environment)
        while environment[condition]:
            _move(environment, after_arguments, passed)
            run_steps(after, environment)
            _move(environment, before_arguments, yielded)
            run_steps(before, environment)
        _move(environment, results, passed)

    return step


TRANSLATIONS: dict[str, Callable[[Program, Any], Step | None]] = {
    arith.ConstantOp.name: _translate_constant,
    arith.CmpiOp.name: _translate_comparison,
    arith.SelectOp.name: _translate_select,
    memref.ViewOp.name: _translate_view,
    memref.SubviewOp.name: _translate_slice,
    memref.ReinterpretCastOp.name: _translate_slice,
    memref.GetGlobalOp.name: _translate_get_global,
    memref.AllocOp.name: _translate_alloc,
    memref.AllocaOp.name: _translate_alloc,
    memref.CopyOp.name: _translate_copy,
    memref.LoadOp.name: _translate_load,
    memref.StoreOp.name: _translate_store,
    func.CallOp.name: _translate_call,
    scf.IfOp.name: _translate_if,
    scf.ForOp.name: _translate_for,
    scf.WhileOp.name: _translate_while,
    **dict.fromkeys(ARITHMETIC, _translate_arithmetic),
    **dict.fromkeys(_CASTS, _translate_cast),
    **dict.fromkeys([kind.name for kind in WHOLE_VIEWS], _translate_reshape),
}
