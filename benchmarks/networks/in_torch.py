"""The networks in torch, with its attention and its fused kernels where it has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.networks import HEADS, LAYERS, LEARNING_RATE, TOKENS, VOCABULARY, WIDTH, Problem


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(784, 512)
        self.second = nn.Linear(512, 512)
        self.third = nn.Linear(512, 10)

    def forward(self, x: Any) -> Any:
        return self.third(F.relu(self.second(F.relu(self.first(x)))))


class Lenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, images: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        batch, tokens, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.zeros(TOKENS, WIDTH))
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


MODULES = {"mlp": Mlp, "lenet": Lenet, "transformer": Transformer}


def stepper(network: str, problem: Problem, *, compiled: bool = False, device: str = "cpu") -> Callable[[], Any]:
    """A function that does a step and gives the loss before it. Compiled, forward and backward are `torch.compile`'s,
    and so is Adam; on a GPU, Adam is PyTorch's one kernel, and a graph of all is replayed.
    """
    is_replayed = compiled and device != "cpu"
    model = MODULES[network]()
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in problem.parameters.items()})
    model.to(device)
    is_fused = True if is_replayed or not compiled else None
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=is_fused, capturable=is_replayed)
    inputs = torch.from_numpy(problem.inputs).to(device)
    labels = torch.from_numpy(problem.labels).long().flatten().to(device)

    def loss(inputs: Any, labels: Any) -> Any:
        scores = model(inputs)
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels)

    measured: Any = torch.compile(loss, dynamic=False) if compiled else loss
    update: Any = torch.compile(optimizer.step) if compiled and not is_replayed else optimizer.step

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        value = measured(inputs, labels)
        value.backward()
        update()
        return value.detach()

    return _replayed(step) if is_replayed else step


def _replayed(step: Callable[[], Any]) -> Callable[[], Any]:
    """A step as a CUDA graph, after three that ran."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = step()

    return partial(_replay, graph, value, step)


def _replay(graph: Any, value: Any, _step: Callable[[], Any]) -> Any:
    """Replay a graph, which reads and writes what the step holds."""
    graph.replay()
    return value
