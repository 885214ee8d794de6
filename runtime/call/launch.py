"""What native calls run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Launch:
    """What an entry calls: a function of a C array of addresses, that of inputs, results and its scratch memory.

    `inputs` has the arrays that are the same at every call, and `None` for those that a call gives, whose `shapes` are
    those of the interface. Each result is the input whose memory it takes over (-1: none), a dtype and a shape.
    `is_long` says that other threads should run meanwhile. `code` is kept.

    A program for all sizes takes the numbers of `sizes`, serves calls where the sizes in `positive` are that, and has
    in place of an arena the size of one.
    """

    main: int
    inputs: Sequence[np.ndarray[Any, Any] | None]
    shapes: Sequence[Sequence[Any]]
    arena: np.ndarray[Any, Any] | int
    results: Sequence[tuple[int, np.dtype[Any], tuple[int, ...]]]
    is_long: bool
    code: Any
    sizes: Sequence[str] = ()
    positive: Sequence[Any] = ()
