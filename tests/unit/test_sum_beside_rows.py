"""Gradients of norms on a GPU: sums of columns beside rows, in one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from cuda_shim import COMPILER, SCHEDULES, load_on_shim

import tenon
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower
from tenon.passes.machine import GPUS
from tenon.runtime.lower import new_context

F32 = np.dtype(np.float32)
SMALL = replace(GPUS["sm_90a"], multiprocessors=2)
"""On which few rows are groups."""


def layer_norm(own: Any, x: Any, w: Any, b: Any) -> Any:
    return own.layer_norm(x, x.shape[-1:], w, b)


CASES: list[tuple[Callable[..., Any], tuple[int, ...], Any, int]] = [
    (layer_norm, (4, 24, 100), F32, 1),  # whose ends are no whole vectors, with sums of other, longer rows
    (layer_norm, (64, 64), np.dtype(ml_dtypes.bfloat16), 2),  # a scale as f32, and what is rounded in the end
    (layer_norm, (32, 4616), F32, 0),  # of which blocks copy the next row while they compute with one
]
"""Norms, the shapes and dtypes of what they are of, and how many other kernels there are than those of sums."""


@pytest.mark.skipif(COMPILER is None, reason="the host shim needs g++")
def test_gradients_of_norms_read_memory_once() -> None:
    random, modules, expected = np.random.default_rng(0), list[Any](), list[Any]()
    for function, shape, dtype, _ in CASES:
        x, g = (random.normal(size=shape).astype(dtype) for _ in "xg")
        learned = [random.normal(size=shape[-1:]).astype(dtype) for _ in range(function.__code__.co_argcount - 2)]

        def pulled(g: Any, *given: Any, function: Callable[..., Any] = function) -> Any:
            slopes = tenon.vjp(lambda *given: function(tenon.nn.functional, *given), *given, cotangent=g)[1]
            return (*slopes, slopes[0].sum(axis=0)) if g.ndim == 3 else slopes

        traced = tenon.jit(pulled).trace(g, x, *learned).module
        modules.append(lower(new_context(), traced.clone(), LoweringOptions(gpu=SMALL)))
        assert ("pipeline(" in str(modules[-1])) is (shape[-1] > 4096)
        exact = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in (x, *learned)]
        function(torch.nn.functional, *exact).backward(torch.tensor(g.astype(np.float64)))
        slopes = [a.grad.numpy() for a in exact if a.grad is not None]
        expected.append(([g, x, *learned], [*slopes, slopes[0].sum(0)] if len(shape) == 3 else slopes))
    for (arrays, slopes), (_, _, dtype, others), executable in zip(expected, CASES, load_on_shim(modules), strict=True):
        for schedule in SCHEDULES:
            for found, slope in zip(executable(arrays, schedule), slopes, strict=True):
                error = np.abs(found.astype(np.float64) - slope).max() / np.abs(slope).max()
                assert error < (3e-6 if dtype == F32 else 1e-2)
        launched = set(executable.backend.launches)
        assert len(launched) == 2 + others
        assert {name.partition("_sums")[2].lstrip("0") for name in launched} >= {"", "_columns"}
