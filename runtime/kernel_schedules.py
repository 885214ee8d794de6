"""Steps of kernels that a call of `jit` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tenon.runtime.arguments.interface import main_function
from tenon.runtime.cuda.names import kind_of


def checked_schedule(schedule: Any, device: str) -> dict[str, tuple[str, ...]]:
    """The steps of kernels by name, as they are now. Raises `ValueError` for a device whose kernels have no steps, and
    `TypeError` for what is no list of texts."""
    if schedule is None:
        return {}
    if kind_of(device) != "cuda":
        raise ValueError(f"jit: schedule is for kernels on cuda, and device is {device}")
    if not isinstance(schedule, Mapping):
        raise TypeError(
            f"jit: schedule is {schedule!r}, not lists of steps by the names of kernels: {{'kernel_0': [...]}}"
        )
    for name, steps in schedule.items():
        if not isinstance(name, str):
            raise TypeError(f"jit: schedule is for kernel {name!r}, whose name is no text such as 'kernel_0'")
        if (
            not isinstance(steps, Sequence)
            or isinstance(steps, str)
            or not all(isinstance(step, str) for step in steps)
        ):
            raise TypeError(f"jit: schedule of {name} is {steps!r}, not a list of steps such as 'bind(i, grid)'")
    return {name: tuple(steps) for name, steps in schedule.items()}


def write_schedule(module: ModuleOp, schedule: Mapping[str, Sequence[str]]) -> None:
    """Have a traced program say by which steps its kernels run."""
    from tenon.lowering.steps.table import write_given

    write_given(main_function(module), schedule)
