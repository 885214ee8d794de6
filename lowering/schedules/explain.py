"""Which ways there are to run the loops of kernels on a CPU, what is against them, and which one `schedule` takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp

from tenon.dialects.types.size import estimates
from tenon.lowering.explanation import Explained, Option, Row
from tenon.lowering.kernels.intermediates import read_without_padding
from tenon.lowering.kernels.shared_loops import shared_loops
from tenon.lowering.kernels.statement import Kernel, kernels_of
from tenon.lowering.schedules.few_rows import numbers_of
from tenon.lowering.schedules.packing import column_operands
from tenon.lowering.schedules.schedule import best_of, decision_for, prepare_kernel, schedule_kernel, ways
from tenon.lowering.schedules.tile import lanes_along
from tenon.lowering.tuning_record import Decision, described
from tenon.passes.machine import Machine

OF_KERNELS = ("strips", "sum_block")
"""Attributes of a kernel that say how it runs, beside the schedules of its statements."""


def explain(module: ModuleOp, machine: Machine, tuned: Mapping[str, Decision]) -> list[Explained]:
    """What there is for all kernels of a buffered module, of which those that are `tuned` follow a record; it stays as
    it is."""
    found: list[Explained] = []
    for function in kernels_of(module.clone()):
        with estimates(numbers := numbers_of(function)):
            found.append(_explained(function, machine, {} if numbers else tuned))
    return found


def _explained(function: func.FuncOp, machine: Machine, tuned: Mapping[str, Decision]) -> Explained:
    name, is_given = function.sym_name.data, any("schedule" in op.attributes for op in function.body.block.ops)
    kernel = read_without_padding(function) if is_given else prepare_kernel(function, machine)
    computes = described(kernel)
    if machine.vector_bits == 0 or not kernel.statements:
        why = "the machine has no vectors" if machine.vector_bits == 0 else "its loops are written already"
        return Explained(name, computes, notes=(why,))
    decision = None if is_given else decision_for(kernel, machine, tuned)
    found = {} if is_given or decision is not None else ways(kernel, machine)
    schedule_kernel(function, machine, tuned)
    if not found:
        known = "given schedule" if decision is None else f"tuning record, {decision.gain} times as fast as the model"
        return Explained(name, computes, (Option(known, None, True, (), _decided(kernel)),))
    chosen, best = best_of(found)
    options: list[Option] = []
    for way, decided in found.items():
        if isinstance(decided, str):
            options.append(Option(way, decided))
        elif way != chosen:
            options.append(Option(way, f"{decided.cost:.0f} iterations of vectors, and {chosen} has {best.cost:.0f}"))
        else:
            options.append(Option(way, None, True, tuple(_lanes(kernel, machine)), _decided(kernel)))
    return Explained(name, computes, tuple(options))


def _decided(kernel: Kernel) -> tuple[str, ...]:
    """The attributes of a kernel that say how it runs."""
    lines = [f"{name}: {kernel.function.attributes[name]}" for name in OF_KERNELS if name in kernel.function.attributes]
    for number, statement in enumerate(kernel.statements):
        given = statement.op.attributes.get("schedule")
        entries = given.data.items() if isinstance(given, DictionaryAttr) else ()
        said = [f"{key} {value.value.data}" for key, value in entries if isinstance(value, IntegerAttr)]
        lines.append(f"statement {number}: {', '.join(said) or 'scalars'}")
    return tuple(lines)


def _lanes(kernel: Kernel, machine: Machine) -> Iterator[Row]:
    """Each loop of each statement: how many lanes vectors along it would fill, or why there are none."""
    is_alone = not shared_loops(kernel)
    for number, statement in enumerate(kernel.statements):
        loops = range(len(statement.extents))
        packed = column_operands(statement, loops) if is_alone else {}
        for loop in loops:
            along = lanes_along(statement, loop, packed, machine)
            yield {
                "statement": number,
                "loop": loop,
                "kind": statement.kinds[loop].value,
                "iterations": str(statement.extents[loop]),
                "width": along.width,
                "filled": round(along.filled, 1) if along.obstacle is None else None,
                "obstacle": along.obstacle,
            }
