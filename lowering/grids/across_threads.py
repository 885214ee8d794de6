"""What the threads of a block have of a reduction, combined: in all of them, in the same order whoever runs first.

Along lanes the values are exchanged by shuffles. Along warps and blocks of threads each of them writes its own to
shared memory, and behind a barrier all read what there is: the lanes of a warp each another part, which they exchange,
or, where they have different results, each all parts, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import gpu
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.upstream.gpu_shuffle import ShuffleOp
from tenon.lowering.grids.thread_code import SHARED, Registers, ThreadCode
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, Steps
from tenon.lowering.steps.nest import THREADS, Bind, Loop, Nest, NestStatement

Values = list[SSAValue]
Combine = Callable[[Values, Values], Values]


def combine_threads(
    code: ThreadCode, statement: NestStatement, arrays: Sequence[Registers], across: Sequence[Loop]
) -> None:
    """Combine the accumulators of a statement, and then with the initial values."""
    generic = statement.statement
    for number, (output, array) in enumerate(zip(statement.outputs, arrays, strict=True)):
        monoid = combining_monoid(generic.body, generic.accumulators[number])
        assert monoid is not None

        def combine(first: Values, second: Values, monoid=monoid) -> Values:  # pyright: ignore
            return [code.value(monoid.combine(first[0], second[0], reordered=True))]

        all_threads(code, [array], across, combine)
        initial = generic.initial[number]
        if initial is None:
            continue

        def finish(array: Registers = array, initial: SSAValue = initial, combine: Combine = combine) -> None:
            value = code.load(array.memref, code.register(array))
            code.store(combine([initial], [value])[0], array.memref, code.register(array))

        assert element_type(output.access.buffer) == initial.type
        code.over(array.loops, finish)


def all_threads(code: ThreadCode, arrays: Sequence[Registers], across: Sequence[Loop], combine: Combine) -> None:
    """Give each thread the combination of what all threads along the loops `across` have in `arrays`, element by
    element; those of one element are combined together."""
    lanes = [loop for loop in across if loop.bind is Bind.LANE and loop.extent > 1]
    if distances := _distances(code, lanes):

        def exchange() -> None:
            store(code, arrays, _exchanged(code, load(code, arrays), distances, combine))

        code.over(arrays[0].loops, exchange)
    if any(loop.bind is not Bind.LANE and loop.extent > 1 for loop in across):
        _through_shared(code, arrays, across, combine)


def _exchanged(code: ThreadCode, values: Values, distances: Sequence[int], combine: Combine) -> Values:
    """What lanes have together, each of which exchanges `values` with those at these distances in turn."""
    for distance in distances:
        values = combine(values, [shuffled(code, value, distance) for value in values])
    return values


def _share_result(nest: Nest, across: Sequence[Loop]) -> bool:
    """Whether all lanes of a warp want the same result."""
    lanes = nest.bound(Bind.LANE)
    return prod(loop.extent for loop in lanes) == nest.machine.warp and all(loop in across for loop in lanes)


def _distances(code: ThreadCode, lanes: Sequence[Loop]) -> list[int]:
    """How far apart the lanes are that exchange values, one exchange after the other."""
    distances: list[int] = []
    stride = 1
    for loop in reversed(code.nest.bound(Bind.LANE)):
        if loop in lanes:
            distances += [stride << step for step in range(loop.extent.bit_length() - 1)]
        stride *= loop.extent
    return distances


def shuffled(code: ThreadCode, value: SSAValue, distance: int) -> SSAValue:
    """What the lane has whose number differs by the bits of `distance`."""
    number = [code.constant(IntegerAttr(n, i32), i32) for n in (distance, code.nest.machine.warp)]
    return code.builder.add(ShuffleOp.xor(value, *number)).results[0]


def _through_shared(code: ThreadCode, arrays: Sequence[Registers], across: Sequence[Loop], combine: Combine) -> None:
    nest = code.nest
    reduced = [loop for loop in nest.bound(*THREADS) if loop in across and loop.bind is not Bind.LANE]
    others = [loop for loop in nest.bound(*THREADS) if loop not in across]
    count, kept = prod(loop.extent for loop in reduced), prod(loop.extent for loop in others)
    shape = [loop.extent for loop in arrays[0].loops]
    slots = [code.allocate(element_type(array.memref), [count, *shape, kept], SHARED) for array in arrays]
    own, other = code.builder.index(number_of(code, reduced)), code.builder.index(number_of(code, others))
    leader = code.is_first([loop for loop in across if loop.bind is Bind.LANE])
    if any(loop.in_order and loop.name in code.positions for loop in nest.loops):  # the slots may still be read
        code.builder.add(gpu.BarrierOp())

    def write() -> None:
        at = [own, *code.register(arrays[0]), other]
        for slot, value in zip(slots, load(code, arrays), strict=True):
            code.store(value, slot, at)

    code.when(leader, lambda: code.over(arrays[0].loops, write))
    code.builder.add(gpu.BarrierOp())

    def slot_values(at: Position) -> Values:
        place = [code.builder.index(at), *code.register(arrays[0]), other]
        return [code.load(slot, place) for slot in slots]

    def read() -> None:
        if 2 < count <= nest.machine.warp and count & (count - 1) == 0 and _share_result(nest, across):
            own_slot = code.remainder(code.lane(), count)
            distances = [1 << step for step in range(count.bit_length() - 1)]
            store(code, arrays, _exchanged(code, slot_values(own_slot), distances, combine))
            return

        def step(at: Position, carried: list[SSAValue]) -> Sequence[SSAValue]:
            return combine(carried, slot_values(at))

        values = code.builder.sequential(Steps(1, count - 1), slot_values(Position()), step)
        store(code, arrays, values)

    code.over(arrays[0].loops, read)


def number_of(code: ThreadCode, loops: Sequence[Loop]) -> Position:
    """The number of the thread's iteration of `loops`, the last of them fastest."""
    number = Position()
    for loop in loops:
        number = number.scaled(loop.extent) + code.positions[loop.name]
    return number


def load(code: ThreadCode, arrays: Sequence[Registers]) -> Values:
    """What arrays have in the registers that the thread is at."""
    return [code.load(array.memref, code.register(array)) for array in arrays]


def store(code: ThreadCode, arrays: Sequence[Registers], values: Values) -> None:
    """Write to these registers."""
    for array, value in zip(arrays, values, strict=True):
        code.store(value, array.memref, code.register(array))
