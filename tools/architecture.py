"""The rooms of the sources and what imports what, read off the sources: `python -m tenon.tools.architecture FILE.svg`.

The picture is a design structure matrix: a row for each room, in the order in which programs flow, and a mark in a
column where files of the row's room import from the column's. As rooms import only from rooms before them, all marks
lie below the diagonal. Imports of the front door's names, by what stands behind it, are left out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path

FOLDERS = ("dialects", "passes", "lowering", "runtime", "tools", "tenon")
ROOT = Path(__file__).resolve().parents[1]
_CELL, _LEFT, _TOP = 15, 190, 150
_COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#e45756")
_LISTED = re.compile(r"^`(\w+)` +\S", re.MULTILINE)


def rooms(root: Path = ROOT) -> list[str]:
    """The rooms in order, as each folder's `__init__.py` lists them; a folder's own files come behind its rooms."""
    found: list[str] = []
    for folder in FOLDERS:
        text = (root / folder / "__init__.py").read_text()
        listed = _LISTED.findall(ast.get_docstring(ast.parse(text)) or "")
        found += [*(f"{folder}/{room}" for room in listed), folder]
    return found


def room_of(path: Path, known: list[str], root: Path = ROOT) -> str:
    """The room that a file is in; a file that its folder lists counts as one."""
    parts = path.relative_to(root).with_suffix("").parts
    room = "/".join(parts[:2])
    return room if room in known else parts[0]


def imports(root: Path = ROOT) -> Iterator[tuple[Path, Path]]:
    """Each file with each file that it imports, lazily and for types included."""
    files = {_module(path.relative_to(root)): path for folder in FOLDERS for path in sources(root, folder)}
    for path in files.values():
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in files else node.module for name in inner]
            yield from ((path, files[name]) for name in dict.fromkeys(names) if name in files and files[name] != path)


def sources(root: Path, folder: str) -> list[Path]:
    """The Python files of a folder, not those behind links."""
    return sorted(path for path in (root / folder).rglob("*.py") if not any(p.is_symlink() for p in path.parents))


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "tenon" else ("tenon", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def picture(root: Path = ROOT) -> str:
    """The matrix as SVG."""
    names = rooms(root)
    counts = Counter(
        (room_of(source, names, root), room_of(target, names, root))
        for source, target in imports(root)
        if target.name != "__init__.py" or target.parent.parent != root
    )
    size = len(names) * _CELL
    color = {name: _COLORS[FOLDERS.index(name.partition("/")[0])] for name in names}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + size + 10}" height="{_TOP + size + 10}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{_LEFT + size + 10}" height="{_TOP + size + 10}" fill="white"/>',
    ]
    for i, name in enumerate(names):
        middle = i * _CELL + _CELL / 2
        label = f'fill="{color[name]}"' + ("" if "/" in name else ' font-weight="bold"')
        lines += [
            f'<text x="{_LEFT - 6}" y="{_TOP + middle + 4:g}" text-anchor="end" {label}>{escape(name)}</text>',
            f'<text transform="translate({_LEFT + middle + 4:g} {_TOP - 6}) rotate(-90)" {label}>{escape(name)}</text>',
            f'<rect x="{_LEFT + i * _CELL}" y="{_TOP + i * _CELL}" width="{_CELL}" height="{_CELL}" fill="#ddd"/>',
        ]
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            if i != j and (count := counts[row, column]):
                x, y = _LEFT + (j + 0.5) * _CELL, _TOP + (i + 0.5) * _CELL
                # A mark is one of three, so that the picture changes with the structure and not with each import.
                radius, said = (3, "once or twice") if count < 3 else (4.5, "often") if count < 10 else (6, "widely")
                title = f"<title>{row} imports {column} {said}</title>"
                lines.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{color[column]}">{title}</circle>')
    for place in range(len(names) + 1):
        if place in (0, len(names)) or "/" not in names[place - 1]:
            at = place * _CELL
            lines.append(
                f'<path d="M{_LEFT} {_TOP + at}h{size}M{_LEFT + at} {_TOP}v{size}" stroke="#bbb" fill="none"/>'
            )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture())
