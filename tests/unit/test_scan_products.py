"""The gradient of a recurrent layer computes no product that the layer computed."""

from __future__ import annotations

import importlib
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest

from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.types.types import shape_of
from tenon.lowering.pipeline import run_passes
from tenon.passes.pipeline import TENSOR_PIPELINE
from tenon.runtime.lower import new_context

sys.path.insert(0, str(Path(__file__).parents[2]))

recurrent: Any = importlib.import_module("benchmarks.workloads.recurrent")
WORKLOADS = {workload.name: workload for workload in recurrent.WORKLOADS}


def multiply_adds(workload: str) -> int:
    """Those of contractions, in loops as often as these run, once kernels are to be made of them."""
    chosen = WORKLOADS[workload]
    run = chosen.contestants["tenon"](chosen.inputs()).run
    module = run.func.trace(*run.args).module.clone()
    run_passes(new_context(), module, TENSOR_PIPELINE[:-1])
    total = 0
    for op in module.walk():
        if isinstance(op, ContractOp):
            extents = op.loops([shape_of(operand.type) for operand in op.operands], op.settings).extents
            count, around = prod(extents), op.parent_op()
            while isinstance(around, ScanOp):
                count, around = count * around.steps, around.parent_op()
            total += count
    return total


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize(("layer", "gates"), [("lstm", 4), ("gru", 3)])
def test_no_product_is_computed_twice(layer: str, gates: int, batch: int) -> None:
    forward = multiply_adds(f"{layer}-batch-{batch}")
    assert forward == 2 * recurrent.STEPS * batch * gates * recurrent.UNITS**2
    assert multiply_adds(f"{layer}-batch-{batch}-gradient") == 3 * forward
