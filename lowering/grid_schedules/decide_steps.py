"""`decide-steps`: give each kernel the list of steps by which it is to run on a GPU.

Before: the buffered stage. After: the same, with fewer loops where operands are contiguous over several
(`collapse_loops`), and with the attribute `schedule` (see `lowering.steps`) on each kernel that a decider has steps
for, `shared_arguments` on those that compute in place, and `alignments` on those that are given slices. A kernel that
has the attribute keeps it, and one that the attribute `schedules` of another function names gets it from there. With
`record`, what a tuning record says of kernels of the same structure on `processor` counts next (see `tuning_record`).
Those without steps have `unscheduled`, which says why; `map-to-grid` deals with them.

Each decider returns steps, or the reason why it has none; the first list that the nest takes is chosen. `explain` says
what each has against a kernel, which one has steps for it, and among which tiles these were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tenon.lowering.buffers.alignments import alignments, write_alignments
from tenon.lowering.buffers.shared_arguments import shared_arguments, write_shared
from tenon.lowering.explanation import Explained, Option, Row
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.grid_schedules.chained_products import decide_chained_products, decide_chained_warpgroups
from tenon.lowering.grid_schedules.columns import decide_columns
from tenon.lowering.grid_schedules.contractions import decide_library, faster_library, tiles_of_contraction
from tenon.lowering.grid_schedules.elementwise import decide_elementwise
from tenon.lowering.grid_schedules.matrix_instructions import tiles_of_matrix_instructions
from tenon.lowering.grid_schedules.product_tiles import Tiled, first_of
from tenon.lowering.grid_schedules.rows import (
    decide_rows,
    decide_rows_and_columns,
    decide_rows_and_columns_ahead,
    decide_shared_rows,
)
from tenon.lowering.grid_schedules.transposes import decide_transpose
from tenon.lowering.grid_schedules.warpgroup_instructions import tiles_of_warpgroups
from tenon.lowering.grid_schedules.whole_reductions import decide_whole_reductions, decide_windows
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.steps.library import Library
from tenon.lowering.steps.nest import Nest, NestError
from tenon.lowering.steps.pack import ASYNC
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step, parse
from tenon.lowering.steps.table import ATTRIBUTE, STEPS, apply_steps, given_steps, read_steps, write_steps
from tenon.lowering.steps.validity import nest_obstacle
from tenon.lowering.tuning_record import Decision, TuningRecord, described, kernel_key
from tenon.passes.machine import CUBLAS, Gpu

Decider = Callable[[Nest], Sequence[Step] | str]

TILED: dict[str, Callable[[Nest], Sequence[Tiled] | str]] = {
    "library, where it is faster": faster_library,
    "warpgroup instructions": tiles_of_warpgroups,
    "warpgroup instructions, threads copy": partial(tiles_of_warpgroups, copies=ASYNC),
    "matrix instructions": tiles_of_matrix_instructions,
    "contractions": tiles_of_contraction,
}
"""The deciders that choose among tiles of a product, or know how long a library takes for it."""

DECIDERS: dict[str, Decider] = {
    "transposes": decide_transpose,
    "elementwise": decide_elementwise,
    "chained warpgroups": decide_chained_warpgroups,
    "chained products": decide_chained_products,
    **{name: first_of(tiles) for name, tiles in TILED.items()},
    "windows": decide_windows,
    "rows in shared memory": decide_shared_rows,
    "rows": decide_rows,
    "rows and columns, copied ahead": decide_rows_and_columns_ahead,
    "rows and columns": decide_rows_and_columns,
    "columns": decide_columns,
    "whole reductions": decide_whole_reductions,
    "library": decide_library,
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
    record: str = ""
    processor: str = ""

    def change(self, module: ModuleOp) -> Change:
        machine = Gpu.of_option(self.name, self.machine)
        shared, given = shared_arguments(module), given_steps(module)
        aligned = alignments(module, machine.access)
        tuned = TuningRecord.read(Path(self.record)).of(self.processor) if self.record else {}

        def change(function: func.FuncOp) -> None:
            name = function.sym_name.data
            write_shared(function, shared.get(name, frozenset()))
            write_alignments(function, aligned.get(name))
            if name in given:
                collapse_loops(function)
                function.attributes[ATTRIBUTE] = given[name]
            if name in self.serialised:
                decide(function, machine.common)
            else:
                decide(function, machine, tuned)

        return change


def decide(function: func.FuncOp, machine: Gpu, tuned: Mapping[str, Decision] | None = None) -> None:
    """Write the steps of one kernel, those that `tuned` has for it or else those of a decider, or why there are none.
    Raises `ValueError` for measured ones that it does not take."""
    if ATTRIBUTE in function.attributes:
        return
    collapse_loops(function)
    decision = _decision(function, machine, tuned) if tuned else None
    if decision is not None:
        write_steps(function, _measured(function, machine, decision))
        return
    reasons: dict[str, list[str]] = {}
    for name, decider in DECIDERS.items():
        steps = steps_of(function, machine, decider)
        if not isinstance(steps, str):
            write_steps(function, steps)
            return
        reasons.setdefault(steps, []).append(name)
    told = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    function.attributes[UNSCHEDULED] = StringAttr("; ".join(told if len(told) > 1 else reasons))


def _decision(function: func.FuncOp, machine: Gpu, tuned: Mapping[str, Decision]) -> Decision | None:
    """What was measured for a kernel, unless a library that is not there was fastest."""
    decision = tuned.get(kernel_key(function))
    if decision is not None and CUBLAS not in machine.libraries and str(Library(CUBLAS)) in decision.steps:
        return None
    return decision


def _measured(function: func.FuncOp, machine: Gpu, decision: Decision) -> Sequence[Step]:
    steps = steps_of(function, machine, lambda _: [parse(text, STEPS) for text in decision.steps])
    if isinstance(steps, str) or not steps:
        why = steps if isinstance(steps, str) else "there are no steps"
        raise ValueError(f"kernel @{function.sym_name.data}: tuning record: {decision.kernel}: {why}")
    return steps


def alternatives(function: func.FuncOp, machine: Gpu) -> Iterator[tuple[str, ...]]:
    """The lists of steps that deciders have for a kernel and that it takes: those of tiles first, by the cycles that
    they are predicted to take, then the others, in order of the deciders."""
    tiles: list[Tiled] = []
    for tiles_of in TILED.values():
        found = tiles_of(Nest.of(read_kernel(function), machine))
        tiles += [] if isinstance(found, str) else found
    by_cycles = sorted(tiles, key=lambda tile: tile.cycles)
    others = [decider for name, decider in DECIDERS.items() if name not in TILED]
    for decider in (*[partial(_steps_of_tile, tile) for tile in by_cycles], *others):
        steps = steps_of(function, machine, decider)
        if not isinstance(steps, str):
            yield tuple(map(str, steps))


def _steps_of_tile(tile: Tiled, _nest: Nest) -> Sequence[Step]:
    return tile.steps()


def changed_steps(function: func.FuncOp, machine: Gpu, texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lists that differ in one step and that the kernel takes: loops that are cut elsewhere, other numbers of
    stages."""
    steps = [parse(text, STEPS) for text in texts]
    for number, step in enumerate(steps):
        for other in _changed(step):
            found = steps_of(function, machine, partial(_given, [*steps[:number], *other, *steps[number + 1 :]]))
            if not isinstance(found, str):
                yield tuple(map(str, found))


def _given(steps: Sequence[Step], _nest: Nest) -> Sequence[Step]:
    return steps


def _changed(step: Step) -> Iterator[list[Step]]:
    """What may stand in the place of a step."""
    if isinstance(step, Split):
        for size in (2 * step.size, step.size // 2):
            if size > 1:
                yield [replace(step, size=size)]
    elif isinstance(step, Pipeline):
        for stages in (step.stages + 1, step.stages - 1):
            yield [replace(step, stages=stages)] if stages > 1 else []


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


def explain(
    module: ModuleOp, gpu: Gpu, serialised: Mapping[str, str], tuned: Mapping[str, Decision]
) -> list[Explained]:
    """What there is for all kernels of a module that nothing was decided for yet, of which those that are `tuned`
    follow a record; it stays as it is. Of kernels that are `serialised` it says why (see `Built`)."""
    given, shared, aligned = given_steps(module), shared_arguments(module), alignments(module, gpu.access)
    found: list[Explained] = []
    for function in kernels_of(module.clone()):
        name, remark = function.sym_name.data, serialised.get(function.sym_name.data)
        write_shared(function, shared.get(name, frozenset()))
        write_alignments(function, aligned.get(name))
        if name in given:
            function.attributes[ATTRIBUTE] = given[name]
        why = f"by instructions of {gpu.architecture} the assembler serialises it: {remark}"
        found.append(
            _explained(function, gpu, tuned) if remark is None else _explained(function, gpu.common, {}, (why,))
        )
    return found


def _explained(
    function: func.FuncOp, machine: Gpu, tuned: Mapping[str, Decision], notes: tuple[str, ...] = ()
) -> Explained:
    """The same for one kernel, which is changed."""
    name, is_given = function.sym_name.data, ATTRIBUTE in function.attributes
    kernel = collapse_loops(function) or read_kernel(function)
    if is_given:
        steps = tuple(map(str, read_steps(function) or ()))
        return Explained(name, described(kernel), (Option("given steps", None, True, (), steps),), notes)
    options: list[Option] = []
    if (decision := _decision(function, machine, tuned)) is not None:
        known = f"tuning record, {decision.gain} times as fast as the model"
        options.append(Option(known, None, True, (), tuple(map(str, _measured(function, machine, decision)))))
    for decider, decide_ in DECIDERS.items():
        steps = steps_of(function, machine, decide_)
        if isinstance(steps, str):
            options.append(Option(decider, steps))
            continue
        is_first = not any(option.chosen for option in options)
        rows: tuple[Row, ...] = ()
        if decider in TILED:
            tiles = TILED[decider](Nest.of(read_kernel(function), machine))
            rows = () if isinstance(tiles, str) else tuple([tile.facts() for tile in tiles])
        options.append(Option(decider, None, is_first, rows, tuple(map(str, steps))))
    if not any(option.chosen for option in options):
        notes = (*notes, "a thread or a block for each iteration of its outermost loop")
    return Explained(name, described(kernel), tuple(options), notes)
