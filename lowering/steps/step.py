"""What steps have in common: their text form, `split(i, 256) -> i0, i1`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from tenon.lowering.steps.nest import Nest, NestError

_TEXT = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*(?:->\s*(\w+\s*(?:,\s*\w+\s*)*))?\s*")


@dataclass(frozen=True)
class Step(ABC):
    """One change of a nest. The fields of a subclass are its arguments, in order: names and integers, then those with
    a default, by name, `pack(a0, shared, stages=2)`; a field `names` takes all that there are, a field `results` what
    stands behind the arrow."""

    name: ClassVar[str]

    @abstractmethod
    def obstacle(self, nest: Nest) -> str | None:
        """Why the step cannot be done, or None. May raise `NestError` in its place."""

    @abstractmethod
    def apply(self, nest: Nest) -> None:
        """Do the step, to which there is no obstacle."""

    def __str__(self) -> str:
        words: list[str] = []
        results = ""
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if field.name == "results":
                results = f" -> {', '.join(value)}" if value else ""
            elif field.name == "names":
                words += value
            elif field.default is MISSING:
                words.append(str(value))
            elif value != field.default:
                words.append(f"{field.name}={value}")
        return f"{self.name}({', '.join(words)}){results}"


def run(step: Step, nest: Nest) -> None:
    """Do a step, or raise `NestError` with the obstacle."""
    try:
        obstacle = step.obstacle(nest)
    except NestError as error:
        obstacle = str(error)
    if obstacle is not None:
        raise NestError(f"{step}: {obstacle}")
    step.apply(nest)


def parse(text: str, table: dict[str, type[Step]]) -> Step:
    """The step that `text` says. Raises `NestError`."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise NestError(f"{text!r} is no step such as split(i, 256) -> i0, i1")
    name, arguments, results = match.groups()
    kind = table.get(name)
    if kind is None:
        raise NestError(f"there is no step {name}, only {', '.join(table)}")
    words = [word.strip() for word in arguments.split(",") if word.strip()]
    positional = [_value(word) for word in words if "=" not in word]
    pairs = [(key.strip(), _value(word)) for key, _, word in (word.partition("=") for word in words if "=" in word)]
    named = dict(pairs)
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    if "results" in known:
        values["results"] = tuple(word.strip() for word in (results or "").split(",") if word.strip())
    elif results:
        raise NestError(f"{text}: {name} makes no loops")
    if "names" in known:
        values["names"] = tuple(map(str, positional))
    else:
        taken = [key for key, field in known.items() if field.default is MISSING and key != "results"]
        if len(taken) != len(positional):
            raise NestError(f"{text}: {name} takes {', '.join(taken)}")
        values |= dict(zip(taken, positional, strict=True))
    optional = [key for key, field in known.items() if field.default is not MISSING]
    if unknown := [key for key in named if key not in optional]:
        raise NestError(f"{text}: {name} has no argument {unknown[0]}=, only {', '.join(optional) or 'those in order'}")
    if len(named) < len(pairs):
        raise NestError(f"{text}: an argument is given twice")
    return kind(**values, **named)


def _value(word: str) -> int | str:
    word = word.strip()
    return int(word) if re.fullmatch(r"-?\d+", word) else word


def number(value: object, what: str, least: int = 1) -> int:
    """An argument that is to be a number, at least `least`. Raises `NestError`."""
    if not isinstance(value, int) or value < least:
        raise NestError(f"{what} is {value}, expected a number from {least} on")
    return value
