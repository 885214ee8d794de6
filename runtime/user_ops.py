"""Modules and files of Python that define ops, loaded by the commands so that IR with such ops can be read."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from tenon.runtime.reads.libraries import is_library


def import_ops(source: str | Path) -> ModuleType:
    """The module that `source` is, the path of a Python file or package, or a dotted name; its ops are registered.

    A file of a package is imported as part of it, so that it may import from it relatively. Modules are found where
    Python finds them, and in the working directory. Raises `ValueError` naming `source` when it is none of these, or
    when importing it fails.
    """
    try:
        return _import(str(source))
    except Exception as error:
        if isinstance(error, _NotPython):
            raise ValueError(f"{source}: is neither a Python file nor a module") from None
        raise ValueError(f"{source}: {type(error).__name__}: {error}") from error


def note_place(error: BaseException) -> bool:
    """Add to an error where in code that is no library's it, or what it was raised from, comes from: function, file and
    line. Whether there is such a place."""
    current: BaseException | None = error
    while current is not None:
        for frame, line in reversed([*walk_tb(current.__traceback__)]):
            module = frame.f_globals.get("__name__")
            if module != "__main__" and not is_library(module):  # the command itself is the main module
                error.add_note(f"in {frame.f_code.co_qualname}, {frame.f_code.co_filename}:{line}")
                return True
        current = current.__cause__
    return False


class _NotPython(Exception):
    """What was given names nothing that can be imported."""


def _import(source: str) -> ModuleType:
    path = Path(source)
    if path.is_dir():
        path = path / "__init__.py"
        if not path.is_file():
            raise _NotPython
    if not path.is_file():
        return _import_module(source)
    if (path.parent / "__init__.py").is_file():
        return _import_from_package(path.resolve())
    if path.suffix == ".py":
        return _import_file(path)
    raise _NotPython


def _import_module(name: str) -> ModuleType:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        raise _NotPython
    return _import_in(Path.cwd(), name)


def _import_from_package(path: Path) -> ModuleType:
    folder = path.parent
    names = [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file():
        names.append(folder.name)
        folder = folder.parent
    return _import_in(folder, ".".join(reversed(names)))


def _import_in(folder: Path, name: str) -> ModuleType:
    """The module `name`, which may lie in `folder`; what it imports later may, too."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _NotPython from None
        raise


def _import_file(path: Path) -> ModuleType:
    # A file may be called as a module that others import.
    name = f"{path.stem}_ops" if is_library(path.stem) else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception:
        del sys.modules[spec.name]
        raise
    return module
