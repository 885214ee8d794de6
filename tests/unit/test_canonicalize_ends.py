"""Random programs on scalars, sizes of 1 and constants come to rest: rules that undo each other would not."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest
from seeds import run_seed
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting
from tenon.dialects.types.types import element_type, tensor_type
from tenon.passes.pipeline import PASSES
from tenon.passes.simplify import canonicalize

SHAPES = ((), (1,), (1, 1), (3,), (1, 3), (3, 1), (3, 3))
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
KEPT = ("1005208079 27",)
"""Seeds of programs that once did not: a use by an op that nobody needs kept a rule from a chain of ops behind it."""
UNARY = ("negative", "abs", "square", "reciprocal")


def grown(random: Random, values: list[Value]) -> Value:
    """One more value, computed from some of `values`."""
    x = random.choice(values)
    match random.randrange(9):
        case 0:
            return getattr(tenon, random.choice(UNARY))(x)
        case 1:
            number = random.choice((-0.0, 0.0, 1.0, -1.0, 2.0, 0.5, 3.0))
            constant = np.full(random.choice(SHAPES[:3]), number, "f4")
            pair = (x, constant) if random.random() < 0.5 else (constant, x)
            return getattr(tenon, random.choice(BINARY))(*pair)
        case 2 | 3:
            y = random.choice([v for v in values if v.shape == x.shape or prod(v.shape) == 1])
            pair = (x, y) if random.random() < 0.5 else (y, x)
            return getattr(tenon, random.choice(BINARY))(*pair)
        case 4:
            return tenon.reshape(x, random.choice([s for s in SHAPES if prod(s) == prod(x.shape)]))
        case 5 if x.ndim:
            return tenon.sum(x, axis=random.randrange(x.ndim), keepdims=random.random() < 0.5)
        case 6:
            y = random.choice([v for v in values if v.ndim and v.shape[-1] == 3] or [x])
            rows = tenon.reshape(y, (prod(y.shape[:-1]), y.shape[-1])) if y.ndim else tenon.reshape(y, (1, 1))
            return tenon.matmul(rows, tenon.transpose(rows))
        case 7:
            return tenon.select(tenon.less(x, random.choice((0.0, 1.0))), x, tenon.negative(x))
        case _:
            return tenon.broadcast_to(x, (3, 3)) if x.shape != (3, 1) else tenon.transpose(x)


def program(random: Random) -> ModuleOp:
    types = [tensor_type(shape, element_type("f32")) for shape in random.sample(SHAPES, 3)]
    main = func.FuncOp("main", (types, []))
    with inserting(InsertionPoint(main.body.block)):
        values = [Value(argument) for argument in main.body.block.args]
        for _ in range(random.randrange(3, 14)):
            values.append(grown(random, values))
        emit(func.ReturnOp(*[value.ssa for value in values[-3:]]))
    main.update_function_type()
    return ModuleOp([main])


def simplified(module: ModuleOp) -> str:
    PASSES["canonicalize"]()().apply(Context(), module)
    return str(module)


def test_random_programs_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a tenth of the rewrites that are allowed for each op, and so that a second run changes nothing."""
    monkeypatch.setattr(canonicalize, "MOST_REWRITES", 10)
    for seed in (*KEPT, *[f"{run_seed()} {number}" for number in range(300)]):
        module = program(Random(seed))
        for name in ("decompose", "layout"):
            once = simplified(module)
            assert simplified(module) == once, f"{seed}, before {name}"
            PASSES[name]()().apply(Context(), module)
