"""Every pass takes IR of every stage, or says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import DiagnosticException

import tenon
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import PASSES as LOWERING_PASSES
from tenon.lowering.pipeline import run_passes, stages
from tenon.passes.pipeline import PASSES as TENSOR_PASSES
from tenon.runtime.lower import new_context
from tenon.tools.verification import verify_module

PASSES = TENSOR_PASSES | LOWERING_PASSES
# What these must be told follows from the program; their own tests tell it.
TOLD = {"specialize": 'specialize{arguments="6x5xf32,5x4xf32"}', "batch": "batch{size=3}"}
X, W = np.ones((6, 5), np.float32), np.ones((5, 4), np.float32)


def looped(x: Any, w: Any) -> Any:
    carry, sums = tenon.scan(lambda c, row: (tenon.tanh(c * 0.5 + row @ w), tenon.cumsum(row)), x @ w, x[None, :])
    return tenon.sort(carry, axis=1), sums, tenon.zeros((4,)).at[tenon.argmax(carry, axis=0)].add(1.0)


def at_each_stage() -> list[tuple[str, ModuleOp]]:
    module, context = tenon.jit(looped).trace(X, W).module.clone(), new_context()
    found: list[tuple[str, ModuleOp]] = []
    for stage in stages(LoweringOptions()):
        found.append((stage.name, module.clone()))
        run_passes(context, module, stage.passes)
    return [*found, ("final", module)]


def test_every_pass_takes_every_stage_or_says_why_not() -> None:
    wrong: list[str] = []
    for place, (stage, module) in enumerate(at_each_stage()):
        for name, load in PASSES.items():
            (spec,) = parse_pipeline(TOLD.get(name, name))
            changed = module.clone()
            try:
                load().from_spec(spec).apply(new_context(), changed)
            except (DiagnosticException, ValueError, NotImplementedError) as error:
                if not str(error):
                    wrong.append(f"{name} at {stage}: {type(error).__name__} without a message")
                if name in TOLD and place == 0:  # what it is told is right for this program
                    wrong.append(f"{name} at {stage}: {error}")
                continue
            except Exception as error:
                wrong.append(f"{name} at {stage}: {type(error).__name__}: {error}")
                continue
            try:
                verify_module(changed)
            except Exception as error:
                wrong.append(f"{name} at {stage} left invalid ir: {error}")
    assert not wrong, "\n".join(wrong)
