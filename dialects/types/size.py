"""Sizes that are known when a program is launched: `n`, `2*n + 3`, `n//16`.

A `Size` takes the place of a number in shapes and in settings of tensor ops. It is a sum of products of names, each of
which stands for some number >= 0; two sizes are equal if they are the same sum. Arithmetic on sizes gives sizes, and a
question that has one answer for all numbers (`n + 1 > 0`) is answered. All other questions raise
`UndecidedSizeError`, so that what is compiled for a name holds for every number.

A size is no `int`: what needs a number, such as `range`, refuses it instead of computing with something else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from keyword import iskeyword
from math import gcd
from operator import add, floordiv, mod, mul, sub
from typing import TYPE_CHECKING, Any
from unicodedata import is_normalized

from xdsl.dialects.builtin import DYNAMIC_INDEX


class UndecidedSizeError(ValueError):
    """A size that is known at launch only was used where a number is needed while compiling."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """`numerator // denominator`, or the remainder of it."""

    numerator: Any
    denominator: Any
    is_remainder: bool = False

    def __str__(self) -> str:
        left, right = [str(part) if str(part).isalnum() else f"({part})" for part in (self.numerator, self.denominator)]
        return f"({left}{'%' if self.is_remainder else '//'}{right})"


Atom = str | Quotient
Product = tuple[Atom, ...]

# What a size is taken for where nothing but speed depends on it.
_ESTIMATED = 1024
_estimates: ContextVar[Mapping[str, int]] = ContextVar("_estimates")
ASSUMED: ContextVar[Callable[[Any], bool] | None] = ContextVar("ASSUMED", default=None)


if TYPE_CHECKING:
    _Number = int  # shapes are tuples of integers, some of which turn out to be sizes
else:
    _Number = object


class Size(_Number):
    """A sum of products of names, with integer coefficients; the product of no names is the constant."""

    __slots__ = ("_hash", "terms")

    if TYPE_CHECKING:

        def __new__(cls, terms: tuple[tuple[Product, int], ...]) -> Size: ...

    def __init__(self, terms: tuple[tuple[Product, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)

    @staticmethod
    def named(name: str) -> Any:
        """The size called `name`."""
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a size is named {name!r}, which is no text")
        if not name.isidentifier() or iskeyword(name) or not is_normalized("NFKC", name):
            raise ValueError(f"a size is named {name!r}, which is no identifier or means something else in Python")
        return Size((((name,), 1),))

    @staticmethod
    def of(terms: Mapping[Product, int]) -> Any:
        """The sum of `terms`: an `int` where that is all it is."""
        kept = tuple(sorted([(p, c) for p, c in terms.items() if c], key=lambda term: (-len(term[0]), str(term[0]))))
        if not kept:
            return 0
        return kept[0][1] if len(kept) == 1 and not kept[0][0] else Size(kept)

    @staticmethod
    def parse(text: str) -> Any:
        """The size that `str` printed. Raises `ValueError` for anything but sums, products and quotients of names."""
        try:
            return _evaluated(ast.parse(text, mode="eval").body)
        except SyntaxError:
            raise ValueError(f"{text!r} is no size") from None

    # --- what it is -------------------------------------------------------------------------------

    def names(self) -> Iterator[str]:
        """The names in it, each as often as it stands there."""
        for product, _ in self.terms:
            for atom in product:
                if isinstance(atom, str):
                    yield atom
                else:
                    yield from names_of((atom.numerator, atom.denominator))

    @property
    def name(self) -> str | None:
        """The name that it is, if it is just that."""
        match self.terms:
            case (((str() as name,), 1),):
                return name
            case _:
                return None

    def replaced(self, values: Mapping[str, Any]) -> Any:
        """This size with `values` (numbers or sizes) in the place of names."""
        return self.evaluate(lambda name: values[name] if name in values else Size.named(name))

    def evaluate(self, value_of: Callable[[str], Any]) -> Any:
        """This size computed from what its names stand for, by Python's operators."""
        total: Any = 0
        for product, coefficient in self.terms:
            factors = [value_of(a) if isinstance(a, str) else _quotient_of(a, value_of) for a in product]
            total = total + reduce(lambda x, y: x * y, factors, coefficient)
        return total

    def __str__(self) -> str:
        text = ""
        for product, coefficient in self.terms:
            factors = "*".join(map(str, product))
            size = abs(coefficient)
            term = str(size) if not factors else factors if size == 1 else f"{size}*{factors}"
            sign = "-" if coefficient < 0 else "+"
            text = f"{text} {sign} {term}" if text else term if coefficient > 0 else f"-{term}"
        return text

    __repr__ = __str__

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if (right := _terms(other)) is None:
            return NotImplemented
        total = dict(self.terms)
        for product, coefficient in right:
            total[product] = total.get(product, 0) + coefficient
        return Size.of(total)

    def __mul__(self, other: Any) -> Any:
        if (right := _terms(other)) is None:
            return NotImplemented
        total: dict[Product, int] = {}
        for p, c in self.terms:
            for q, d in right:
                product = tuple(sorted((*p, *q), key=str))
                total[product] = total.get(product, 0) + c * d
        return Size.of(total)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __floordiv__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(self, other)[0]

    def __rfloordiv__(self, other: Any) -> Any:
        return _divided(other, self)[0]

    def __mod__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(self, other)[1]

    def __rmod__(self, other: Any) -> Any:
        return _divided(other, self)[1]

    def __divmod__(self, other: Any) -> Any:
        return _divided(self, other)

    # --- questions --------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Size):
            return self.terms == other.terms
        # To whatever knows MLIR's mark for an unknown size only, that is what this is.
        return type(other) is int and other == DYNAMIC_INDEX

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        if least(self) > 0:
            return True
        if (assumed := ASSUMED.get()) is not None:
            return assumed(self)
        raise UndecidedSizeError(f"whether the size {self} is 0 is not known before launch")

    def _compare(self, other: Any, sign: str) -> bool:
        if _terms(other) is None:
            return NotImplemented
        gap = other - self + int(sign == "<=")  # at least 1 if it is so, and at most 0 if not
        for answer, size in ((True, gap), (False, 1 - gap)):
            if least(size) >= 1:
                return answer
        if (assumed := ASSUMED.get()) is not None:
            return assumed(gap)
        raise UndecidedSizeError(f"whether {self} {sign} {other} is not known before launch")

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, "<")

    def __le__(self, other: Any) -> bool:
        return self._compare(other, "<=")

    def __gt__(self, other: Any) -> bool:
        return not self._compare(other, "<=")

    def __ge__(self, other: Any) -> bool:
        return not self._compare(other, "<")

    def _no_number(self, *_: object, **__: object) -> Any:
        raise UndecidedSizeError(f"the size {self} is not known before launch, and a number is needed here")

    __int__ = __index__ = __float__ = __array__ = bit_length = _no_number


class UnknownDimension(int):
    """The -1 of a dimension that nobody has told: it can be compared and passed on, and not computed with, since -1
    times -1 would be taken for a size."""

    __slots__ = ()
    __array_ufunc__ = None  # arrays leave arithmetic to the methods below

    def _no_number(self, *_: object) -> Any:
        raise UndecidedSizeError("a size is ?, and one that is known is needed here")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_number
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _no_number
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _no_number


UNKNOWN_DIMENSION = UnknownDimension(-1)


def least(size: Any) -> float:
    """A number that `size` is never below."""
    if not isinstance(size, Size):
        return size
    if any(product and coefficient < 0 for product, coefficient in size.terms):
        return float("-inf")
    return dict(size.terms).get((), 0)


def most(size: Any) -> float:
    """A number that `size` is never above."""
    if not isinstance(size, Size):
        return size
    return sum([c * (_most_of(product) if c > 0 else not product) for product, c in size.terms])


def _most_of(product: Product) -> float:
    match product:
        case ():
            return 1
        case (Quotient(is_remainder=True, denominator=int() as denominator),):
            return denominator - 1
        case _:
            return float("inf")


def is_at_most(left: Any, right: Any) -> bool:
    """Whether `left <= right` whatever the sizes are."""
    return least(right - left) >= 0


def names_of(sizes: Iterable[Any]) -> Iterator[str]:
    """The names in those of `sizes` that are no numbers."""
    for size in sizes:
        if isinstance(size, Size):
            yield from size.names()


def replaced(size: Any, values: Mapping[str, Any]) -> Any:
    """`size` (a number, or a size) with `values` in the place of names."""
    return size.replaced(values) if isinstance(size, Size) else size


def estimate(size: Any) -> int:
    """A number to weigh alternatives by; nothing but speed may depend on it."""
    if not isinstance(size, Size):
        return size
    known = _estimates.get({})
    return max(size.evaluate(lambda name: known.get(name, _ESTIMATED)), 1)


@contextmanager
def estimates(numbers: Mapping[str, int]) -> Generator[None]:
    """Inside, `estimate` takes names for these `numbers`."""
    token = _estimates.set(numbers)
    try:
        yield
    finally:
        _estimates.reset(token)


def _terms(value: Any) -> Iterable[tuple[Product, int]] | None:
    if isinstance(value, Size):
        return value.terms
    return (((), value),) if isinstance(value, int) and not isinstance(value, bool) else None


def _quotient_of(atom: Quotient, value_of: Callable[[str], Any]) -> Any:
    numerator, denominator = [
        part.evaluate(value_of) if isinstance(part, Size) else part for part in (atom.numerator, atom.denominator)
    ]
    return numerator % denominator if atom.is_remainder else numerator // denominator


def _divided(left: Any, right: Any) -> tuple[Any, Any]:
    """Quotient, rounded down, and remainder. What is divided without remainder stays a plain product."""
    if right == 0:
        raise ZeroDivisionError(f"the size {left} is divided by 0")
    exact: dict[Product, int] = {}
    rest: dict[Product, int] = {}
    divisor = tuple(_terms(right) or ())
    for product, coefficient in _terms(left) or ():
        part = _divided_term(product, coefficient, divisor)
        if part is None:
            rest[product] = coefficient
        else:
            exact[part[0]] = part[1]
    quotient, remainder = Size.of(exact), Size.of(rest)
    if not isinstance(remainder, Size) and not isinstance(right, Size):
        return quotient + remainder // right, remainder % right
    if remainder == 0:
        return quotient, 0
    if least(remainder) < 0 <= least(-remainder):  # rounding down below zero is rounding up above
        upper, _ = _divided(-remainder + (right - 1), right)
        return quotient - upper, remainder + upper * right
    if least(remainder) < 0 and (ASSUMED.get() is None or remainder < 0):
        raise UndecidedSizeError(f"the sign of {remainder}, which is divided by {right}, is not known before launch")
    if least(right) <= 0 and (ASSUMED.get() is None or right <= 0):
        raise UndecidedSizeError(
            f"whether the size {right}, which {left} is divided by, is 0 is not known before launch"
        )
    if most(remainder) < least(right):
        return quotient, remainder
    # (g*a + r) // (g*b) is (a + r // g) // b.
    constant = dict(_terms(remainder) or ()).get((), 0)
    variable = _terms(remainder - constant) or ()
    common = gcd(*[abs(c) for _, c in (*variable, *divisor)])
    if common > 1:
        inner = Size.of({p: c // common for p, c in variable}) + constant // common
        more, left_over = _divided(inner, Size.of({p: c // common for p, c in divisor}))
        return quotient + more, left_over * common + constant % common
    atoms = [Size((((Quotient(remainder, right, is_remainder),), 1),)) for is_remainder in (False, True)]
    return quotient + atoms[0], atoms[1]


def _divided_term(product: Product, coefficient: int, divisor: Iterable[tuple[Product, int]]) -> Any:
    """A term divided by a divisor of one term, if there is no remainder."""
    match tuple(divisor):
        case ((factors, number),):
            left = list(product)
            for atom in factors:
                if atom not in left:
                    return None
                left.remove(atom)
            return None if coefficient % number else (tuple(left), coefficient // number)
        case _:
            return None


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = dict(
    zip((ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod), (add, sub, mul, floordiv, mod), strict=True)
)


def _evaluated(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return Size.named(name)
        case ast.Constant(value=int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_evaluated(left), _evaluated(right))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no size")
