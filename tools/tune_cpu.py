"""The plans for a kernel on the CPU: the schedule of each statement, and strips."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tenon.lowering.kernels.intermediates import read_without_padding
from tenon.lowering.kernels.statement import kernels_of
from tenon.lowering.options import LoweringOptions
from tenon.lowering.schedules.candidates import neighbours, other_strips
from tenon.lowering.schedules.schedule import decide, prepare_kernel
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.lowering.schedules.strips import write_strips
from tenon.lowering.tuning_record import Decision, described, kernel_key
from tenon.passes.machine import Machine
from tenon.runtime.executables import executable
from tenon.runtime.knobs import knobs
from tenon.tools.tune_search import ROUNDS, Trial, random_arrays, separate_kernels

BLOCK = 1e-3
"""Seconds that the calls of one round take."""

Plan = tuple[tuple[Schedule | None, ...], tuple[int, ...] | None]


class CpuPlans:
    """The plans for a kernel that `prepare_kernel` made."""

    least = 5e-6

    def __init__(self, function: func.FuncOp, machine: Machine) -> None:
        self.function, self.machine = function, machine
        self.statements = read_without_padding(function)
        self.kernel = described(self.statements)
        schedules, strips = decide(self.statements, machine)
        self.default: Plan = (tuple(schedules), None if strips is None else tuple(strips))
        self._arrays: Sequence[np.ndarray[Any, Any]] | None = None

    def near(self, plan: Plan) -> Iterator[Plan]:
        """Plans that differ in one respect."""
        schedules, strips = plan
        for number, statement in enumerate(self.statements.statements):
            for schedule in neighbours(statement, schedules[number], self.machine):
                yield (*schedules[:number], schedule, *schedules[number + 1 :]), strips
        yield from [(schedules, tuple(other)) for other in other_strips(strips)]

    def compiled(self, plan: Plan) -> Trial:
        """The kernel with the plan's schedules."""
        module = self.function.parent_op()
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
            code = executable(copy, "cpu", self.function.sym_name.data)
        if self._arrays is None:
            self._arrays = random_arrays(code.interface)
        arrays = self._arrays
        return Trial(plan, lambda: code.run(arrays), lambda: [np.array(result) for result in code.run(arrays)])

    def seconds(self, trials: Sequence[Trial]) -> list[float]:
        """The median of some rounds."""
        return host_seconds(trials)

    def decision(self, plan: Plan, gain: float) -> Decision:
        """What to keep of a plan."""
        entries = tuple([None if s is None else _entries(s) for s in plan[0]])
        return Decision(self.kernel, entries, plan[1], gain)


def host_seconds(trials: Sequence[Trial]) -> list[float]:
    """The median seconds of each trial, which take turns."""
    started = time.perf_counter()
    trials[0].run()
    calls = max(1, int(BLOCK / max(time.perf_counter() - started, 1e-7)))
    samples: list[list[float]] = [[] for _ in trials]
    for _ in range(ROUNDS):
        for trial, taken in zip(trials, samples, strict=True):
            started = time.perf_counter()
            for _ in range(calls):
                trial.run()
            taken.append((time.perf_counter() - started) / calls)
    return [median(taken) for taken in samples]


def _entries(schedule: Schedule) -> dict[str, int]:
    numbers: dict[str, Any] = dict(schedule.attribute().data)
    return {key: number.value.data for key, number in numbers.items()}


def plans(module: ModuleOp, options: LoweringOptions) -> dict[str, CpuPlans]:
    """The plans for the kernels of a buffered module by key."""
    found: dict[str, CpuPlans] = {}
    for kernel in separate_kernels(module):
        is_given = any("schedule" in op.attributes for op in kernel.body.block.ops)
        if not is_given and prepare_kernel(kernel, options.machine).statements:
            key = kernel_key(kernel)
            if key not in found:
                found[key] = CpuPlans(kernel, options.machine)
    return found
