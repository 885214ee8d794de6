"""The instructions of a cubin, counted by `nvdisasm`: of a CUDA toolkit, or of the wheel `nvidia-cuda-nvdisasm`."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

INSTALL = "pip install nvidia-cuda-nvdisasm"
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


def disassembler() -> str | None:
    """Where `nvdisasm` is, or None."""
    if (found := shutil.which("nvdisasm")) is not None:
        return found
    nvidia = importlib.util.find_spec("nvidia")
    roots = nvidia.submodule_search_locations or () if nvidia is not None else ()
    places = (path for root in roots for path in sorted(Path(root).glob("cu*/bin/nvdisasm")))
    return next(map(str, places), None)


def instruction_counts(cubin: bytes, program: str) -> dict[str, Counter[str]]:
    """For each kernel how often each instruction, with its modifiers (`LDG.E.128`), stands in its code.

    `program` is what `disassembler` found. Raises `RuntimeError` where it does not read the cubin.
    """
    with tempfile.TemporaryDirectory(prefix="tenon-cubin-") as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([program, "-c", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"nvdisasm: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return _counted(done.stdout)


def _counted(text: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for line in text.splitlines():
        if section := _SECTION.match(line):
            current = counts.setdefault(section[1], Counter())
        elif instruction := _INSTRUCTION.search(line):
            current[instruction[1]] += 1
    return counts
