"""The table of operators: for each one and each version of its meaning, a function that computes it with Tenon's ops.

    @operator("Gemm", since=7)
    def gemm(node: Node, a: Operand, b: Operand, c: Operand | None = None) -> Value: ...

Inputs come by position, `None` for optional ones that are left out; the result is one operand or a tuple of them.
The model's opset chooses the version: the largest `since` that is not above it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

OperatorFunction = Callable[..., Any]
FunctionT = TypeVar("FunctionT", bound=OperatorFunction)


@dataclass(frozen=True)
class Version:
    """A version of an operator: valid from opset `since` to `until`, both included."""

    since: int
    until: int | None
    function: OperatorFunction


_TABLE: dict[tuple[str, str], list[Version]] = {}


def operator(
    name: str, *, since: int = 1, until: int | None = None, domain: str = ""
) -> Callable[[FunctionT], FunctionT]:
    """Make a function the meaning of operator `name` from opset `since` on, up to `until` or the next version."""

    def register(function: FunctionT) -> FunctionT:
        versions = _TABLE.setdefault((domain, name), [])
        if any(version.since == since for version in versions):
            raise ValueError(f"operator {name} since {since} is defined twice")
        versions.append(Version(since, until, function))
        versions.sort(key=lambda version: version.since)
        return function

    return register


def find_operator(domain: str, name: str, opset: int) -> OperatorFunction | None:
    """The function of an operator at an opset; `None` where the table has none."""
    _load()
    found: Version | None = None
    for version in _TABLE.get((domain, name), ()):
        if version.since <= opset:
            found = version
    if found is None or (found.until is not None and opset > found.until):
        return None
    return found.function


def operator_names(domain: str = "") -> list[str]:
    """The operators of a domain that the table has."""
    _load()
    return sorted(name for of, name in _TABLE if of == domain)


@cache
def _load() -> None:
    """Import the modules that fill the table: those of this package."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
