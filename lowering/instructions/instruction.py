"""What an instruction is: a row of the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tenon.lowering.instructions.fragment import Fragment

NO_FRAGMENTS: Mapping[str, Fragment] = {}
ARCHITECTURE = re.compile(r"sm_(\d{2,3})([af]?)")


@dataclass(frozen=True)
class Instruction:
    """An instruction as a device function."""

    name: str
    """Of the device function."""
    op: str
    """Of the IR, in upstream's dialects."""
    text: str
    """The device function, C++ around PTX."""
    since: int = 80
    """The first architecture that has it."""
    specific: bool = False
    """Whether only code for exactly that architecture has it: `sm_90a`."""
    fragments: Mapping[str, Fragment] = field(default_factory=lambda: NO_FRAGMENTS)
    """Of its operands, by name: what each thread of the warp or warpgroup holds of the matrices."""
    operations: int = 0
    """Multiplications and additions of all threads together."""

    def obstacle(self, architecture: str) -> str | None:
        """Why code for `architecture`, such as `sm_90`, cannot use it, or None."""
        match = ARCHITECTURE.fullmatch(architecture)
        if match is None:
            return f"{architecture!r} is not an architecture such as 'sm_90'"
        number, suffix = int(match[1]), match[2]
        if self.specific and (number, suffix) != (self.since, "a"):
            return f"{self.name} needs sm_{self.since}a, the target is {architecture}"
        if number < self.since:
            return f"{self.name} needs sm_{self.since} or later, the target is {architecture}"
        return None


def device_function(signature: str, statement: str, template: str = "") -> str:
    """The text of a device function with one statement."""
    head = f"template <{template}> " if template else ""
    return f"{head}__device__ __forceinline__ {signature} {{\n  {statement}\n}}"


def assembly(ptx: str, outputs: str = "", inputs: str = "", memory: bool = True) -> str:
    """A statement of PTX that is not moved past others that are; `memory`: nor plain accesses past it."""
    clobbers = ' : "memory"' if memory else ""
    return f'asm volatile("{ptx}" : {outputs} : {inputs}{clobbers});'
