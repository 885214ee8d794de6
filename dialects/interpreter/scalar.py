"""NumPy implementation of the dialect `scalar`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.interpreter.interpreter import computes
from tenon.dialects.interpreter.math import in_float64
from tenon.dialects.upstream.scaling import ScaleOp

_FARTHEST = 4096
"""Powers of two beyond which no product of floats is another."""


@computes(ScaleOp)
@in_float64
def _scale(x: Any, exponent: Any) -> Any:
    """`x * 2 ** exponent`; float64 holds the product of an f32 exactly."""
    return np.ldexp(x, np.clip(np.nan_to_num(exponent), -_FARTHEST, _FARTHEST).astype(np.int32))
