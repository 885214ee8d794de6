"""The network of `digits.py` and its training step, written out in NumPy: what the example is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def patches(x: Array) -> Array:
    """The 3x3 windows of zero-padded (n, c, h, w) as (n, h, w, c*9)."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n, h, w, c * 9)


class NumpyNetwork:
    """Two convolutions with pooling and a linear layer, trained with Adam."""

    def __init__(self, state: dict[str, Array], lr: float) -> None:
        self.params = {name: value.copy() for name, value in state.items()}
        self.mean = {name: np.zeros_like(value) for name, value in state.items()}
        self.square = {name: np.zeros_like(value) for name, value in state.items()}
        self.lr = lr
        self.time = 0

    def convolve(self, name: str, x: Array) -> tuple[Array, Array]:
        """Convolution and relu, and the windows that the gradient needs."""
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        columns = patches(x)
        y = columns @ weight.reshape(len(weight), -1).T + bias
        return np.maximum(y, 0).transpose(0, 3, 1, 2), columns

    def convolve_back(self, name: str, g: Array, y: Array, columns: Array, x: Array) -> Array:
        """The gradient of the input; those of weight and bias are put into `self.slopes`."""
        weight = self.params[f"{name}.weight"]
        g = np.ascontiguousarray((g * (y > 0)).transpose(0, 2, 3, 1))
        flat = g.reshape(-1, g.shape[-1])
        self.slopes[f"{name}.weight"] = (flat.T @ columns.reshape(len(flat), -1)).reshape(weight.shape)
        self.slopes[f"{name}.bias"] = flat.sum(axis=0)
        n, c, h, w = x.shape
        spread = (flat @ weight.reshape(len(weight), -1)).reshape(n, h, w, c, 3, 3)
        padded = np.zeros((n, c, h + 2, w + 2), x.dtype)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + h, j : j + w] += spread[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]

    @staticmethod
    def pool(x: Array) -> tuple[Array, Array]:
        """2x2 maxima, and where in its window each stands."""
        n, c, h, w = x.shape
        windows = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
        place = windows.argmax(axis=-1)
        return np.take_along_axis(windows, place[..., None], axis=-1)[..., 0], place

    @staticmethod
    def pool_back(g: Array, place: Array) -> Array:
        """Each gradient put where the maximum stood."""
        n, c, h, w = g.shape
        windows = np.zeros((n, c, h, w, 4), g.dtype)
        np.put_along_axis(windows, place[..., None], g[..., None], axis=-1)
        return windows.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)

    def step(self, images: Array, labels: Array) -> float:
        """One training step; returns the loss before it."""
        self.slopes: dict[str, Array] = {}
        y1, columns1 = self.convolve("conv1", images)
        p1, place1 = self.pool(y1)
        y2, columns2 = self.convolve("conv2", p1)
        p2, place2 = self.pool(y2)
        flat = p2.reshape(len(labels), -1)
        weight = self.params["head.weight"]
        scores = flat @ weight.T + self.params["head.bias"]
        shifted = scores - scores.max(axis=1, keepdims=True)
        weights = np.exp(shifted)
        total = weights.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float((np.log(total[:, 0]) - shifted[rows, labels]).mean())
        g = weights / total
        g[rows, labels] -= 1
        g /= len(labels)
        self.slopes["head.weight"], self.slopes["head.bias"] = g.T @ flat, g.sum(axis=0)
        g2 = self.pool_back((g @ weight).reshape(p2.shape), place2)
        g1 = self.pool_back(self.convolve_back("conv2", g2, y2, columns2, p1), place1)
        self.convolve_back("conv1", g1, y1, columns1, images)
        self.update()
        return loss

    def update(self) -> None:
        """Adam, with the defaults of its paper."""
        self.time += 1
        rate = self.lr / (1 - 0.9**self.time)
        root = np.sqrt(1 - 0.999**self.time)
        for name, slope in self.slopes.items():
            mean, square = self.mean[name], self.square[name]
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            self.params[name] -= rate * mean / (np.sqrt(square) / root + 1e-8)
