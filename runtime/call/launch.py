"""What native calls run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Launch:
    """What an entry calls: a function of a C array of addresses, that of inputs, results and its scratch memory.

    `inputs` has the arrays that are the same at every call, and `None` for those that a call gives. Each result is the
    input whose memory it takes over (-1: none), a dtype and a shape. `is_long` says that other threads should run
    meanwhile. `code` is kept.
    """

    main: int
    inputs: Sequence[np.ndarray[Any, Any] | None]
    arena: np.ndarray[Any, Any]
    results: Sequence[tuple[int, np.dtype[Any], tuple[int, ...]]]
    is_long: bool
    code: Any
