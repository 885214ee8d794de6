"""Programs on arrays, run with any module of functions, and the builder that draws them step by step.

A program is run by `run` with any module of functions: Tenon's or `numpy_ops`. While a program is drawn, NumPy runs
along twice, in the program's dtypes and with all floats in double precision. That tells every shape, keeps values in a
sane range, tells how far rounding alone may move a result, and which values are exact (small integers): ops that jump,
such as comparisons, only get these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy_ops

Array = np.ndarray[Any, Any]
Choose = Callable[[Sequence[Any]], Any]
"""One of several options, of which the first are the simplest."""

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
F32, F64, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(bool)
I8, I32, I64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)
FLOATS, INTEGERS = (F32, F64, F16, BF16), (I32, I64, I8)
DTYPES = (*FLOATS, *INTEGERS, BOOL)
EXACT_UP_TO = {F16: 2**11, BF16: 2**8, F32: 2**24, F64: 2**50}
"""Integers up to here are stored exactly."""
LARGEST_VALUE = 1000.0
LARGEST_SIZE = 20_000
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 67, 0)


@dataclass
class Block:
    """Steps on values known by number, and which of them are the result."""

    arguments: tuple[int, ...]
    steps: list[Step] = field(default_factory=list)
    results: tuple[int, ...] = ()


@dataclass
class Step:
    """A call of an op, or of a control flow function with blocks."""

    op: str
    operands: tuple[int, ...]
    settings: dict[str, Any]
    results: tuple[int, ...]
    blocks: tuple[Block, ...] = ()


@dataclass
class Program:
    """A block with arrays for its arguments, and the results that NumPy has for it: as is, and in double precision."""

    block: Block
    arrays: list[Array]
    results: list[Array]
    exact: list[Array]

    def run(self, ops: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The results with the functions of `ops`, on values for the arguments."""
        return run(self.block, dict(zip(self.block.arguments, arrays, strict=True)), ops)

    def __repr__(self) -> str:
        arguments = (f"{n}: {a.dtype}{list(a.shape)}" for n, a in zip(self.block.arguments, self.arrays, strict=True))
        return f"program({', '.join(arguments)}):\n" + show(self.block, "  ")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def precisions(program: Program) -> list[int]:
    """For each result the bytes of the narrowest float that it is computed from."""
    sizes = dict(zip(program.block.arguments, map(_float_size, (a.dtype for a in program.arrays)), strict=True))
    return _precisions(program.block, sizes)


def _precisions(block: Block, outside: dict[int, int]) -> list[int]:
    sizes = dict(outside)
    for step in block.steps:
        found = [8, *(sizes[n] for n in step.operands), _float_size(step.settings.get("dtype", "int64"))]
        for inner in step.blocks:
            found += _precisions(inner, sizes | dict.fromkeys(inner.arguments, min(found)))
        sizes |= dict.fromkeys(step.results, min(found))
    return [sizes[n] for n in block.results]


def _float_size(dtype: Any) -> int:
    return np.dtype(dtype).itemsize if is_float(np.dtype(dtype)) else 8


def show(block: Block, indent: str) -> str:
    """The block as text, for what hypothesis reports."""
    lines: list[str] = []
    for step in block.steps:
        settings = "".join(f", {key}={value}" for key, value in step.settings.items())
        operands = ", ".join(f"%{n}" for n in step.operands)
        lines.append(f"{indent}{', '.join(f'%{n}' for n in step.results)} = {step.op}({operands}{settings})")
        lines += [f"{indent}  block{inner.arguments}:\n{show(inner, indent + '    ')}" for inner in step.blocks]
    return "\n".join([*lines, f"{indent}return {', '.join(f'%{n}' for n in block.results)}"])


def run(block: Block, values: dict[int, Any], ops: Any, watch: Callable[[Any], None] | None = None) -> tuple[Any, ...]:
    """The results of `block` where `values` are its arguments and what is defined outside."""
    values = dict(values)
    for step in block.steps:
        if step.blocks:
            results = _run_control(step, values, ops, watch)
        elif step.op in ("concatenate", "stack") and ops is not numpy_ops:
            results = getattr(ops, step.op)(tuple([values[n] for n in step.operands]), **step.settings)
        else:
            results = getattr(ops, step.op)(*[values[n] for n in step.operands], **step.settings)
        results = results if isinstance(results, tuple) else (results,)
        if watch is not None:
            for result in results:
                watch(result)
        values.update(zip(step.results, results, strict=True))
    return tuple([values[n] for n in block.results])


def _run_control(step: Step, values: dict[int, Any], ops: Any, watch: Callable[[Any], None] | None) -> Any:
    def inner(block: Block, *arguments: Any) -> tuple[Any, ...]:
        return run(block, values | dict(zip(block.arguments, arguments, strict=True)), ops, watch)

    operands = [values[n] for n in step.operands]
    if step.op == "cond":
        then, otherwise = step.blocks
        return ops.cond(operands[0], lambda: inner(then), lambda: inner(otherwise))
    (block,) = step.blocks
    if step.op == "scan":
        return ops.scan(lambda carry, item: inner(block, carry, item), *operands, **step.settings)
    trips = step.settings["trips"]
    start = (np.int32(0) if ops is numpy_ops else values[step.operands[-1]], *operands[:-1])
    result = ops.while_loop(lambda s: s[0] < trips, lambda s: (s[0] + np.int32(1), *inner(block, *s[1:])), start)
    return result[1:]


@dataclass(frozen=True)
class Known:
    """What a value is while a program is drawn: the array, the array in double precision, whether both are exact."""

    native: Array
    wide: Array
    exact: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.native.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.native.dtype

    @property
    def is_float(self) -> bool:
        return is_float(self.dtype)


def is_float(dtype: Any) -> bool:
    """Whether a dtype is a floating-point one; NumPy does not count bfloat16."""
    return dtype in (F16, BF16, F32, F64)


def widened(x: Array) -> Array:
    """Floats in double precision."""
    return x.astype(F64) if is_float(x.dtype) else x


class Rejected(Exception):
    """A step that would leave the range in which results can be compared."""


class Builder:
    """Draws steps into a block. Blocks of control flow have builders of their own, which share inputs and numbers."""

    def __init__(self, choose: Choose, smooth: bool, dtypes: Sequence[Any], outer: Builder | None = None) -> None:
        self.choose, self.smooth, self.dtypes, self.outer = choose, smooth, dtypes, outer
        self.root: Builder = outer.root if outer else self
        self.known: dict[int, Known] = dict(outer.known) if outer else {}
        self.block = Block(())
        self.count = 0
        if outer is None:
            self.random = np.random.default_rng(choose(range(2**16)))
            self.inputs: dict[int, Known] = {}

    def number(self) -> int:
        self.root.count += 1
        return self.root.count

    def define(self, known: Known) -> int:
        """A new number for a value."""
        number = self.number()
        self.known[number] = known
        return number

    def input(self, shape: tuple[int, ...], dtype: Any, low: int = -3, high: int = 3) -> int:
        """A new argument of the program."""
        root = self.root
        exact = not self.smooth
        if exact or not is_float(dtype):
            native = np.asarray(root.random.integers(low, high + 1, shape)).astype(dtype)
        else:
            native = np.asarray(root.random.uniform(-1.5, 1.5, shape)).astype(dtype)
        number = self.define(Known(native, widened(native), True if not is_float(dtype) else exact))
        root.inputs[number] = root.known[number] = self.known[number]
        return number

    def shape(self, ranks: Sequence[int] = (1, 2, 0, 3, 4), sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        shape = tuple(self.choose(sizes) for _ in range(self.choose(ranks)))
        return shape if prod(shape) <= LARGEST_SIZE // 4 else tuple(min(n, 7) for n in shape)

    def pick(self, accept: Callable[[Known], bool] = lambda _: True) -> int:
        """A value for which `accept` holds; `Rejected` without any. Later ones are likelier to be simple to choose."""
        options = [n for n, known in reversed(self.known.items()) if accept(known)]
        if not options:
            raise Rejected
        return self.choose(options)

    def float(self, accept: Callable[[Known], bool] = lambda _: True) -> int:
        return self.pick(lambda k: k.is_float and accept(k))

    def partner(self, number: int, same: bool = False) -> int:
        """A value of the dtype of another one that broadcasts with it (or has its shape)."""
        known = self.known[number]

        def fits(k: Known) -> bool:
            if k.dtype != known.dtype or (same and k.shape != known.shape):
                return False
            try:
                return prod(np.broadcast_shapes(k.shape, known.shape)) <= LARGEST_SIZE
            except ValueError:
                return False

        if not same and self.choose((False, False, True)):
            shape = tuple(self.choose((n, 1)) for n in known.shape)
            return self.input(shape[self.choose((0, *range(len(shape)))) :], known.dtype)
        return self.pick(fits)

    def emit(
        self, op: str, *operands: int, exact: bool = True, blocks: tuple[Block, ...] = (), **settings: Any
    ) -> tuple[int, ...]:
        """Add a step. `exact`: small integers stay integers."""
        step = Step(op, operands, settings, (), blocks)
        block = Block((), [step], ())
        peaks: list[float] = []

        def watch(result: Any) -> None:
            array = np.asarray(result)
            if is_float(array.dtype) and array.size:
                wide = array.astype(F64)
                if not np.isfinite(wide).all() or np.abs(wide).max() > LARGEST_VALUE:
                    raise Rejected
                peaks.append(float(np.abs(wide).max() / EXACT_UP_TO[array.dtype]))
            if array.size > LARGEST_SIZE:
                raise Rejected

        outputs = 2 if op == "scan" else len(blocks[0].results) if blocks else 1
        step.results = block.results = tuple([self.number() for _ in range(outputs)])
        with np.errstate(all="ignore"):
            natives = run(block, {n: k.native for n, k in self.known.items()}, numpy_ops, watch)
            wides = run(block, {n: k.wide for n, k in self.known.items()}, numpy_ops, watch)
        all_exact = exact and all(self.known[n].exact for n in operands) and max(peaks, default=0) < 0.5
        for number, native, wide in zip(step.results, natives, wides, strict=True):
            native, wide = np.asarray(native), np.asarray(wide)
            if native.shape != wide.shape:
                raise Rejected
            self.known[number] = Known(native, wide, self._judge(native, wide, all_exact))
        self.block.steps.append(step)
        return step.results

    @staticmethod
    def _judge(native: Array, wide: Array, exact: bool) -> bool:
        """Whether a result is exact; `Rejected` where rounding moves it too far for a comparison."""
        if not is_float(native.dtype):
            if not np.array_equal(native, wide):
                raise Rejected
            return True
        scale = 1 + np.abs(wide).max(initial=0)
        if np.abs(native.astype(F64) - wide).max(initial=0) > scale * (0.05 if native.itemsize == 2 else 1e-3):
            raise Rejected
        return exact and np.array_equal(native.astype(F64), wide)

    def axes(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Some axes, also negative ones."""
        chosen = [a for a in range(rank) if self.choose((True, False))]
        if len(chosen) < least:
            chosen = [self.choose(range(rank))]
        return tuple([self.choose((a, a - rank)) for a in chosen])
