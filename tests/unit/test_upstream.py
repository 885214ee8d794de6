"""What is printed at each stage reads back as it was, and from the structured stage on upstream `mlir-opt` takes it
and prints what is read here."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from samples import samples_of
from seeds import drawn
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.upstream.module_parser import ModuleParser
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import run_passes, stages
from tenon.passes.machine import MACHINES
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import new_context

MLIR_OPT = shutil.which("mlir-opt-22")
OPS = [name for name in registry() if name.startswith("tenon.")]
OPTIONS = LoweringOptions(MACHINES["avx512"])
MOST, LOWERED = 4, 2
"""How many samples of an op are tried, if not fewer are drawn, and how many in the stages after the first, whose texts
take long to parse."""


def texts_of(name: str) -> list[str]:
    """The samples of an op as text: structured, on buffers, as loops."""
    texts: list[str] = []
    lowered = set(map(str, samples_of(name, LOWERED)))
    for sample in drawn(samples_of(name, MOST), name)[0]:
        module = tenon.jit(lambda *arrays, sample=sample: sample.apply(arrays)).trace(*sample.arrays).module
        for stage in stages(OPTIONS):
            if stage.name in ("structured", "buffered"):
                texts.append(str(module))
            if stage.name == "structured" and str(sample) not in lowered:
                break
            run_passes(new_context(), module, stage.passes, verify=knobs.verify)
        else:
            texts.append(str(module))
    return texts


def names_of_ops(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk()]


@pytest.mark.parametrize("name", OPS)
def test_every_stage_reads_back_and_is_accepted_upstream(name: str) -> None:
    texts = texts_of(name)
    context = new_context()
    ours: list[list[str]] = []
    for text in texts:
        module = Parser(context, text).parse_module()
        module.verify()
        assert str(module) == text
        ours.append(names_of_ops(module))
    if MLIR_OPT is None:
        pytest.skip("mlir-opt-22 is not installed")
    result = subprocess.run(
        [MLIR_OPT, "--split-input-file", "--mlir-print-debuginfo"],
        input="\n// -----\n".join(texts),
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr[:4000]
    for names, theirs in zip(ours, result.stdout.split("// -----"), strict=True):
        module = ModuleParser(context, theirs).parse_module()
        module.verify()
        assert names_of_ops(module) == names
