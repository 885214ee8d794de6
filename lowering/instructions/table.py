"""All instructions by the name of their device function, and the functions that a text needs.

A kernel's text calls `tn_...` functions alone, so that the same text compiles for a device and for the host, where the
tests emulate them. Where `TENON_HOST_SHIM` is defined, this text is empty.
"""

from __future__ import annotations

import re

from tenon.lowering.instructions.copies import COPIES
from tenon.lowering.instructions.instruction import Instruction
from tenon.lowering.instructions.matrix import MATRIX
from tenon.lowering.instructions.warpgroup import WARPGROUPS

INSTRUCTIONS: dict[str, Instruction] = {row.name: row for row in (*COPIES, *MATRIX, *WARPGROUPS)}

BASE = """#define TN_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
struct __align__(64) TnTensorMap { unsigned char opaque[128]; };
__device__ __forceinline__ unsigned int tn_shared_address(const void *pointer) {
  return (unsigned int)__cvta_generic_to_shared(pointer);
}"""
WORD = re.compile(r"\btn_\w+")


def device_functions(text: str, architecture: str) -> str:
    """The device functions of the instructions that a kernel's text calls; nothing where it calls none.

    Raises `ValueError` for an instruction that code for `architecture` (such as `sm_90a`) cannot use.
    """
    used = [INSTRUCTIONS[name] for name in dict.fromkeys(WORD.findall(text)) if name in INSTRUCTIONS]
    if not used and "TN_DYNAMIC_SHARED" not in text:
        return ""
    for instruction in used:
        if (obstacle := instruction.obstacle(architecture)) is not None:
            raise ValueError(obstacle)
    functions = [row.text for row in INSTRUCTIONS.values() if row in used]
    return "\n".join(["#ifndef TENON_HOST_SHIM", BASE, *functions, "#endif\n"])
