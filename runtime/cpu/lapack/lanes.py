"""Matrices side by side: vectors with a lane for each of several matrices, in native code that `ir_writer` writes."""

from __future__ import annotations

from collections.abc import Callable

from tenon.runtime.cpu.ir_types import F64, I1, I8, Signature, Type, pointer, vector
from tenon.runtime.cpu.ir_values import Function, Value
from tenon.runtime.cpu.ir_writer import Module

COUNT = 8
"""How many matrices are computed side by side: as many as the widest vectors have reals; others take several."""

REALS = vector(COUNT, F64)
VECTORS = pointer(REALS)
TRUTHS = vector(COUNT, I1)


def function(name: str, x: Value, *more: Value) -> Value:
    """A function of LLVM's (`sqrt`, `fabs`, ...) in each lane."""
    signature = Signature(REALS, (REALS,) * (1 + len(more)))
    return Function(x.code, f"llvm.{name}.v{COUNT}f64", signature)(x, *more)


def minus_product(x: Value, a: Value, b: Value) -> Value:
    """x - a b, rounded once where the processor does that."""
    product = x.code.made(REALS, f"fmul contract {REALS.text} {a.read()}, {b.read()}")
    return x.code.made(REALS, f"fsub contract {REALS.text} {x.read()}, {product.read()}")


def any_of(where: Value) -> Value:
    """Whether there are such lanes."""
    return where.bits(I8) != 0


def gathered(code: Module, target: Value, source: Value, count: Value) -> None:
    """Put the matrices at `source`, of `count` elements each, side by side: a vector for each element."""
    stored = source.kind.to
    assert isinstance(stored, Type)
    kind = vector(COUNT, stored)
    with code.each(count) as i:
        elements = Value(code, kind, "poison")
        for lane in range(COUNT):
            element = source[count * lane + i]
            given = f"{kind.text} {elements.read()}, {stored.text} {element.read()}"
            elements = code.made(kind, f"insertelement {given}, i64 {lane}")
        target[i] = elements.to(REALS)


def scattered(code: Module, target: Value, source: Value, count: Value) -> None:
    """Put matrices that are side by side where they are stored, one behind the other."""
    stored = target.kind.to
    assert isinstance(stored, Type)
    kind = vector(COUNT, stored)
    with code.each(count) as i:
        elements = source[i].to(kind)
        for lane in range(COUNT):
            element = code.made(stored, f"extractelement {kind.text} {elements.read()}, i64 {lane}")
            target[count * lane + i] = element


def for_each_group(code: Module, stacks: Value, use: Callable[[Value], None]) -> None:
    """Write `use(first)` for groups of so many matrices, `first` being the number of the first one; the last group ends
    with the last matrix, and so may begin inside of the one before."""
    with code.each((stacks + (COUNT - 1)) // COUNT) as group:
        start, last = group * COUNT, stacks - COUNT
        use(code.select(start < last, start, last))
