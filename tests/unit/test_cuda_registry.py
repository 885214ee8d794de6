"""The CUDA text of every op: under the host shim it gives what the oracle says, and NVRTC compiles it.

On a machine with a GPU, `pytest -m gpu` runs the same samples there.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_shim import COMPILER, PLAIN_FLAGS, SCHEDULES, load_on_shim
from samples import Sample, samples_of
from seeds import drawn
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.families import SerialRowsOp
from tenon.dialects.families.opaque import OpaqueOp
from tenon.lowering.cuda.emit_cuda import emit_cuda
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower
from tenon.passes.machine import GPU
from tenon.runtime.cuda import nvrtc
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import map_to_grid, new_context


def _is_on_cuda(name: str) -> bool:
    """Whether an op is computed there: one that brings code of its own says for which targets."""
    op = registry()[name]
    return (
        not issubclass(op, OpaqueOp)
        or issubclass(op, SerialRowsOp)
        or any(kernel.target == "cuda" for kernel in op.KERNELS)
    )


OPS = [name for name in registry() if name.startswith("tenon.") and _is_on_cuda(name)]


MOST = 6
"""How many samples of an op run under the shim, if not fewer are drawn; the device runs all of them."""


def loops(sample: Sample) -> ModuleOp:
    """The sample as scalar loops."""
    traced = tenon.jit(lambda *arrays: sample.apply(arrays)).trace(*sample.arrays)
    return lower(new_context(), traced.module.clone(), LoweringOptions(gpu=GPU), verify=knobs.verify)


@pytest.mark.skipif(COMPILER is None, reason="the host shim needs g++")
@pytest.mark.parametrize("name", OPS)
def test_shim_matches_oracle(name: str) -> None:
    samples, _ = drawn(samples_of(name, MOST), name)
    executables = load_on_shim([loops(sample) for sample in samples], flags=PLAIN_FLAGS)
    for sample, executable in zip(samples, executables, strict=True):
        arrays = [np.array(array, order="C") for array in sample.arrays]
        for schedule in SCHEDULES:
            sample.check(executable(arrays, schedule))


@pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="NVRTC is not installed")
@pytest.mark.parametrize("name", OPS)
def test_nvrtc_compiles(name: str) -> None:
    (sample,) = samples_of(name, 1)
    module = loops(sample)
    map_to_grid(module)
    for architecture in ("sm_80", "sm_90"):
        assert nvrtc.compile_cubin(emit_cuda(module, architecture), architecture).startswith(b"\x7fELF")


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPS)
def test_device_matches_oracle(name: str) -> None:
    for sample in samples_of(name):
        function = tenon.jit(lambda *arrays, sample=sample: sample.apply(arrays), device="cuda")
        try:
            results = function(*sample.arrays)
        except TypeError as error:
            if re.search(r"of dtype (float[468]|u?int[24])\w*, of which CuPy has no arrays", str(error)) is None:
                raise
            continue
        sample.check([result.get() for result in results])
