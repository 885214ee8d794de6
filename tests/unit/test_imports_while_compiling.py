"""What a process does not import that compiles a program and runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sys
import numpy as np
import tenon

print(float(tenon.jit(lambda x: tenon.softmax(x @ x).sum())(np.ones((4, 4), np.float32))))
print(*[name for name in sys.modules if name.startswith("tenon.")])
"""


def test_what_gpus_and_factorizations_need_is_imported_for_them(tmp_path: Path) -> None:
    given = os.environ | {"TENON_CACHE_DIR": str(tmp_path)}  # it is compiled
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=given, capture_output=True, text=True, check=True)
    total, modules = done.stdout.splitlines()
    assert float(total) == 4
    imported = set(modules.split())
    assert {"tenon.passes.fuse.fuse", "tenon.runtime.cpu.program"} <= imported
    assert (
        not {
            "tenon.passes.loops.chain_products",
            "tenon.runtime.cpu.lapack.functions",
            "tenon.runtime.cpu.lapack.library",
        }
        & imported
    )
