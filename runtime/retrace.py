"""Calls that are traced each time, as those of `grad` outside of a trace: only compiled code is kept between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.support.forking import cached_property
from tenon.dialects.support.plain_arrays import copied, device_for
from tenon.dialects.types.types import array_type
from tenon.runtime.arguments.arguments import Parameters, is_array
from tenon.runtime.arguments.tree import unflatten
from tenon.runtime.cuda.arrays import as_data
from tenon.runtime.executables import executable
from tenon.runtime.python_state import collection_paused
from tenon.runtime.store.module_digest import digest
from tenon.runtime.tracing.trace import Captures, trace


class TracedCall:
    """One call of a function, traced: a program, and the arrays that it is run on.

    Arrays that the function takes from around it are inputs of the program, so that other ones need no other code.
    """

    def __init__(
        self,
        parameters: Parameters,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        captures: Captures | None = None,
        *,
        holds: bool = False,
    ) -> None:
        """Trace the call; `captures` gets what it takes from around it. With `holds`, its arguments are copied, so that
        it can be run later."""
        self.name = parameters.name
        leaves, structure = parameters.take_apart(args, dict(kwargs))
        names = parameters.leaf_names(structure)
        arrays = [
            as_data(leaf, f"{self.name}: argument {name}") if is_array(leaf) else None
            for leaf, name in zip(leaves, names, strict=True)
        ]
        types = [None if array is None else array_type(array) for array in arrays]
        captures = captures or Captures()
        with collection_paused():
            self._trace = trace(parameters.call, structure, leaves, types, names, captures=captures)
        given = [array for array in arrays if array is not None]
        self._arrays = [*([copied(array) for array in given] if holds else given), *captures.arrays]

    @property
    def module(self) -> ModuleOp:
        """The program, as it was traced."""
        return self._trace.module

    @cached_property
    def digest(self) -> str:
        """That of the program."""
        return digest(self.module)

    def run(self, first: Sequence[Any] = ()) -> Any:
        """The result, with `first` in the place of as many arguments."""
        made = executable(self.module, device_for(self._arrays), self.name, self.digest)
        return unflatten(self._trace.result, made.run([*first, *self._arrays[len(first) :]]))


class TracedFunction:
    """A function that is traced at each call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._parameters = Parameters(function)

    def trace(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], captures: Captures | None = None) -> TracedCall:
        """A call of it, to be run."""
        return TracedCall(self._parameters, args, kwargs, captures)
