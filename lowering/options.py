"""What decides, besides a program, how it is lowered."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.passes.machine import GENERIC, Gpu, Machine


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What is known of the target, and what is chosen for it."""

    machine: Machine = GENERIC
    """The processor that runs the loops."""
    gpu: Gpu | None = None
    """The GPU that runs them in its place: each of its threads computes one element, or shares a row."""
    serialised: tuple[str, ...] = ()
    """The kernels of a GPU that do without the instructions that only its architecture has."""
    tuning: str = ""
    """The options of `schedule`, or of `decide-steps`, that name a tuning record and the processor."""
    exact_math: str = ""
    """The functions that `expand-math` computes exactly."""
    filtering: bool = True
    """Whether convolutions may become ones by minimal filtering."""
    skipping: bool = True
    """Whether what masks hide is left out."""
