"""Which modules are those of libraries, whose state guards leave alone."""

from __future__ import annotations

import sys

_LIBRARIES = sys.stdlib_module_names - {"__main__"} | {
    *("numpy", "tenon", "xdsl", "torch", "jax", "ml_dtypes", "llvmlite", "scipy", "pandas", "matplotlib", "pytest"),
}
_FOLDERS = ("site-packages", "dist-packages")
_KNOWN: dict[str, bool] = {}


def is_library(module: str | None) -> bool:
    """Whether a module is one of a library, by its name."""
    name = (module or "").partition(".")[0]
    return name in _LIBRARIES or _is_installed(name)


def _is_installed(name: str) -> bool:
    """Whether a top-level module was installed, and is not a file of the user's: what it reaches may be without end."""
    known = _KNOWN.get(name)
    if known is None and (module := sys.modules.get(name)) is not None:
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        known = _KNOWN[name] = any(folder in str(place) for place in places for folder in _FOLDERS)
    return bool(known)
