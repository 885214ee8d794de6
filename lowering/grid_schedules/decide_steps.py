"""`decide-steps`: give each kernel the list of steps by which it is to run on a GPU.

Before: the buffered stage. After: the same, with fewer loops where operands are contiguous over several
(`collapse_loops`), and with the attribute `schedule` (see `lowering.steps`) on each kernel that a decider has steps
for, `shared_arguments` on those that compute in place, and `alignments` on those that are given slices. A kernel that
has the attribute keeps it, and one that the attribute `schedules` of another function names gets it from there. The
others have `unscheduled`, which says why; `map-to-grid` deals with them.

Each decider returns steps, or the reason why it has none; the first list that the nest takes is chosen. `explain` says
what each has against a kernel, which one has steps for it, and among which tiles these were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tenon.lowering.buffers.alignments import alignments, write_alignments
from tenon.lowering.buffers.shared_arguments import shared_arguments, write_shared
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.grid_schedules.chained_products import decide_chained_products, decide_chained_warpgroups
from tenon.lowering.grid_schedules.columns import decide_columns
from tenon.lowering.grid_schedules.contractions import decide_contraction, large_product
from tenon.lowering.grid_schedules.elementwise import decide_elementwise
from tenon.lowering.grid_schedules.matrix_instructions import candidates, decide_matrix_instructions
from tenon.lowering.grid_schedules.product_tiles import told
from tenon.lowering.grid_schedules.rows import decide_rows, decide_rows_and_columns
from tenon.lowering.grid_schedules.transposes import decide_transpose
from tenon.lowering.grid_schedules.warpgroup_instructions import candidates as warpgroup_candidates
from tenon.lowering.grid_schedules.warpgroup_instructions import (
    decide_warpgroup_boxes,
    decide_warpgroup_instructions,
)
from tenon.lowering.grid_schedules.whole_reductions import decide_whole_reductions, decide_windows
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.steps.nest import Nest, NestError
from tenon.lowering.steps.pack import ASYNC
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
    "rows and columns": decide_rows_and_columns,
    "columns": decide_columns,
    "whole reductions": decide_whole_reductions,
}

TILED = {
    "warpgroup instructions": warpgroup_candidates,
    "warpgroup instructions, threads copy": partial(warpgroup_candidates, copies=ASYNC),
    "matrix instructions": candidates,
}
"""The deciders that choose among tiles of a product."""

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


def explain(module: ModuleOp, gpu: Gpu, serialised: Mapping[str, str]) -> str:
    """The text for all kernels of a module that nothing was decided for yet; it stays as it is. Of kernels that are
    `serialised` it says why (see `Built`)."""
    lines: list[str] = []
    given, aligned = given_steps(module), alignments(module, gpu.access)
    for function in kernels_of(module.clone()):
        write_alignments(function, aligned.get(function.sym_name.data))
        lines.append(f"{function.sym_name.data}")
        if ATTRIBUTE in function.attributes or function.sym_name.data in given:
            lines.append("  its steps are given")
            continue
        machine = gpu
        if (remark := serialised.get(function.sym_name.data)) is not None:
            machine = gpu.common
            lines.append(f"  by instructions of {gpu.architecture} the assembler serialises it: {remark}")
        collapse_loops(function)
        for name, decider in DECIDERS.items():
            steps = steps_of(function, machine, decider)
            if isinstance(steps, str):
                lines.append(f"  {name}: {steps}")
                continue
            lines.append(f"  {name}: chosen")
            nest = Nest.of(read_kernel(function), machine)
            product = large_product(nest)
            if name in TILED and not isinstance(product, str):
                lines += [f"    {line}" for line in told(TILED[name](nest, product))]
            lines += [f"    {step}" for step in steps]
            break
        else:
            lines.append("  a thread or a block for each iteration of its outermost loop")
    return "".join(f"{line}\n" for line in lines)
