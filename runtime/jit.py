"""`jit`: a Python function, compiled once for each signature it is called with."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

from tenon.dialects.value import insertion_point
from tenon.runtime.arguments import Parameters, ShapeDtype, Signature, abstract
from tenon.runtime.collection import collection_paused
from tenon.runtime.executables import DEVICES
from tenon.runtime.knobs import knobs
from tenon.runtime.stages import Compiled, Lowered, Traced
from tenon.runtime.trace import trace
from tenon.runtime.tree import Structure, unflatten


class JitFunction:
    """A function that is traced and compiled when it is called; made by `jit`. May be called from several threads."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str] | str,
        donated: Sequence[str] | str,
        device: str,
    ) -> None:
        if not callable(function):
            raise TypeError(f"jit: a {type(function).__name__} cannot be called")
        if device not in DEVICES:
            raise ValueError(f"jit: device {device!r} is not one of {', '.join(DEVICES)}")
        functools.update_wrapper(self, function)
        self.function = function
        self.device = device
        self.parameters = Parameters(function, static, donated)
        self.name = self.parameters.name
        self._keep = (lambda leaf: hasattr(leaf, "__cuda_array_interface__")) if device == "cuda" else None
        self._compiled: dict[Any, Compiled] = {}
        self._lock = threading.RLock()
        self._described: dict[str, str] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays, compiling first if this signature is new. Inside another trace, join that trace."""
        if insertion_point() is not None:
            return self.function(*args, **kwargs)
        leaves, structure = self.parameters.take_apart(args, kwargs)
        signature, arrays = self.parameters.signature(leaves, structure, self._keep)
        key = (knobs.code_settings, signature)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compile(key, leaves, structure)
        return unflatten(compiled.result, compiled.executable.run(arrays))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: bound to its object, which is the first argument."""
        return self if instance is None else types.MethodType(self, instance)

    def _compile(self, key: Any, leaves: Sequence[Any], structure: Structure) -> Compiled:
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is None:
                if knobs.log_compiles:
                    settings = {f"knobs.{name}": repr(value) for name, value in knobs.code_settings}
                    self._say_why(self.parameters.described(leaves, structure) | settings)
                with collection_paused():
                    compiled = self._compiled[key] = self._trace(leaves, structure).compile()
            return compiled

    def _say_why(self, described: dict[str, str]) -> None:
        """Say on stderr what makes this signature new, compared with the one compiled last."""
        changes = [
            f"{name} is {text}" + (f" (was {self._described[name]})" if name in self._described else "")
            for name, text in described.items()
            if self._described.get(name) != text
        ]
        changes += [f"{name} is gone" for name in self._described if name not in described]
        what = "compiling again" if self._described else "compiling"
        print(f"tenon: {what} {self.name}: {', '.join(changes) or 'another structure'}", file=sys.stderr)
        self._described = described

    def _trace(self, leaves: Sequence[Any], structure: Structure) -> Traced:
        names = self.parameters.leaf_names(structure)
        types_ = [abstract(leaf, f"{self.name}: argument {name}") for leaf, name in zip(leaves, names, strict=True)]
        donated = self.parameters.donations(structure) if self.parameters.donated else ()
        traced = trace(self.parameters.call, structure, leaves, types_, names, donated)
        key, _ = self.parameters.signature(leaves, structure, self._keep)
        signature = Signature(self.parameters, key, self.parameters.described(leaves, structure))
        return Traced(traced.module, traced.result, self.device, self.name, signature)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The tensor IR for arguments like these (arrays or `ShapeDtype`); nothing is compiled."""
        leaves, structure = self.parameters.take_apart(args, kwargs)
        with collection_paused():
            return self._trace([x.placeholder() if isinstance(x, ShapeDtype) else x for x in leaves], structure)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The loop IR for arguments like these."""
        return self.trace(*args, **kwargs).lower()

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The machine code for arguments like these."""
        return self.trace(*args, **kwargs).compile()


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static: Sequence[str] | str = (),
    donate: Sequence[str] | str = (),
    device: str = "cpu",
) -> Any:
    """Compile `function` when it is called, once per signature (shapes, dtypes, and the values of what is no array).

    Arguments and results are trees of arrays. `static` names arguments that are taken as Python values; `donate` names
    arguments whose memory the results may take over (do not use them after the call). `device` is `"cpu"` or `"cuda"`.

    Usable as `@tenon.jit` and as `@tenon.jit(donate=("params",))`, on functions and on methods.
    """
    if function is None:
        return lambda f: JitFunction(f, static, donate, device)
    return JitFunction(function, static, donate, device)


__all__ = ["JitFunction", "ShapeDtype", "jit"]
