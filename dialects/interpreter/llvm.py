"""NumPy implementation of the instructions that `llvm.call_intrinsic` names."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError, implements
from tenon.dialects.interpreter.math import in_float64
from tenon.dialects.upstream.intrinsics import SCALE, CallIntrinsicOp

_FARTHEST = 4096
"""Powers of two beyond which no product of floats is another."""


@in_float64
def _scale(x: Any, exponent: Any) -> Any:
    """`x * 2 ** floor(exponent)`; float64 holds the product of an f32 exactly."""
    whole = np.floor(np.clip(np.nan_to_num(exponent), -_FARTHEST, _FARTHEST))
    return np.ldexp(x, whole.astype(np.int32))


@implements(CallIntrinsicOp)
def _call_intrinsic(interpreter: Interpreter, op: Operation, *operands: Any) -> tuple[Any]:
    assert isinstance(op, CallIntrinsicOp)
    name = op.intrin.data
    if not name.startswith(SCALE):
        raise InterpreterError(f"{op.name}: the interpreter does not know the instruction {name}")
    x, exponent, others, mask = operands[:4]
    lanes = np.arange(x.size)
    taken = (int(mask) >> lanes) & 1 == 1
    scaled = np.where(taken, _scale(x, exponent), others)
    if name.removeprefix(SCALE) in ("ss", "sd"):
        scaled = np.where(lanes == 0, scaled, x)
    return (scaled,)
