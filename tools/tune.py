"""`tenon tune`: measure schedules beside the cost model's for each kernel of a program, and keep those that are faster.

A kernel is compiled by itself, on random numbers. From the cost model's choice the search goes to the best of the
choices that differ in one respect, and on from there, as long as that pays and time is left. Candidates take turns with
the best so far; one whose numbers are not those of the cost model's choice is left out. A kernel gets an entry in the
record if in the end it is faster by `LEAST_GAIN` than the cost model makes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, i8
from xdsl.ir import Block, Region

from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.lowering.kernels.intermediates import read_without_padding
from tenon.lowering.kernels.statement import Kernel, kernels_of
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import run_passes, stage_of, stages
from tenon.lowering.schedules.candidates import neighbours, other_strips
from tenon.lowering.schedules.schedule import decide, prepare_kernel
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.lowering.schedules.strips import write_strips
from tenon.lowering.tuning_record import Decision, Decisions, described, kernel_key
from tenon.passes.machine import Machine
from tenon.runtime.executables import Executable, executable
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import machine, new_context

LEAST_GAIN = 1.03
"""Below this a difference may be chance."""
ROUNDS = 7
BLOCK = 1e-3
"""Seconds that the calls of one round take."""
LEAST_SECONDS = 5e-6
"""A kernel that takes less is not worth a decision of its own."""
TOLERANCE = {"float16": 2e-2, "bfloat16": 6e-2, "float64": 1e-11}

Plan = tuple[tuple[Schedule | None, ...], tuple[int, ...] | None]
"""The schedule of each statement, and strips."""


def kernels_to_tune(module: ModuleOp) -> dict[str, func.FuncOp]:
    """The kernels of a program by key, as `prepare_kernel` makes them, in a module of their own each; `module` is
    lowered for that.

    Kernels whose sizes are known at launch only are left out.
    """
    order = stages(LoweringOptions(machine(), filtering=knobs.minimal_filtering))
    names = [stage.name for stage in order]
    if stage_of(module) == "loops":
        raise ValueError("the program is at the stage of loops, where schedules are decided already")
    for stage in order[names.index(stage_of(module)) : names.index("buffered")]:
        run_passes(new_context(), module, stage.passes, verify=knobs.verify)
    found: dict[str, func.FuncOp] = {}
    for function in kernels_of(module):
        types = function.function_type.inputs
        if not all(isinstance(t, MemRefType) and t.has_static_shape() for t in types):
            continue
        if any("schedule" in op.attributes for op in function.body.block.ops):
            continue
        kernel = function.clone()
        ModuleOp([_caller(kernel), kernel])
        if prepare_kernel(kernel, machine()).statements:
            found.setdefault(kernel_key(kernel), kernel)
    return found


def _caller(kernel: func.FuncOp) -> func.FuncOp:
    """A program that does nothing but call the kernel."""
    types = [*kernel.function_type.inputs, MemRefType(i8, [0])]
    block = Block(arg_types=types)
    block.add_ops([func.CallOp(kernel.sym_name.data, block.args[:-1], ()), func.ReturnOp()])
    caller = func.FuncOp("main", FunctionType.from_lists(types, ()), Region(block))
    for name in ("num_inputs", "num_outputs"):
        caller.attributes[name] = kernel.attributes[name]
    return caller


def _compiled(kernel: func.FuncOp, plan: Plan) -> Executable:
    """The kernel with the plan's schedules."""
    module = kernel.parent_op()
    assert isinstance(module, ModuleOp)
    copy = module.clone()
    (function,) = kernels_of(copy)
    schedules, strips = plan
    for statement, schedule in zip(read_without_padding(function).statements, schedules, strict=True):
        if schedule is not None:
            statement.op.attributes["schedule"] = schedule.attribute()
    if strips is not None:
        write_strips(function, strips)
    with knobs.override(cache=False):
        return executable(copy, "cpu", kernel.sym_name.data)


def _arguments(compiled: Executable) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    arrays: list[np.ndarray[Any, Any]] = []
    for shape, element in compiled.interface.inputs:
        dtype = numpy_dtype(element_type(element))
        if dtype.kind in "iub":
            arrays.append(generator.integers(0, 2, shape).astype(dtype))
        else:
            arrays.append(generator.standard_normal(shape).astype(dtype))
    return arrays


def _same(results: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]) -> bool:
    for result, right in zip(results, expected, strict=True):
        wide, exact = result.astype(np.float64), right.astype(np.float64)
        finite = np.abs(exact[np.isfinite(exact)])
        scale = float(finite.max()) if finite.size else 1.0
        tolerance = TOLERANCE.get(right.dtype.name, 1e-4 if right.dtype.kind not in "iub" else 0.0)
        if not np.allclose(wide, exact, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return False
    return True


def _seconds(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """The median seconds of each of `runs`, which take turns."""
    started = time.perf_counter()
    runs[0]()
    calls = max(1, int(BLOCK / max(time.perf_counter() - started, 1e-7)))
    samples: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, taken in zip(runs, samples, strict=True):
            started = time.perf_counter()
            for _ in range(calls):
                run()
            taken.append((time.perf_counter() - started) / calls)
    return [median(taken) for taken in samples]


@dataclass(frozen=True)
class Outcome:
    """What was found for a kernel. `decision` is `None` where the cost model's choice stays."""

    kernel: str
    seconds: float
    best: float
    tried: int
    decision: Decision | None


def _neighbours(kernel: Kernel, plan: Plan, processor: Machine) -> list[Plan]:
    schedules, strips = plan
    found: list[Plan] = []
    for number, statement in enumerate(kernel.statements):
        for schedule in neighbours(statement, schedules[number], processor):
            found.append(((*schedules[:number], schedule, *schedules[number + 1 :]), strips))
    return [*found, *[(schedules, tuple(other)) for other in other_strips(strips)]]


def tune_kernel(function: func.FuncOp, seconds: float) -> Outcome:
    """Search for a faster plan for about `seconds`."""
    kernel = read_without_padding(function)
    processor = machine()
    schedules, strips = decide(kernel, processor)
    default: Plan = (tuple(schedules), None if strips is None else tuple(strips))
    first = _compiled(function, default)
    arrays = _arguments(first)
    expected = [np.array(result) for result in first.run(arrays)]
    base = best = _seconds([lambda: first.run(arrays)])[0]
    chosen, code, seen = default, first, {default}
    end = time.perf_counter() + seconds
    improving = base >= LEAST_SECONDS
    while improving:
        improving = False
        for plan in _neighbours(kernel, chosen, processor):
            if plan in seen or time.perf_counter() > end:
                continue
            seen.add(plan)
            try:
                candidate = _compiled(function, plan)
            except ValueError:
                continue  # strips and schedules that do not fit each other
            if not _same(candidate.run(arrays), expected):
                continue
            ours, other = _seconds([lambda c=code: c.run(arrays), lambda c=candidate: c.run(arrays)])
            if other * LEAST_GAIN < ours:
                chosen, code, improving = plan, candidate, True
    base, best = _seconds([lambda: first.run(arrays), lambda: code.run(arrays)])
    found = None
    if chosen != default and best * LEAST_GAIN < base:
        entries = tuple([None if s is None else _entries(s) for s in chosen[0]])
        found = Decision(described(kernel), entries, chosen[1], round(base / best, 2))
    return Outcome(described(kernel), base, best, len(seen), found)


def _entries(schedule: Schedule) -> dict[str, int]:
    numbers: dict[str, Any] = dict(schedule.attribute().data)
    return {key: number.value.data for key, number in numbers.items()}


def tune(module: ModuleOp, seconds: float, report: Callable[[Outcome], None]) -> Decisions:
    """What to keep of all kernels of a program, with about `seconds` for each; `module` is lowered for that.

    Raises `ValueError` where `TENON_REPRODUCIBLE` forbids to measure.
    """
    if knobs.reproducible:
        raise ValueError("TENON_REPRODUCIBLE=1 forbids to measure")
    found: Decisions = {}
    for key, function in kernels_to_tune(module).items():
        outcome = tune_kernel(function, seconds)
        report(outcome)
        if outcome.decision is not None:
            found[key] = outcome.decision
    return found
