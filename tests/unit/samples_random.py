"""Samples of random ops: Threefry restated in NumPy tells which elements dropout keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, Array, add, numbers

_KEY = np.array([0x13198A2E, 0x03707344], np.int32)


def threefry(key: Array, counter: tuple[Any, Any]) -> tuple[Array, Array]:
    """The two words for counters (arrays, or a number for the second), as NumPy's unsigned integers."""
    k = [np.uint32(key[0]), np.uint32(key[1])]
    k.append(k[0] ^ k[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x, y = np.broadcast_arrays(np.asarray(counter[0], np.uint32) + k[0], np.uint32(counter[1]) + k[1])
        for group in range(5):
            for bits in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x = x + y
                y = ((y << np.uint32(bits)) | (y >> np.uint32(32 - bits))) ^ x
            x, y = x + k[(group + 1) % 3], y + k[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _dropped(x: Array, key: Array, rate: float) -> tuple[Array, Array]:
    words, _ = threefry(key.view(np.uint32), (np.arange(x.size), 0))
    kept = ((words >> np.uint32(8)) * 2.0**-24 >= rate).reshape(x.shape)
    return np.where(kept, x / (1 - rate) if rate < 1 else 0.0, 0.0), kept


for _rate in (0.0, 0.25, 0.5, 1.0):
    add(
        "dropout",
        [numbers("dropout", (5, 7)), _KEY],
        lambda x, key, rate=_rate: _dropped(x, key, rate)[0],
        rate=_rate,
        differentiable=True,
    )
for _dtype in (F16, BF16, F64):
    _x = numbers("dropout", (13,), _dtype)
    add("dropout", [_x, _KEY], lambda x, key: _dropped(x, key, 0.5)[0])
    add("dropout_with_mask", [_x, _KEY], lambda x, key: _dropped(x, key, 0.5))
for _shape in ((), (2, 0), (3, 1, 4)):
    add("dropout", [numbers("dropout", _shape, F32), _KEY], lambda x, key: _dropped(x, key, 0.5)[0])
    add("dropout_with_mask", [numbers("dropout", _shape, F32), _KEY], lambda x, key: _dropped(x, key, 0.5))
