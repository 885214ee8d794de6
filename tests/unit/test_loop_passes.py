"""What passes move out of loops: the same numbers as a loop in NumPy, and as many steps or none."""

from __future__ import annotations

from typing import Any

import numpy as np
from test_transform import doubles

import tenon


def test_what_leaves_nested_loops() -> None:
    @tenon.jit
    def program(w: Any, b: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = tenon.while_loop(lambda v: tenon.sum(v * v) > tenon.sum(w * w), lambda v: v * 0.5 + tenon.exp(-row), h)
            return tenon.tanh(h @ w.T + tenon.sum(b)), h

        return tenon.scan(step, x[0], x)

    w, b, x = doubles(4, 4), doubles(3, seed=1), 3 * doubles(5, 4, seed=2)
    h, states = x[0], []
    for row in x:
        while (h * h).sum() > (w * w).sum():
            h = h * 0.5 + np.exp(-row)
        states.append(h)
        h = np.tanh(h @ w.T + b.sum())
    last, stacked = program(w, b, x)
    np.testing.assert_allclose(last, h)
    np.testing.assert_allclose(stacked, states)
