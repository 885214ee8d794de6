"""Networks as users write them, for PyTorch's modules and for Tenon's alike: `nn` is the one library or the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import tenon

VOCABULARY, LENGTH = 17, 8
MASK = np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1)


class SameDropout(torch.nn.Module):
    """PyTorch's dropout with the masks of Tenon's, whose buffers it has."""

    key: Any
    calls: Any

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.register_buffer("key", torch.randint(0, 2**31 - 1, (2,), dtype=torch.int32))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int32))

    def forward(self, x: Any) -> Any:
        fold_in: Any = tenon.fold_in
        kept = tenon.random_uniform(fold_in(self.key.numpy(), self.calls.numpy()), tuple(x.shape)) >= self.p
        self.calls = self.calls + 1
        return x * torch.tensor(kept) / (1 - self.p)


def dropout(nn: Any, p: float) -> Any:
    return SameDropout(p) if nn is torch.nn else nn.Dropout(p)


def gpt(nn: Any, width: int = 16, heads: int = 2) -> Any:
    """A transformer of one block that predicts the next of `LENGTH` tokens."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.dropout = dropout(nn, 0.1)

        def forward(self, x: Any, mask: Any) -> Any:
            batch, length, _ = x.shape
            all_heads = self.attention(self.first(x)).reshape(batch, length, 3, heads, width // heads)
            query, key, value = (all_heads[:, :, i].swapaxes(1, 2) for i in range(3))
            scores = query @ key.swapaxes(-1, -2) / math.sqrt(width // heads) + mask
            found = (scores.softmax(-1) @ value).swapaxes(1, 2).reshape(batch, length, width)
            x = x + self.dropout(self.projection(found))
            return x + self.mlp(self.second(x))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
            self.block, self.norm = Block(), nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)

        def forward(self, tokens: Any, places: Any, mask: Any) -> Any:
            x = self.tokens(tokens) + self.places(places)
            return self.head(self.norm(self.block(x, mask))).flatten(0, 1)

    return Gpt()


def tagger(nn: Any, width: int = 8) -> Any:
    """A label for each token, by an LSTM that is written by hand."""

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, width)
            self.of_input, self.of_state = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width, bias=False)
            self.out = nn.Linear(width, 5)

        def forward(self, tokens: Any, zeros: Any) -> Any:
            x, state, cell = self.of_input(self.table(tokens)), zeros, zeros
            scores: list[Any] = []
            for t in range(tokens.shape[1]):
                gates = x[:, t] + self.of_state(state)
                into, keep, out, new = (gates[:, i * width : (i + 1) * width] for i in range(4))
                cell = keep.sigmoid() * cell + into.sigmoid() * new.tanh()
                state = out.sigmoid() * cell.tanh()
                scores.append(self.out(state))
            return (torch if nn is torch.nn else tenon).stack(scores, 1).flatten(0, 1)

    return Tagger()


def resnet(nn: Any, width: int = 64, blocks: tuple[int, ...] = (2, 2, 2, 2), classes: int = 10) -> Any:
    """ResNet-18, with the names of torchvision's."""

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
            self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
            self.relu = nn.ReLU()
            self.downsample = None
            if stride > 1 or before != after:
                self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x: Any) -> Any:
            found = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(found + (x if self.downsample is None else self.downsample(x)))

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
            self.relu, self.maxpool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
            before = width
            for stage, count in enumerate(blocks):
                after = width * 2**stage
                first = Block(before, after, 1 if stage == 0 else 2)
                layer = nn.Sequential(first, *[Block(after, after, 1) for _ in range(count - 1)])
                setattr(self, f"layer{stage + 1}", layer)
                before = after
            self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(before, classes)

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            for stage in range(len(blocks)):
                x = getattr(self, f"layer{stage + 1}")(x)
            return self.fc(self.avgpool(x).flatten(1))

    return ResNet()


def generators(nn: Any) -> Any:
    """Two functions, into each other's domains."""
    return _pair(nn, lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh()))


def discriminators(nn: Any) -> Any:
    """Scores for two domains."""
    return _pair(nn, lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)))


def _pair(nn: Any, make: Any) -> Any:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.to_first, self.to_second = make(), make()

    return Pair()


def perceptron(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
