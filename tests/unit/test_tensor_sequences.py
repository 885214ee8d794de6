"""Random sequences of views, changes in place, masks and ops: their values and gradients are those of PyTorch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from seeds import run_seed

import tenon

SHAPE = (4, 5)
Program = list[str]


class Drawn:
    """A program as lines that run in both libraries, with the shapes of its variables and whose memory they show."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: Program = ["v0 = a * 1.5", "v1 = b * 2.0"]
        self.shapes: dict[str, tuple[int, ...]] = {"v0": SHAPE, "v1": SHAPE}
        self.bases = {"v0": "v0", "v1": "v1"}
        steps = (self.part, self.part, self.transposed, self.flat, self.changed, self.changed_by_other, self.assigned)
        more = (self.part_changed, self.masked, self.op_in_place, self.computed, self.of_one, self.gathered)
        for _ in range(self.random.randint(3, 9)):
            name = self.random.choice([*self.shapes])
            self.random.choice((*steps, *more))(name, self.shapes[name])
        squares = " + ".join(f"({name} * {name}).sum()" for name in self.shapes)
        self.lines.append(f"loss = {squares}")

    def new(self, text: str, shape: tuple[int, ...], base: str | None = None) -> None:
        name = f"v{len(self.shapes)}"
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = shape
        self.bases[name] = name if base is None else self.bases[base]

    def key(self, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """A key of integers, slices, `None` and `...`, and the shape that it gives."""
        draw, parts, sizes = self.random, list[str](), list[int]()
        for size in shape:
            kind = draw.random()
            if kind < 0.25:
                parts.append(str(draw.randrange(-size, size)))
            elif kind < 0.6:
                start = draw.randrange(size)
                stop, step = draw.randrange(start + 1, size + 1), draw.choice([1, 1, 2])
                parts.append(f"{start}:{stop}:{step}")
                sizes.append(len(range(start, stop, step)))
            else:
                added = kind < 0.7
                parts += ["None", ":"] if added else [":"]
                sizes += [1, size] if added else [size]
        if draw.random() < 0.3:
            parts.append("...")
        return ", ".join(parts), tuple(sizes)

    def others(self, name: str, shape: tuple[int, ...]) -> list[str]:
        """Variables of a shape that do not share the memory of one."""
        return [other for other, its in self.shapes.items() if its == shape and self.bases[other] != self.bases[name]]

    # --- steps

    def part(self, name: str, shape: tuple[int, ...]) -> None:
        if shape:
            key, seen = self.key(shape)
            self.new(f"{name}[{key}]", seen, name)

    def transposed(self, name: str, shape: tuple[int, ...]) -> None:
        if len(shape) == 2:
            self.new(f"{name}.T", shape[::-1], name)

    def flat(self, name: str, shape: tuple[int, ...]) -> None:
        self.new(f"{name}.reshape(-1)", (int(np.prod(shape)),), name)

    def changed(self, name: str, _: tuple[int, ...]) -> None:
        self.lines.append(f"{name} {self.random.choice(['*= 1.5', '+= 0.5', '-= 0.25'])}")

    def changed_by_other(self, name: str, shape: tuple[int, ...]) -> None:
        if others := self.others(name, shape):
            self.lines.append(f"{name} {self.random.choice('*+-')}= {self.random.choice(others)}")

    def assigned(self, name: str, shape: tuple[int, ...]) -> None:
        if shape:
            key, seen = self.key(shape)
            self.lines.append(f"{name}[{key}] = {self.random.choice([*self.others(name, seen), '0.75'])}")

    def part_changed(self, name: str, shape: tuple[int, ...]) -> None:
        if shape:
            self.lines.append(f"{name}[{self.key(shape)[0]}] {self.random.choice('*+')}= 1.25")

    def masked(self, name: str, _: tuple[int, ...]) -> None:
        self.lines.append(f"{name}[{name} > {self.random.choice(['0.1', '-0.3'])}] = 0.5")

    def op_in_place(self, name: str, _: tuple[int, ...]) -> None:
        self.lines.append(f"{name}.{self.random.choice(['tanh_', 'sigmoid_', 'relu_'])}()")

    def computed(self, name: str, shape: tuple[int, ...]) -> None:
        alike = [other for other, its in self.shapes.items() if its == shape]
        self.new(f"{name} {self.random.choice('*+-')} {self.random.choice(alike)}", shape)

    def of_one(self, name: str, shape: tuple[int, ...]) -> None:
        self.new(f"{name}.{self.random.choice(['tanh', 'exp', 'sin', 'clone'])}()", shape)

    def gathered(self, name: str, shape: tuple[int, ...]) -> None:
        if shape:
            places = [self.random.randrange(-shape[0], shape[0]) for _ in range(3)]
            self.new(f"{name}[{places}]", (3, *shape[1:]))


def run(library: Any, lines: Program) -> tuple[dict[str, Any], list[Any] | None]:
    """The values of all variables, and the gradients of `a` and `b`; `None` if a value was overwritten."""
    numbers = np.random.default_rng(0)
    known = {name: library.tensor(numbers.uniform(-1, 1, SHAPE).astype(np.float32)) for name in "ab"}
    for leaf in known.values():
        leaf.requires_grad_()
    leaves = [*known.values()]
    for line in lines:
        exec(line, {}, known)
    values = {name: np.asarray(value.detach()) for name, value in known.items()}
    try:
        known["loss"].backward()
    except RuntimeError:
        return values, None
    return values, [np.zeros(SHAPE) if leaf.grad is None else np.asarray(leaf.grad) for leaf in leaves]


def slope_along(lines: Program, directions: list[Any]) -> float:
    """The slope of the loss along directions of `a` and `b`, by central differences in f64."""

    def loss(step: float) -> float:
        numbers = np.random.default_rng(0)
        starts = [numbers.uniform(-1, 1, SHAPE).astype(np.float32).astype(np.float64) for _ in "ab"]
        known = {n: torch.from_numpy(s + step * d) for n, s, d in zip("ab", starts, directions, strict=True)}
        for line in lines:
            exec(line, {}, known)
        return float(known["loss"])

    return (loss(1e-6) - loss(-1e-6)) / 2e-6


@pytest.mark.parametrize("seed", [*range(6), "new 0", "new 1"])
def test_random_sequences_agree_with_torch(seed: int | str) -> None:
    number = seed if isinstance(seed, int) else run_seed() * 100 + int(seed.removeprefix("new "))
    lines = Drawn(number).lines
    expected, slopes = run(torch, lines)
    values, gradients = run(tenon, lines)
    told = "\n".join(lines)
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=f"{name} of\n{told}")
    # torch refuses more: it overwrites what Tenon keeps
    assert gradients is not None or slopes is None, told
    for gradient, slope in zip(gradients or (), slopes or (), strict=slopes is not None):
        np.testing.assert_allclose(gradient, slope, rtol=2e-3, atol=1e-4, err_msg=told)
    if gradients is not None and slopes is None:
        directions = [np.random.default_rng(seed).standard_normal(SHAPE) for seed in (1, 2)]
        found = sum([float((g * d).sum()) for g, d in zip(gradients, directions, strict=True)])
        np.testing.assert_allclose(found, slope_along(lines, directions), rtol=2e-3, atol=1e-3, err_msg=told)
