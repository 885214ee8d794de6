"""LLVM IR text in parts, by which of LLVM's passes are run on its functions: all, few or none.

The attributes that `emit_llvm` gives a function say which: `#1` if it shall be left alone, `#2` if few passes do. Each
part is a module by itself that declares what it calls of the others; linked together they are the text again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum


class Passes(Enum):
    """Which of LLVM's passes are run on a function, by its attributes."""

    ALL = "#0"
    FEW = "#2"
    NONE = "#1"


_REFERENCE = re.compile(r"@([\w.$-]+|\"[^\"]*\")")
_LOCAL = ("\ndefine internal ", "\ndefine private ")


@dataclass(slots=True)
class _Text:
    """The lines of a text: functions by name, variables by name, and what every module may have."""

    functions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    common: list[str] = field(default_factory=list[str])


def split(text: str) -> dict[Passes, str]:
    """The functions in modules by the passes that are run on them; what has nothing in it is left out.

    A function that reads a variable of the module is among those for which all passes are, which defines the variables.
    """
    lines = _read(text)
    names: dict[Passes, set[str]] = {passes: set() for passes in Passes}
    for name, body in lines.functions.items():
        passes = _passes(body[0])
        names[Passes.ALL if _references(body) & lines.variables.keys() else passes].add(name)
    taken = [passes for passes in Passes if names[passes]]
    if len(taken) < 2:
        return dict.fromkeys(taken or [Passes.ALL], text)
    return {
        passes: _module(lines, names[passes], [*lines.variables.values()] if passes is taken[0] else [])
        for passes in taken
    }


def _passes(header: str) -> Passes:
    """Of a function whose definition starts with `header`."""
    return next((passes for passes in Passes if header.endswith(f" {passes.value} {{")), Passes.ALL)


def _read(text: str) -> _Text:
    lines, body = _Text(), list[str]()
    for line in text.splitlines():
        if body:
            body.append(line)
            if line.strip() == "}":
                body = []
        elif line.startswith("define "):
            body = lines.functions[_name(line)] = [line]
        elif line.startswith("@"):
            lines.variables[_name(line)] = line
        else:
            lines.common.append(line)
    return lines


def _name(line: str) -> str:
    """What a line defines; a line that LLVM will refuse stands for itself."""
    found = _REFERENCE.search(line)
    return line if found is None else found[1]


def references(text: str) -> set[str]:
    """The names of functions and variables in `text`."""
    return set(_REFERENCE.findall(text))


def hidden(text: str) -> str:
    """A module whose local functions are seen by the modules that it is linked with."""
    text = f"\n{text}"  # constants may be long: no regular expression goes through these
    for local in _LOCAL:
        text = text.replace(local, "\ndefine hidden ")
    return text[1:]


def _references(body: list[str]) -> set[str]:
    return {name for line in body[1:] if "@" in line for name in references(line)}


def _module(lines: _Text, names: set[str], variables: list[str]) -> str:
    """The functions `names` as a module of their own; both modules see each other's functions, nobody else does."""
    defined = [lines.functions[name] for name in lines.functions if name in names]
    called = {name: None for body in defined for name in sorted(_references(body) & lines.functions.keys() - names)}
    declared = [_declaration(lines.functions[name][0]) for name in called]
    bodies = ["\n".join([hidden(body[0]), *body[1:]]) for body in defined]
    return "\n".join([*variables, *bodies, *declared, *lines.common, ""])


def _declaration(header: str) -> str:
    """Of a function whose definition starts with `header`."""
    return hidden(header).replace("define", "declare", 1).rstrip().removesuffix("{")
