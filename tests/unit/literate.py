"""Pages whose blocks run: what a block prints stands in the block behind it.

    python tests/unit/literate.py docs/one-sitting.md            write what the blocks print now into the page
    python tests/unit/literate.py --check docs/one-sitting.md    compare instead

Blocks of a page run in order, in one folder and one Python namespace: `python` in this process, `sh` in a shell that
finds the commands of this environment. A `python` block that begins with the comment `# NAME.py` is written to that
file, too. A `mlir` or `text` block that follows one of these holds what it printed.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")


def run(page: str) -> str:
    """The page with what its blocks print now."""
    names: dict[str, Any] = {"__name__": "literate"}
    parts: list[str] = []
    end, printed = 0, None
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in _BLOCK.finditer(page):
            kind, text = block[1], block[2]
            parts.append(page[end : block.start()])
            end = block.end()
            if kind in ("mlir", "text") and printed is not None and not parts[-1].strip():
                parts.append(f"```{kind}\n{printed}```")
                printed = None
                continue
            parts.append(block[0])
            printed = _python(text, names) if kind == "python" else _shell(text) if kind == "sh" else None
    return "".join([*parts, page[end:]])


def _python(text: str, names: dict[str, Any]) -> str:
    if named := _FILE.match(text):
        Path(named[1]).write_text(text)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, named[1] if named else "<page>", "exec"), names)
    return _trimmed(output.getvalue())


def _shell(text: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return _trimmed(done.stdout)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


if __name__ == "__main__":
    is_check = sys.argv[1] == "--check"
    for path in map(Path.resolve, map(Path, sys.argv[1 + is_check :])):
        before, after = path.read_text(), run(path.read_text())
        if is_check and before != after:
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), "the page", "what it prints", lineterm=""
            )
            sys.exit("\n".join(lines))
        path.write_text(after)
