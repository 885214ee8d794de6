"""LLVM IR text in parts: functions that LLVM's passes shall leave alone, of which there may be many, and the rest.

A function is left alone if it has the attributes `#1`, which `emit_llvm` gives to kernels that are final. Each part is
a module by itself that declares what it calls of the others; linked together they are the text again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FINAL = " #1 {"
_REFERENCE = re.compile(r"@([\w.$-]+|\"[^\"]*\")")
_LOCAL = re.compile(r"^define (?:internal|private) ", re.MULTILINE)


@dataclass(slots=True)
class _Text:
    """The lines of a text: functions by name, variables by name, and what every module may have."""

    functions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    common: list[str] = field(default_factory=list[str])


def split(text: str) -> tuple[str, str]:
    """The rest, and the functions that are left alone; one of both is empty if all functions are of one kind.

    A function that reads a variable of the module stays with the rest, which defines the variables.
    """
    lines = _read(text)
    final = {
        name
        for name, body in lines.functions.items()
        if body[0].endswith(_FINAL) and not _references(body) & lines.variables.keys()
    }
    rest = lines.functions.keys() - final
    if not final or not rest:
        return ("", text) if final else (text, "")
    return _module(lines, rest, [*lines.variables.values()]), _module(lines, final, [])


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
    return _LOCAL.sub("define hidden ", text)


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
