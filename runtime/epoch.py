"""What native calls must have been prepared after: a number that grows when something changes what calls mean."""

from __future__ import annotations

import numpy as np

EPOCH = np.zeros(1, np.int64)


def expire() -> None:
    """Make the next call of each compiled function take the general way."""
    EPOCH[0] += 1
