"""`split-index-sets`: what moves ranges of elements keeps every one, and loops know what their indices are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1
from xdsl.ir import Block, Operation

import tenon
from tenon.passes.fuse.known_places import KnownPlaces

Array = Any
Step = Callable[[Any, list[Array]], Array]
"""Computes with functions of `tenon` or NumPy from the arrays before."""

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def _padded(module: Any, x: Array, low: tuple[int, int], high: tuple[int, int], mode: str) -> Array:
    low, high = [(*most, *(0,) * (x.ndim - 2)) for most in (low, high)]
    if module is tenon:
        return tenon.pad(x, low, high, mode=mode)  # pyright: ignore[reportArgumentType]
    return np.pad(x, tuple(zip(low, high, strict=True)), mode)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _steps(draw: random.Random, shape: tuple[int, int], count: int) -> list[Step]:
    """A program on the first two dimensions of arrays, those of the first of which have `shape`."""
    shapes = [shape]
    steps: list[Step] = []
    for _ in range(count):
        at, axis = draw.randrange(len(shapes)), draw.randrange(2)
        rows, columns = shapes[at]
        match draw.choice(("join", "pad", "slice", "roll", "flip", "compute", "add")):
            case "join":
                alike = [n for n, other in enumerate(shapes) if other[1 - axis] == shapes[at][1 - axis]]
                parts = [draw.choice(alike) for _ in range(draw.randint(1, 3))]
                step: Step = lambda m, a, p=parts, x=axis: m.concatenate([a[n] for n in p], axis=x)  # noqa: E731
            case "pad":
                low, high = [(draw.randint(0, rows - 1), draw.randint(0, columns - 1)) for _ in range(2)]
                mode = draw.choice(MODES)
                step = lambda m, a, n=at, b=low, e=high, k=mode: _padded(m, a[n], b, e, k)  # noqa: E731
            case "slice":
                starts = draw.randrange(rows), draw.randrange(columns)
                limits = draw.randint(starts[0] + 1, rows), draw.randint(starts[1] + 1, columns)
                r, c = [slice(a, b, draw.choice((1, 1, 2))) for a, b in zip(starts, limits, strict=True)]
                back = draw.choice((1, -1, -2, -3, -5))
                step = lambda m, a, n=at, r=r, c=c, k=back: a[n][r, c][:, ::k]  # noqa: E731
            case "roll":
                shift = draw.randint(-rows, rows)
                step = lambda m, a, n=at, s=shift, x=axis: m.roll(a[n], s, axis=x)  # noqa: E731
            case "flip":
                step = lambda m, a, n=at, x=axis: m.flip(a[n], axis=x)  # noqa: E731
            case "compute":
                step = lambda m, a, n=at: m.maximum(a[n] * 2 - 3, a[n])  # noqa: E731
            case _:
                other = draw.choice([n for n, other in enumerate(shapes) if other == shapes[at]])
                step = lambda m, a, n=at, o=other: a[n] + a[o]  # noqa: E731
        example = [np.zeros(known, np.int32) for known in shapes]
        shapes.append(step(np, example).shape)
        if max(shapes[-1]) > 200:
            shapes.pop()
        else:
            steps.append(step)
    return steps


@pytest.mark.parametrize("pixel", [(), (3,)], ids=str)
@pytest.mark.parametrize("seed", range(24))
def test_moved_ranges(seed: int, pixel: tuple[int, ...]) -> None:
    draw = random.Random(seed)
    rows, columns = draw.randint(2, 9), draw.randint(2, 120)
    steps = _steps(draw, (rows, columns), 8)
    dtype = draw.choice(("float32", "float64", "int32", "int8"))
    x = np.random.default_rng(seed).integers(-40, 40, (rows, columns, *pixel)).astype(dtype)

    def program(module: Any, x: Array) -> list[Array]:
        arrays = [x]
        for step in steps:
            arrays.append(step(module, arrays))
        last = arrays[-1]
        combined = [module.max(last, axis=1), module.argmax(last, axis=0)]
        if dtype.startswith("float"):
            combined += [module.sum(last, axis=axis) for axis in (0, 1)]
        return [arrays[-2], last, *combined]

    for known, expected in zip(tenon.jit(lambda x: program(tenon, x))(x), program(np, x), strict=True):
        np.testing.assert_array_equal(known, expected)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_narrow_integers_wrap(dtype: str) -> None:
    x, most = np.arange(40).astype(dtype), int(np.iinfo(dtype).max)

    def program(module: Any, padded: Array) -> Array:
        return module.where(padded + 1 > 0, padded, padded - 1)

    known = tenon.jit(lambda x: program(tenon, tenon.pad(x, (20,), (20,), value=most)))(x)
    np.testing.assert_array_equal(known, program(np, np.pad(x, 20, constant_values=most)))


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a % 2**64 < b % 2**64,
}


def _random_body(draw: random.Random) -> list[tuple[Operation, Callable[[int], int]]]:
    """Ops on the index of a loop, and what each is at an iteration, in Python."""
    ops: list[tuple[Operation, Callable[[int], int]]] = [(linalg.ops.IndexOp(0), lambda i: i)]
    for number in [draw.randint(-9, 20) for _ in range(4)]:
        ops.append((arith.ConstantOp(IntegerAttr(number, IndexType())), lambda _, n=number: n))
    for _ in range(12):
        numbers = [entry for entry in ops if entry[0].results[0].type == IndexType()]
        (x, f), (y, g) = draw.choice(numbers), draw.choice(numbers)
        a, b = x.results[0], y.results[0]
        predicate = draw.choice(tuple(COMPARISONS))
        truths = [entry for entry in ops if entry not in numbers]
        condition, holds = draw.choice(truths) if truths else (None, f)
        choices: list[tuple[Operation, Callable[[int], int]]] = [
            (arith.AddiOp(a, b), lambda i, f=f, g=g: f(i) + g(i)),
            (arith.SubiOp(a, b), lambda i, f=f, g=g: f(i) - g(i)),
            (arith.MuliOp(a, ops[1][0].results[0]), lambda i, f=f, n=ops[1][1]: f(i) * n(i)),
            (arith.MaxSIOp(a, b), lambda i, f=f, g=g: max(f(i), g(i))),
            (arith.MinSIOp(a, b), lambda i, f=f, g=g: min(f(i), g(i))),
            (arith.RemUIOp(a, b), lambda i, f=f, g=g: f(i) % 2**64 % (g(i) % 2**64 or 1)),
            (arith.CmpiOp(a, b, predicate), lambda i, f=f, g=g, p=predicate: int(COMPARISONS[p](f(i), g(i)))),
        ]
        if condition is not None:
            select = arith.SelectOp(condition.results[0], a, b)
            choices.append((select, lambda i, f=f, g=g, h=holds: f(i) if h(i) else g(i)))
        ops.append(draw.choice(choices))
    return ops


@pytest.mark.parametrize("seed", range(50))
def test_known_places_are_those_of_each_iteration(seed: int) -> None:
    ops = _random_body(random.Random(seed))
    body = Block([op for op, _ in ops])
    pending, known_ones = [(0, 30)], 0
    while pending:
        start, limit = pending.pop()
        known = KnownPlaces(body, [(start, limit)])
        for op, value in ops:
            place = known.places.get(op.results[0])
            if place is not None:
                assert set(place.factors) <= {0}
                for i in range(start, limit):
                    assert place.constant + place.factors.get(0, 0) * i == value(i), op
                known_ones += 1
        for _, cut in known.cuts.values():
            assert start < cut < limit
        if known.cuts:
            _, cut = min(known.cuts.values())
            pending += [(start, cut), (cut, limit)]
    assert known_ones >= len(ops) // 2


def test_choices_between_many_parts_are_followed() -> None:
    """As in a stack of 3000 elements: each choice is between an element and what the next one comes to."""
    body = Block(arg_types=[i1, IndexType()])
    condition, value = body.args
    chosen = value
    for _ in range(3000):
        op = arith.SelectOp(condition, value, chosen)
        body.add_op(op)
        chosen = op.result
    assert KnownPlaces(body, []).resolved(chosen) is value
