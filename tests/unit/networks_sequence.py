"""Layers on sequences: (time, features) of an example."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from networks import Array, Layer, Oracle, Shape, Tree, Weight, matrix, need

import tenon


def _is_sequence(shape: Shape) -> None:
    need(len(shape) == 2, "no sequence")


@dataclass(frozen=True, repr=False)
class Embedding(Layer):
    """Tokens as rows of a table, with a vector for each place."""

    vocabulary: int
    size: int
    places: bool = False

    def result(self, shape: Shape) -> Shape:
        need(len(shape) == 1, "no tokens")
        return (*shape, self.size)

    def weights(self, shape: Shape) -> Tree:
        w: dict[str, Weight] = {"table": Weight((self.vocabulary, self.size), 1.0)}
        return w | {"places": Weight((shape[0], self.size), 0.5)} if self.places else w

    def tenon(self, w: Tree, x: Any) -> Any:
        rows = tenon.embedding(w["table"], x)
        return rows + w["places"] if self.places else rows

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        rows = F.embedding(x, w["table"])
        return rows + w["places"] if self.places else rows


def visible(kind: str, rows: int, columns: int) -> Array | None:
    """Which keys (columns) each query sees."""
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if kind == "causal":
        return column <= row
    if kind == "window":
        return abs(column - row) <= 2
    if kind == "padding":
        return np.broadcast_to(column < max(1, columns * 3 // 4), (rows, columns))
    return None


ADDED = -1e4
"""What masks add to scores that are not seen."""


def _masked(scores: Any, kind: str, how: str, rows: int, columns: int) -> Any:
    """Scores of which the mask leaves those that are seen; each way of writing it is one that programs have."""
    if kind == "alibi":
        slope = np.float32(-0.25) * np.abs(np.arange(rows)[:, None] - np.arange(columns)[None, :]).astype(np.float32)
        return scores + slope.astype(scores.dtype)
    mask = visible(kind, rows, columns)
    if mask is None:
        return scores
    if how == "compared" and kind in ("causal", "window"):
        row, column = tenon.arange(rows)[:, None], tenon.arange(columns)[None, :]
        seen = column <= row if kind == "causal" else tenon.abs(column - row) <= 2
        return tenon.select(seen, scores, -np.inf)
    if how == "added":
        return scores + np.where(mask, 0, ADDED).astype(scores.dtype)
    return tenon.select(mask, scores, -np.inf)


def _angles(time: int, size: int, dtype: Any) -> tuple[Array, Array]:
    angles = np.arange(time)[:, None] * 100.0 ** (-np.arange(size // 2) / (size // 2))
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


@dataclass(frozen=True, repr=False)
class Attention(Layer):
    """Attention of several heads, of which groups may share keys and values (`shared`).

    `context` is the length of another sequence, which is learned, that is attended to; without it, it is the input
    itself. `rotary` turns queries and keys by their places (Su et al., arXiv:2104.09864).
    """

    heads: int = 1
    size: int = 1
    shared: int = 1
    context: int = 0
    mask: str = "none"
    written: str = "constant"
    rotary: bool = False

    def result(self, shape: Shape) -> Shape:
        _is_sequence(shape)
        need(self.heads % self.shared == 0, "heads cannot be shared")
        need(not self.rotary or self.size % 2 == 0, "pairs are turned")
        need(not self.context or (self.mask in ("none", "padding", "alibi")), "every query sees something")
        return shape

    def weights(self, shape: Shape) -> Tree:
        features, groups = shape[-1], self.heads // self.shared
        w: dict[str, Weight] = {
            "q": matrix(features, self.heads * self.size),
            "k": matrix(features, groups * self.size),
            "v": matrix(features, groups * self.size),
            "o": matrix(self.heads * self.size, features),
        }
        return w | {"context": Weight((self.context, features), 1.0)} if self.context else w

    def work(self, shape: Shape) -> int:
        time, features = shape
        return time * self.heads * self.size * (4 * features + 2 * (self.context or time))

    def tenon(self, w: Tree, x: Any) -> Any:
        batch, time, _ = x.shape
        length, groups = self.context or time, self.heads // self.shared
        seen = w["context"][None] if self.context else x

        def apart(values: Any, count: int) -> Any:
            values = tenon.reshape(values, shape=(*values.shape[:2], count, self.size))
            values = tenon.transpose(values, permutation=(0, 2, 1, 3))
            return values

        # weights may be constants, whose products NumPy would give another dtype
        k, v = (apart(tenon.matmul(seen, w[name]), groups) for name in ("k", "v"))
        q = apart(x @ w["q"], self.heads)
        if self.rotary:
            q, k = self._turned(q, time), self._turned(k, length)
        if self.shared > 1:
            q = tenon.reshape(q, shape=(batch, groups, self.shared, time, self.size))
            k, v = k[:, :, None], v[:, :, None]
        scores = q @ tenon.transpose(k, permutation=(*range(k.ndim - 2), k.ndim - 1, k.ndim - 2)) * self.size**-0.5
        weights = tenon.softmax(_masked(scores, self.mask, self.written, time, length), axis=-1)
        mixed = tenon.reshape(weights @ v, shape=(batch, self.heads, time, self.size))
        mixed = tenon.transpose(mixed, permutation=(0, 2, 1, 3))
        return tenon.reshape(mixed, shape=(batch, time, self.heads * self.size)) @ w["o"]

    def _turned(self, x: Any, time: int) -> Any:
        cos, sin = _angles(time, self.size, x.dtype)
        first, second = x[..., : self.size // 2], x[..., self.size // 2 :]
        return tenon.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        batch, time, _ = x.shape
        length, groups = self.context or time, self.heads // self.shared
        seen = w["context"].expand(batch, -1, -1) if self.context else x

        def apart(values: Any, count: int) -> Any:
            return values.unflatten(-1, (count, self.size)).transpose(1, 2)

        q, k, v = apart(x @ w["q"], self.heads), apart(seen @ w["k"], groups), apart(seen @ w["v"], groups)
        if self.rotary:
            q, k = (self._turned_in_torch(y) for y in (q, k))
        k, v = (y.repeat_interleave(self.shared, 1) for y in (k, v))
        scores = torch.einsum("bhts,bhus->bhtu", q, k) / self.size**0.5
        if self.mask == "alibi":
            scores = scores - 0.25 * (torch.arange(time)[:, None] - torch.arange(length)).abs().to(x.dtype)
        mask = visible(self.mask, time, length)
        if mask is not None:
            # What is added hides nothing whose scores are larger.
            hidden = scores + ADDED if self.written == "added" else torch.full_like(scores, -torch.inf)
            scores = torch.where(torch.from_numpy(mask.copy()), scores, hidden)
        mixed = torch.einsum("bhtu,bhus->bths", oracle.softmax(scores, -1), v)
        return mixed.flatten(2) @ w["o"]

    @staticmethod
    def _turned_in_torch(x: Any) -> Any:
        cos, sin = (torch.from_numpy(y).to(x.dtype) for y in _angles(x.shape[-2], x.shape[-1], np.float64))
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True, repr=False)
class Recurrent(Layer):
    """An RNN, GRU or LSTM by `scan`, with torch's order of gates; torch calls its cells one after the other."""

    size: int
    kind: str = "rnn"
    reverse: bool = False

    def result(self, shape: Shape) -> Shape:
        _is_sequence(shape)
        return (shape[0], self.size)

    def weights(self, shape: Shape) -> Tree:
        wide = GATES[self.kind] * self.size
        bias = Weight((wide,), 0.2)
        return {"x": matrix(shape[1], wide), "h": matrix(self.size, wide), "bx": bias, "bh": bias}

    def work(self, shape: Shape) -> int:
        return shape[0] * GATES[self.kind] * self.size * (shape[1] + self.size)

    def tenon(self, w: Tree, x: Any) -> Any:
        given = tenon.transpose(x @ w["x"] + w["bx"], permutation=(1, 0, 2))
        start = tenon.multiply(given[0, :, : self.size], 0)

        def step(state: Any, item: Any) -> tuple[Any, Any]:
            h = state[0]
            own = h @ w["h"] + w["bh"]
            parts = [slice(n * self.size, (n + 1) * self.size) for n in range(GATES[self.kind])]
            if self.kind == "rnn":
                h = tenon.tanh(item + own)
                return (h,), h
            if self.kind == "gru":
                reset, update = (tenon.sigmoid(item[:, p] + own[:, p]) for p in parts[:2])
                new = tenon.tanh(item[:, parts[2]] + reset * own[:, parts[2]])
                h = (1 - update) * new + update * h
                return (h,), h
            i, f, g, o = ((item + own)[:, p] for p in parts)
            c = tenon.sigmoid(f) * state[1] + tenon.sigmoid(i) * tenon.tanh(g)
            h = tenon.sigmoid(o) * tenon.tanh(c)
            return (h, c), h

        initial = (start, start) if self.kind == "lstm" else (start,)
        _, rows = tenon.scan(step, initial, given, reverse=self.reverse)
        return tenon.transpose(rows, permutation=(1, 0, 2))

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        h = c = x.new_zeros(x.shape[0], self.size)
        rows = []
        weights = (w["x"].T, w["h"].T, w["bx"], w["bh"])
        for item in reversed(x.unbind(1)) if self.reverse else x.unbind(1):
            if self.kind == "lstm":
                h, c = torch.lstm_cell(item, (h, c), *weights)
            elif self.kind == "gru":
                h = oracle.gated(torch.gru_cell(item, h, *weights))
            else:
                h = torch.rnn_tanh_cell(item, h, *weights)
            rows.append(h)
        return torch.stack(rows[::-1] if self.reverse else rows, 1)


@dataclass(frozen=True, repr=False)
class Gather(Layer):
    """What is left of a sequence: its mean, its largest values, or what is last; or running sums of it."""

    kind: str = "mean"

    def result(self, shape: Shape) -> Shape:
        _is_sequence(shape)
        return shape if self.kind == "running" else shape[1:]

    def tenon(self, w: Tree, x: Any) -> Any:
        match self.kind:
            case "mean":
                return tenon.mean(x, axis=1)
            case "max":
                return tenon.max(x, axis=1)
            case "last":
                return x[:, -1]
            case _:
                return tenon.cumsum(x, axis=1) * 0.25

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        match self.kind:
            case "mean":
                return x.mean(1)
            case "max":
                return oracle.near(lambda x: x.amax(1), x, torch.arange(x.shape[1], dtype=x.dtype)[:, None])
            case "last":
                return x[:, -1]
            case _:
                return x.cumsum(1) * 0.25


@dataclass(frozen=True, repr=False)
class Swap(Layer):
    """Time and features in each other's place: what mixes places."""

    def result(self, shape: Shape) -> Shape:
        _is_sequence(shape)
        need(prod(shape) > 0, "empty")
        return shape[::-1]

    def tenon(self, w: Tree, x: Any) -> Any:
        return tenon.transpose(x, permutation=(0, 2, 1))

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return x.transpose(1, 2)
