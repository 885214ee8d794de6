"""`decide-steps`: give each kernel the list of steps by which it is to run on a GPU.

Before: the buffered stage. After: the same, with fewer loops where operands are contiguous over several
(`collapse_loops`), and with the attribute `schedule` (see `lowering.steps`) on each kernel that a decider has steps
for, `shared_arguments` on those that compute in place, and `alignments` on those that are given slices. A kernel that
has the attribute keeps it, and one that the attribute `schedules` of another function names gets it from there. The
others have `unscheduled`, which says why; `map-to-grid` deals with them.

Each decider returns steps, or the reason why it has none; the first list that the nest takes is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tenon.lowering.buffers.alignments import alignments, write_alignments
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.grid_schedules.chained_products import decide_chained_products, decide_chained_warpgroups
from tenon.lowering.grid_schedules.columns import decide_columns
from tenon.lowering.grid_schedules.contractions import decide_contraction
from tenon.lowering.grid_schedules.elementwise import decide_elementwise
from tenon.lowering.grid_schedules.matrix_instructions import decide_matrix_instructions
from tenon.lowering.grid_schedules.rows import decide_rows
from tenon.lowering.grid_schedules.shared_arguments import shared_arguments, write_shared
from tenon.lowering.grid_schedules.transposes import decide_transpose
from tenon.lowering.grid_schedules.warpgroup_instructions import (
    decide_warpgroup_boxes,
    decide_warpgroup_instructions,
)
from tenon.lowering.grid_schedules.whole_reductions import decide_whole_reductions, decide_windows
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.statement import read_kernel
from tenon.lowering.steps.nest import Nest, NestError
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.table import ATTRIBUTE, apply_steps, given_steps, write_steps
from tenon.lowering.steps.validity import nest_obstacle
from tenon.passes.machine import Gpu

Decider = Callable[[Nest], Sequence[Step] | str]

DECIDERS: dict[str, Decider] = {
    "transposes": decide_transpose,
    "elementwise": decide_elementwise,
    "chained warpgroups": decide_chained_warpgroups,
    "chained products": decide_chained_products,
    "warpgroup instructions": decide_warpgroup_boxes,
    "warpgroup instructions, threads copy": decide_warpgroup_instructions,
    "matrix instructions": decide_matrix_instructions,
    "contractions": decide_contraction,
    "windows": decide_windows,
    "rows": decide_rows,
    "columns": decide_columns,
    "whole reductions": decide_whole_reductions,
}

UNSCHEDULED = "unscheduled"
"""The attribute of a kernel that no decider has steps for: the reasons."""


@dataclass(frozen=True)
class DecideStepsPass(FunctionPass):
    """Choose the steps of kernels for a GPU (text, see `Gpu`); those of the kernels `serialised` do without the
    instructions that only its architecture has."""

    name = "decide-steps"

    machine: str = ""
    serialised: tuple[str, ...] = ()

    def change(self, module: ModuleOp) -> Change:
        machine = Gpu.of_option(self.name, self.machine)
        shared, given = shared_arguments(module), given_steps(module)
        aligned = alignments(module, machine.access)

        def change(function: func.FuncOp) -> None:
            name = function.sym_name.data
            write_shared(function, shared.get(name, frozenset()))
            write_alignments(function, aligned.get(name))
            if name in given:
                collapse_loops(function)
                function.attributes[ATTRIBUTE] = given[name]
            decide(function, machine.common if name in self.serialised else machine)

        return change


def decide(function: func.FuncOp, machine: Gpu) -> None:
    """Write the steps of one kernel, or why there are none."""
    if ATTRIBUTE in function.attributes:
        return
    collapse_loops(function)
    reasons: dict[str, list[str]] = {}
    for name, decider in DECIDERS.items():
        steps = steps_of(function, machine, decider)
        if not isinstance(steps, str):
            write_steps(function, steps)
            return
        reasons.setdefault(steps, []).append(name)
    told = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    function.attributes[UNSCHEDULED] = StringAttr("; ".join(told if len(told) > 1 else reasons))


def steps_of(function: func.FuncOp, machine: Gpu, decider: Decider) -> Sequence[Step] | str:
    """The steps of a decider, if the kernel takes them all, or what is against it."""
    try:
        nest = Nest.of(read_kernel(function), machine)
        steps = decider(nest)
        if isinstance(steps, str):
            return steps
        apply_steps(nest, steps)
        return nest_obstacle(nest) or steps
    except NestError as error:
        return str(error)
