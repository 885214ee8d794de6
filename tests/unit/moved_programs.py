"""Random programs that move elements (slices, joins, gathers, updates) and combine them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import tenon

Shape = tuple[int, ...]
LEAST, MOST = 10 * 1024 // 4, 100 * 1024 // 4
"""Elements of an array."""
RUN = 16
"""Elements of the shortest part of a row."""


@dataclass
class Step:
    """A call of an op on values by number: its result is the next one."""

    op: str
    operands: tuple[int, ...]
    settings: Any = None


@dataclass
class Program:
    """Steps, the last of which gives the result; those without operands are arguments: of floats, or of indices."""

    shapes: list[Shape] = field(default_factory=list)
    """Of all values."""
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step, shape: Shape) -> int:
        """The number of the value that `step` makes."""
        self.steps.append(step)
        self.shapes.append(shape)
        return len(self.steps) - 1

    def arguments(self) -> list[int]:
        """Their numbers."""
        return [n for n, step in enumerate(self.steps) if not step.operands]

    def arrays(self) -> list[Any]:
        """Arrays for the arguments."""
        random = np.random.default_rng(len(self.steps))
        arrays: list[Any] = [random.standard_normal(self.shapes[n], np.float32) for n in self.arguments()]
        for step in self.steps:
            if step.op in ("take", "update"):
                places = step.operands[-1]
                free = self.shapes[step.operands[0]][0] - (
                    self.shapes[step.operands[1]][0] if step.op == "update" else 1
                )
                arrays[self.arguments().index(places)] = random.integers(0, free + 1, self.shapes[places])
        return arrays

    def run(self, arrays: Sequence[Any], by: Callable[[Step, list[Any]], Any]) -> Any:
        """The result, each step done by `by`."""
        given = iter(arrays)
        values: list[Any] = []
        for step in self.steps:
            values.append(by(step, [values[n] for n in step.operands]) if step.operands else next(given))
        return values[-1]

    def __str__(self) -> str:
        return "\n".join(
            f"%{n} = {step.op}{list(step.operands)} {step.settings or ''} : {self.shapes[n]}"
            for n, step in enumerate(self.steps)
        )


def by_tenon(step: Step, x: list[Any]) -> Any:
    """What a step does, in Tenon."""
    at = step.settings
    match step.op:
        case "slice":
            return x[0][tuple(slice(*part) for part in at)]
        case "concatenate":
            return tenon.concatenate(x, axis=at)
        case "pad":
            return tenon.pad(x[0], low=at[0], high=at[1])
        case "flip":
            return tenon.flip(x[0], axis=(at,))
        case "roll":
            return tenon.roll(x[0], shift=at[0], axis=at[1])
        case "transpose":
            return tenon.transpose(x[0], permutation=at)
        case "take":
            return tenon.take(x[0], x[1], axis=0)
        case "update":
            return tenon.dynamic_update_slice(x[0], x[1], (x[2], *[0] * (len(x[0].shape) - 1)))
        case "broadcast":
            return tenon.broadcast_to(x[0], shape=at)
        case "tanh":
            return tenon.tanh(x[0])
        case _:
            return _by_arithmetic(step, x)


def by_numpy(step: Step, x: list[Any]) -> Any:
    """What a step does, in NumPy."""
    at = step.settings
    match step.op:
        case "slice":
            return x[0][tuple(slice(*part) for part in at)]
        case "concatenate":
            return np.concatenate(x, at)
        case "pad":
            return np.pad(x[0], tuple(zip(*at, strict=True)))
        case "flip":
            return np.flip(x[0], at)
        case "roll":
            return np.roll(x[0], *at)
        case "transpose":
            return np.transpose(x[0], at)
        case "take":
            return x[0][x[1]]
        case "update":
            return np.concatenate((x[0][: x[2]], x[1], x[0][x[2] + len(x[1]) :]))
        case "broadcast":
            return np.broadcast_to(x[0], at)
        case "tanh":
            return np.tanh(x[0])
        case _:
            return _by_arithmetic(step, x)


def _by_arithmetic(step: Step, x: list[Any]) -> Any:
    return x[0] * 2.0 + 1.0 if step.op == "scale" else x[0] + x[1]


def drawn(seed: object) -> Program:
    """A program of 2 to 8 steps behind its arguments."""
    draw = random.Random(str(seed))
    program = Program()
    rank = draw.choice((1, 2, 2, 3))
    program.add(Step("argument", ()), _shape(draw, rank))
    wanted = draw.randint(2, 8)
    while wanted:
        wanted -= _extended(draw, program)
    return program


OPS = (
    "slice",
    "concatenate",
    "pad",
    "flip",
    "roll",
    "transpose",
    "take",
    "update",
    "broadcast",
    "scale",
    "tanh",
    "add",
)


def _shape(draw: random.Random, rank: int) -> Shape:
    while True:
        shape = tuple(draw.randint(*{1: (LEAST, MOST), 2: (17, 300), 3: (5, 70)}[rank]) for _ in range(rank))
        if _is_fit(shape) and LEAST <= prod(shape) <= MOST and all(size & (size - 1) for size in shape):
            return shape


def _is_fit(shape: Shape) -> bool:
    """Whether rows are long enough to be moved in runs, and there is neither little nor much."""
    return shape[-1] >= 2 * RUN and LEAST // 4 <= prod(shape) <= 4 * MOST


def _extended(draw: random.Random, program: Program) -> bool:
    """Whether a step was found that has the last value for an operand."""
    n, op = len(program.shapes) - 1, draw.choice(OPS)
    shape = program.shapes[n]
    axis = draw.randrange(len(shape))
    least = RUN if axis == len(shape) - 1 else 1
    match op:
        case "slice":
            parts = [_part(draw, size) for size in shape]
            result = tuple(len(range(size)[slice(*part)]) for part, size in zip(parts, shape, strict=True))
            return _added(program, Step(op, (n,), parts), result)
        case "concatenate":
            size = draw.randint(least, 2 * shape[axis])
            before, behind = shape[:axis], shape[axis + 1 :]
            result = (*before, size + shape[axis], *behind)
            return _added(program, Step(op, (n,), axis), result, (*before, size, *behind))
        case "pad":
            low, high = (tuple(draw.choice((0, 1, 3)) for _ in shape) for _ in range(2))
            result = tuple(map(sum, zip(low, shape, high, strict=True)))
            return _added(program, Step(op, (n,), (low, high)), result)
        case "flip":
            return _added(program, Step(op, (n,), axis), shape)
        case "roll":
            shift = draw.randint(least, max(least, shape[axis] - least))
            return _added(program, Step(op, (n,), (shift, axis)), shape)
        case "transpose":
            permutation = tuple(draw.sample(range(len(shape)), len(shape)))
            return _added(program, Step(op, (n,), permutation), tuple(shape[p] for p in permutation))
        case "take":
            rows = draw.randint(1, 2 * shape[0])
            return _added(program, Step(op, (n,)), (rows, *shape[1:]), (rows,))
        case "update":
            rows = draw.randint(1, shape[0])
            return _added(program, Step(op, (n,)), shape, (rows, *shape[1:]), ())
        case "broadcast":
            result = (draw.choice((2, 3)), *shape)
            return len(shape) < 4 and _added(program, Step(op, (n,), result), result)
        case "scale" | "tanh":
            return _added(program, Step(op, (n,)), shape)
        case _:
            floats = [m for m in range(n) if program.steps[m].op != "indices" and program.shapes[m] == shape]
            if floats and draw.random() < 0.5:
                return _added(program, Step(op, (n, draw.choice(floats))), shape)
            return _added(program, Step(op, (n,)), shape, shape)


def _added(program: Program, step: Step, result: Shape, *arguments: Shape) -> bool:
    """Add a step that has further `arguments`, if its result is fit."""
    if not _is_fit(result):
        return False
    kinds = {"take": ("indices",), "update": ("argument", "indices")}.get(step.op, ("argument",))
    added = [program.add(Step(kind, ()), shape) for kind, shape in zip(kinds, arguments, strict=False)]
    program.add(Step(step.op, (*step.operands, *added), step.settings), result)
    return True


def _part(draw: random.Random, size: int) -> tuple[int, int, int]:
    start, step = draw.randrange(1 + size // 3), draw.choice((1, 1, 2, 3))
    return start, draw.randint(max(start + 1, 2 * size // 3), size), step
