"""The instructions of a cubin, counted by `nvdisasm`: of a CUDA toolkit, or of the wheel `nvidia-cuda-nvdisasm`."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

INSTALL = "pip install nvidia-cuda-nvdisasm"
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)")
_LABEL = re.compile(r"^(\.L_\w+):")
_TARGET = re.compile(r"\(?(\.L_\w+)\)?")


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
    return _counted(_listing(cubin, program))


def executed_counts(cubin: bytes, program: str) -> dict[str, Counter[str]]:
    """How often a thread executes each instruction, at most, of those kernels that have no loop. What is behind their
    end is for rare numbers, such as a division by one that is very small, and does not count."""
    return _executed(_listing(cubin, program))


@lru_cache(maxsize=1)
def _listing(cubin: bytes, program: str) -> str:
    with tempfile.TemporaryDirectory(prefix="tenon-cubin-") as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([program, "-c", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"nvdisasm: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def _counted(text: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for line in text.splitlines():
        if section := _SECTION.match(line):
            current = counts.setdefault(section[1], Counter())
        elif instruction := _INSTRUCTION.search(line):
            current[instruction[2]] += 1
    return counts


def _executed(text: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    name, passed = "", set[str]()
    for line in text.splitlines():
        if section := _SECTION.match(line):
            name, passed = section[1], set()
            counts[name] = Counter()
        elif label := _LABEL.match(line):
            passed.add(label[1])
        elif name and (instruction := _INSTRUCTION.search(line)):
            target = _TARGET.search(line, instruction.end())
            if instruction[2].startswith("BRA") and target is not None and target[1] in passed:
                del counts[name]
                name = ""
                continue
            counts[name][instruction[2]] += 1
            if instruction[2] == "EXIT" and instruction[1] is None:
                name = ""
    return counts
