"""A tuning record: schedules that were measured to be faster than those that the cost model chooses.

A record is a JSON file that can be committed: per processor, per kernel, one decision.

    {"processors": {"znver4 512 1f0c…": {"6d07…": {
        "kernel": "parallel 64, parallel 48, reduction 32 f32",
        "schedules": [{"vector": 1, "width": 16, "unroll": 3, "jam": 0, "jam_count": 8}],
        "strips": null,
        "gain": 1.12}},
      "sm_90a NVIDIA H200": {"91b3…": {
        "kernel": "parallel 4096, parallel 4096, reduction 4096 f32; parallel 4096, parallel 4096 bf16",
        "steps": ["split(i, 128) -> ig, ib", "bind(ig, grid)", …],
        "gain": 1.08}}}}

A kernel is told by its structure: ops, shapes and dtypes, as they are when it is decided about, and on a GPU by what
is known of the memory of its arguments; names do not count. On a CPU `schedules` has an entry for each generic, `null`
for one that stays scalar; `strips` are those of the kernel (see `strips`). On a GPU `steps` are those of the kernel
(see `lowering.steps`). `gain` and `kernel` are for readers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects import func
from xdsl.ir import Operation, Region, SSAValue

from tenon.lowering.buffers.alignments import ALIGNMENTS
from tenon.lowering.buffers.shared_arguments import SHARED_ARGUMENTS
from tenon.lowering.kernels.statement import Kernel, element_type

KEY_LENGTH = 16
OF_MEMORY = (SHARED_ARGUMENTS, ALIGNMENTS)
"""Attributes of a kernel that code for a GPU depends on."""


@dataclass(frozen=True)
class Decision:
    """How a kernel is scheduled; what `decide` gives, read from a record."""

    kernel: str
    schedules: tuple[Mapping[str, int] | None, ...] = ()
    strips: tuple[int, ...] | None = None
    gain: float = 1.0
    steps: tuple[str, ...] = ()
    """On a GPU, in place of schedules."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        if self.steps:
            return {"kernel": self.kernel, "steps": list(self.steps), "gain": self.gain}
        return {
            "kernel": self.kernel,
            "schedules": list(self.schedules),
            "strips": None if self.strips is None else list(self.strips),
            "gain": self.gain,
        }

    @staticmethod
    def of_json(entry: Any) -> Decision:
        """What `to_json` gave."""
        if "steps" in entry:
            return Decision(entry["kernel"], gain=entry["gain"], steps=tuple(map(str, entry["steps"])))
        strips = None if entry["strips"] is None else tuple(entry["strips"])
        return Decision(entry["kernel"], tuple(entry["schedules"]), strips, entry["gain"])


Decisions = dict[str, Decision]
"""By the key of the kernel."""


@dataclass
class TuningRecord:
    """What a file holds: decisions by processor."""

    processors: dict[str, Decisions] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> TuningRecord:
        """The record in a file. Raises `ValueError` for text that is none."""
        try:
            data = json.loads(path.read_text())
            processors = {
                processor: {key: Decision.of_json(entry) for key, entry in decisions.items()}
                for processor, decisions in data["processors"].items()
            }
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: is no tuning record: {type(error).__name__}: {error}") from None
        return TuningRecord(processors)

    def of(self, processor: str) -> Decisions | None:
        """What it says of a processor, or None. Of a GPU of which no more than the architecture is known it has what it
        says of the only one of that."""
        # names of GPUs may go on: NVIDIA GeForce RTX 3080, and 3080 Ti
        of_architecture = [name for name in self.processors if name.partition(" ")[0] == processor]
        return self.processors.get(of_architecture[0] if len(of_architecture) == 1 else processor)

    def text(self) -> str:
        """The file's text: the same for the same decisions, in whatever order they were found."""
        processors = {
            processor: {key: decisions[key].to_json() for key in sorted(decisions)}
            for processor, decisions in sorted(self.processors.items())
        }
        return json.dumps({"processors": processors}, indent=1) + "\n"


def kernel_key(function: func.FuncOp) -> str:
    """What tells kernels of one structure: a digest of ops, attributes and types. Schedules do not count."""
    numbers: dict[SSAValue, int] = {}
    lines = [f"{name} {function.attributes[name]}" for name in OF_MEMORY if name in function.attributes]
    _describe_region(function.body, numbers, lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:KEY_LENGTH]


def _describe_region(region: Region, numbers: dict[SSAValue, int], lines: list[str]) -> None:
    for block in region.blocks:
        for argument in block.args:
            numbers[argument] = len(numbers)
        lines.append(f"block {', '.join(str(argument.type) for argument in block.args)}")
        for op in block.ops:
            _describe_op(op, numbers, lines)


def _describe_op(op: Operation, numbers: dict[SSAValue, int], lines: list[str]) -> None:
    known = {name: str(value) for name, value in (op.properties | op.attributes).items() if name != "schedule"}
    operands = [numbers[operand] for operand in op.operands]
    for result in op.results:
        numbers[result] = len(numbers)
    results = ", ".join(str(result.type) for result in op.results)
    lines.append(f"{op.name} {operands} {sorted(known.items())} {results}")
    for region in op.regions:
        _describe_region(region, numbers, lines)


def described(kernel: Kernel) -> str:
    """The generics of a kernel for readers: loops, extents and the element type of the result."""
    parts: list[str] = []
    for statement in kernel.statements:
        loops = ", ".join(f"{k.name.lower()} {e}" for k, e in zip(statement.kinds, statement.extents, strict=True))
        parts.append(f"{loops} {element_type(statement.op.outputs[0])}")
    return "; ".join(parts)
