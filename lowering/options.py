"""What decides, besides a program, how it is lowered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What is known of the target, and what is chosen for it."""

    vector_bits: int
    """The width of vector registers; 0: scalar loops, as for a GPU."""
    cache: int | None = None
    """The size of the last level of the caches in bytes, where it is known."""
    scaling: bool = False
    """Whether one instruction multiplies by a power of two; an option of `expand-math`."""
    multiply_add: bool = True
    """Whether it has fused multiply-adds; an option of `expand-math`."""
    dots: tuple[str, ...] = ()
    """The elements, as `schedule` takes them, of which the target has dot products."""
    tuning: str = ""
    """The options of `schedule` that name a tuning record and the processor."""
    exact_math: str = ""
    """The functions that `expand-math` computes exactly."""
    filtering: bool = True
    """Whether convolutions may become ones by minimal filtering."""
    skipping: bool = True
    """Whether what masks hide is left out."""
