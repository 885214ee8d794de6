"""What memory a compiled program needs: its arguments, its results, and the buffers of its arena over time; and how
many bytes it moves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime.arguments.interface import Interface

if TYPE_CHECKING:
    from tenon.lowering.buffers.memory_plan import PlannedBuffer
    from tenon.lowering.kernels.bytes_moved import Moved


@dataclass(frozen=True)
class Memory:
    """Bytes that a program needs. Where shapes have sizes known at launch, numbers are formulas in their names.

    `prepared` are those that are computed once from frozen arguments, and held. `taken_over` are those of the results
    that lie in the memory of donated arguments, if the caller does not keep these. `peak` is the size of the arena,
    where all other values lie; no plan for this order of kernels needs less than `lower_bound`, the most bytes that are
    needed at once. `buffers` lists each buffer of the arena: its bytes, its offset, the first and the last position of
    the program at which it is needed, and the kernel that writes it first.
    A program for all sizes has no list of buffers, and its bound is its peak.
    `moved` are, for each kernel, the bytes that it reads and writes in one call of the program, of buffers that outlive
    it, each element once; `None` for a program for all sizes, or one whose kernels were loops before it was compiled.
    What is computed once is not part of it. In `library` bytes cuBLAS computes products on a GPU; programs of one
    stream share them.
    """

    arguments: int
    results: int
    taken_over: int
    peak: int
    lower_bound: int
    buffers: tuple[PlannedBuffer, ...] = ()
    prepared: int = 0
    moved: tuple[Moved, ...] | None = None
    library: int = 0

    @classmethod
    def of(cls, interface: Interface, lowered: ModuleOp, *, has_kernels: bool = False, library: int = 0) -> Memory:
        """The memory of the program with this interface, lowered to buffers, which changes, or further. `has_kernels`
        says that its kernels are not loops yet, so that what they move can be counted; a library works in `library`
        bytes."""
        from tenon.lowering.buffers.memory_report import memory_report
        from tenon.lowering.kernels.bytes_moved import bytes_moved

        results = [_bytes(result) for result in interface.outputs]
        taken_over = [size for size, donor in zip(results, interface.donations, strict=True) if donor >= 0]
        peak = bound = interface.arena_bytes
        buffers: tuple[PlannedBuffer, ...] = ()
        if not interface.sizes:
            report = memory_report(lowered)
            bound, buffers = report.lower_bound, report.buffers
        moved = bytes_moved(lowered) if has_kernels and not interface.sizes else None
        arguments = sum(_bytes(argument) for argument in interface.inputs)
        preparation = interface.preparation
        prepared = 0 if preparation is None else sum(map(_bytes, preparation.outputs))
        return cls(arguments, sum(results), sum(taken_over), peak, bound, buffers, prepared, moved, library)

    def __str__(self) -> str:
        """A table: the sums, then each buffer, the largest first, and each kernel."""
        lines = [
            f"arguments    {self.arguments!s:>14} bytes",
            *(
                [f"prepared     {self.prepared:>14} bytes, computed once from frozen arguments"]
                if self.prepared
                else []
            ),
            f"results      {self.results!s:>14} bytes, {self.taken_over} of them in donated arguments",
            f"arena        {self.peak!s:>14} bytes, lower bound {self.lower_bound} bytes",
        ]
        if self.library:
            lines.append(f"library      {self.library:>14} bytes, which programs of one stream share")
        for buffer in sorted(self.buffers, key=lambda buffer: (-buffer.bytes, buffer.first)):
            lines.append(
                f"  {buffer.bytes:>12} bytes at {buffer.offset:>12}, needed {buffer.first}..{buffer.last}, "
                f"written by {buffer.writer}"
            )
        if self.moved is not None:
            total = sum(kernel.read + kernel.written for kernel in self.moved)
            lines.append(f"moved        {total:>14} bytes in each call")
            lines += [f"  {kernel}" for kernel in self.moved]
        return "\n".join(lines)


def _bytes(described: tuple[tuple[int, ...], str]) -> int:
    shape, dtype = described
    return prod(shape) * numpy_dtype(element_type(dtype)).itemsize
