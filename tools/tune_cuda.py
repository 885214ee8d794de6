"""The plans for a kernel on a GPU: lists of steps.

Tried are the lists of all deciders that have some, those of tiles by the cycles that are predicted for them, and then
lists with one step changed. Time is the device's own: launches are captured, so that the host is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, NoneAttr, StringAttr

from tenon.lowering.buffers.alignments import alignments, write_alignments
from tenon.lowering.buffers.shared_arguments import shared_arguments, write_shared
from tenon.lowering.grid_schedules.decide_steps import alternatives, changed_steps, decide
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.options import LoweringOptions
from tenon.lowering.steps.table import ATTRIBUTE, given_steps
from tenon.lowering.tuning_record import Decision, described, kernel_key
from tenon.passes.machine import Gpu
from tenon.runtime.cuda.device_cuda import cupy_module
from tenon.runtime.executables import executable
from tenon.runtime.knobs import knobs
from tenon.tools.tune_search import ROUNDS, Trial, random_arrays, separate_kernels

BLOCK = 1e-3
"""Seconds of the launches that are timed together."""
MOST_LAUNCHES = 200

Plan = tuple[str, ...]
"""Steps."""


class CudaPlans:
    """The plans for a kernel that steps were decided for."""

    least = 2e-6

    def __init__(self, function: func.FuncOp, gpu: Gpu, device: str, default: Plan) -> None:
        self.function, self.gpu, self.device, self.default = function, gpu, device, default
        self.kernel = described(read_kernel(function))
        self._arrays: Sequence[Any] | None = None

    def near(self, plan: Plan) -> Iterator[Plan]:
        """All lists that deciders have, where one of theirs is what is best so far; then those with one step
        changed."""
        if plan == self.default:
            yield from alternatives(self.function, self.gpu)
        yield from changed_steps(self.function, self.gpu, plan)

    def compiled(self, plan: Plan) -> Trial:
        """The kernel by these steps."""
        module = self.function.parent_op()
        assert isinstance(module, ModuleOp)
        copy = module.clone()
        (function,) = kernels_of(copy)
        function.attributes[ATTRIBUTE] = ArrayAttr([StringAttr(step) for step in plan])
        with knobs.override(cache=False):
            code = executable(copy, self.device, self.function.sym_name.data)
        cupy = cupy_module()
        if self._arrays is None:
            self._arrays = [cupy.asarray(array) for array in random_arrays(code.interface)]
        arrays = self._arrays
        outputs = code.run(arrays)
        return Trial(plan, lambda: code.run(arrays, outputs), lambda: [result.get() for result in code.run(arrays)])

    def seconds(self, trials: Sequence[Trial]) -> list[float]:
        """The median of some rounds."""
        return device_seconds(trials)

    def decision(self, plan: Plan, gain: float) -> Decision:
        """What to keep of a plan."""
        return Decision(self.kernel, (), None, gain, plan)


def device_seconds(trials: Sequence[Trial]) -> list[float]:
    """The median seconds that the device takes for each trial, which take turns."""
    first = _Launches(trials[0], 1)
    first.time()
    count = min(max(int(BLOCK / max(first.time(), 1e-7)), 1), MOST_LAUNCHES)
    launches = [_Launches(trial, count) for trial in trials]
    for _ in range(ROUNDS + 1):
        for one in launches:
            one.taken.append(one.time() / count)
    return [median(one.taken[1:]) for one in launches]


@dataclass
class _Launches:
    """So many runs of a trial as a graph, on a stream of their own."""

    trial: Trial
    count: int
    taken: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        cuda = cupy_module().cuda
        cuda.get_current_stream().synchronize()
        self.stream = cuda.Stream(non_blocking=True)
        with self.stream:
            self.stream.begin_capture()
            try:
                for _ in range(self.count):
                    self.trial.run()
            finally:
                self.graph = self.stream.end_capture()

    def time(self) -> float:
        """Launch them, and wait: the seconds that passed on the device."""
        cuda = cupy_module().cuda
        start, end = cuda.Event(), cuda.Event()
        with self.stream:
            start.record(self.stream)
            self.graph.launch(self.stream)
            end.record(self.stream)
        end.synchronize()
        return float(cuda.get_elapsed_time(start, end)) * 1e-3


def plans(module: ModuleOp, options: LoweringOptions, device: str) -> dict[str, CudaPlans]:
    """The plans for the kernels of a buffered module by key. Raises `RuntimeError` where there is no GPU."""
    cupy_module()
    gpu = options.gpu
    assert gpu is not None
    given, shared, aligned = given_steps(module), shared_arguments(module), alignments(module, gpu.access)
    found: dict[str, CudaPlans] = {}
    for kernel in separate_kernels(module):
        name, types = kernel.sym_name.data, kernel.function_type.inputs
        is_whole = all(isinstance(type_, MemRefType) and type_.layout == NoneAttr() for type_ in types)
        if name in given or ATTRIBUTE in kernel.attributes or not is_whole:
            continue
        write_shared(kernel, shared.get(name, frozenset()))
        write_alignments(kernel, aligned.get(name))
        collapse_loops(kernel)
        decided = kernel.clone()
        decide(decided, gpu)
        steps = decided.attributes.get(ATTRIBUTE)
        if isinstance(steps, ArrayAttr) and (key := kernel_key(kernel)) not in found:
            default = tuple([step.data for step in steps.data if isinstance(step, StringAttr)])
            found[key] = CudaPlans(kernel, gpu, device, default)
    return found
