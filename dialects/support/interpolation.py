"""How much elements count for a value between them, by their distance from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Kernel = Callable[[Array], Array]


def linear(distance: Array) -> Array:
    """Linear interpolation."""
    return np.maximum(1 - np.abs(distance), 0)


def cubic(a: float) -> Kernel:
    """Keys, "Cubic convolution interpolation for digital image processing", IEEE ASSP 1981, equation 4."""

    def kernel(distance: Array) -> Array:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    return kernel
