"""What LLVM may end the process over, tried by another process first: a target that the environment names, and text of
kernels.

Over features that exclude each other, or are not written as a list, LLVM ends the process, as it does over assembly
that it cannot read and operations that the target has not; a name of a feature that it does not know it leaves out,
with a line on stderr. What the other process found is kept in the disk cache.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache

from tenon.dialects.support.suggestion import did_you_mean
from tenon.runtime.store import cache as disk

_PROBE = """
import sys
from llvmlite import binding
triple, cpu, features = sys.argv[1:]
binding.initialize_native_target()
binding.initialize_native_asmprinter()
binding.initialize_native_asmparser()
machine = binding.Target.from_triple(triple).create_target_machine(
    cpu=cpu, features=features, reloc="pic", codemodel="small"
)
module = binding.parse_assembly(sys.stdin.read())
module.verify()
machine.emit_object(module)
"""
_SIMPLE = """
define double @add(double %x, double %y) {
  %z = fadd double %x, %y
  ret double %z
}
define void @double(ptr %x) {
  %a = load <16 x float>, ptr %x
  %b = fadd <16 x float> %a, %a
  store <16 x float> %b, ptr %x
  ret void
}
"""
_UNKNOWN = re.compile(r"^'(?P<name>[^\n]*)' is not a recognized (?P<what>feature|processor)", re.MULTILINE)
_SECONDS = 60


@cache
def check_target(triple: str, cpu: str, before: str, changes: str | None, known: Iterable[str]) -> None:
    """Raise `ValueError` where LLVM does not know the CPU or a feature, or cannot compile for them together.

    `changes` are the features that were named, which follow those `before` them, and `known` such as may be meant.
    """
    features = ",".join(filter(None, (before, changes)))
    refused = said_against(_SIMPLE, triple, cpu, features)
    unknown = _UNKNOWN.search(refused)
    if unknown is None:
        if refused:
            raise ValueError(
                f"TENON_TARGET_FEATURES is {changes or ''!r}, with which LLVM cannot compile for {cpu}: "
                f"{refused.splitlines()[-1]}"
            )
        return
    if unknown["what"] == "processor":
        raise ValueError(f"TENON_TARGET_CPU is {cpu!r}, which is no processor of {triple} that LLVM knows")
    name = unknown["name"][1:]
    raise ValueError(
        f"TENON_TARGET_FEATURES: {name!r} is no feature of {triple} that LLVM knows{did_you_mean(name, known)}"
    )


def said_against(text: str, triple: str, cpu: str, features: str) -> str:
    """What LLVM says when it compiles `text`; nothing where it can, or where that cannot be found out."""
    key = disk.key("target", text, triple, cpu, features)
    try:
        return disk.made(
            key,
            lambda: {"refused": _tried(text, triple, cpu, features).encode()},
            lambda files: files["refused"].decode(),
        )
    except (OSError, subprocess.SubprocessError):
        return ""


def _tried(text: str, triple: str, cpu: str, features: str) -> str:
    """What LLVM says against it. Raises `OSError` or `SubprocessError` where that cannot be found out."""
    command = [sys.executable, "-c", _PROBE, triple, cpu, features]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
    )
    said = done.stderr.strip()
    if "Traceback" in said:
        # what stands for Python is another program, or has no llvmlite; or the text does not parse, which is no end
        raise subprocess.SubprocessError(said)
    return said or (f"LLVM ended with status {done.returncode}" if done.returncode else "")
