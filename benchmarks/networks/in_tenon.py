"""The networks as users of Tenon write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenon
from benchmarks.networks import HEADS, LAYERS, LEARNING_RATE, TOKENS, VOCABULARY, WIDTH, Problem
from tenon import nn, optim


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(784, 512)
        self.second = nn.Linear(512, 512)
        self.third = nn.Linear(512, 10)

    def forward(self, x: Any) -> Any:
        return self.third(tenon.relu(self.second(tenon.relu(self.first(x)))))


class Lenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, images: Any) -> Any:
        x = tenon.max_pool2d(tenon.relu(self.conv1(images)), window=2)
        x = tenon.max_pool2d(tenon.relu(self.conv2(x)), window=2)
        x = tenon.reshape(x, (images.shape[0], -1))
        return self.fc3(tenon.relu(self.fc2(tenon.relu(self.fc1(x)))))


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
        parts = tenon.reshape(self.qkv(self.norm1(x)), (batch, tokens, 3, HEADS, WIDTH // HEADS))
        q, k, v = [tenon.transpose(parts[:, :, part], (0, 2, 1, 3)) for part in range(3)]
        scores = q @ tenon.transpose(k, (0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5
        weights = tenon.softmax(tenon.select(np.tri(tokens, dtype=bool), scores, -np.inf))
        mixed = tenon.reshape(tenon.transpose(weights @ v, (0, 2, 1, 3)), (batch, tokens, WIDTH))
        x = x + self.projection(mixed)
        return x + self.down(tenon.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = np.zeros((TOKENS, WIDTH), np.float32)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


MODULES = {"mlp": Mlp, "lenet": Lenet, "transformer": Transformer}
optimizer = optim.Adam(lr=LEARNING_RATE)


@tenon.jit(donate=("model", "state"))
def train_step(model: Any, state: Any, inputs: Any, labels: Any) -> Any:
    """A step of training: the changed model and state, and the loss before."""

    def loss(model: Any) -> Any:
        return tenon.cross_entropy(model(inputs), labels)

    value, gradients = tenon.value_and_grad(loss)(model)
    model, state = optimizer.update(model, gradients, state)
    return model, state, value


def start(network: str, problem: Problem) -> tuple[Any, Any]:
    """The model with the problem's parameters, and Adam's state."""
    model = MODULES[network]()
    model.load_state_dict({name: value.copy() for name, value in problem.parameters.items()})
    return model, optimizer.init(model)


def stepper(network: str, problem: Problem, *, device: str = "cpu") -> Callable[[], Any]:
    """A function that does a step and gives the loss before it."""
    model, state = start(network, problem)
    inputs, labels = problem.inputs, problem.labels
    if device != "cpu":
        import cupy  # pyright: ignore[reportMissingImports]

        model = model.to(device)
        state = optimizer.init(model)
        inputs, labels = cupy.asarray(inputs), cupy.asarray(labels)

    def step() -> Any:
        nonlocal model, state
        model, state, value = train_step(model, state, inputs, labels)
        return value

    return step
