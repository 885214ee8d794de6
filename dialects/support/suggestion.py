"""What a name that is not known was probably meant to be."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

import numpy as np


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'softmax'`, to end a message with; nothing where no name in `known` is like `name`."""
    similar = get_close_matches(name, [other for other in known if other != name], n=1)
    return f", did you mean {similar[0]!r}" if similar else ""


INSTEAD: dict[str, str] = {
    "save": "write tenon.saving.save(path, tree), which tenon.saving.load reads",
    "compile": "write tenon.jit for a pure function, and tenon.trace for one that changes tensors",
    "values": "max, min, sort and median along a dimension give values alone, as NumPy's; argmax, argmin and argsort "
    "say where they are",
    "indices": "write argmax, argmin or argsort, which say where values are",
    "amp": "write tenon.autocast, and tenon.optim.GradScaler",
    "backends": "there is one implementation of each op",
    "distributed": "there is one device",
    "set_default_dtype": "name dtypes where tensors are made; Python's floats are f32",
    "complex64": "there are no complex dtypes",
    "complex128": "there are no complex dtypes",
    "complex": "there are no complex dtypes; tenon.dft has real and imaginary parts along an axis",
    "view_as_complex": "there are no complex dtypes; tenon.dft has real and imaginary parts along an axis",
    "view_as_real": "there are no complex dtypes; tenon.dft has real and imaginary parts along an axis",
    "fft": "there are no complex dtypes; tenon.dft has real and imaginary parts along an axis",
    "special": "its functions are names of tenon itself",
    "sparse": "there are no sparse tensors",
    "distributions": "draw by tenon.randn, rand, bernoulli, multinomial, or by tenon.random_normal(key, shape) and its "
    "like, and write log-probabilities as formulas",
    "stft": "write tenon.dft on tenon.sliding_windows",
    "sparse_coo_tensor": "there are no sparse tensors",
    "segment_sum": "write tenon.scatter_add(tenon.zeros((n, ...)), segments, x)",
    "segment_max": "write tenon.scatter_nd(tenon.full((n, ...), -inf), segments[:, None], x, reduction='max')",
    "segment_min": "write tenon.scatter_nd(tenon.full((n, ...), inf), segments[:, None], x, reduction='min')",
    "remat": "write tenon.checkpoint",
    "pure_callback": "define a tenon.HostOp",
    "io_callback": "define a tenon.HostOp with MemoryWriteEffect",
    "make_jaxpr": "write tenon.jit(f).trace(*args)",
    "eval_shape": "write tenon.jit(f).trace(*args), which prints the types",
    "ShapeDtypeStruct": "write tenon.ShapeDtype",
    "block_until_ready": "calls return when they are done",
    "device_put": "write tenon.tensor(x, device=...) or x.to(device)",
    "pmap": "write tenon.vmap; kernels run on all cores",
    "tree": "write tenon.tree_map(f, tree, ...)",
    "tree_util": "write tenon.tree_map(f, tree, ...)",
    "PRNGKey": "a key is two words of i32, np.array([0, seed], np.int32) say, of which tenon.split_key makes more",
    "lax": "control flow and ops are names of tenon itself",
    "Generator": "write numpy.random.default_rng(seed), which is what generator= takes",
}
"""What to write for functions and methods that PyTorch, NumPy or JAX has, and that are deliberately not here."""


def instead_or_meant(name: str, known: Iterable[str]) -> str:
    """What a message on a function or method that is not there ends with."""
    instead = INSTEAD.get(name.rstrip("_"))
    if instead is not None:
        return f": {instead}"
    # What NumPy has by this name was not meant to be another one.
    return ", which NumPy has" if callable(vars(np).get(name)) else did_you_mean(name, known)


class UnknownAttributeError(AttributeError):
    """That an object has no such attribute; what was probably meant is looked for when somebody reads the message,
    since to ask whether there is an attribute, as `hasattr` does, should cost little.
    """

    def __init__(
        self,
        message: str,
        name: str,
        known: Callable[[], Iterable[str]],
        hint: Callable[[str, Iterable[str]], str] = did_you_mean,
    ) -> None:
        super().__init__(message)
        self._hint = hint
        self._ask: tuple[str, Callable[[], Iterable[str]]] | None = name, known

    def __str__(self) -> str:
        if self._ask is not None:
            name, known = self._ask
            self._ask, self.args = None, (f"{self.args[0]}{self._hint(name, known())}",)
        return self.args[0]

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


def attribute_hints(module: str, instead: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for the Python module of this name: an error that says what a name was probably meant to be, or
    what there is `instead` of one that others have.
    """

    def hint(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        own = vars(sys.modules[module])
        if instead is not None and name in instead:
            raise AttributeError(f"module {module!r} has no attribute {name!r}: {instead[name]}")

        def known() -> Iterable[str]:
            return own.get("__all__") or [known for known in own if not known.startswith("_")]

        raise UnknownAttributeError(f"module {module!r} has no attribute {name!r}", name, known)

    return hint


P = ParamSpec("P")
R = TypeVar("R")


def hints_keywords(instead: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function say what there is `instead` of keyword arguments that others have, by name."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs.keys() & instead.keys():
                raise TypeError(f"{function.__name__}: there is no argument {name!r}: {instead[name]}")
            return function(*args, **kwargs)

        return wrapper

    return decorate


def check_keywords(cls: type, given: Iterable[str]) -> None:
    """Raise `TypeError` where an object of `cls` is made with arguments of names that it does not have."""
    known = _keywords(cls)
    for name in given:
        if known is not None and name not in known:
            arguments = ", ".join(known) or "none"
            raise TypeError(
                f"{cls.__name__}: there is no argument {name!r} (arguments: {arguments}){did_you_mean(name, known)}"
            )


@lru_cache(maxsize=1024)
def _keywords(cls: type) -> tuple[str, ...] | None:
    """What arguments are called that an object of `cls` is made with; `None` where that may be anything."""
    try:
        parameters = inspect.signature(cls.__init__).parameters.values()
    except (TypeError, ValueError):  # of a class that is not written in Python
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple([p.name for p in [*parameters][1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)])
