"""Types of native code: numbers, pointers, and structures, whose layout Python and native code share.

A structure is declared once, by the names and types of its fields, and lies in memory as C lays it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Type:
    """A type of values: `text` as LLVM writes it, its bytes, for pointers `to` what they point, and for vectors what
    they are `of`."""

    text: str
    size: int = 0
    is_signed: bool = True
    to: Content | None = None
    of: Type | None = None

    @property
    def alignment(self) -> int:
        return self.size

    @property
    def is_float(self) -> bool:
        return (self.of or self).text in ("float", "double")


VOID, I1 = Type("void"), Type("i1", 1, False)
I8, I32, I64 = Type("i8", 1), Type("i32", 4), Type("i64", 8)
U32, U64 = Type("i32", 4, False), Type("i64", 8, False)
F32, F64 = Type("float", 4), Type("double", 8)
PTR = Type("ptr", 8, False)


@dataclass(frozen=True, slots=True)
class Signature:
    """The type of a function."""

    result: Type
    parameters: tuple[Type, ...]


class Struct:
    """A structure of fields, each a value or a structure itself."""

    def __init__(self, **fields: Type | Struct) -> None:
        self.fields = fields
        self.alignment = max(content.alignment for content in fields.values())
        self.offsets: dict[str, int] = {}
        end = self._placed()
        self.size = _rounded(end, self.alignment)

    def _placed(self) -> int:
        """Place the fields one behind the other; their end."""
        end = 0
        for name, content in self.fields.items():
            self.offsets[name] = _rounded(end, content.alignment)
            end = self.offsets[name] + content.size
        return end

    def word(self, name: str) -> int:
        """Which word of 64 bits a field is."""
        return self.offsets[name] // 8

    def words(self, values: Mapping[str, _T]) -> list[_T]:
        """Values of fields in the order of memory, where each field is a word of 64 bits."""
        if values.keys() != self.fields.keys() or any(content.size != 8 for content in self.fields.values()):
            raise ValueError(f"{', '.join(values)} are not the words {', '.join(self.fields)}")
        return [values[name] for name in self.fields]


class Union(Struct):
    """Structures in one place."""

    def _placed(self) -> int:
        self.offsets = dict.fromkeys(self.fields, 0)
        return max(content.size for content in self.fields.values())

    def words_of(self, name: str, values: Mapping[str, _T]) -> list[_T | int]:
        """The words of one of the structures, filled up with zeros."""
        member = self.fields[name]
        assert isinstance(member, Struct)
        return [*member.words(values), *[0] * ((self.size - member.size) // 8)]


Content: TypeAlias = Type | Struct | Signature


def pointer(to: Content) -> Type:
    """The type of the addresses of `to`."""
    return Type("ptr", 8, False, to)


def vector(count: int, of: Type) -> Type:
    """The type of vectors of so many numbers."""
    return Type(f"<{count} x {of.text}>", max(count * of.size // (8 if of is I1 else 1), 1), of.is_signed, of=of)


def function_type(result: Type, *parameters: Type) -> Type:
    """The type of the addresses of functions."""
    return pointer(Signature(result, parameters))


def _rounded(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
