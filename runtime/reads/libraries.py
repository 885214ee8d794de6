"""Which modules and classes are those of libraries, whose state guards leave alone."""

from __future__ import annotations

import os
import sys

_NAMED = frozenset(
    ("numpy", "tenon", "xdsl", "torch", "jax", "ml_dtypes", "llvmlite", "scipy", "pandas", "matplotlib", "pytest")
)
_STANDARD = sys.stdlib_module_names - {"__main__"}
_STANDARD_FOLDER = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")
_FOLDERS = ("site-packages", "dist-packages")
_HEAP_TYPE = 1 << 9
"""The flag of classes that Python code makes."""
_KNOWN: dict[str, bool] = {}


def is_library(module: str | None) -> bool:
    """Whether a module is one of a library, by its name and where it was found."""
    name = (module or "").partition(".")[0]
    known = _KNOWN.get(name)
    if known is None:
        if name not in sys.modules:
            return name in _NAMED or name in _STANDARD
        known = _KNOWN[name] = name in _NAMED or _is_installed(name)
    return known


def is_library_class(kind: type) -> bool:
    """Whether a class is one of a library. One of code that runs in a namespace without a name says `builtins`, too."""
    module = kind.__module__
    return not kind.__flags__ & _HEAP_TYPE if module == "builtins" else is_library(module)


def is_own_class(kind: type) -> bool:
    """Whether a class is Tenon's own: a module, an optimizer."""
    return kind.__module__.startswith("tenon.")


def is_inner_class(kind: type) -> bool:
    """Whether a class is one of the machinery, whose objects users do not change."""
    return is_own_class(kind) and kind.__module__.split(".")[1] in ("dialects", "runtime", "traces")


def _is_installed(name: str) -> bool:
    """Whether a top-level module was installed, or came with Python: what it reaches may be without end. A file of the
    user's is neither, also one with the name of a standard module."""
    module = sys.modules[name]
    places = [str(place) for place in (getattr(module, "__file__", None), *getattr(module, "__path__", ())) if place]
    if any(folder in place for place in places for folder in _FOLDERS):
        return True
    return name in _STANDARD and all(os.path.realpath(place).startswith(_STANDARD_FOLDER) for place in places)
