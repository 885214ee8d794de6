"""Sums of products in Einstein notation, with ellipses and diagonals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np
from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.definition.one_program import one_program
from tenon.dialects.definition.promotion import own_element
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import compute_type, f32, promote

SEARCHES = ("auto", "optimal", "dp", "greedy")
"""Those of opt_einsum's searches for an order that find the same one each time."""

Factor = tuple[Any, str]
"""A tensor, and a letter for each of its dimensions."""


@tensor_function
def einsum(equation: str, *operands: Any, optimize: str | Sequence[Sequence[int]] = "auto") -> Any:
    """Sums of products in Einstein notation, as NumPy's: `einsum("bij,bjk->bik", x, y)`.

    Letters that are missing behind the arrow are summed over; without an arrow, those that occur once remain, in
    alphabetical order. `...` stands for any number of dimensions, which are aligned at the last one. A letter that
    occurs twice in one operand takes its diagonal. Dimensions of one letter are equal or 1, which broadcasts. Raises
    `ValueError` for an equation or an `optimize` that does not fit the operands. These may also be in one list.

    Three operands and more are multiplied two at a time, in the order in which opt_einsum counts the fewest products:
    `optimize` is how it looks for one, "auto" (all orders of few operands), "optimal" (all orders), "dp" (all that
    multiply no two operands without a common letter) or "greedy". Sizes that are open when a program is compiled count
    as 1024. Where pairs take no fewer steps than all operands at once, and sum nothing, all are multiplied at
    once. Or `optimize` is the order itself, as opt_einsum's and NumPy's paths: a list of positions of operands, which
    are multiplied and whose product goes to the end, and so on; those left at the end are multiplied at once.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tenon.einsum("ij,kj->ik", x, x)
    >>> tenon.einsum("ij,jk,k->i", x, x, np.ones(2), optimize=[(1, 2), (0, 1)])
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple) and "," in equation:
        operands = tuple(operands[0])  # PyTorch's form
    return _einsum(equation, *operands, optimize=optimize)


@one_program("equation", "optimize")
def _einsum(equation: str, *operands: Any, optimize: str | Sequence[Sequence[int]]) -> Any:
    common = promote([own_element(x, "einsum") for x in operands]) if operands else f32
    if len(operands) > 2 and common != compute_type(common):
        wide = [ops.cast(x, dtype=compute_type(common)) for x in operands]
        return ops.cast(_einsum(equation, *wide, optimize=optimize), dtype=common)
    shapes = [tuple(x.shape) if isinstance(x, Value) else np.shape(x) for x in operands]
    terms, output = _parsed(equation, [len(shape) for shape in shapes])
    sizes = _sizes(terms, shapes)
    factors: list[Factor] = []
    for operand, term, shape in zip(operands, terms, shapes, strict=True):
        kept = [axis for axis, letter in enumerate(term) if shape[axis] == sizes[letter]]
        whole = len(kept) == len(shape)
        factor = operand if whole else ops.reshape(operand, shape=tuple([shape[axis] for axis in kept]))
        factors.append((factor, "".join([term[axis] for axis in kept])))
    if isinstance(optimize, str):
        path = _found_path([term for _, term in factors], output, sizes, optimize)
    else:
        path = _checked_path(optimize, len(factors))
    for positions in path:
        if len(positions) == len(factors):
            break
        chosen = [factors[position] for position in positions]
        factors = [factor for position, factor in enumerate(factors) if position not in positions]
        kept = _order_of_product([term for _, term in chosen], set(output).union(*[term for _, term in factors]))
        factors.append((_contracted(chosen, kept, sizes), kept))
    return _contracted(factors, output, sizes)


@tensor_function
@one_program()
def multi_dot(matrices: Sequence[Any]) -> Any:
    """The product of two or more `matrices` (m, k), (k, n), …, multiplied in the order that takes the fewest products,
    as `numpy.linalg.multi_dot` does.

    The first may be a vector, a row, and the last one, a column; such a dimension is left out of the result. `matmul`
    is computed in the order that is written, as floats are rounded differently in another. Raises `ValueError` for
    other ranks and for dimensions that differ.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tenon.multi_dot([x, x, np.ones(2)])
    """
    shapes = [tuple(x.shape) if isinstance(x, Value) else np.shape(x) for x in matrices]
    ranks = [len(shape) for shape in shapes]
    if not 2 <= len(ranks) < len(ascii_letters):
        raise ValueError(f"multi_dot: matrices has {len(ranks)} entries where 2 to {len(ascii_letters) - 1} are needed")
    for position, rank in enumerate(ranks):
        if rank != 2 and not (rank == 1 and position in (0, len(ranks) - 1)):
            raise ValueError(f"multi_dot: matrices[{position}] has rank {rank} where 2 is needed")
    for position, (left, right) in enumerate(pairwise(shapes)):
        if left[-1] != right[0]:
            names = f"matrices[{position}]", f"matrices[{position + 1}]"
            raise ValueError(f"multi_dot: dimension k is {left[-1]} in {names[0]} and {right[0]} in {names[1]}")
    terms = [ascii_letters[position : position + 2] for position in range(len(ranks))]
    if ranks[0] == 1:
        terms[0] = terms[0][1]
    if ranks[-1] == 1:
        terms[-1] = terms[-1][0]
    kept = terms[0][: ranks[0] - 1] + terms[-1][len(terms[-1]) - ranks[-1] + 1 :]
    return einsum(f"{','.join(terms)}->{kept}", *matrices, optimize="dp")


def _found_path(terms: Sequence[str], output: str, sizes: Mapping[str, Any], search: str) -> Sequence[Sequence[int]]:
    """Which factors to multiply, and so on, for the fewest products."""
    if search not in SEARCHES:
        raise ValueError(f"einsum: optimize is {search!r}, which is none of {', '.join(SEARCHES)}, nor a path")
    if len(terms) < 3:
        return ()
    from opt_einsum import contract_path  # only now: few programs need it

    extents = {letter: estimate(size) for letter, size in sizes.items()}
    shapes = [tuple([extents[letter] for letter in term]) for term in terms]
    path, _ = contract_path(f"{','.join(terms)}->{output}", *shapes, shapes=True, optimize=search)
    left, taken = list(terms), list[tuple[int, ...]]()
    for positions in path:
        chosen = [left[position] for position in positions]
        others = [term for position, term in enumerate(left) if position not in positions]
        product = _order_of_product(chosen, set(output).union(*others))
        steps, least = _steps(chosen, extents), _steps(left, extents)
        # Of as many steps those that sum products of two are faster, in tiles; without a sum they would store more.
        if steps > least or (steps == least and len(product) == len(set("".join(chosen)))):
            break
        taken.append(tuple(positions))
        left = [*others, product]
    return taken


def _checked_path(path: Sequence[Sequence[int]], count: int) -> Sequence[Sequence[int]]:
    """A path that was given, if it fits `count` operands."""
    left = count
    for positions in path:
        if len(set(positions)) != len(positions) or not positions or not all(0 <= p < left for p in positions):
            raise ValueError(f"einsum: optimize has {tuple(positions)!r} where operands 0 to {left - 1} are left")
        left -= len(positions) - 1
    return path


def _steps(terms: Sequence[str], extents: Mapping[str, int]) -> int:
    """How many steps the loops over all letters of `terms` take."""
    return prod(extents[letter] for letter in set("".join(terms)))


def _order_of_product(terms: Sequence[str], needed: Collection[str]) -> str:
    """The dimensions of a product that are `needed` later: those that all factors have, then those of one after the
    other, so that loops of a factor are neighbours."""
    letters = [letter for letter in dict.fromkeys("".join(terms)) if letter in needed]
    return "".join(sorted(letters, key=lambda letter: not all(letter in term for term in terms)))


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
    if not is_formed:
        raise ValueError(f"einsum: equation {equation!r} is not of the form 'ij,jk->ik'")
    for letter in result:
        if letter not in "".join(written):
            raise ValueError(f"einsum: {letter!r} is behind the arrow of {equation!r}, and in no operand")
        if result.count(letter) > 1:
            raise ValueError(f"einsum: {letter!r} is {result.count(letter)} times behind the arrow of {equation!r}")
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
