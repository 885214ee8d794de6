"""What is printed at the structured, the buffered and the loop stage is MLIR: upstream `mlir-opt` takes it, for every op."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from samples import SAMPLES

import tenon
from tenon.dialects.registry import registry
from tenon.lowering.pipeline import run_passes, stages
from tenon.runtime.stages import new_context

MLIR_OPT = shutil.which("mlir-opt-22")
OPS = [name for name in registry() if name.startswith("tenon.")]


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("name", OPS)
def test_upstream_accepts_every_stage(name: str) -> None:
    texts: list[str] = []
    for sample in SAMPLES:
        if sample.op_name != name:
            continue
        module = tenon.jit(lambda *arrays, sample=sample: sample.apply(arrays)).trace(*sample.arrays).module
        for stage in stages(vector_bits=512):
            if stage.name in ("structured", "buffered"):
                texts.append(str(module))
            run_passes(new_context(), module, stage.passes)
        texts.append(str(module))
    assert MLIR_OPT is not None
    result = subprocess.run(
        [MLIR_OPT, "--split-input-file", "-o", "/dev/null"],
        input="\n// -----\n".join(texts),
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr[:4000]
