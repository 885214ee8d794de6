"""`tenon tune`: measure schedules beside the cost model's for each kernel of a program, and keep what is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tenon.lowering.pipeline import lower_to_buffers
from tenon.lowering.tuning_record import Decisions
from tenon.runtime.cuda.device_cuda import CudaUnavailableError, architecture, cupy_module
from tenon.runtime.cuda.names import kind_of, ordinal_of
from tenon.runtime.cuda.nvrtc import SerialisedError
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import options, tuned_kind
from tenon.runtime.tuning import processor_of
from tenon.tools import tune_cpu, tune_cuda
from tenon.tools.tune_search import Outcome, Plans, search


def processor(device: str) -> str:
    """What a record calls a device that is measured. Raises `RuntimeError` where there is no such GPU."""
    if kind_of(device) == "cuda":
        try:
            cupy_module()
        except CudaUnavailableError as error:
            raise CudaUnavailableError(f"tune measures on {device}, and there is none: {error}") from None
        return processor_of(device, architecture(ordinal_of(device)))
    return processor_of(device, tuned_kind(device, ""))


def plans_of(module: ModuleOp, device: str) -> Mapping[str, Plans[Any]]:
    """The plans for the kernels of a program by key; `module` is lowered for that.

    Kernels whose sizes are known at launch only, and those whose schedules are given, are left out.
    """
    told = replace(options(device, module=module), tuning="")
    (stage, *_) = lower_to_buffers(Context(), module, told, verify=knobs.verify)
    if stage.name != "buffered":
        raise ValueError("the program is at the stage of loops, where schedules are decided already")
    return tune_cuda.plans(module, told, device) if kind_of(device) == "cuda" else tune_cpu.plans(module, told)


def tune(module: ModuleOp, seconds: float, report: Callable[[Outcome], None], device: str = "cpu") -> Decisions:
    """What to keep of all kernels of a program, with about `seconds` for each; `module` is lowered for that.

    Raises `ValueError` where `TENON_REPRODUCIBLE` forbids to measure.
    """
    if knobs.reproducible:
        raise ValueError("TENON_REPRODUCIBLE=1 forbids to measure")
    found: Decisions = {}
    for key, plans in plans_of(module, device).items():
        try:
            outcome = search(plans, seconds)
        except SerialisedError:  # it runs in another form, for which records are not asked
            outcome = Outcome(plans.kernel, 0.0, 0.0, 0, None)
        report(outcome)
        if outcome.decision is not None:
            found[key] = outcome.decision
    return found
