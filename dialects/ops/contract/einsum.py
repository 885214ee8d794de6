"""Sums of products in Einstein notation, with ellipses and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np
from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.definition.promotion import own_element
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.types import compute_type, f32, promote

Factor = tuple[Any, str]
"""A tensor, and a letter for each of its dimensions."""


@tensor_function
def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products in Einstein notation, as NumPy's: `einsum("bij,bjk->bik", x, y)`.

    Letters that are missing behind the arrow are summed over; without an arrow, those that occur once remain, in
    alphabetical order. `...` stands for any number of dimensions, which are aligned at the last one. A letter that
    occurs twice in one operand takes its diagonal. Dimensions of one letter are equal or 1, which broadcasts. Raises
    `ValueError` for an equation that does not fit the operands. Many operands are multiplied two at a time, those
    first whose product takes the fewest steps.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tenon.einsum("ij,kj->ik", x, x)
    >>> tenon.einsum("ii", x)
    """
    common = promote([own_element(x, "einsum") for x in operands]) if operands else f32
    if len(operands) > 2 and common != compute_type(common):
        wide = [ops.cast(x, dtype=compute_type(common)) for x in operands]
        return ops.cast(einsum(equation, *wide), dtype=common)
    shapes = [tuple(x.shape) if isinstance(x, Value) else np.shape(x) for x in operands]
    terms, output = _parsed(equation, [len(shape) for shape in shapes])
    sizes = _sizes(terms, shapes)
    factors: list[Factor] = []
    for operand, term, shape in zip(operands, terms, shapes, strict=True):
        kept = [axis for axis, letter in enumerate(term) if shape[axis] == sizes[letter]]
        whole = len(kept) == len(shape)
        factor = operand if whole else ops.reshape(operand, shape=tuple([shape[axis] for axis in kept]))
        factors.append((factor, "".join([term[axis] for axis in kept])))
    while len(factors) > 2:
        pair = _cheapest(factors, sizes)
        if _steps(*[term for _, term in pair], sizes=sizes) == _steps(*sizes, sizes=sizes):
            break  # two at a time are no fewer steps than all at once
        factors = [factor for factor in factors if not any(factor is chosen for chosen in pair)]
        needed = set(output).union(*[term for _, term in factors])
        remaining = "".join(sorted(set(pair[0][1] + pair[1][1]) & needed))
        factors.append((_contracted(pair, remaining, sizes), remaining))
    return _contracted(factors, output, sizes)


def _steps(*terms: str, sizes: dict[str, int]) -> int:
    """How many steps the loops over all letters of `terms` take."""
    return prod(sizes[letter] for letter in set("".join(terms)))


def _cheapest(factors: Sequence[Factor], sizes: dict[str, int]) -> tuple[Factor, Factor]:
    """The two factors whose product takes the fewest steps."""
    return min(combinations(factors, 2), key=lambda pair: _steps(pair[0][1], pair[1][1], sizes=sizes))


def _contracted(factors: Sequence[Factor], output: str, sizes: dict[str, int]) -> Any:
    """The product of the factors, summed over the letters that are not in `output`."""
    letters = set("".join([term for _, term in factors]))
    # The loops of the result come first, those that are summed over last.
    order = [*output, *sorted(letters - set(output))]
    maps = [_map(term, order) for term in (*[term for _, term in factors], output)]
    extents = tuple([sizes[letter] for letter in order])
    operands = tuple([factor for factor, _ in factors])
    return ops.contract(operands, maps=tuple(maps), extents=extents, shape=extents[: len(output)])


def _map(letters: Sequence[str], order: Sequence[str]) -> AffineMap:
    """The index of a tensor whose dimensions are `letters`, in terms of the loops `order`."""
    return AffineMap(len(order), 0, tuple([AffineExpr.dimension(order.index(letter)) for letter in letters]))


def _parsed(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """A letter for each dimension of each operand and of the result, those of the ellipses included."""
    inputs, arrow, output = "".join(equation.split()).partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: equation {equation!r} has {len(terms)} operands, got {len(ranks)}")
    free = [letter for letter in ascii_letters if letter not in equation]
    covered = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for position, (term, rank, hidden) in enumerate(zip(terms, ranks, covered, strict=True)):
        if hidden < 0 or (hidden and "..." not in term):
            raise ValueError(f"einsum: {term!r} has {rank - hidden} dimensions, and operand {position} has {rank}")
    depth = max([hidden for term, hidden in zip(terms, covered, strict=True) if "..." in term], default=0)
    if depth > len(free):
        raise ValueError(f"einsum: equation {equation!r} has too many dimensions")
    ellipsis = "".join(free[:depth])
    if not arrow:
        letters = inputs.replace(".", "").replace(",", "")
        output = ("..." if "..." in inputs else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    written = [term.replace("...", ellipsis[depth - hidden :], 1) for term, hidden in zip(terms, covered, strict=True)]
    result = output.replace("...", ellipsis, 1)
    is_formed = all(letter in ascii_letters for letter in "".join((*written, result)))
    if not is_formed or not set(result) <= set("".join(written)) or len(set(result)) != len(result):
        raise ValueError(f"einsum: equation {equation!r} is not of the form 'ij,jk->ik'")
    return written, result


def _sizes(terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The extent of each letter; where it is 1 in one operand, that of the others."""
    sizes: dict[str, int] = {}
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for letter, size in zip(term, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known == 1:
                sizes[letter] = size
            elif size not in (1, known):
                raise ValueError(f"einsum: dimension {letter} is {known} and, in operand {position}, {size}")
    return sizes
