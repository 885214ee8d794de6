"""The cases of a test on IR text, which are read as examples, and which failures name."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SEPARATOR = "// -----"
_HEADER = re.compile(r"// *(RUN|REQUIRES):")
_FUNCTION = re.compile(r"^ *func\.func (private )?@([\w.-]+)", re.MULTILINE)
_FAILED_CHECK = re.compile(r"\.mlir:(\d+): error")


@dataclass(frozen=True)
class Case:
    """What is shown together: its lines by number, without empty ones and those that say how to run the file."""

    lines: dict[int, str]

    @property
    def functions(self) -> list[str]:
        """The names of its functions, those that callers see first."""
        found = _FUNCTION.findall("\n".join(self.lines.values()))
        return [f"@{name}" for _, name in sorted(found, key=lambda function: bool(function[0]))]

    @property
    def name(self) -> str:
        """Its first function; where that is `@main`, what the comment says."""
        comments = [line.removeprefix("//").strip() for line in self.lines.values() if line.startswith("//")]
        named = [name for name in self.functions if not re.fullmatch("@main(_[a-z]+)?", name)]
        return next(iter([*named[:1], *comments, *self.functions]), "")


def cases(text: str) -> list[Case]:
    """The cases of a file of this text: its parts between lines `// -----`, or, where it is one module, its paragraphs.

    What has no function belongs to the case before.
    """
    lines = ["" if _HEADER.match(line) else line for line in text.splitlines()]
    end = _SEPARATOR if _SEPARATOR in lines else ""
    parts: list[dict[int, str]] = [{}]
    for number, line in enumerate(lines, 1):
        if line == end:
            parts.append({})
        elif line:
            parts[-1][number] = line
    found: list[Case] = []
    for part in filter(None, parts):
        case = Case(part)
        if found and not case.functions:
            found[-1].lines.update(part)
        else:
            found.append(case)
    return found


def failed_case(text: str, output: str) -> str | None:
    """The name of the case at which filecheck failed on a file of this text, by its `output`."""
    if not (failed := _FAILED_CHECK.search(output)):
        return None
    return next((case.name for case in cases(text) if int(failed[1]) in case.lines), None)
