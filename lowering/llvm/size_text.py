"""Sizes that are known at launch, computed by the operators of Python."""

from __future__ import annotations

from collections.abc import Callable


class SizeText:
    """An i64 that Python's operators compute with."""

    def __init__(self, arithmetic: Callable[[str, str, str], str], text: str) -> None:
        self._arithmetic = arithmetic
        self.text = text

    def _with(self, instruction: str, other: object) -> SizeText:
        right = other.text if isinstance(other, SizeText) else str(other)
        return SizeText(self._arithmetic, self._arithmetic(instruction, self.text, right))

    def __add__(self, other: object) -> SizeText:
        return self if other == 0 else self._with("add nsw", other)

    def __mul__(self, other: object) -> SizeText:
        return self if other == 1 else self._with("mul nsw", other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> SizeText:
        return self._with("udiv", other)

    def __mod__(self, other: object) -> SizeText:
        return self._with("urem", other)
