"""Python files that define ops, loaded by the commands so that IR with such ops can be read."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def import_ops(path: str | Path) -> None:
    """Import the Python file at `path`; the ops in it are registered.

    Raises `ValueError` naming the file when it is none, or when importing it fails.
    """
    file = Path(path)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ValueError(f"{file}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise ValueError(f"{file}: {type(error).__name__}: {error}") from error
