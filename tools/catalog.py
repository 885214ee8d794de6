"""What users call by name, ops and functions alike, as it is documented: signature, meaning and example."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tenon
from tenon.dialects import families
from tenon.dialects.definition.registry import find_function, function_names, registry
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.families.opaque import OpaqueOp
from tenon.dialects.support.suggestion import did_you_mean

_PROMPT = ">>>"


@dataclass(frozen=True)
class Entry:
    """An op or a function. `module` is the Python module that defines it; `op` is `None` for a function."""

    name: str
    module: str
    signature: str
    documentation: str
    op: type[TensorOp] | None = None

    @property
    def call(self) -> str:
        """What one writes to call it."""
        return f"{self.module}.{self.name}" if "." in self.name else f"tenon.{self.name}"

    @property
    def example(self) -> list[str]:
        """The lines of Python in the documentation."""
        lines = self.documentation.splitlines()
        return [line.removeprefix(_PROMPT).strip() for line in lines if line.startswith(_PROMPT)]

    @property
    def text(self) -> str:
        """The documentation without the example."""
        lines = self.documentation.splitlines()
        return "\n".join([line for line in lines if not line.startswith(_PROMPT)]).strip()

    @property
    def summary(self) -> str:
        """The first paragraph as one line."""
        return self.text.partition("\n\n")[0].replace("\n", " ")


def catalog() -> dict[str, Entry]:
    """All ops, control flow and functions by the name that `tenon` has them under, in order of definition.

    An op whose name belongs to another function is called as `TheClass.apply`.
    """
    entries = [_op_entry(cls) for cls in registry().values() if cls.HAS_FUNCTION]
    entries += [_control_flow_entry(cls) for cls in ControlFlowOp.__subclasses__() if cls.HAS_FUNCTION]
    functions = {name: find_function(name) for name in function_names()}
    entries += [
        _function_entry(name, f)
        for name, f in functions.items()
        if f is not None and not hasattr(f, "op") and f.__name__ == name
    ]
    return {entry.name: entry for entry in entries}


def family_of(cls: type[TensorOp]) -> str:
    """The name of the family that an op derives its meaning from, whatever bases it shares with other ops."""
    known = {value for value in vars(families).values() if isinstance(value, type)} | {OpaqueOp, TensorOp}
    return next(base.__name__ for base in cls.__mro__ if base in known)


def section_of(entry: Entry) -> str:
    """The name of the module that defines an entry, without its package."""
    return entry.module.rpartition(".")[2]


def title_and_rest(module: str) -> tuple[str, str]:
    """What a module's docstring says it holds, up to the first colon or period, and the docstring behind that.

    After a colon the docstring goes on about the title, and is given whole.
    """
    documentation = inspect.cleandoc(sys.modules[module].__doc__ or module)
    found = re.match(r"(.*?)(?::|\.)(?:\s|$)", documentation, flags=re.DOTALL)
    if found is None:
        return documentation, ""
    is_whole = documentation[found.end(1)] == "."
    title = found[1].replace("\n", " ").replace("`", "")
    return title, documentation[found.end() :].strip() if is_whole else documentation


def find_entry(name: str) -> Entry:
    """The entry of an op or function by its name, one of its aliases, or the op's name in IR.

    Raises `ValueError` for a name that is none.
    """
    entries = catalog()
    short = name.removeprefix("tenon.")
    op = getattr(find_function(short), "op", None) or registry().get(name)
    short = getattr(find_function(short), "__name__", short)  # of another name, the function's own
    found = entries.get(short) if op is None else next((e for e in entries.values() if e.op is op), None)
    if found is None:
        known = [*entries, *function_names(), *registry()]
        raise ValueError(f"there is no op or function named {name!r}{did_you_mean(short, known)}")
    return found


def _op_entry(cls: type[TensorOp]) -> Entry:
    name = cls.name.rpartition(".")[2]
    if getattr(find_function(name), "op", None) is not cls:
        name = f"{cls.__qualname__}.apply"
    return Entry(name, cls.__module__, _signature(cls.PARAMETERS), inspect.cleandoc(cls.__doc__ or ""), cls)


def _control_flow_entry(cls: type[ControlFlowOp]) -> Entry:
    """What users call is a function of functions, which makes the op; the example is the op's."""
    name = cls.name.removeprefix("tenon.")
    function: Callable[..., Any] = getattr(tenon, name)
    example = [line.strip() for line in (cls.__doc__ or "").splitlines() if line.strip().startswith(_PROMPT)]
    documentation = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", *example])
    return Entry(name, cls.__module__, _signature(inspect.signature(function)), documentation)


def _function_entry(name: str, function: Callable[..., Any]) -> Entry:
    documentation = inspect.cleandoc(function.__doc__ or "")
    if others := [other for other in function_names() if other != name and find_function(other) is function]:
        documentation += f"\n\nAlso called {', '.join(f'`{other}`' for other in others)}."
    return Entry(name, function.__module__, _signature(inspect.signature(function)), documentation)


def _signature(signature: inspect.Signature) -> str:
    """A signature as it is called: names and defaults, without annotations."""
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is inspect.Parameter.empty else f"={shown(parameter.default)}"
        parts.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def shown(value: Any) -> str:
    """A default as Python: types by their names."""
    return repr(str(value) if type(value).__module__.startswith("xdsl") else value)
